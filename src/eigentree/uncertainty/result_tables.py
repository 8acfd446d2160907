"""Results that are shown as a table: text, HTML, and Markdown and LaTeX for papers."""

from __future__ import annotations

import html
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["ResultTable", "labelled_frame"]

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

    _last_flush_left: ClassVar[bool] = False
    """Whether the last column of printed text begins at one place, as intervals do."""

    @abstractmethod
    def _cells(self, digits: int) -> tuple[list[str], list[list[str]]]:
        """Return the head of the table and its lines as text, all numbers with so many digits after the point."""

    @property
    @abstractmethod
    def _words(self) -> int:
        """How many columns, the first ones, hold words."""

    @abstractmethod
    def to_frame(self) -> Any:
        """Return a pandas data frame, all numbers as they are."""

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


def labelled_frame(header: Sequence[str], labels: Sequence[Sequence[Any]], numbers: Mapping[str, Any]) -> Any:
    """Return a pandas data frame of labels, one for each entry of the header, and numbers beside them."""
    import pandas as pd

    named = {name: [each[place] for each in labels] for place, name in enumerate(header)}
    return pd.DataFrame({**named, **numbers})


def _latex(text: str) -> str:
    return "".join(LATEX.get(sign, sign) for sign in text)
