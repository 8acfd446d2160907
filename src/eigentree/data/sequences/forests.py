"""Trees of nodes as integer codes: a table with one row for each node, and the row of each node's parent."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from eigentree.data.sequences.sequence_codes import Sequences
from eigentree.data.sequences.steps import SequenceForm
from eigentree.data.tables.columns import Columns
from eigentree.data.tables.rows import Rows
from eigentree.data.tables.state_rules import ReadOptions
from eigentree.data.tables.table import Table, as_array, frame_of, table_of
from eigentree.data.treebanks.tree import Tree
from eigentree.errors import DataError, quoted, what_there_is
from eigentree.validation import an_array

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import ArrayLike

    from eigentree.arrays import Codes, Floats, Integers

__all__ = ["Forest", "relabelled_trees"]


@dataclass(frozen=True, eq=False)
class Forest(Sequences):
    """Trees whose nodes are cells of the same columns: those of each tree stand together, parents before children.

    Nodes of equal depth stand together too, children of one parent beside each other (breadth first).

    Attributes
    ----------
    parents : array of int, shape (nodes,)
        Where the parent of each node stands, -1 for a root.
    depths : array of int, shape (nodes,)
        How many ancestors each node has.
    """

    parents: Integers = field(kw_only=True)
    depths: Integers = field(kw_only=True)

    @classmethod
    def grown(cls, X: ArrayLike | Any, parents: ArrayLike | Any, columns: Columns | ReadOptions) -> Forest:
        """Return the trees of a table with a row for each node, or of a list of labelled trees.

        Parameters
        ----------
        X : table, or list of trees
            Of trees in any form that `Tree.of` reads, the nodes show their labels, and leaves their words.
        parents : array-like of int, or the name of a column
            The row of each node's parent, from 0; -1 or missing for a root. None for a list of trees.
        columns : Columns or ReadOptions
            Columns that are known, or how they are read.
        """
        table, of_nodes = _split(X, parents)
        if isinstance(columns, ReadOptions):
            columns = Columns.learned(table, columns)
        above = _checked(of_nodes, table.count)
        rows = Rows.of(table, columns, where=lambda row: f"node {row}")
        return cls._ordered(columns, rows.encode(), rows.values(), above)

    @classmethod
    def shaped(cls, parents: Any, columns: Columns) -> Forest:
        """Return trees of given shapes, whose cells are still to be sampled."""
        above = _checked(parents, an_array("parents", parents, DataError).size)
        if not len(above):
            raise DataError("parents are those of at least one node")
        codes = np.zeros((len(above), len(columns.names)), columns.code_type)
        values = np.full((len(above), len(columns.number_places)), np.nan)
        return cls._ordered(columns, codes, values, above)

    @classmethod
    def _ordered(cls, columns: Columns, codes: Codes, values: Floats, above: Integers) -> Forest:
        """Return the trees of nodes as rows of a table, given the row of each one's parent."""
        order, starts, depths = _breadth_first(above)
        position = np.empty_like(order)
        position[order] = np.arange(len(order))
        moved = np.where(above[order] < 0, -1, position[above[order]])
        cells, form = np.asfortranarray(codes[order]), SequenceForm("lengths")
        return cls(columns, cells, starts, form, order, values[order], parents=moved, depths=depths[order])

    def chosen(self, numbers: ArrayLike) -> Forest:
        """Return some of the trees, by their numbers, in this order."""
        own = np.asarray(numbers, np.int64)
        lengths = self.lengths[own]
        starts = np.concatenate([[0], np.cumsum(lengths)])
        shift = np.repeat(self.starts[own] - starts[:-1], lengths)
        places = shift + np.arange(starts[-1])
        parents = np.where(self.parents[places] < 0, -1, self.parents[places] - shift)
        known = (np.asfortranarray(self.codes[places]), starts, self.form, None, self.values[places])
        return Forest(self.columns, *known, parents=parents, depths=self.depths[places])


def _split(X: Any, parents: Any) -> tuple[Table, Any]:
    """Return the table of the nodes' cells, and the parent of each."""
    if parents is None:
        return _of_trees(X)
    frame = frame_of(X)
    if not isinstance(parents, str):
        if frame is None and not isinstance(X, Table):
            # A single column may come as a list of cells.
            X = as_array(X, "the nodes", "the nodes have different numbers of cells")
            X = X.reshape(-1, 1) if X.ndim == 1 else X
        return table_of(X), parents
    if frame is None or parents not in frame.columns:
        hint = what_there_is(parents, list(map(str, frame.columns))) if frame is not None else ""
        raise DataError(f"parents={parents!r} is no column of the data{hint}")
    # Roots may be missing cells.
    return table_of(frame.drop(parents).to_native()), frame[parents].fill_null(-1).to_numpy()


def _of_trees(X: Any) -> tuple[Table, Integers]:
    """Return the table of the labels and words of trees, each node before its children, and their parents."""
    if not isinstance(X, list | tuple) or isinstance(X, Tree):
        raise DataError(
            f"trees are a list of them, or a table with parents=, the row of each node's parent, not {quoted(X)}"
        )
    labels: list[Any] = []
    parents: list[int] = []
    waiting: list[tuple[Any, int]] = [(Tree.of(tree), -1) for tree in reversed(X)]
    while waiting:
        node, above = waiting.pop()
        parents.append(above)
        if isinstance(node, Tree):
            waiting += [(child, len(labels)) for child in reversed(node.children)]
        labels.append(node.label if isinstance(node, Tree) else node)
    return table_of(np.array(labels, object).reshape(-1, 1)), np.array(parents, np.int64)


def relabelled_trees(trees: Sequence[Any], labels: Sequence[str]) -> list[Tree]:
    """Return trees of the same shapes with other labels and words, each node before its children."""
    names = iter(labels)

    def renamed(node: Any) -> Any:
        label = next(names)
        return Tree(label, tuple(map(renamed, node.children))) if isinstance(node, Tree) else label

    return [renamed(Tree.of(tree)) for tree in trees]


def _checked(parents: Any, count: int) -> Integers:
    """Return the parents of nodes as rows; raise `DataError` unless they are some."""
    given = an_array("parents", parents, DataError)
    if given.dtype.kind == "f":
        whole = np.where(np.isnan(given), -1.0, given)
        if ((whole == np.floor(whole)) & (abs(whole) <= count)).all():
            given = whole.astype(np.int64)
    if given.shape != (count,) or given.dtype.kind not in "iu":
        raise DataError(
            f"parents are whole numbers, the row of each of {count} nodes' parent, -1 for a root, not "
            f"{quoted(parents)}"
        )
    wrong = np.flatnonzero((given < -1) | (given >= count))
    if len(wrong):
        raise DataError(
            f"node {wrong[0]} has the parent {given[wrong[0]]}, but rows are numbered 0 to {count - 1}, and a root "
            f"has -1"
        )
    return given.astype(np.int64)


def _breadth_first(parents: Integers) -> tuple[Integers, Integers, Integers]:
    """Return the nodes tree by tree and each breadth first, where trees start, and the depth of each node."""
    count = len(parents)
    children = np.argsort(parents, kind="stable")
    counts = np.bincount(parents + 1, minlength=count + 1)
    ends = np.cumsum(counts)
    here = children[: counts[0]]
    tree, rank, depths = np.full(count, -1), np.empty(count, np.int64), np.zeros(count, np.int64)
    tree[here] = np.arange(len(here))
    done, depth = 0, 0
    while len(here):
        rank[here], depths[here] = np.arange(done, done + len(here)), depth
        done, depth = done + len(here), depth + 1
        many = counts[here + 1]
        first = np.repeat(ends[here + 1] - many - (np.cumsum(many) - many), many)
        below = children[first + np.arange(int(many.sum()))]
        tree[below] = np.repeat(tree[here], many)
        here = below
    if (tree < 0).any():
        node = int(np.flatnonzero(tree < 0)[0])
        raise DataError(f"node {node} has no root above it: its parents go round in a circle")
    order = np.lexsort((rank, tree))
    return order, np.concatenate([[0], np.cumsum(np.bincount(tree, minlength=int(counts[0])))]), depths
