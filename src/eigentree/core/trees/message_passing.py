"""Messages up and down a tree of operators, for blocks of rows.

A `FlatTree` is a tree of operators laid out flat, so that one call passes messages through the whole tree for a
block of rows without returning to Python. All messages are lines of one buffer, one cell per row of the block, and
are named by the number of their first line: an entry of an operator is read once for all rows of the block, and the
loops over rows vectorise.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from eigentree.core.compiling import compiled, helper, inlined
from eigentree.core.trees.categorical_sampling import pick

if TYPE_CHECKING:
    from eigentree.core.trees.flat_tree import FlatTree, Workspace

__all__ = ["HUGE", "LOWEST", "TINY", "careful_upward", "downward", "draw", "multiply", "scale", "upward"]

NONE = np.int64(-1)
"""No line, or no child. Not a literal, for each of which numba would compile helpers anew."""

TINY = 2.0**-60
HUGE = 2.0**60
"""A message outside this range is scaled by a power of two, which loses no bit."""

LOWEST = -960.0
"""Products whose log2 is not below this are far from the end of the doubles, whatever is summed on the way."""

FLUSHED = 2.0**-1000
"""More than underflow can take from an entry of a message, when no message is beyond `TINY` and `HUGE`."""

CERTAIN = 2.0**-45
"""A row whose lost part may be a larger share of its probability than this is computed again, in extended range."""


@helper
def _joint_codes(tree: FlatTree, node: Any, codes: Any, start: int, count: int, joint: Any) -> None:
    """Write the joint code of a node's own columns for each row of a block."""
    for k in range(node.first_column, node.stop_column):
        own = tree.columns[k]
        column, stride = own.column, own.stride
        if k == node.first_column:
            for r in range(count):
                joint[r] = codes[column, start + r] * stride
        else:
            for r in range(count):
                joint[r] += codes[column, start + r] * stride


@inlined
def _add_entry(values: Any, first: int, width: int, joint: Any, count: int, lines: Any, out: int, by: int) -> None:
    """Add value · line `by` of one entry to line `out`."""
    if width == 1:
        value = values[first]
        for r in range(count):
            lines[out, r] += value * lines[by, r]
    else:
        for r in range(count):
            lines[out, r] += values[first + joint[r]] * lines[by, r]


@inlined
def multiply(lines: Any, out: int, a: int, b: int, count: int) -> None:
    """Write the product of two lines."""
    for r in range(count):
        lines[out, r] = lines[a, r] * lines[b, r]


@inlined
def scale(lines: Any, out: int, by: int, count: int) -> None:
    """Multiply a line by another: as a product with itself, the loop would be held unsafe to vectorise."""
    for r in range(count):
        lines[out, r] *= lines[by, r]


@inlined
def _product(tree: FlatTree, node: Any, e: int, above: int, without: int, count: int, space: Workspace) -> int:
    """Return the line with the product of all messages that meet one entry, but for one child's.

    The parent's counts if its line is given. Where there is but one message, its own line is returned.
    """
    product = above
    for k in range(node.stop_child - node.first_child):
        if k != without:
            message = tree.nodes[tree.child[node.first_child + k]].line + tree.entry_child[e, k]
            if product == NONE:
                product = message
            elif product == space.spare:
                scale(space.lines, space.spare, message, count)
            else:
                multiply(space.lines, space.spare, product, message, count)
                product = space.spare
    return product


@helper
def _rescale(space: Workspace, first: int, bond: int, count: int) -> int:
    """Bring each row's message back into range, add what was taken out to its exponent, return the largest."""
    lines, peak = space.lines, space.spare
    for r in range(count):
        lines[peak, r] = abs(lines[first, r])
    for line in range(first + 1, first + bond):
        for r in range(count):
            lines[peak, r] = max(lines[peak, r], abs(lines[line, r]))
    low, high = HUGE, TINY
    for r in range(count):
        low = min(low, lines[peak, r])
        high = max(high, lines[peak, r])
    largest = 0
    if low >= TINY and high <= HUGE:
        return largest
    for r in range(count):
        size = lines[peak, r]
        if (size < TINY or size > HUGE) and size > 0.0:
            shift = math.floor(np.log2(size))
            # Two steps, because the inverse of a subnormal number overflows.
            half, rest = math.ldexp(1.0, -(shift // 2)), math.ldexp(1.0, -(shift - shift // 2))
            for line in range(first, first + bond):
                lines[line, r] = lines[line, r] * half * rest
            space.exponent[r] += shift
            largest = max(largest, shift)
    return largest


@helper
def _send_up(tree: FlatTree, node: Any, count: int, space: Workspace) -> int:
    """Write the message of a node to its parent (Eq. 11, 12, 19) for a block of rows; return as `_rescale`."""
    lines, out = space.lines, node.line
    for line in range(out, out + node.bond):
        for r in range(count):
            lines[line, r] = 0.0
    children = node.stop_child - node.first_child
    product, value = NONE, node.first_value
    for e in range(node.first_entry, node.stop_entry):
        target = out + tree.entry_parent[e]
        # Entries are sorted by children, so the product of their messages serves several entries.
        known = e > node.first_entry
        for k in range(children):
            known = known and tree.entry_child[e, k] == tree.entry_child[e - 1, k]
        if not known:
            product = _product(tree, node, e, NONE, NONE, count, space)
        if children > 0:
            _add_entry(tree.values, value, node.width, space.joint, count, lines, target, product)
        elif node.width > 1:
            for r in range(count):
                lines[target, r] += tree.values[value + space.joint[r]]
        else:
            for r in range(count):
                lines[target, r] += tree.values[value]
        value += node.width
    largest: int = _rescale(space, out, node.bond, count)
    return largest


@helper
def _lowest(tree: FlatTree, node: Any, count: int, space: Workspace) -> float:
    """Return a bound on the log2 of the smallest product at a node: from what is known, or else as measured."""
    lowest: float = node.reach
    for k in range(node.first_child, node.stop_child):
        lowest += space.low[tree.child[k]]
    if lowest < LOWEST:
        lowest = node.reach
        for k in range(node.first_child, node.stop_child):
            child = tree.child[k]
            first, least = tree.nodes[child].line, 1.0
            for line in range(first, first + tree.nodes[child].bond):
                for r in range(count):
                    size = abs(space.lines[line, r])
                    if size > 0.0:
                        least = min(least, size)
            space.low[child] = np.log2(least)
            lowest += space.low[child]
    return lowest


@helper
def _write_sizes(root: int, start: int, count: int, space: Workspace, log_size: Any, sign: Any) -> None:
    """Write the log absolute probability of each row of a block and its sign."""
    for r in range(count):
        size = space.lines[root, r]
        sign[start + r] = np.sign(size)
        log_size[start + r] = np.log(abs(size)) + space.exponent[r] * np.log(2.0)


@compiled
def upward(
    tree: FlatTree,
    codes: Any,
    start: int,
    stop: int,
    space: Workspace,
    log_size: Any,
    sign: Any,
) -> tuple[int, int]:
    """Write the log absolute probability of each row and its sign (Eq. 13), until underflow could change one.

    One exponent serves a row's whole message, so an entry that is a thousand binary digits below another is lost;
    that matters only where a message from elsewhere reverses their order. A bound on the smallest entry shows
    where anything can be lost at all, which is seldom: then `careful_upward` takes over.

    `codes` (columns, rows); `start`, `stop`: which rows to pass through the tree; `log_size`, `sign` (rows,).
    Returned is the first row of the block, and the node, where something can be lost; or `stop` and -1.
    """
    block = space.lines.shape[1]
    for begin in range(start, stop, block):
        count = min(block, stop - begin)
        for r in range(count):
            space.exponent[r] = 0
        for n in range(tree.nodes.shape[0] - 1, -1, -1):
            node = tree.nodes[n]
            lowest = _lowest(tree, node, count, space)
            if lowest < LOWEST:
                return begin, n
            _joint_codes(tree, node, codes, begin, count, space.joint)
            space.low[n] = min(lowest - _send_up(tree, node, count, space), 0.0)
        _write_sizes(tree.nodes[0].line, begin, count, space, log_size, sign)
    return stop, -1


@helper
def _bound_loss(tree: FlatTree, n: int, count: int, space: Workspace, before: Any, lossy: Any, lost: Any) -> None:
    """Write a bound on what underflow, here or below, may have taken from an entry of a node's message."""
    node = tree.nodes[n]
    weight = np.empty(node.bond)
    for r in range(count):
        # The norm of the operator at the row's cells: how much it can amplify an error.
        for p in range(node.bond):
            weight[p] = 0.0
        at = node.first_value + (space.joint[r] if node.width > 1 else 0)
        for e in range(node.first_entry, node.stop_entry):
            weight[tree.entry_parent[e]] += abs(tree.values[at])
            at += node.width
        norm = 0.0
        for p in range(node.bond):
            norm = max(norm, weight[p])
        low = node.reach
        product, error = 1.0, 0.0
        for k in range(node.first_child, node.stop_child):
            child = tree.child[k]
            peak, least = 0.0, HUGE
            for line in range(tree.nodes[child].line, tree.nodes[child].line + tree.nodes[child].bond):
                size = abs(space.lines[line, r])
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
        shift = int(space.exponent[r] - before[r])
        error = error * math.ldexp(1.0, -(shift // 2)) * math.ldexp(1.0, -(shift - shift // 2))
        # What is this far lost stays so; an infinite bound would turn into no number at all.
        lost[n, r] = min(error, HUGE)


@compiled
def careful_upward(
    tree: FlatTree,
    codes: Any,
    start: int,
    stop: int,
    first: int,
    space: Workspace,
    log_size: Any,
    sign: Any,
    unsure: Any,
) -> None:
    """Go on where `upward` stopped, for one block, and mark the rows whose probability underflow may have changed.

    Only the nodes that can lose anything, and those above them, are bounded row by row.

    `first`: the node where `upward` stopped; `unsure` (rows,): all else is as for `upward`.
    """
    count = stop - start
    before = np.empty(count, np.int64)
    lossy = np.empty(tree.nodes.shape[0], np.bool_)
    lost = np.empty((tree.nodes.shape[0], count))
    for n in range(tree.nodes.shape[0]):
        lossy[n] = False
    for n in range(first, -1, -1):
        node = tree.nodes[n]
        lowest = _lowest(tree, node, count, space)
        lossy[n] = lowest < LOWEST
        for k in range(node.first_child, node.stop_child):
            lossy[n] |= lossy[tree.child[k]]
        for r in range(count):
            before[r] = space.exponent[r]
        _joint_codes(tree, node, codes, start, count, space.joint)
        space.low[n] = min(lowest - _send_up(tree, node, count, space), 0.0)
        if lossy[n]:
            _bound_loss(tree, n, count, space, before, lossy, lost)
    for r in range(count):
        unsure[start + r] = lost[0, r] > CERTAIN * abs(space.lines[tree.nodes[0].line, r])
    _write_sizes(tree.nodes[0].line, start, count, space, log_size, sign)


@helper
def _send_down(tree: FlatTree, node: Any, k: int, count: int, space: Workspace) -> None:
    """Write the message of a node to its k-th child, from all that is outside that child."""
    child = tree.nodes[tree.child[node.first_child + k]]
    above, out, value = space.above + node.line, space.above + child.line, node.first_value
    for line in range(out, out + child.bond):
        for r in range(count):
            space.lines[line, r] = 0.0
    for e in range(node.first_entry, node.stop_entry):
        product = _product(tree, node, e, above + tree.entry_parent[e], k, count, space)
        target = out + tree.entry_child[e, k]
        _add_entry(tree.values, value, node.width, space.joint, count, space.lines, target, product)
        value += node.width
    _rescale(space, out, child.bond, count)


@helper
def _write_tables(
    tree: FlatTree,
    node: Any,
    own: Any,
    codes: Any,
    start: int,
    count: int,
    space: Workspace,
    first: int,
    tables: Any,
) -> None:
    """Add up the table of one of a node's own columns, once the joint codes are known."""
    # Read once: for all that the compiler knows, what the loops write could be these.
    column, stride, states = own.column, own.stride, own.states
    above, value = space.above + node.line, node.first_value
    for e in range(node.first_entry, node.stop_entry):
        weight = _product(tree, node, e, above + tree.entry_parent[e], NONE, count, space)
        for r in range(count):
            here, by = value + space.joint[r] - codes[column, start + r] * stride, space.lines[weight, r]
            for v in range(states):
                tables[start + r, first + v] += tree.values[here + v * stride] * by
        value += node.width


@compiled
def downward(tree: FlatTree, codes: Any, start: int, stop: int, space: Workspace, offset: Any, tables: Any) -> None:
    """Write P(column = v, the other cells of the row), up to a factor per row, for the wanted columns.

    `codes` (columns, rows); `start`, `stop`: the block of rows that `upward` has last passed, all messages kept;
    `offset` (columns,): where the column's states start in a row of `tables`, or -1 if it is not wanted; `tables`
    (rows, states of the wanted columns): of zeros.
    """
    count = stop - start
    for r in range(count):
        space.lines[space.above + tree.nodes[0].line, r] = 1.0
    for n in range(tree.nodes.shape[0]):
        node = tree.nodes[n]
        _joint_codes(tree, node, codes, start, count, space.joint)
        for k in range(node.stop_child - node.first_child):
            _send_down(tree, node, k, count, space)
        for k in range(node.first_column, node.stop_column):
            first = offset[tree.columns[k].column]
            if first >= 0:
                _write_tables(tree, node, tree.columns[k], codes, start, count, space, first, tables)


@helper
def _find_absent(own: Any, codes: Any, start: int, count: int, unsure: Any, absent: Any) -> int:
    """Write which rows of a block lack a column and are to get it; return how many."""
    column, states = own.column, own.states
    count_absent = 0
    for r in range(count):
        if codes[column, start + r] == states and not unsure[start + r]:
            absent[count_absent] = r
            count_absent += 1
    return count_absent


@helper
def _sample_column(
    tree: FlatTree,
    node: Any,
    own: Any,
    codes: Any,
    start: int,
    count: int,
    absent: Any,
    count_absent: int,
    uniform: Any,
    space: Workspace,
    table: Any,
) -> None:
    """Sample one of a node's own columns, once the joint codes are known, in the rows that lack it."""
    column, stride, states = own.column, own.stride, own.states
    for v in range(states):
        for i in range(count_absent):
            table[v, i] = 0.0
    above, value = space.above + node.line, node.first_value
    for e in range(node.first_entry, node.stop_entry):
        weight = _product(tree, node, e, above + tree.entry_parent[e], NONE, count, space)
        for v in range(states):
            shift = value + (v - states) * stride
            for i in range(count_absent):
                table[v, i] += tree.values[shift + space.joint[absent[i]]] * space.lines[weight, absent[i]]
        value += node.width
    for i in range(count_absent):
        row = start + absent[i]
        codes[column, row] = pick(table, i, states, uniform[row, column])


@compiled
def draw(
    tree: FlatTree,
    tour: Any,
    codes: Any,
    start: int,
    stop: int,
    uniform: Any,
    space: Workspace,
    table: Any,
    unsure: Any,
) -> None:
    """Fill the missing cells of each row with a sample given its other cells.

    The tour enters and leaves each node once. Entering node i (``i`` in the tour) sends the message from above and
    samples the node's own cells; leaving it (``-i - 1``) sends its message up, now with these cells known.
    Where no state has a positive probability, the cell stays missing; so do those of rows that underflow spoiled.

    `tour` (steps, 3): node, parent, and which child of the parent the node is; `codes` (columns, rows); `start`,
    `stop`: the block of rows that `upward` has last passed, all messages kept; `uniform` (rows, columns); `table`
    (most states of a column, block); `unsure` (rows,): the rows to leave as they are.
    """
    count = stop - start
    absent = np.empty(count, np.int64)
    for r in range(count):
        space.lines[space.above + tree.nodes[0].line, r] = 1.0
    for step in range(tour.shape[0]):
        n, parent = tour[step, 0], tour[step, 1]
        if n < 0:
            node = tree.nodes[-n - 1]
            _joint_codes(tree, node, codes, start, count, space.joint)
            _send_up(tree, node, count, space)
            continue
        if parent >= 0:
            _joint_codes(tree, tree.nodes[parent], codes, start, count, space.joint)
            _send_down(tree, tree.nodes[parent], tour[step, 2], count, space)
        node = tree.nodes[n]
        for k in range(node.first_column, node.stop_column):
            own = tree.columns[k]
            count_absent = _find_absent(own, codes, start, count, unsure, absent)
            if count_absent > 0:
                _joint_codes(tree, node, codes, start, count, space.joint)
                _sample_column(tree, node, own, codes, start, count, absent, count_absent, uniform, space, table)
