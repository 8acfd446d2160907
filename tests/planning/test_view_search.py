"""Views: generic ranks against enumeration, views that reach them, and a plan that asks for all it needs."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from brute_force import observed_table
from growth import steps_of
from hypothesis import assume, event, given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from plans import check_nesting, edges, numeric_rank
from random_graphs import latent_graphs
from sklearn.base import clone

import eigentree as et
from eigentree.graphs.junction_tree import JunctionTree
from eigentree.planning.generic_ranks import Spans, orthonormal
from eigentree.planning.node_products import Work
from eigentree.planning.view_plan import ViewPlan, best_plan
from eigentree.planning.view_search import PlanOptions

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


@settings(max_examples=40, deadline=None)
@given(graphs)
def test_the_plan_is_a_tree_whose_views_nest(graph: et.LatentGraph) -> None:
    check_nesting(ViewPlan.build(graph))


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
def test_rounding_is_distinguished_from_directions(graph: et.LatentGraph) -> None:
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
def test_the_groups_are_those_that_learning_needs(graph: et.LatentGraph, seed: int, scaling: str | None) -> None:
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


def test_the_report_shows_what_bounds_a_rank() -> None:
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


CAPPED = {
    # The parent's view of rank 2 is {v0}, which says nothing about v3; v7 does, but is far.
    "outside": et.LatentGraph(
        {"v0": 2, "v1": 1, "v2": 3, "v3": 2, "v4": 3, "v5": 3, "v6": 4, "v7": 5},
        [tuple(f"v{i}" for i in edge) for edge in [(0, 1), (5, 7), (0, 2), (0, 6), (0, 7), (1, 2), (3, 7), (0, 4)]],
    ),
    # The children's views of rank 2 say much of each other and too little of the outside.
    "inside": et.LatentGraph(
        {f"v{i}": 2 for i in range(8)},
        [tuple(f"v{i}" for i in edge) for edge in [(1, 3), (2, 5), (0, 1), (0, 3), (0, 4), (1, 7), (1, 4), (5, 7)]],
    ),
}


@pytest.mark.parametrize("graph", CAPPED.values(), ids=CAPPED.keys())
def test_a_cap_hides_no_variable_that_another_edge_needs(graph: et.LatentGraph) -> None:
    for node, _ in edges(ViewPlan.build(graph, max_rank=2)):
        assert node.rank == min(2, node.generic_rank)
    model = et.SpectralJunctionTree(graph, max_rank=2).fit_moments(et.LatentNetwork.random(graph, seed=0))
    assert_allclose(model.joint(graph.observed).sum(), 1.0)


@pytest.mark.parametrize("count", [1, 2, 4])
def test_as_many_outside_views_as_wanted(count: int) -> None:
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


def test_views_too_small_for_the_rank_are_an_error_naming_the_separator() -> None:
    graph = et.zoo.hmm(9, 2, 2, 65)  # two variables have more joint states than a view may have
    with pytest.raises(
        et.RankError,
        match=r"separator \{h\d+, h\d+\} needs rank 4, its view \{x\d+\} reaches 2, .* at most 4096 joint states.*"
        r"max_rank=2.*when_short='warn'",
    ):
        ViewPlan.build(graph)
    with pytest.raises(et.RankError, match="needs rank 4"):
        et.SpectralJunctionTree(graph).fit(np.zeros((5, 9), int))
    # Both pieces of advice help.
    assert max(node.rank for node in ViewPlan.build(graph, max_rank=2).nodes) == 2
    with pytest.warns(RuntimeWarning, match="needs rank 4"):
        assert max(node.rank for node in ViewPlan.build(graph, when_short="warn").nodes) == 2


def test_a_plan_at_a_lower_rank_works_and_warns_at_every_fit() -> None:
    graph = et.zoo.hmm(9, 2, 2, 65)
    network = et.LatentNetwork.random(graph, seed=0)
    rows = network.sample(20_000, seed=1)
    for _ in range(2):
        with pytest.warns(RuntimeWarning, match=r"separator \{h\d+, h\d+\} needs rank 4, its view"):
            model = et.SpectralJunctionTree(graph, when_short="warn").fit(rows)
    for node, _ in edges(model.plan_):
        assert node.rank == 2
        assert node.bound == ("capped: the generic rank is 4" if node.generic_rank == 4 else node.bound)
        assert all(len(group) == 1 for group in (node.inside, *node.outside))
    assert_allclose(model.joint(["x0", "x8"]).sum(), 1.0)
    fresh = network.sample(1_000, seed=2)
    independent = et.SpectralJunctionTree(graph, shrinkage=np.inf, max_rank=1).fit(rows)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # rows may be floored
        assert model.score(fresh) > independent.score(fresh)


def test_a_size_limit_that_just_suffices_is_no_error() -> None:
    plan = ViewPlan.build(et.zoo.hmm(9, 2, 2, 64))
    assert max(node.rank for node in plan.nodes) == 4


def test_a_plan_hangs_on_its_graph() -> None:
    """Planned once per graph and settings; an equal graph is planned anew, and gets an equal plan."""
    graph, equal = et.zoo.factorial_hmm(5, 2, 2, 6), et.zoo.factorial_hmm(5, 2, 2, 6)
    first = ViewPlan.build(graph, views=3)
    assert ViewPlan.build(graph, views=3) is first
    assert ViewPlan.build(graph, views=2) is not first
    assert ViewPlan.build(equal, views=3) is not first
    assert ViewPlan.build(equal, views=3).nodes == first.nodes
    template = et.zoo.HMM(order=2)
    built = template.build([3, 3, 3, 3])
    assert template.build([3, 3, 3, 3]) is built
    assert template.build([3, 3, 3, 4]) != built
    assert clone(et.SpectralJunctionTree(graph)).structure is graph


def lattice(side: int, share: float) -> et.LatentGraph:
    """A square grid of binary variables, this share of them observed."""
    names = {(i, j): f"v{i}_{j}" for i in range(side) for j in range(side)}
    edges = [(name, names[i + 1, j]) for (i, j), name in names.items() if i + 1 < side]
    edges += [(name, names[i, j + 1]) for (i, j), name in names.items() if j + 1 < side]
    drawn = np.random.default_rng(0).random(len(names)) < share
    hidden = [name for name, seen in zip(names.values(), drawn, strict=True) if not seen]
    return et.LatentGraph(dict.fromkeys(names.values(), 2), edges, hidden, directed=False)


@pytest.mark.parametrize(
    "graph",
    [et.zoo.hmm(40, 10), et.zoo.hmm(40, 12, 2, 4), lattice(10, 1 / 3), lattice(12, 0.5)],
    ids=["order 10", "order 12", "10 x 10", "12 x 12"],
)
def test_what_would_take_too_long_is_refused_at_once(graph: et.LatentGraph) -> None:
    """In 0.1.0 none of these ended in two minutes; the steps are those of the interpreter, whatever the machine."""

    def refused() -> None:
        with pytest.raises(et.RankError, match=r"separator \{.*\} has [\d,]+ joint states, and finding its rank"):
            ViewPlan.build(graph)

    assert steps_of(refused) < 5_000_000


@pytest.mark.parametrize("order", [4, 5, 6])
def test_long_orders_are_planned_with_bounded_work(order: int) -> None:
    """A twentieth of the work that planning may take is enough; order 5 once took 14 seconds."""
    tree = JunctionTree.of(et.zoo.hmm(40, order))
    noting: list[Work] = []

    def sample(tree: JunctionTree, seed: int, done: Work, most: int | None) -> Spans:
        noting.append(done)
        return Spans.sampled(tree, seed, done, most)

    plan = best_plan(tree, PlanOptions.checked(6, None, "raise"), sample=sample)
    assert Work(len(tree.nodes)).left - noting[0].left < Work(len(tree.nodes), most=1e8).left
    assert max(node.rank for node in plan.nodes) == 2**order


def test_any_root_has_the_same_ranks_at_the_same_cuts() -> None:
    options = PlanOptions(6, None, "raise")
    graph = et.zoo.hmm(8, 2, 2, 4)

    def cuts(root: str | None) -> dict[frozenset[frozenset[str]], int]:
        everything = frozenset(graph.observed)
        return {
            frozenset({inside, everything - inside}): node.generic_rank
            for node, inside in edges(best_plan(JunctionTree.build(graph, root=root), options))
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


# On these a capped edge has to give its children views of their generic rank, which random graphs hardly ever ask.
WIDENED = {
    "observed": et.LatentGraph(
        {"v0": 4, "v1": 3, "v2": 4, "v3": 3, "v4": 4, "v5": 2, "v6": 2, "v7": 3},
        [tuple(f"v{i}" for i in edge) for edge in ("14", "25", "37", "16", "46", "03", "17", "05", "56")],
    ),
    "one hidden": et.LatentGraph(
        dict(zip([f"v{i}" for i in range(10)], [5, 4, 3, 2, 3, 4, 3, 4, 3, 4], strict=True)),
        [
            tuple(f"v{i}" for i in edge)
            for edge in ("03", "05", "06", "08", "09", "27", "36", "37", "45", "68", "78", "79")
        ],
        ["v6"],
    ),
    "two hidden": et.LatentGraph(
        {"v0": 5, "v1": 4, "v2": 4, "v3": 3, "v4": 2, "v5": 2, "v6": 5, "v7": 4, "v8": 4},
        [tuple(f"v{i}" for i in edge) for edge in ("35", "47", "34", "27", "16", "56", "68", "14", "78")],
        ["v0", "v1"],
    ),
    "three hidden": et.LatentGraph(
        {"v0": 4, "v1": 2, "v2": 5, "v3": 5, "v4": 4, "v5": 5, "v6": 2, "v7": 4},
        [tuple(f"v{i}" for i in edge) for edge in ("47", "36", "46", "24", "57", "04", "35", "14")],
        ["v0", "v1", "v6"],
    ),
}


@pytest.mark.parametrize("max_rank", [1, 2, 3])
@pytest.mark.parametrize("graph", WIDENED.values(), ids=WIDENED.keys())
def test_a_capped_edge_has_the_views_of_its_children(graph: et.LatentGraph, max_rank: int) -> None:
    """Every variable of an inside view is in that of a child, whatever is capped: else nothing could be learned."""
    plan = ViewPlan.build(graph, max_rank=max_rank)
    for node in plan.nodes:
        if node.children and node.parent >= 0:
            below = [plan.nodes[child].inside for child in node.children] or [(node.observed,)]
            assert set(node.inside) <= {name for names in below for name in names}
    rows = et.LatentNetwork.random(graph, seed=0).sample(400, seed=1)
    model = et.SpectralJunctionTree(graph, max_rank=max_rank, shrinkage=1.0).fit(rows)
    assert_allclose(model.joint(graph.observed[:2]).sum(), 1.0)
