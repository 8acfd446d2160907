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
    reach : (nodes,)
        Log2 of the smallest entry of the node's message where its children's messages have none below 1.
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
    reach: NDArray[np.float64]


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
        reach = plan.reach[node]
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
            reach += min(np.log2(least), 0.0)
            # The bound itself must not underflow.
            if below > 0.0:
                error = max(error, FLUSHED)
        error *= norm
        if reach < LOWEST:
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
        reach = plan.reach[node]
        risky = False
        for k in range(first, last):
            reach += min(low[plan.child[k]], 0.0)
            risky |= lossy[plan.child[k]]
        if reach < LOWEST:
            reach = plan.reach[node]
            for k in range(first, last):
                child = plan.child[k]
                low[child] = _lowest(messages[where[child] :], plan.bond[child], count)
                reach += min(low[child], 0.0)
            risky |= reach < LOWEST
        if risky:
            before[:] = exponent[:count]
        if plan.width[node] > 1:
            _joint_codes(plan, node, codes, start, count, joint)
        largest = _send_up(plan, node, where, joint, count, messages, work, exponent)
        low[node] = reach - largest
        lossy[node] = risky
        if risky:
            _bound_loss(plan, node, where, joint, count, messages, before, exponent, lossy, lost)
    if lossy[0]:
        for r in range(count):
            unsure[start + r] = lost[0, r] > CERTAIN * abs(messages[where[0], r])


@_jit
def upward(plan: Plan, codes: Any, messages: Any, block: int, log_size: Any, sign: Any, unsure: Any) -> None:
    """Write the log absolute probability of each row and its sign (Eq. 13), and which rows underflow spoiled."""
    joint = np.zeros(block, np.int64)
    work = np.empty(block)
    exponent = np.empty(block, np.int64)
    lost = np.empty((plan.bond.shape[0], block))
    for start in range(0, codes.shape[0], block):
        count = min(block, codes.shape[0] - start)
        exponent[:count] = 0
        _pass_up(plan, plan.slot, codes, start, count, messages, joint, work, exponent, lost, unsure)
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
    lost = np.empty((nodes, block))
    for start in range(0, codes.shape[0], block):
        count = min(block, codes.shape[0] - start)
        unused[:] = 0
        _pass_up(plan, plan.place, codes, start, count, messages, joint, work, unused, lost, unsure)
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
    lost = np.empty((plan.bond.shape[0], block))
    table = np.empty((plan.states.max(), block))
    for start in range(0, codes.shape[0], block):
        count = min(block, codes.shape[0] - start)
        unused[:] = 0
        _pass_up(plan, plan.place, codes, start, count, messages, joint, work, unused, lost, unsure)
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
    first = codes[:, columns[0]]
    for r in range(count):
        joint[r] = np.uint16(first[start + r])
    for k in range(1, columns.shape[0]):
        column = codes[:, columns[k]]
        size = np.uint16(states[k])
        for r in range(count):
            joint[r] = np.uint16(np.uint16(joint[r] * size) + np.uint16(column[start + r]))


@_jit
def _present(codes: Any, start: int, count: int, columns: Any, states: Any, present: Any) -> None:
    """Write whether all cells of a group are present, for some rows."""
    for r in range(count):
        present[r] = True
    for k in range(columns.shape[0]):
        column = codes[:, columns[k]]
        for r in range(count):
            present[r] &= column[start + r] != states[k]


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
