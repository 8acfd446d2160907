"""Expected counts: the E-step's pass up and down.

Why EM has a pass of its own, beside `messages`: there the entries of an operator meet the messages of all children
at once, a column is read at the node that holds it, and messages may have any sign. Here tables are probabilities,
and the same rows pass through them at every iteration, which allows more:

- A column is a leaf that reads one code per row, so an inner node is a plain matrix: one number for all rows, no
  look-up in its loops, and its expected counts are dot products of two lines of messages.
- Without signs nothing cancels. Messages pass several nodes before they are brought back into range, nothing has
  to bound what underflow took, and the way down starts at 1 / P(row) and need not normalise again.
- Counts are summed up while the messages are in the cache; no row's posterior is ever stored.

So a whole E-step takes about as long as the way up alone of `messages`, and a fourth to a tenth of its way up
and down for a single column (HMMs of order 2 and 3 with 40 steps, a mixture of 12 columns).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from eigentree.kernels.compiling import compiled, helper, inlined, inlined_sum
from eigentree.kernels.messages import HUGE, TINY

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from eigentree.arrays import Floats, Integers

__all__ = ["COPIES", "EDGE", "NODE", "BlockTree", "Buffers", "expected"]

NODE = np.dtype(
    [
        ("bond", np.int64),
        ("leaf", np.int64),
        ("value", np.int64),
        ("message", np.int64),
        ("outside", np.int64),
        ("factor", np.int64),
        ("product", np.int64),
        ("terms", np.int64),
        ("down", np.int64),
        ("first_edge", np.int64),
        ("last_edge", np.int64),
        ("blocks", np.int64),
        ("rows", np.int64),
        ("columns", np.int64),
        ("row", np.int64),
        ("column", np.int64),
    ],
    align=True,
)
"""A node of a `BlockTree`. Its fields are:

bond
    Size of its message to its parent.
leaf
    Which row of the codes a leaf reads, -1 for an inner node.
value
    Where its values start: (code, index on the bond) of a leaf, (block, row, column) of an inner node.
message, outside
    Lines of its message to its parent, and of the message from above to an inner node.
factor
    The line where an inner node that brings its message back into range keeps what it multiplied by, or -1.
product, terms
    Lines of the products of the children's messages, and how many there are. They may overwrite the message of the
    first child, if all other children are leaves.
down
    Lines of what comes down to the products: the message to an only, inner child, or lines that all nodes share.
first_edge, last_edge
    Edges to the children, the last one excluded.
blocks, rows, columns
    An inner node is a block-diagonal matrix: columns are products, rows are indices on the parent's bond.
row, column
    Where in `places` the list starts of the index on the parent's bond of each row of each block, and that of the
    product of each column.
"""

EDGE = np.dtype([("child", np.int64), ("pick", np.int64)], align=True)
"""An edge of a `BlockTree` from a node to a child: the child, and where in `places` the edge's picks start. These
are the index on the child's bond of each product, and then all products in the order of that index."""


class Buffers(NamedTuple):
    """What a pass writes to.

    Attributes
    ----------
    lines : (lines, block)
        Messages.
    exponent : (block,)
        The power of two that each row's message lacks.
    sums : (COPIES, values)
        What is wanted is the sum of the copies: expected counts for a leaf, and for an inner node what becomes so
        when multiplied by its values.
    """

    lines: Floats
    exponent: Integers
    sums: Floats


class BlockTree(NamedTuple):
    """A tree for expected counts as flat arrays; nodes in preorder.

    Leaves read codes and inner nodes only join messages: a value of an inner node is then one number for all rows,
    so that its loops need no look-up, and its count is a plain sum over rows. All messages are lines of one buffer,
    one cell per row of data, and are named by the number of their first line.

    Attributes
    ----------
    nodes : (nodes,) of `NODE`
    edges : (edges,) of `EDGE`
        Grouped by parent.
    places : (all rows, columns and picks,)
    ones, down, share, spare : int
        Lines of ones, of what comes down to the products, to one child, and one for a product.
    """

    nodes: NDArray[Any]
    edges: NDArray[Any]
    places: Integers
    ones: int
    down: int
    share: int
    spare: int


LARGEST_OUTSIDE = 1e290
"""Messages from above are cut here, so that none can meet a zero from below as an infinity."""

LOWEST_SHIFT = -900
"""The inverse of a subnormal number overflows; what is left to do is left to the next node."""

COPIES = 4
"""Of the counts of leaves: neighbouring rows with equal codes need not wait for each other's sum."""

LOG_2 = math.log(2.0)


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
    lines: Any, out: int, last: int, values: Any, i: int, j: int, a: int, b: int, count: int, add: bool
) -> None:
    """Multiply two lines by a matrix of 2 x 2 values, whose rows start at i and j."""
    p, q, s, t = values[i], values[i + 1], values[j], values[j + 1]
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
    i: int,
    j: int,
    a: int,
    b: int,
    c: int,
    d: int,
    count: int,
    add: bool,
) -> tuple[float, float, float, float]:
    """Multiply two lines by a matrix of 2 x 2 values; return their dot products with two others."""
    p, q, s, t = values[i], values[i + 1], values[j], values[j + 1]
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


@helper
def _look_up(node: Any, values: Any, codes: Any, begin: int, count: int, lines: Any) -> None:
    """Write the message of a leaf: one line of its table per row."""
    out, leaf = node.message, node.leaf
    # Unsigned numbers index without a check for negative ones.
    bond, one = np.uintp(node.bond), np.uintp(1)
    for p in range(0, node.bond - 1, 2):
        start = np.uintp(node.value + p)
        for r in range(count):
            place = start + np.uintp(codes[leaf, begin + r]) * bond
            lines[out + p, r] = values[place]
            lines[out + p + 1, r] = values[place + one]
    if node.bond % 2 == 1:
        start, last = np.uintp(node.value + node.bond - 1), out + node.bond - 1
        for r in range(count):
            lines[last, r] = values[start + np.uintp(codes[leaf, begin + r]) * bond]


@helper
def _count_codes(node: Any, codes: Any, begin: int, count: int, lines: Any, source: int, sums: Any) -> None:
    """Add the distribution of each row over a leaf's bond to the row's code."""
    leaf = node.leaf
    bond, one = np.uintp(node.bond), np.uintp(1)
    whole = count - count % COPIES
    for p in range(0, node.bond - 1, 2):
        start = np.uintp(node.value + p)
        for r in range(0, whole, COPIES):
            for k in range(COPIES):
                place = start + np.uintp(codes[leaf, begin + r + k]) * bond
                sums[k, place] += lines[source + p, r + k]
                sums[k, place + one] += lines[source + p + 1, r + k]
    if node.bond % 2 == 1:
        start, last = np.uintp(node.value + node.bond - 1), source + node.bond - 1
        for r in range(0, whole, COPIES):
            for k in range(COPIES):
                sums[k, start + np.uintp(codes[leaf, begin + r + k]) * bond] += lines[last, r + k]
    for r in range(whole, count):
        place = node.value + np.intp(codes[leaf, begin + r]) * node.bond
        for p in range(node.bond):
            sums[0, place + p] += lines[source + p, r]


@helper
def _join(node: Any, nodes: Any, edges: Any, places: Any, count: int, lines: Any) -> None:
    """Write the products of the children's messages, where there are several children."""
    first, product = node.first_edge, node.product
    for k in range(first + 1, node.last_edge):
        message, pick = nodes[edges[k].child].message, edges[k].pick
        left, left_pick = nodes[edges[first].child].message, edges[first].pick
        for t in range(node.terms):
            if k == first + 1 and product != left:
                _multiply(lines, product + t, left + places[left_pick + t], message + places[pick + t], count)
            else:
                _scale(lines, product + t, message + places[pick + t], count)


@helper
def _matrix_up(node: Any, places: Any, values: Any, count: int, lines: Any) -> None:
    """Write the message of an inner node: its matrix times the products."""
    rows, columns, value, row, column = node.rows, node.columns, node.value, node.row, node.column
    out, product = node.message, node.product
    for _ in range(node.blocks):
        for i in range(0, rows - 1, 2):
            p, q = out + places[row + i], out + places[row + i + 1]
            first, second = value + i * columns, value + (i + 1) * columns
            for j in range(0, columns - 1, 2):
                a, b = product + places[column + j], product + places[column + j + 1]
                _mix_square(lines, p, q, values, first + j, second + j, a, b, count, j > 0)
        # The squares leave out the last column, and the last row, of an odd number.
        for i in range(rows):
            for j in range(0 if i == rows - rows % 2 else columns - columns % 2, columns):
                a = product + places[column + j]
                _mix(lines, out + places[row + i], values[value + i * columns + j], a, count, j > 0)
        value += rows * columns
        row += rows
        column += columns


@helper
def _matrix_down(node: Any, places: Any, transposed: Any, count: int, lines: Any, sums: Any) -> None:
    """Write what comes down to each product, and count each value's messages.

    The transposed values hold a node's blocks as (column, row).
    """
    rows, columns, value, row, column = node.rows, node.columns, node.value, node.row, node.column
    above, product, down = node.outside, node.product, node.down
    for _ in range(node.blocks):
        for j in range(0, columns - 1, 2):
            a, b = down + places[column + j], down + places[column + j + 1]
            c, d = product + places[column + j], product + places[column + j + 1]
            first, second = value + j * rows, value + (j + 1) * rows
            for i in range(0, rows - 1, 2):
                p, q = above + places[row + i], above + places[row + i + 1]
                totals = _mix_and_dot_square(
                    lines, a, b, transposed, first + i, second + i, p, q, c, d, count, i > 0
                )
                place = value + i * columns + j
                sums[0, place] += totals[0]
                sums[0, place + 1] += totals[1]
                sums[0, place + columns] += totals[2]
                sums[0, place + columns + 1] += totals[3]
        for j in range(columns):
            a = places[column + j]
            for i in range(0 if j == columns - columns % 2 else rows - rows % 2, rows):
                p = above + places[row + i]
                _mix(lines, down + a, transposed[value + j * rows + i], p, count, i > 0)
                sums[0, value + i * columns + j] += _dot(lines, p, product + a, count)
        value += rows * columns
        row += rows
        column += columns


@helper
def _share_with_leaf(node: Any, bond: int, pick: int, places: Any, count: int, lines: Any, out: int) -> None:
    """Write each row's distribution over the bond of a leaf."""
    down, product = node.down, node.product
    each = node.terms // bond
    place = pick + node.terms
    for p in range(out, out + bond):
        t = places[place]
        start = 1
        if each == 1:
            _multiply(lines, p, down + t, product + t, count)
        else:
            u = places[place + 1]
            _multiply_pair(lines, p, down + t, product + t, down + u, product + u, count)
            start = 2
        for k in range(start, each):
            t = places[place + k]
            _add_product(lines, p, down + t, product + t, count)
        place += each


@helper
def _share_with_inner(
    node: Any, nodes: Any, edges: Any, edge: int, places: Any, count: int, lines: Any, spare: int
) -> None:
    """Write the message from above to an inner child: what comes down, times the other children's messages."""
    first, down = node.first_edge, node.down
    child = nodes[edges[edge].child]
    each = node.terms // child.bond
    other = first if edge > first else first + 1
    last, last_pick = nodes[edges[other].child].message, edges[other].pick
    place = edges[edge].pick + node.terms
    for p in range(child.outside, child.outside + child.bond):
        for k in range(each):
            t = places[place + k]
            source = down + t
            for j in range(first, node.last_edge):
                if j in (edge, other):
                    continue
                message = nodes[edges[j].child].message + places[edges[j].pick + t]
                if source == spare:
                    _scale(lines, spare, message, count)
                else:
                    _multiply(lines, spare, source, message, count)
                    source = spare
            message = last + places[last_pick + t]
            if k == 0:
                _multiply(lines, p, source, message, count)
            else:
                _add_product(lines, p, source, message, count)
        place += each


@helper
def _to_range(node: Any, count: int, lines: Any, exponent: Any) -> None:
    """Bring each row's message, which is not negative, back into range.

    What a row was multiplied by is left in its line, and its logarithm is taken off the exponent. All states of a
    row share that exponent: one that is less likely than another by more than doubles can tell is lost.
    """
    message, bond, factor = node.message, node.bond, node.factor
    for r in range(count):
        lines[factor, r] = lines[message, r]
    for line in range(message + 1, message + bond):
        for r in range(count):
            lines[factor, r] += lines[line, r]
    for r in range(count):
        size = lines[factor, r]
        lines[factor, r] = 1.0
        if (size < TINY or size > HUGE) and size > 0.0:
            shift = max(int(np.floor(np.log2(size))), LOWEST_SHIFT)
            lines[factor, r] = math.ldexp(1.0, -shift)
            exponent[r] += shift
    for line in range(message, message + bond):
        _scale(lines, line, factor, count)


@helper
def _outside_to_range(node: Any, count: int, lines: Any) -> None:
    """Multiply the message from above by what brought the message to above back into range, if anything did."""
    if node.factor < 0:
        return
    for line in range(node.outside, node.outside + node.bond):
        for r in range(count):
            lines[line, r] = min(lines[line, r] * lines[node.factor, r], LARGEST_OUTSIDE)


@helper
def _turn(root: Any, weights: Any, begin: int, count: int, buffers: Buffers, so_far: float) -> tuple[float, int]:
    """Write the message from above to the root; return the log-likelihood so far, and an impossible row or -1."""
    lines, exponent = buffers.lines, buffers.exponent
    impossible = -1
    for r in range(count):
        weight, size = weights[begin + r], lines[root.message, r]
        if size > 0.0:
            lines[root.outside, r] = weight / size
            so_far += weight * (np.log(size) + exponent[r] * LOG_2)
        else:
            lines[root.outside, r] = 0.0
            if weight > 0.0:
                impossible = begin + r
    return so_far, impossible


@compiled
def expected(
    tree: BlockTree, values: Any, transposed: Any, codes: Any, weights: Any, start: int, stop: int, buffers: Buffers
) -> tuple[float, int]:
    """Add the expected counts of some rows to the sums; return their weighted log-likelihood.

    Also returned is a row of probability zero and positive weight, or -1. Messages from above are divided by the
    row's probability at the root already, so no node has to normalise.

    Parameters
    ----------
    values, transposed : (values,)
        The second with the blocks of inner nodes as (column, row).
    codes : (leaves, rows)
    start, stop : int
        Which rows to pass through the tree.
    """
    nodes, edges, places = tree.nodes, tree.edges, tree.places
    lines, exponent, sums = buffers.lines, buffers.exponent, buffers.sums
    block = lines.shape[1]
    for r in range(block):
        lines[tree.ones, r] = 1.0
    log_likelihood, impossible = 0.0, -1
    for begin in range(start, stop, block):
        count = min(block, stop - begin)
        for r in range(count):
            exponent[r] = 0
        for i in range(nodes.shape[0] - 1, -1, -1):
            node = nodes[i]
            if node.leaf >= 0:
                _look_up(node, values, codes, begin, count, lines)
                continue
            _join(node, nodes, edges, places, count, lines)
            _matrix_up(node, places, values, count, lines)
            if node.factor >= 0:
                _to_range(node, count, lines, exponent)
        log_likelihood, found = _turn(nodes[0], weights, begin, count, buffers, log_likelihood)
        impossible = max(impossible, found)
        for i in range(nodes.shape[0]):
            node = nodes[i]
            if node.leaf >= 0:
                continue
            _outside_to_range(node, count, lines)
            _matrix_down(node, places, transposed, count, lines, sums)
            # What came down is already the message to an only, inner child.
            first, shared = node.first_edge if node.down == tree.down else node.last_edge, -1
            for edge in range(first, node.last_edge):
                child, pick = nodes[edges[edge].child], edges[edge].pick
                if child.leaf < 0:
                    _share_with_inner(node, nodes, edges, edge, places, count, lines, tree.spare)
                    continue
                # Leaves on the same bond have the same distribution.
                if pick != shared:
                    _share_with_leaf(node, child.bond, pick, places, count, lines, tree.share)
                    shared = pick
                _count_codes(child, codes, begin, count, lines, tree.share, sums)
    return log_likelihood, impossible
