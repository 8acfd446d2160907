"""Junction trees: the normal form, the running-intersection property, determinism, limits and growth."""

from __future__ import annotations

import math
import subprocess
import sys
from itertools import combinations, pairwise

import networkx as nx
import pytest
from growth import steps_of
from hypothesis import given, settings
from hypothesis import strategies as st
from random_graphs import latent_graphs

import eigentree as et
from eigentree.graphs.elimination import moral_adjacency, unavoidable_clique
from eigentree.graphs.junction_tree import JunctionTree
from eigentree.planning.view_plan import ViewPlan

graphs = latent_graphs(most_variables=9, most_cells=10**6)


def check_normal_form(tree: JunctionTree) -> None:
    graph = tree.graph
    held = [node.observed for node in tree.nodes if node.observed is not None]
    assert sorted(held) == sorted(graph.observed)
    for i, node in enumerate(tree.nodes):
        assert len(node.children) <= (3 if i == 0 else 2)
        assert set(node.separator) | set(node.remainder) == set(node.clique)
        assert not set(node.separator) & set(node.remainder)
        assert set(node.clique) <= set(tree.cliques[node.origin])
        if i == 0:
            assert (node.parent, node.separator) == (-1, ())
        else:
            above = tree.nodes[node.parent]
            assert node.parent < i
            assert i in above.children
            assert set(node.separator) == set(node.clique) & set(above.clique)
        if node.children:
            assert node.observed is None
        else:
            assert node.observed is not None
            assert set(node.remainder) <= {node.observed}
            assert node.observed in node.clique


def check_running_intersection(tree: JunctionTree) -> None:
    """The nodes that hold a variable hang together: all but one of them have it in their separator."""
    for name in tree.graph.names:
        tops = [node for node in tree.nodes if name in node.clique and name not in node.separator]
        assert len(tops) <= 1


def check_covers_the_moral_graph(tree: JunctionTree) -> None:
    adjacency = moral_adjacency(tree.graph)
    cliques = [set(clique) for clique in tree.cliques]
    for name, around in adjacency.items():
        for other in around:
            assert any({name, other} <= clique for clique in cliques)
    assert not any(a < b for a in cliques for b in cliques), "a clique is not maximal"
    filled = nx.Graph()
    filled.add_nodes_from(tree.graph.names)
    for clique in tree.cliques:
        filled.add_edges_from((a, b) for a in clique for b in clique if a < b)
    assert nx.is_chordal(filled)
    assert {frozenset(c) for c in nx.chordal_graph_cliques(filled)} == {frozenset(c) for c in tree.cliques}


@settings(max_examples=200, deadline=None)
@given(graphs)
def test_trees_of_random_graphs_are_junction_trees_in_normal_form(graph: et.LatentGraph) -> None:
    tree = JunctionTree.build(graph)
    check_normal_form(tree)
    check_running_intersection(tree)
    check_covers_the_moral_graph(tree)


@settings(max_examples=60, deadline=None)
@given(graphs, st.integers(0, 8))
def test_any_root_gives_a_junction_tree(graph: et.LatentGraph, which: int) -> None:
    name = graph.names[which % len(graph.names)]
    tree = JunctionTree.build(graph, root=name)
    check_normal_form(tree)
    check_running_intersection(tree)


@settings(max_examples=60, deadline=None)
@given(graphs, st.randoms(use_true_random=False))
def test_order_of_insertion_changes_nothing(graph: et.LatentGraph, random) -> None:
    states = list(graph.states.items())
    edges = list(graph.edges)
    random.shuffle(states)
    random.shuffle(edges)
    shuffled = et.LatentGraph(states, edges, graph.hidden, graph.directed)
    assert JunctionTree.build(shuffled).nodes == JunctionTree.build(graph).nodes


def test_the_tree_is_built_once_and_kept_on_its_graph() -> None:
    graph = et.zoo.hmm(6, 2, 2, 4)
    tree = JunctionTree.of(graph)
    assert JunctionTree.of(graph) is tree
    built = JunctionTree.build(graph)
    assert built is not tree
    assert built.nodes == tree.nodes
    assert JunctionTree.build(graph, root="h0").nodes != tree.nodes
    assert JunctionTree.of(graph) is tree, "another root must not take the place of the middle"
    assert JunctionTree.of(et.zoo.hmm(6, 2, 2, 4)) is not tree, "an equal graph has a tree of its own"


def test_the_hash_seed_changes_nothing() -> None:
    script = (
        "import eigentree as et; "
        "print(et.JunctionTree.build(et.zoo.paper_junction_tree()).nodes, "
        "et.JunctionTree.build(et.zoo.factorial_hmm(6, 3)).nodes)"
    )
    outputs = {
        subprocess.run(
            [sys.executable, "-c", script],
            env={"PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("0", "1", "2")
    }
    assert len(outputs) == 1


@pytest.mark.parametrize(
    ("graph", "width"),
    [
        (et.zoo.hmm(20, 1, 2, 3), 1),
        (et.zoo.hmm(20, 2, 2, 3), 2),
        (et.zoo.hmm(20, 3, 2, 3), 3),
        (et.zoo.factorial_hmm(10, 2, 2, 4), 2),
        (et.zoo.mixture(30, 3, 2), 1),
        (et.zoo.latent_tree(depth=3, hidden_states=2, observed_states=3), 1),
        (et.zoo.paper_junction_tree(), 4),
    ],
    ids=["hmm1", "hmm2", "hmm3", "factorial", "mixture", "tree", "paper"],
)
def test_the_zoo_has_the_treewidths_that_theory_gives(graph: et.LatentGraph, width: int) -> None:
    tree = JunctionTree.build(graph)
    assert tree.width == width
    check_normal_form(tree)
    check_running_intersection(tree)


def test_many_children_are_split_in_a_balanced_way() -> None:
    tree = JunctionTree.build(et.zoo.mixture(1000, 2, 2))
    depth = [0] * len(tree.nodes)
    for i, node in enumerate(tree.nodes[1:], start=1):
        depth[i] = depth[node.parent] + 1
    assert max(depth) <= 11


def test_parts_without_observed_variables_are_pruned() -> None:
    chain = [(f"h{i}", f"h{i + 1}") for i in range(6)]
    graph = et.LatentGraph(
        {f"h{i}": 2 for i in range(7)} | {"x": 3, "y": 3},
        [*chain, ("h2", "x"), ("h3", "y")],
        [f"h{i}" for i in range(7)],
    )
    tree = JunctionTree.build(graph)
    kept = {name for node in tree.nodes for name in node.clique}
    assert kept == {"h2", "h3", "x", "y"}


def test_inside_and_outside_cut_the_columns_in_two() -> None:
    tree = JunctionTree.build(et.zoo.paper_junction_tree())
    everything = frozenset(tree.graph.observed)
    assert tree.inside(0) == everything
    for i, node in enumerate(tree.nodes):
        assert tree.inside(i) | tree.outside(i) == everything
        assert not tree.inside(i) & tree.outside(i)
        if node.children:
            assert tree.inside(i) == frozenset().union(*(tree.inside(c) for c in node.children))


def test_a_grid_too_wide_is_refused_with_its_clique_before_memory_blows_up() -> None:
    grid = nx.convert_node_labels_to_integers(nx.grid_2d_graph(40, 40))
    names = {i: f"v{i}" for i in grid.nodes}
    graph = et.LatentGraph(
        dict.fromkeys(names.values(), 2),
        [(names[a], names[b]) for a, b in grid.edges],
        [names[i] for i in range(1, 1600)],
        directed=False,
    )
    with pytest.raises(et.TreewidthError, match=r"clique of \d+ variables with .* joint states .*\{v\d+, .*remove"):
        JunctionTree.build(graph)


def test_max_clique_states_is_the_limit() -> None:
    graph = et.zoo.hmm(5, 2, 2, 3)
    JunctionTree.build(graph, max_clique_states=8)
    with pytest.raises(et.TreewidthError, match=r"8 joint states \(the limit is 7\)"):
        JunctionTree.build(graph, max_clique_states=7)


@pytest.mark.parametrize("build", [JunctionTree.build, et.LatentNetwork.random])
def test_a_family_too_large_is_refused_before_any_work(build) -> None:
    parents = [f"p{i}" for i in range(3_000)]
    graph = et.LatentGraph(dict.fromkeys([*parents, "x"], 2), [(p, "x") for p in parents], parents)
    with pytest.raises(
        et.TreewidthError, match=r"'x' given its 3000 parents has 2.46e\+903 joint states .*\{x, p0,"
    ):
        build(graph)


@settings(max_examples=100, deadline=None)
@given(graphs)
def test_what_is_refused_before_triangulation_is_unavoidable(graph: et.LatentGraph) -> None:
    moral = moral_adjacency(graph)
    numbers = {name: i for i, name in enumerate(graph.names)}
    found = unavoidable_clique(
        [{numbers[other] for other in moral[name]} for name in graph.names], list(graph.states.values())
    )
    bound = math.prod(graph.states[graph.names[i]] for i in found)
    tree = JunctionTree.build(graph)
    assert bound <= max(math.prod(tree.states_of(clique)) for clique in tree.cliques)


def lattice(rows: int, columns: int, observed: int = 3, states: int = 2, directed: bool = False) -> et.LatentGraph:
    """A grid, of which every so-manieth variable is observed."""
    grid = nx.grid_2d_graph(rows, columns)
    names = {place: f"v{place[0]}_{place[1]}" for place in grid.nodes}
    hidden = [name for k, name in enumerate(names.values()) if k % observed]
    return et.LatentGraph(
        dict.fromkeys(names.values(), states), [(names[a], names[b]) for a, b in grid.edges], hidden, directed
    )


def sparse(count: int, degree: float, seed: int) -> et.LatentGraph:
    """A random graph without any order."""
    net = nx.gnp_random_graph(count, degree / count, seed=seed)
    names = [f"v{i}" for i in net.nodes]
    edges = [(names[a], names[b]) for a, b in net.edges]
    return et.LatentGraph(dict.fromkeys(names, 2), edges, names[1:], directed=False)


HOPELESS = {
    "a lattice": lattice(60, 60),
    "a directed lattice": lattice(60, 60, directed=True),
    "a random graph": sparse(1_000, 10, seed=0),
    "a sparse random graph": sparse(3_000, 4, seed=0),
    "everything with everything": sparse(400, 400, seed=0),
}


@pytest.mark.parametrize("graph", HOPELESS.values(), ids=HOPELESS.keys())
def test_what_is_hopeless_is_refused_with_little_work(graph: et.LatentGraph) -> None:
    """So many steps of the interpreter per variable and edge: a second for thousands of them."""

    def refused() -> None:
        with pytest.raises(et.TreewidthError, match="the junction tree needs a clique of"):
            JunctionTree.build(graph)

    assert steps_of(refused) < 200 * (len(graph.names) + len(graph.edges))


def test_cliques_of_many_variables_of_one_state_are_refused_as_well() -> None:
    """Their tables are small, but have more axes than any array."""
    names = [f"v{i}" for i in range(40)]
    alike = et.LatentGraph(dict.fromkeys(names, 1), list(combinations(names, 2)), names[1:], directed=False)
    with pytest.raises(et.TreewidthError, match=r"a clique of 40 variables with more axes than the 30 .*\{v0, v1,"):
        JunctionTree.build(alike)
    parents = et.LatentGraph(dict.fromkeys(names, 1), [(name, "v0") for name in names[1:]], names[1:])
    for build in (JunctionTree.build, et.LatentNetwork.random):
        with pytest.raises(et.TreewidthError, match="'v0' given its 39 parents has more axes than the 30"):
            build(parents)
    chain = et.LatentGraph(dict.fromkeys(names, 1), list(pairwise(names)), names[1:])
    assert JunctionTree.build(chain).width == 1


def test_a_dense_graph_is_refused_before_it_is_triangulated() -> None:
    names = [f"v{i}" for i in range(300)]
    graph = et.LatentGraph(dict.fromkeys(names, 2), list(combinations(names, 2)), names[1:], directed=False)
    assert len(unavoidable_clique([set(range(300)) - {i} for i in range(300)], [2] * 300)) == 300
    with pytest.raises(et.TreewidthError, match=r"a clique of 300 variables with 2.04e\+90 joint states"):
        JunctionTree.build(graph)


def test_the_sum_of_all_cliques_is_limited() -> None:
    names = [f"h{i}" for i in range(18)]
    graph = et.LatentGraph(dict.fromkeys(names, 4096) | {"x": 2}, [*pairwise(names), ("h17", "x")], names)
    with pytest.raises(
        et.TreewidthError, match=r"2.85e\+08 joint states together .* the largest, with 1.68e\+07, is"
    ):
        JunctionTree.build(graph)
    JunctionTree.build(graph, max_clique_states=2**25)


def test_an_observed_parent_with_too_many_states_is_named() -> None:
    graph = et.LatentGraph({"x": 70_000, "y": 2}, [("x", "y")])
    with pytest.raises(et.TreewidthError, match=r"'x' is observed, has 70000 states .* table of 4.9e\+09 entries"):
        JunctionTree.build(graph)
    alone = et.LatentNetwork.random(et.LatentGraph({"x": 70_000, "y": 2}), seed=0)
    assert alone.log_prob([[69_999, 1]]).shape == (1,)


def test_an_unknown_root_is_an_error() -> None:
    with pytest.raises(et.GraphError, match="no variable 'h9'"):
        JunctionTree.build(et.zoo.hmm(3), root="h9")


def test_work_grows_in_proportion_to_the_length() -> None:
    """Steps of the interpreter, not seconds: growth is a property of the algorithm, the clock is not."""

    def steps(length: int) -> int:
        graph = et.zoo.hmm(length, 2, 2, 4)
        return steps_of(lambda: JunctionTree.build(graph))

    assert steps(400) <= 2.2 * steps(200)


def test_a_long_chain_gets_its_tree() -> None:
    tree = JunctionTree.build(et.zoo.hmm(5_000, 2, 2, 4))
    assert tree.width == 2
    check_normal_form(tree)
    depth = [0] * len(tree.nodes)
    for i, node in enumerate(tree.nodes[1:], start=1):
        depth[i] = depth[node.parent] + 1
    assert max(depth) <= 2_501, "the root is not in the middle"


def test_children_with_one_separator_hang_from_it_alone() -> None:
    """Else a chain without hidden variables of 41 states would have a separator of 1,681."""
    graph = et.LatentGraph({f"x{i}": 41 for i in range(5)}, [(f"x{i}", f"x{i + 1}") for i in range(4)])
    tree = JunctionTree.build(graph)
    assert max(len(node.separator) for node in tree.nodes) == 1
    assert max(node.rank for node in ViewPlan.build(graph).nodes) == 41
