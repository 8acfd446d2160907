"""What the codes of one column stand for: labels, or bins of numbers.

A column whose numbers are not cut into bins is one of `Numbers`.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from functools import cached_property
from numbers import Real
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

import numpy as np

from eigentree.data.tables.cells import Categorical, Cells, Label, is_missing, plain_label
from eigentree.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from eigentree.arrays import Floats, Integers
    from eigentree.data.tables.numbers import Numbers

__all__ = [
    "FEW_ROWS_EACH",
    "MANY_NUMBERS",
    "MISSING",
    "UNKNOWN",
    "Bins",
    "Labels",
    "Meaning",
    "in_order",
    "looks_continuous",
    "looks_like_names",
    "states_of",
]

MISSING = -1
"""The code of a missing cell while a column is read."""

UNKNOWN = -2
"""The code of a label that the column does not have, while it is read."""

MANY_NUMBERS = 32
"""From more different numbers than this on, a column may be continuous, and from more labels one of identifiers."""

FEW_ROWS_EACH = 5
"""Numbers look continuous where each has fewer rows than this on average: such columns, or classes of fractions."""

MOST_BINS = 8
"""Into how many bins a continuous column is cut, fewer where numbers repeat."""


@dataclass(frozen=True)
class Labels:
    """The labels of a column, in the order of their codes.

    Attributes
    ----------
    values : tuple of str, int, float or bool
    declared : bool
        Whether they were declared by a categorical column, and rows are returned as such.
    ordered : bool
        Whether they have an order: declared categories, or labels that the user said are ordinal.
    """

    values: tuple[Label, ...]
    declared: bool = False
    ordered: bool = False

    whole: ClassVar[bool] = False

    @property
    def labels(self) -> tuple[Label, ...]:
        """The name of each state."""
        return self.values

    @cached_property
    def _places(self) -> dict[Label, int]:
        return {value: place for place, value in enumerate(self.values)}

    @cached_property
    def _numbers(self) -> tuple[NDArray[Any], Integers] | None:
        """The labels that are numbers, sorted, and their codes."""
        numbers = [(value, place) for place, value in enumerate(self.values) if isinstance(value, Real)]
        if not numbers:
            return None
        values, places = zip(*sorted(numbers), strict=True)
        # As whole numbers where they are, because floats merge those beyond 2 ** 53.
        whole = all(isinstance(value, int) and abs(value) < 2**63 for value in values)
        return np.array(values, np.int64 if whole else np.float64), np.array(places, np.int64)

    def encode(self, cells: Cells) -> Integers:
        """Return the code of each cell, `MISSING` or `UNKNOWN` where it has none."""
        if isinstance(cells, Categorical):
            lookup = [self._places.get(label, UNKNOWN) for label in cells.labels]
            small = np.min_scalar_type(UNKNOWN - len(self.values))
            return np.array([*lookup, MISSING], small)[cells.places]
        codes = np.full(len(cells), UNKNOWN, np.int64)
        if self._numbers is not None:
            values, places = self._numbers
            at = np.minimum(np.searchsorted(values, cells), len(values) - 1)
            known = values[at] == cells
            codes[known] = places[at[known]]
        # -1 marks a missing cell, unless it is a label.
        absent = cells != cells if cells.dtype.kind == "f" else np.zeros(len(cells), np.bool_)
        if cells.dtype.kind in "if":
            absent |= (cells == -1) & (codes == UNKNOWN)
        codes[absent] = MISSING
        return codes

    def code(self, cell: Any) -> int:
        """Return the code of one label; `UNKNOWN` where it has none."""
        try:
            # Categories of any kind, such as the intervals of pandas, are known by their text.
            return self._places.get(plain_label(cell, "given", any_kind=True), UNKNOWN)
        except DataError:
            return UNKNOWN

    def described(self) -> str:
        """Return what cells can be, for a message."""
        shown = ", ".join(repr(value) for value in self.values[:8])
        return f"the labels {shown}" + (f", … ({len(self.values)} in all)" if len(self.values) > 8 else "")


@dataclass(frozen=True)
class Bins:
    """Intervals of numbers, in the order of their codes.

    Attributes
    ----------
    edges : tuple of float
        Where one bin ends and the next begins, which it belongs to; cells beyond all edges are in the outer bins.
    least, most : float
        The range of the cells that the bins were made from.
    typical : tuple of float
        The median of those of each bin.
    whole : bool
        Whether they were whole numbers.
    """

    edges: tuple[float, ...]
    least: float
    most: float
    typical: tuple[float, ...]
    whole: bool

    declared: ClassVar[bool] = False

    @classmethod
    def of(cls, cells: NDArray[Any], weights: NDArray[Any] | None = None) -> Bins:
        """Return bins that hold about equally many of some known cells, by weight."""
        if weights is None or not weights.any():
            weights = np.ones(len(cells))
        order = np.argsort(cells[weights > 0], kind="stable")
        cells, weights = cells[weights > 0][order], weights[weights > 0][order]
        # Edges that are cells themselves, so that no bin is empty.
        edges = np.unique(_quantiles(cells, weights, np.arange(1, MOST_BINS) / MOST_BINS))
        edges = edges[edges > cells[0]]
        bins = np.split(np.arange(len(cells)), np.searchsorted(cells, edges))
        typical = [float(_quantiles(cells[own], weights[own], 0.5)) for own in bins]
        whole = bool((cells == np.rint(cells)).all())
        return cls(tuple(edges.tolist()), float(cells[0]), float(cells[-1]), tuple(typical), whole)

    @property
    def labels(self) -> tuple[str, ...]:
        """The name of each bin, such as ``"[18, 35)"``."""
        ends = [f"{end:.6g}" for end in (self.least, *self.edges, self.most)]
        if len(set(ends)) < len(ends):
            ends = [repr(end) for end in (self.least, *self.edges, self.most)]
        closing = [")"] * len(self.edges) + ["]"]
        return tuple(f"[{a}, {b}{c}" for a, b, c in zip(ends, ends[1:], closing, strict=False))

    def encode(self, cells: Cells) -> Integers:
        """Return the bin of each cell, `MISSING` for one that is not a number, `UNKNOWN` for text."""
        if isinstance(cells, Categorical):
            lookup = [self.code(label) for label in cells.labels]
            return np.array([*lookup, MISSING], np.int64)[cells.places]
        codes = np.searchsorted(self.edges, cells, side="right").astype(np.int64)
        codes[np.isnan(cells) if cells.dtype.kind == "f" else np.zeros(len(cells), np.bool_)] = MISSING
        return codes

    def code(self, cell: Any) -> int:
        """Return the bin of one number, or of its own name; `UNKNOWN` for anything else."""
        if isinstance(cell, str) and cell in self.labels:
            return self.labels.index(cell)
        if not isinstance(cell, Real) or is_missing(cell):
            return UNKNOWN
        # Not as a float, which does not hold every whole number.
        return bisect_right(self.edges, cell)

    def described(self) -> str:
        """Return what cells can be, for a message."""
        return f"numbers from {self.least:.6g} to {self.most:.6g}"

    def sampled(self, codes: NDArray[Any], random: np.random.Generator) -> Floats:
        """Return a number inside the bin of each code, any as likely as another."""
        lower = np.array([self.least, *self.edges])
        upper = np.array([*self.edges, self.most + self.whole])
        within = lower[codes] + random.random(len(codes)) * (upper - lower)[codes]
        # An edge belongs to the bin above it, and rounding must not reach it.
        return np.asarray(np.minimum(np.floor(within) if self.whole else within, np.nextafter(upper, lower)[codes]))


def _quantiles(cells: NDArray[Any], weights: NDArray[Any], shares: Any) -> NDArray[Any]:
    """Return the least of some sorted cells that have these shares of the weight up to them."""
    passed = np.cumsum(weights, dtype=np.float64)
    return np.asarray(cells[np.searchsorted(passed, shares * passed[-1])])


Meaning: TypeAlias = "Labels | Bins | Numbers"
"""What the codes of a column stand for."""


def states_of(meaning: Meaning) -> int:
    """Return how many states a column has; one of numbers has one."""
    return len(meaning.labels) or 1


def in_order(labels: Sequence[Label]) -> tuple[Label, ...]:
    """Return labels sorted: truth values and numbers before text, so that any mix has an order."""
    return tuple(sorted(labels, key=lambda label: (isinstance(label, str), label)))


def looks_continuous(numbers: NDArray[Any], rows: int) -> bool:
    """Return whether the different numbers of so many cells look continuous rather than codes."""
    if numbers.dtype.kind == "f" and (numbers != np.rint(numbers)).any():
        return True
    return len(numbers) > MANY_NUMBERS and rows < FEW_ROWS_EACH * len(numbers)


def looks_like_names(labels: int, cells: int) -> bool:
    """Return whether so many labels of so many cells look like names of rows: many come once.

    Labels that are declared may be more than there are cells, and need not occur.
    """
    return labels > MANY_NUMBERS and labels <= cells < 2 * labels
