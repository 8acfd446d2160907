"""Expected counts: the E-step's pass up and down.

Why EM has a pass of its own, beside `message_passing`: there the entries of an operator meet the messages of all
children at once, a column is read at the node that holds it, and messages may have any sign. Here tables are
probabilities, and the same rows pass through them at every iteration, which allows more:

- A column is a leaf that reads one code per row, so an inner node is a plain matrix: one number for all rows, no
  look-up in its loops, and its expected counts are dot products of two lines of messages.
- Without signs nothing cancels. Messages pass several nodes before they are brought back into range, nothing has
  to bound what underflow took, and the way down starts at 1 / P(row) and need not normalise again.
- Counts are summed up while the messages are in the cache; no row's posterior is ever stored.
- With many states most work is in the matrices, which are multiplied in registers (`matrix_tiles`); leaves are
  looked up anew where their messages are needed (`leaves`), and products of siblings are made once.
- What rows have in common below an edge is passed once: the part of the tree below is a section with rows of its
  own, one of each that differs there. Its messages up are a table, which one more leaf above it reads.

So a whole E-step takes about as long as the way up alone of `message_passing`, and a fourth to a tenth of its way
up and down for a single column (HMMs of order 2 and 3 with 40 steps, a mixture of 12 columns).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from eigentree.core.compiling import compiled, helper, inlined
from eigentree.core.trees.leaves import count_codes, count_products, look_up, multiply_by_leaf
from eigentree.core.trees.matrix_tiles import MANY, TILE_VECTORS, dot_tiles, mix_tiles, squares_down, squares_up
from eigentree.core.trees.message_passing import HUGE, TINY, multiply, scale
from eigentree.core.vectors import lanes

if TYPE_CHECKING:
    from eigentree.core.trees.block_tree import BlockTree, Buffers

__all__ = ["LOG_2", "expected"]

LARGEST_OUTSIDE, LARGEST_SINGLE = 1e290, 1e30
"""Messages from above are cut here, so that none can meet a zero from below as an infinity; in single precision
sooner."""

LOWEST_SHIFT = -900
"""The inverse of a subnormal number overflows; what is left to do is left to the next node."""

SPOILED = 2.0**-100
"""In single precision a smaller message has lost digits. It is taken to be zero, which makes its row impossible:
the caller has to repeat it in double precision."""

USUAL_SINGLE = 2.0**-10
"""In single precision messages are brought back into range from here on, since siblings are multiplied before."""

DOUBLE_BYTES = 8

LOG_2 = math.log(2.0)


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
                scale(lines, product + t, leaf.message + places[pick + t], count)
        elif leaf.message != product:
            for t in range(node.terms):
                multiply(lines, product + t, leaf.message + places[pick + t], tree.ones, count)
        nothing = False
    for k in range(first, first_leaf):
        child, pick = nodes[edges[k].child], edges[k].pick
        product = nodes[edges[k + 1].child].before if k + 1 < first_leaf else node.product
        nothing = False
        for t in range(node.terms):
            before = child.before + t if child.before >= 0 else tree.ones
            if child.message != product:
                multiply(lines, product + t, before, child.message + places[pick + t], count)
            elif child.before >= 0:
                scale(lines, product + t, before, count)
    if nothing and first < node.last_edge:
        for t in range(node.terms):
            multiply(lines, product + t, tree.ones, tree.ones, count)


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
            multiply(lines, p, down + t, product + t, count)
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
                    scale(lines, p, before, count)
                elif k == 0:
                    multiply(lines, p, down + t, before, count)
                else:
                    _add_product(lines, p, down + t, before, count)
            place += each
        if edge > node.first_edge:
            for t in range(node.terms):
                scale(lines, down + t, child.message + places[pick + t], count)


@helper
def _to_range(node: Any, count: int, lines: Any, exponent: Any) -> None:
    """Bring each row's message, which is not negative, back into range.

    What a row was multiplied by is left in its line, and its logarithm is taken off the exponent. All states of a
    row share that exponent: one that is less probable than another by more than doubles can hold is lost.
    """
    message, bond, factor = node.message, node.bond, node.factor
    spoiled = 0.0 if lines.itemsize == DOUBLE_BYTES else SPOILED
    tiny = TINY if lines.itemsize == DOUBLE_BYTES else USUAL_SINGLE
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
        elif (size < tiny or size > HUGE) and size > 0.0:
            shift = max(int(np.floor(np.log2(size))), LOWEST_SHIFT)
            lines[factor, r] = math.ldexp(1.0, -shift)
            exponent[r] += shift
    for line in range(message, message + bond):
        scale(lines, line, factor, count)


@helper
def _outside_to_range(node: Any, count: int, lines: Any) -> None:
    """Multiply the message from above by what brought the message to above back into range, if anything did."""
    if node.factor < 0:
        return
    largest = lines.dtype.type(LARGEST_OUTSIDE if lines.itemsize == DOUBLE_BYTES else LARGEST_SINGLE)
    for line in range(node.outside, node.outside + node.bond):
        for r in range(count):
            lines[line, r] = min(lines[line, r] * lines[node.factor, r], largest)


@inlined
def _codes_of(section: Any, codes: Any) -> Any:
    """Return what the leaves of a section read, shape (leaves, rows)."""
    own = codes[section.codes : section.codes + section.leaves * section.rows]
    return own.reshape(section.leaves, section.rows)


@helper
def _begin(tree: BlockTree, section: Any, begin: int, buffers: Buffers) -> int:
    """Make lines ready for the next rows of a section; return how many they are."""
    lines, exponent = buffers.lines, buffers.exponent
    count = int(min(lines.shape[1], section.stop - begin))
    for r in range(count):
        lines[tree.ones, r] = 1.0
        exponent[r] = 0
    # What tiles find beyond the rows must count for nothing.
    for line in range(section.lines):
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
def _pass_up(section: Any, root: Any, begin: int, count: int, buffers: Buffers, values: Any) -> None:
    """Write the messages of a section's root where a leaf of the section above reads them."""
    lines, bond = buffers.lines, root.bond
    for r in range(count):
        place = section.table + (begin + r) * bond
        for p in range(bond):
            values[place + p] = lines[root.message + p, r]
        buffers.exponents[section.kind + begin + r] = buffers.exponent[r]


@helper
def _pass_down(section: Any, root: Any, begin: int, count: int, buffers: Buffers, values: Any) -> None:
    """Write the message from above to a section's root: what the rows of each kind have added up there.

    A leaf counts products of messages from above and below. Where the latter is zero, nothing below can count.
    """
    lines, bond = buffers.lines, root.bond
    for r in range(count):
        table, above = section.table + (begin + r) * bond, section.above + (begin + r) * bond
        for p in range(bond):
            message = values[table + p]
            lines[root.outside + p, r] = buffers.sums[above + p] / message if message > 0.0 else 0.0


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


@helper
def _up(
    tree: BlockTree,
    section: Any,
    values: Any,
    transposed: Any,
    codes: Any,
    begin: int,
    count: int,
    buffers: Buffers,
    many: bool | None,
) -> None:
    """Write the messages up of a section, for some of its rows."""
    nodes, lines = tree.nodes, buffers.lines
    for i in range(section.end - 1, section.first - 1, -1):
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


@helper
def _down(
    tree: BlockTree,
    section: Any,
    values: Any,
    transposed: Any,
    codes: Any,
    begin: int,
    count: int,
    buffers: Buffers,
    many: bool | None,
) -> None:
    """Pass what comes from above down a section, for some of its rows, and count."""
    nodes, lines, sums = tree.nodes, buffers.lines, buffers.sums
    for i in range(section.first, section.end):
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


@compiled
def expected(
    tree: BlockTree,
    sections: Any,
    values: Any,
    transposed: Any,
    codes: Any,
    weights: Any,
    buffers: Buffers,
    many: bool | None = None,
) -> tuple[float, int]:
    """Add the expected counts of some rows to the sums; return their weighted log-likelihood.

    Also returned is a row of probability zero and positive weight, or -1. Messages from above are divided by the
    row's probability at the root already, so no node has to normalise.

    Parameters
    ----------
    sections : (sections,) of `SECTION`
        Each stands behind the one that reads its table; the first has all rows.
    values : (values and tables,)
        As precise as the lines. The tables of sections are written.
    transposed : (values,)
        The blocks of inner nodes as (column, row).
    codes : (codes of all sections,)
    weights : (rows,)
        Those of the first section.
    many : bool, optional
        Given if any node has many states. What these need is not compiled where it is None.
    """
    nodes, width = tree.nodes, buffers.lines.shape[1]
    for s in range(sections.shape[0] - 1, 0, -1):
        section = sections[s]
        own = _codes_of(section, codes)
        for begin in range(section.start, section.stop, width):
            count = _begin(tree, section, begin, buffers)
            _up(tree, section, values, transposed, own, begin, count, buffers, many)
            _pass_up(section, nodes[section.first], begin, count, buffers, values)
    log_likelihood, impossible = 0.0, -1
    for s in range(sections.shape[0]):
        section = sections[s]
        if s > 0 and buffers.sums.shape[0] == 0:
            break
        own = _codes_of(section, codes)
        for begin in range(section.start, section.stop, width):
            count = _begin(tree, section, begin, buffers)
            _up(tree, section, values, transposed, own, begin, count, buffers, many)
            if s == 0:
                log_likelihood, found = _turn(nodes[0], weights, begin, count, buffers, log_likelihood)
                impossible = max(impossible, found)
            else:
                _pass_down(section, nodes[section.first], begin, count, buffers, values)
            if buffers.sums.shape[0] > 0:
                _down(tree, section, values, transposed, own, begin, count, buffers, many)
    return log_likelihood, impossible
