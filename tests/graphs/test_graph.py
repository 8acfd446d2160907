"""What a `LatentGraph` accepts and refuses, and that it reads the graphs of other libraries."""

from __future__ import annotations

import copy
import os
import pickle
import subprocess
import sys
import warnings
from itertools import pairwise
from typing import Any

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pgmpy.factors.discrete import DiscreteFactor, TabularCPD
from pgmpy.models import DiscreteBayesianNetwork, DiscreteMarkovNetwork

from eigentree.errors import EigentreeError, GraphError
from eigentree.graphs.graph import LatentGraph

with warnings.catch_warnings():
    # SWIG's types warn while they are made, and the interpreter crashes when that warning is an error.
    warnings.filterwarnings("ignore", "builtin type .* has no __module__ attribute", DeprecationWarning)
    import pyagrum

STATES = {"h0": 2, "x0": 4, "h1": 3, "x1": 5}
EDGES = [("h0", "h1"), ("h0", "x0"), ("h1", "x1")]
HIDDEN = ["h1", "h0"]


@pytest.fixture
def graph() -> LatentGraph:
    return LatentGraph(STATES, EDGES, HIDDEN)


# What a graph says of itself.


def test_fields_follow_the_order_of_states(graph: LatentGraph) -> None:
    assert dict(graph.states) == STATES
    assert graph.names == ("h0", "x0", "h1", "x1")
    assert graph.hidden == ("h0", "h1")
    assert graph.observed == ("x0", "x1")
    assert graph.edges == tuple(EDGES)
    assert graph.directed is True


def test_columns_number_the_observed_variables_in_order(graph: LatentGraph) -> None:
    assert [graph.column(name) for name in graph.observed] == [0, 1]


def test_parents_are_in_the_order_of_the_edges() -> None:
    edges = [("c", "d"), ("a", "d"), ("a", "b"), ("b", "d")]
    graph = LatentGraph(dict.fromkeys("abcd", 2), edges)
    assert graph.parents("d") == ("c", "a", "b")
    assert graph.parents("a") == ()
    assert graph.neighbors("a") == ("d", "b")
    assert graph.neighbors("d") == ("c", "a", "b")


def test_an_undirected_graph_has_neighbors_and_no_parents() -> None:
    graph = LatentGraph(dict.fromkeys("abc", 2), [("b", "a"), ("c", "b"), ("a", "c")], ["b"], directed=False)
    assert all(graph.parents(name) == () for name in graph.names)
    assert graph.neighbors("a") == ("b", "c")


def test_iterators_and_whole_numpy_numbers_are_accepted(graph: LatentGraph) -> None:
    pairs = ((name, np.int64(count)) for name, count in STATES.items())
    again = LatentGraph(pairs, iter(EDGES), iter(HIDDEN))
    assert again == graph
    assert all(type(count) is int for count in again.states.values())


@given(st.data())
def test_every_acyclic_set_of_edges_is_kept_as_given(data: st.DataObject) -> None:
    names = data.draw(st.permutations("abcdef"))
    upward = [(low, high) for place, low in enumerate(names) for high in names[place + 1 :]]
    edges = data.draw(st.lists(st.sampled_from(upward), unique=True))
    hidden = set(data.draw(st.lists(st.sampled_from(names), max_size=len(names) - 1, unique=True)))
    graph = LatentGraph(dict.fromkeys(names, 2), edges, hidden)
    assert list(graph.edges) == edges
    assert sorted(graph.hidden + graph.observed) == sorted(names)
    for name in names:
        assert list(graph.parents(name)) == [source for source, target in edges if target == name]
        assert sorted(graph.neighbors(name)) == sorted(
            other for edge in edges for other in edge if name in edge and other != name
        )


def test_repr_counts(graph: LatentGraph) -> None:
    assert repr(graph) == "<LatentGraph: 2 observed and 2 hidden variables, 3 directed edges>"


# What a graph refuses.


def test_every_refusal_is_a_value_error() -> None:
    assert issubclass(GraphError, EigentreeError)
    assert issubclass(EigentreeError, ValueError)


COUNTS = (0, -1, np.int64(0), True, 2.0, np.float64(2), "2", None)
XY = {"x": 2, "y": 2}
PAIRS = "states is a mapping or pairs of a name and a number, not "
REFUSALS: list[tuple[tuple[Any, ...], dict[str, Any], str]] = [
    *(
        (({"x": count},), {}, "the number of states of 'x' is a whole number of at least 1, not ")
        for count in COUNTS
    ),
    *((({name: 2},), {}, "variable names are non-empty strings, not ") for name in (0, "", None, ("x", 1))),
    (([("x", 2), ("y", 3), ("x", 2)],), {}, "variable 'x' is given twice"),
    *((([pair],), {}, PAIRS) for pair in ("x0", "abc", ("x", 2, 3), ("x",), 5)),
    ((5,), {}, "states is a list of names with their numbers of states, or a mapping"),
    *(
        ((STATES, [edge]), {}, "an edge is a pair of names, not ")
        for edge in (("h0", "x0", "x1"), ("h0",), "ab", 1)
    ),
    ((STATES, None), {}, "edges is a list of pairs of names"),
    ((STATES, [("hh0", "x0")]), {}, r"names 'hh0', which is not in states; did you mean 'h0'\?"),
    ((STATES, [("x0", "hh0")]), {}, r"names 'hh0', which is not in states; did you mean 'h0'\?"),
    ((STATES, [("h0", "weather")]), {}, r"names 'weather', which is not in states$"),
    ((XY, [(["x"], "y")]), {}, r"names \['x'\], which is not in states"),
    ((STATES, EDGES, ["h0", "h11"]), {}, r"hidden names 'h11', which is not in states; did you mean 'h1'\?"),
    (({"h": 2, "x": 2}, [("h", "x")]), {"hidden": "h"}, r"write hidden=\['h'\]"),
    ((XY,), {"hidden": None}, "hidden is a list of names, not None"),
    ((XY,), {"hidden": [["x"]]}, r"hidden is a list of names, and \['x'\] is no string"),
    ((STATES, EDGES, ["h0", "h0"]), {}, "hidden names 'h0' twice"),
    *(
        ((dict.fromkeys(names, 2), (), names), {}, "the graph has no observed variable")
        for names in ([], ["h"], ["h", "g"])
    ),
    *(((STATES, [("x0", "x0")]), {"directed": d}, r"edge \('x0', 'x0'\) is a self-loop") for d in (True, False)),
    *(((STATES, [("h0", "x0")] * 2), {"directed": d}, r"\('h0', 'x0'\) is given twice") for d in (True, False)),
    *(((XY, [e, e[::-1]]), {"directed": False}, "is given twice") for e in (("x", "y"), ("y", "x"))),
    ((XY,), {"directed": "no"}, "directed is True or False, not 'no'"),
]


@pytest.mark.parametrize(("arguments", "options", "message"), REFUSALS)
def test_what_is_no_graph_is_refused(arguments: tuple[Any, ...], options: dict[str, Any], message: str) -> None:
    with pytest.raises(GraphError, match=message):
        LatentGraph(*arguments, **options)


def test_a_name_in_other_letters_is_a_hint() -> None:
    for name in ("H", "Straße"):
        graph = LatentGraph({name: 2, "Hh": 2})
        with pytest.raises(GraphError, match=rf"has no variable '{name.swapcase()}'; did you mean '{name}'\?"):
            graph.require(name.swapcase())


@pytest.mark.parametrize("length", [2, 3, 5])
def test_a_cycle_is_named_along_its_edges(length: int) -> None:
    ring = [(f"c{place}", f"c{(place + 1) % length}") for place in range(length)]
    states = {**dict.fromkeys(["c4", "root", "c2", "c0", "c3", "c1", "leaf"], 2)}
    with pytest.raises(GraphError, match="the edges form a cycle: ") as caught:
        LatentGraph(states, [("root", "c0"), *ring, ("c1", "leaf")])
    named = str(caught.value).split(": ")[1].split(";")[0].split(" -> ")
    assert named[0] == named[-1]
    assert set(pairwise(named)) == set(ring)


def test_the_same_ring_is_fine_without_direction() -> None:
    ring = [("a", "b"), ("b", "c"), ("c", "a")]
    assert LatentGraph(dict.fromkeys("abc", 2), ring, directed=False).edges == tuple(ring)


@pytest.mark.parametrize("method", ["parents", "neighbors", "column", "require"])
def test_questions_about_unknown_names_are_refused_with_a_hint(graph: LatentGraph, method: str) -> None:
    with pytest.raises(GraphError, match=r"the graph has no variable 'xx1'; did you mean 'x1'\?"):
        getattr(graph, method)("xx1")


def test_a_hidden_variable_has_no_column(graph: LatentGraph) -> None:
    with pytest.raises(GraphError, match=r"'h1' is hidden, so no column holds it; .* are x0, x1$"):
        graph.column("h1")


def test_a_long_list_of_observed_variables_is_cut() -> None:
    graph = LatentGraph({"h": 2, **{f"x{place}": 2 for place in range(20)}}, hidden=["h"])
    with pytest.raises(GraphError, match=r"x7, … \(20 in all\)$"):
        graph.column("h")


# A graph is a value.


@pytest.mark.parametrize("field", ["states", "edges", "hidden", "observed", "names", "directed", "new"])
def test_no_field_can_be_set_or_deleted(graph: LatentGraph, field: str) -> None:
    with pytest.raises(AttributeError, match="immutable"):
        setattr(graph, field, ())
    with pytest.raises(AttributeError, match="immutable"):
        delattr(graph, field)


def test_states_cannot_be_changed_from_inside_or_outside() -> None:
    given_states = dict(STATES)
    graph = LatentGraph(given_states, EDGES, HIDDEN)
    with pytest.raises(TypeError):
        graph.states["x0"] = 7
    given_states["x0"] = 7
    assert graph.states["x0"] == 4


def test_equal_graphs_are_equal_and_hash_alike(graph: LatentGraph) -> None:
    again = LatentGraph(list(STATES.items()), list(EDGES), reversed(HIDDEN))
    assert again == graph
    assert hash(again) == hash(graph)
    assert len({again, graph}) == 1


def test_graphs_that_differ_in_anything_are_not_equal(graph: LatentGraph) -> None:
    others = [
        LatentGraph({**STATES, "x0": 3}, EDGES, HIDDEN),
        LatentGraph(dict(reversed(STATES.items())), EDGES, HIDDEN),
        # The same hidden ones in the same order, but other columns of data.
        LatentGraph({"x1": STATES["x1"], **STATES}, EDGES, HIDDEN),
        LatentGraph(STATES, EDGES[:2], HIDDEN),
        LatentGraph(STATES, EDGES[::-1], HIDDEN),
        LatentGraph(STATES, EDGES, ["h0"]),
        LatentGraph(STATES, EDGES, HIDDEN, directed=False),
    ]
    assert all(other != graph for other in others)
    assert len({graph, *others}) == len(others) + 1
    assert graph != "graph"


@pytest.mark.parametrize("directed", [True, False])
def test_copies_and_pickles_are_equal_and_whole(directed: bool) -> None:
    graph = LatentGraph(STATES, EDGES, HIDDEN, directed=directed)
    for again in (copy.copy(graph), copy.deepcopy(graph), pickle.loads(pickle.dumps(graph))):
        assert again == graph
        assert hash(again) == hash(graph)
        assert again.parents("h1") == graph.parents("h1")
        assert again.neighbors("h0") == graph.neighbors("h0")
        assert again.column("x1") == 1
        with pytest.raises(AttributeError, match="immutable"):
            again.directed = False


# networkx.


def test_networkx_attributes_give_states_and_hidden() -> None:
    net = nx.DiGraph()
    net.add_node("x", states=4)
    net.add_node("h", states=2, hidden=True)
    net.add_node("y", states=3, hidden=False)
    net.add_edges_from([("h", "x"), ("h", "y"), ("x", "y")])
    expected = LatentGraph({"x": 4, "h": 2, "y": 3}, [("h", "x"), ("h", "y"), ("x", "y")], ["h"])
    assert LatentGraph.from_networkx(net) == expected


def test_networkx_parents_are_in_the_order_in_which_their_edges_were_added() -> None:
    net = nx.DiGraph([("b", "y"), ("a", "x"), ("a", "y"), ("c", "y")])
    graph = LatentGraph.from_networkx(net, hidden=["a"], states=dict.fromkeys("abcxy", 2))
    assert graph.parents("y") == ("b", "a", "c")


def test_networkx_arguments_go_before_attributes() -> None:
    net = nx.DiGraph([("h", "x")])
    nx.set_node_attributes(net, 9, "states")
    nx.set_node_attributes(net, {"x": True}, "hidden")
    graph = LatentGraph.from_networkx(net, hidden=["h"], states={"h": 2, "x": 4, "unused": 5})
    assert graph == LatentGraph({"h": 2, "x": 4}, [("h", "x")], ["h"])


def test_an_undirected_networkx_graph_stays_undirected() -> None:
    net = nx.Graph([("a", "b"), ("b", "c"), ("c", "a")])
    graph = LatentGraph.from_networkx(net, hidden=["c"], states={"a": 2, "b": 3, "c": 2})
    assert not graph.directed
    assert {frozenset(edge) for edge in graph.edges} == {frozenset(edge) for edge in net.edges}
    assert graph.hidden == ("c",)


def test_networkx_nodes_without_states_are_refused() -> None:
    net = nx.DiGraph([("h", "x")])
    net.nodes["h"]["states"] = 2
    with pytest.raises(GraphError, match=r"node 'x' has no attribute 'states'; .* or pass states="):
        LatentGraph.from_networkx(net)
    with pytest.raises(GraphError, match="states= gives no number of states for node 'x'"):
        LatentGraph.from_networkx(net, states={"h": 2})


@pytest.mark.parametrize("kind", [nx.MultiDiGraph, nx.MultiGraph])
def test_networkx_multigraphs_are_refused(kind: type[nx.Graph]) -> None:
    with pytest.raises(GraphError, match="multigraph"):
        LatentGraph.from_networkx(kind([("a", "b")]), states={"a": 2, "b": 2})


def test_networkx_nodes_that_are_no_text_and_cycles_are_refused() -> None:
    with pytest.raises(GraphError, match="variable names are non-empty strings, not 0"):
        LatentGraph.from_networkx(nx.DiGraph([(0, 1)]), states={0: 2, 1: 2})
    with pytest.raises(GraphError, match="the edges form a cycle"):
        LatentGraph.from_networkx(nx.DiGraph([("a", "b"), ("b", "a")]), states={"a": 2, "b": 2})


# pgmpy.


def pgmpy_network(with_tables: bool) -> DiscreteBayesianNetwork:
    model = DiscreteBayesianNetwork([("h", "y"), ("x", "y"), ("g", "y"), ("g", "x")], latents={"h", "g"})
    if with_tables:
        states = {"h": 2, "g": 3, "x": 4, "y": 5}
        # The evidence of y is in another order than the edges.
        for name, evidence in {"h": [], "g": [], "x": ["g"], "y": ["g", "x", "h"]}.items():
            sizes = [states[parent] for parent in evidence]
            table = np.full((states[name], int(np.prod(sizes))), 1 / states[name])
            model.add_cpds(TabularCPD(name, states[name], table, evidence or None, sizes or None))
    return model


def test_pgmpy_tables_give_the_states_and_latents_the_hidden() -> None:
    graph = LatentGraph.from_pgmpy(pgmpy_network(with_tables=True))
    assert graph.directed
    assert dict(graph.states) == {"h": 2, "g": 3, "x": 4, "y": 5}
    assert set(graph.hidden) == {"h", "g"}
    assert set(graph.edges) == {("h", "y"), ("x", "y"), ("g", "y"), ("g", "x")}


@pytest.mark.parametrize("with_tables", [True, False])
def test_pgmpy_names_and_parents_are_in_the_order_of_its_own_edges(with_tables: bool) -> None:
    graph = LatentGraph.from_pgmpy(pgmpy_network(with_tables), states={"h": 2, "g": 3, "x": 4, "y": 5})
    assert graph.names == ("h", "y", "x", "g")
    assert graph.parents("y") == ("h", "x", "g")


def test_pgmpy_order_does_not_hang_on_the_hash_seed() -> None:
    edges = [("zeta", "y"), ("alpha", "y"), ("mu", "y"), ("mu", "w")]
    code = (
        "from pgmpy.models import DiscreteBayesianNetwork\n"
        "from eigentree.graphs.graph import LatentGraph\n"
        f"net = DiscreteBayesianNetwork({edges!r}, latents={{'zeta', 'mu', 'alpha'}})\n"
        "graph = LatentGraph.from_pgmpy(net, states=dict.fromkeys(net.nodes, 2))\n"
        "print(graph.names, graph.parents('y'), graph.hidden)"
    )
    run = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONHASHSEED": "1"},
        text=True,
        capture_output=True,
        check=True,
    )
    names = ("zeta", "y", "alpha", "mu", "w")
    parents = hidden = ("zeta", "alpha", "mu")
    assert run.stdout.strip() == f"{names} {parents} {hidden}"


def test_pgmpy_arguments_go_before_the_model() -> None:
    states = dict.fromkeys("hgxy", 2)
    graph = LatentGraph.from_pgmpy(pgmpy_network(with_tables=True), hidden=["h"], states=states)
    assert graph.hidden == ("h",)
    assert dict(graph.states) == states


def test_pgmpy_without_tables_asks_for_states() -> None:
    model = pgmpy_network(with_tables=False)
    with pytest.raises(GraphError, match=r"no CPD or factor for 'h', .* pass states="):
        LatentGraph.from_pgmpy(model)
    with pytest.raises(GraphError, match="states= gives no number of states for node 'g'"):
        LatentGraph.from_pgmpy(model, states=dict.fromkeys("hxy", 2))


def test_a_pgmpy_markov_network_is_undirected() -> None:
    model = DiscreteMarkovNetwork([("a", "h"), ("h", "b"), ("a", "b")])
    model.add_factors(
        DiscreteFactor(["a", "h"], [2, 3], np.ones(6)),
        DiscreteFactor(["h", "b"], [3, 4], np.ones(12)),
    )
    graph = LatentGraph.from_pgmpy(model, hidden=["h"])
    assert not graph.directed
    assert dict(graph.states) == {"a": 2, "h": 3, "b": 4}
    assert {frozenset(edge) for edge in graph.edges} == {frozenset(edge) for edge in model.edges}
    assert LatentGraph.from_pgmpy(model).hidden == ()


# pyagrum.


def test_pyagrum_names_and_states_are_in_the_order_of_its_nodes() -> None:
    net = pyagrum.fastBN("h{a|b|c}->x[4];h->y[2]<-z[5]")
    graph = LatentGraph.from_pyagrum(net, hidden=["h"])
    assert graph.directed
    assert list(graph.states.items()) == [("h", 3), ("x", 4), ("y", 2), ("z", 5)]
    assert graph.hidden == ("h",)
    assert set(graph.edges) == {("h", "x"), ("h", "y"), ("z", "y")}


@pytest.mark.parametrize("order", ["abc", "cab", "bca"])
def test_pyagrum_parents_follow_the_table(order: str) -> None:
    net = pyagrum.BayesNet()
    for states, name in enumerate("cxab", start=2):
        net.add(pyagrum.LabelizedVariable(name, "", states))
    for parent in order:
        net.addArc(parent, "x")
    graph = LatentGraph.from_pyagrum(net, hidden=["a"])
    assert graph.parents("x") == tuple(order)
    assert ("x", *graph.parents("x")) == tuple(net.cpt("x").names)


def test_an_unknown_hidden_name_of_a_pyagrum_net_is_refused() -> None:
    with pytest.raises(GraphError, match="hidden names 'q', which is not in states"):
        LatentGraph.from_pyagrum(pyagrum.fastBN("h->x"), hidden=["q"])


def test_importing_the_graph_imports_no_other_graph_library() -> None:
    code = (
        "import sys, eigentree.graphs.graph\n"
        "print([name for name in ('networkx', 'pgmpy', 'pyagrum') if name in sys.modules])"
    )
    run = subprocess.run([sys.executable, "-c", code], text=True, capture_output=True, check=True)
    assert run.stdout.strip() == "[]"


def test_a_long_cycle_is_named_in_short() -> None:
    names = [f"v{i}" for i in range(5_000)]
    edges = [(name, names[(i + 1) % 5_000]) for i, name in enumerate(names)]
    with pytest.raises(GraphError, match=r"form a cycle: .* -> … \(5001 in all\); remove") as caught:
        LatentGraph(dict.fromkeys(names, 2), edges)
    assert len(str(caught.value)) < 200
