"""The order of messages, on messages that list where they have been."""

from __future__ import annotations

from functools import reduce

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eigentree.inference.tensors.calibration import downward, upward


@st.composite
def rooted_trees(draw: st.DrawFn) -> list[list[int]]:
    """Children of each node of a random tree, or of several, in any order among themselves."""
    count = draw(st.integers(1, 12))
    roots = draw(st.integers(1, 2))
    children: list[list[int]] = [[] for _ in range(count)]
    for node in range(roots, count):
        children[draw(st.integers(0, node - 1))].append(node)
    return [draw(st.permutations(below)) for below in children]


def below(children: list[list[int]], node: int) -> frozenset[int]:
    """All nodes of the subtree under a node, itself included."""
    return reduce(frozenset.union, (below(children, child) for child in children[node]), frozenset({node}))


def component(children: list[list[int]], node: int) -> frozenset[int]:
    """All nodes of the tree that a node is in."""
    parents = [i for i in range(len(children)) if node in children[i]]
    return component(children, parents[0]) if parents else below(children, node)


@given(rooted_trees())
def test_every_node_hears_from_all_others_of_its_tree_once(children: list[list[int]]) -> None:
    visited = []

    def send_up(node: int, messages: list[frozenset[int]]) -> frozenset[int]:
        assert messages == [below(children, child) for child in children[node]]
        visited.append(node)
        return frozenset({node}).union(*messages)

    def send_down(node: int, above: frozenset[int], messages: list[frozenset[int]]) -> list[frozenset[int]]:
        assert messages == [below(children, child) for child in children[node]]
        visited.append(node)
        return [above.union({node}, *(messages[:k] + messages[k + 1 :])) for k in range(len(messages))]

    up = upward(children, send_up)
    assert up == [below(children, node) for node in range(len(children))]
    assert visited == list(range(len(children)))[::-1]
    visited.clear()
    down = downward(children, up, send_down, frozenset())
    assert down == [component(children, node) - below(children, node) for node in range(len(children))]
    assert visited == [node for node in range(len(children)) if children[node]]


def test_a_send_that_forgets_a_child_is_noticed() -> None:
    with pytest.raises(ValueError, match="shorter"):
        downward([[1, 2], [], []], [0, 0, 0], lambda node, above, below: [above], 0)
