"""Cliques of a triangulated graph: laws of the list and of its tree, and limits that hold to the last state."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from random_graphs import latent_graphs

import eigentree as et
from eigentree.graphs.elimination import check_families, clique_tree


@settings(max_examples=100, deadline=None)
@given(latent_graphs())
def test_cliques_are_maximal_cover_every_family_and_form_a_tree(graph: et.LatentGraph) -> None:
    cliques, parents = clique_tree(graph, graph.names)
    members = [{graph.names[i] for i in clique} for clique in cliques]
    for k, one in enumerate(members):
        assert not any(one <= other for other in members[:k] + members[k + 1 :])
    for name in graph.names:
        family = {name, *graph.parents(name)}
        assert any(family <= clique for clique in members)
        for other in graph.neighbors(name):
            assert any({name, other} <= clique for clique in members)
        # Those that hold a variable hang together: one of them has a parent without it.
        holding = [k for k, clique in enumerate(members) if name in clique]
        assert sum(parents[k] < 0 or name not in members[parents[k]] for k in holding) == 1
    assert all(parent < k for k, parent in enumerate(parents))


def test_a_family_may_have_as_many_states_as_the_limit_and_not_one_more() -> None:
    graph = et.LatentGraph({"a": 3, "b": 5, "x": 7}, [("a", "x"), ("b", "x")], ["a", "b"])
    size = math.prod(graph.states.values())
    check_families(graph, size)
    with pytest.raises(et.TreewidthError, match="the table of 'x' given its 2 parents has 105 joint states"):
        check_families(graph, size - 1)
