"""Counts of windows of trees: what a node expands to, what its children and theirs do, and what is around it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from eigentree.counting.additive import Additive, require_added
from eigentree.counting.holdout_sample import SAMPLE_ROWS
from eigentree.data.treebanks.tree_rows import TreeRows
from eigentree.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    from eigentree.arrays import Floats, Integers
    from eigentree.data.treebanks.tree_rows import GrammarSymbols

__all__ = ["AROUND", "INSIDE", "LEFT", "NONE", "OUTSIDE", "RIGHT", "SHOWN", "TreeWindows", "held_trees"]

SHOWN = 3
"""How many symbols the subtree below a node shows: what the node and its children expand to."""

AROUND = 2 * (1 + SHOWN)
"""How many symbols the tree around it shows: of the node and of its parent the rule above, and what the sister's
subtree shows. Words at the borders of subtrees did not improve held-out likelihood on syntax trees of programs."""

NONE = -1
"""Where there is no such node, or its word is missing."""

INSIDE, LEFT, RIGHT = (slice(1 + SHOWN * k, 1 + SHOWN * (k + 1)) for k in range(3))
OUTSIDE = slice(RIGHT.stop, RIGHT.stop + AROUND)
"""Where a window has the inside symbols of a node, of its left and its right child, and its outside symbols."""


@dataclass(frozen=True, eq=False)
class TreeWindows(Additive):
    """How often each window occurs in trees: whole numbers, so that neither order nor split of the trees matters.

    What a node expands to is one symbol: the place of its rule, or of its pair in the lexicon after all rules. The
    inside symbols of a node are its own and those of its two children. The outside symbols are the rule above it
    with the side on which it stands (twice the rule, and one more on the right), the inside symbols of its sister,
    and these four of its parent.

    Attributes
    ----------
    symbols : GrammarSymbols
    codes : array of int32, shape (windows, 18)
        Sorted, all different: the label of the node, its inside symbols, those of its children, outside symbols.
    counts : array of int, shape (windows,)
    """

    symbols: GrammarSymbols
    codes: NDArray[np.int32]
    counts: Integers

    @classmethod
    def of(cls, blocks: Iterable[TreeRows], symbols: GrammarSymbols) -> TreeWindows:
        """Return the windows of trees without missing labels."""
        codes, counts = [np.zeros((0, OUTSIDE.stop), np.int32)], [np.zeros(0, np.int64)]
        for rows in blocks:
            own = _windows(rows, symbols)
            own, times = _unique(own, np.ones(len(own), np.int64))
            codes.append(own)
            counts.append(times)
        return cls(symbols, *_unique(np.concatenate(codes), np.concatenate(counts)))

    @cached_property
    def nodes(self) -> Floats:
        """How many nodes each label has."""
        return np.bincount(self.codes[:, 0], self.counts, len(self.symbols.labels)).astype(np.float64)

    @cached_property
    def expansions(self) -> Floats:
        """How many nodes each rule, and then each pair, has."""
        own = self.codes[:, INSIDE.start]
        size = len(self.symbols.rules) + len(self.symbols.lexicon)
        return np.bincount(own[own >= 0], self.counts[own >= 0], size).astype(np.float64)

    def _combined(self, other: TreeWindows, sign: int) -> TreeWindows:
        if other.symbols is not self.symbols:
            raise DataError("windows add up only when they are of the same labels, words and rules")
        codes, counts = (
            np.concatenate([self.codes, other.codes]),
            np.concatenate([self.counts, sign * other.counts]),
        )
        codes, counts = _unique(codes, counts)
        require_added([counts], float(self.counts.sum()), float(other.counts.sum()) if sign < 0 else 0.0)
        return TreeWindows(self.symbols, codes[counts > 0], counts[counts > 0])


def _windows(rows: TreeRows, symbols: GrammarSymbols) -> NDArray[np.int32]:
    """Return the window of each node."""
    count = len(rows.labels)
    inner = np.flatnonzero(rows.left >= 0)
    left, right = rows.left[inner], inner - 1
    pairs = np.where(rows.rule >= 0, rows.rule + len(symbols.rules), NONE)
    own = np.where(rows.left >= 0, rows.rule, pairs)
    codes = np.full((count, OUTSIDE.stop), NONE, np.int32)
    codes[:, 0], codes[:, 1] = rows.labels, own
    codes[inner, 2], codes[inner, 3] = own[left], own[right]
    codes[inner, LEFT], codes[inner, RIGHT] = codes[left, INSIDE], codes[right, INSIDE]
    nearest = slice(OUTSIDE.start, OUTSIDE.start + AROUND // 2)
    for child, side, sister in ((left, 0, right), (right, 1, left)):
        codes[child, nearest] = np.column_stack([2 * own[inner] + side, codes[sister, INSIDE]])
    for child in (left, right):
        codes[child, nearest.stop :] = codes[inner, nearest]
    return codes


def _unique(codes: NDArray[np.int32], counts: Integers) -> tuple[NDArray[np.int32], Integers]:
    """Return the different windows, sorted, and the sums of their counts."""
    order = np.lexsort(codes.T[::-1])
    codes, counts = codes[order], counts[order]
    first = np.flatnonzero(np.concatenate([[True], (codes[1:] != codes[:-1]).any(axis=1)])[: len(codes)])
    return codes[first], np.add.reduceat(counts, first) if len(first) else counts


def held_trees(blocks: Sequence[TreeRows], trees: int, share: float) -> TreeRows:
    """Return about a share of the trees, at most `SAMPLE_ROWS`, in an order that is that of no data.

    Whether a tree is one of them depends on what it is, and on how many equal ones there are, not on the others.
    """
    share = min(share, SAMPLE_ROWS / max(trees, 1))
    copies: dict[bytes, int] = {}
    found: list[tuple[bytes, TreeRows]] = []
    limit = int(share * 2**64)
    for rows in blocks:
        nodes = np.stack([rows.labels, rows.words], axis=1)
        for number, (begin, end) in enumerate(pairwise(rows.offsets.tolist())):
            tree = blake2b(nodes[begin:end].tobytes(), digest_size=16).digest()
            copies[tree] = copy = copies.get(tree, 0) + 1
            key = blake2b(tree + copy.to_bytes(8, "little"), digest_size=8).digest()
            if int.from_bytes(key, "big") < limit:
                found.append((key, rows.part(number, number + 1)))
    found.sort(key=lambda each: each[0])
    nothing = blocks[0].part(0, 0)
    return TreeRows.joined([nothing, *(tree for _, tree in found)])
