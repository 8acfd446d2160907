"""What the pass for expected counts reads and writes: a tree in sections as flat arrays, and its buffers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from eigentree.core.trees.flat_tree import record

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from eigentree.arrays import Floats, Integers

__all__ = ["EDGE", "NODE", "SECTION", "BlockTree", "Buffers"]

NODE = record(
    "bond leaf value sums apart message outside factor product terms before down first_edge first_leaf last_edge "
    "blocks rows columns row column"
)
"""A node of a `BlockTree`. Its fields are:

bond
    Size of its message to its parent.
leaf
    Which line of its section's codes a leaf reads, -1 for an inner node.
value
    Where its values start: (code, index on the bond) of a leaf, (block, row, column) of an inner node.
sums, apart
    Where its sums start, in the order of its values; and how far apart their copies are, for a leaf.
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

EDGE = record("child pick")
"""An edge of a `BlockTree` from a node to a child: the child, and where in `places` the edge's picks start. These
are the index on the child's bond of each product, and then all products in the order of that index."""

SECTION = record("first end lines leaves codes rows start stop table above kind")
"""A section of a `BlockTree`: a part of the tree with rows of its own. Its fields are:

first, end
    Its nodes, the last one excluded; the first is its root.
lines
    The end of the lines that its messages take.
leaves, codes, rows
    Where in all codes its own start, shape (leaves, rows).
start, stop
    Which rows to pass through it.
table, above
    Where in the values the messages of its root go, and where in the sums what comes down to them: both of shape
    (rows, bond), for the leaf of the section above that reads them. Nothing of the first section.
kind
    Where the exponents of its rows go; nothing of the first section.
"""


class Buffers(NamedTuple):
    """What a pass writes to.

    Attributes
    ----------
    lines : (lines, block)
        Messages, in double or in single precision. A block is a whole number of tiles, if nodes have many states.
    exponent : (block,)
        The power of two that each row's message lacks.
    sums : (sums,) or (0,)
        What is wanted is the sum of the copies: expected counts for a leaf, and for an inner node what becomes so
        when multiplied by its values. Without room for them nothing is counted, and there is no pass down.
    exponents : (kinds,)
        The powers of two that the messages of sections below the first lack.
    """

    lines: Floats
    exponent: Integers
    sums: Floats
    exponents: Integers


class BlockTree(NamedTuple):
    """A tree for expected counts as flat arrays; sections above others first, nodes of a section in preorder.

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
