"""A tree in sections as flat arrays of whole numbers, which the pass for expected counts reads."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from eigentree.arrays import Integers

__all__ = ["BlockEdge", "BlockNode", "BlockSection", "BlockTree"]


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
