"""Expected counts: the E-step's pass up and down."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from eigentree.kernels.compiling import compiled, inlined, inlined_sum
from eigentree.kernels.messages import HUGE, TINY

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["COPIES", "BlockTree", "expected"]


class BlockTree(NamedTuple):
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


@inlined
def _fill(lines: Any, out: int, number: float, count: int) -> None:
    for r in range(count):
        lines[out, r] = number


@inlined
def _multiply(lines: Any, out: int, a: int, b: int, count: int) -> None:
    for r in range(count):
        lines[out, r] = lines[a, r] * lines[b, r]


@inlined
def _scale(lines: Any, out: int, a: int, count: int) -> None:
    # As a product with itself, the loop would be held unsafe to vectorise.
    for r in range(count):
        lines[out, r] *= lines[a, r]


@inlined
def _add_product(lines: Any, out: int, a: int, b: int, count: int) -> None:
    for r in range(count):
        lines[out, r] += lines[a, r] * lines[b, r]


@inlined
def _multiply_pair(lines: Any, out: int, a: int, b: int, c: int, d: int, count: int) -> None:
    for r in range(count):
        lines[out, r] = lines[a, r] * lines[b, r] + lines[c, r] * lines[d, r]


@inlined
def _mix(lines: Any, out: int, value: float, a: int, count: int, add: bool) -> None:
    if add:
        for r in range(count):
            lines[out, r] += value * lines[a, r]
    else:
        for r in range(count):
            lines[out, r] = value * lines[a, r]


@inlined
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


@inlined_sum
def _dot(lines: Any, a: int, b: int, count: int) -> float:
    total = 0.0
    for r in range(count):
        total += lines[a, r] * lines[b, r]
    return total


@inlined_sum
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


@compiled
def _look_up(plan: BlockTree, node: int, values: Any, codes: Any, begin: int, count: int, lines: Any) -> None:
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


@compiled
def _count_codes(
    plan: BlockTree, node: int, codes: Any, begin: int, count: int, lines: Any, source: int, sums: Any
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


@compiled
def _join(plan: BlockTree, node: int, count: int, lines: Any) -> None:
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


@compiled
def _matrix_up(plan: BlockTree, node: int, values: Any, count: int, lines: Any) -> None:
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


@compiled
def _matrix_down(
    plan: BlockTree, node: int, values: Any, transposed: Any, count: int, lines: Any, down: int, sums: Any
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


@compiled
def _share_with_leaf(plan: BlockTree, node: int, edge: int, count: int, lines: Any, out: int) -> None:
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


@compiled
def _share_with_inner(plan: BlockTree, node: int, edge: int, count: int, lines: Any) -> None:
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


@compiled
def _to_range(plan: BlockTree, node: int, count: int, lines: Any, exponent: Any) -> None:
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


@compiled
def _count_down(
    plan: BlockTree,
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


@compiled
def expected(
    plan: BlockTree,
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
