"""The hot loops, compiled by numba.

A `Plan` is a tree of operators laid out flat, so that one call passes messages through the whole tree for a block
of rows without returning to Python. Within a block, rows are the innermost axis of every buffer: an entry of an
operator is read once for all rows of the block, and the loops over rows vectorise.
"""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numba import njit

if TYPE_CHECKING:
    from numpy.typing import NDArray

TINY = 2.0**-60
HUGE = 2.0**60
"""A message outside this range is scaled by a power of two, which loses no bit."""

LOWEST = -960.0
"""Products whose log2 is not below this are far from the end of the doubles, whatever is summed on the way."""

FLUSHED = 2.0**-1000
"""More than underflow can take from an entry of a message, when no message is beyond `TINY` and `HUGE`."""

CERTAIN = 2.0**-45
"""A row whose lost part may be a larger share of its probability than this is computed again, in wide numbers."""


class Plan(NamedTuple):
    """A tree of sparse operators as flat arrays; nodes in preorder, so that n-1 … 0 is leaves first.

    Attributes
    ----------
    bond : (nodes,)
        Size of the bond to the parent.
    slot : (nodes,)
        Row of the message buffer where a node's message starts, when slots are reused (upward pass).
    place : (nodes,)
        The same when every node keeps its message (downward pass).
    child_start : (nodes + 1,), child : (edges,)
        Children of each node.
    entry_start : (nodes + 1,), entry_parent : (entries,), entry_child : (entries, 3)
        Non-zero entries of each operator: index on the parent's bond and on each child's.
    value_start : (nodes,), width : (nodes,), values : (all values,)
        The entry's value for each joint code of the node's own columns.
    column_start : (nodes + 1,), column, stride, states : (own columns,)
        The node's own columns, and how their codes combine.
    """

    bond: NDArray[np.int64]
    slot: NDArray[np.int64]
    place: NDArray[np.int64]
    child_start: NDArray[np.int64]
    child: NDArray[np.int64]
    entry_start: NDArray[np.int64]
    entry_parent: NDArray[np.int64]
    entry_child: NDArray[np.int64]
    value_start: NDArray[np.int64]
    width: NDArray[np.int64]
    values: NDArray[np.float64]
    column_start: NDArray[np.int64]
    column: NDArray[np.int64]
    stride: NDArray[np.int64]
    states: NDArray[np.int64]


def _jit(function: Any) -> Any:
    # Contraction to fused multiply-add is the only liberty: sums keep their order, so results do not depend
    # on how rows are cut into blocks.
    compiled = partial(njit, nogil=True, fastmath={"contract"}, error_model="numpy")
    try:
        return compiled(cache=True)(function)
    except RuntimeError:
        # No directory for numba's cache can be written to: compile in each process instead.
        return compiled()(function)


@_jit
def encode_column(cells: Any, states: int, codes: Any) -> int:
    """Return -1 after writing the codes of a column, or the first row whose cell is not a code."""
    for r in range(cells.shape[0]):
        cell = cells[r]
        if cell >= 0 and cell < states:
            code = int(cell)
            if code != cell:
                return r
            codes[r] = code
        elif cell == -1 or cell != cell:
            codes[r] = states
        else:
            return r
    return -1


@_jit
def copy_codes(cells: Any, start: int, codes: Any, largest: Any) -> None:
    """Write some rows of a column-major array as codes of the same type, and the largest code of each column."""
    for j in range(codes.shape[1]):
        # Slices that start at 0, so that the loop vectorises.
        column, written = cells[start : start + codes.shape[0], j], codes[:, j]
        high = column[0]
        for r in range(codes.shape[0]):
            written[r] = column[r]
            high = max(high, column[r])
        largest[j] = high


@_jit
def largest_codes(codes: Any, largest: Any) -> None:
    """Write the largest code of each column."""
    for j in range(codes.shape[1]):
        column = codes[:, j]
        high = column[0]
        for r in range(column.shape[0]):
            high = max(high, column[r])
        largest[j] = high


@_jit
def _joint_codes(plan: Plan, node: int, codes: Any, start: int, count: int, joint: Any) -> None:
    first, last = plan.column_start[node], plan.column_start[node + 1]
    column, stride = plan.column[first], plan.stride[first]
    for r in range(count):
        joint[r] = codes[start + r, column] * stride
    for k in range(first + 1, last):
        column, stride = plan.column[k], plan.stride[k]
        for r in range(count):
            joint[r] += codes[start + r, column] * stride


@_jit
def _accumulate(plan: Plan, node: int, e: int, joint: Any, count: int, weight: Any, out: Any) -> None:
    """Add value · weight of one entry to a row of a message."""
    width = plan.width[node]
    first = plan.value_start[node] + (e - plan.entry_start[node]) * width
    if width == 1:
        value = plan.values[first]
        for r in range(count):
            out[r] += value * weight[r]
    else:
        values = plan.values[first : first + width]
        for r in range(count):
            out[r] += values[joint[r]] * weight[r]


@_jit
def _assign(plan: Plan, node: int, e: int, joint: Any, count: int, out: Any) -> None:
    """Add the value of one entry, without any message, to a row of a message."""
    width = plan.width[node]
    first = plan.value_start[node] + (e - plan.entry_start[node]) * width
    values = plan.values[first : first + width]
    if width == 1:
        for r in range(count):
            out[r] += values[0]
    else:
        for r in range(count):
            out[r] += values[joint[r]]


@_jit
def _rescale(message: Any, bond: int, count: int, peak: Any, exponent: Any) -> int:
    """Bring each row's message back into range, add what was taken out to its exponent, return the largest."""
    for r in range(count):
        peak[r] = abs(message[0, r])
    for p in range(1, bond):
        for r in range(count):
            peak[r] = max(peak[r], abs(message[p, r]))
    low, high = HUGE, TINY
    for r in range(count):
        low = min(low, peak[r])
        high = max(high, peak[r])
    if low >= TINY and high <= HUGE:
        return 0
    largest = 0
    for r in range(count):
        if (peak[r] < TINY or peak[r] > HUGE) and peak[r] > 0.0:
            shift = int(np.floor(np.log2(peak[r])))
            # Two steps, because the inverse of a subnormal number overflows.
            half = 2.0 ** (-(shift // 2))
            rest = 2.0 ** (-(shift - shift // 2))
            for p in range(bond):
                message[p, r] = message[p, r] * half * rest
            exponent[r] += shift
            largest = max(largest, shift)
    return largest


@_jit
def _send_up(
    plan: Plan, node: int, where: Any, joint: Any, count: int, messages: Any, work: Any, exponent: Any
) -> int:
    """Write the message of a node to its parent (Eq. 11, 12, 19) for a block of rows; return as `_rescale`."""
    base = where[node]
    bond = plan.bond[node]
    out = messages[base : base + bond]
    for p in range(bond):
        for r in range(count):
            out[p, r] = 0.0
    first_child = plan.child_start[node]
    children = plan.child_start[node + 1] - first_child
    last_pair = -1
    for e in range(plan.entry_start[node], plan.entry_start[node + 1]):
        target = out[plan.entry_parent[e]]
        if children == 0:
            _assign(plan, node, e, joint, count, target)
            continue
        a = messages[where[plan.child[first_child]] + plan.entry_child[e, 0]]
        if children == 1:
            _accumulate(plan, node, e, joint, count, a, target)
            continue
        # Entries are sorted by children, so the product of their messages serves several entries.
        pair = plan.entry_child[e, 0] * plan.bond[plan.child[first_child + 1]] + plan.entry_child[e, 1]
        if children == 3:
            pair = pair * plan.bond[plan.child[first_child + 2]] + plan.entry_child[e, 2]
        if pair != last_pair:
            last_pair = pair
            b = messages[where[plan.child[first_child + 1]] + plan.entry_child[e, 1]]
            for r in range(count):
                work[r] = a[r] * b[r]
            if children == 3:
                c = messages[where[plan.child[first_child + 2]] + plan.entry_child[e, 2]]
                for r in range(count):
                    work[r] *= c[r]
        _accumulate(plan, node, e, joint, count, work, target)
    largest: int = _rescale(out, bond, count, work, exponent)
    return largest


@_jit
def _reach(plan: Plan) -> Any:
    """Return the log2 of the smallest entry of each node's message when no child's message has one below 1."""
    nodes = plan.bond.shape[0]
    reach = np.empty(nodes)
    for node in range(nodes):
        first = plan.value_start[node]
        least, negative = 1.0, False
        count = (plan.entry_start[node + 1] - plan.entry_start[node]) * plan.width[node]
        for value in plan.values[first : first + count]:
            negative |= value < 0.0
            if value != 0.0:
                least = min(least, abs(value))
        # Terms of both signs can cancel down to the last digit of the smallest of them.
        reach[node] = np.log2(least) - (53.0 if negative else 0.0)
    return reach


@_jit
def _lowest(message: Any, bond: int, count: int) -> float:
    """Return the log2 of the smallest non-zero entry of a message in any row."""
    least = HUGE
    for p in range(bond):
        for r in range(count):
            size = abs(message[p, r])
            if size > 0.0:
                least = min(least, size)
    lowest: float = np.log2(least)
    return lowest


@_jit
def _bound_loss(
    plan: Plan,
    node: int,
    where: Any,
    joint: Any,
    count: int,
    messages: Any,
    before: Any,
    exponent: Any,
    reach: float,
    lossy: Any,
    lost: Any,
) -> None:
    """Write a bound on what underflow, here or below, may have taken from an entry of a node's message."""
    width = plan.width[node]
    weight = np.empty(plan.bond[node])
    for r in range(count):
        # The norm of the operator at the row's cells: how much it can amplify an error.
        weight[:] = 0.0
        at = plan.value_start[node] + (joint[r] if width > 1 else 0)
        for e in range(plan.entry_start[node], plan.entry_start[node + 1]):
            weight[plan.entry_parent[e]] += abs(plan.values[at])
            at += width
        norm = weight.max()
        low = reach
        product, error = 1.0, 0.0
        for k in range(plan.child_start[node], plan.child_start[node + 1]):
            child = plan.child[k]
            peak, least = 0.0, HUGE
            for p in range(plan.bond[child]):
                size = abs(messages[where[child] + p, r])
                peak = max(peak, size)
                if size > 0.0:
                    least = min(least, size)
            below = lost[child, r] if lossy[child] else 0.0
            error = error * (peak + below) + product * below
            product *= peak
            low += min(np.log2(least), 0.0)
            # The bound itself must not underflow.
            if below > 0.0:
                error = max(error, FLUSHED)
        error *= norm
        if low < LOWEST:
            error += FLUSHED * norm
        if error > 0.0:
            error = max(error, FLUSHED)
        shift = exponent[r] - before[r]
        error = error * 2.0 ** (-(shift // 2)) * 2.0 ** (-(shift - shift // 2))
        # What is this far lost stays so; an infinite bound would turn into no number at all.
        lost[node, r] = min(error, HUGE)


@_jit
def _pass_up(
    plan: Plan,
    where: Any,
    codes: Any,
    start: int,
    count: int,
    messages: Any,
    joint: Any,
    work: Any,
    exponent: Any,
    reach: Any,
    lost: Any,
    unsure: Any,
) -> None:
    """Pass messages up the whole tree, and mark the rows whose probability underflow may have changed.

    One exponent serves a row's whole message, so an entry that is a thousand binary digits below another is lost;
    that matters only where a message from elsewhere reverses their order. A bound on the smallest entry tells
    which nodes can lose anything; only these, and those above them, are looked at row by row.
    """
    nodes = plan.bond.shape[0]
    low = np.zeros(nodes)
    lossy = np.zeros(nodes, np.bool_)
    before = np.empty(count, np.int64)
    for node in range(nodes - 1, -1, -1):
        first, last = plan.child_start[node], plan.child_start[node + 1]
        lowest = reach[node]
        risky = False
        for k in range(first, last):
            lowest += min(low[plan.child[k]], 0.0)
            risky |= lossy[plan.child[k]]
        if lowest < LOWEST:
            lowest = reach[node]
            for k in range(first, last):
                child = plan.child[k]
                low[child] = _lowest(messages[where[child] :], plan.bond[child], count)
                lowest += min(low[child], 0.0)
            risky |= lowest < LOWEST
        if risky:
            before[:] = exponent[:count]
        if plan.width[node] > 1:
            _joint_codes(plan, node, codes, start, count, joint)
        largest = _send_up(plan, node, where, joint, count, messages, work, exponent)
        low[node] = lowest - largest
        lossy[node] = risky
        if risky:
            _bound_loss(plan, node, where, joint, count, messages, before, exponent, reach[node], lossy, lost)
    if lossy[0]:
        for r in range(count):
            unsure[start + r] = lost[0, r] > CERTAIN * abs(messages[where[0], r])


@_jit
def upward(plan: Plan, codes: Any, messages: Any, block: int, log_size: Any, sign: Any, unsure: Any) -> None:
    """Write the log absolute probability of each row and its sign (Eq. 13), and which rows underflow spoiled."""
    joint = np.zeros(block, np.int64)
    work = np.empty(block)
    exponent = np.empty(block, np.int64)
    reach, lost = _reach(plan), np.empty((plan.bond.shape[0], block))
    for start in range(0, codes.shape[0], block):
        count = min(block, codes.shape[0] - start)
        exponent[:count] = 0
        _pass_up(plan, plan.slot, codes, start, count, messages, joint, work, exponent, reach, lost, unsure)
        root = messages[plan.slot[0]]
        for r in range(count):
            sign[start + r] = np.sign(root[r])
            log_size[start + r] = np.log(abs(root[r])) + exponent[r] * np.log(2.0)


@_jit
def _send_down(
    plan: Plan, node: int, k: int, joint: Any, count: int, messages: Any, outside: Any, work: Any, unused: Any
) -> None:
    """Write the message of a node to its k-th child, from all that is outside that child."""
    first_child = plan.child_start[node]
    children = plan.child_start[node + 1] - first_child
    child = plan.child[first_child + k]
    base, bond = plan.place[child], plan.bond[child]
    out = outside[base : base + bond]
    for p in range(bond):
        for r in range(count):
            out[p, r] = 0.0
    above = outside[plan.place[node] : plan.place[node] + plan.bond[node]]
    for e in range(plan.entry_start[node], plan.entry_start[node + 1]):
        source = above[plan.entry_parent[e]]
        target = out[plan.entry_child[e, k]]
        if children == 1:
            _accumulate(plan, node, e, joint, count, source, target)
            continue
        for r in range(count):
            work[r] = source[r]
        for j in range(children):
            if j != k:
                sibling = messages[plan.place[plan.child[first_child + j]] + plan.entry_child[e, j]]
                for r in range(count):
                    work[r] *= sibling[r]
        _accumulate(plan, node, e, joint, count, work, target)
    _rescale(out, bond, count, work, unused)


@_jit
def _entry_weight(plan: Plan, node: int, e: int, count: int, messages: Any, outside: Any, work: Any) -> None:
    """Write the product of all messages that meet one entry."""
    above = outside[plan.place[node] + plan.entry_parent[e]]
    for r in range(count):
        work[r] = above[r]
    first_child = plan.child_start[node]
    for j in range(plan.child_start[node + 1] - first_child):
        message = messages[plan.place[plan.child[first_child + j]] + plan.entry_child[e, j]]
        for r in range(count):
            work[r] *= message[r]


@_jit
def downward(
    plan: Plan, codes: Any, messages: Any, outside: Any, block: int, offset: Any, tables: Any, unsure: Any
) -> None:
    """Write P(column = v, the other cells of the row), up to a factor a row, for the wanted columns.

    ``offset[column]`` is where the column's states start in a row of `tables`, or -1 if it is not wanted. Rows that
    underflow spoiled are marked in `unsure`.
    """
    nodes = plan.bond.shape[0]
    joint = np.zeros(block, np.int64)
    work = np.empty(block)
    unused = np.zeros(block, np.int64)
    reach, lost = _reach(plan), np.empty((nodes, block))
    for start in range(0, codes.shape[0], block):
        count = min(block, codes.shape[0] - start)
        unused[:] = 0
        _pass_up(plan, plan.place, codes, start, count, messages, joint, work, unused, reach, lost, unsure)
        outside[plan.place[0], :count] = 1.0
        for node in range(nodes):
            if plan.width[node] > 1:
                _joint_codes(plan, node, codes, start, count, joint)
            for k in range(plan.child_start[node + 1] - plan.child_start[node]):
                _send_down(plan, node, k, joint, count, messages, outside, work, unused)
            for k in range(plan.column_start[node], plan.column_start[node + 1]):
                first = offset[plan.column[k]]
                if first < 0:
                    continue
                width, stride, states = plan.width[node], plan.stride[k], plan.states[k]
                for r in range(count):
                    tables[start + r, first : first + states] = 0.0
                for e in range(plan.entry_start[node], plan.entry_start[node + 1]):
                    _entry_weight(plan, node, e, count, messages, outside, work)
                    base = plan.value_start[node] + (e - plan.entry_start[node]) * width
                    for r in range(count):
                        here = base + joint[r] - codes[start + r, plan.column[k]] * stride
                        for v in range(states):
                            tables[start + r, first + v] += plan.values[here + v * stride] * work[r]


@_jit
def draw(
    plan: Plan,
    tour: Any,
    codes: Any,
    uniform: Any,
    messages: Any,
    outside: Any,
    block: int,
    unsure: Any,
) -> None:
    """Fill the missing cells of each row with a draw given its other cells.

    Rows that underflow spoiled are marked in `unsure` and left as they are.

    The tour enters and leaves each node once. Entering node i (``i`` in the tour) sends the message from above and
    draws the node's own cells; leaving it (``-i - 1``) sends its message up, now with these cells known.
    Where no state has a positive probability, the cell stays missing.
    """
    joint = np.zeros(block, np.int64)
    work = np.empty(block)
    unused = np.zeros(block, np.int64)
    reach, lost = _reach(plan), np.empty((plan.bond.shape[0], block))
    table = np.empty((plan.states.max(), block))
    for start in range(0, codes.shape[0], block):
        count = min(block, codes.shape[0] - start)
        unused[:] = 0
        _pass_up(plan, plan.place, codes, start, count, messages, joint, work, unused, reach, lost, unsure)
        outside[plan.place[0], :count] = 1.0
        for step in range(tour.shape[0]):
            node = tour[step, 0]
            if node < 0:
                node = -node - 1
                if plan.width[node] > 1:
                    _joint_codes(plan, node, codes, start, count, joint)
                _send_up(plan, node, plan.place, joint, count, messages, work, unused)
                continue
            parent, k = tour[step, 1], tour[step, 2]
            if parent >= 0:
                if plan.width[parent] > 1:
                    _joint_codes(plan, parent, codes, start, count, joint)
                _send_down(plan, parent, k, joint, count, messages, outside, work, unused)
            for k in range(plan.column_start[node], plan.column_start[node + 1]):
                column, stride, states = plan.column[k], plan.stride[k], plan.states[k]
                absent = 0
                for r in range(count):
                    absent += codes[start + r, column] == states
                if absent == 0:
                    continue
                _joint_codes(plan, node, codes, start, count, joint)
                table[:states, :count] = 0.0
                for e in range(plan.entry_start[node], plan.entry_start[node + 1]):
                    _entry_weight(plan, node, e, count, messages, outside, work)
                    base = plan.value_start[node] + (e - plan.entry_start[node]) * plan.width[node]
                    for v in range(states):
                        shift = base + (v - states) * stride
                        for r in range(count):
                            if codes[start + r, column] == states:
                                table[v, r] += plan.values[shift + joint[r]] * work[r]
                for r in range(count):
                    if codes[start + r, column] == states and not unsure[start + r]:
                        codes[start + r, column] = pick(table[:states, r], uniform[start + r, column])


@_jit
def pick(table: Any, uniform: float) -> int:
    """Return the state whose stretch of the table's positive part holds the uniform draw.

    Where nothing is positive, return the code of a missing cell.
    """
    total = 0.0
    for v in range(table.shape[0]):
        total += max(table[v], 0.0)
    left = uniform * total
    chosen: int = table.shape[0]
    for v in range(table.shape[0]):
        if table[v] > 0.0:
            chosen = v
            left -= table[v]
            if left < 0.0:
                break
    return chosen


@_jit
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


@_jit
def _wide_product(plan: Plan, node: int, e: int, without: int, size: Any, power: Any) -> tuple[float, int]:
    """Return the product of the children's messages that meet one entry, but for one of them."""
    fraction, exponent = 1.0, 0
    first_child = plan.child_start[node]
    for j in range(plan.child_start[node + 1] - first_child):
        if j != without:
            at = plan.place[plan.child[first_child + j]] + plan.entry_child[e, j]
            fraction *= size[at]
            exponent += power[at]
    return fraction, exponent


@_jit
def _wide_value(plan: Plan, node: int, e: int, joint: int) -> tuple[float, int]:
    width = plan.width[node]
    return math.frexp(plan.values[plan.value_start[node] + (e - plan.entry_start[node]) * width + joint])


@_jit
def _wide_joint(plan: Plan, node: int, row: Any) -> int:
    joint = 0
    for k in range(plan.column_start[node], plan.column_start[node + 1]):
        joint += row[plan.column[k]] * plan.stride[k]
    return joint


@_jit
def _wide_send_up(plan: Plan, node: int, row: Any, size: Any, power: Any) -> None:
    """Write the message of a node to its parent, as `_send_up` does."""
    base = plan.place[node]
    size[base : base + plan.bond[node]] = 0.0
    joint = _wide_joint(plan, node, row)
    for e in range(plan.entry_start[node], plan.entry_start[node + 1]):
        fraction, exponent = _wide_product(plan, node, e, -1, size, power)
        value, shift = _wide_value(plan, node, e, joint)
        _wide_add(size, power, base + plan.entry_parent[e], value * fraction, shift + exponent)


@_jit
def _wide_send_down(
    plan: Plan, node: int, k: int, row: Any, size: Any, power: Any, outside_size: Any, outside_power: Any
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


@_jit
def _wide_table(
    plan: Plan,
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


@_jit
def wide_upward(plan: Plan, codes: Any, log_size: Any, sign: Any) -> None:
    """Write what `upward` does, slowly, with an exponent for each entry of a message: nothing underflows."""
    depth = plan.bond.sum()
    size, power = np.zeros(depth), np.zeros(depth, np.int64)
    for r in range(codes.shape[0]):
        for node in range(plan.bond.shape[0] - 1, -1, -1):
            _wide_send_up(plan, node, codes[r], size, power)
        sign[r] = np.sign(size[0])
        log_size[r] = np.log(abs(size[0])) + power[0] * np.log(2.0)


@_jit
def wide_downward(plan: Plan, codes: Any, offset: Any, tables: Any) -> None:
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


@_jit
def wide_draw(plan: Plan, tour: Any, codes: Any, uniform: Any) -> None:
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


@_jit
def choose(cumulative: Any, given: Any, uniform: Any, chosen: Any) -> None:
    """Write, for each row, the state whose stretch of its cumulative distribution holds the uniform draw."""
    states = cumulative.shape[1]
    for r in range(given.shape[0]):
        line = cumulative[given[r]]
        level = uniform[r] * line[states - 1]
        low, high = 0, states - 1
        while low < high:
            middle = (low + high) // 2
            if line[middle] > level:
                high = middle
            else:
                low = middle + 1
        chosen[r] = low


@_jit
def _group_codes(codes: Any, start: int, count: int, columns: Any, states: Any, joint: Any) -> None:
    """Write the joint code of a group of columns for some rows, in 16 bits so that the loop vectorises."""
    # Slices that start at 0: with an offset in the index the loops do not vectorise, and are three times slower.
    out = joint[:count]
    first = codes[start : start + count, columns[0]]
    for r in range(count):
        out[r] = np.uint16(first[r])
    for k in range(1, columns.shape[0]):
        column = codes[start : start + count, columns[k]]
        size = np.uint16(states[k])
        for r in range(count):
            out[r] = np.uint16(np.uint16(out[r] * size) + np.uint16(column[r]))


@_jit
def _present(codes: Any, start: int, count: int, columns: Any, states: Any, present: Any) -> None:
    """Write whether all cells of a group are present, for some rows."""
    out = present[:count]
    out[:] = True
    for k in range(columns.shape[0]):
        column = codes[start : start + count, columns[k]]
        for r in range(count):
            out[r] &= column[r] != states[k]


@_jit
def count_groups(
    codes: Any, group_start: Any, columns: Any, states: Any, table_start: Any, tables: Any, holes: Any
) -> None:
    """Add the joint counts of each group of columns to its table; rows with a missing cell do not count there.

    Tables lie end to end in `tables`, and none has more than 65,536 cells. ``holes[column]`` says whether the
    column has a missing cell at all. Four sub-tables take turns, so that equal codes that follow each other do not
    wait for one another.
    """
    block = 2048
    joint = np.empty(block, np.uint16)
    present = np.empty(block, np.bool_)
    lanes = np.zeros((4, 4096), np.int64)
    for g in range(table_start.shape[0] - 1):
        group = columns[group_start[g] : group_start[g + 1]]
        sizes = states[group_start[g] : group_start[g + 1]]
        cells = table_start[g + 1] - table_start[g]
        table = tables[table_start[g] : table_start[g + 1]]
        any_hole = False
        for column in group:
            any_hole |= holes[column]
        in_lanes = cells <= 4096 and not any_hole
        for start in range(0, codes.shape[0], block):
            count = min(block, codes.shape[0] - start)
            _group_codes(codes, start, count, group, sizes, joint)
            if any_hole:
                _present(codes, start, count, group, sizes, present)
                for r in range(count):
                    if present[r]:
                        table[joint[r]] += 1
            elif in_lanes:
                whole = count // 4 * 4
                for r in range(0, whole, 4):
                    lanes[0, joint[r]] += 1
                    lanes[1, joint[r + 1]] += 1
                    lanes[2, joint[r + 2]] += 1
                    lanes[3, joint[r + 3]] += 1
                for r in range(whole, count):
                    lanes[0, joint[r]] += 1
            else:
                for r in range(count):
                    table[joint[r]] += 1
        if in_lanes:
            for k in range(cells):
                table[k] += lanes[0, k] + lanes[1, k] + lanes[2, k] + lanes[3, k]
            lanes[:, :cells] = 0


@_jit
def weigh_groups(
    codes: Any, weights: Any, group_start: Any, columns: Any, states: Any, table_start: Any, tables: Any
) -> None:
    """Add the weights of the rows to the tables of each group, as `count_groups` adds ones."""
    block = 2048
    joint = np.empty(block, np.uint16)
    present = np.empty(block, np.bool_)
    for g in range(table_start.shape[0] - 1):
        group = columns[group_start[g] : group_start[g + 1]]
        sizes = states[group_start[g] : group_start[g + 1]]
        table = tables[table_start[g] : table_start[g + 1]]
        for start in range(0, codes.shape[0], block):
            count = min(block, codes.shape[0] - start)
            _group_codes(codes, start, count, group, sizes, joint)
            _present(codes, start, count, group, sizes, present)
            for r in range(count):
                if present[r]:
                    table[joint[r]] += weights[start + r]


@_jit
def feature_sums(dense: Any, start: Any, states: Any, widths: Any, whole: Any, matrices: Any, sums: Any) -> None:
    """Write the sum over the cells of each table of count times product of features.

    Parameters
    ----------
    dense : (cells,)
        Tables of the same shape, each from its `start` on.
    states, widths : (axes,)
        States and features of each axis.
    whole : (axes,)
        Axes whose features are their states.
    matrices : (tables, axes, at least states, at least widths)
        The features of all other axes.
    sums : (tables, product of widths)
    """
    axes = len(states)
    cells = 1
    for axis in range(axes):
        cells *= states[axis]
    largest = work = cells // states[0] * widths[0]
    for axis in range(1, axes):
        work = work // states[axis] * widths[axis]
        largest = max(largest, work)
    here, there = np.empty(largest), np.empty(largest)
    for table in range(len(start)):
        begin = start[table]
        rest = cells // states[0]
        if whole[0]:
            for cell in range(cells):
                here[cell] = dense[begin + cell]
        else:
            here[: rest * widths[0]] = 0.0
            for state in range(states[0]):
                for width in range(widths[0]):
                    factor = matrices[table, 0, state, width]
                    for cell in range(rest):
                        here[width * rest + cell] += factor * dense[begin + state * rest + cell]
        done = widths[0]
        for axis in range(1, axes):
            count, width_count = states[axis], widths[axis]
            rest //= count
            if not whole[axis]:
                there[: done * width_count * rest] = 0.0
                for before in range(done):
                    for state in range(count):
                        first = (before * count + state) * rest
                        for width in range(width_count):
                            factor = matrices[table, axis, state, width]
                            onto = (before * width_count + width) * rest
                            for cell in range(rest):
                                there[onto + cell] += factor * here[first + cell]
                here, there = there, here
            done *= width_count
        sums[table] = here[:done]


@_jit
def hash_rows(codes: Any, hashes: Any) -> None:
    """Write a 64-bit hash of each row's codes."""
    for r in range(codes.shape[0]):
        hashes[r] = np.uint64(0x9E3779B97F4A7C15)
    for j in range(codes.shape[1]):
        column = codes[:, j]
        for r in range(codes.shape[0]):
            mixed = (hashes[r] ^ np.uint64(column[r])) * np.uint64(0xBF58476D1CE4E5B9)
            hashes[r] = mixed ^ (mixed >> np.uint64(31))
    for r in range(codes.shape[0]):
        mixed = (hashes[r] ^ (hashes[r] >> np.uint64(30))) * np.uint64(0x94D049BB133111EB)
        hashes[r] = mixed ^ (mixed >> np.uint64(29))


class CountPlan(NamedTuple):
    """A tree for expected counts as flat arrays; nodes in preorder.

    Leaves read codes and inner nodes only join messages: a value of an inner node is then one number for all rows,
    so that its loops need no look-up, and its count is a plain sum over rows. All messages are lines of one buffer,
    one cell a row of data, and are named by the number of their first line.

    Attributes
    ----------
    bond : (nodes,)
        Size of a node's message to its parent.
    message, outside : (nodes,)
        Lines of the messages from each node to its parent, and from above to each inner node.
    product, terms : (nodes,)
        Lines of the products of the children's messages, and how many there are. They may overwrite the message of
        the first child, if all other children are leaves.
    factor : (nodes,)
        The line where an inner node that brings its message back into range keeps what it multiplied by, or -1.
    ones, down, share, spare : (1,)
        Lines of ones, of what comes down to the products, to one child, and one for a product.
    code_row : (nodes,)
        Which row of the codes a leaf reads, -1 for an inner node.
    value_start : (nodes,)
        Where a node's values start: (code, index on the bond) of a leaf, (block, row, column) of an inner node.
    child_start : (nodes + 1,), child : (edges,)
        Children of each inner node.
    pick_start, pick : (edges,), (all picks,)
        For each child, the index on its bond of each product; then all products in the order of that index.
    blocks, rows, columns : (nodes,)
        An inner node is a block-diagonal matrix: columns are products, rows are indices on the parent's bond.
    row_start, row, column_start, column : (nodes,), (all rows of all blocks,), …
        The index on the parent's bond of each row of each block, and the product of each column.
    """

    bond: NDArray[np.int64]
    message: NDArray[np.int64]
    outside: NDArray[np.int64]
    product: NDArray[np.int64]
    terms: NDArray[np.int64]
    factor: NDArray[np.int64]
    ones: NDArray[np.int64]
    down: NDArray[np.int64]
    share: NDArray[np.int64]
    spare: NDArray[np.int64]
    code_row: NDArray[np.int64]
    value_start: NDArray[np.int64]
    child_start: NDArray[np.int64]
    child: NDArray[np.int64]
    pick_start: NDArray[np.int64]
    pick: NDArray[np.int64]
    blocks: NDArray[np.int64]
    rows: NDArray[np.int64]
    columns: NDArray[np.int64]
    row_start: NDArray[np.int64]
    row: NDArray[np.int64]
    column_start: NDArray[np.int64]
    column: NDArray[np.int64]


LARGEST_OUTSIDE = 1e290
"""Messages from above are cut here, so that none can meet a zero from below as an infinity."""

COPIES = 4
"""Of the counts of leaves: neighbouring rows with equal codes need not wait for each other's sum."""

# Lines are named by numbers, and the loops over rows are compiled into their callers: to count the references of a
# slice, or a call, costs as much as a short loop.
_jit_loop = njit(cache=True, nogil=True, fastmath={"contract"}, error_model="numpy", forceinline=True)

# These sums end in counts and not in probabilities, so their order is free, and the loops vectorise.
_jit_sum = njit(cache=True, nogil=True, fastmath={"contract", "reassoc"}, error_model="numpy", forceinline=True)


@_jit_loop
def _fill(lines: Any, out: int, number: float, count: int) -> None:
    for r in range(count):
        lines[out, r] = number


@_jit_loop
def _multiply(lines: Any, out: int, a: int, b: int, count: int) -> None:
    for r in range(count):
        lines[out, r] = lines[a, r] * lines[b, r]


@_jit_loop
def _scale(lines: Any, out: int, a: int, count: int) -> None:
    # As a product with itself, the loop would be held unsafe to vectorise.
    for r in range(count):
        lines[out, r] *= lines[a, r]


@_jit_loop
def _add_product(lines: Any, out: int, a: int, b: int, count: int) -> None:
    for r in range(count):
        lines[out, r] += lines[a, r] * lines[b, r]


@_jit_loop
def _multiply_pair(lines: Any, out: int, a: int, b: int, c: int, d: int, count: int) -> None:
    for r in range(count):
        lines[out, r] = lines[a, r] * lines[b, r] + lines[c, r] * lines[d, r]


@_jit_loop
def _mix(lines: Any, out: int, value: float, a: int, count: int, add: bool) -> None:
    if add:
        for r in range(count):
            lines[out, r] += value * lines[a, r]
    else:
        for r in range(count):
            lines[out, r] = value * lines[a, r]


@_jit_loop
def _mix_square(
    lines: Any, out: int, last: int, values: Any, first: int, second: int, a: int, b: int, count: int, add: bool
) -> None:
    """Multiply two lines by a matrix of 2 x 2 values."""
    p, q, s, t = values[first], values[first + 1], values[second], values[second + 1]
    if add:
        for r in range(count):
            lines[out, r] += p * lines[a, r] + q * lines[b, r]
            lines[last, r] += s * lines[a, r] + t * lines[b, r]
    else:
        for r in range(count):
            lines[out, r] = p * lines[a, r] + q * lines[b, r]
            lines[last, r] = s * lines[a, r] + t * lines[b, r]


@_jit_sum
def _dot(lines: Any, a: int, b: int, count: int) -> float:
    total = 0.0
    for r in range(count):
        total += lines[a, r] * lines[b, r]
    return total


@_jit_sum
def _mix_and_dot_square(
    lines: Any,
    out: int,
    last: int,
    values: Any,
    first: int,
    second: int,
    a: int,
    b: int,
    c: int,
    d: int,
    count: int,
    add: bool,
) -> tuple[float, float, float, float]:
    """Multiply two lines by a matrix of 2 x 2 values; return their dot products with two others."""
    p, q, s, t = values[first], values[first + 1], values[second], values[second + 1]
    ac, ad, bc, bd = 0.0, 0.0, 0.0, 0.0
    if add:
        for r in range(count):
            lines[out, r] += p * lines[a, r] + q * lines[b, r]
            lines[last, r] += s * lines[a, r] + t * lines[b, r]
            ac += lines[a, r] * lines[c, r]
            ad += lines[a, r] * lines[d, r]
            bc += lines[b, r] * lines[c, r]
            bd += lines[b, r] * lines[d, r]
    else:
        for r in range(count):
            lines[out, r] = p * lines[a, r] + q * lines[b, r]
            lines[last, r] = s * lines[a, r] + t * lines[b, r]
            ac += lines[a, r] * lines[c, r]
            ad += lines[a, r] * lines[d, r]
            bc += lines[b, r] * lines[c, r]
            bd += lines[b, r] * lines[d, r]
    return ac, ad, bc, bd


@_jit
def _look_up(plan: CountPlan, node: int, values: Any, codes: Any, begin: int, count: int, lines: Any) -> None:
    """Write the message of a leaf: one line of its table a row."""
    out, leaf = plan.message[node], plan.code_row[node]
    # Unsigned numbers index without a check for negative ones.
    bond, one = np.uintp(plan.bond[node]), np.uintp(1)
    for p in range(0, plan.bond[node] - 1, 2):
        start = np.uintp(plan.value_start[node] + p)
        for r in range(count):
            place = start + np.uintp(codes[leaf, begin + r]) * bond
            lines[out + p, r] = values[place]
            lines[out + p + 1, r] = values[place + one]
    if plan.bond[node] % 2 == 1:
        start, last = np.uintp(plan.value_start[node] + plan.bond[node] - 1), out + plan.bond[node] - 1
        for r in range(count):
            lines[last, r] = values[start + np.uintp(codes[leaf, begin + r]) * bond]


@_jit
def _count_codes(
    plan: CountPlan, node: int, codes: Any, begin: int, count: int, lines: Any, source: int, sums: Any
) -> None:
    """Add the distribution of each row over a leaf's bond to the row's code."""
    leaf = plan.code_row[node]
    bond, one = np.uintp(plan.bond[node]), np.uintp(1)
    whole = count - count % COPIES
    for p in range(0, plan.bond[node] - 1, 2):
        start = np.uintp(plan.value_start[node] + p)
        for r in range(0, whole, COPIES):
            for k in range(COPIES):
                place = start + np.uintp(codes[leaf, begin + r + k]) * bond
                sums[k, place] += lines[source + p, r + k]
                sums[k, place + one] += lines[source + p + 1, r + k]
    if plan.bond[node] % 2 == 1:
        start, last = np.uintp(plan.value_start[node] + plan.bond[node] - 1), source + plan.bond[node] - 1
        for r in range(0, whole, COPIES):
            for k in range(COPIES):
                sums[k, start + np.uintp(codes[leaf, begin + r + k]) * bond] += lines[last, r + k]
    for r in range(whole, count):
        place = plan.value_start[node] + np.intp(codes[leaf, begin + r]) * plan.bond[node]
        for p in range(plan.bond[node]):
            sums[0, place + p] += lines[source + p, r]


@_jit
def _join(plan: CountPlan, node: int, count: int, lines: Any) -> None:
    """Write the products of the children's messages, where there are several children."""
    first, last = plan.child_start[node], plan.child_start[node + 1]
    product, terms = plan.product[node], plan.terms[node]
    for k in range(first + 1, last):
        message, pick = plan.message[plan.child[k]], plan.pick_start[k]
        for t in range(terms):
            if k == first + 1 and product != plan.message[plan.child[first]]:
                left = plan.message[plan.child[first]] + plan.pick[plan.pick_start[first] + t]
                _multiply(lines, product + t, left, message + plan.pick[pick + t], count)
            else:
                _scale(lines, product + t, message + plan.pick[pick + t], count)


@_jit
def _matrix_up(plan: CountPlan, node: int, values: Any, count: int, lines: Any) -> None:
    """Write the message of an inner node: its matrix times the products."""
    rows, columns = plan.rows[node], plan.columns[node]
    value, out, product = plan.value_start[node], plan.message[node], plan.product[node]
    row, column = plan.row_start[node], plan.column_start[node]
    for _ in range(plan.blocks[node]):
        for i in range(0, rows - 1, 2):
            p, q = out + plan.row[row + i], out + plan.row[row + i + 1]
            first, second = value + i * columns, value + (i + 1) * columns
            for j in range(0, columns - 1, 2):
                a, b = product + plan.column[column + j], product + plan.column[column + j + 1]
                _mix_square(lines, p, q, values, first + j, second + j, a, b, count, j > 0)
            if columns % 2 == 1:
                j = columns - 1
                a = product + plan.column[column + j]
                _mix(lines, p, values[first + j], a, count, j > 0)
                _mix(lines, q, values[second + j], a, count, j > 0)
        if rows % 2 == 1:
            p, first = out + plan.row[row + rows - 1], value + (rows - 1) * columns
            for j in range(columns):
                _mix(lines, p, values[first + j], product + plan.column[column + j], count, j > 0)
        value += rows * columns
        row += rows
        column += columns


@_jit
def _matrix_down(
    plan: CountPlan, node: int, values: Any, transposed: Any, count: int, lines: Any, down: int, sums: Any
) -> None:
    """Write what comes down to each product, and count each value's messages.

    The transposed values hold a node's blocks as (column, row).
    """
    rows, columns = plan.rows[node], plan.columns[node]
    value, above, product = plan.value_start[node], plan.outside[node], plan.product[node]
    row, column = plan.row_start[node], plan.column_start[node]
    for _ in range(plan.blocks[node]):
        for j in range(0, columns - 1, 2):
            a, b = plan.column[column + j], plan.column[column + j + 1]
            first, second = value + j * rows, value + (j + 1) * rows
            for i in range(0, rows - 1, 2):
                p, q = above + plan.row[row + i], above + plan.row[row + i + 1]
                totals = _mix_and_dot_square(
                    lines,
                    down + a,
                    down + b,
                    transposed,
                    first + i,
                    second + i,
                    p,
                    q,
                    product + a,
                    product + b,
                    count,
                    i > 0,
                )
                place = value + i * columns + j
                sums[0, place] += totals[0]
                sums[0, place + 1] += totals[1]
                sums[0, place + columns] += totals[2]
                sums[0, place + columns + 1] += totals[3]
            if rows % 2 == 1:
                i = rows - 1
                p = above + plan.row[row + i]
                _mix(lines, down + a, transposed[first + i], p, count, i > 0)
                _mix(lines, down + b, transposed[second + i], p, count, i > 0)
                sums[0, value + i * columns + j] += _dot(lines, p, product + a, count)
                sums[0, value + i * columns + j + 1] += _dot(lines, p, product + b, count)
        if columns % 2 == 1:
            j = columns - 1
            a = plan.column[column + j]
            for i in range(rows):
                p = above + plan.row[row + i]
                _mix(lines, down + a, transposed[value + j * rows + i], p, count, i > 0)
                sums[0, value + i * columns + j] += _dot(lines, p, product + a, count)
        value += rows * columns
        row += rows
        column += columns


@_jit
def _share_with_leaf(plan: CountPlan, node: int, edge: int, count: int, lines: Any, out: int) -> None:
    """Write each row's distribution over the bond of a leaf."""
    down, product = plan.down[0], plan.product[node]
    bond = plan.bond[plan.child[edge]]
    each = plan.terms[node] // bond
    place = plan.pick_start[edge] + plan.terms[node]
    for p in range(out, out + bond):
        t = plan.pick[place]
        start = 1
        if each == 1:
            _multiply(lines, p, down + t, product + t, count)
        else:
            u = plan.pick[place + 1]
            _multiply_pair(lines, p, down + t, product + t, down + u, product + u, count)
            start = 2
        for k in range(start, each):
            t = plan.pick[place + k]
            _add_product(lines, p, down + t, product + t, count)
        place += each


@_jit
def _share_with_inner(plan: CountPlan, node: int, edge: int, count: int, lines: Any) -> None:
    """Write the message from above to an inner child: what comes down, times the other children's messages."""
    first, last, terms = plan.child_start[node], plan.child_start[node + 1], plan.terms[node]
    down, spare = plan.down[0], plan.spare[0]
    child = plan.child[edge]
    each = terms // plan.bond[child]
    other = first if edge > first else first + 1
    place = plan.pick_start[edge] + terms
    for p in range(plan.outside[child], plan.outside[child] + plan.bond[child]):
        for k in range(each):
            t = plan.pick[place + k]
            source = down + t
            for j in range(first, last):
                if j in (edge, other):
                    continue
                message = plan.message[plan.child[j]] + plan.pick[plan.pick_start[j] + t]
                if source == spare:
                    _scale(lines, spare, message, count)
                else:
                    _multiply(lines, spare, source, message, count)
                    source = spare
            message = plan.message[plan.child[other]] + plan.pick[plan.pick_start[other] + t]
            if k == 0:
                _multiply(lines, p, source, message, count)
            else:
                _add_product(lines, p, source, message, count)
        place += each


@_jit
def _to_range(plan: CountPlan, node: int, count: int, lines: Any, exponent: Any) -> None:
    """Bring each row's message, which is not negative, back into range.

    What a row was multiplied by is left in its line, and its logarithm is taken off the exponent.
    """
    message, bond, factor = plan.message[node], plan.bond[node], plan.factor[node]
    for r in range(count):
        lines[factor, r] = lines[message, r]
    for line in range(message + 1, message + bond):
        for r in range(count):
            lines[factor, r] += lines[line, r]
    for r in range(count):
        size = lines[factor, r]
        lines[factor, r] = 1.0
        if (size < TINY or size > HUGE) and size > 0.0:
            # The inverse of a subnormal number overflows; what is left is for the next node.
            shift = max(int(np.floor(np.log2(size))), -900)
            lines[factor, r] = 2.0**-shift
            exponent[r] += shift
    for line in range(message, message + bond):
        _scale(lines, line, factor, count)


@_jit
def _count_down(
    plan: CountPlan,
    node: int,
    values: Any,
    transposed: Any,
    codes: Any,
    begin: int,
    count: int,
    lines: Any,
    sums: Any,
) -> None:
    """Send what comes from above on to the children of an inner node, and count on the way."""
    if plan.factor[node] >= 0:
        factor = plan.factor[node]
        for line in range(plan.outside[node], plan.outside[node] + plan.bond[node]):
            for r in range(count):
                lines[line, r] = min(lines[line, r] * lines[factor, r], LARGEST_OUTSIDE)
    first, last = plan.child_start[node], plan.child_start[node + 1]
    if last - first == 1 and plan.code_row[plan.child[first]] < 0:
        _matrix_down(plan, node, values, transposed, count, lines, plan.outside[plan.child[first]], sums)
        return
    _matrix_down(plan, node, values, transposed, count, lines, plan.down[0], sums)
    shared = -1
    for edge in range(first, last):
        child = plan.child[edge]
        if plan.code_row[child] < 0:
            _share_with_inner(plan, node, edge, count, lines)
            continue
        # Leaves on the same bond have the same distribution.
        if plan.pick_start[edge] != shared:
            _share_with_leaf(plan, node, edge, count, lines, plan.share[0])
            shared = plan.pick_start[edge]
        _count_codes(plan, child, codes, begin, count, lines, plan.share[0], sums)


@_jit
def expected(
    plan: CountPlan,
    values: Any,
    transposed: Any,
    codes: Any,
    weights: Any,
    start: int,
    stop: int,
    lines: Any,
    sums: Any,
) -> tuple[float, int]:
    """Add the expected counts of some rows to `sums`; return their weighted log-likelihood.

    The sums of a leaf are expected counts; those of an inner node become so when multiplied by its values. Messages
    from above are divided by the row's probability at the root already, so no node has to normalise.

    Parameters
    ----------
    values, transposed : (values,)
        The second with the blocks of inner nodes as (column, row).
    codes : (leaves, rows)
    start, stop : int
        Which rows to pass through the tree.
    lines : (lines, block)
    sums : (COPIES, values)
        What is wanted is the sum of the copies.

    Returns
    -------
    log_likelihood : float
    impossible : int
        A row of probability zero and positive weight, or -1.
    """
    block = lines.shape[1]
    exponent = np.zeros(block, np.int64)
    _fill(lines, plan.ones[0], 1.0, block)
    log_likelihood = 0.0
    impossible = -1
    for begin in range(start, stop, block):
        count = min(block, stop - begin)
        exponent[:count] = 0
        for node in range(plan.bond.shape[0] - 1, -1, -1):
            if plan.code_row[node] >= 0:
                _look_up(plan, node, values, codes, begin, count, lines)
                continue
            _join(plan, node, count, lines)
            _matrix_up(plan, node, values, count, lines)
            if plan.factor[node] >= 0:
                _to_range(plan, node, count, lines, exponent)
        root, above = plan.message[0], plan.outside[0]
        for r in range(count):
            weight, size = weights[begin + r], lines[root, r]
            if size > 0.0:
                lines[above, r] = weight / size
                log_likelihood += weight * (np.log(size) + exponent[r] * np.log(2.0))
            else:
                lines[above, r] = 0.0
                if weight > 0.0:
                    impossible = begin + r
        for node in range(plan.bond.shape[0]):
            if plan.code_row[node] < 0:
                _count_down(plan, node, values, transposed, codes, begin, count, lines, sums)
    return log_likelihood, impossible
