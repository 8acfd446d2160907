"""Expected counts: the E-step's pass up and down.

Why EM has a pass of its own, beside `message_passing`: there the entries of an operator meet the messages of all
children at once, a column is read at the node that holds it, and messages may have any sign. Here tables are
probabilities, and the same rows pass through them at every iteration, which allows more:

- A column is a leaf that reads one code per row, so an inner node is a plain matrix: one number for all rows, no
  look-up in its loops, and its expected counts are dot products of two lines of messages.
- Without signs nothing cancels. Messages pass several nodes before they are brought back into range, nothing has
  to bound what underflow took, and the way down starts at 1 / P(row) and need not normalise again.
- Counts are summed up while the messages are in the cache; no row's posterior is ever stored.
- Most work is in the matrices, which are multiplied in registers (`native/matrix_tiles.hpp`); leaves of many states
  are looked up anew where their messages are needed (`native/leaves.hpp`), and products of siblings are made once.
- What rows have in common below an edge is passed once: the part of the tree below is a section with rows of its
  own, one of each that differs there. Its messages up are a table, which one more leaf above it reads.

So a whole E-step takes about as long as the way up alone of `message_passing`, and half as long as its way up and
down for a single column (HMMs of order 2 and 3 with 40 steps, a mixture of 12 columns).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from eigentree.core import _native

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from eigentree.arrays import Codes, Floats, Integers

__all__ = ["BlockEdge", "BlockNode", "BlockSection", "BlockTree", "expected"]


class BlockNode(NamedTuple):
    """A node of a `BlockTree`, a line of its `nodes`.

    Attributes
    ----------
    bond : int
        Size of its message to its parent.
    leaf : int
        Which line of its section's codes a leaf reads, -1 for an inner node.
    section : int
        The section whose messages a leaf reads by their row, or -1.
    value : int
        Where its values start: (code, index on the bond) of a leaf, (block, row, column) of an inner node.
    message, outside : int
        Lines of its message to its parent, and of the message from above to an inner node. The message of a leaf is
        -1 if it is over all products in their order, and multiplied as it is looked up.
    factor : int
        The line where an inner node that brings its message back into range keeps what it multiplied by, or -1.
    product, terms : int
        Lines of the products of the children's messages, and how many there are. Leaves that are stored are
        multiplied first, then inner children, then other leaves. The products with the first of either type may
        stand where its message does.
    before : int
        Lines of the products of all that is multiplied before an inner node at its parent, -1 if nothing is.
    down : int
        Lines of what comes down to the products: of the message to an only inner child that sees all of them in
        their order, or lines that all nodes share.
    first_edge, first_leaf, last_edge : int
        Edges to the inner children, then to the leaves, the last one excluded.
    blocks, rows, columns : int
        An inner node is a block-diagonal matrix: columns are products, rows are indices on the parent's bond.
    row, column : int
        Where in `places` the list starts of the index on the parent's bond of each row of each block, and that of
        the product of each column.
    """

    bond: int
    leaf: int
    section: int
    value: int
    message: int
    outside: int
    factor: int
    product: int
    terms: int
    before: int
    down: int
    first_edge: int
    first_leaf: int
    last_edge: int
    blocks: int
    rows: int
    columns: int
    row: int
    column: int


class BlockEdge(NamedTuple):
    """An edge of a `BlockTree` from a node to a child, a line of its `edges`.

    Where in `places` the edge's picks start: the index on the child's bond of each product, and then all products
    in the order of that index.
    """

    child: int
    pick: int


class BlockSection(NamedTuple):
    """A section of a `BlockTree`: a part of the tree with rows of its own.

    Attributes
    ----------
    first, end : int
        Its nodes, the last one excluded; the first is its root.
    codes, rows : int
        Where in all codes its own start, shape (leaves, rows).
    """

    first: int
    end: int
    codes: int
    rows: int


class BlockTree(NamedTuple):
    """A tree for expected counts as flat arrays; sections above others first, nodes of a section in preorder.

    Leaves read codes and inner nodes only join messages: a value of an inner node is then one number for all rows,
    so that its loops need no look-up, and its count is a plain sum over rows. All messages are lines of one buffer,
    one cell per row of data, and are named by the number of their first line.

    Attributes
    ----------
    nodes : (nodes, fields of `BlockNode`)
    edges : (edges, fields of `BlockEdge`)
        Grouped by parent.
    places : (all rows, columns and picks,)
    ones, down, share : int
        Lines of ones, of what comes down to the products, and to one leaf.
    """

    nodes: Integers
    edges: Integers
    places: Integers
    ones: int
    down: int
    share: int


def expected(
    tree: BlockTree,
    sections: Integers,
    values: NDArray[Any],
    codes: Codes,
    weights: Floats,
    sums: Floats,
    threads: int = 1,
    block: int = 0,
) -> tuple[float, int]:
    """Write the expected counts of rows to `sums`; return their weighted log-likelihood.

    Also returned is a row of probability zero and positive weight, or -1. No bit depends on the number of threads.

    Parameters
    ----------
    sections : (sections, fields of `BlockSection`)
        Each stands behind the one that reads its messages; the first has all rows.
    values : (values,)
        In double precision, or in single: messages are as precise.
    codes : (codes of all sections,)
        Of two bytes, or of four.
    weights : (rows of all sections,)
    sums : (values,) or (0,)
        Expected counts for a leaf, and for an inner node what becomes so when multiplied by its values. Without
        room for them nothing is counted, and there is no pass down.
    block : int, optional
        How many rows pass at a time; as many as the cache holds the messages of, if 0. Counts depend on it by
        rounding, and so does the log-likelihood where there are fewer blocks than stretches of rows for threads.
    """
    return _native.expected_counts(*tree, sections, values, codes, weights, sums, int(threads), block)
