"""Predicted labels and their probabilities as columns, and their accuracy where the truth is known."""

from typing import TYPE_CHECKING, Any

import numpy as np

from eigentree.cli.output import number_of
from eigentree.data.tables.text_cells import read_as

if TYPE_CHECKING:
    from eigentree.data.tables.columns import Columns

__all__ = ["Predictions"]


class Predictions:
    """The predictions of one column, and how many of its known cells, encoded by columns, they agree with."""

    def __init__(self, target: str, labels: list[Any], columns: "Columns | None" = None) -> None:
        self.target, self.labels, self._columns = target, labels, columns
        self.count = self.known = self.correct = 0

    def columns(self, proba: Any) -> dict[str, Any]:
        """Return the most probable label and the probability of each as columns."""
        numbers = np.asarray(proba)
        best = [self.labels[place] for place in numbers.argmax(axis=1)]
        probabilities = zip(self.labels, numbers.T, strict=True)
        return {self.target: best} | {f"P({self.target}={label})": own for label, own in probabilities}

    def add(self, rows: Any, proba: Any) -> None:
        """Count how often predictions agree with the known cells of the target, where rows have these."""
        codes = np.full(len(proba), -1)
        if self._columns is not None and self.target in rows.names:
            meaning = self._columns.meanings[self._columns.position(self.target)]
            cells = read_as(rows.column(rows.names.index(self.target), self.target), meaning)
            if meaning is not None:
                codes = meaning.encode(cells)
            elif isinstance(cells, np.ndarray):
                codes = np.where(cells == cells, cells, -1).astype(np.int64)
        self.compare(proba, codes)

    def compare(self, proba: Any, codes: Any) -> None:
        """Count how often predictions have the codes of known cells; negative codes are unknown."""
        there = codes >= 0
        self.count += len(codes)
        self.known += int(there.sum())
        self.correct += int((np.asarray(proba).argmax(axis=1) == codes)[there].sum())

    def report(self, unit: str) -> tuple[dict[str, Any], str]:
        """Return facts for programs and a sentence for people."""
        facts: dict[str, Any] = {f"{unit}s": self.count, "target": self.target}
        facts["labels"] = [str(label) for label in self.labels]
        sentence = f"{self.target} of {number_of(self.count, unit)}"
        if self.known:
            facts |= {"known": self.known, "accuracy": self.correct / self.known}
            sentence += f", accuracy {100 * self.correct / self.known:.1f} % on {self.known:,} with a known label"
        return facts, sentence
