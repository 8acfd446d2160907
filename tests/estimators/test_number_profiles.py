"""Profiles and dependencies of numbers: by quadrature, by enumeration, and by what emissions say of themselves."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy.integrate import quad
from scipy.stats import norm

import eigentree as et
from eigentree.emissions.families import make
from eigentree.emissions.full import FullGaussian
from eigentree.emissions.gaussian import Gaussian
from eigentree.estimators.dependencies import edge_strengths
from eigentree.estimators.number_bins import BINS, binned, number_leaves
from eigentree.estimators.profiles import Distinction, Shift
from eigentree.inference.mixed.mixed_network import MixedNetwork

SHARES = np.array([0.5, 0.3, 0.2])
MEANS, SDS = np.array([0.0, 3.0, 10.0]), np.array([1.0, 0.5, 2.0])


def normal(means: np.ndarray, sds: np.ndarray) -> Gaussian:
    return Gaussian(means, sds**2, 0.0, 1.0, 0.0)


def mixture() -> MixedNetwork:
    """Return three classes that show a category and two numbers."""
    graph = et.LatentGraph({"h": 3, "colour": 2, "x": 1, "y": 1}, [("h", "colour"), ("h", "x"), ("h", "y")], ["h"])
    tables = {"h": SHARES, "colour": [[0.9, 0.1], [0.5, 0.5], [0.2, 0.8]]}
    return MixedNetwork(graph, tables, {"x": normal(MEANS, SDS), "y": normal(-MEANS / 2, SDS)})


def chain_of_classes() -> MixedNetwork:
    """Return a tree in which a number hangs on the second of two hidden variables."""
    graph = et.LatentGraph({"a": 2, "b": 3, "c": 2, "x": 1}, [("a", "b"), ("a", "c"), ("b", "x")], ["a", "b"])
    tables = {"a": [0.4, 0.6], "b": [[0.7, 0.2, 0.1], [0.1, 0.3, 0.6]], "c": [[0.9, 0.1], [0.3, 0.7]]}
    return MixedNetwork(graph, tables, {"x": normal(MEANS, SDS)})


def people(rows: int = 400) -> pd.DataFrame:
    random = np.random.default_rng(0)
    which = random.choice(2, rows, p=[0.6, 0.4])
    return pd.DataFrame(
        {
            "colour": np.array(["red", "blue"])[np.where(random.random(rows) < 0.85, which, 1 - which)],
            "height": np.round(np.array([165.0, 180.0])[which] + random.normal(0, 6, rows), 1),
            "weight": np.round(np.array([60.0, 80.0])[which] + random.normal(0, 8, rows), 1),
            "joined": pd.Timestamp("2020-01-01")
            + pd.to_timedelta(which * 500 + random.integers(0, 300, rows), "D"),
        }
    )


@pytest.fixture(scope="module")
def fitted() -> et.LatentClassModel:
    emissions = {("height", "weight"): "full"}
    return et.LatentClassModel(2, emissions=emissions, random_state=0).fit(people())


def mutual_information(means: np.ndarray, sds: np.ndarray) -> float:
    """Return that of the class and a normal number, by quadrature."""

    def integrand(x: float) -> float:
        densities = norm.pdf(x, means, sds)
        whole = SHARES @ densities
        each = np.where(densities > 0, densities * np.log(np.maximum(densities, 1e-300) / whole), 0.0)
        return float(SHARES @ each)

    return float(quad(integrand, -15, 25, limit=400, points=means.tolist())[0])


def test_moments_of_a_profile_are_those_of_the_emission(fitted: et.LatentClassModel) -> None:
    profile = et.profiles(fitted)["h"]
    emission = fitted.emissions_["height", "weight"]
    assert isinstance(emission, FullGaussian)
    for place, name in enumerate(("height", "weight")):
        table = profile.table(name)
        assert table.names == ("h", "moment")
        np.testing.assert_allclose(table.array[:, 0], emission.mean[:, place])
        np.testing.assert_allclose(table.array[:, 1], np.sqrt(emission.covariance[:, place, place]))
        np.testing.assert_allclose(table.array, fitted.tables_[name].array)


def test_densities_of_states_times_shares_add_up_to_that_of_all_rows() -> None:
    profile = et.profiles(mixture())["h"]
    x = np.linspace(-5, 18, 50)
    parts = [share * profile.density("x", place).pdf(x) for place, share in enumerate(SHARES)]
    np.testing.assert_allclose(sum(parts), SHARES @ norm.pdf(x, MEANS[:, None], SDS[:, None]))
    np.testing.assert_allclose(profile.numbers["x"].overall.pdf(x), sum(parts))
    assert profile.numbers["x"].overall.mean == pytest.approx(SHARES @ MEANS)
    with pytest.raises(et.errors.GraphError, match="no number 'colour'"):
        profile.density("colour", 0)


def test_a_number_below_another_hidden_variable_is_a_mixture() -> None:
    network = chain_of_classes()
    given = np.asarray(network.tables["b"])
    found = et.profiles(network)["a"].table("x").array
    mean = given @ MEANS
    np.testing.assert_allclose(found[:, 0], mean)
    np.testing.assert_allclose(found[:, 1] ** 2, given @ (SDS**2 + MEANS**2) - mean**2)


def test_information_about_a_class_is_that_of_quadrature() -> None:
    profile = et.profiles(mixture())["h"]
    nats = dict(zip(profile.columns, profile.nats, strict=True))
    for name, means in (("x", MEANS), ("y", -MEANS / 2)):
        true = mutual_information(means, SDS)
        # Bins tell less than numbers do.
        assert 0.97 * true < nats[name] <= true
    links = et.dependencies(mixture())
    assert {link.other: link.nats for link in links.hidden} == pytest.approx(nats)
    assert edge_strengths(mixture())["h", "x"] == pytest.approx(nats["x"])


@pytest.mark.parametrize("correlation", [-0.9, 0.0, 0.5, 0.9])
def test_information_within_a_group_is_that_of_its_correlation(correlation: float) -> None:
    covariance = np.array([[[4.0, 2 * correlation], [2 * correlation, 1.0]]])
    both = FullGaussian(np.array([[3.0, -1.0]]), covariance, 0.0, np.eye(2), np.zeros(2))
    graph = et.LatentGraph({"h": 1, "x": 1, "y": 1}, [("h", "x"), ("h", "y")], ["h"])
    (link,) = et.dependencies(MixedNetwork(graph, {"h": [1.0]}, {("x", "y"): both})).columns
    true = -0.5 * np.log(1 - correlation**2)
    assert 0.95 * true - 1e-9 <= link.nats <= true + 1e-6


def test_information_of_normal_scores_is_that_of_the_scores() -> None:
    random = np.random.default_rng(3)
    scores = random.multivariate_normal([0, 0], [[1, 0.7], [0.7, 1]], 2_000)
    cells, every = np.exp(scores), np.ones((2_000, 1))
    emission = make("normal_scores", cells, every[:, 0], 1).fitted(cells, every)
    graph = et.LatentGraph({"h": 1, "x": 1, "y": 1}, [("h", "x"), ("h", "y")], ["h"])
    (link,) = et.dependencies(MixedNetwork(graph, {"h": [1.0]}, {("x", "y"): emission})).columns
    assert isinstance(emission, FullGaussian)
    own = emission.covariance[0, 0, 1] / np.sqrt(emission.covariance[0].diagonal().prod())
    assert link.nats == pytest.approx(-0.5 * np.log(1 - own**2), rel=0.05)


def test_bins_have_equal_shares_and_tables_that_add_up() -> None:
    network = mixture()
    leaves = number_leaves(network)
    discrete = binned(network, leaves)
    for name in ("x", "y"):
        table = np.asarray(discrete.tables[name])
        assert table.shape == (3, BINS)
        np.testing.assert_allclose(table.sum(axis=1), 1.0)
        np.testing.assert_allclose(SHARES @ table, 1 / BINS, atol=2e-4)
    plain = et.LatentNetwork.random(et.zoo.mixture(columns=3, hidden_states=2), seed=0)
    assert number_leaves(plain) == {}
    assert binned(plain, {}) is plain


@pytest.mark.parametrize("family", ["lognormal", "negative_binomial", "student", "semiparametric"])
def test_bins_of_any_family_hold_what_its_cdf_says(family: str) -> None:
    random = np.random.default_rng(1)
    cells = np.rint(np.exp(random.normal(1.5, 1.0, 300)))[:, None] + (family == "lognormal")
    emission = make(family, cells, np.ones(300), 2)
    emission = emission.fitted(cells, np.stack([cells[:, 0] > 5, cells[:, 0] <= 5], axis=1) + 0.01)
    graph = et.LatentGraph({"h": 2, "x": 1}, [("h", "x")], ["h"])
    leaf = number_leaves(MixedNetwork(graph, {"h": [0.3, 0.7]}, {"x": emission}))["x"]
    edges = leaf.edges
    assert (np.diff(edges) >= 0).all()
    below = emission.cdf(edges[:, None], np.full((len(edges), 1), np.nan))[:, :, 0].T
    np.testing.assert_allclose(leaf.table.cumsum(axis=1)[:, :-1], below, atol=1e-9)
    if family != "negative_binomial":
        np.testing.assert_allclose([0.3, 0.7] @ leaf.table, 1 / BINS, atol=0.01)


def test_what_sets_a_state_apart_is_a_shift_of_a_number() -> None:
    profile = et.profiles(mixture())["h"]
    whole = profile.numbers["x"].overall.std
    shift = next(one for one in profile.distinctive(2) if one.column == "x")
    assert isinstance(shift, Shift)
    others = (0.5 * 0.0 + 0.3 * 3.0) / 0.8
    assert shift.mean == pytest.approx(10.0)
    assert shift.others == pytest.approx(others)
    assert shift.distance == pytest.approx((10.0 - others) / whole)
    assert any(isinstance(one, Distinction) for one in profile.distinctive(2))
    assert "x 10 ± 2 (others 1.125, +" in repr(profile)


def test_dates_are_shown_as_such(fitted: et.LatentClassModel) -> None:
    assert "joined 202" in repr(et.profiles(fitted))
    assert " days" in repr(et.profiles(fitted))


def test_a_profile_does_not_depend_on_the_order_of_states() -> None:
    network = mixture()
    one, other = et.profiles(network)["h"], et.profiles(network.relabelled({"h": [2, 0, 1]}))["h"]
    np.testing.assert_allclose(other.table("x").array, one.table("x").array[[2, 0, 1]])
    assert other.nats == pytest.approx(one.nats)
    for here, there in zip(one.distinctive(2), other.distinctive(0), strict=True):
        assert here.column == there.column
        assert here[-2:] == pytest.approx(there[-2:])


def test_profiles_of_chains_have_the_means_of_their_emissions() -> None:
    random = np.random.default_rng(0)
    steps = [np.repeat([0, 1], 20) for _ in range(20)]
    sequences = [np.array([0.0, 6.0])[own] + random.normal(size=40) for own in steps]
    model = et.EMHMM(2, random_state=0).fit(sequences)
    profile = et.profiles(model)["state"]
    np.testing.assert_allclose(profile.table(profile.columns[0]).array[:, 0], model.means_[:, 0])
    shares = et.profiles(model, X=sequences)["state"].shares.array
    np.testing.assert_allclose(shares, [0.5, 0.5], atol=0.02)
