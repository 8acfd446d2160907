"""Features of the subtree below a node (inside) and of the tree around it (outside), each one symbol of a few."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from eigentree.arrays import Integers
    from eigentree.data.treebanks.tree_rows import GrammarSymbols, TreeRows

__all__ = ["FEATURES", "NONE", "NodeFeatures", "expansions"]

FEATURES = 3
"""How many symbols each side of a node shows: what the nearest nodes expand to. More, such as words at the borders
and nodes one level further, did not improve held-out likelihood on syntax trees of programs."""

NONE = -1
"""Where there is no such node, or what it expands to is unknown."""


class NodeFeatures(NamedTuple):
    """What each node shows, by the places of rules and, after these, of pairs of the lexicon.

    Attributes
    ----------
    inside : array, shape (nodes, 3)
        What the node expands to, and what each child does.
    outside : array, shape (nodes, 3)
        The rule above the node with the node's side, the same of its parent, and what its sister expands to. A rule
        and a side are one number, twice the rule, and one more on the right.
    """

    inside: Integers
    outside: Integers

    @classmethod
    def of(cls, rows: TreeRows, symbols: GrammarSymbols) -> NodeFeatures:
        """Return what the nodes of encoded trees show."""
        count = len(rows.labels)
        own = expansions(rows, symbols)
        inner = np.flatnonzero(rows.left >= 0)
        left, right = rows.left[inner], inner - 1
        inside = np.full((count, FEATURES), NONE, np.int64)
        inside[:, 0] = own
        inside[inner, 1], inside[inner, 2] = own[left], own[right]
        above = np.full(count, NONE, np.int64)
        sister, parent = above.copy(), above.copy()
        parent[left], parent[right] = inner, inner
        sister[left], sister[right] = own[right], own[left]
        known = np.where(own[inner] >= 0, 2 * own[inner], NONE)
        above[left], above[right] = known, np.where(known >= 0, known + 1, NONE)
        further = np.where(parent >= 0, above[parent], NONE)
        return cls(inside, np.stack([above, further, sister], axis=1))


def expansions(rows: TreeRows, symbols: GrammarSymbols) -> Integers:
    """Return what each node expands to: the place of its rule, or of its pair behind all rules; `NONE` if unknown."""
    pairs = np.where(rows.rule >= 0, rows.rule + len(symbols.rules), NONE)
    return np.where(rows.left >= 0, rows.rule, pairs).astype(np.int64)
