"""EM for tables of categories and numbers: equal to other packages, to enumeration, and to itself."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from scipy.special import logsumexp
from scipy.stats import multivariate_normal, norm
from sklearn.mixture import GaussianMixture

import eigentree as et
from eigentree.emissions.families import make
from eigentree.errors import DataError, GraphError, NetworkError, ParameterError
from eigentree.inference.mixed.mixed_network import MixedNetwork

ML = {"family": "gaussian", "prior_rows": 0.0}
FULL = {"family": "full", "prior_rows": 0.0}


def drawn(rows: int, seed: int = 0) -> pd.DataFrame:
    """Rows of two numbers that are correlated, one that is not, and two categories, in three classes."""
    random = np.random.default_rng(seed)
    which = random.choice(3, rows, p=[0.5, 0.3, 0.2])
    mean = np.array([[0.0, 0.0, 1.0], [3.0, 1.0, 0.0], [-2.0, 4.0, 5.0]])[which]
    noise = random.multivariate_normal(np.zeros(3), [[1.0, 0.6, 0.0], [0.6, 1.0, 0.0], [0.0, 0.0, 0.5]], rows)
    colour = np.array(["red", "green", "blue"])[(which + (random.random(rows) < 0.2)) % 3]
    size = np.where(random.random(rows) < np.array([0.2, 0.5, 0.9])[which], "large", "small")
    numbers = dict(zip("abc", (mean + noise).T, strict=True))
    return pd.DataFrame({**numbers, "colour": colour, "size": size})


def network_of(
    graph: et.LatentGraph, table: pd.DataFrame, groups: dict[tuple[str, ...], Any], seed: int
) -> MixedNetwork:
    """A network whose emissions are fitted to random posteriors."""
    random = np.random.default_rng(seed)
    discrete = et.LatentNetwork.random(graph, seed=seed)
    emissions = {}
    for group, family in groups.items():
        cells, states = (
            table[list(group)].to_numpy(),
            int(np.prod([graph.states[p] for p in graph.parents(group[0])])),
        )
        start = make(family, cells, np.ones(len(cells)), states)
        emissions[group] = start.fitted(cells, random.dirichlet(np.full(states, 0.3), len(cells)))
    tables = {name: discrete.tables[name] for name in graph.names if not any(name in group for group in groups)}
    return MixedNetwork(graph, tables, emissions)


@pytest.mark.parametrize("kind", ["full", "diag", "tied"])
def test_em_of_normal_mixtures_is_that_of_scikit_learn(kind: str) -> None:
    X = drawn(300)[["a", "b", "c"]].to_numpy()
    posterior = np.random.default_rng(0).dirichlet(np.ones(3), len(X))
    theirs = GaussianMixture(3, covariance_type=kind, reg_covar=0.0, tol=0.0)
    theirs._initialize(X, posterior)
    names = ("x0", "x1", "x2")
    graph = et.zoo.Mixture(3).build([1, 1, 1])
    groups: dict[tuple[str, ...], Any] = {
        names: {"family": {"full": "full", "tied": "tied"}.get(kind), "prior_rows": 0.0}
    }
    if kind == "diag":
        groups = {(name,): ML for name in names}
    start = {
        group: make(family, X[:, [names.index(n) for n in group]], np.ones(300), 3).fitted(
            X[:, [names.index(n) for n in group]], posterior
        )
        for group, family in groups.items()
    }
    init = MixedNetwork(graph, {"h": posterior.mean(axis=0)}, start)
    ours = et.EMJunctionTree(
        graph,
        init=init,
        max_iter=20,
        tol=0.0,
        pseudo_counts=0.0,
        stopping="paper",
        emissions={names: groups[names]} if kind != "diag" else dict.fromkeys(names, ML),
    ).fit(X)
    values = []
    for _ in range(21):
        value, log_posterior = theirs._e_step(X)
        values.append(value * len(X))
        theirs._m_step(X, log_posterior)
    assert_allclose(ours.history_, values[: len(ours.history_)], rtol=0, atol=1e-8 * len(X))
    assert len(ours.history_) == 21


@pytest.mark.filterwarnings("ignore:Initializations did not converge")
def test_an_iteration_of_a_mixed_model_is_that_of_stepmix() -> None:
    stepmix = pytest.importorskip("stepmix.stepmix")
    table = drawn(400)
    codes = {name: table[name].astype("category").cat.codes for name in ("colour", "size")}
    data = table.assign(**codes).astype(float)
    parts = {
        "numbers": {"model": "gaussian_diag", "n_columns": 3},
        "labels": {"model": "categorical", "n_columns": 2},
    }

    def fitted(iterations: int) -> Any:
        model = stepmix.StepMix(
            n_components=3,
            measurement=parts,
            max_iter=iterations,
            abs_tol=0.0,
            rel_tol=0.0,
            random_state=0,
            verbose=0,
            progress_bar=0,
        )
        return model.fit(data)

    def network(model: Any) -> MixedNetwork:
        found = model.get_parameters()
        numbers, labels = found["measurement"]["numbers"], found["measurement"]["labels"]
        graph = et.LatentGraph(
            {"h": 3, "a": 1, "b": 1, "c": 1, "colour": 3, "size": 2}, [("h", name) for name in table.columns], ["h"]
        )
        emissions = {}
        for place, name in enumerate("abc"):
            start = make(ML, table[[name]].to_numpy(), np.ones(len(table)), 3)
            vector = np.concatenate([numbers["means"][:, place], numbers["covariances"][:, place]])
            emissions[name] = start.of_vector(vector)
        pis = labels["pis"].reshape(3, 2, -1)
        tables = {"h": found["weights"], "colour": pis[:, 0, :3], "size": pis[:, 1, :2]}
        return MixedNetwork(graph, tables, emissions)

    before, after = (network(fitted(iterations)) for iterations in (4, 5))
    ours = et.EMJunctionTree(
        before.graph, init=before, max_iter=1, tol=0.0, pseudo_counts=0.0, emissions=dict.fromkeys("abc", ML)
    ).fit(table)
    assert_allclose(ours.network_.tables["h"], after.tables["h"], atol=1e-6)
    assert_allclose(ours.network_.tables["colour"], after.tables["colour"], atol=1e-6)
    for name in "abc":
        assert_allclose(ours.network_.all_emissions[(name,)].vector, after.all_emissions[(name,)].vector, atol=1e-5)


TREE = et.LatentGraph(
    {"g": 2, "h": 3, "a": 1, "b": 1, "c": 1, "colour": 3, "size": 2},
    [("g", "h"), ("h", "a"), ("h", "b"), ("g", "c"), ("h", "c"), ("g", "colour"), ("h", "size"), ("size", "c")],
    ["g", "h"],
)
GROUPS: dict[tuple[str, ...], Any] = {("a", "b"): FULL, ("c",): ML}


def enumerated(network: MixedNetwork, row: dict[str, Any]) -> np.ndarray:
    """The log joint density of a row with each state of g, h and a missing size, by hand."""
    tables, joint = network.tables, np.full((2, 3), -np.inf)
    full, single = network.emissions[("a", "b")], network.emissions[("c",)]
    known = [place for place, name in enumerate(("a", "b")) if not np.isnan(row[name])]
    for g, h, size in itertools.product(range(2), range(3), range(2)):
        if row["size"] not in (None, size):
            continue
        value = np.log(tables["g"][g] * tables["h"][g, h] * tables["size"][h, size])
        if row["colour"] is not None:
            value += np.log(tables["colour"][g, row["colour"]])
        if known:
            ab = np.array([row["a"], row["b"]])[known]
            value += multivariate_normal.logpdf(ab, full.mean[h][known], full.covariance[h][np.ix_(known, known)])
        if not np.isnan(row["c"]):
            state = (g * 3 + h) * 2 + size
            value += norm.logpdf(row["c"], single.mean[state], np.sqrt(single.variance[state]))
        joint[g, h] = np.logaddexp(joint[g, h], value)
    return joint


ROWS = [
    {"a": 0.3, "b": 1.2, "c": -0.5, "colour": 1, "size": 0},
    {"a": np.nan, "b": 1.2, "c": 4.0, "colour": None, "size": 1},
    {"a": 2.0, "b": np.nan, "c": 0.1, "colour": 2, "size": None},
    {"a": np.nan, "b": np.nan, "c": np.nan, "colour": 0, "size": 0},
    {"a": 40.0, "b": -30.0, "c": 60.0, "colour": 0, "size": 0},
]


def as_array(rows: list[dict[str, Any]]) -> np.ndarray:
    cells = [
        [row["a"], row["b"], row["c"], *(np.nan if row[n] is None else row[n] for n in ("colour", "size"))]
        for row in rows
    ]
    return np.array(cells, float)


def test_queries_of_a_tree_equal_enumeration() -> None:
    network = network_of(TREE, drawn(200), GROUPS, seed=1)
    X = as_array(ROWS)
    joint = np.array([enumerated(network, row) for row in ROWS])
    assert_allclose(network.log_prob(X), logsumexp(joint, axis=(1, 2)), atol=1e-10)
    posterior = np.exp(joint - logsumexp(joint, axis=(1, 2), keepdims=True))
    assert_allclose(network.posterior(X, ["g", "h"]), posterior, atol=1e-10)
    assert_allclose(network.predict_proba(X, "h"), posterior.sum(axis=1), atol=1e-10)
    decoded = network.decode(X[:2])
    best = joint[:2].reshape(2, -1).argmax(axis=1)
    assert_allclose(decoded.states, np.stack(np.unravel_index(best, (2, 3)), axis=1))
    assert_allclose(decoded.log_prob, joint[:2].reshape(2, -1).max(axis=1), atol=1e-10)
    # A category given the others, its own cell not read.
    for row, proba in zip(ROWS[:3], np.asarray(network.predict_proba(X[:3], "colour")), strict=True):
        scores = np.array([logsumexp(enumerated(network, {**row, "colour": colour})) for colour in range(3)])
        assert_allclose(proba, np.exp(scores - logsumexp(scores)), atol=1e-10)


def test_a_number_given_the_rest_has_the_conditional_density() -> None:
    network = network_of(TREE, drawn(200), GROUPS, seed=2)
    row = {"a": np.nan, "b": 0.4, "c": 1.0, "colour": 1, "size": None}
    density = network.conditional(["a"], {"b": 0.4, "c": 1.0, "colour": 1})
    with pytest.raises(et.ParameterError, match="n is a whole number of at least 1, not -1"):
        density.sample(-1)
    with pytest.raises(
        et.DataError, match=r"'a' is a number .*conditional\(\['a'\], .* without 'colour' beside it"
    ):
        network.conditional(["colour", "a"], {})
    grid = np.linspace(-20.0, 20.0, 801)
    values = np.array([logsumexp(enumerated(network, {**row, "a": a})) for a in grid])
    expected = np.exp(values - logsumexp(enumerated(network, row)))
    assert_allclose(density.pdf(grid), expected, atol=1e-10)
    step = grid[1] - grid[0]
    assert_allclose(expected.sum() * step, 1.0, atol=1e-6)
    mean = (grid * expected).sum() * step
    assert_allclose(density.mean, mean, atol=1e-5)
    X = as_array([row])
    assert_allclose(network.predict(X, "a"), [mean], atol=1e-5)
    assert_allclose(network.impute(X)[0, 0], mean, atol=1e-5)
    below = (np.cumsum(expected) - 0.5 * expected) * step
    for share, found in zip((0.05, 0.5, 0.95), np.asarray(network.predict_quantiles(X, "a"))[0], strict=True):
        assert_allclose(np.interp(found, grid, below), share, atol=2e-3)
    assert_allclose(density.cdf(density.quantile([0.1, 0.6])), [0.1, 0.6], atol=1e-9)


def test_posteriors_of_many_rows_are_those_of_few() -> None:
    table = drawn(5000)
    model = et.LatentClassModel(3, random_state=0, n_init=1, max_iter=5).fit(table)
    proba = np.asarray(model.predict_proba(table))
    assert_allclose(proba[-100:], np.asarray(model.predict_proba(table[-100:])), atol=1e-12)
    assert_allclose(np.asarray(model.posterior(table, ["h"])), proba, atol=1e-12)
    assert len(model.sample_hidden(table, random_state=0)) == 5000
    assert model.entropy(table) < 1


def test_one_family_of_groups_is_of_all_numbers_below_the_same_parents() -> None:
    table = drawn(200)
    alone = et.LatentClassModel(2, emissions="full", random_state=0).fit(table)
    named = et.LatentClassModel(2, emissions={("a", "b", "c"): "full"}, random_state=0).fit(table)
    assert alone.emissions_["a", "b", "c"].covariance.shape == (2, 3, 3)
    np.testing.assert_array_equal(alone.score_samples(table), named.score_samples(table))
    tree = et.EMJunctionTree(TREE, emissions="full", random_state=0, n_init=1).fit(table)
    assert {frozenset(TREE.parents(name) for name in group) for group in tree.network_.emissions} == {
        frozenset([TREE.parents(name)]) for name in "abc"
    }


def test_a_family_of_all_numbers_where_there_are_none_is_warned_of() -> None:
    answers = pd.DataFrame(np.random.default_rng(0).integers(1, 6, (100, 2)), columns=["a", "b"])
    with pytest.warns(UserWarning, match=r"every column was taken for labels; .* emissions=\{'a': 'ordinal'\}"):
        et.LatentClassModel(2, emissions="ordinal", random_state=0).fit(answers)
    with pytest.warns(UserWarning, match="'gaussian' is the family of all numbers"):
        et.HMM(2, emissions="gaussian", random_state=0).fit([answers["a"].to_numpy()])


def test_quantiles_of_counts_are_whole() -> None:
    random = np.random.default_rng(0)
    counts = pd.DataFrame({"n": random.poisson(1.0, 300), "m": random.poisson(30.0, 300)})
    model = et.LatentClassModel(2, emissions={"n": "poisson", "m": "poisson"}, random_state=0, n_init=1).fit(counts)
    for name in counts:
        found = np.asarray(model.predict_quantiles(counts, name, quantiles=[0.01, 0.05, 0.5, 0.95]))
        np.testing.assert_array_equal(found, np.rint(found))
    density = model.conditional(["n"], given={"m": 30})
    assert density.pdf(np.arange(100)).sum() == pytest.approx(1.0)
    points, heights = density.plot().lines[0].get_data()
    np.testing.assert_array_equal(points, np.rint(points))
    np.testing.assert_array_equal(heights, density.pdf(points))


@pytest.mark.parametrize("unit", ["datetime64[D]", "datetime64[us]", "timedelta64[s]"])
def test_predicted_dates_are_dates_whose_days_are_the_predicted_numbers(unit: str) -> None:
    random = np.random.default_rng(1)
    days, sizes = random.integers(0, 900, 300), random.choice(["s", "l"], 300)
    dates = (days * np.timedelta64(1, "D") + np.array(0, unit)).astype(unit)
    table = pd.DataFrame({"day": dates, "size": sizes})
    numbers = pd.DataFrame({"day": days.astype(float), "size": sizes})
    models = [
        et.LatentClassModel(1, random_state=0, emissions={"day": "gaussian"}).fit(each) for each in (table, numbers)
    ]
    (mean, ends), (number, shares) = (
        (model.predict(table[["size"]], "day"), model.predict_quantiles(table[["size"]], "day")) for model in models
    )
    assert mean.dtype == ends.dtype == models[0].columns_.meanings[0].unit
    for found, expected in ((mean, number), (ends.array, shares.array)):
        assert_allclose((found - np.array(0, found.dtype)) / np.timedelta64(1, "D"), np.rint(expected))
    assert str(ends.array[0, 1].astype(f"{ends.dtype.kind}8[us]").item()) in repr(ends)


def test_a_density_is_asked_at_numbers_or_dates() -> None:
    days = np.random.default_rng(0).integers(0, 900, 300)
    table = pd.DataFrame({"day": np.datetime64("2020-01-01") + days, "size": np.where(days % 7 < 3, "s", "l")})
    density = et.LatentClassModel(1, random_state=0).fit(table).conditional(["day"], given={})
    asked = "2021-05-06"
    number = (np.datetime64(asked) - np.datetime64(0, "D")).astype(float)
    for when in (pd.Timestamp(asked), [np.datetime64(asked, "us")], pd.Series(pd.to_datetime([asked]))):
        assert density.pdf(when).tolist() == density.pdf(number).tolist()
        assert density.cdf(when).tolist() == density.cdf(number).tolist()
    for bad in ("soon", [[1.0, 2.0]], np.nan):
        with pytest.raises(DataError, match="x is a list of numbers, or of dates"):
            density.pdf(bad)
    with pytest.raises(ParameterError, match="quantiles are shares between 0 and 1, not 95"):
        density.quantile(95)


def test_samples_follow_the_model() -> None:
    network = network_of(TREE, drawn(200), GROUPS, seed=3)
    X = np.asarray(network.sample(20_000, random_state=0))
    for name, place in (("a", 0), ("c", 2)):
        density = network.conditional([name], {})
        share = (X[:, place] <= density.quantile([0.3])[0]).mean()
        assert abs(share - 0.3) < 4 * np.sqrt(0.21 / 20_000)
    given = np.asarray(network.sample(20_000, random_state=1, given={"b": 0.4, "colour": 1}))
    assert (given[:, 1] == 0.4).all()
    assert (given[:, 3] == 1).all()
    density = network.conditional(["a"], {"b": 0.4, "colour": 1})
    assert abs((given[:, 0] <= density.quantile([0.7])[0]).mean() - 0.7) < 4 * np.sqrt(0.21 / 20_000)
    holes = np.repeat(as_array([{"a": np.nan, "b": 0.4, "c": np.nan, "colour": 1, "size": None}]), 20_000, axis=0)
    filled = np.asarray(network.impute(holes, method="sample", random_state=2))
    assert abs((filled[:, 0] <= density.quantile([0.7])[0]).mean() - 0.7) < 4 * np.sqrt(0.21 / 20_000)


def test_the_objective_never_falls_and_the_order_of_rows_and_columns_is_no_matter() -> None:
    table = drawn(300)
    table.loc[::7, "a"] = np.nan
    table.loc[::11, "colour"] = None
    graph = TREE
    init = network_of(graph, drawn(300), {("a", "b"): "full", ("c",): "gaussian"}, seed=4)
    settings = {"emissions": {("a", "b"): "full"}, "init": init, "max_iter": 30, "tol": 0.0}
    model = et.EMJunctionTree(graph, **settings).fit(table)
    assert (np.diff(model.history_) >= -1e-9).all()
    assert len(model.history_) > 5
    order = np.random.default_rng(0).permutation(len(table))
    other = et.EMJunctionTree(graph, **settings).fit(table.iloc[order][["size", "c", "b", "colour", "a"]])
    assert_allclose(other.history_, model.history_, rtol=1e-9)
    assert_allclose(other.score_samples(table), model.score_samples(table), atol=1e-6)


def test_weights_are_copies_of_rows() -> None:
    table = drawn(60)
    weights = np.random.default_rng(0).integers(1, 4, len(table))
    init = network_of(
        et.zoo.Mixture(2).build([1, 1, 1, 3, 2], list(table.columns)),
        table,
        {("a", "b"): "full", ("c",): "gaussian"},
        5,
    )
    settings = {"emissions": {("a", "b"): "full"}, "init": init, "max_iter": 10, "tol": 0.0}
    once = et.EMJunctionTree(init.graph, **settings).fit(table, sample_weight=weights)
    often = et.EMJunctionTree(init.graph, **settings).fit(table.loc[table.index.repeat(weights)])
    assert_allclose(once.history_, often.history_, rtol=1e-9)


def test_a_planted_mixture_is_found() -> None:
    table = drawn(3_000, seed=1)
    model = et.LatentClassModel(3, emissions={("a", "b"): "full"}, random_state=0).fit(table)
    assert_allclose(model.class_weights_, [0.5, 0.3, 0.2], atol=0.03)
    full = model.emissions_["a", "b"]
    assert_allclose(full.mean, [[0.0, 0.0], [3.0, 1.0], [-2.0, 4.0]], atol=0.15)
    assert_allclose(full.covariance, np.broadcast_to([[1.0, 0.6], [0.6, 1.0]], (3, 2, 2)), atol=0.15)
    assert model.n_parameters_ == 2 + 3 * 5 + 3 * 2 + 3 * 2 + 3 * 1


def test_a_table_alone_is_enough() -> None:
    train, held, test = drawn(300, seed=2), drawn(200, seed=4), drawn(2_000, seed=3)
    model = et.EMJunctionTree(random_state=0, n_init=2).fit(train, validation=held)
    assert model.search_.trials[0].emissions
    classes = et.LatentClassModel(3, random_state=0).fit(train)
    assert model.score(test) > classes.score(test)
    shuffled = train.sample(frac=1.0, random_state=1)
    again = et.EMJunctionTree(random_state=0, n_init=2).fit(shuffled, validation=held)
    assert_allclose(again.score(test), model.score(test), atol=1e-6)


def test_files_and_pickles_hold_emissions(tmp_path: Any) -> None:
    table = drawn(200)
    model = et.LatentClassModel(2, emissions={("a", "b"): "full"}, random_state=0).fit(table)
    model.save(tmp_path / "model.eigentree")
    loaded = et.load(tmp_path / "model.eigentree")
    assert loaded.get_params()["emissions"] == {("a", "b"): "full"}
    np.testing.assert_array_equal(loaded.score_samples(table), model.score_samples(table))
    for given in ({"colour": "red"}, {"a": 1.0}):
        pd.testing.assert_frame_equal(
            loaded.sample(5, random_state=0, given=given), model.sample(5, random_state=0, given=given)
        )


def test_errors_name_what_is_wrong() -> None:
    table = drawn(100)
    with pytest.raises(ParameterError, match="no family of emissions 'gausian'; did you mean 'gaussian'"):
        et.LatentClassModel(2, emissions="gausian").fit(table)
    with pytest.raises(DataError, match="emissions name 'd', which is no column"):
        et.LatentClassModel(2, emissions={"d": "gaussian"}).fit(table)
    with pytest.raises(ParameterError, match="emissions name 'a' twice"):
        et.LatentClassModel(2, emissions={"a": "gaussian", ("a", "b"): "full"}).fit(table)
    with pytest.raises(ParameterError, match=r"emissions are given by names of columns, .*, not \(3,\)"):
        et.LatentClassModel(2, emissions={3: "gaussian"}).fit(table)
    with pytest.raises(DataError, match="'a' is a number and has a density"):
        et.LatentClassModel(2, random_state=0).fit(table).predict_proba(table, "a")
    with pytest.raises(DataError, match="'a' is a number and has a density"):
        et.LatentClassModel(2, random_state=0).fit(table).joint(["a", "size"])
    with pytest.raises(DataError, match="'a': family 'lognormal' is of numbers above 0"):
        et.LatentClassModel(2, emissions="lognormal").fit(table)
    counted = table.assign(visits=np.arange(100) % 37)
    model = et.LatentClassModel(2, random_state=0, n_init=1).fit(counted)
    with pytest.raises(DataError, match="'visits': family 'negative_binomial' is of whole numbers"):
        model.score_samples(counted.assign(visits=1.5))
    backwards = et.LatentGraph(
        {"a": 1, "b": 1, "c": 1, "colour": 3, "size": 2, "h": 2}, [("a", "h"), ("h", "b")], ["h"]
    )
    with pytest.raises(GraphError, match="'a' is a number, and so a leaf, but 'h' depends on it"):
        et.EMJunctionTree(backwards).fit(table)
    with pytest.raises(GraphError, match="share an emission, so they need the same parents"):
        et.EMJunctionTree(TREE, emissions={("b", "c"): "full"}).fit(table)
    graph = et.zoo.Mixture(2).build([1, 2], ["a", "size"])
    with pytest.raises(NetworkError, match="has 1 columns and 3 states, but needs 1 and 2"):
        MixedNetwork(graph, {}, {"a": make("gaussian", table[["a"]].to_numpy(), np.ones(100), 3)})
