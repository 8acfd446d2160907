"""Expected counts: the E-step's pass up and down.

Why EM has a pass of its own, beside `messages`: there the entries of an operator meet the messages of all children
at once, a column is read at the node that holds it, and messages may have any sign. Here tables are probabilities,
and the same rows pass through them at every iteration, which allows more:

- A column is a leaf that reads one code per row, so an inner node is a plain matrix: one number for all rows, no
  look-up in its loops, and its expected counts are dot products of two lines of messages.
- Without signs nothing cancels. Messages pass several nodes before they are brought back into range, nothing has
  to bound what underflow took, and the way down starts at 1 / P(row) and need not normalise again.
- Counts are summed up while the messages are in the cache; no row's posterior is ever stored.
- With many states most work is in the matrices, which are multiplied in registers (`matrices`); leaves are looked
  up anew where their messages are needed (`leaves`), and products of siblings are made once.

So a whole E-step takes about as long as the way up alone of `messages`, and a fourth to a tenth of its way up
and down for a single column (HMMs of order 2 and 3 with 40 steps, a mixture of 12 columns).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from eigentree.kernels.compiling import compiled, helper, inlined
from eigentree.kernels.leaves import count_codes, count_products, look_up, multiply_by_leaf
from eigentree.kernels.matrices import MANY, TILE_VECTORS, dot_tiles, mix_tiles, squares_down, squares_up
from eigentree.kernels.messages import HUGE, TINY
from eigentree.kernels.vectors import lanes

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from eigentree.arrays import Floats, Integers

__all__ = ["EDGE", "NODE", "BlockTree", "Buffers", "expected"]

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
        ("before", np.int64),
        ("down", np.int64),
        ("first_edge", np.int64),
        ("first_leaf", np.int64),
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
    Lines of its message to its parent, and of the message from above to an inner node. The message of a leaf is -1
    if it is over all products in their order, and multiplied as it is looked up.
factor
    The line where an inner node that brings its message back into range keeps what it multiplied by, or -1.
product, terms
    Lines of the products of the children's messages, and how many there are. Leaves that are stored are multiplied
    first, then inner children, then other leaves. The products with the first of either kind may stand where its
    message does.
before
    Lines of the products of all that is multiplied before an inner node at its parent, -1 if nothing is.
down
    Lines of what comes down to the products: of the message to an only inner child that sees all of them in their
    order, or lines that all nodes share.
first_edge, first_leaf, last_edge
    Edges to the inner children, then to the leaves, the last one excluded.
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
        Messages, in double or in single precision. A block is a whole number of tiles, if nodes have many states.
    exponent : (block,)
        The power of two that each row's message lacks.
    sums : (COPIES, values) or (COPIES, 0)
        What is wanted is the sum of the copies: expected counts for a leaf, and for an inner node what becomes so
        when multiplied by its values. Without room for them nothing is counted, and there is no pass down.
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
    ones, down, share : int
        Lines of ones, of what comes down to the products, and to one leaf.
    """

    nodes: NDArray[Any]
    edges: NDArray[Any]
    places: Integers
    ones: int
    down: int
    share: int


LARGEST_OUTSIDE, LARGEST_SINGLE = 1e290, 1e30
"""Messages from above are cut here, so that none can meet a zero from below as an infinity; in single precision
sooner."""

LOWEST_SHIFT = -900
"""The inverse of a subnormal number overflows; what is left to do is left to the next node."""

SPOILED = 2.0**-100
"""In single precision a smaller message has lost digits. It is taken to be zero, which makes its row impossible:
whoever asked has to ask again in double precision."""

DOUBLE_BYTES = 8

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


@helper
def _join(node: Any, tree: BlockTree, count: int, lines: Any) -> None:
    """Write the products of the messages of stored leaves and of inner children; ones, if there are none."""
    nodes, edges, places = tree.nodes, tree.edges, tree.places
    first, first_leaf = node.first_edge, node.first_leaf
    product = nodes[edges[first].child].before if first < first_leaf else node.product
    nothing = True
    for k in range(first_leaf, node.last_edge):
        leaf, pick = nodes[edges[k].child], edges[k].pick
        if leaf.message < 0:
            continue
        if not nothing:
            for t in range(node.terms):
                _scale(lines, product + t, leaf.message + places[pick + t], count)
        elif leaf.message != product:
            for t in range(node.terms):
                _multiply(lines, product + t, leaf.message + places[pick + t], tree.ones, count)
        nothing = False
    for k in range(first, first_leaf):
        child, pick = nodes[edges[k].child], edges[k].pick
        product = nodes[edges[k + 1].child].before if k + 1 < first_leaf else node.product
        nothing = False
        for t in range(node.terms):
            before = child.before + t if child.before >= 0 else tree.ones
            if child.message != product:
                _multiply(lines, product + t, before, child.message + places[pick + t], count)
            elif child.before >= 0:
                _scale(lines, product + t, before, count)
    if nothing and first < node.last_edge:
        for t in range(node.terms):
            _multiply(lines, product + t, tree.ones, tree.ones, count)


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
def _count_leaves(node: Any, tree: BlockTree, codes: Any, begin: int, count: int, lines: Any, sums: Any) -> None:
    """Count the codes of the leaves of a node that are stored."""
    nodes, edges = tree.nodes, tree.edges
    shared = -1
    for edge in range(node.first_leaf, node.last_edge):
        leaf, pick = nodes[edges[edge].child], edges[edge].pick
        if leaf.message < 0:
            continue
        # Leaves on the same bond have the same distribution.
        if pick != shared:
            _share_with_leaf(node, leaf.bond, pick, tree.places, count, lines, tree.share)
            shared = pick
        count_codes(leaf, codes, begin, count, lines, tree.share, sums)


@helper
def _share_with_inner(node: Any, tree: BlockTree, count: int, lines: Any) -> None:
    """Write the messages from above to inner children: what comes down, times the messages of all others.

    What comes down takes up the messages of inner children from the last to the first. So all that is left to
    multiply it by is what was multiplied before on the way up. To an only child it may come down where its message
    goes.
    """
    nodes, edges, places, down = tree.nodes, tree.edges, tree.places, node.down
    for edge in range(node.first_leaf - 1, node.first_edge - 1, -1):
        child, pick = nodes[edges[edge].child], edges[edge].pick
        if down != tree.down and child.before < 0:
            continue
        each = node.terms // child.bond
        place = pick + node.terms
        for p in range(child.outside, child.outside + child.bond):
            for k in range(each):
                t = places[place + k]
                before = child.before + t if child.before >= 0 else tree.ones
                if down != tree.down:
                    _scale(lines, p, before, count)
                elif k == 0:
                    _multiply(lines, p, down + t, before, count)
                else:
                    _add_product(lines, p, down + t, before, count)
            place += each
        if edge > node.first_edge:
            for t in range(node.terms):
                _scale(lines, down + t, child.message + places[pick + t], count)


@helper
def _to_range(node: Any, count: int, lines: Any, exponent: Any) -> None:
    """Bring each row's message, which is not negative, back into range.

    What a row was multiplied by is left in its line, and its logarithm is taken off the exponent. All states of a
    row share that exponent: one that is less likely than another by more than doubles can tell is lost.
    """
    message, bond, factor = node.message, node.bond, node.factor
    spoiled = 0.0 if lines.itemsize == DOUBLE_BYTES else SPOILED
    for r in range(count):
        lines[factor, r] = lines[message, r]
    for line in range(message + 1, message + bond):
        for r in range(count):
            lines[factor, r] += lines[line, r]
    for r in range(count):
        size = lines[factor, r]
        lines[factor, r] = 1.0
        if size < spoiled:
            lines[factor, r] = 0.0
        elif (size < TINY or size > HUGE) and size > 0.0:
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
    largest = lines.dtype.type(LARGEST_OUTSIDE if lines.itemsize == DOUBLE_BYTES else LARGEST_SINGLE)
    for line in range(node.outside, node.outside + node.bond):
        for r in range(count):
            lines[line, r] = min(lines[line, r] * lines[node.factor, r], largest)


@helper
def _begin(tree: BlockTree, left: int, buffers: Buffers) -> int:
    """Make lines ready for the next rows, of those that are left; return how many they are."""
    lines, exponent = buffers.lines, buffers.exponent
    count = int(min(lines.shape[1], left))
    for r in range(count):
        lines[tree.ones, r] = 1.0
        exponent[r] = 0
    # What tiles find beyond the rows must count for nothing.
    for line in range(lines.shape[0]):
        for r in range(count, min(count + TILE_VECTORS * lanes(lines), lines.shape[1])):
            lines[line, r] = 0.0
    return count


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


@helper
def _many_up(
    node: Any, tree: BlockTree, values: Any, transposed: Any, codes: Any, begin: int, count: int, lines: Any
) -> None:
    """Multiply the products by the leaves that are not stored, and write the message of an inner node."""
    for edge in range(node.first_leaf, node.last_edge):
        leaf = tree.nodes[tree.edges[edge].child]
        if leaf.message < 0:
            multiply_by_leaf(leaf, values, codes, begin, begin + count, lines, node.product)
    if min(node.rows, node.columns) >= MANY:
        task = (node.blocks, node.message, node.row, node.rows, node.product, node.column, node.columns)
        mix_tiles(lines, tree.places, task, transposed, node.value, count)
    else:
        squares_up(node, tree.places, values, count, lines)


@helper
def _many_down(
    node: Any, tree: BlockTree, values: Any, transposed: Any, codes: Any, begin: int, count: int, buffers: Buffers
) -> None:
    """Write what comes down to each product, and count it; then multiply it by the leaves that are not stored."""
    lines, sums = buffers.lines, buffers.sums
    if min(node.rows, node.columns) >= MANY:
        # Seen from above, columns are rows.
        task = (node.blocks, node.down, node.column, node.columns, node.outside, node.row, node.rows)
        mix_tiles(lines, tree.places, task, values, node.value, count)
        dot_tiles(node, tree.places, count, lines, sums)
    else:
        squares_down(node, tree.places, transposed, count, lines, sums)
    _count_leaves(node, tree, codes, begin, count, lines, sums)
    for edge in range(node.first_leaf, node.last_edge):
        leaf = tree.nodes[tree.edges[edge].child]
        if leaf.message < 0:
            count_products(leaf, codes, begin, begin + count, lines, node.down, node.product, sums)
    if node.first_edge < node.first_leaf:
        for edge in range(node.first_leaf, node.last_edge):
            leaf = tree.nodes[tree.edges[edge].child]
            if leaf.message < 0:
                multiply_by_leaf(leaf, values, codes, begin, begin + count, lines, node.down)


@compiled
def expected(
    tree: BlockTree,
    values: Any,
    transposed: Any,
    codes: Any,
    weights: Any,
    start: int,
    stop: int,
    buffers: Buffers,
    many: bool | None = None,
) -> tuple[float, int]:
    """Add the expected counts of some rows to the sums; return their weighted log-likelihood.

    Also returned is a row of probability zero and positive weight, or -1. Messages from above are divided by the
    row's probability at the root already, so no node has to normalise.

    Parameters
    ----------
    values, transposed : (values,)
        As precise as the lines; the second with the blocks of inner nodes as (column, row).
    codes : (leaves, rows)
    start, stop : int
        Which rows to pass through the tree.
    many : bool, optional
        Given if any node has many states. What these need is not compiled where it is None.
    """
    nodes, lines, sums = tree.nodes, buffers.lines, buffers.sums
    log_likelihood, impossible = 0.0, -1
    for begin in range(start, stop, lines.shape[1]):
        count = _begin(tree, stop - begin, buffers)
        for i in range(nodes.shape[0] - 1, -1, -1):
            node = nodes[i]
            if node.leaf >= 0:
                if node.message >= 0:
                    look_up(node, values, codes, begin, count, lines)
                continue
            _join(node, tree, count, lines)
            if many is None:
                squares_up(node, tree.places, values, count, lines)
            else:
                _many_up(node, tree, values, transposed, codes, begin, count, lines)
            if node.factor >= 0:
                _to_range(node, count, lines, buffers.exponent)
        log_likelihood, found = _turn(nodes[0], weights, begin, count, buffers, log_likelihood)
        impossible = max(impossible, found)
        if sums.shape[1] == 0:
            continue
        for i in range(nodes.shape[0]):
            node = nodes[i]
            if node.leaf >= 0:
                continue
            _outside_to_range(node, count, lines)
            if many is None:
                squares_down(node, tree.places, transposed, count, lines, sums)
                _count_leaves(node, tree, codes, begin, count, lines, sums)
            else:
                _many_down(node, tree, values, transposed, codes, begin, count, buffers)
            _share_with_inner(node, tree, count, lines)
    return log_likelihood, impossible
