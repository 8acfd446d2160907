"""Random grammars and sentences for charts."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from eigentree.core.trees.sentence_charts import Cells


@dataclass
class ChartProblem:
    """The arguments of a chart, and which cells there are."""

    grammar: tuple[np.ndarray, ...]
    emissions: np.ndarray
    allowed: np.ndarray

    @property
    def cells(self) -> Cells:
        """The cells as the core takes them."""
        return Cells.of(self.allowed)

    @classmethod
    def of(
        cls,
        random: np.random.Generator,
        states: tuple[int, ...],
        words: int,
        share: float = 0.8,
        smooth: bool = True,
    ) -> ChartProblem:
        """Return a problem with a share of all rules and cells."""
        labels = len(states)
        rules = np.ascontiguousarray(np.argwhere(random.random((labels,) * 3) < share))
        count = np.array(states)
        sizes = count[rules].prod(axis=1).sum()
        total = count.sum()
        pair = random.random(total) * 0.1 * smooth
        grammar = (count, rules, random.random(sizes) * 0.1, random.random(total), pair, random.random(total))
        allowed = random.random((words * (words + 1) // 2, labels)) < share
        return cls(grammar, random.random((words, total)) * (random.random((words, total)) < 0.9), allowed)
