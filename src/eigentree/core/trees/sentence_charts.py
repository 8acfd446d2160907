"""Charts of sentences: what each label is worth at each span of words, by all trees of a grammar at once."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from eigentree.core import _native

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from eigentree.arrays import Booleans, Floats, Integers

__all__ = ["Cells", "ChartGrammar", "filled_chart"]

ChartGrammar = _native.ChartGrammar
"""A grammar whose places were checked once, for any number of sentences.

Its arguments are the number of states of each label; rules as (left, right, parent), sorted; the probabilities of
each rule, along the states of parent, left and right child; those of all states at the root; and for children that
do not depend on their parent, how probable they are below each state of all labels, and of which states they are.
"""


class Cells(NamedTuple):
    """The labels that each span of words can have.

    Spans stand in the order of their first word and then of their last.

    Attributes
    ----------
    first : array of int64, shape (spans + 1,)
        The first cell of each span.
    labels : array of int32
        The label of each cell, those of a span sorted.
    """

    first: Integers
    labels: NDArray[np.int32]

    @classmethod
    def of(cls, allowed: Booleans) -> Cells:
        """Return the cells of a table, shape (spans, labels)."""
        first = np.concatenate([[0], np.cumsum(allowed.sum(axis=1, dtype=np.int64))])
        return cls(first, np.nonzero(allowed)[1].astype(np.int32))


def filled_chart(grammar: ChartGrammar, emissions: Floats, cells: Cells) -> tuple[float, Floats]:
    """Return the log probability of the words of a sentence, and the posterior probability of each cell.

    A sentence that no tree has got probability 0, and posteriors of 0.

    Parameters
    ----------
    grammar : ChartGrammar
    emissions : array, shape (words, states of all labels)
        The probability of each word.
    cells : Cells
        Trees that have a label elsewhere count as impossible.
    """
    posteriors = np.empty(len(cells.labels))
    log_prob = _native.fill_chart(grammar, emissions, cells.first, cells.labels, posteriors)
    return log_prob, posteriors
