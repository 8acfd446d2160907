"""Models without hidden variables, to hold the others against."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Codes = NDArray[Any]

__all__ = ["PSEUDO_COUNT", "IndependentColumns", "MarkovChain"]

PSEUDO_COUNT = 0.5
"""Added to every count: Jeffreys' prior for each distribution."""


class IndependentColumns:
    """The product of the columns' smoothed frequencies; one per class, it is naive Bayes.

    Parameters
    ----------
    states : sequence of int
        Number of states of each column.
    rows : array of int, shape (rows, columns)
        Codes; -1 for a missing cell, which is left out of its column's counts.
    """

    def __init__(self, states: Sequence[int], rows: Codes) -> None:
        self._logs = [np.log(_smoothed(column, count)) for column, count in zip(rows.T, states, strict=True)]

    def score_samples(self, X: Codes) -> Floats:
        """Return the log probability of each row, missing cells marginalised out."""
        total = np.zeros(len(X))
        for column, logs in zip(X.T, self._logs, strict=True):
            # The code -1 reads the appended 0: a missing cell says nothing.
            total += np.append(logs, 0.0)[column]
        return total


class MarkovChain:
    """A fully observed Markov chain with tables of their own at each step, smoothed by add-1/2.

    A step is predicted from the known cells just before it, at most `order` of them, without a gap. So a missing
    cell contributes nothing itself, and the steps after it back off to the shorter context that is left. The tables
    of each length of context are counted from the rows in which all its cells are known.

    Parameters
    ----------
    states : sequence of int
        Number of states of each column.
    rows : array of int, shape (rows, columns)
        Codes; -1 for a missing cell.
    order : int
        Cells that a step looks back on.
    """

    def __init__(self, states: Sequence[int], rows: Codes, order: int = 2) -> None:
        self.states = tuple(states)
        self.order = order
        self._logs: dict[tuple[int, int], Floats] = {}
        for step in range(len(self.states)):
            for length in range(min(order, step) + 1):
                context, configurations = self._contexts(rows, step, length)
                known = (context >= 0) & (rows[:, step] >= 0)
                joint = context[known] * self.states[step] + rows[known, step]
                counts = np.bincount(joint, minlength=configurations * self.states[step]) + PSEUDO_COUNT
                table = counts.reshape(configurations, self.states[step])
                self._logs[step, length] = np.log(table / table.sum(axis=1, keepdims=True))

    def score_samples(self, X: Codes) -> Floats:
        """Return the log probability of each row by the chain rule, backing off around missing cells."""
        total = np.zeros(len(X))
        for step in range(len(self.states)):
            waiting = X[:, step] >= 0
            for length in range(min(self.order, step), -1, -1):
                context, _ = self._contexts(X, step, length)
                now = waiting & (context >= 0)
                total[now] += self._logs[step, length][context[now], X[now, step]]
                waiting &= ~now
        return total

    def _contexts(self, rows: Codes, step: int, length: int) -> tuple[NDArray[np.int64], int]:
        """Return the joint code of the `length` cells before a step, -1 where one is missing, and their number."""
        codes, configurations = np.zeros(len(rows), np.int64), 1
        known = np.ones(len(rows), bool)
        for column in range(step - length, step):
            codes = codes * self.states[column] + rows[:, column]
            known &= rows[:, column] >= 0
            configurations *= self.states[column]
        return np.where(known, codes, -1), configurations


def _smoothed(column: Codes, states: int) -> Floats:
    counts = np.bincount(column[column >= 0], minlength=states) + PSEUDO_COUNT
    return np.asarray(counts / counts.sum())
