"""Results that are shown as a table: text, HTML, and Markdown and LaTeX for papers."""

from __future__ import annotations

import html
from abc import ABC, abstractmethod
from collections.abc import Hashable, Mapping, Sequence
from typing import Any, ClassVar, TypeAlias

import numpy as np

__all__ = ["Labelled", "ResultTable"]

Labelled: TypeAlias = tuple[Sequence[str], Sequence[tuple[Hashable, ...]], Mapping[str, Any]]
"""What the labels of lines are, those of each line, and numbers beside them by the names of their columns."""

MOST_SHOWN = 40
"""Most lines that are printed; tables for papers have all."""

LATEX = {sign: f"\\{sign}" for sign in "&%_#$}{"} | {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"$<$",
    ">": r"$>$",
    "²": r"\textsuperscript{2}",
}
"""How characters are written that mean something else in LaTeX, or nothing."""


class ResultTable(ABC):
    """A result that is shown as a table; what derives from it gives the cells.

    Attributes
    ----------
    notes : sequence of str
        What a reader has to know, printed below the table.
    """

    notes: Sequence[str] = ()

    _headings: ClassVar[Mapping[str, str]] = {}
    """What columns are called where they are printed, unless by their names."""

    _last_flush_left: ClassVar[bool] = False
    """Whether the last column of printed text begins at one place, as intervals do."""

    @abstractmethod
    def _table(self) -> Labelled:
        """Return the labels and the numbers of all lines."""

    def to_frame(self) -> Any:
        """Return a pandas data frame: labels, and beside them all numbers as they are."""
        import pandas as pd

        header, labels, numbers = self._table()
        named = {name: [each[place] for each in labels] for place, name in enumerate(header)}
        return pd.DataFrame({**named, **numbers})

    @property
    def _words(self) -> int:
        """How many columns, the first ones, hold words."""
        return len(self._table()[0])

    def _digits_of(self, name: str, digits: int) -> int:
        """Return how many digits after the point a column has where others have so many."""
        del name
        return digits

    def _cells(self, digits: int) -> tuple[list[str], list[list[str]]]:
        """Return the head of the table and its lines as text, all numbers with so many digits after the point.

        What is not known is empty, and the ends of an interval of 95 % stand in one column.
        """
        header, labels, numbers = self._table()
        called = {"std_error": "std. error", "p_value": "p", **self._headings}
        shown = {}
        for name, values in numbers.items():
            own, form = np.broadcast_to(values, len(labels)).tolist(), f".{self._digits_of(name, digits)}f"
            shown[name] = [str(each) if isinstance(each, int) else f"{each:{form}}" for each in own]
        if "lower" in shown:
            ends = zip(shown.pop("lower"), shown.pop("upper"), strict=True)
            shown["95 % interval"] = ["nan" if low == "nan" else f"[{low}, {high}]" for low, high in ends]
        lines = zip(labels, *shown.values(), strict=True)
        cells = [[*map(str, words), *("" if own == "nan" else own for own in rest)] for words, *rest in lines]
        return [called.get(name, name) for name in (*header, *shown)], cells

    def to_markdown(self, digits: int = 3) -> str:
        """Return a table in Markdown, all numbers with so many digits after the point."""
        head, lines = self._cells(digits)
        rule = ["---"] * self._words + ["---:"] * (len(head) - self._words)
        shown = [[cell.replace("|", r"\|") for cell in line] for line in (head, *lines)]
        return "\n".join("| " + " | ".join(line) + " |" for line in (shown[0], rule, *shown[1:])) + "\n"

    def to_latex(self, digits: int = 3) -> str:
        """Return a table in LaTeX (booktabs), all numbers with so many digits after the point."""
        head, lines = self._cells(digits)
        columns = "l" * self._words + "r" * (len(head) - self._words)
        first, *body = (" & ".join(_latex(cell) for cell in line) + r" \\" for line in (head, *lines))
        begin, end = rf"\begin{{tabular}}{{{columns}}}", r"\end{tabular}"
        return "\n".join([begin, r"\toprule", first, r"\midrule", *body, r"\bottomrule", end, ""])

    def __repr__(self) -> str:
        head, lines = self._cells(4)
        widths = [max(len(line[place]) for line in (head, *lines)) for place in range(len(head))]
        if self._last_flush_left:
            widths[-1] = 0
        shown = [
            "  ".join(cell.rjust(width) for cell, width in zip(line, widths, strict=True))
            for line in (head, *lines[:MOST_SHOWN])
        ]
        more = [f"… {len(lines) - MOST_SHOWN} more"] if len(lines) > MOST_SHOWN else []
        return "\n".join([*(line.rstrip() for line in shown), *more, *self.notes])

    def _repr_html_(self) -> str:
        head, lines = self._cells(4)
        rows = ["".join(f"<td>{html.escape(cell)}</td>" for cell in line) for line in lines]
        top = "".join(f"<th>{html.escape(cell)}</th>" for cell in head)
        notes = "".join(f"<p>{html.escape(note)}</p>" for note in self.notes)
        return f"<table><tr>{top}</tr>{''.join(f'<tr>{row}</tr>' for row in rows)}</table>{notes}"


def _latex(text: str) -> str:
    return "".join(LATEX.get(sign, sign) for sign in text)
