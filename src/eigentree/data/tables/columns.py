"""What a model knows of its columns: their names, their states, and what these are called."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from itertools import compress, pairwise
from numbers import Integral
from typing import TYPE_CHECKING, Any

import numpy as np

from eigentree.data.tables.column_kinds import graph_numbers, learned_meaning, stands_for_itself
from eigentree.data.tables.column_summary import Schema
from eigentree.data.tables.labels import UNKNOWN, Bins, Labels, states_of
from eigentree.data.tables.numbers import NUMBER_KINDS, LabelCodes, Numbers
from eigentree.data.tables.state_rules import (
    DEFAULT_OPTIONS,
    UNKNOWN_RULES,
    ReadOptions,
    checked_labels,
    given_kinds,
    given_labels,
    report_blanks,
    report_frequencies,
    report_names,
    without_codes,
)
from eigentree.data.tables.table import ARRAY, Table, each_column, extra_columns, shown_columns, table_of
from eigentree.errors import DataError, FileError, quoted, what_there_is
from eigentree.graphs.graph import check_graph
from eigentree.io.codec import FLAG, NUMBER, TEXT, TEXTS, VALUE, WHOLE, Field, Record, optional, tuple_of
from eigentree.validation import MOST_STATES

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from numpy.typing import ArrayLike

    from eigentree.arrays import Codes
    from eigentree.data.tables.cells import Label
    from eigentree.data.tables.column_summary import ColumnSummary
    from eigentree.data.tables.labels import Meaning
    from eigentree.data.tables.state_rules import ColumnKind, UnknownRule
    from eigentree.graphs.graph import LatentGraph
    from eigentree.io.codec import At

__all__ = ["Columns", "checked_columns", "columns_content", "columns_of", "require_columns"]


@dataclass(frozen=True)
class Columns:
    """The columns of a model, in the order of ``graph.observed``.

    Inside the package a cell is a code 0 … states-1, and the code after the last one, `states`, says that it is
    missing. Every table of operators has a slot for it, so a missing cell costs nothing. A column of numbers has
    one state; what its cells are is read beside their codes.

    Attributes
    ----------
    names : tuple of str
    states : tuple of int
        Number of states of each column.
    meanings : tuple of Labels, Bins, Numbers or None
        What the codes of each column stand for; None where they stand for themselves.
    unknown : {"error", "missing"}
        What a label is that a column does not have.
    container : str
        What held the rows that the columns were learned from; sampled rows come in the same.
    named : bool
        Whether the names are those of a frame.

    Examples
    --------
    >>> columns = Columns.learned([["yes", 0], ["no", 2], [None, 1]])
    >>> columns
    Columns(x0: 'no', 'yes'; x1: 0 … 2)
    >>> columns.labels("x0")
    ('no', 'yes')
    """

    names: tuple[str, ...]
    states: tuple[int, ...]
    meanings: tuple[Meaning | None, ...] = ()
    unknown: UnknownRule = field(default="error", compare=False)
    container: str = field(default=ARRAY, compare=False)
    named: bool = field(default=False, compare=False)

    def __post_init__(self) -> None:
        if not self.meanings:
            object.__setattr__(self, "meanings", (None,) * len(self.names))

    @classmethod
    def of(cls, graph: LatentGraph) -> Columns:
        """Return the columns that hold the observed variables of a graph, as plain codes."""
        return cls(graph.observed, tuple(graph.states[name] for name in graph.observed))

    @classmethod
    def learned(cls, X: ArrayLike | Any, options: ReadOptions = DEFAULT_OPTIONS) -> Columns:
        """Return the columns of some data.

        The columns of a frame keep their names; those of anything else are called x0, x1, …. The labels of a column
        are, in this order: those given, those declared by a categorical, the truth values, and else those that
        occur, sorted. Whole numbers 0, 1, … without a gap are codes, and stand for themselves, unless the rule of
        `column_kinds` says that they are numbers. The number -1 marks a missing cell where the other numbers of its
        column begin at 0, or are labels of text.

        Parameters
        ----------
        X : array-like of shape (rows, columns), a data frame, rows of letters, or their `Schema`
        options : ReadOptions

        Raises
        ------
        DataError
            When a column has no known cell, or looks continuous and `numeric` does not say what to do; the message
            names all such columns.
        """
        names = X.all_names if isinstance(X, Schema) else (X := table_of(X)).all_names
        if "" in names:
            raise DataError(f"column {names.index('')} has no name, counted from 0; rename or drop it")
        given = given_labels(options.categories, names)
        kinds = given_kinds(options.kinds, names)
        schema = X if isinstance(X, Schema) else Schema.of(X, options.sample_weight, given)

        def found(place: int, name: str) -> tuple[int, Meaning | None]:
            labels: Meaning | None = _given(name, given.get(name), kinds.get(name))
            if labels is None:
                seen = schema.columns[place]
                labels = learned_meaning(seen, name, options.numeric, kinds.get(name), schema.names is not None)
                if name not in kinds or isinstance(labels, Labels):
                    report_names(name, labels, schema.rows - seen.missing)
                report_blanks(name, labels)
            return without_codes(labels) if isinstance(labels, Labels) else (states_of(labels), labels)

        states, meanings = zip(*each_column(names, found), strict=True)
        made = cls(names, states, meanings, options.handle_unknown, schema.container, schema.names is not None)
        for name, own, meaning in zip(names, states, meanings, strict=True):
            if name not in given and name not in kinds:
                report_frequencies(name, meaning, states, own, schema.rows)
        return made

    def fitted_to(self, X: ArrayLike | Any, options: ReadOptions = DEFAULT_OPTIONS) -> Columns:
        """Return these columns, of a graph, with the labels that some data give to their states.

        Numbers are codes already, and in a frame labels too where these are 1 … states; text and categories are as
        many labels as the column has states. With
        ``numeric="emissions"`` a column of one state whose cells are different numbers is one of numbers, and so is
        one that ``options.kinds`` says is; it has one state then, whatever the graph has.

        Raises
        ------
        DataError
            When they are not; the message names all such columns.
        """
        table = X if isinstance(X, Schema) else table_of(X)
        given, numeric = given_labels(options.categories, self.names), options.numeric
        kinds = given_kinds(options.kinds, self.names)
        places = table.places(self.names)
        if extra := extra_columns(table.names, self.names):
            raise DataError(
                f"the graph has no observed variable for {shown_columns(extra)} of the frame; select its columns, "
                f"as with X[list(graph.observed)]"
            )
        # Numbers that are codes need no summary, which takes a pass over them.
        codes = [
            isinstance(table, Table)
            and table.holds_numbers(place)
            and name in self.of_codes(options)
            and not _begin_after_0(table, place, name, states)
            for name, place, states in zip(self.names, places, self.states, strict=True)
        ]
        if isinstance(table, Schema):
            schema = table
        else:
            known = [place for at, place in enumerate(places) if codes[at] or self.names[at] in given]
            schema = Schema.of(table, options.sample_weight, [table.all_names[place] for place in known])

        def found(at: int, name: str) -> Meaning | None:
            states, seen, kind = self.states[at], schema.columns[places[at]], kinds.get(name)
            labels: Meaning | None = _given(name, given.get(name), kind)
            single = numeric == "emissions" and kind is None and states == 1 and _are_numbers(seen)
            if labels is None and (single or kind in NUMBER_KINDS):
                return graph_numbers(seen, name, kind)
            if labels is None and not codes[at] and not stands_for_itself(seen, states, numeric):
                # In a graph a column of several states is categorical.
                labels = learned_meaning(seen, name, "error" if numeric == "emissions" else numeric, kind)
            elif labels is None and kind == "ordinal":
                labels = Labels(tuple(range(states)), ordered=True)
            if labels is not None and states_of(labels) != states:
                raise DataError(
                    f"column {name!r} has {states_of(labels)} states ({labels.described()}), but {states} in the "
                    f"graph; give all of them as categories={{{name!r}: [...]}}"
                )
            return without_codes(labels)[1] if isinstance(labels, Labels) else labels

        meanings = tuple(each_column(self.names, found))
        states = tuple(
            1 if isinstance(meaning, Numbers) else own for own, meaning in zip(self.states, meanings, strict=True)
        )
        named = table.names is not None
        return Columns(self.names, states, meanings, options.handle_unknown, table.container, named)

    def of_codes(self, options: ReadOptions) -> set[str]:
        """Return the columns of a graph whose cells are codes wherever they are numbers by their type."""
        if options.numeric == "quantiles":
            return set()
        several = [options.numeric == "error" or states > 1 for states in self.states]
        kinds = options.kinds or {}
        return {
            name
            for name, own in zip(self.names, several, strict=True)
            if own and kinds.get(name) not in NUMBER_KINDS
        }

    def reading(self, unknown: UnknownRule) -> Columns:
        """Return the columns with another rule for labels that they do not have."""
        return self if self.unknown == unknown else replace(self, unknown=unknown)

    def only(self, names: Collection[str]) -> Columns:
        """Return some of the columns, in the order in which they stand."""
        own = [name in names for name in self.names]
        return replace(
            self,
            names=tuple(compress(self.names, own)),
            states=tuple(compress(self.states, own)),
            meanings=tuple(compress(self.meanings, own)),
        )

    def with_column(self, place: int, name: str, states: int, meaning: Meaning | None) -> Columns:
        """Return the columns and one more, at a place among them."""

        def put(values: tuple[Any, ...], value: Any) -> tuple[Any, ...]:
            return (*values[:place], value, *values[place:])

        names, sizes = put(self.names, name), put(self.states, states)
        return replace(self, names=names, states=sizes, meanings=put(self.meanings, meaning))

    def are_of(self, graph: LatentGraph) -> bool:
        """Return whether these are the observed variables of a graph, with as many states."""
        plain = Columns.of(graph)
        return (self.names, self.states) == (plain.names, plain.states)

    @cached_property
    def number_places(self) -> tuple[int, ...]:
        """Where the columns of numbers stand."""
        return tuple(place for place, meaning in enumerate(self.meanings) if isinstance(meaning, Numbers))

    @property
    def numbers(self) -> tuple[str, ...]:
        """The names of the columns of numbers."""
        return tuple(self.names[place] for place in self.number_places)

    def require_states(self) -> None:
        """Raise `DataError` where a column is one of numbers: these have densities, and no states to be counted."""
        if self.numbers:
            raise DataError(
                f"{shown_columns(self.numbers)} of numbers cannot be counted, which this needs; read numbers as "
                f"bins with numeric='quantiles', or use EMJunctionTree or LatentClassModel, which have densities"
            )

    @property
    def plain(self) -> bool:
        """Whether all codes stand for themselves."""
        return not any(self.meanings)

    @cached_property
    def code_type(self) -> np.dtype[Any]:
        """The smallest unsigned type that holds every code, the one for missing cells included."""
        return np.min_scalar_type(max(self.states))

    def __getstate__(self) -> dict[str, Any]:
        # What was worked out on the way is worked out again, so that a pickle does not depend on earlier queries.
        return {own.name: getattr(self, own.name) for own in fields(self)}

    @cached_property
    def _places(self) -> dict[str, int]:
        return {name: place for place, name in enumerate(self.names)}

    def position(self, name: str) -> int:
        """Return the place of a column; raise `DataError` where there is none of this name."""
        # By kind first: an array has no hash.
        if not isinstance(name, str) or name not in self._places:
            raise DataError(f"there is no column {quoted(name)}{what_there_is(name, self.names)}")
        return self._places[name]

    def labels(self, name: str) -> Sequence[Label]:
        """Return what the states of a column are called, in the order of their codes."""
        place = self.position(name)
        meaning = self.meanings[place]
        return range(self.states[place]) if meaning is None else meaning.labels

    def missing(self, rows: int) -> Codes:
        """Return the codes of rows without any known cell, shape (rows, columns), column-major."""
        codes = np.empty((rows, len(self.states)), self.code_type, order="F")
        codes[:] = self.states
        return codes

    def evidence(self, given: Mapping[str, Any]) -> Codes:
        """Return the codes of one row that holds what is given by name, all other cells missing."""
        codes = self.missing(1)
        for name, code in self.given_codes(given).items():
            codes[0, self.position(name)] = code
        return codes

    def given_codes(self, given: Mapping[str, Any]) -> dict[str, int]:
        """Return the code of each value that is given by name; errors as for `evidence`."""
        return {name: self._code(name, value) for name, value in self._checked(given).items()}

    def given_values(self, given: Mapping[str, Any]) -> dict[str, float]:
        """Return the numbers that are given by name, dates as days, without what is given of other columns.

        Raises
        ------
        DataError
            When what is given of a column of numbers is none.
        """
        own = {name: self.meanings[self.position(name)] for name in self._checked(given)}
        self.given_codes({name: given[name] for name, meaning in own.items() if isinstance(meaning, Numbers)})
        return {name: meaning.number(given[name]) for name, meaning in own.items() if isinstance(meaning, Numbers)}

    def _checked(self, given: Any) -> Mapping[str, Any]:
        if not isinstance(given, Mapping):
            raise DataError(
                f"given is a mapping of names to states, such as {{{self.names[0]!r}: 0}}, not {quoted(given)}"
            )
        return given

    def _code(self, name: str, value: Any) -> int:
        place = self.position(name)
        states, meaning = self.states[place], self.meanings[place]
        if meaning is not None:
            if (code := meaning.code(value)) == UNKNOWN:
                raise DataError(
                    f"{name!r} is given as {quoted(value)}, but has {meaning.described()}; "
                    f"leave a variable out of given when it is not known"
                )
            return code
        whole = isinstance(value, Integral) or (isinstance(value, float | np.floating) and value % 1 == 0)
        if not whole or not 0 <= value < states:
            raise DataError(
                f"{name!r} is given as {quoted(value)}, but has the codes 0 to {states - 1}; "
                f"leave a variable out of given when it is not known"
            )
        return int(value)

    def described(self, most: int = 30) -> str:
        """Return what each column is, in one line; of more columns than `most`, those that come first.

        Examples
        --------
        >>> Columns.learned([["yes", 0], ["no", 2], [None, 1]]).described()
        "x0: 'no', 'yes'; x1: 0 … 2"
        """
        shown = []
        for name, states, meaning in list(zip(self.names, self.states, self.meanings, strict=True))[:most]:
            known = f"0 … {states - 1}" if states > 1 else "0"
            if isinstance(meaning, Numbers):
                known = meaning.kind
            elif meaning is not None:
                between = " < " if isinstance(meaning, Labels) and meaning.ordered else ", "
                known = between.join([*map(repr, meaning.labels[:6]), *(["…"] if states > 6 else [])])
            shown.append(f"{name}: {known}")
        return "; ".join([*shown, *(["…"] if len(self.names) > most else [])])

    def __repr__(self) -> str:
        return f"Columns({self.described(8)})"


def _given(name: str, labels: Labels | None, kind: ColumnKind | None) -> Labels | None:
    """Return the labels that a user gave for a column, which is of a kind that the user may have said too."""
    if labels is not None and kind in NUMBER_KINDS:
        raise DataError(
            f"column {name!r} has labels, as its categories say, and is {kind}, as kinds say; leave one out"
        )
    return labels if labels is None or kind != "ordinal" else replace(labels, ordered=True)


def _begin_after_0(table: Table, place: int, name: str, states: int) -> bool:
    """Return whether the numbers of a column of a frame may be labels such as 1 … states, and no codes."""
    if table.names is None or not isinstance(cells := table.column(place, name), np.ndarray):
        return False
    # Neither takes notice of NaN, and codes mostly have a 0, so that one pass is enough.
    return bool(len(cells) and np.fmin.reduce(cells) > 0 and np.fmax.reduce(cells) >= states)


def _are_numbers(seen: ColumnSummary) -> bool:
    """Return whether the cells of a column are numbers or dates, and more than one; -1 may mark a missing cell."""
    span = seen.span()
    return span is not None and span.least < span.most and (span.least != -1 or span.above < span.most)


LABELS = Record(
    "labels", {"labels": tuple_of(VALUE), "declared": FLAG, "ordered": FLAG}, attributes={"labels": "values"}
)

BINS = Record(
    "bins",
    {"edges": tuple_of(NUMBER), "least": NUMBER, "most": NUMBER, "typical": tuple_of(NUMBER), "whole": FLAG},
)

DATE_TYPE = r"(datetime64|timedelta64)\[(\d*)(D|h|m|s|ms|us|ns)\]"
"""Numpy's types of dates and durations."""

NUMBERS = Record(
    "numbers", {"kind": TEXT, "whole": FLAG, "least": NUMBER, "most": NUMBER, "step": NUMBER, "unit": TEXT}
)


def _meaning(_: Any, content: Any, at: At) -> Meaning:
    if isinstance(content, dict) and "coded" in content:
        coded = _meaning(None, content["coded"], at)
        if not isinstance(coded, Labels):
            raise FileError(f"{at.where}: codes are those of labels")
        return LabelCodes.of_labels(coded)
    if isinstance(content, dict) and "kind" in content:
        return _numbers(NUMBERS.read(None, content), at)
    if isinstance(content, dict) and "labels" in content:
        labels = LABELS.read(None, content)
        return Labels(checked_labels(labels["values"], "a column").values, labels["declared"], labels["ordered"])
    bins = Bins(**BINS.read(None, content))
    rising = all(a < b for a, b in pairwise(bins.edges)) and len(bins.typical) == len(bins.edges) + 1
    if not rising or not np.isfinite((bins.least, *bins.edges, bins.most, *bins.typical)).all():
        raise FileError(f"{at.where}: the edges of bins are not in order, or not finite")
    return bins


def _numbers(content: dict[str, Any], at: At) -> Numbers:
    numbers = Numbers(**content)
    ordered = numbers.least <= numbers.most and 0 <= numbers.step < np.inf
    if numbers.kind not in NUMBER_KINDS or not ordered:
        raise FileError(f"{at.where}: numbers are of a kind that there is not, or have no range")
    if not re.fullmatch(DATE_TYPE if numbers.kind == "date" else "", numbers.unit):
        raise FileError(f"{at.where}: dates have a type of numpy, and other numbers have none")
    return numbers


def _write_meaning(_: Any, __: str, value: Meaning) -> Any:
    if isinstance(value, LabelCodes):
        return {"coded": LABELS.write(None, value.coded)}
    return (LABELS if isinstance(value, Labels) else BINS if isinstance(value, Bins) else NUMBERS).write(
        None, value
    )


MEANING = Field(_write_meaning, _meaning)


def require_columns(columns: Any, graph: LatentGraph) -> None:
    """Raise `DataError` unless these are columns, and those of a graph."""
    if not isinstance(columns, Columns):
        raise DataError(f"columns are those of a model, its columns_, not {quoted(columns)}")
    check_graph(graph)
    if columns.names != graph.observed:
        raise DataError(
            f"{shown_columns(columns.names)} are not the columns of the graph, {shown_columns(graph.observed)}"
        )


COLUMNS = Record(
    "a description of columns",
    {
        "names": TEXTS,
        "states": tuple_of(WHOLE),
        "meanings": tuple_of(optional(MEANING)),
        "unknown": TEXT,
        "container": TEXT,
        "named": FLAG,
    },
)


def columns_content(columns: Columns) -> dict[str, Any]:
    """Return the document of columns."""
    return COLUMNS.write(None, columns)


def columns_of(content: Any) -> Columns:
    """Return the columns of a document, once names, states and labels fit each other; else raise `FileError`."""
    columns = Columns(**COLUMNS.read(None, content))
    fits = len(columns.names) == len(set(columns.names)) == len(columns.states) == len(columns.meanings) > 0
    if (
        not fits
        or columns.unknown not in UNKNOWN_RULES
        or not all(0 < own <= MOST_STATES for own in columns.states)
    ):
        raise FileError("columns have names, states and labels that do not fit each other")
    for states, meaning in zip(columns.states, columns.meanings, strict=True):
        if meaning is not None and states_of(meaning) != states:
            raise FileError("a column has one label per state")
    return columns


def checked_columns(content: Any, graph: LatentGraph) -> Columns:
    """Return the columns of a document, once they are those of a graph."""
    columns = columns_of(content)
    if not columns.are_of(graph):
        raise FileError("the columns are not those of the graph")
    return columns
