"""Summaries of columns that can be taken in parts: what is learned of columns, in values that add up.

The summaries of the parts of a table add up to that of the table, however its rows are split. Of a column each
different cell is kept, and how often it occurs where it is a number, so a summary is small whatever it is of.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np

from eigentree.data.tables.cells import Categorical, Label, plain_label
from eigentree.data.tables.labels import in_order
from eigentree.data.tables.table import TEXT, Table, each_column, placed, table_of
from eigentree.data.tables.text_cells import TextColumn, typed_texts
from eigentree.data.tables.weights import checked_weights
from eigentree.errors import DataError, did_you_mean, quoted
from eigentree.validation import MOST_WHOLE

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from numpy.typing import ArrayLike, NDArray

    from eigentree.arrays import Floats, Integers
    from eigentree.data.tables.cells import Cells

__all__ = ["MOST_DIFFERENT", "ColumnSummary", "Schema", "ValueCounts", "summary_of"]

MOST_DIFFERENT = 2**18
"""Different cells of a column that are kept when summaries add up."""

NEAR = 4096
"""Whole numbers that lie within so many are counted in an array, without sorting them."""

Kind: TypeAlias = Literal["labels", "truth", "numbers", ""]
"""What the type of a column says of its cells, whichever: declared labels, truth values, numbers, or nothing."""


@dataclass(frozen=True, eq=False)
class ValueCounts:
    """Different values in rising order, how often each occurs, and with what weight (None: as often)."""

    values: NDArray[Any]
    counts: Integers
    weights: Floats | None = None


NO_WHOLE = ValueCounts(np.zeros(0, np.int64), np.zeros(0, np.int64))
NO_FRACTIONS = ValueCounts(np.zeros(0), np.zeros(0, np.int64))


@dataclass(frozen=True, eq=False)
class ColumnSummary:
    """What one column holds.

    Attributes
    ----------
    kind : str
        What the type of the column says, in all parts alike.
    missing : int
        How many cells are None, NaN or null.
    whole, fractions : ValueCounts
        Those of columns of integers, and those of floats; apart, because floats do not hold all integers.
    truths : tuple of int
        How often False occurs, and True.
    labels : tuple
        Text, categories, and whatever else has a label, in the order in which they occur.
    declared, ordered : bool
        Whether all labels are those that categoricals declare, and whether these have an order.
    texts : ValueCounts
        Cells of a file of text as they are written there; what they are is known once all were read.
    beyond : str
        An example of a column with too many different cells, which are not kept then.
    """

    kind: Kind = ""
    missing: int = 0
    whole: ValueCounts = NO_WHOLE
    fractions: ValueCounts = NO_FRACTIONS
    truths: tuple[int, int] = (0, 0)
    labels: tuple[Label, ...] = ()
    declared: bool = True
    ordered: bool = False
    texts: ValueCounts | None = None
    beyond: str = ""

    @classmethod
    def of(cls, cells: Cells, weights: NDArray[Any] | None = None, kind: Kind = "") -> ColumnSummary:
        """Return the summary of the cells of a column, each as often as its weight says."""
        if isinstance(cells, Categorical):
            missing = int((cells.places < 0).sum())
            if isinstance(cells, TextColumn):
                return cls(missing=missing, texts=_counted_places(cells, weights))
            if not cells.declared and cells.labels == (False, True) and type(cells.labels[0]) is bool:
                true = int((cells.places == 1).sum())
                return cls("truth", missing, truths=(len(cells.places) - missing - true, true))
            kind = "labels" if cells.declared else ""
            return cls(kind, missing, labels=cells.labels, declared=cells.declared, ordered=cells.ordered)
        if cells.dtype.kind == "b":
            true = int(cells.sum())
            return cls("truth", truths=(len(cells) - true, true))
        numbers: NDArray[Any] = cells
        known = numbers == numbers
        missing = len(numbers) - int(known.sum())
        if missing:
            numbers, weights = numbers[known], None if weights is None else weights[known]
        found = _numbers(numbers, weights)
        if cells.dtype.kind == "f":
            return cls(kind, missing, fractions=found)
        if found.values.dtype == np.uint64:
            # Too large for a label, which is said once it is known that the column has no labels given.
            return cls(missing=missing, labels=tuple(found.values.tolist()), declared=False)
        return cls(kind, missing, found)

    def __add__(self, other: ColumnSummary) -> ColumnSummary:
        labels = self.labels
        if labels != other.labels:
            labels = tuple(dict.fromkeys((*labels, *other.labels)))
        texts = self.texts or other.texts
        if self.texts is not None and other.texts is not None:
            texts = _joined(self.texts, other.texts)
        made = ColumnSummary(
            self.kind if self.kind == other.kind else "",
            self.missing + other.missing,
            _joined(self.whole, other.whole),
            _joined(self.fractions, other.fractions),
            (self.truths[0] + other.truths[0], self.truths[1] + other.truths[1]),
            labels,
            self.declared and other.declared,
            self.ordered or other.ordered,
            texts,
            self.beyond or other.beyond,
        )
        parts = [part.values for part in (texts, made.whole, made.fractions) if part is not None]
        if made.beyond or max(made._known_numbers, len(parts[0]), len(labels)) <= MOST_DIFFERENT:
            return made
        cells = [*labels[:1], *(cell for values in parts for cell in values[:1].tolist())]
        return ColumnSummary(made.kind, made.missing, declared=False, beyond=quoted(cells[0]))

    def together(self) -> ValueCounts | tuple[Label, ...] | None:
        """Return what all cells are: numbers, labels in the order of their states, or None where none is known.

        Truth values are the labels False and True. Among text, the number -1 marks a missing cell and is no label.
        """
        seen = self._typed()
        if seen.labels and seen.declared and not seen._known_numbers and not any(seen.truths):
            return seen.labels
        truths = [value for value, times in zip((False, True), seen.truths, strict=True) if times]
        too_large = bool(len(seen.whole.values)) and not (
            seen.whole.values[0] >= -MOST_WHOLE and seen.whole.values[-1] <= MOST_WHOLE
        )
        alone = not (seen.missing or len(seen.fractions.values) or truths)
        if not seen.labels and seen._known_numbers and (not too_large or alone):
            return seen._as_numbers()
        if not seen.labels and not seen._known_numbers:
            return (False, True) if truths or seen.kind == "truth" else None
        parts = [seen.labels, truths, seen.whole.values.tolist(), seen.fractions.values.tolist()]
        cells = [plain_label(cell, "a column") for part in parts for cell in part]
        if any(isinstance(cell, str) for cell in cells):
            cells = [cell for cell in cells if isinstance(cell, str | bool) or cell != -1]
        return in_order(tuple(dict.fromkeys(cells)))

    @property
    def is_continuous(self) -> bool:
        """Whether the column is one of numbers by its type, and some are no whole numbers."""
        known = self.fractions.values
        return self.kind == "numbers" and bool((np.isfinite(known) & (known != np.rint(known))).any())

    @property
    def _known_numbers(self) -> int:
        return len(self.whole.values) + len(self.fractions.values)

    def _as_numbers(self) -> ValueCounts:
        """Return all numbers together, truth values among them as 0 and 1."""
        if not len(self.fractions.values) and not any(self.truths):
            return self.whole
        truths = np.flatnonzero(self.truths).astype(np.float64)
        total = ValueCounts(truths, np.array([times for times in self.truths if times], np.int64))
        floats = replace(self.whole, values=self.whole.values.astype(np.float64))
        return _joined(_joined(total, floats), self.fractions)

    def _typed(self) -> ColumnSummary:
        """Return the same with text of a file as what it stands for."""
        if self.texts is None:
            return self
        written = tuple(map(str, self.texts.values))
        typed, rest = typed_texts(written), replace(self, texts=None)
        if typed is None:
            return rest + ColumnSummary(labels=written, declared=False) if written else rest
        if typed.dtype.kind == "b":
            false, true = (int(self.texts.counts[typed == value].sum()) for value in (False, True))
            return rest + ColumnSummary("truth", truths=(false, true))
        found = _collected(typed, self.texts.counts, self.texts.weights)
        return rest + (ColumnSummary(whole=found) if typed.dtype.kind == "i" else ColumnSummary(fractions=found))


@dataclass(frozen=True, eq=False)
class Schema:
    """The summaries of all columns of some rows; those of parts of the rows add up.

    Attributes
    ----------
    names : tuple of str, or None
        The names of the columns, where they have some and do not count by position.
    columns : tuple of ColumnSummary
    container : str
        What held the rows, as `Table.container` says.
    rows : int

    Examples
    --------
    >>> from eigentree.data.tables.columns import Columns
    >>> rows = [["yes", 0], ["no", 2], [None, 1]]
    >>> Columns.learned(Schema.of(rows[:1]) + Schema.of(rows[1:]))
    Columns(x0: 'no', 'yes'; x1: 0 … 2)
    """

    names: tuple[str, ...] | None
    columns: tuple[ColumnSummary, ...]
    container: str
    rows: int

    @classmethod
    def of(cls, X: ArrayLike | Any, sample_weight: ArrayLike | None = None, skip: Collection[str] = ()) -> Schema:
        """Return the schema of some rows; there may be none, as in an empty part of a frame.

        Parameters
        ----------
        X : array-like of shape (rows, columns), a data frame, or rows of letters
        sample_weight : array-like of shape (rows,), optional
            How often each row counts where numbers are cut into bins.
        skip : collection of str
            Columns that need no summary, since their labels are known.
        """
        table = table_of(X, least=0)
        weights = checked_weights(sample_weight, table.count)
        columns = each_column(
            table.all_names,
            lambda place, name: ColumnSummary() if name in skip else summary_of(table, place, name, weights),
        )
        return cls(table.names, tuple(columns), table.container, table.count)

    @classmethod
    def unknown(cls, names: tuple[str, ...], container: str) -> Schema:
        """Return the schema of columns of which no more than their names is known."""
        return cls(names, tuple(ColumnSummary() for _ in names), container, 0)

    @classmethod
    def of_types(cls, X: ArrayLike | Any) -> Schema:
        """Return what the types of the columns of some rows say; some, such as dates, say nothing."""
        table = table_of(X, least=0)
        columns = []
        for place, name in enumerate(table.all_names):
            summary = ColumnSummary()
            # A column of dates, say, may be one that nobody needs.
            with suppress(DataError):
                summary = summary_of(table, place, name, None)
            columns.append(summary)
        return cls(table.names, tuple(columns), table.container, 0)

    @property
    def all_names(self) -> tuple[str, ...]:
        """The names of the columns, x0, x1, … where they have none."""
        return self.names or tuple(f"x{place}" for place in range(len(self.columns)))

    def undeclared(self) -> Schema:
        """Return what the types of the columns say, without what is declared: other rows may declare more."""
        kinds: list[Kind] = [column.kind if column.kind != "labels" else "" for column in self.columns]
        return replace(self, columns=tuple(map(ColumnSummary, kinds)), rows=0)

    def only(self, names: Sequence[str]) -> Schema:
        """Return the schema of some of the columns."""
        every = self.all_names
        return replace(self, names=tuple(names), columns=tuple(self.columns[every.index(name)] for name in names))

    def __add__(self, other: Schema) -> Schema:
        if not isinstance(other, Schema):
            raise DataError(f"a schema adds up with another, not with {quoted(other)}")
        columns = other.columns
        if self.names != other.names:
            columns = tuple(columns[place] for place in self._places_in(other))
        elif len(columns) != len(self.columns):
            what = "letters" if self.container == TEXT else "columns"
            raise DataError(
                f"some rows have {len(self.columns)} {what} and others {len(columns)}; all need as many"
            )
        added = tuple(one + two for one, two in zip(self.columns, columns, strict=True))
        return replace(self, columns=added, rows=self.rows + other.rows)

    def _places_in(self, other: Schema) -> Sequence[int]:
        """Return where the columns of this schema stand in another."""
        if self.names is None or other.names is None:
            raise DataError("some rows have columns with names, and others without; give all in one form")
        for one, two in ((self.names, other.names), (other.names, self.names)):
            if lacking := [name for name in one if name not in two]:
                raise DataError(
                    f"some rows have a column {lacking[0]!r} and others do not{did_you_mean(lacking[0], two)}"
                )
        return [other.names.index(name) for name in self.names]

    def places(self, names: Sequence[str]) -> Sequence[int]:
        """Return where the columns of some names stand, as `Table.places` does."""
        return placed(self.names, len(self.columns), names)

    def settles(self, given: Collection[str] = (), codes: bool = False) -> bool:
        """Return whether types show all states, whatever the rows: declared categories and truth values.

        Parameters
        ----------
        given : collection of str
            Columns whose labels are known.
        codes : bool
            Whether numbers are codes that stand for themselves, as in the columns of a graph.
        """
        return all(
            name in given
            or column.kind == "truth"
            or (column.kind == "labels" and bool(column.labels))
            or (codes and column.kind == "numbers")
            for name, column in zip(self.all_names, self.columns, strict=True)
        )


def summary_of(table: Table | Schema, place: int, name: str, weights: NDArray[Any] | None) -> ColumnSummary:
    """Return the summary of a column."""
    if isinstance(table, Schema):
        return table.columns[place]
    kind: Kind = "numbers" if table.holds_numbers(place) else ""
    return ColumnSummary.of(table.column(place, name), weights, kind)


def _numbers(cells: NDArray[Any], weights: NDArray[Any] | None) -> ValueCounts:
    """Return the different ones of known numbers, as 64-bit integers or floats."""
    if cells.dtype.kind in "iu":
        if not len(cells):
            return NO_WHOLE
        least, most = int(cells.min()), int(cells.max())
        if most >= 2**63:
            return _collected(cells, np.ones(len(cells), np.int64), weights)
        if most - least < NEAR:
            return _counted_near(cells.astype(np.int64) - least, least, most, weights)
        cells = cells.astype(np.int64, copy=False)
    else:
        cells = cells.astype(np.float64, copy=False)
    return _collected(cells, np.ones(len(cells), np.int64), weights)


def _counted_near(places: Integers, least: int, most: int, weights: NDArray[Any] | None) -> ValueCounts:
    times = np.bincount(places, minlength=most - least + 1)
    came = np.flatnonzero(times)
    weighed = None if weights is None else _weighed(places, weights, most - least + 1)[came]
    return ValueCounts(came + least, times[came].astype(np.int64), weighed)


def _counted_places(cells: Categorical, weights: NDArray[Any] | None) -> ValueCounts:
    """Return the different texts of a column, sorted, and how often each occurs."""
    texts = np.array(cells.labels, object)
    known = cells.places >= 0
    places = cells.places[known]
    times = np.bincount(places, minlength=len(texts)).astype(np.int64)
    weighed = None if weights is None else _weighed(places, weights[known], len(texts))
    order = np.argsort(texts, kind="stable")
    order = order[times[order] > 0]
    return ValueCounts(texts[order], times[order], None if weighed is None else weighed[order])


def _collected(cells: NDArray[Any], counts: Integers, weights: NDArray[Any] | None) -> ValueCounts:
    """Return different cells once each, sorted, with their counts and weights added up."""
    if not len(cells):
        return ValueCounts(cells, counts)
    values, places = np.unique(cells, return_inverse=True)
    # Sums of counts are exact in double precision.
    total = np.bincount(places, counts, len(values)).astype(np.int64)
    return ValueCounts(values, total, None if weights is None else _weighed(places, weights, len(values)))


def _weighed(places: NDArray[Any], weights: NDArray[Any], size: int) -> Floats:
    return np.asarray(np.bincount(places, weights.astype(np.float64), size), np.float64)


def _joined(one: ValueCounts, two: ValueCounts) -> ValueCounts:
    """Return the values of two parts together."""
    if not len(one.values) or not len(two.values):
        return two if not len(one.values) else one
    weights = None
    if one.weights is not None or two.weights is not None:
        weights = np.concatenate([part.counts if part.weights is None else part.weights for part in (one, two)])
    if len(one.values) == len(two.values) and (one.values == two.values).all():
        halves = None if weights is None else weights[: len(one.values)] + weights[len(one.values) :]
        return ValueCounts(one.values, one.counts + two.counts, halves)
    return _collected(np.concatenate([one.values, two.values]), np.concatenate([one.counts, two.counts]), weights)
