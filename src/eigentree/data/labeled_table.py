"""Tables for people: numbers whose axes are variables and whose places are states, by name.

`engine.tensor.LabeledTensor` is the paper's algebra: its modes may repeat a variable, it is multiplied and
inverted, and it knows no states. This is what is handed out at the end: each variable once, each state with its
label, and ways to look at it.
"""

from __future__ import annotations

import html
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from eigentree.errors import DataError, EigentreeError, did_you_mean

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Mapping, Sequence

    from numpy.typing import ArrayLike, DTypeLike, NDArray

    from eigentree.arrays import Floats

__all__ = ["LabeledTable"]

MOST_SHOWN = 20
"""Most rows of a table that are shown; of longer ones the beginning and the end."""

MOST_SHOWN_STATES = 10
"""Most states of the last axis that are shown beside each other."""


@dataclass(frozen=True, eq=False)
class LabeledTable:
    """An immutable array whose axes are variables and whose places along an axis are states.

    It is an array to numpy (`np.asarray`, `np.log`, …); ``==`` is identity.

    Parameters
    ----------
    array : array-like of float
        Copied unless it is read-only already.
    names : iterable of str
        One variable per axis.
    states : sequence of sequences, optional
        The labels of the states along each axis; by default the codes 0, 1, ….

    Attributes
    ----------
    array : ndarray of float64, read-only
    names : tuple of str
    states : tuple of tuple

    Examples
    --------
    >>> table = LabeledTable([[0.9, 0.1], [0.2, 0.8]], ["weather", "umbrella"], [("dry", "wet"), (0, 1)])
    >>> table
    weather  umbrella=0  umbrella=1
        dry      0.9000      0.1000
        wet      0.2000      0.8000
    >>> table.at(weather="wet")
    umbrella=0  umbrella=1
        0.2000      0.8000
    >>> float(table.at(weather="wet", umbrella=1))
    0.8
    """

    array: Floats
    names: tuple[str, ...]
    states: tuple[tuple[Hashable, ...], ...]

    def __init__(
        self,
        array: ArrayLike,
        names: Iterable[str],
        states: Sequence[Sequence[Hashable]] | None = None,
    ) -> None:
        entries: Floats = np.asarray(array, np.float64)
        if entries.flags.writeable:
            entries = entries.copy()
            entries.flags.writeable = False
        axes = tuple(names)
        if len(axes) != entries.ndim or len(set(axes)) < len(axes):
            raise DataError(f"a table of shape {entries.shape} needs as many different names, not {axes}")
        labels = tuple(map(tuple, [range(size) for size in entries.shape] if states is None else states))
        if tuple(map(len, labels)) != entries.shape or any(len(set(each)) < len(each) for each in labels):
            raise DataError(
                f"a table of shape {entries.shape} over {axes} needs as many different labels of states along each "
                f"axis, not {labels}"
            )
        object.__setattr__(self, "array", entries)
        object.__setattr__(self, "names", axes)
        object.__setattr__(self, "states", labels)

    def __reduce__(self) -> tuple[Any, ...]:
        # Through the constructor, because a copied or unpickled array would be writeable.
        return type(self), (self.array, self.names, self.states)

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> NDArray[Any]:
        if copy:
            return np.array(self.array, dtype)
        return np.asarray(self.array, dtype)

    def __float__(self) -> float:
        return float(self.array)

    def __len__(self) -> int:
        return len(self.array)

    @property
    def shape(self) -> tuple[int, ...]:
        """The number of states along each axis."""
        return self.array.shape

    def at(self, given: Mapping[str, Hashable] | None = None, /, **states: Hashable) -> LabeledTable:
        """Return the part of the table where some variables have the states given; their axes go.

        Parameters
        ----------
        given : mapping of str to label, optional
            For names that are no words of Python.
        **states
            A label for each variable.
        """
        wanted = {**(given or {}), **states}
        picks: list[int | slice] = [slice(None)] * len(self.names)
        for name, state in wanted.items():
            if name not in self.names:
                raise DataError(
                    f"the table has no axis {name!r}{did_you_mean(name, self.names)}; it is over {list(self.names)}"
                )
            axis = self.names.index(name)
            if state not in self.states[axis]:
                raise DataError(f"{name!r} has no state {state!r}; it has {_in_short(self.states[axis])}")
            picks[axis] = self.states[axis].index(state)
        kept = [axis for axis, name in enumerate(self.names) if name not in wanted]
        return LabeledTable(
            self.array[tuple(picks)], [self.names[axis] for axis in kept], [self.states[axis] for axis in kept]
        )

    def to_pandas(self) -> Any:
        """Return a pandas frame: the states of the last variable as columns, those of the others as its index.

        A table over one variable is a Series.
        """
        try:
            import pandas
        except ImportError:
            raise EigentreeError("to_pandas needs pandas: pip install pandas") from None
        if not self.names:
            raise DataError("a single number makes no frame; use float(table)")
        *above, last = (
            pandas.Index(labels, name=name) for name, labels in zip(self.names, self.states, strict=True)
        )
        if not above:
            return pandas.Series(self.array, last)
        index = above[0] if len(above) == 1 else pandas.MultiIndex.from_product(above)
        return pandas.DataFrame(self.array.reshape(len(index), -1), index, last)

    def __repr__(self) -> str:
        lines = self._cells()
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        return "\n".join(
            "  ".join(cell.rjust(width) for cell, width in zip(line, widths, strict=True)) for line in lines
        )

    def _repr_html_(self) -> str:
        head, *body = ([html.escape(cell) for cell in line] for line in self._cells())
        lines = ["".join(f"<th>{cell}</th>" for cell in head)]
        for line in body:
            above, numbers = line[: len(self.names) - 1], line[max(0, len(self.names) - 1) :]
            lines.append("".join([f"<th>{cell}</th>" for cell in above] + [f"<td>{cell}</td>" for cell in numbers]))
        return "<table>" + "".join(f"<tr>{line}</tr>" for line in lines) + "</table>"

    def _cells(self) -> list[list[str]]:
        """Return what is shown: a line of headings, then one per place on all axes but the last."""
        *above, width = self.shape or (1,)
        flat = self.array.reshape(-1, width)
        columns = _ends(width, MOST_SHOWN_STATES)
        largest = np.abs(flat[np.isfinite(flat)]).max(initial=0.0)
        decimals = min(4, max(1, 5 - len(str(int(largest)))))
        heading = [f"{self.names[-1]}={self.states[-1][k]}" if self.names else "" for k in columns if k >= 0]
        shown = [[*self.names[:-1], *_gapped(heading, columns)]]
        for row in _ends(math.prod(above), MOST_SHOWN):
            if row < 0:
                shown.append(["…"] * len(shown[0]))
                continue
            place = np.unravel_index(row, tuple(above)) if above else ()
            labels = [str(self.states[axis][k]) for axis, k in enumerate(place)]
            numbers = [f"{flat[row, k]:.{decimals}f}" for k in columns if k >= 0]
            shown.append([*labels, *_gapped(numbers, columns)])
        return shown


def _ends(count: int, most: int) -> list[int]:
    """Return the numbers up to `count`; if there are more than `most`, the first and last of them around a -1."""
    if count <= most:
        return list(range(count))
    return [*range(most - most // 3), -1, *range(count - most // 3, count)]


def _gapped(cells: list[str], places: list[int]) -> list[str]:
    """Return the cells with a sign where places are left out."""
    left = iter(cells)
    return ["…" if place < 0 else next(left) for place in places]


def _in_short(labels: tuple[Hashable, ...]) -> str:
    shown = ", ".join(repr(label) for label in labels[:8])
    return f"{shown}, … ({len(labels)} in all)" if len(labels) > 8 else shown
