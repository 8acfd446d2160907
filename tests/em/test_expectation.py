"""Expected counts: laws of the E-step, of its layout, and of what is kept for it."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from brute_force import all_rows
from em_problems import brute_counts, by_table, counted, is_learned, problems
from growth import steps_of
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

import eigentree as et
from eigentree.core.trees.estep import BlockNode
from eigentree.em.estep.block_layout import BlockLayout, ReadFrom
from eigentree.em.estep.cliques import UNSCALED, Clique, Skeleton
from eigentree.em.estep.expectation import Expectation
from eigentree.em.estep.unique_rows import DistinctRows
from eigentree.em.parameters import ParameterLayout

SLOW = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@SLOW
@given(problems(), st.sampled_from([1, 1_000_000]))
def test_expected_counts_agree_with_enumeration(
    problem: tuple[et.LatentNetwork, np.ndarray, np.ndarray], many: int
) -> None:
    network, rows, weights = problem
    graph = network.graph
    found = counted(network, rows, weights, many)
    reference, log_likelihood = brute_counts(network, rows, weights)
    assert found.impossible == -1
    assert_allclose(found.log_likelihood, log_likelihood, rtol=1e-10, atol=1e-10)
    for key, table in by_table(graph, found.counts).items():
        assert_allclose(table, reference[key] if is_learned(graph, key) else 0.0, atol=1e-10)


def hidden_chain(states: tuple[int, ...]) -> et.LatentGraph:
    sizes = {f"h{t}": size for t, size in enumerate(states)} | {f"x{t}": 2 for t in range(len(states))}
    edges = [(f"h{t}", f"x{t}") for t in range(len(states))]
    edges += [(f"h{t}", f"h{t + 1}") for t in range(len(states) - 1)]
    return et.LatentGraph(sizes, edges, [f"h{t}" for t in range(len(states))])


@pytest.mark.parametrize("many", [1, 1_000_000])
@pytest.mark.parametrize(
    "graph",
    [
        # A missing cell that two tables share is one state in both.
        et.LatentGraph({"a": 3, "b": 4, "c": 2}, [("a", "b"), ("b", "c")]),
        et.zoo.dynamic_bayes_net(3, {"h": 2, "x": 3}, [("h", "x")], [("h", "h"), ("x", "x")], ["h"]),
        et.LatentGraph({"h": 2, "g": 2, "x": 9, "y": 2}, [("h", "x"), ("x", "g"), ("g", "y")], ["h", "g"]),
        # Small cliques go into their parents, and these into theirs.
        hidden_chain((1, 1, 1, 3, 3, 3, 3)),
        hidden_chain((3, 3, 3, 3, 1, 1, 1)),
        hidden_chain((3, 3, 1, 1, 1, 3, 3)),
    ],
    ids=["observed chain", "two chains", "between", "first small", "last small", "middle small"],
)
def test_gaps_in_shared_columns_and_cliques_that_merge(graph: et.LatentGraph, many: int) -> None:
    network = et.LatentNetwork.random(graph, seed=0)
    rows = network.sample(40, seed=1)
    rows[np.random.default_rng(0).random(rows.shape) < 0.4] = -1
    found = counted(network, rows, many=many)
    reference, log_likelihood = brute_counts(network, rows, np.ones(40))
    assert_allclose(found.log_likelihood, log_likelihood, rtol=1e-10)
    for key, table in by_table(graph, found.counts).items():
        assert_allclose(table, reference[key], atol=1e-10)


def test_long_chains_and_unlikely_rows_neither_underflow_nor_lose_counts() -> None:
    graph = et.zoo.hmm(400, 1, 2, 3)
    tables = dict(et.LatentNetwork.random(graph, seed=0).tables)
    for name in graph.observed:
        # Code 2 is next to impossible in every state, at odds that differ between states.
        tables[name] = np.array([[0.5, 0.5 - 1e-60, 1e-60], [0.9, 0.1 - 1e-70, 1e-70]])
    network = et.LatentNetwork(graph, tables)
    rows = np.full((3, 400), 2)
    rows[1] = 0
    found = counted(network, rows)
    assert found.impossible == -1
    assert_allclose(found.log_likelihood, network.log_prob(rows).sum(), rtol=1e-12)
    for table in by_table(graph, found.counts).values():
        assert_allclose(table.sum(), 3.0, rtol=1e-9)


def test_a_mixture_of_many_columns_passes_through_gathering_nodes() -> None:
    graph = et.zoo.mixture(200, 3, 7)
    network = et.LatentNetwork.random(graph, seed=0)
    rows = network.sample(50, seed=1)
    for holed in (rows, np.where(np.arange(200) < 100, rows, -1)):
        found = counted(network, holed)
        assert_allclose(found.log_likelihood, network.log_prob(holed).sum(), rtol=1e-12)
        tables = by_table(graph, found.counts)
        assert_allclose(tables["x59"].sum(axis=0), np.bincount(rows[:, 59], minlength=7), atol=1e-10)
        assert_allclose(tables["x159"].sum(), 50.0, rtol=1e-12)
    nodes = Expectation.of(graph).nodes
    assert max(len(node.children) for node in nodes if isinstance(node, Clique)) <= UNSCALED


@pytest.mark.parametrize("columns", [8, 60, 300])
def test_columns_that_contradict_each_other_do_not_underflow(columns: int) -> None:
    # Either state explains every other column and is next to ruled out by the rest.
    odds = 1e-30
    graph = et.zoo.mixture(columns, 2, 2)
    table = [[1.0 - odds, odds], [odds, 1.0 - odds]]
    network = et.LatentNetwork(graph, {"h": [0.25, 0.75]} | dict.fromkeys(graph.observed, table))
    found = counted(network, np.arange(columns)[None, :] % 2, many=1)
    assert found.impossible == -1
    assert_allclose(found.log_likelihood, columns / 2 * np.log(odds), rtol=1e-12)
    assert_allclose(by_table(graph, found.counts)["h"], [0.25, 0.75], rtol=1e-9)


def test_columns_that_are_unlikely_in_every_state_do_not_underflow() -> None:
    # One node multiplies eight messages of 1e-60 and less.
    graph = et.zoo.mixture(8, 2, 2)
    table = [[1.0 - 1e-60, 1e-60], [1.0 - 3e-60, 3e-60]]
    network = et.LatentNetwork(graph, {"h": [0.25, 0.75]} | dict.fromkeys(graph.observed, table))
    found = counted(network, np.ones((1, 8), int), many=1)
    assert found.impossible == -1
    assert_allclose(found.log_likelihood, 8 * np.log(1e-60) + np.log(0.25 + 0.75 * 3**8), rtol=1e-12)
    posterior = np.array([0.25, 0.75 * 3**8])
    assert_allclose(by_table(graph, found.counts)["h"], posterior / posterior.sum(), rtol=1e-9)


@st.composite
def hidden_trees(draw: st.DrawFn) -> et.LatentGraph:
    """Hidden variables that depend on each other as a tree, with a column each."""
    count = draw(st.integers(1, 14))
    states = {f"h{k}": draw(st.integers(2, 9)) for k in range(count)}
    edges = [(f"h{draw(st.integers(0, k - 1))}", f"h{k}") for k in range(1, count)]
    columns = [(name, f"x{name}") for name in states]
    return et.LatentGraph(states | {column: 2 for _, column in columns}, edges + columns, list(states))


@SLOW
@given(hidden_trees())
def test_messages_that_are_needed_at_the_same_time_have_lines_of_their_own(graph: et.LatentGraph) -> None:
    nodes = Expectation.of(graph, (), 1).nodes
    layout = BlockLayout.of([nodes], graph.states, [[ReadFrom(0)] * len(nodes)], 8)
    tree, records = layout.tree, [BlockNode(*line) for line in layout.tree.nodes.tolist()]
    terms, bond = (max(getattr(record, name) for record in records) for name in ("terms", "bond"))
    shared = {(tree.ones, 1), (tree.down, terms), (tree.share, bond)}
    kept = {(record.message, record.bond) for record in records if record.message >= 0}
    for node, record in zip(nodes, records, strict=True):
        if not isinstance(node, Clique):
            continue
        product = (record.product, record.terms)
        inner = [child for child in node.children if isinstance(nodes[child], Clique)]
        before = [(records[child].before, record.terms) for child in inner if records[child].before >= 0]
        # Read on the way down: products, those before each inner child, and all inner messages but the first.
        read = [product, *before, *((records[child].message, records[child].bond) for child in inner[1:])]
        assert len({start for start, _ in read}) == len(read)
        kept |= {product, *before} if node.children else set()
    owned = [set(range(start, start + count)) for start, count in shared | kept]
    owned += [{record.factor} for record in records if record.factor >= 0]
    # The message from above to a clique is written when its parent is passed, and read until it is passed itself.
    times = {0: 0} | {
        child: i for i, node in enumerate(nodes) if isinstance(node, Clique) for child in node.children
    }
    outside = {
        i: set(range(r.outside, r.outside + r.bond)) for i, r in enumerate(records) if isinstance(nodes[i], Clique)
    }
    for i, j in combinations(outside, 2):
        if max(times[i], times[j]) <= min(i, j):
            assert not outside[i] & outside[j]
    owned.append(set().union(*outside.values()))
    assert sum(map(len, owned)) == len(set().union(*owned))
    assert set().union(*owned) == set(range(layout.lines))


def evenly_hidden_tree(parents: list[int], states: int) -> et.LatentGraph:
    """Hidden variables of equally many states as a tree, with a column each."""
    names = [f"h{k}" for k in range(len(parents) + 1)]
    edges = [(names[parent], names[k]) for k, parent in enumerate(parents, 1)]
    columns = {f"x{name}": 2 for name in names}
    return et.LatentGraph(
        dict.fromkeys(names, states) | columns, [*edges, *((name, f"x{name}") for name in names)], names
    )


@SLOW
@given(st.integers(1, 12).flatmap(lambda count: st.tuples(*(st.integers(0, k) for k in range(count)))))
def test_messages_of_a_tree_are_multiplied_in_the_states_of_one_variable(parents: tuple[int, ...]) -> None:
    """No two hidden variables are seen together by any column, so none need be multiplied together."""
    graph = evenly_hidden_tree(list(parents), 8)
    nodes = Expectation.of(graph, (), 1).nodes
    assert {len(node.joined) for node in nodes if isinstance(node, Clique)} == {1}


GRAPH = et.zoo.hmm(8, 1, 2, 3)


@pytest.mark.parametrize("often", [False, True])
@pytest.mark.parametrize("single", [False, True])
def test_the_number_of_threads_changes_no_bit(often: bool, single: bool) -> None:
    graph = evenly_hidden_tree([0, 0, 1, 1, 2, 2, 3, 4], 8)
    network = et.LatentNetwork.random(graph, seed=0)
    rows = network.sample(20_000, seed=1)
    weights = np.random.default_rng(1).random(len(rows))
    one, *others = (
        counted(network, rows, weights, 1, threads=threads, single=single, often=often) for threads in (1, 2, 3, 8)
    )
    for other in others:
        assert other.log_likelihood == one.log_likelihood
        np.testing.assert_array_equal(other.counts, one.counts)
    assert_allclose(one.log_likelihood, weights @ network.log_prob(rows), rtol=1e-6 if single else 1e-12)
    assert_allclose(by_table(graph, one.counts)["xh0"].sum(), weights.sum(), rtol=1e-6 if single else 1e-12)


@pytest.mark.parametrize("place", [0, 3000, 6560])
def test_an_impossible_row_is_found_in_whichever_thread_has_it(place: int) -> None:
    tables = dict(et.LatentNetwork.random(GRAPH, seed=0).tables)
    tables["x3"] = [[0.5, 0.5, 0.0], [0.1, 0.9, 0.0]]
    network = et.LatentNetwork(GRAPH, tables)
    rows = all_rows(GRAPH)
    rows[:, 3] %= 2
    assert counted(network, rows, threads=3).impossible == -1
    rows[place, 3] = 2
    found = counted(network, rows, threads=3)
    assert found.impossible == place
    assert found.log_likelihood == -np.inf


@pytest.mark.parametrize("size", [1e-290, 1e-305, 5e-324])
def test_a_line_of_a_leaf_may_be_as_small_as_numbers_are(size: float) -> None:
    # The power of two that would bring it into range can overflow.
    graph = et.zoo.mixture(1, 2, 2)
    table = [[1.0, size], [1.0, size]]
    found = counted(et.LatentNetwork(graph, {"h": [0.25, 0.75], graph.observed[0]: table}), np.ones((1, 1), int))
    assert found.log_likelihood == pytest.approx(np.log(size), rel=1e-12)
    counts = by_table(graph, found.counts)
    assert_allclose(counts["h"], [0.25, 0.75], rtol=1e-12)
    assert_allclose(counts[graph.observed[0]], [[0.0, 0.25], [0.0, 0.75]], rtol=1e-12)


def test_a_part_of_coded_rows_is_the_rows_of_that_part_coded() -> None:
    graph = et.zoo.mixture(5, 2, [2, 3, 2, 9, 4])
    random = np.random.default_rng(0)
    rows = np.stack([random.integers(0, graph.states[name] + 1, 90) for name in graph.observed], axis=1)
    weights = random.random(90)
    expectation = Expectation.of(graph, graph.observed)
    part = expectation.part(expectation.coded(rows, weights), 20, 70)
    alone = expectation.coded(rows[20:70], weights[20:70])
    assert np.array_equal(part.codes, alone.codes)
    assert np.array_equal(part.weights, alone.weights)
    assert_allclose(part.line_weights, alone.line_weights, rtol=1e-12)


@pytest.mark.parametrize("states", [3, 256, 65_535, 65_536, 70_000])
def test_no_code_is_too_large(states: int) -> None:
    graph = et.LatentGraph({"h": 2, "x": states}, [("h", "x")], ["h"])
    expectation = Expectation.of(graph, ["x"])
    codes = np.array([[0], [states - 1], [states]])
    assert np.array_equal(expectation.coded(codes, np.ones(3)).codes, codes.T)


def test_a_graph_keeps_one_expectation_for_each_way_of_joining_leaves() -> None:
    graph = et.zoo.hmm(6, 2, 2, 4)
    made = {id(Expectation.of(graph, (), rows)) for rows in range(1, 6000, 7)}
    assert len(made) <= 4
    assert Expectation.of(graph, graph.observed) is Expectation.of(graph, list(graph.observed))
    assert id(Expectation.of(graph, ["x0"])) not in made
    assert ParameterLayout.of(graph) is ParameterLayout.of(graph)


def test_leaves_are_joined_only_where_rows_pay_for_it() -> None:
    graph = et.zoo.mixture(4, 2, 3)
    few, many = (len(Expectation.of(graph, (), rows).nodes) for rows in (10, 100_000))
    assert few > many


def test_parameters_are_a_vector_and_back() -> None:
    for directed in (True, False):
        graph = et.LatentGraph({"a": 3, "b": 2, "x": 4}, [("a", "b"), ("b", "x"), ("a", "x")], ["a"], directed)
        network = et.LatentNetwork.random(graph, seed=0)
        layout = ParameterLayout.of(graph)
        again = layout.network(layout.vector(network))
        for key, table in network.tables.items():
            assert np.array_equal(again.tables[key], table)
    with pytest.raises(et.NetworkError, match="belongs to another graph"):
        layout.vector(et.LatentNetwork.random(et.LatentGraph({"a": 3}), seed=0))


def test_relative_frequencies_need_counts() -> None:
    layout = ParameterLayout.of(et.LatentGraph({"a": 2, "b": 3}, [("a", "b")]))
    counts = np.array([3.0, 1.0, 1.0, 1.0, 2.0, 0.0, 0.0, 0.0])
    fallback = np.array([0.5, 0.5, 0.2, 0.3, 0.5, 0.1, 0.2, 0.7])
    assert_allclose(layout.normalised(counts, fallback), [0.75, 0.25, 0.25, 0.25, 0.5, 0.1, 0.2, 0.7])
    assert fallback[0] == 0.5


@pytest.mark.parametrize("states", [2, 3])
def test_more_columns_than_one_number_can_tell_apart_are_merged_exactly(states: int) -> None:
    # Rows are there twice, and once more with another first and another last cell.
    rows = np.tile(np.random.default_rng(0).integers(0, states, (100, 100)), (4, 1))
    rows[200:300, 0] = (rows[:100, 0] + 1) % states
    rows[300:, 99] = (rows[:100, 99] + 1) % states
    codes, weights, first = DistinctRows.of(rows.astype(np.uint8), [states] * 100, np.ones(400))
    assert len(codes) == len({tuple(row) for row in rows.tolist()}) == 300
    assert weights.sum() == 400
    assert np.array_equal(rows[first], codes)
    for code, weight in zip(codes, weights, strict=True):
        assert weight == (rows == code).all(axis=1).sum()
    alone = DistinctRows.of(rows[200:].astype(np.uint8), [states] * 100, np.ones(200))
    assert sorted(alone.first) == list(range(200))


def test_rows_of_weight_zero_are_left_out() -> None:
    rows = np.array([[0, 1], [1, 1], [0, 1], [1, 0]], np.uint8)
    codes, weights, first = DistinctRows.of(rows, [2, 2], np.array([0.0, 2.0, 0.5, 0.25]))
    assert {tuple(row): weight for row, weight in zip(codes.tolist(), weights, strict=True)} == {
        (1, 1): 2.0,
        (0, 1): 0.5,
        (1, 0): 0.25,
    }
    assert np.array_equal(rows[first], codes)
    assert 0 not in first


def test_the_skeleton_of_a_wide_mixture_takes_time_in_proportion_to_its_columns() -> None:
    def steps(columns: int) -> int:
        graph = et.zoo.mixture(columns, 3, 2)
        return steps_of(lambda: Skeleton.of(graph, frozenset()))

    assert steps(400) <= 2.3 * steps(200)
