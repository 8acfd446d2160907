"""The laws of the ready-made structures: who is whose parent, in what numbers, under what names."""

from __future__ import annotations

import copy
import dataclasses
import pickle
from collections import Counter
from math import ceil, log
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import clone

from eigentree import zoo
from eigentree.errors import GraphError, ParameterError

if TYPE_CHECKING:
    from collections.abc import Callable

    from eigentree.graphs.graph import LatentGraph

TEMPLATES = [
    zoo.HMM(order=2, hidden_states=3),
    zoo.FactorialHMM(levels=3, hidden_states=(2, 3, 4)),
    zoo.Mixture(hidden_states=5),
    zoo.SemiHiddenMarkov(hidden_states=3, max_duration=4),
    zoo.LatentTree(hidden_states=3, branching=3),
]
GRAPHS = {
    "hmm": lambda **more: zoo.hmm(8, order=3, **more),
    "factorial_hmm": lambda **more: zoo.factorial_hmm(8, levels=3, **more),
    "mixture": lambda **more: zoo.mixture(8, **more),
    "semi_hidden_markov": lambda **more: zoo.semi_hidden_markov(8, **more),
    "latent_tree": lambda **more: zoo.latent_tree(depth=3, **more),
    "paper_junction_tree": lambda **more: zoo.paper_junction_tree(**more),
}


def columns(count: int) -> tuple[str, ...]:
    return tuple(f"x{place}" for place in range(count))


def children(graph: LatentGraph, name: str) -> list[str]:
    return [target for source, target in graph.edges if source == name]


# Laws of all.


@pytest.mark.parametrize("make", GRAPHS.values(), ids=GRAPHS.keys())
def test_observed_columns_are_in_order_and_have_the_states_asked_for(make: Callable[..., LatentGraph]) -> None:
    counts = [3, 2, 5, 4, 3, 2, 7, 1]
    graph = make(observed_states=counts)
    assert graph.directed
    assert graph.observed == columns(8)
    assert [graph.states[name] for name in graph.observed] == counts
    assert make(observed_states=np.array(counts)) == graph
    assert {make(observed_states=6).states[name] for name in graph.observed} == {6}


@pytest.mark.parametrize("make", GRAPHS.values(), ids=GRAPHS.keys())
def test_columns_have_hidden_parents_and_no_children(make: Callable[..., LatentGraph]) -> None:
    graph = make()
    for name in graph.observed:
        assert graph.parents(name)
        assert set(graph.parents(name)) <= set(graph.hidden)
        assert not children(graph, name)


@pytest.mark.parametrize("make", GRAPHS.values(), ids=GRAPHS.keys())
@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (0, "observed_states is a whole number of at least 1, not 0"),
        (2.0, r"observed_states is a whole number of at least 1, not 2\.0"),
        (True, "observed_states is a whole number of at least 1, not True"),
        ([2] * 7 + [0], r"observed_states\[7\] is a whole number of at least 1, not 0"),
        ([2] * 7, "observed_states must be one number or 8, one per column, but 7 are given"),
        ("22222222", "observed_states is a whole number of at least 1, not '22222222'"),
    ],
)
def test_wrong_observed_states_are_refused(make: Callable[..., LatentGraph], wrong: Any, message: str) -> None:
    with pytest.raises(GraphError, match=message):
        make(observed_states=wrong)


@pytest.mark.parametrize(
    ("function", "arguments", "wrong"),
    [
        (zoo.hmm, {"length": 3}, "length"),
        (zoo.hmm, {"length": 3}, "order"),
        (zoo.hmm, {"length": 3}, "hidden_states"),
        (zoo.factorial_hmm, {"length": 3}, "length"),
        (zoo.factorial_hmm, {"length": 3}, "levels"),
        (zoo.factorial_hmm, {"length": 3}, "hidden_states"),
        (zoo.mixture, {"columns": 3}, "columns"),
        (zoo.mixture, {"columns": 3}, "hidden_states"),
        (zoo.semi_hidden_markov, {"length": 3}, "length"),
        (zoo.semi_hidden_markov, {"length": 3}, "hidden_states"),
        (zoo.semi_hidden_markov, {"length": 3}, "max_duration"),
        (zoo.latent_tree, {"depth": 3}, "depth"),
        (zoo.latent_tree, {"depth": 3}, "branching"),
        (zoo.latent_tree, {"depth": 3}, "hidden_states"),
        (zoo.latent_tree, {"edges": [("h", "x")]}, "hidden_states"),
        (zoo.dynamic_bayes_net, {"length": 3, "states": {"x": 2}}, "length"),
        (zoo.paper_junction_tree, {}, "hidden_states"),
        (zoo.HMM, {}, "order"),
        (zoo.HMM, {}, "hidden_states"),
        (zoo.FactorialHMM, {}, "levels"),
        (zoo.FactorialHMM, {}, "hidden_states"),
        (zoo.Mixture, {}, "hidden_states"),
        (zoo.SemiHiddenMarkov, {}, "hidden_states"),
        (zoo.SemiHiddenMarkov, {}, "max_duration"),
        (zoo.LatentTree, {}, "hidden_states"),
        (zoo.LatentTree, {}, "branching"),
    ],
)
@pytest.mark.parametrize("value", [0, -1, 2.5, True, "2"])
def test_sizes_that_are_no_positive_whole_number_are_refused_by_name(
    function: Callable[..., object], arguments: dict[str, Any], wrong: str, value: Any
) -> None:
    with pytest.raises(GraphError, match=rf"^{wrong} is a whole number of at least \d, not "):
        function(**{**arguments, wrong: value})


# Laws of each.


@pytest.mark.parametrize("order", [1, 2, 3, 7])
@pytest.mark.parametrize("length", [1, 2, 6])
def test_hmm(length: int, order: int) -> None:
    graph = zoo.hmm(length, order, hidden_states=3)
    assert graph.hidden == tuple(f"h{t}" for t in range(length))
    assert {graph.states[name] for name in graph.hidden} == {3}
    for t in range(length):
        assert graph.parents(f"h{t}") == tuple(f"h{s}" for s in range(max(0, t - order), t))
        assert graph.parents(f"x{t}") == (f"h{t}",)
    back = min(order, length - 1)
    assert len(graph.edges) == length + back * length - back * (back + 1) // 2


@pytest.mark.parametrize("levels", [1, 2, 4])
@pytest.mark.parametrize("length", [1, 5, 12])
def test_factorial_hmm(length: int, levels: int) -> None:
    sizes = [level + 2 for level in range(levels)]
    graph = zoo.factorial_hmm(length, levels, hidden_states=sizes)
    assert len(graph.names) == length * (levels + 1)
    assert len(graph.edges) == levels * length + levels * (length - 1)
    for t in range(length):
        assert graph.parents(f"x{t}") == tuple(f"h{level}_{t}" for level in range(levels))
        for level, size in enumerate(sizes):
            assert graph.parents(f"h{level}_{t}") == ((f"h{level}_{t - 1}",) if t else ())
            assert graph.states[f"h{level}_{t}"] == size


def test_factorial_hmm_wants_one_number_a_level() -> None:
    with pytest.raises(GraphError, match="hidden_states must be one number or 2, one per level, but 3 are given"):
        zoo.factorial_hmm(4, levels=2, hidden_states=[2, 2, 2])


@pytest.mark.parametrize("count", [1, 2, 9])
def test_mixture(count: int) -> None:
    graph = zoo.mixture(count, hidden_states=4)
    assert graph.states["h"] == 4
    assert graph.hidden == ("h",)
    assert graph.edges == tuple(("h", name) for name in columns(count))


@pytest.mark.parametrize("length", [1, 2, 11])
def test_semi_hidden_markov(length: int) -> None:
    graph = zoo.semi_hidden_markov(length, hidden_states=3, max_duration=5, observed_states=4)
    assert len(graph.names) == 3 * length
    assert len(graph.edges) == 2 * length + 3 * (length - 1)
    for t in range(length):
        assert (graph.states[f"s{t}"], graph.states[f"d{t}"], graph.states[f"x{t}"]) == (3, 5, 4)
        assert graph.parents(f"s{t}") == ((f"s{t - 1}", f"d{t - 1}") if t else ())
        assert graph.parents(f"d{t}") == ((f"d{t - 1}", f"s{t}") if t else ("s0",))
        assert graph.parents(f"x{t}") == (f"s{t}",)


@pytest.mark.parametrize(("depth", "branching"), [(1, 2), (1, 5), (2, 2), (2, 3), (4, 2), (3, 3)])
def test_complete_latent_tree(depth: int, branching: int) -> None:
    graph = zoo.latent_tree(depth, branching, hidden_states=3)
    inner = (branching**depth - 1) // (branching - 1)
    assert graph.hidden == tuple(f"h{node}" for node in range(inner))
    assert graph.observed == columns(branching**depth)
    assert {graph.states[name] for name in graph.hidden} == {3}
    breadth_first = graph.hidden + graph.observed
    for place, name in enumerate(breadth_first[1:]):
        assert graph.parents(name) == (breadth_first[place // branching],)


def test_latent_tree_of_edges_keeps_names_and_finds_the_leaves() -> None:
    edges = [("animal", "cat"), ("life", "animal"), ("life", "fern"), ("animal", "dog")]
    graph = zoo.latent_tree(edges=edges, hidden_states=3, observed_states=[4, 5, 6])
    assert set(graph.hidden) == {"life", "animal"}
    assert graph.observed == ("cat", "fern", "dog")
    assert [graph.states[name] for name in graph.observed] == [4, 5, 6]
    assert {graph.states[name] for name in graph.hidden} == {3}
    assert graph.edges == tuple(edges)
    assert zoo.latent_tree(edges=iter(edges), hidden_states=3, observed_states=[4, 5, 6]) == graph


def test_latent_tree_of_the_edges_of_a_complete_tree_is_that_tree() -> None:
    graph = zoo.latent_tree(depth=3)
    again = zoo.latent_tree(edges=graph.edges)
    assert again.edges == graph.edges
    assert again.observed == graph.observed


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "give either depth or edges, not depth=None and edges=None"),
        ({"depth": 2, "edges": [("h", "x")]}, "give either depth or edges, not depth=2 and edges="),
        ({"edges": []}, "edges must form a tree with at least one leaf"),
        ({"edges": [("a", "b"), ("b", "a")]}, "edges must form a tree with at least one leaf"),
        ({"edges": [("h", "x"), ("a", "b"), ("b", "a")]}, "the edges form a cycle: "),
        ({"edges": [("h", "x"), ("g", "x")]}, r"one parent, but 'x' has \('h', 'g'\)"),
        ({"edges": [("h", "x"), ("g", "y")]}, "one tree, but 'h' and 'g' are both roots"),
        ({"edges": [("h", "x"), ("h", "x")]}, r"edge \('h', 'x'\) is given twice"),
        ({"edges": [("h", "x", "y")]}, "edges must hold pairs of names, not "),
        ({"edges": ["hx"]}, "edges must hold pairs of names, not 'hx'"),
        ({"edges": [("h", 1)]}, r"edges must hold pairs of names, not \('h', 1\)"),
        ({"edges": [("h", "x"), ("h", "y")], "observed_states": [2]}, "observed_states must be one number or 2"),
    ],
)
def test_latent_tree_refuses_what_is_no_tree(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(GraphError, match=message):
        zoo.latent_tree(**arguments)


@pytest.mark.parametrize("length", [1, 2, 12])
def test_dynamic_bayes_net_unrolls_two_slices(length: int) -> None:
    states = {"x": 4, "h1": 2, "rain": 3, "y": 5}
    within = [("h1", "x"), ("h1", "rain"), ("rain", "y")]
    between = [("h1", "h1"), ("rain", "h1"), ("x", "x")]
    graph = zoo.dynamic_bayes_net(length, states, within, between, hidden=["rain", "h1"])
    assert len(graph.names) == 4 * length
    assert len(graph.edges) == 3 * length + 3 * (length - 1)
    assert graph.observed == tuple(f"{name}{t}" for t in range(length) for name in "xy")
    assert graph.hidden == tuple(name for t in range(length) for name in (f"h1_{t}", f"rain{t}"))
    for t in range(length):
        assert graph.parents(f"h1_{t}") == ((f"h1_{t - 1}", f"rain{t - 1}") if t else ())
        assert graph.parents(f"x{t}") == ((f"x{t - 1}", f"h1_{t}") if t else ("h1_0",))
        assert graph.parents(f"rain{t}") == (f"h1_{t}",)
        assert graph.parents(f"y{t}") == (f"rain{t}",)
        assert [graph.states[name] for name in (f"x{t}", f"h1_{t}", f"rain{t}", f"y{t}")] == [4, 2, 3, 5]


def test_special_chains_are_dynamic_bayes_nets() -> None:
    states = {"s": 2, "d": 3, "x": 4}
    within, between = [("s", "d"), ("s", "x")], [("s", "s"), ("d", "s"), ("d", "d")]
    unrolled = zoo.dynamic_bayes_net(6, states, within, between, hidden=["s", "d"])
    assert zoo.semi_hidden_markov(6, 2, 3, 4) == unrolled
    unrolled = zoo.dynamic_bayes_net(6, {"h": 2, "x": 4}, [("h", "x")], [("h", "h")], hidden=["h"])
    assert zoo.hmm(6, observed_states=4) == unrolled


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"within": [("rains", "x")]}, "within names 'rains', which is not in states; did you mean 'rain'\\?"),
        ({"between": [("x", "weather")]}, "between names 'weather', which is not in states$"),
        ({"hidden": ["rian"]}, "hidden names 'rian', which is not in states; did you mean 'rain'\\?"),
        ({"hidden": "h"}, r"hidden is a list of names; write hidden=\['h'\]"),
        ({"hidden": ["h", "h"]}, "hidden names 'h' twice"),
        ({"hidden": ["h", "rain", "x"]}, "the graph has no observed variable"),
        ({"within": ["hx"]}, "within must hold pairs of names, not 'hx'"),
        ({"between": [("h",)]}, "between must hold pairs of names, not "),
        ({"within": [("x", "x")]}, "self-loop"),
        ({"within": [("h", "x"), ("x", "h")]}, "the edges form a cycle: "),
        ({"states": {"x": 0}}, r"states\['x'\] is a whole number of at least 1, not 0"),
        ({"states": {1: 2}}, "states must have non-empty strings as names, not 1"),
        ({"states": {"": 2}}, "states must have non-empty strings as names, not ''"),
        ({"states": {}}, "the graph has no observed variable"),
        ({"states": {"a1": 2, "a1_": 2}}, "variable 'a1_0' is given twice"),
    ],
)
def test_dynamic_bayes_net_refuses(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(GraphError, match=message):
        zoo.dynamic_bayes_net(**{"length": 3, "states": {"h": 2, "rain": 2, "x": 2}, **arguments})


def test_paper_junction_tree() -> None:
    graph = zoo.paper_junction_tree(hidden_states=3, observed_states=5)
    assert len(graph.hidden) == 7 * 3
    assert graph.observed == columns(8)
    assert len(graph.edges) == 7 * 3 + 6 * 2 * 3 + 8 * 2
    assert {graph.states[name] for name in graph.hidden} == {3}
    assert {graph.states[name] for name in graph.observed} == {5}
    for box in range(7):
        feeders: tuple[str, ...] = ()
        if box > 0:
            above, side = divmod(box - 1, 2)
            feeders = (f"top{above}", f"{('left', 'right')[side]}{above}")
        assert graph.parents(f"top{box}") == feeders
        assert graph.parents(f"left{box}") == (*feeders, f"top{box}")
        assert graph.parents(f"right{box}") == (*feeders, f"top{box}", f"left{box}")
    for place, name in enumerate(graph.observed):
        box, side = divmod(place, 2)
        assert graph.parents(name) == (f"top{box + 3}", f"{('left', 'right')[side]}{box + 3}")


def test_paper_junction_tree_has_the_sizes_of_the_paper() -> None:
    graph = zoo.paper_junction_tree()
    assert {graph.states[name] for name in graph.hidden} == {2}
    assert {graph.states[name] for name in graph.observed} == {16}


# Templates.


@pytest.mark.parametrize("count", [1, 2, 5, 13])
def test_functions_and_templates_agree(count: int) -> None:
    states = [2 + place % 3 for place in range(count)]
    assert zoo.HMM(2, 3).build(states) == zoo.hmm(count, 2, 3, states)
    assert zoo.FactorialHMM(3, [2, 3, 2]).build(states) == zoo.factorial_hmm(count, 3, [2, 3, 2], states)
    assert zoo.Mixture(4).build(states) == zoo.mixture(count, 4, states)
    assert zoo.SemiHiddenMarkov(2, 5).build(states) == zoo.semi_hidden_markov(count, 2, 5, states)
    assert zoo.LatentTree(3, 2).build([2] * 8) == zoo.latent_tree(depth=3, hidden_states=3)


@given(count=st.integers(1, 60), branching=st.integers(2, 6))
def test_balanced_tree(count: int, branching: int) -> None:
    graph = zoo.LatentTree(branching=branching).build([2] * count)
    assert graph.observed == columns(count)
    assert graph.hidden == tuple(f"h{node}" for node in range(len(graph.hidden)))
    assert len(graph.edges) == len(graph.names) - 1
    depth = {"h0": 0}
    for parent, child in graph.edges:
        depth[child] = depth[parent] + 1
    assert set(depth) == set(graph.names)
    assert {depth[name] for name in graph.observed} == {max(1, ceil(log(count, branching) - 1e-9))}
    sizes = Counter(parent for parent, _ in graph.edges)
    assert set(sizes) == set(graph.hidden)
    for level in range(depth["x0"]):
        widths = [sizes[name] for name in graph.hidden if depth[name] == level]
        assert 1 <= min(widths) <= max(widths) <= min(branching, min(widths) + 1)
    above = [int(graph.parents(name)[0][1:]) for name in graph.observed]
    assert above == sorted(above)


@pytest.mark.parametrize("template", TEMPLATES, ids=repr)
def test_columns_keep_the_names_and_states_given(template: zoo.Template) -> None:
    names = ["rain", "temperature in °C", "wind", "day"]
    graph = template.build([5, 2, 3, 4], names)
    assert graph.observed == tuple(names)
    assert [graph.states[name] for name in names] == [5, 2, 3, 4]
    plain = template.build(np.array([5, 2, 3, 4]))
    assert plain.observed == columns(4)
    assert plain.hidden == graph.hidden
    renamed = dict(zip(plain.names, graph.names, strict=True))
    assert graph.edges == tuple((renamed[source], renamed[target]) for source, target in plain.edges)


@pytest.mark.parametrize("template", TEMPLATES, ids=repr)
def test_hidden_names_never_collide_with_columns(template: zoo.Template) -> None:
    plain = template.build([2] * 5)
    names = ["a", "b", plain.hidden[-1], f"hidden_{plain.hidden[0]}", "x0"]
    graph = template.build([7] * 5, names)
    assert graph.observed == tuple(names)
    assert len(graph.names) == len(plain.names)
    assert [graph.states[name] for name in graph.hidden] == [plain.states[name] for name in plain.hidden]
    renamed = dict(zip(plain.names, graph.names, strict=True))
    assert graph.edges == tuple((renamed[source], renamed[target]) for source, target in plain.edges)


@pytest.mark.parametrize("template", TEMPLATES, ids=repr)
def test_templates_are_values(template: Any) -> None:
    for again in (copy.deepcopy(template), pickle.loads(pickle.dumps(template))):
        assert again == template
        assert hash(again) == hash(template)
    field = dataclasses.fields(template)[0].name
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(template, field, 1)
    assert eval(repr(template), vars(zoo)) == template


def test_a_factorial_template_given_a_list_can_be_hashed() -> None:
    assert hash(zoo.FactorialHMM(2, [3, 3])) == hash(zoo.FactorialHMM(2, 3))
    assert zoo.FactorialHMM(2, [3, 3]) == zoo.FactorialHMM(2, 3)
    assert hash(zoo.FactorialHMM(2, [2, 3])) == hash(zoo.FactorialHMM(2, (2, 3)))


@pytest.mark.parametrize("template", TEMPLATES, ids=repr)
def test_the_sizes_of_a_template_are_its_parameters(template: zoo.Template) -> None:
    assert type(template)(**template.get_params()) == template
    assert "hidden_states" in template.get_params()
    changed = template.changed(hidden_states=np.int64(7))
    assert changed.get_params() == template.get_params() | {"hidden_states": 7}
    assert repr(changed) == repr(type(template)(**template.get_params() | {"hidden_states": 7}))
    assert {changed.build([2] * 4).states[name] for name in changed.build([2] * 4).hidden} >= {7}
    assert clone(template, safe=False) is template, "what never changes is shared by clones"
    with pytest.raises(ParameterError, match=r"has no parameter 'hiden_states'; did you mean 'hidden_states'\?"):
        template.changed(hiden_states=3)
    with pytest.raises(GraphError, match=r"hidden_states(\[0\])? is a whole number of at least 1, not 0"):
        template.changed(hidden_states=0)


def test_levels_that_are_alike_can_become_more() -> None:
    assert zoo.FactorialHMM(2, 3).changed(levels=4) == zoo.FactorialHMM(4, 3)
    with pytest.raises(GraphError, match="hidden_states must be one number or 3, one per level, but 2 are given"):
        zoo.FactorialHMM(2, (2, 3)).changed(levels=3)


# Names of 0.1.0.


def test_mixtures_take_their_size_by_its_old_name() -> None:
    with pytest.warns(FutureWarning, match="the argument components is called hidden_states now") as seen:
        old = zoo.Mixture(components=4)
    assert [one.filename for one in seen] == [__file__], "the warning stands at the user's own line"
    assert old == zoo.Mixture(hidden_states=4)
    with pytest.warns(FutureWarning, match="the argument components"):
        assert zoo.mixture(3, components=4) == zoo.mixture(3, 4)
    with pytest.warns(FutureWarning, match=r"Mixture\.components is called hidden_states"):
        assert zoo.Mixture(5).components == 5
    for twice in (lambda: zoo.Mixture(hidden_states=4, components=4), lambda: zoo.mixture(3, 4, components=4)):
        with pytest.raises(ParameterError, match="components is the old name of hidden_states, which is given too"):
            twice()


def test_a_latent_tree_is_found_by_its_old_name() -> None:
    with pytest.warns(FutureWarning, match=r"zoo\.BalancedTree is called zoo\.LatentTree now") as seen:
        old = zoo.BalancedTree
    assert [one.filename for one in seen] == [__file__]
    assert old is zoo.LatentTree
    with pytest.raises(AttributeError, match="has no attribute 'LatentTre'; did you mean 'LatentTree'"):
        zoo.LatentTre  # noqa: B018


@pytest.mark.parametrize("template", TEMPLATES, ids=repr)
@pytest.mark.parametrize(
    ("states", "names", "message"),
    [
        ([], None, "states must give the number of states of at least one column"),
        (3, None, "states is a list of whole numbers, not 3"),
        ([2, 0], None, r"states\[1\] is a whole number of at least 1, not 0"),
        ([2, 2.0], None, r"states\[1\] is a whole number of at least 1, not 2\.0"),
        ([2, 2], ["a"], r"names is a list of 2 different names, one per column, not \['a'\]"),
        ([2, 2], ["a", "a"], "names is a list of 2 different names"),
        ([2, 2], "ab", "names is a list of 2 different names, one per column, not 'ab'"),
        ([2, 2], ["a", 1], "variable names are non-empty strings, not 1"),
    ],
)
def test_build_refuses(template: zoo.Template, states: Any, names: Any, message: str) -> None:
    with pytest.raises(GraphError, match=message):
        template.build(states, names)
