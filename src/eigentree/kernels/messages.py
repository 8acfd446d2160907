"""Messages up and down a tree of operators, for blocks of rows.

A `FlatTree` is a tree of operators laid out flat, so that one call passes messages through the whole tree for a
block of rows without returning to Python. Within a block, rows are the innermost axis of every buffer: an entry of
an operator is read once for all rows of the block, and the loops over rows vectorise.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from eigentree.kernels.compiling import compiled

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["HUGE", "TINY", "FlatTree", "choose", "downward", "draw", "pick", "upward"]

TINY = 2.0**-60
HUGE = 2.0**60
"""A message outside this range is scaled by a power of two, which loses no bit."""

LOWEST = -960.0
"""Products whose log2 is not below this are far from the end of the doubles, whatever is summed on the way."""

FLUSHED = 2.0**-1000
"""More than underflow can take from an entry of a message, when no message is beyond `TINY` and `HUGE`."""

CERTAIN = 2.0**-45
"""A row whose lost part may be a larger share of its probability than this is computed again, in wide numbers."""


class FlatTree(NamedTuple):
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


@compiled
def _joint_codes(plan: FlatTree, node: int, codes: Any, start: int, count: int, joint: Any) -> None:
    first, last = plan.column_start[node], plan.column_start[node + 1]
    column, stride = plan.column[first], plan.stride[first]
    for r in range(count):
        joint[r] = codes[start + r, column] * stride
    for k in range(first + 1, last):
        column, stride = plan.column[k], plan.stride[k]
        for r in range(count):
            joint[r] += codes[start + r, column] * stride


@compiled
def _accumulate(plan: FlatTree, node: int, e: int, joint: Any, count: int, weight: Any, out: Any) -> None:
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


@compiled
def _assign(plan: FlatTree, node: int, e: int, joint: Any, count: int, out: Any) -> None:
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


@compiled
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


@compiled
def _send_up(
    plan: FlatTree, node: int, where: Any, joint: Any, count: int, messages: Any, work: Any, exponent: Any
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


@compiled
def _reach(plan: FlatTree) -> Any:
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


@compiled
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


@compiled
def _bound_loss(
    plan: FlatTree,
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


@compiled
def _pass_up(
    plan: FlatTree,
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


@compiled
def upward(plan: FlatTree, codes: Any, messages: Any, block: int, log_size: Any, sign: Any, unsure: Any) -> None:
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


@compiled
def _send_down(
    plan: FlatTree, node: int, k: int, joint: Any, count: int, messages: Any, outside: Any, work: Any, unused: Any
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


@compiled
def _entry_weight(plan: FlatTree, node: int, e: int, count: int, messages: Any, outside: Any, work: Any) -> None:
    """Write the product of all messages that meet one entry."""
    above = outside[plan.place[node] + plan.entry_parent[e]]
    for r in range(count):
        work[r] = above[r]
    first_child = plan.child_start[node]
    for j in range(plan.child_start[node + 1] - first_child):
        message = messages[plan.place[plan.child[first_child + j]] + plan.entry_child[e, j]]
        for r in range(count):
            work[r] *= message[r]


@compiled
def downward(
    plan: FlatTree, codes: Any, messages: Any, outside: Any, block: int, offset: Any, tables: Any, unsure: Any
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


@compiled
def draw(
    plan: FlatTree,
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


@compiled
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


@compiled
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
