"""Trees in sections: rows that agree below an edge are passed once there, and nothing else changes."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from em_problems import brute_counts, by_table, coded, counted, is_learned, problems
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

import eigentree as et
from eigentree.em.estep import expectation as expectation_module
from eigentree.em.estep import row_passes as passing
from eigentree.em.estep import row_sharing as sections
from eigentree.em.estep.cliques import UNSCALED, Clique, Leaf
from eigentree.em.estep.expectation import CodedRows, Expectation
from eigentree.em.estep.row_sharing import Sectioning
from eigentree.em.optimize.objective import ExpectedCounts
from eigentree.em.parameters import ParameterLayout

SLOW = settings(deadline=None, max_examples=60)


@pytest.fixture(autouse=True)
def _cut_wherever_possible(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sections for few rows, too, and wherever one row less is passed."""
    monkeypatch.setattr(expectation_module, "LEAST_WORK", 0)
    monkeypatch.setattr(sections, "LARGEST_SHARE", 1.0)
    monkeypatch.setattr(sections, "UP_TWICE", 0.0)


def tree(hidden: int, states: int, seed: int = 0) -> et.LatentGraph:
    """Hidden variables as a random tree, with one to three columns each."""
    random = np.random.default_rng(seed)
    sizes = {f"h{i}": states for i in range(hidden)}
    edges = [(f"h{random.integers(i)}", f"h{i}") for i in range(1, hidden)]
    for i in range(hidden):
        for j in range(random.integers(1, 4)):
            sizes[f"x{i}{j}"] = int(random.integers(2, 4))
            edges.append((f"h{i}", f"x{i}{j}"))
    return et.LatentGraph(sizes, edges, [f"h{i}" for i in range(hidden)])


TREES = {
    "few states": tree(9, 2),
    "odd states": tree(8, 5, 1),
    "many states": tree(7, 9, 2),
    "chain": et.zoo.hmm(12, 1, 3, 2),
    "2nd order": et.zoo.hmm(9, 2, 2, 2),
    "hub": et.zoo.mixture(20, 8, 2),
    "factorial": et.zoo.factorial_hmm(5, 2, 3, 2),
    "bare end": et.LatentGraph(
        {"a": 9, "b": 8, "c": 3, "u": 3, "v": 2}, [("a", "b"), ("a", "c"), ("a", "u"), ("c", "v")], [*"abc"]
    ),
}


def rows_of(graph: et.LatentGraph, count: int, holes: float = 0.1) -> np.ndarray:
    """Rows of a random network, some cells of two columns missing."""
    rows = et.LatentNetwork.random(graph, concentration=0.5, seed=8).sample(count, seed=9)
    random = np.random.default_rng(0)
    rows[:, :2] = np.where(random.random((count, 2)) < holes, -1, rows[:, :2])
    return rows


def same_counts(network: et.LatentNetwork, rows: np.ndarray, **how: object) -> tuple[ExpectedCounts, ...]:
    """The counts of the whole tree and in sections."""
    weights = np.random.default_rng(1).choice([0.0, 0.5, 1.0, 3.0], len(rows))
    return tuple(counted(network, rows, weights, often=often, **how) for often in (False, True))


def prepared(graph: et.LatentGraph, rows: np.ndarray) -> tuple[Expectation, CodedRows]:
    """What counts rows, and rows that it will count often."""
    codes = coded(graph, rows)
    missing = [name for name, column in zip(graph.observed, rows.T, strict=True) if (column < 0).any()]
    expectation = Expectation.of(graph, missing)
    return expectation, expectation.coded(codes, np.ones(len(rows)), often=True)


@SLOW
@given(problems())
def test_counts_agree_with_enumeration(problem: tuple[et.LatentNetwork, np.ndarray, np.ndarray]) -> None:
    network, rows, weights = problem
    reference, log_likelihood = brute_counts(network, rows, weights)
    for many in (1, 1_000_000):
        found = counted(network, rows, weights, many, often=True)
        assert_allclose(found.log_likelihood, log_likelihood, rtol=1e-10, atol=1e-10)
        for key, table in by_table(network.graph, found.counts).items():
            expected = reference[key] if is_learned(network.graph, key) else 0.0
            assert_allclose(table, expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("name", TREES)
def test_counts_are_those_of_the_whole_tree(name: str, threads: int) -> None:
    network = et.LatentNetwork.random(TREES[name], seed=3)
    for rows in (rows_of(TREES[name], 900), rows_of(TREES[name], 30)):
        whole, cut = same_counts(network, rows, threads=threads)
        assert_allclose(cut.log_likelihood, whole.log_likelihood, rtol=1e-12)
        assert_allclose(cut.counts, whole.counts, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("name", ["many states", "hub"])
def test_in_single_precision_too(name: str) -> None:
    network = et.LatentNetwork.random(TREES[name], seed=3)
    whole, cut = same_counts(network, rows_of(TREES[name], 300), single=True)
    double, _ = same_counts(network, rows_of(TREES[name], 300))
    assert cut.log_likelihood != double.log_likelihood
    assert_allclose(cut.log_likelihood, double.log_likelihood, rtol=1e-6)
    assert_allclose(cut.counts, double.counts, rtol=1e-4, atol=1e-3)
    assert_allclose(whole.counts, double.counts, rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("name", [name for name in TREES if name != "hub"])
def test_each_section_has_the_kinds_of_rows_that_differ_below_it(name: str) -> None:
    graph = TREES[name]
    rows = rows_of(graph, 400, holes=0.0)
    expectation, ready = prepared(graph, rows)
    part = ready.sectioned
    assert part
    sectioning = part.tree.sectioning
    assert len(sectioning.sections) > 1
    # Codes are kept once, for either precision.
    assert part.passage(UNSCALED).codes is part.passage(passing.UNSCALED_SINGLE).codes
    assert all(np.shares_memory(own.codes, part.codes) for own in part.rows if own.codes.size)
    assert len(part.rows[0].weights) == len(rows)

    def columns(number: int) -> list[str]:
        node = expectation.nodes[number]
        if isinstance(node, Leaf):
            return list(node.columns)
        return [name for child in node.children for name in columns(child)]

    for section, own in zip(sectioning.sections[1:], part.rows[1:], strict=True):
        places = [graph.column(name) for name in columns(section.numbers[0])]
        values, often = np.unique(rows[:, places], axis=0, return_counts=True)
        assert sorted(own.weights[own.weights > 0]) == sorted(often)
        assert (own.weights > 0).sum() == len(values)
    cliques = [number for each in sectioning.sections for number in each.numbers]
    # Every node of the tree is in one section, and the root of each section is a leaf of another one as well.
    assert sorted(cliques) == sorted(
        [*range(len(expectation.nodes)), *(s.numbers[0] for s in sectioning.sections[1:])]
    )


def test_where_nothing_is_saved_rows_stay_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = et.zoo.hmm(8, 1, 2, 2)
    rows = rows_of(graph, 2_000, holes=0.0)
    expectation, ready = prepared(graph, rows)
    assert ready.sectioned
    assert all(batch.sectioned for batch in expectation.batches_of(ready, [0, 1000, 2000], often=True))
    monkeypatch.setattr(sections, "UP_TWICE", np.inf)
    assert expectation.coded(coded(graph, rows), np.ones(2_000), often=True).sectioned is None
    assert not any(batch.sectioned for batch in expectation.batches_of(ready, [0, 1000, 2000], often=True))


def numbers_of_tables(part: passing.SectionedRows) -> list[int]:
    """How many numbers the messages of each section but the first take."""
    states = part.tree.states
    return [
        len(own.weights) * int(np.prod([states[name] for name in section.nodes[0].separator]))
        for section, own in zip(part.tree.sectioning.sections[1:], part.rows[1:], strict=True)
    ]


def test_tables_have_room(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = TREES["many states"]
    rows = rows_of(graph, 600, holes=0.0)
    part = prepared(graph, rows)[1].sectioned
    assert part
    # Any of them would fit, but not all.
    room = max(numbers_of_tables(part))
    monkeypatch.setattr(sections, "MOST_NUMBERS", room)
    smaller = prepared(graph, rows)[1].sectioned
    assert smaller
    assert 0 < sum(numbers_of_tables(smaller)) <= room < sum(numbers_of_tables(part))


def test_prepared_rows_can_be_sent_to_other_processes() -> None:
    graph = TREES["chain"]
    _, ready = prepared(graph, rows_of(graph, 300))
    again = pickle.loads(pickle.dumps(ready))
    assert np.array_equal(again.sectioned.codes, ready.sectioned.codes)


def test_rows_pass_fewer_cliques_in_sections(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    graph = et.zoo.latent_tree(5, 4, 2)
    rows = et.LatentNetwork.random(graph, seed=0).sample(4000, seed=1)
    expectation, ready = prepared(graph, rows)
    part = ready.sectioned
    assert part
    passed = sum(
        len(own.weights) * sum(isinstance(node, Clique) for node in section.nodes)
        for section, own in zip(part.tree.sectioning.sections, part.rows, strict=True)
    )
    assert passed < 0.4 * len(rows) * sum(isinstance(node, Clique) for node in expectation.nodes)


@pytest.mark.parametrize("single", [False, True])
@pytest.mark.parametrize("name", TREES)
def test_a_likelihood_alone_has_the_bits_of_one_with_counts(name: str, single: bool) -> None:
    graph = TREES[name]
    expectation, ready = prepared(graph, rows_of(graph, 200))
    parameters = ParameterLayout.of(graph).vector(et.LatentNetwork.random(graph, seed=0))
    alone = expectation.log_likelihood(parameters, ready, single=single)
    assert alone == expectation(parameters, ready, single=single).log_likelihood
    # Nothing is left behind by a pass.
    assert alone == expectation.log_likelihood(parameters, ready, single=single)


def test_batches_are_the_parts_of_rows() -> None:
    graph = TREES["many states"]
    rows = rows_of(graph, 3_000)
    expectation, ready = prepared(graph, rows)
    parameters = ParameterLayout.of(graph).vector(et.LatentNetwork.random(graph, seed=0))
    bounds = [0, 800, 1600, 2300, 3000]
    batches = expectation.batches_of(ready, bounds, often=True)
    for batch, start in zip(batches, bounds, strict=False):
        part = expectation.part(ready, start, start + len(batch.weights))
        assert batch.sectioned
        assert np.array_equal(batch.codes, part.codes)
        whole, cut = expectation(parameters, part), expectation(parameters, batch)
        assert_allclose(cut.log_likelihood, whole.log_likelihood, rtol=1e-12)
        assert_allclose(cut.counts, whole.counts, rtol=1e-10, atol=1e-10)
    # All batches are laid out once.
    assert len({id(batch.sectioned.tree) for batch in batches}) == 1


@pytest.mark.parametrize("place", [0, 250, 499])
def test_an_impossible_row_is_named(place: int) -> None:
    graph = et.zoo.hmm(8, 1, 2, 3)
    tables = dict(et.LatentNetwork.random(graph, seed=0).tables)
    tables["x0"] = [[0.5, 0.5, 0.0], [0.1, 0.9, 0.0]]
    network = et.LatentNetwork(graph, tables)
    rows = np.random.default_rng(0).integers(0, 2, (500, 8))
    assert counted(network, rows, often=True).impossible == -1
    rows[place, 0] = 2
    found = counted(network, rows, often=True)
    assert found.impossible == place
    assert found.log_likelihood == -np.inf


def test_kinds_that_are_too_unlikely_for_doubles_pass_with_care() -> None:
    # Either state explains half the columns and is ruled out by the other half.
    length, odds = 24, 1e-90
    graph = et.zoo.hmm(length, 1, 2, 2)
    tables = {f"h{t}": np.eye(2) for t in range(1, length)} | {"h0": [0.5, 0.5]}
    tables |= {f"x{t}": [[1.0 - odds, odds], [odds, 1.0 - odds]] for t in range(length)}
    network = et.LatentNetwork(graph, tables)
    rows = np.array([[t % 2 for t in range(length)], [1 - t % 2 for t in range(length)], [0] * length] * 2)
    found = counted(network, rows, often=True)
    assert_allclose(found.log_likelihood, 2 * (length * np.log(odds) + np.log(0.5)), rtol=1e-12)
    assert_allclose(by_table(graph, found.counts)["h0"], [4.0, 2.0], rtol=1e-12)


@pytest.mark.parametrize("length", [60, 400])
def test_powers_of_two_of_kinds_are_told(length: int) -> None:
    """Messages of long chains are brought into range in sections as well."""
    graph = et.zoo.hmm(length, 1, 3, 2)
    network = et.LatentNetwork.random(graph, seed=1)
    rows = np.repeat(network.sample(4, seed=0), 3, axis=0)
    found = counted(network, rows, often=True)
    assert_allclose(found.log_likelihood, network.log_prob(rows).sum(), rtol=1e-12)


def test_more_kinds_than_two_bytes_tell_apart() -> None:
    nodes = (
        Clique((), ("h",), (), (), ("h",), (), (), (1, 2)),
        Clique(("h",), ("g",), (), ("h",), ("g",), (), (), (3,)),
        Leaf(("h",), (), ("x",)),
        Leaf(("g",), (), ("y",)),
    )
    count = 2**16 + 1
    codes = np.array([np.zeros(count), np.arange(count)], np.uint32)
    few = Sectioning.of(nodes, (1, 2), {"g": 2, "h": 2}, codes[:, :8] % 2)
    assert few is not None
    sectioning = Sectioning(nodes, (1, count), few.sections)
    first, second = sectioning.rows(codes, np.ones(count))
    assert first.codes.max() == second.codes.max() == count - 1


@st.composite
def weighted_trees(draw: st.DrawFn) -> et.LatentGraph:
    """Hidden variables as a tree, with columns of different sizes."""
    count = draw(st.integers(2, 12))
    sizes = {f"h{i}": 3 for i in range(count)}
    edges = [(f"h{draw(st.integers(0, i - 1))}", f"h{i}") for i in range(1, count)]
    columns = {f"x{i}": draw(st.integers(2, 40)) for i in range(count)}
    return et.LatentGraph(sizes | columns, edges + [(f"h{i}", f"x{i}") for i in range(count)], list(sizes))


@SLOW
@given(weighted_trees())
def test_trees_hang_from_amid_their_columns(graph: et.LatentGraph) -> None:
    nodes = Expectation.of(graph, (), 1).nodes

    def told(number: int) -> float:
        node = nodes[number]
        if isinstance(node, Leaf):
            return sum(np.log2(graph.states[name]) for name in node.columns)
        return sum(map(told, node.children))

    root = nodes[0]
    assert isinstance(root, Clique)
    # A clique above its separator may hold one child that is a clique of the tree, so it is looked through.
    parts = [told(child) for child in root.children]
    largest = max(range(len(parts)), key=parts.__getitem__)
    below = nodes[root.children[largest]]
    if parts[largest] > sum(parts) / 2 and isinstance(below, Clique):
        parts = [told(child) for child in below.children]
    assert max(parts) <= told(0) / 2 + max(np.log2(graph.states[name]) for name in graph.observed)
    assert all(len(node.joined) <= 1 for node in nodes if isinstance(node, Clique))
