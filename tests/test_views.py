"""Views: generic ranks against enumeration, views that reach them, and a plan that asks for all it needs."""

from __future__ import annotations

import pickle
import warnings

import numpy as np
import pytest
from brute_force import observed_table
from hypothesis import assume, event, given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from plans import check_nesting, edges, numeric_rank
from random_graphs import latent_graphs

import eigentree as et
from eigentree.spectral import planning
from eigentree.spectral.ranks import orthonormal
from eigentree.spectral.views import ViewPlan

graphs = latent_graphs(most_variables=8)
seeds = st.integers(0, 2**32 - 1)


def flattened(table: np.ndarray, columns: list[int]) -> np.ndarray:
    """The table as a matrix: some columns × all others."""
    moved = np.moveaxis(table, columns, range(len(columns)))
    return moved.reshape(int(np.prod(moved.shape[: len(columns)])), -1)


@settings(max_examples=100, deadline=None)
@given(graphs, seeds)
def test_generic_ranks_are_those_of_a_fresh_network_by_enumeration(graph: et.LatentGraph, seed: int) -> None:
    plan = ViewPlan.build(graph)
    table = observed_table(et.LatentNetwork.random(graph, seed=seed))
    for node, inside in edges(plan):
        rank = numeric_rank(flattened(table, sorted(graph.column(name) for name in inside)))
        event("ambiguous, drawn again" if rank is None else "compared")
        assume(rank is not None)
        assert rank == node.generic_rank
        assert 1 <= node.rank == node.generic_rank <= node.states


@settings(max_examples=100, deadline=None)
@given(graphs, seeds, st.integers(1, 4))
def test_every_view_lies_on_its_side_and_reaches_the_rank(graph: et.LatentGraph, seed: int, count: int) -> None:
    plan = ViewPlan.build(graph, views=count)
    network = et.LatentNetwork.random(graph, seed=seed)
    for node, inside in edges(plan):
        assert set(node.inside) <= inside
        assert 1 <= len(node.outside) <= count
        assert len({frozenset(group) for group in node.outside}) == len(node.outside)
        assert len({len(group) for group in node.outside}) == 1
        for group in node.outside:
            assert inside.isdisjoint(group)
            states = int(np.prod([graph.states[name] for name in node.inside]))
            rank = numeric_rank(network.joint([*node.inside, *group]).reshape(states, -1))
            assume(rank is not None)
            assert rank == node.rank


@settings(max_examples=100, deadline=None)
@given(graphs, st.sampled_from([None, 1, 2, 3]))
def test_the_plan_is_a_tree_whose_views_nest(graph: et.LatentGraph, max_rank: int | None) -> None:
    check_nesting(ViewPlan.build(graph, max_rank=max_rank))


ROUNDING = {
    # A product of spans that is zero but for rounding was once taken for a direction of its own.
    "undirected": et.LatentGraph(
        {"v0": 5, "v1": 4, "v2": 5, "v3": 4, "v4": 5, "v5": 4, "v6": 2, "v7": 1},
        [("v2", "v6"), ("v1", "v3"), ("v2", "v7"), ("v4", "v7"), ("v4", "v6")],
        ["v5"],
        directed=False,
    ),
    "directed": et.LatentGraph(
        {"v0": 1, "v1": 1, "v2": 5, "v3": 2, "v4": 5, "v5": 5, "v6": 4, "v7": 1, "v8": 2, "v9": 2},
        [("v2", "v3"), ("v1", "v7"), ("v3", "v5"), ("v0", "v4"), ("v4", "v5")],
        ["v5", "v7"],
    ),
    # Random combinations of products were once so uneven that some of 60 directions were taken for rounding.
    "sixty states": et.LatentGraph(
        {"v0": 2, "v1": 3, "v2": 5, "v3": 4, "v4": 3, "v5": 4, "v6": 4},
        [tuple(f"v{i}" for i in edge) for edge in [(2, 6), (3, 4), (2, 5), (3, 5), (0, 5), (1, 2), (1, 5), (1, 6)]],
    ),
}


@pytest.mark.parametrize(("size", "dimensions"), [(1.0, 2), (1e-5, 2), (1e-15, 1), (0.0, 1)])
def test_a_basis_is_one_of_directions_and_not_of_rounding(size: float, dimensions: int) -> None:
    vectors = np.array([[3.0, 4.0, 0.0], [-6.0, -8.0, 0.0], [0.0, 0.0, size]])
    basis = orthonormal(vectors)
    assert_allclose(basis @ basis.T, np.eye(dimensions), atol=1e-12)
    assert_allclose(vectors[:2] @ basis.T @ basis, vectors[:2], atol=1e-12)


@pytest.mark.parametrize("graph", ROUNDING.values(), ids=ROUNDING.keys())
def test_rounding_is_told_from_directions(graph: et.LatentGraph) -> None:
    table = observed_table(et.LatentNetwork.random(graph, seed=0))
    for node, inside in edges(ViewPlan.build(graph)):
        assert numeric_rank(flattened(table, sorted(map(graph.column, inside)))) == node.generic_rank


class Recorder:
    """A source of moments that notes what it was asked for."""

    def __init__(self, network: et.LatentNetwork) -> None:
        self.network = network
        self.asked: set[frozenset[str]] = set()

    def joint(self, names: list[str]) -> np.ndarray:
        self.asked.add(frozenset(names))
        return self.network.joint(names)


@settings(max_examples=40, deadline=None)
@given(graphs, seeds, st.sampled_from(["variance", None]))
def test_the_groups_are_what_learning_asks_for(graph: et.LatentGraph, seed: int, scaling: str | None) -> None:
    source = Recorder(et.LatentNetwork.random(graph, seed=seed))
    model = et.SpectralJunctionTree(graph, scaling=scaling).fit_moments(source)
    groups = model.plan_.groups()
    assert len(set(groups)) == len(groups)
    for group in groups:
        assert list(group) == sorted(group, key=graph.column)
    for names in source.asked:
        assert any(names <= set(group) for group in groups), f"{sorted(names)} would not be counted"
    for group in groups:
        assert any(set(group) <= names for names in source.asked), f"{group} would be counted for nothing"


def test_counting_the_groups_is_enough_to_learn() -> None:
    graph = et.zoo.hmm(9, 3, 2, 4)
    rows = et.LatentNetwork.random(graph, seed=0).sample(500, seed=1)
    counts = et.Counts(graph, ViewPlan.build(graph).groups()).update(rows)
    assert et.SpectralJunctionTree(graph, shrinkage=1).fit_moments(counts).score(rows) < 0


@pytest.mark.parametrize(
    ("graph", "hidden_states", "order"),
    [
        (et.zoo.hmm(10, 1, 3, 4), 3, 1),
        (et.zoo.hmm(10, 2, 2, 4), 2, 2),
        (et.zoo.hmm(10, 2, 2, 2), 2, 2),
        (et.zoo.hmm(10, 3, 2, 4), 2, 3),
    ],
    ids=["order 1, 3 states", "order 2", "order 2, 2 symbols", "order 3"],
)
def test_chains_have_the_ranks_that_theory_gives(graph: et.LatentGraph, hidden_states: int, order: int) -> None:
    """A block of m variables of the chain sees at most m hidden variables, and `order` of them cut it off."""
    plan = ViewPlan.build(graph)
    for node, inside in edges(plan):
        outside = len(graph.observed) - len(inside)
        assert node.generic_rank == hidden_states ** min(order, len(inside), outside)
    assert max(node.generic_rank for node in plan.nodes) == hidden_states**order


def test_all_edges_of_the_papers_junction_tree_have_rank_4() -> None:
    plan = ViewPlan.build(et.zoo.paper_junction_tree(2, 16))
    assert [node.generic_rank for node, _ in edges(plan)] == [4] * 14


@pytest.mark.parametrize(
    ("columns", "components", "symbols"), [(9, 3, 2), (12, 5, 2), (6, 4, 3), (4, 9, 2), (5, 3, 7)]
)
def test_mixtures_have_the_ranks_that_theory_gives(columns: int, components: int, symbols: int) -> None:
    plan = ViewPlan.build(et.zoo.mixture(columns, components, symbols))
    for node, inside in edges(plan):
        assert node.generic_rank == min(components, symbols ** len(inside), symbols ** (columns - len(inside)))


def test_the_report_says_what_bounds_a_rank() -> None:
    for node, inside in edges(ViewPlan.build(et.zoo.mixture(12, 5, 2))):
        if node.generic_rank == 5:
            assert node.bound == "all states of the separator"
        else:
            assert len(inside) < 3
            assert node.bound == f"the inside sees only {2 ** len(inside)} of 5 states"
    both = ViewPlan.build(et.zoo.mixture(2, 5, 3))
    assert {node.bound for node, _ in edges(both)} == {"the inside and the outside see only 3 of 5 states"}
    assert both.nodes[0].bound == "the root has no edge above it"
    outside = [node for node, inside in edges(ViewPlan.build(et.zoo.mixture(3, 5, [2, 2, 16]))) if "x2" in inside]
    assert [node.bound for node in outside] == ["the outside sees only 4 of 5 states"]


@settings(max_examples=40, deadline=None)
@given(graphs, st.integers(1, 4))
def test_max_rank_caps_every_rank(graph: et.LatentGraph, most: int) -> None:
    free = {inside: node for node, inside in edges(ViewPlan.build(graph))}
    for node, inside in edges(ViewPlan.build(graph, max_rank=most)):
        assert node.generic_rank == free[inside].generic_rank
        assert node.rank == min(node.generic_rank, most)
        assert node.bound.startswith("capped") == (node.rank < node.generic_rank)
        if node.rank < node.generic_rank:
            assert f"generic rank is {node.generic_rank}" in node.bound


def linked(states: list[int], edges: list[tuple[int, int]], hidden: tuple[int, ...] = ()) -> et.LatentGraph:
    """A directed graph over v0, v1, …."""
    return et.LatentGraph(
        {f"v{i}": count for i, count in enumerate(states)},
        [(f"v{a}", f"v{b}") for a, b in edges],
        [f"v{i}" for i in hidden],
    )


CAPPED = {
    # The parent's view of rank 2 is {v0}, which says nothing about v3; v7 does, but is far.
    "outside": (
        linked([2, 1, 3, 2, 3, 3, 4, 5], [(0, 1), (5, 7), (0, 2), (0, 6), (0, 7), (1, 2), (3, 7), (0, 4)]),
        2,
    ),
    # The children's views of these ranks say much of each other and too little of the outside.
    "inside": (linked([3, 3, 2, 4, 3, 4], [(0, 1), (0, 2), (0, 5), (2, 3), (2, 4), (3, 4), (3, 5)]), 3),
    "inside, one hidden": (
        linked([2, 2, 4, 2, 2, 3, 2], [(0, 2), (1, 5), (2, 3), (3, 6), (4, 5), (4, 6), (5, 6)], hidden=(0,)),
        3,
    ),
    "inside, and further down": (
        linked(
            [3, 2, 4, 3, 2, 3, 2, 2, 3],
            [(0, 1), (0, 2), (0, 8), (1, 3), (1, 6), (2, 7), (3, 4), (3, 8), (4, 6), (4, 7), (5, 6), (7, 8)],
        ),
        3,
    ),
}


@pytest.mark.parametrize(("graph", "max_rank"), CAPPED.values(), ids=CAPPED.keys())
def test_a_cap_hides_no_variable_that_another_edge_needs(graph: et.LatentGraph, max_rank: int) -> None:
    plan = ViewPlan.build(graph, max_rank=max_rank)
    for node, _ in edges(plan):
        assert node.rank == min(max_rank, node.generic_rank)
    check_nesting(plan)
    model = et.SpectralJunctionTree(graph, max_rank=max_rank).fit_moments(et.LatentNetwork.random(graph, seed=0))
    assert_allclose(model.joint(graph.observed).sum(), 1.0)


@pytest.mark.parametrize("count", [1, 2, 4])
def test_as_many_outside_views_as_asked_for(count: int) -> None:
    plan = ViewPlan.build(et.zoo.hmm(12, 2, 2, 4), views=count)
    for node, inside in edges(plan):
        assert len(node.outside) == count
        assert inside.isdisjoint(name for group in node.outside for name in group)


def test_nearer_views_come_first() -> None:
    plan = ViewPlan.build(et.zoo.hmm(15, 1, 2, 4))
    for node, inside in edges(plan):
        if node.observed is not None:
            here = int(node.observed[1:])
            far = [abs(int(name[1:]) - here) for (name,) in node.outside]
            assert far == sorted(far)
            assert far[0] == 1
            assert inside == {node.observed}


@settings(max_examples=40, deadline=None)
@given(graphs, st.randoms(use_true_random=False))
def test_a_rank_belongs_to_its_cut_and_not_to_names(graph: et.LatentGraph, random) -> None:
    # An undirected network may have the edges that its triangulation fills in, and names break ties there.
    assume(graph.directed)
    new = [f"w{i}" for i in range(len(graph.names))]
    random.shuffle(new)
    name = dict(zip(graph.names, new, strict=True))
    listed = list(graph.names)
    random.shuffle(listed)
    relabelled = et.LatentGraph(
        {name[n]: graph.states[n] for n in listed},
        [(name[a], name[b]) for a, b in graph.edges],
        [name[n] for n in graph.hidden],
        graph.directed,
    )

    def cuts(plan: ViewPlan, rename: dict[str, str]) -> dict[frozenset[frozenset[str]], int]:
        everything = frozenset(rename[n] for n in plan.graph.observed)
        parts = [(frozenset(rename[n] for n in inside), node.generic_rank) for node, inside in edges(plan)]
        return {frozenset({inside, everything - inside}): rank for inside, rank in parts}

    before = cuts(ViewPlan.build(graph), name)
    after = cuts(ViewPlan.build(relabelled), {n: n for n in new})
    # Ties in the triangulation are broken by name, so the trees may differ; the cuts they share may not.
    shared = before.keys() & after.keys()
    event(f"all cuts shared: {len(shared) == len(before)}")
    assert {cut: before[cut] for cut in shared} == {cut: after[cut] for cut in shared}
    if len(graph.observed) > 1:
        assert shared, "every observed variable is cut off by its own leaf"


def test_views_too_small_for_the_rank_are_an_error_naming_the_separator(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(planning, "MAX_VIEW_STATES", 3)
    graph = et.zoo.hmm(11, 2, 2, 2)
    with pytest.raises(
        et.RankError,
        match=r"separator \{h\d+, h\d+\} needs rank 4, its view \{x\d+\} reaches 2, .* at most 3 joint states.*"
        r"max_rank=2.*when_short='warn'",
    ):
        ViewPlan.build(graph)
    with pytest.raises(et.RankError, match="needs rank 4"):
        et.SpectralJunctionTree(graph).fit(np.zeros((5, 11), int))
    # Both pieces of advice help.
    assert max(node.rank for node in ViewPlan.build(graph, max_rank=2).nodes) == 2
    with pytest.warns(RuntimeWarning, match="needs rank 4"):
        assert max(node.rank for node in ViewPlan.build(graph, when_short="warn").nodes) == 2


def test_a_plan_at_a_lower_rank_works_and_warns_at_every_fit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(planning, "MAX_VIEW_STATES", 3)
    graph = et.zoo.hmm(13, 2, 2, 2)
    network = et.LatentNetwork.random(graph, seed=0)
    rows = network.sample(20_000, seed=1)
    for _ in range(2):
        with pytest.warns(RuntimeWarning, match=r"separator \{h\d+, h\d+\} needs rank 4, its view"):
            model = et.SpectralJunctionTree(graph, when_short="warn").fit(rows)
    for node, _ in edges(model.plan_):
        assert node.rank == 2
        assert node.bound == ("capped: the generic rank is 4" if node.generic_rank == 4 else node.bound)
        assert all(len(group) == 1 for group in (node.inside, *node.outside))
    assert_allclose(model.joint(["x0", "x12"]).sum(), 1.0)
    fresh = network.sample(1_000, seed=2)
    independent = et.SpectralJunctionTree(graph, shrinkage=np.inf, max_rank=1).fit(rows)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # rows may be floored
        assert model.score(fresh) > independent.score(fresh)


def test_a_small_size_limit_that_suffices_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planning, "MAX_VIEW_STATES", 4)
    plan = ViewPlan.build(et.zoo.hmm(17, 2, 2, 2))
    assert max(node.rank for node in plan.nodes) == 4


def test_one_plan_per_structure() -> None:
    """Planning again gives the same plan, whatever the state of numpy's generators."""
    graph = et.zoo.factorial_hmm(5, 2, 2, 6)
    first = ViewPlan.build(graph, views=3)
    assert ViewPlan.build(graph, views=3) is first
    assert ViewPlan.build(graph, views=2) is not first
    again = ViewPlan.build(pickle.loads(pickle.dumps(graph)), views=3)
    assert again is not first, "a fresh graph is planned anew"
    assert again.nodes == first.nodes


def test_a_plan_is_pickled_without_what_hangs_on_it() -> None:
    plan = ViewPlan.build(et.zoo.hmm(5, 2, 2, 4))
    groups = plan.groups()
    copied = pickle.loads(pickle.dumps(plan))
    assert (copied.graph, copied.nodes, copied.short) == (plan.graph, plan.nodes, plan.short)
    assert copied.groups() == groups
    groups.clear()
    assert plan.groups() == copied.groups(), "what a caller does to the list must not reach the plan"


def test_any_root_has_the_same_ranks_at_the_same_cuts() -> None:
    graph = et.zoo.hmm(8, 2, 2, 4)

    def cuts(root: str | None) -> dict[frozenset[frozenset[str]], int]:
        everything = frozenset(graph.observed)
        return {
            frozenset({inside, everything - inside}): node.generic_rank
            for node, inside in edges(ViewPlan.build(graph, root=root))
        }

    first, last = cuts("h0"), cuts("h7")
    shared = first.keys() & last.keys()
    assert len(shared) > len(graph.observed)
    assert {cut: first[cut] for cut in shared} == {cut: last[cut] for cut in shared}


@pytest.mark.parametrize(
    "graph",
    [et.LatentGraph({"x": 3}), et.LatentGraph({"h": 2, "x": 3}, [("h", "x")], ["h"]), et.zoo.hmm(1)],
    ids=["alone", "below a hidden one", "a chain of one step"],
)
def test_one_observed_variable_needs_no_edge(graph: et.LatentGraph) -> None:
    plan = ViewPlan.build(graph)
    assert len(plan.nodes) == 1
    assert plan.groups() == [graph.observed]


def test_independent_columns_have_rank_1_everywhere() -> None:
    plan = ViewPlan.build(et.LatentGraph({"a": 2, "b": 3, "c": 4, "d": 1}))
    assert {(node.rank, node.states, node.separator) for node, _ in edges(plan)} == {(1, 1, ())}
