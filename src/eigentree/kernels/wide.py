"""Messages in wide numbers, with an exponent for each entry: slow, for the rows that underflow would spoil."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from eigentree.kernels.compiling import compiled
from eigentree.kernels.messages import pick

if TYPE_CHECKING:
    from eigentree.kernels.messages import FlatTree

__all__ = ["wide_downward", "wide_draw", "wide_upward"]


@compiled
def _wide_add(size: Any, power: Any, at: int, value: float, exponent: int) -> None:
    """Add value · 2^exponent to an entry size · 2^power of a wide message; sizes lie in 1/2 … 1 or are 0."""
    fraction, shift = math.frexp(value)
    if fraction == 0.0:
        return
    shift += exponent
    if size[at] == 0.0:
        size[at], power[at] = fraction, shift
        return
    above = max(shift, power[at])
    # Beyond 2,000 digits nothing of the smaller one is left.
    total = math.ldexp(fraction, max(shift - above, -2000)) + math.ldexp(size[at], max(power[at] - above, -2000))
    size[at], shift = math.frexp(total)
    power[at] = above + shift


@compiled
def _wide_product(plan: FlatTree, node: int, e: int, without: int, size: Any, power: Any) -> tuple[float, int]:
    """Return the product of the children's messages that meet one entry, but for one of them."""
    fraction, exponent = 1.0, 0
    first_child = plan.child_start[node]
    for j in range(plan.child_start[node + 1] - first_child):
        if j != without:
            at = plan.place[plan.child[first_child + j]] + plan.entry_child[e, j]
            fraction *= size[at]
            exponent += power[at]
    return fraction, exponent


@compiled
def _wide_value(plan: FlatTree, node: int, e: int, joint: int) -> tuple[float, int]:
    width = plan.width[node]
    return math.frexp(plan.values[plan.value_start[node] + (e - plan.entry_start[node]) * width + joint])


@compiled
def _wide_joint(plan: FlatTree, node: int, row: Any) -> int:
    joint = 0
    for k in range(plan.column_start[node], plan.column_start[node + 1]):
        joint += row[plan.column[k]] * plan.stride[k]
    return joint


@compiled
def _wide_send_up(plan: FlatTree, node: int, row: Any, size: Any, power: Any) -> None:
    """Write the message of a node to its parent, as `_send_up` does."""
    base = plan.place[node]
    size[base : base + plan.bond[node]] = 0.0
    joint = _wide_joint(plan, node, row)
    for e in range(plan.entry_start[node], plan.entry_start[node + 1]):
        fraction, exponent = _wide_product(plan, node, e, -1, size, power)
        value, shift = _wide_value(plan, node, e, joint)
        _wide_add(size, power, base + plan.entry_parent[e], value * fraction, shift + exponent)


@compiled
def _wide_send_down(
    plan: FlatTree, node: int, k: int, row: Any, size: Any, power: Any, outside_size: Any, outside_power: Any
) -> None:
    """Write the message of a node to its k-th child, as `_send_down` does."""
    child = plan.child[plan.child_start[node] + k]
    base = plan.place[child]
    outside_size[base : base + plan.bond[child]] = 0.0
    joint = _wide_joint(plan, node, row)
    for e in range(plan.entry_start[node], plan.entry_start[node + 1]):
        above = plan.place[node] + plan.entry_parent[e]
        fraction, exponent = _wide_product(plan, node, e, k, size, power)
        value, shift = _wide_value(plan, node, e, joint)
        value *= fraction * outside_size[above]
        _wide_add(
            outside_size,
            outside_power,
            base + plan.entry_child[e, k],
            value,
            shift + exponent + outside_power[above],
        )


@compiled
def _wide_table(
    plan: FlatTree,
    node: int,
    k: int,
    row: Any,
    size: Any,
    power: Any,
    outside_size: Any,
    outside_power: Any,
    table: Any,
) -> None:
    """Write P(column = v, the other cells of the row), up to a factor, for the k-th of all own columns."""
    states, stride = plan.states[k], plan.stride[k]
    base = _wide_joint(plan, node, row) - row[plan.column[k]] * stride
    sizes = np.zeros(states)
    powers = np.zeros(states, np.int64)
    for e in range(plan.entry_start[node], plan.entry_start[node + 1]):
        above = plan.place[node] + plan.entry_parent[e]
        fraction, exponent = _wide_product(plan, node, e, -1, size, power)
        fraction *= outside_size[above]
        for v in range(states):
            value, shift = _wide_value(plan, node, e, base + v * stride)
            _wide_add(sizes, powers, v, value * fraction, shift + exponent + outside_power[above])
    top = np.int64(-(2**62))
    for v in range(states):
        if sizes[v] != 0.0:
            top = max(top, powers[v])
    for v in range(states):
        table[v] = math.ldexp(sizes[v], max(powers[v] - top, -2000)) if sizes[v] != 0.0 else 0.0


@compiled
def wide_upward(plan: FlatTree, codes: Any, log_size: Any, sign: Any) -> None:
    """Write what `upward` does, slowly, with an exponent for each entry of a message: nothing underflows."""
    depth = plan.bond.sum()
    size, power = np.zeros(depth), np.zeros(depth, np.int64)
    for r in range(codes.shape[0]):
        for node in range(plan.bond.shape[0] - 1, -1, -1):
            _wide_send_up(plan, node, codes[r], size, power)
        sign[r] = np.sign(size[0])
        log_size[r] = np.log(abs(size[0])) + power[0] * np.log(2.0)


@compiled
def wide_downward(plan: FlatTree, codes: Any, offset: Any, tables: Any) -> None:
    """Write what `downward` does, slowly, with an exponent for each entry of a message."""
    nodes, depth = plan.bond.shape[0], plan.bond.sum()
    size, power = np.zeros(depth), np.zeros(depth, np.int64)
    outside_size, outside_power = np.zeros(depth), np.zeros(depth, np.int64)
    outside_size[0] = 1.0
    for r in range(codes.shape[0]):
        row = codes[r]
        for node in range(nodes - 1, -1, -1):
            _wide_send_up(plan, node, row, size, power)
        for node in range(nodes):
            for k in range(plan.child_start[node + 1] - plan.child_start[node]):
                _wide_send_down(plan, node, k, row, size, power, outside_size, outside_power)
            for k in range(plan.column_start[node], plan.column_start[node + 1]):
                first = offset[plan.column[k]]
                if first >= 0:
                    table = tables[r, first : first + plan.states[k]]
                    _wide_table(plan, node, k, row, size, power, outside_size, outside_power, table)


@compiled
def wide_draw(plan: FlatTree, tour: Any, codes: Any, uniform: Any) -> None:
    """Do what `draw` does, slowly, with an exponent for each entry of a message."""
    depth = plan.bond.sum()
    size, power = np.zeros(depth), np.zeros(depth, np.int64)
    outside_size, outside_power = np.zeros(depth), np.zeros(depth, np.int64)
    outside_size[0] = 1.0
    table = np.empty(plan.states.max())
    for r in range(codes.shape[0]):
        row = codes[r]
        for node in range(plan.bond.shape[0] - 1, -1, -1):
            _wide_send_up(plan, node, row, size, power)
        for step in range(tour.shape[0]):
            node = tour[step, 0]
            if node < 0:
                _wide_send_up(plan, -node - 1, row, size, power)
                continue
            if tour[step, 1] >= 0:
                _wide_send_down(plan, tour[step, 1], tour[step, 2], row, size, power, outside_size, outside_power)
            for k in range(plan.column_start[node], plan.column_start[node + 1]):
                column, states = plan.column[k], plan.states[k]
                if row[column] == states:
                    _wide_table(plan, node, k, row, size, power, outside_size, outside_power, table[:states])
                    row[column] = pick(table[:states], uniform[r, column])
