"""The hot loops, compiled by numba.

A `Plan` is a tree of operators laid out flat, so that one call passes messages through the whole tree for a block
of rows without returning to Python. Within a block, rows are the innermost axis of every buffer: an entry of an
operator is read once for all rows of the block, and the loops over rows vectorise.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numba import njit

if TYPE_CHECKING:
    from numpy.typing import NDArray

TINY = 2.0**-60
HUGE = 2.0**60
"""A message outside this range is scaled by a power of two, which loses no bit."""


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
    return njit(cache=True, nogil=True, fastmath={"contract"}, error_model="numpy")(function)


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
def _rescale(message: Any, bond: int, count: int, peak: Any, exponent: Any) -> None:
    """Bring each row's message back into range, and add what was taken out to its exponent."""
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
        return
    for r in range(count):
        if (peak[r] < TINY or peak[r] > HUGE) and peak[r] > 0.0:
            shift = int(np.floor(np.log2(peak[r])))
            # Two steps, because the inverse of a subnormal number overflows.
            half = 2.0 ** (-(shift // 2))
            rest = 2.0 ** (-(shift - shift // 2))
            for p in range(bond):
                message[p, r] = message[p, r] * half * rest
            exponent[r] += shift


@_jit
def _send_up(
    plan: Plan, node: int, where: Any, joint: Any, count: int, messages: Any, work: Any, exponent: Any
) -> None:
    """Write the message of a node to its parent (Eq. 11, 12, 19) for a block of rows."""
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
    _rescale(out, bond, count, work, exponent)


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
) -> None:
    for node in range(plan.bond.shape[0] - 1, -1, -1):
        if plan.width[node] > 1:
            _joint_codes(plan, node, codes, start, count, joint)
        _send_up(plan, node, where, joint, count, messages, work, exponent)


@_jit
def upward(plan: Plan, codes: Any, messages: Any, block: int, log_size: Any, sign: Any) -> None:
    """Write the log absolute probability of each row and its sign (Eq. 13)."""
    joint = np.zeros(block, np.int64)
    work = np.empty(block)
    exponent = np.empty(block, np.int64)
    for start in range(0, codes.shape[0], block):
        count = min(block, codes.shape[0] - start)
        exponent[:count] = 0
        _pass_up(plan, plan.slot, codes, start, count, messages, joint, work, exponent)
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
def downward(plan: Plan, codes: Any, messages: Any, outside: Any, block: int, offset: Any, tables: Any) -> None:
    """Write P(column = v, the other cells of the row), up to a factor a row, for the wanted columns.

    ``offset[column]`` is where the column's states start in a row of `tables`, or -1 if it is not wanted.
    """
    nodes = plan.bond.shape[0]
    joint = np.zeros(block, np.int64)
    work = np.empty(block)
    unused = np.zeros(block, np.int64)
    for start in range(0, codes.shape[0], block):
        count = min(block, codes.shape[0] - start)
        _pass_up(plan, plan.place, codes, start, count, messages, joint, work, unused)
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
    fallback: Any,
    messages: Any,
    outside: Any,
    block: int,
) -> int:
    """Fill the missing cells of each row with a draw given its other cells; return how many had to fall back.

    The tour enters and leaves each node once. Entering node i (``i`` in the tour) sends the message from above and
    draws the node's own cells; leaving it (``-i - 1``) sends its message up, now with these cells known.
    Where no state has a positive probability, the cell is drawn from the column's distribution in `fallback`.
    """
    joint = np.zeros(block, np.int64)
    work = np.empty(block)
    unused = np.zeros(block, np.int64)
    table = np.empty((fallback.shape[1], block))
    failures = 0
    for start in range(0, codes.shape[0], block):
        count = min(block, codes.shape[0] - start)
        _pass_up(plan, plan.place, codes, start, count, messages, joint, work, unused)
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
                    if codes[start + r, column] != states:
                        continue
                    total = 0.0
                    for v in range(states):
                        total += max(table[v, r], 0.0)
                    if not total > 0.0:
                        failures += 1
                        total = 0.0
                        for v in range(states):
                            table[v, r] = fallback[column, v]
                            total += table[v, r]
                    left = uniform[start + r, column] * total
                    chosen = -1
                    for v in range(states):
                        if table[v, r] > 0.0:
                            chosen = v
                            left -= table[v, r]
                            if left < 0.0:
                                break
                    codes[start + r, column] = chosen
    return failures


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


class CountPlan(NamedTuple):
    """A tree for expected counts as flat arrays; nodes in preorder.

    Leaves read codes and inner nodes only join messages: an inner entry is then one number for all rows, so that its
    loops need no look-up, and its count is a plain sum over rows.

    Attributes
    ----------
    bond : (nodes,), place : (nodes,)
        Size of a node's message to its parent, and the row of the message buffer where it starts.
    code_row : (nodes,)
        Which row of the codes a leaf reads, -1 for an inner node.
    value_start : (nodes,)
        Where a node's values start: (code, index on the bond) of a leaf, one an entry of an inner node.
    child_start : (nodes + 1,), child : (edges,)
        Children of each inner node.
    term_start : (nodes + 1,), pick_start : (nodes,), pick : (all picks,)
        Products of the children's messages that an inner node needs: for each, its index on every child's bond.
        A node with one child has its child's message as products.
    entry_start : (nodes + 1,), entry_parent : (entries,), entry_term : (entries,)
        Entries of each inner node: index on the parent's bond, and the product that they multiply.
    """

    bond: NDArray[np.int64]
    place: NDArray[np.int64]
    code_row: NDArray[np.int64]
    value_start: NDArray[np.int64]
    child_start: NDArray[np.int64]
    child: NDArray[np.int64]
    term_start: NDArray[np.int64]
    pick_start: NDArray[np.int64]
    pick: NDArray[np.int64]
    entry_start: NDArray[np.int64]
    entry_parent: NDArray[np.int64]
    entry_term: NDArray[np.int64]


LARGEST_OUTSIDE = 1e290
"""Messages from above are cut here, so that none can meet a zero from below as an infinity."""


@_jit
def _look_up(table: Any, bond: int, codes: Any, count: int, out: Any) -> None:
    """Write the message of a leaf: one line of its table a row."""
    for p in range(bond):
        for r in range(count):
            out[p, r] = table[codes[r] * bond + p]


@_jit
def _products(plan: CountPlan, node: int, count: int, messages: Any, work: Any) -> Any:
    """Return the products of the children's messages that the entries of an inner node multiply."""
    first = plan.child_start[node]
    children = plan.child_start[node + 1] - first
    if children == 1:
        child = plan.child[first]
        return messages[plan.place[child] : plan.place[child] + plan.bond[child]]
    pick = plan.pick_start[node]
    for t in range(plan.term_start[node + 1] - plan.term_start[node]):
        out = work[t]
        if children == 0:
            for r in range(count):
                out[r] = 1.0
            continue
        a = messages[plan.place[plan.child[first]] + plan.pick[pick]]
        b = messages[plan.place[plan.child[first + 1]] + plan.pick[pick + 1]]
        for r in range(count):
            out[r] = a[r] * b[r]
        for k in range(2, children):
            c = messages[plan.place[plan.child[first + k]] + plan.pick[pick + k]]
            for r in range(count):
                out[r] *= c[r]
        pick += children
    return work


@_jit
def _factored(message: Any, bond: int, count: int, factor: Any, exponent: Any) -> bool:
    """Bring each row's message, which is not negative, back into range; return whether one had to be.

    What a row was multiplied by is left in `factor`, and its logarithm is taken off the exponent.
    """
    for r in range(count):
        factor[r] = message[0, r]
    for p in range(1, bond):
        for r in range(count):
            factor[r] = max(factor[r], message[p, r])
    outside_range = 0
    for r in range(count):
        outside_range += (factor[r] < TINY) | (factor[r] > HUGE)
    if outside_range == 0:
        return False
    for r in range(count):
        if (factor[r] < TINY or factor[r] > HUGE) and factor[r] > 0.0:
            # The inverse of a subnormal number overflows; what is left is for the next node.
            shift = max(int(np.floor(np.log2(factor[r]))), -900)
            factor[r] = 2.0**-shift
            exponent[r] += shift
        else:
            factor[r] = 1.0
    for p in range(bond):
        for r in range(count):
            message[p, r] *= factor[r]
    return True


@njit(cache=True, nogil=True, fastmath={"contract", "reassoc"}, error_model="numpy")
def _count_entry(value: float, source: Any, product: Any, target: Any, count: int) -> float:
    """Return the sum over rows of one entry's messages, after sending the entry down.

    The order of this sum is free, because it ends in a count and not in a probability.
    """
    total = 0.0
    for r in range(count):
        total += source[r] * product[r]
        target[r] += value * source[r]
    return total


@_jit
def _share(
    plan: CountPlan, node: int, count: int, messages: Any, outside: Any, terms: Any, prefix: Any, suffix: Any
) -> None:
    """Add what comes down on each product to the children's messages from above."""
    first = plan.child_start[node]
    children = plan.child_start[node + 1] - first
    for k in range(children):
        child = plan.child[first + k]
        for p in range(plan.bond[child]):
            outside[plan.place[child] + p, :count] = 0.0
    pick = plan.pick_start[node]
    for t in range(plan.term_start[node + 1] - plan.term_start[node]):
        prefix[0, :count] = terms[t, :count]
        for k in range(children - 1):
            message = messages[plan.place[plan.child[first + k]] + plan.pick[pick + k]]
            before, after = prefix[k], prefix[k + 1]
            for r in range(count):
                after[r] = before[r] * message[r]
        target = outside[plan.place[plan.child[first + children - 1]] + plan.pick[pick + children - 1]]
        before = prefix[children - 1]
        for r in range(count):
            target[r] += before[r]
        suffix[:count] = messages[plan.place[plan.child[first + children - 1]] + plan.pick[pick + children - 1], :count]
        for k in range(children - 2, -1, -1):
            target = outside[plan.place[plan.child[first + k]] + plan.pick[pick + k]]
            before = prefix[k]
            for r in range(count):
                target[r] += before[r] * suffix[r]
            if k > 0:
                message = messages[plan.place[plan.child[first + k]] + plan.pick[pick + k]]
                for r in range(count):
                    suffix[r] *= message[r]
        pick += children


@_jit
def expected(
    plan: CountPlan,
    values: Any,
    codes: Any,
    weights: Any,
    start: int,
    stop: int,
    block: int,
    buffer: Any,
    counts: Any,
) -> tuple[float, int]:
    """Add to `counts` the weighted sum over rows of d log P(row) / d value, for each value of the plan.

    The expected count of a value is that sum times the value. Messages from above are divided by the row's
    probability at the root already, so no node has to normalise.

    Parameters
    ----------
    codes : (leaves, rows)
    start, stop : int
        Which rows to pass through the tree.
    buffer : (2 · all bonds + nodes + 2 · most terms + most children + 3, block)

    Returns
    -------
    log_likelihood : float
        Weighted, over these rows.
    impossible : int
        A row of probability zero and positive weight, or -1.
    """
    nodes = plan.bond.shape[0]
    depth = plan.place[nodes - 1] + plan.bond[nodes - 1]
    most = 0
    for node in range(nodes):
        most = max(most, plan.term_start[node + 1] - plan.term_start[node])
    messages, outside = buffer[:depth], buffer[depth : 2 * depth]
    factors = buffer[2 * depth : 2 * depth + nodes]
    work = buffer[2 * depth + nodes : 2 * depth + nodes + most]
    down = buffer[2 * depth + nodes + most : 2 * depth + nodes + 2 * most]
    suffix = buffer[2 * depth + nodes + 2 * most]
    prefix = buffer[2 * depth + nodes + 2 * most + 1 :]
    exponent = np.zeros(block, np.int64)
    scaled = np.zeros(nodes, np.bool_)
    log_likelihood = 0.0
    impossible = -1
    for begin in range(start, stop, block):
        count = min(block, stop - begin)
        exponent[:count] = 0
        for node in range(nodes - 1, -1, -1):
            bond = plan.bond[node]
            out = messages[plan.place[node] : plan.place[node] + bond]
            if plan.code_row[node] >= 0:
                here = codes[plan.code_row[node], begin : begin + count]
                _look_up(values[plan.value_start[node] :], bond, here, count, out)
                continue
            below = _products(plan, node, count, messages, work)
            for p in range(bond):
                out[p, :count] = 0.0
            value = plan.value_start[node]
            for e in range(plan.entry_start[node], plan.entry_start[node + 1]):
                target, product, factor = out[plan.entry_parent[e]], below[plan.entry_term[e]], values[value]
                for r in range(count):
                    target[r] += factor * product[r]
                value += 1
            scaled[node] = _factored(out, bond, count, factors[node], exponent)
        root, above = messages[0], outside[0]
        for r in range(count):
            weight = weights[begin + r]
            if root[r] > 0.0:
                above[r] = weight / root[r]
                log_likelihood += weight * (np.log(root[r]) + exponent[r] * np.log(2.0))
            else:
                above[r] = 0.0
                if weight > 0.0:
                    impossible = begin + r
        for node in range(nodes):
            bond = plan.bond[node]
            above = outside[plan.place[node]: plan.place[node] + bond]
            value = plan.value_start[node]
            if plan.code_row[node] >= 0:
                here = codes[plan.code_row[node], begin : begin + count]
                table = counts[value:]
                for p in range(bond):
                    for r in range(count):
                        table[here[r] * bond + p] += above[p, r]
                continue
            if scaled[node]:
                for p in range(bond):
                    for r in range(count):
                        above[p, r] *= factors[node, r]
            for p in range(bond):
                for r in range(count):
                    above[p, r] = min(above[p, r], LARGEST_OUTSIDE)
            first = plan.child_start[node]
            children = plan.child_start[node + 1] - first
            below = _products(plan, node, count, messages, work)
            terms = down
            if children == 1:
                child = plan.child[first]
                terms = outside[plan.place[child] : plan.place[child] + plan.bond[child]]
            for t in range(plan.term_start[node + 1] - plan.term_start[node]):
                terms[t, :count] = 0.0
            for e in range(plan.entry_start[node], plan.entry_start[node + 1]):
                source, t = above[plan.entry_parent[e]], plan.entry_term[e]
                counts[value] += _count_entry(values[value], source, below[t], terms[t], count)
                value += 1
            if children > 1:
                _share(plan, node, count, messages, outside, terms, prefix, suffix)
    return log_likelihood, impossible
