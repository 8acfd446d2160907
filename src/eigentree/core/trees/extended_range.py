"""Messages in extended range, with an exponent for each entry: slow, for the rows that underflow could change."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from eigentree.core.compiling import compiled, helper
from eigentree.core.trees.categorical_sampling import pick

if TYPE_CHECKING:
    from eigentree.arrays import Floats, Integers
    from eigentree.core.trees.flat_tree import FlatTree

__all__ = ["WideWorkspace", "wide_downward", "wide_draw", "wide_upward"]

NOTHING_LEFT = -2000
"""Beyond so many binary digits nothing of the smaller of two numbers is left in their sum."""


class WideWorkspace(NamedTuple):
    """Messages of one row, each entry ``size · 2^power``; sizes lie in 1/2 … 1 or are 0.

    Attributes
    ----------
    size, power : (entries,)
        Messages up; from ``above`` on, messages down in the same order; from ``spare`` on, a table of one column.
    above, spare : int
    table : (most states of a column, 1)
    """

    size: Floats
    power: Integers
    above: int
    spare: int
    table: Floats


@helper
def _add(space: WideWorkspace, at: int, value: float, exponent: int) -> None:
    """Add value · 2^exponent to an entry of a message."""
    fraction, shift = math.frexp(value)
    if fraction == 0.0:
        return
    shift += exponent
    if space.size[at] == 0.0:
        space.size[at], space.power[at] = fraction, shift
        return
    above = max(shift, space.power[at])
    total = math.ldexp(fraction, int(max(shift - above, NOTHING_LEFT)))
    total += math.ldexp(space.size[at], int(max(space.power[at] - above, NOTHING_LEFT)))
    space.size[at], shift = math.frexp(total)
    space.power[at] = above + shift


@helper
def _product(tree: FlatTree, node: Any, e: int, without: int, space: WideWorkspace) -> tuple[float, int]:
    """Return the product of the children's messages that meet one entry, but for one of them."""
    fraction, exponent = 1.0, 0
    for k in range(node.stop_child - node.first_child):
        if k != without:
            at = tree.nodes[tree.child[node.first_child + k]].line + tree.entry_child[e, k]
            fraction *= space.size[at]
            exponent += space.power[at]
    return fraction, exponent


@helper
def _value(tree: FlatTree, node: Any, e: int, joint: int) -> tuple[float, int]:
    return math.frexp(tree.values[node.first_value + (e - node.first_entry) * node.width + joint])


@helper
def _joint_code(tree: FlatTree, node: Any, codes: Any, r: int) -> int:
    joint = 0
    for k in range(node.first_column, node.stop_column):
        joint += codes[tree.columns[k].column, r] * tree.columns[k].stride
    return joint


@helper
def _send_up(tree: FlatTree, node: Any, codes: Any, r: int, space: WideWorkspace) -> None:
    """Write the message of a node to its parent (Eq. 11, 12, 19)."""
    for p in range(node.bond):
        space.size[node.line + p] = 0.0
    joint = _joint_code(tree, node, codes, r)
    for e in range(node.first_entry, node.stop_entry):
        fraction, exponent = _product(tree, node, e, -1, space)
        value, shift = _value(tree, node, e, joint)
        _add(space, node.line + tree.entry_parent[e], value * fraction, shift + exponent)


@helper
def _send_down(tree: FlatTree, node: Any, k: int, codes: Any, r: int, space: WideWorkspace) -> None:
    """Write the message of a node to its k-th child, from all that is outside that child."""
    child = tree.nodes[tree.child[node.first_child + k]]
    out = space.above + child.line
    for p in range(child.bond):
        space.size[out + p] = 0.0
    joint = _joint_code(tree, node, codes, r)
    for e in range(node.first_entry, node.stop_entry):
        above = space.above + node.line + tree.entry_parent[e]
        fraction, exponent = _product(tree, node, e, k, space)
        value, shift = _value(tree, node, e, joint)
        value *= fraction * space.size[above]
        _add(space, out + tree.entry_child[e, k], value, shift + exponent + space.power[above])


@helper
def _write_table(tree: FlatTree, node: Any, own: Any, codes: Any, r: int, space: WideWorkspace) -> None:
    """Write P(column = v, the other cells of the row), up to a factor, for one of a node's own columns."""
    for v in range(own.states):
        space.size[space.spare + v] = 0.0
    base = _joint_code(tree, node, codes, r) - codes[own.column, r] * own.stride
    for e in range(node.first_entry, node.stop_entry):
        above = space.above + node.line + tree.entry_parent[e]
        fraction, exponent = _product(tree, node, e, -1, space)
        fraction *= space.size[above]
        for v in range(own.states):
            value, shift = _value(tree, node, e, base + v * own.stride)
            _add(space, space.spare + v, value * fraction, shift + exponent + space.power[above])
    top = np.int64(-(2**62))
    for v in range(own.states):
        if space.size[space.spare + v] != 0.0:
            top = max(top, space.power[space.spare + v])
    for v in range(own.states):
        space.table[v, 0] = 0.0
        if space.size[space.spare + v] != 0.0:
            shift = int(max(space.power[space.spare + v] - top, NOTHING_LEFT))
            space.table[v, 0] = math.ldexp(space.size[space.spare + v], shift)


@compiled
def wide_upward(tree: FlatTree, codes: Any, space: WideWorkspace, log_size: Any, sign: Any) -> None:
    """Write what `upward` does, slowly, with an exponent for each entry of a message: nothing underflows."""
    root = tree.nodes[0].line
    for r in range(codes.shape[1]):
        for n in range(tree.nodes.shape[0] - 1, -1, -1):
            _send_up(tree, tree.nodes[n], codes, r, space)
        sign[r] = np.sign(space.size[root])
        log_size[r] = np.log(abs(space.size[root])) + space.power[root] * np.log(2.0)


@compiled
def wide_downward(tree: FlatTree, codes: Any, space: WideWorkspace, offset: Any, tables: Any) -> None:
    """Write what `downward` does, slowly, with an exponent for each entry of a message."""
    top = space.above + tree.nodes[0].line
    space.size[top], space.power[top] = 1.0, 0
    for r in range(codes.shape[1]):
        for n in range(tree.nodes.shape[0] - 1, -1, -1):
            _send_up(tree, tree.nodes[n], codes, r, space)
        for n in range(tree.nodes.shape[0]):
            node = tree.nodes[n]
            for k in range(node.stop_child - node.first_child):
                _send_down(tree, node, k, codes, r, space)
            for k in range(node.first_column, node.stop_column):
                own = tree.columns[k]
                if offset[own.column] >= 0:
                    _write_table(tree, node, own, codes, r, space)
                    for v in range(own.states):
                        tables[r, offset[own.column] + v] = space.table[v, 0]


@compiled
def wide_draw(tree: FlatTree, tour: Any, codes: Any, uniform: Any, space: WideWorkspace) -> None:
    """Do what `draw` does, slowly, with an exponent for each entry of a message."""
    top = space.above + tree.nodes[0].line
    space.size[top], space.power[top] = 1.0, 0
    for r in range(codes.shape[1]):
        for n in range(tree.nodes.shape[0] - 1, -1, -1):
            _send_up(tree, tree.nodes[n], codes, r, space)
        for step in range(tour.shape[0]):
            n, parent = tour[step, 0], tour[step, 1]
            if n < 0:
                _send_up(tree, tree.nodes[-n - 1], codes, r, space)
                continue
            if parent >= 0:
                _send_down(tree, tree.nodes[parent], tour[step, 2], codes, r, space)
            for k in range(tree.nodes[n].first_column, tree.nodes[n].stop_column):
                own = tree.columns[k]
                if codes[own.column, r] == own.states:
                    _write_table(tree, tree.nodes[n], own, codes, r, space)
                    codes[own.column, r] = pick(space.table, 0, own.states, uniform[r, own.column])
