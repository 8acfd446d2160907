"""Summaries of columns that can be taken in parts: what is learned of columns, in values that add up.

The summaries of the parts of a table add up to that of the table, however its rows are split. Of a column each
different cell is kept, and how often it occurs where it is a number, so a summary is small whatever it is of.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np

from eigentree.data.tables.cells import Categorical, Label, are_dates, plain_label
from eigentree.data.tables.labels import in_order
from eigentree.data.tables.numbers import Span, iso_dates
from eigentree.data.tables.table import TEXT, Table, each_column, placed, table_of
from eigentree.data.tables.text_cells import TextColumn, typed_texts
from eigentree.data.tables.weights import checked_weights
from eigentree.errors import DataError, did_you_mean, quoted
from eigentree.validation import MOST_WHOLE

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from numpy.typing import ArrayLike, NDArray

    from eigentree.arrays import Floats, Integers
    from eigentree.data.tables.cells import Cells

__all__ = ["MOST_DIFFERENT", "ColumnSummary", "Schema", "ValueCounts"]

MOST_DIFFERENT = 2**18
"""Different cells of a column that are kept when summaries add up."""

NEAR = 4096
"""Whole numbers that lie within so many more than there are are counted in an array, without sorting them."""

Kind: TypeAlias = Literal["labels", "truth", "numbers", ""]
"""What the type of a column says of its cells, whichever: declared labels, truth values, numbers, or nothing."""


@dataclass(frozen=True, eq=False)
class ValueCounts:
    """Different values in rising order, how often each occurs, and with what weight (None: as often)."""

    values: NDArray[Any]
    counts: Integers
    weights: Floats | None = None


@dataclass(frozen=True, eq=False)
class ColumnSummary:
    """What one column holds.

    Attributes
    ----------
    kind : str
        What the type of the column says, in all parts alike.
    missing : int
        How many cells are None, NaN or null.
    values : mapping of str to ValueCounts
        By numpy's letter of their type: truth values ("b"), integers ("i") and floats ("f"), which do not hold all
        integers; dates ("M") and durations ("m"); and cells of a file of text ("O"): what they are is known once
        all were read.
    labels : tuple
        Text, categories, and whatever else has a label, in the order in which they occur.
    declared, ordered : bool
        Whether all labels are those that categoricals declare, and whether these have an order.
    beyond : str
        An example of a column with too many different cells, which are not kept then.
    spanned : Span or None
        What those span, where all are numbers, or all dates.
    """

    kind: Kind = ""
    missing: int = 0
    values: Mapping[str, ValueCounts] = field(default_factory=dict)
    labels: tuple[Label, ...] = ()
    declared: bool = True
    ordered: bool = False
    beyond: str = ""
    spanned: Span | None = None

    @classmethod
    def of(cls, cells: Cells, weights: NDArray[Any] | None = None, kind: Kind = "") -> ColumnSummary:
        """Return the summary of the cells of a column, each as often as its weight says."""
        held = cells.places if isinstance(cells, Categorical) else cells
        known = held >= 0 if isinstance(cells, Categorical) else held == held
        missing = len(held) - int(np.count_nonzero(known))
        if missing:
            held, weights = held[known], None if weights is None else weights[known]
        if isinstance(cells, TextColumn):
            found, texts = _counted(held, weights), np.array(cells.labels, object)
            return cls("", missing, {"O": _collected(texts[found.values], found.counts, found.weights)})
        if isinstance(cells, Categorical):
            if cells.declared or cells.labels != (False, True) or type(cells.labels[0]) is not bool:
                kind = "labels" if cells.declared else ""
                return cls(kind, missing, {}, cells.labels, cells.declared, cells.ordered)
            held = held.astype(np.bool_)
        found = _counted(held, weights)
        if found.values.dtype == np.uint64:
            # Too large for a label, which is said once it is known that the column has no labels given.
            return cls("", missing, {}, tuple(found.values.tolist()), declared=False)
        letter = held.dtype.kind if held.dtype.kind in "bfmM" else "i"
        return cls("truth" if letter == "b" else kind, missing, {letter: found})

    def __add__(self, other: ColumnSummary) -> ColumnSummary:
        both = [each.values for each in (self, other)]
        values = {
            letter: reduce(_joined, [each[letter] for each in both if letter in each])
            for letter in dict.fromkeys((*both[0], *both[1]))
        }
        labels = self.labels
        if labels != other.labels:
            labels = tuple(dict.fromkeys((*labels, *other.labels)))
        kind: Kind = self.kind if self.kind == other.kind else ""
        declared, beyond, spanned = self.declared and other.declared, self.beyond or other.beyond, None
        most = max(len(labels), *(len(part.values) for part in values.values()), 0)
        if beyond or most > MOST_DIFFERENT:
            cells = (*labels[:1], *(cell for part in values.values() for cell in part.values[:1].tolist()))
            values, labels, declared, beyond = {}, (), False, beyond or quoted(cells[0])
            one, two = self.span(), other.span()
            spanned = two if self.is_empty else one if other.is_empty else one + two if one and two else None
        missing, ordered = self.missing + other.missing, self.ordered or other.ordered
        return ColumnSummary(kind, missing, values, labels, declared, ordered, beyond, spanned)

    @property
    def is_empty(self) -> bool:
        """Whether no cell is known."""
        return not (self.beyond or self.labels or any(len(part.values) for part in self.values.values()))

    @property
    def holds_dates(self) -> bool:
        """Whether any cells are dates or durations by their type."""
        return bool(self.values.keys() & {"m", "M"} or (self.spanned is not None and self.spanned.unit))

    def span(self) -> Span | None:
        """Return what the cells span, where all are numbers, or all dates; else, and where there are none, None."""
        if self.beyond:
            return self.spanned
        if (dates := self.dates()) is not None:
            return Span.of(dates)
        seen = self._typed()
        known = {letter: part.values for letter, part in seen.values.items() if len(part.values)}
        if seen.labels or not known or not known.keys() <= {"i", "f"}:
            return None
        return reduce(_spans, map(Span.of, known.values()))

    def dates(self) -> NDArray[Any] | None:
        """Return the different cells where all are dates, or durations, or text that is dates in ISO form."""
        known = {letter: part.values for letter, part in self.values.items() if len(part.values)}
        if self.labels and not known and not self.declared:
            texts = [label for label in self.labels if isinstance(label, str)]
            return iso_dates(texts) if len(texts) == len(self.labels) else None
        if len(known) != 1 or self.labels:
            return None
        ((letter, values),) = known.items()
        if letter == "O":
            return iso_dates(tuple(map(str, values)))
        return values if are_dates(values) else None

    def together(self) -> ValueCounts | tuple[Label, ...] | None:
        """Return what all cells are: numbers, labels in the order of their states, or None where none is known.

        Truth values are the labels False and True. Among text, the number -1 marks a missing cell and is no label.
        """
        seen = self._typed()
        known = {letter: part for letter, part in seen.values.items() if len(part.values)}
        if not known.keys() & {"i", "f"}:
            if not seen.labels:
                return (False, True) if known or seen.kind == "truth" else None
            if seen.declared and not known:
                return seen.labels
        elif not seen.labels:
            whole = known["i"].values if "i" in known else np.zeros(1)
            exact = bool(whole[0] >= -MOST_WHOLE and whole[-1] <= MOST_WHOLE)
            if len(known) == 1 and (exact or not seen.missing):
                return next(iter(known.values()))
            if exact:
                # Truth values among numbers are 0 and 1.
                floats = [replace(part, values=part.values.astype(np.float64)) for part in known.values()]
                return reduce(_joined, floats)
        parts = [seen.labels, *(known[letter].values.tolist() for letter in "bif" if letter in known)]
        cells = [plain_label(cell, "a column") for part in parts for cell in part]
        if any(isinstance(cell, str) for cell in cells):
            cells = [cell for cell in cells if isinstance(cell, str | bool) or cell != -1]
        return in_order(tuple(dict.fromkeys(cells)))

    @property
    def is_continuous(self) -> bool:
        """Whether the column is one of numbers by its type, and some are no whole numbers."""
        known = self.values["f"].values if "f" in self.values else np.zeros(0)
        return self.kind == "numbers" and bool((np.isfinite(known) & (known != np.rint(known))).any())

    def _typed(self) -> ColumnSummary:
        """Return the same with text of a file as what it stands for."""
        if "O" not in self.values:
            return self
        texts = self.values["O"]
        written = tuple(map(str, texts.values))
        typed = typed_texts(written)
        rest = replace(self, values={letter: part for letter, part in self.values.items() if letter != "O"})
        if typed is None:
            return rest + ColumnSummary(labels=written, declared=False) if written else rest
        found = _collected(typed, texts.counts, texts.weights)
        return rest + ColumnSummary(values={typed.dtype.kind: found})


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
            lambda place, name: ColumnSummary() if name in skip else _summary(table, place, name, weights),
        )
        return cls(table.names, tuple(columns), table.container, table.count)

    @classmethod
    def unknown(cls, names: tuple[str, ...], container: str) -> Schema:
        """Return the schema of columns of which no more than their names is known."""
        return cls(names, tuple(ColumnSummary() for _ in names), container, 0)

    @classmethod
    def of_types(cls, X: ArrayLike | Any) -> Schema:
        """Return what the types of the columns of some rows say; some, such as lists, say nothing."""
        table = table_of(X, least=0)
        columns = []
        for place, name in enumerate(table.all_names):
            summary = ColumnSummary()
            # A column of lists, say, may be one that nobody needs.
            with suppress(DataError):
                summary = _summary(table, place, name)
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

    def settles(self, given: Collection[str] = (), codes: Collection[str] = ()) -> bool:
        """Return whether types show all states, whatever the rows: declared categories and truth values.

        Labels of `given` columns are known; in columns of `codes`, those of a graph, numbers stand for themselves.
        """
        return all(
            name in given
            or column.kind == "truth"
            or (column.kind == "labels" and bool(column.labels))
            or (name in codes and column.kind == "numbers")
            for name, column in zip(self.all_names, self.columns, strict=True)
        )


def _summary(table: Table, place: int, name: str, weights: NDArray[Any] | None = None) -> ColumnSummary:
    return ColumnSummary.of(table.column(place, name), weights, "numbers" if table.holds_numbers(place) else "")


def _spans(one: Span, two: Span) -> Span:
    both = one + two
    assert both is not None, "integers and floats"
    return both


def _counted(cells: NDArray[Any], weights: NDArray[Any] | None) -> ValueCounts:
    """Return the different ones of known cells, as truth values, or integers or floats of 64 bits."""
    kind = cells.dtype.kind
    if are_dates(cells):
        return _collected(cells, np.ones(len(cells), np.int64), weights)
    if kind != "f" and len(cells):
        least, most = int(cells.min()), int(cells.max())
        if most < 2**63 and most - least < NEAR + len(cells):
            places = cells.astype(np.int64) - least
            times = np.bincount(places, minlength=most - least + 1)
            came = np.flatnonzero(times)
            weighed = None if weights is None else _weighed(places, weights, most - least + 1)[came]
            values = came + least
            return ValueCounts(values.astype(np.bool_) if kind == "b" else values, times[came], weighed)
    wide = np.float64 if kind == "f" else np.uint64 if len(cells) and most >= 2**63 else np.int64
    return _collected(cells.astype(wide, copy=False), np.ones(len(cells), np.int64), weights)


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
