"""Messages through one node, against sums over all cells of its clique."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from eigentree.planning.node_products import MOST_AT_ONCE, CliqueLayout, CliqueTable, OverworkError, Work


@st.composite
def nodes(draw: st.DrawFn) -> tuple[CliqueTable, tuple[int, ...], list[tuple[int, ...]]]:
    """A node with up to three edges, its shape, and the axes of each edge in any order."""
    shape = tuple(draw(st.lists(st.integers(1, 3), min_size=1, max_size=4)))
    axes = st.permutations(range(len(shape)))
    ports = [tuple(draw(axes)[: draw(st.integers(0, len(shape)))]) for _ in range(draw(st.integers(2, 4)))]
    table = np.random.default_rng(draw(st.integers(0, 99))).random(math.prod(shape))
    return CliqueTable(0, table, CliqueLayout(shape, ports), Work(1)), shape, ports


def spread(message: np.ndarray, axes: tuple[int, ...], shape: tuple[int, ...]) -> np.ndarray:
    """A message over some axes as a table over all."""
    table = np.empty(shape)
    for cell in np.ndindex(*shape):
        flat = 0
        for axis in axes:
            flat = flat * shape[axis] + cell[axis]
        table[cell] = message[flat]
    return table


def summed(table: np.ndarray, axes: tuple[int, ...]) -> np.ndarray:
    """A table over all axes summed down to some, in their order."""
    kept = sorted(axes)
    left = table.sum(axis=tuple(axis for axis in range(table.ndim) if axis not in axes))
    return np.transpose(left, [kept.index(axis) for axis in axes]).ravel()


@settings(max_examples=200, deadline=None)
@given(nodes(), st.data())
def test_messages_are_multiplied_and_summed_over_all_cells(given, data: st.DataObject) -> None:
    node, shape, ports = given
    edges = [k if k + 1 < len(ports) else -1 for k in range(len(ports))]
    onto, *others = data.draw(st.permutations(edges))
    sources = others[: data.draw(st.integers(1, len(others)))]
    random = np.random.default_rng(0)
    parts = []
    for edge in sources:
        states = math.prod(shape[axis] for axis in ports[edge])
        parts.append((edge, random.standard_normal((data.draw(st.integers(1, 3)), states))))
    table = node.table.reshape(shape)

    def expected(chosen: tuple[int, ...]) -> np.ndarray:
        product = table
        for (edge, messages), row in zip(parts, chosen, strict=True):
            product = product * spread(messages[row], ports[edge], shape)
        return summed(product, ports[onto])

    sent = node.send(parts, onto)
    rows = list(np.ndindex(*(len(messages) for _, messages in parts)))
    assert_allclose(sent, [expected(row) for row in rows], atol=1e-12)
    count = min(len(messages) for _, messages in parts)
    in_step = node.send_in_step([(edge, messages[:count]) for edge, messages in parts], onto)
    assert_allclose(in_step, [expected((row,) * len(parts)) for row in range(count)], atol=1e-12)


def test_a_leaf_has_one_message_per_state_of_its_variable() -> None:
    table = np.arange(6.0)
    leaf = CliqueTable(0, table, CliqueLayout((2, 3), [(0,)]), Work(1))
    assert leaf.leaf().tolist() == [[0, 3], [1, 4], [2, 5]]


@pytest.mark.parametrize("most", [0.0, 1e3])
def test_too_much_work_is_refused_before_it_is_done(most: float) -> None:
    node = CliqueTable(7, np.ones(16), CliqueLayout((4, 4), [(0,), (1,)]), Work(1, most=most, most_per_node=0.0))
    messages = np.ones((100, 4))
    for send in (node.send, node.send_in_step):
        with pytest.raises(OverworkError) as refused:
            send([(0, messages)], -1)
        assert refused.value.node == 7


def test_the_error_names_the_node_that_takes_most() -> None:
    done = Work(nodes=10, most=100.0, most_per_node=1.0)
    done.note(3, 60.0)
    done.note(4, 50.0)
    with pytest.raises(OverworkError) as refused:
        done.note(5, 1.0)
    assert refused.value.node == 3
    with pytest.raises(OverworkError):
        Work(nodes=10, share=0.5, most=100.0, most_per_node=1.0).note(0, 56.0)


def test_no_array_is_larger_than_memory_allows() -> None:
    with pytest.raises(OverworkError):
        Work(nodes=10**6).products(0, MOST_AT_ONCE + 1)
