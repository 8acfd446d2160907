"""The report: singular values against numpy, Theorem 1 against its formula, and warnings where they are due."""

from __future__ import annotations

import math
import warnings
from dataclasses import replace
from functools import reduce

import numpy as np
import pytest
from hypothesis import given, reject, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from random_graphs import latent_graphs

import eigentree as et
from eigentree.spectral.learn.diagnostics import SpectralReport

GRAPH = et.zoo.hmm(8, 2, 2, 4)
NETWORK = et.LatentNetwork.random(GRAPH, seed=0)
ROWS = NETWORK.sample(5_000, seed=1)


def fitted(rows: np.ndarray = ROWS, graph: et.LatentGraph = GRAPH, **recipe) -> et.SpectralJunctionTree:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        return et.SpectralJunctionTree(graph, **recipe).fit(rows)


def pair(rows: np.ndarray, graph: et.LatentGraph, inside: tuple[str, ...], outside: tuple[str, ...]) -> np.ndarray:
    """Frequencies of two groups as a matrix, by a loop."""
    shape = [graph.states[name] for name in (*inside, *outside)]
    table = np.zeros(shape)
    for row in rows[:, [graph.column(name) for name in (*inside, *outside)]]:
        table[tuple(row)] += 1 / len(rows)
    return table.reshape(math.prod(shape[: len(inside)]), -1)


@pytest.mark.parametrize("views", [1, 3])
def test_singular_values_are_those_of_the_pair_moment(views: int) -> None:
    model = fitted(ROWS[:300], shrinkage=0, scaling=None, views=views)
    assert len(model.report_.separators) == len(model.plan_.nodes) - 1
    for report in model.report_.separators:
        moment = np.hstack([pair(ROWS[:300], GRAPH, report.inside, group) for group in report.outside])
        sizes = np.linalg.svd(moment, compute_uv=False)
        known = min(report.rank + 1, len(sizes))
        assert len(report.singular_values) == known
        assert_allclose(report.singular_values, sizes[:known], atol=1e-12)
        assert report.smallest == report.singular_values[report.rank - 1]
        if known > report.rank and sizes[report.rank] > 1e-9:
            assert_allclose(report.gap, sizes[report.rank - 1] / sizes[report.rank])
        elif known == report.rank:
            assert report.gap == math.inf


def canonical(inside: tuple[str, ...], outside: tuple[str, ...]) -> tuple[np.ndarray, np.ndarray]:
    """Correspondence analysis of a joint table: left vectors in terms of states, and canonical correlations."""
    joint = NETWORK.joint([*inside, *outside]).reshape(math.prod(GRAPH.states[name] for name in inside), -1)
    p, q = joint.sum(axis=1), joint.sum(axis=0)
    u, sizes, _ = np.linalg.svd(joint / np.sqrt(np.outer(p, q)))
    return u / np.sqrt(p)[:, None], sizes


def test_scaled_singular_values_of_leaves_are_canonical_correlations() -> None:
    """Many rows, one view: c / N vanishes, and the scaled moment is that of correspondence analysis."""
    model = et.SpectralJunctionTree(GRAPH, views=1).fit_moments(NETWORK)
    leaves = [report for report in model.report_.separators if len(report.inside) == 1]
    assert len(leaves) >= 8
    for report in leaves:
        _, sizes = canonical(report.inside, *report.outside)
        assert_allclose(report.singular_values[: report.rank], sizes[: report.rank], atol=1e-9)
        assert_allclose(report.singular_values[0], 1.0)


def test_other_singular_values_are_those_of_products_of_the_leaves_features() -> None:
    model = et.SpectralJunctionTree(GRAPH, views=1).fit_moments(NETWORK)
    features = {}
    for report in model.report_.separators:
        if len(report.inside) == 1:
            vectors, _ = canonical(report.inside, *report.outside)
            # The first direction is the constant, up to its sign.
            features[report.inside[0]] = vectors[:, : report.rank] * np.sign(vectors[0, 0])
    inner = [report for report in model.report_.separators if len(report.inside) > 1]
    assert inner
    for report in inner:
        sides = [reduce(np.kron, [features[name] for name in group]) for group in (report.inside, *report.outside)]
        joint = NETWORK.joint([*report.inside, *report.outside[0]]).reshape(len(sides[0]), -1)
        moment = sides[0].T @ joint @ sides[1]
        covariance = moment[1:, 1:] - np.outer(moment[1:, 0], moment[0, 1:])
        sizes = np.linalg.svd(covariance, compute_uv=False)
        known = min(report.rank - 1, len(sizes))
        assert_allclose(report.singular_values[1 : 1 + known], sizes[:known], atol=1e-9)


def test_singular_values_converge_to_those_of_the_population() -> None:
    exact = et.SpectralJunctionTree(GRAPH, scaling=None).fit_moments(NETWORK).report_
    near = fitted(NETWORK.sample(400_000, seed=2), shrinkage=0, scaling=None).report_
    for one, two in zip(exact.separators, near.separators, strict=True):
        assert_allclose(one.singular_values[: one.rank], two.singular_values[: two.rank], atol=5e-3)


def test_the_report_repeats_the_plan() -> None:
    model = fitted(max_rank=3)
    nodes = [node for node in model.plan_.nodes if node.parent >= 0]
    for node, report in zip(nodes, model.report_.separators, strict=True):
        for field in ("separator", "states", "rank", "generic_rank", "bound", "inside", "outside"):
            assert getattr(report, field) == getattr(node, field)
    assert model.report_.rows == 5_000
    assert model.report_.shrinkage == model.shrinkage_
    assert (model.shrinkage_, model.floor_) in model.report_.tried


def test_alpha_is_the_smallest_that_any_edge_divides_by() -> None:
    report = fitted().report_
    smallest = sorted(separator.singular_values[separator.rank - 1] for separator in report.separators)
    assert report.alpha == smallest[0]
    assert [separator.smallest for separator in report.weakest(4)] == smallest[:4]
    assert len(report.weakest()) == 5
    assert len(report.weakest(1_000)) == len(report.separators)


def test_noise_is_what_independent_columns_show() -> None:
    """On columns that are independent all that is seen is noise, and its size is about as foretold.

    Features that were themselves fitted to noise show somewhat more of it.
    """
    rows = np.random.default_rng(0).integers(0, 4, (20_000, 8))
    for scaling in ("variance", None):
        report = fitted(rows, scaling=scaling, shrinkage=0).report_
        for separator in report.separators:
            if separator.rank > 1:
                seen = separator.singular_values[1]
                assert 0.3 * separator.noise < seen < 1.7 * separator.noise
                assert separator.weak


# Theorem 1

KNOWN = {
    # One hidden variable between any two nodes; three meet where a chain or a tree branches.
    "hmm of order 1": (et.zoo.hmm(7, 1, 2, 3), 3, 1),
    # A pair of hidden variables from above, one to the leaf, a pair to the next step.
    "hmm of order 2": (et.zoo.hmm(8, 2, 2, 4), 5, 1),
    "hmm of order 3": (et.zoo.hmm(9, 3, 2, 4), 7, 1),
    "mixture": (et.zoo.mixture(9, 3, 2), 3, 1),
    # Boxes that hand two variables up, to the left and to the right.
    "paper's junction tree": (et.zoo.paper_junction_tree(2, 6), 6, 1),
    # Three observed separators meet at the root, and a leaf holds its separator and itself.
    "observed chain": (et.LatentGraph({"a": 2, "b": 3, "c": 2}, [("a", "b"), ("b", "c")]), 3, 3),
    "independent": (et.LatentGraph({"a": 2, "b": 3}), 1, 1),
    "alone": (et.LatentGraph({"a": 5}), 1, 1),
}


@pytest.mark.parametrize(("graph", "order", "observed"), KNOWN.values(), ids=KNOWN.keys())
def test_orders_are_those_counted_by_hand(graph: et.LatentGraph, order: int, observed: int) -> None:
    report = et.SpectralJunctionTree(graph).fit_moments(et.LatentNetwork.random(graph, seed=0)).report_
    assert (report.order, report.observed_order) == (order, observed)
    assert report.cliques == len(report.separators) + 1
    assert report.largest_observed == max(graph.states[name] for name in graph.observed)
    assert report.largest_hidden == max((graph.states[name] for name in graph.hidden), default=1)


def theorem_1(report: SpectralReport, epsilon: float, delta: float, beta: float) -> float:
    """As printed, with the constant 1."""
    leading = (4 * report.largest_hidden**2 / (3 * beta**2)) ** report.order
    observed = report.largest_observed**report.observed_order
    cliques = math.log(report.cliques / delta) * report.cliques**2
    return leading * observed * cliques / (epsilon**2 * report.alpha**4)


@pytest.fixture(scope="module")
def report() -> SpectralReport:
    return fitted().report_


@settings(max_examples=50, deadline=None)
@given(epsilon=st.floats(1e-3, 1.0), delta=st.floats(1e-6, 0.5), beta=st.floats(1e-2, 1.0))
def test_rows_are_those_of_theorem_1(report: SpectralReport, epsilon: float, delta: float, beta: float) -> None:
    rows = report.rows_of_theorem_1(epsilon, delta, beta)
    assert_allclose(rows, theorem_1(report, epsilon, delta, beta), rtol=1e-9)
    guess = math.sqrt(report.alpha)
    assert_allclose(report.rows_of_theorem_1(epsilon, delta), theorem_1(report, epsilon, delta, guess), rtol=1e-9)


def test_theorem_1_requires_more_the_harder_the_task(report: SpectralReport) -> None:
    base = report.rows_of_theorem_1(0.1, 0.05, 0.5)
    assert report.rows_of_theorem_1(0.05, 0.05, 0.5) == pytest.approx(4 * base)
    assert report.rows_of_theorem_1(0.1, 0.01, 0.5) > base
    assert report.rows_of_theorem_1(0.1, 0.05, 0.25) == pytest.approx(base * 4**report.order)
    weaker = replace(
        report,
        separators=tuple(replace(s, singular_values=s.singular_values / 2) for s in report.separators),
    )
    assert weaker.rows_of_theorem_1(0.1, 0.05, 0.5) == pytest.approx(16 * base)
    gone = replace(
        report,
        separators=tuple(replace(s, singular_values=s.singular_values[:1]) for s in report.separators),
    )
    assert gone.alpha == 0
    assert gone.rows_of_theorem_1() == math.inf
    assert report.rows_of_theorem_1(1e-300, 1e-300, 1e-100) == math.inf


# The table


@settings(max_examples=30, deadline=None)
@given(latent_graphs(most_variables=7), st.integers(0, 99), st.booleans())
def test_the_table_names_the_weakest_and_fits_120_columns(graph: et.LatentGraph, seed: int, exact: bool) -> None:
    long = {name: f"{name} {'of a rather long name ' * 2}" for name in graph.names}
    graph = et.LatentGraph(
        {long[n]: k for n, k in graph.states.items()},
        [(long[a], long[b]) for a, b in graph.edges],
        [long[n] for n in graph.hidden],
        graph.directed,
    )
    network = et.LatentNetwork.random(graph, seed=seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        model = et.SpectralJunctionTree(graph)
        report = (model.fit_moments(network) if exact else model.fit(network.sample(50, seed=0))).report_
    lines = str(report).splitlines()
    assert max(map(len, lines)) <= 120
    assert ("population moments" if exact else "50 rows") in lines[0]
    table = [line for line in lines if line.startswith("  ")]
    assert len(table) == 1 + min(5, len(report.separators))
    for line, separator in zip(table[1:], report.weakest(), strict=True):
        assert line.strip().startswith("{" + ", ".join(separator.separator)[:15])
        words = line[26:].split()
        assert words[0] == str(separator.rank)
        assert words[3:5] == [str(separator.states), "states,"]
        assert float(words[1]) == pytest.approx(separator.smallest, rel=0.01)
        assert float(words[2]) == pytest.approx(separator.noise, rel=0.1)


def test_the_table_marks_what_noise_could_be() -> None:
    few, many = fitted(ROWS[:200]).report_, et.SpectralJunctionTree(GRAPH).fit_moments(NETWORK).report_
    weak = [separator for separator in few.separators if separator.weak]
    assert weak
    assert f"! {len(weak)} of them have a direction" in str(few)
    assert "!" not in str(many)
    (name, *_) = str(few).split("{", 1)[1].split("}", 1)
    assert tuple(name.split(", ")) == few.weakest(1)[0].separator


# Warnings


@pytest.mark.parametrize("recipe", [{}, {"shrinkage": 1}, {"shrinkage": 0}, {"scaling": None}], ids=str)
def test_a_column_that_never_varies_cannot_show_a_hidden_state(recipe: dict) -> None:
    rows = ROWS.copy()
    rows[:, 4] = 1
    with pytest.warns(
        RuntimeWarning, match=r"cannot support the rank of \d+ of 13 separators: \{h4\} needs rank 2, .*max_rank"
    ):
        model = et.SpectralJunctionTree(GRAPH, **recipe).fit(rows)
    (leaf,) = [separator for separator in model.report_.separators if separator.inside == ("x4",)]
    assert leaf.absent


def test_independent_columns_have_nothing_to_support() -> None:
    et.SpectralJunctionTree(et.LatentGraph({"a": 2, "b": 3}), shrinkage=0).fit([[0, 1]])  # warnings are errors


def test_fewer_symbols_than_the_rank_are_too_few() -> None:
    graph = et.zoo.mixture(6, 3, 4)
    network = et.LatentNetwork.random(graph, seed=0)
    rows = network.sample(5_000, seed=0)
    et.SpectralJunctionTree(graph).fit(rows)  # no warning: warnings are errors
    rows[:, 2] %= 2
    with pytest.warns(RuntimeWarning, match=r"the rank of \d of 9 separators: \{h\} needs rank 3"):
        model = et.SpectralJunctionTree(graph).fit(rows)
    absent = [separator.inside for separator in model.report_.separators if separator.absent]
    assert ("x2",) in absent
    assert all("x2" in inside for inside in absent)
    et.SpectralJunctionTree(graph, max_rank=2).fit(rows)  # the advice helps


def test_what_occurs_on_the_poorer_side_bounds_the_rank() -> None:
    graph = et.zoo.mixture(2, 3, 4)
    rows = et.LatentNetwork.random(graph, seed=0).sample(5_000, seed=0)
    rows[:, 1] %= 2
    with pytest.warns(RuntimeWarning, match="needs rank 3"):
        model = et.SpectralJunctionTree(graph).fit(rows)
    sides = {separator.inside: separator for separator in model.report_.separators}
    assert {("x0",), ("x1",)} <= set(sides)
    for separator in sides.values():
        assert separator.seen == 2, "the constant, and one direction of the column with two symbols"
        assert separator.absent


def test_few_rows_without_shrinkage_are_warned_of() -> None:
    with pytest.warns(RuntimeWarning, match=r"the data cannot support the rank .* noise alone reaches") as caught:
        et.SpectralJunctionTree(GRAPH, shrinkage=0).fit(ROWS[:100])
    assert len(caught) == 1
    assert caught[0].filename == __file__, "it points at the caller"


def test_where_held_out_rows_chose_the_shrinkage_weak_directions_are_no_news() -> None:
    model = et.SpectralJunctionTree(GRAPH).fit(ROWS[:100])  # no warning: warnings are errors
    assert any(separator.weak for separator in model.report_.separators)
    et.SpectralJunctionTree(GRAPH, shrinkage=3).fit(ROWS[:100])


@settings(max_examples=40, deadline=None)
@given(latent_graphs(most_variables=8, fewest_states=2), st.integers(0, 999), st.sampled_from(["variance", None]))
def test_population_moments_are_never_warned_of(graph: et.LatentGraph, seed: int, scaling: str | None) -> None:
    network = et.LatentNetwork.random(graph, seed=seed)
    try:
        report = et.SpectralJunctionTree(graph, scaling=scaling).fit_moments(network).report_
    except et.RankError:
        # Few graphs have no views of full rank, which is an error and no warning.
        reject()
    assert report.rows == math.inf
    assert not any(separator.weak for separator in report.separators)
    assert {separator.noise for separator in report.separators} <= {0.0}
