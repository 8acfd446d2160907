"""Predicted labels and their probabilities as columns, and how often they are right."""

from typing import TYPE_CHECKING, Any

import numpy as np

from eigentree.cli.terminal_output import number_of
from eigentree.data.tables.text_cells import read_as

if TYPE_CHECKING:
    from eigentree.data.tables.columns import Columns

__all__ = ["Predictions"]


class Predictions:
    """The predictions of one column, and their accuracy where the column is known.

    Parameters
    ----------
    target : str
        The name of the column.
    labels : list
        Its labels.
    columns : Columns, optional
        What encodes known cells of the target; without it accuracy is not computed.
    """

    def __init__(self, target: str, labels: list[Any], columns: "Columns | None" = None) -> None:
        self.target, self.labels, self._columns = target, labels, columns
        self.count = self.known = self.correct = 0

    def columns(self, proba: Any, rows: Any = None) -> dict[str, Any]:
        """Return the most probable label and the probability of each; count how often known cells of rows agree."""
        numbers = np.asarray(proba)
        best = numbers.argmax(axis=1)
        self.count += len(numbers)
        if self._columns is not None and rows is not None and self.target in rows.names:
            self.compare(best, self._codes(rows, self._columns))
        return {
            self.target: [self.labels[place] for place in best],
            **{f"P({self.target}={label})": own for label, own in zip(self.labels, numbers.T, strict=True)},
        }

    def compare(self, best: Any, codes: Any) -> None:
        """Count how often predicted codes are those of the known cells; negative codes are unknown."""
        there = codes >= 0
        self.known += int(there.sum())
        self.correct += int((best == codes)[there].sum())

    def report(self, unit: str) -> tuple[dict[str, Any], str]:
        """Return facts for programs and a sentence for people."""
        facts: dict[str, Any] = {f"{unit}s": self.count, "target": self.target}
        facts["labels"] = [str(label) for label in self.labels]
        sentence = f"{self.target} of {number_of(self.count, unit)}"
        if self.known:
            facts |= {"known": self.known, "accuracy": self.correct / self.known}
            sentence += f", accuracy {100 * self.correct / self.known:.1f} % on {self.known:,} with a known label"
        return facts, sentence

    def _codes(self, rows: Any, columns: "Columns") -> Any:
        """Return the code of each cell of the target; negative where it is missing or of no known label."""
        meaning = columns.meanings[columns.position(self.target)]
        cells = read_as(rows.column(rows.names.index(self.target), self.target), meaning)
        if meaning is not None:
            return meaning.encode(cells)
        if not isinstance(cells, np.ndarray):
            return np.full(rows.count, -1)
        return np.where(cells == cells, cells, -1).astype(np.int64)
