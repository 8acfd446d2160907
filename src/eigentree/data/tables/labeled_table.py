"""Tables for people: numbers whose axes are variables and whose places are states, by name.

`LabeledTensor` of `inference.tensors` is the paper's algebra: its modes may repeat a variable, it is multiplied
and inverted, and it knows no states. This is what users get at the end: each variable once, each state with its
label, and ways to look at it.
"""

from __future__ import annotations

import html
import math
from collections.abc import Collection
from typing import TYPE_CHECKING, Any

import numpy as np

from eigentree.errors import DataError, EigentreeError, UnknownNameError, did_you_mean, quoted, what_there_is
from eigentree.validation import an_array, different_names

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Mapping, Sequence

    from numpy.typing import ArrayLike

    from eigentree.arrays import Floats

__all__ = ["LabeledTable", "TablesByName"]

MOST_SHOWN = 20
"""Most rows of a table that are shown; of longer ones the beginning and the end."""

MOST_SHOWN_STATES = 10
"""Most states of the last axis that are shown beside each other."""


class TablesByName(dict[Any, Any]):
    """Tables by what they are of; the error for one that is not there names those that are."""

    def __missing__(self, name: Any) -> Any:
        raise UnknownNameError(f"there is no table of {quoted(name)}{what_there_is(name, map(str, self))}")


class LabeledTable(np.ndarray[Any, np.dtype[np.float64]]):
    """An array whose axes are variables and whose places along an axis are states.

    To numpy it is an array of numbers; parts, sums and logarithms of it are arrays without names.

    Parameters
    ----------
    array : array-like of float
        Copied unless it is read-only, as the table is.
    names : iterable of str
        One variable per axis.
    states : sequence of sequences, optional
        The labels of the states along each axis; by default the codes 0, 1, ….

    Attributes
    ----------
    array : ndarray of float64
        The numbers alone.
    names : tuple of str
    states : tuple of sequences

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
    >>> table.sum(axis=0)
    array([1.1, 0.9])
    """

    _names: tuple[str, ...] = ()
    _states: tuple[Sequence[Hashable], ...] = ()
    _labeled: bool = False

    def __new__(  # noqa: D102
        cls,
        array: ArrayLike,
        names: Iterable[str],
        states: Sequence[Sequence[Hashable]] | None = None,
    ) -> LabeledTable:
        try:
            entries: Floats = np.asarray(an_array("a table", array, DataError), np.float64)
        except (TypeError, ValueError, OverflowError):
            raise DataError(f"a table is made of numbers, not of {quoted(array)}") from None
        if entries.flags.writeable:
            entries = entries.copy()
            entries.flags.writeable = False
        axes = different_names("names", tuple(names) if isinstance(names, str) else names, DataError)
        if len(axes) != entries.ndim:
            raise DataError(f"a table of shape {entries.shape} needs as many different names, not {quoted(axes)}")
        labels = tuple(range(size) for size in entries.shape) if states is None else _labels(states, entries.shape)
        if labels is None:
            raise DataError(
                f"a table of shape {entries.shape} over {quoted(axes)} needs as many different labels of states "
                f"along each axis, not {quoted(states)}"
            )
        return cls.answer(entries, axes, labels)

    @classmethod
    def answer(cls, array: Floats, names: Sequence[str], states: Sequence[Sequence[Hashable]]) -> LabeledTable:
        """Return numbers that were just computed as a table: neither checked nor copied, and as free to change."""
        made = np.asarray(array).view(cls)
        made._names, made._states, made._labeled = tuple(names), tuple(states), True
        return made

    @property
    def names(self) -> tuple[str, ...]:
        """The variable of each axis; empty for what numpy made of a table."""
        return self._names

    @property
    def states(self) -> tuple[Sequence[Hashable], ...]:
        """The labels of the states along each axis."""
        return self._states

    @property
    def array(self) -> Floats:
        """The numbers alone."""
        return self.view(np.ndarray)

    def __reduce__(self) -> tuple[Any, ...]:
        if not self._labeled:
            return np.array, (self.array,)
        return _rebuilt, (self.array, self._names, self._states, bool(self.flags.writeable))

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        return self.__reduce__()

    def __deepcopy__(self, memo: Any) -> Any:
        rebuild, parts = self.__reduce__()
        return rebuild(*parts)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **settings: Any) -> Any:
        if out := settings.get("out"):
            settings["out"] = tuple(_bare(each) for each in out)
        made = getattr(ufunc, method)(*map(_bare, inputs), **settings)
        # An operation in place leaves its table a table.
        return inputs[0] if out and out[0] is inputs[0] else made

    def __getitem__(self, key: Any) -> Any:
        return self.array[key]

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
        picks: list[int | slice] = [slice(None)] * self.ndim
        for name, state in wanted.items():
            if name not in self.names:
                raise DataError(
                    f"the table has no axis {name!r}{did_you_mean(name, self.names)}; it is over {list(self.names)}"
                )
            axis = self.names.index(name)
            if state not in self.states[axis]:
                raise DataError(f"{name!r} has no state {quoted(state)}; it has {_in_short(self.states[axis])}")
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

    def to_polars(self) -> Any:
        """Return a polars frame: one column per state of the last variable, after one for each of the others."""
        try:
            import polars
        except ImportError:
            raise EigentreeError("to_polars needs polars: pip install polars") from None
        if not self.names:
            raise DataError("a single number makes no frame; use float(table)")
        *above, last = self.states
        rows = math.prod(self.shape[:-1])
        places = np.indices(self.shape[:-1]).reshape(len(above), rows)
        index = {
            name: [labels[k] for k in at.tolist()]
            for name, labels, at in zip(self.names[:-1], above, places, strict=True)
        }
        flat = self.array.reshape(rows, len(last))
        heads = [str(label) for label in last]
        if len({*heads, *index}) < len(heads) + len(index):
            heads = [f"{self.names[-1]}={label!r}" for label in last]
        return polars.DataFrame(index | {head: flat[:, k] for k, head in enumerate(heads)}, strict=False)

    def __str__(self) -> str:
        return repr(self)

    def __repr__(self) -> str:
        if not self._labeled:
            return repr(self.array)
        lines = self._cells()
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        return "\n".join(
            "  ".join(cell.rjust(width) for cell, width in zip(line, widths, strict=True)) for line in lines
        )

    def _repr_html_(self) -> str | None:
        if not self._labeled:
            return None
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
        dates, largest = flat.dtype.kind in "mM", 0.0
        if dates:
            flat = flat.astype(f"{flat.dtype.kind}8[us]").astype(object)
        else:
            largest = np.abs(flat[np.isfinite(flat)]).max(initial=0.0)
        decimals = min(4, max(1, 5 - len(str(int(largest)))))
        # Such as means of a column of small numbers, of which four decimals would show little or nothing.
        style = "" if dates else ".3e" if 0 < largest < 0.01 else f".{decimals}f"
        heading = [
            "…" if k < 0 else f"{self.names[-1]}={self.states[-1][k]}" if self.names else "" for k in columns
        ]
        shown = [[*self.names[:-1], *heading]]
        for row in _ends(math.prod(above), MOST_SHOWN):
            if row < 0:
                shown.append(["…"] * len(shown[0]))
                continue
            place = [int(k) for k in np.unravel_index(row, tuple(above))] if above else []
            labels = [str(self.states[axis][k]) for axis, k in enumerate(place)]
            shown.append([*labels, *("…" if k < 0 else f"{flat[row, k]:{style}}" for k in columns)])
        return shown


def _labels(states: Any, shape: tuple[int, ...]) -> tuple[tuple[Hashable, ...], ...] | None:
    """Return the labels along each axis, once they are as many as there are places and all different; else None."""
    if not isinstance(states, Collection) or len(states) != len(shape):
        return None
    found = []
    for labels, size in zip(states, shape, strict=True):
        if not isinstance(labels, Collection) or len(labels) != size:
            return None
        try:
            found.append(tuple(labels))
            if len(set(found[-1])) < size:
                return None
        except TypeError:
            return None
    return tuple(found)


def _rebuilt(array: Floats, names: Sequence[str], states: Sequence[Any], writeable: bool) -> LabeledTable:
    """Return a table as it was before it was copied or pickled."""
    own = np.array(array)
    own.flags.writeable = writeable
    return LabeledTable.answer(own, names, states)


def _bare(value: Any) -> Any:
    return value.array if isinstance(value, LabeledTable) else value


def _ends(count: int, most: int) -> list[int]:
    """Return the numbers up to `count`; if there are more than `most`, the first and last of them around a -1."""
    if count <= most:
        return list(range(count))
    return [*range(most - most // 3), -1, *range(count - most // 3, count)]


def _in_short(labels: Sequence[Hashable]) -> str:
    shown = ", ".join(repr(label) for label in labels[:8])
    return f"{shown}, … ({len(labels)} in all)" if len(labels) > 8 else shown
