"""Which states a column has: those that a user gave, those that were declared, or those that occur."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

import numpy as np

from eigentree.data.tables.cells import is_missing, plain_label
from eigentree.data.tables.column_summary import MOST_DIFFERENT, ValueCounts
from eigentree.data.tables.labels import Bins, Labels, looks_continuous, looks_like_names
from eigentree.errors import DataError, did_you_mean, quoted
from eigentree.messages import notice
from eigentree.validation import one_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from eigentree.data.tables.cells import Label
    from eigentree.data.tables.column_summary import ColumnSummary
    from eigentree.data.tables.labels import Meaning

__all__ = [
    "DEFAULT_OPTIONS",
    "UNKNOWN_RULES",
    "Categories",
    "NumericRule",
    "ReadOptions",
    "UnknownRule",
    "check_rules",
    "checked_labels",
    "given_labels",
    "known_numbers",
    "learned_meaning",
    "report_frequencies",
    "report_names",
    "stands_for_itself",
    "without_codes",
]

MOST_LABELS = 2**20
"""Of a column."""

FREQUENCIES = ("freq", "frequency", "frequencies", "count", "counts", "n", "weight", "weights")
"""Names of columns that may say how often each row came."""

_WITH_COMMAS = re.compile(r"\s*[+-]?[0-9]+(,[0-9]+)*(\.[0-9]*)?\s*")
_THOUSANDS = re.compile(r"\s*[+-]?[0-9]{1,3}(,[0-9]{3})*(\.[0-9]*)?\s*")

UnknownRule: TypeAlias = Literal["error", "missing"]
"""What a label is that a column does not have: an error, or a missing cell."""

NumericRule: TypeAlias = Literal["error", "quantiles"]
"""What a continuous column is: an error, or cut into bins that hold equally many rows."""

UNKNOWN_RULES, NUMERIC_RULES = get_args(UnknownRule), get_args(NumericRule)

Categories: TypeAlias = "Mapping[str, Iterable[Label]] | Iterable[Label]"
"""The labels of some columns by name, or those of every column."""


@dataclass(frozen=True, eq=False)
class ReadOptions:
    """How the cells of a table become states.

    Attributes
    ----------
    categories : mapping of str to sequence of labels, or one sequence, optional
        The labels of some columns, or those of all.
    numeric : {"error", "quantiles"}
    handle_unknown : {"error", "missing"}
    sample_weight : array-like of shape (rows,), or the name of a column of a stream, optional
        How often each row counts, also where numbers are cut into bins.
    """

    categories: Categories | None = None
    numeric: NumericRule = "error"
    handle_unknown: UnknownRule = "error"
    sample_weight: Any = None

    def __post_init__(self) -> None:
        check_rules(self.handle_unknown, self.numeric)

    @classmethod
    def of(cls, estimator: Any, sample_weight: Any = None) -> ReadOptions:
        """Return the options that an estimator has as parameters."""
        return cls(estimator.categories, estimator.numeric, estimator.handle_unknown, sample_weight)


def check_rules(handle_unknown: Any, numeric: Any = "error") -> None:
    """Raise `ParameterError` unless these are rules by which cells are read."""
    one_of("handle_unknown", handle_unknown, UNKNOWN_RULES)
    one_of("numeric", numeric, NUMERIC_RULES)


DEFAULT_OPTIONS = ReadOptions()
"""All labels are known from the data, and a continuous column is an error."""


def given_labels(categories: Categories | None, names: Sequence[str]) -> dict[str, Labels]:
    """Return the labels that a user gave for columns, by name."""
    if categories is None:
        return {}
    if not isinstance(categories, Mapping):
        if not isinstance(categories, Iterable):
            raise DataError(
                f"categories are labels for all columns, or a mapping of names to labels, not {quoted(categories)}"
            )
        return dict.fromkeys(names, checked_labels(categories, "each column"))
    for name in categories:
        if name not in names:
            raise DataError(f"categories name {quoted(name)}, which is no column{did_you_mean(name, names)}")
    return {name: checked_labels(labels, name) for name, labels in categories.items()}


def checked_labels(labels: Any, name: str) -> Labels:
    """Return labels in the order given; raise `DataError` unless they are different and at least one."""
    listable = isinstance(labels, Iterable) and not isinstance(labels, Mapping | Iterator)
    # Arrays without an axis say that they can be iterated over, and cannot.
    if not listable or hasattr(labels, "columns") or getattr(labels, "ndim", 1) == 0:
        raise DataError(f"categories of {name!r} are a list of labels, not {quoted(labels)}")
    # What is given may never end.
    listed = list(islice(labels, MOST_LABELS + 1))
    if len(listed) > MOST_LABELS:
        raise DataError(
            f"categories of {name!r} are more than {MOST_LABELS:,} labels; a column cannot have so many"
        )
    if any(is_missing(label) for label in listed):
        raise DataError(f"categories of {name!r} hold None or NaN, which mark a missing cell; leave it out")
    values = tuple(plain_label(label, name) for label in listed)
    if not values or len(set(values)) < len(values):
        raise DataError(f"categories of {name!r} are different labels, at least one, not {quoted(labels)}")
    return Labels(values)


def learned_meaning(seen: ColumnSummary, name: str, numeric: NumericRule) -> Meaning:
    """Return what the states of a column are, by its summary; weights count for bins only."""
    if seen.beyond:
        raise DataError(
            f"column {name!r} holds more than {MOST_DIFFERENT:,} different cells, such as {seen.beyond}, too many "
            f"to keep where rows come in parts; round or join them first, leave the column out, or give its labels "
            f"as categories={{{name!r}: [...]}}"
        )
    found = seen.together()
    if found is None:
        raise _without_cells(name)
    if not isinstance(found, ValueCounts):
        _report_commas(name, [label for label in found if isinstance(label, str)])
        declared = seen.declared and found == seen.labels
        return Labels(tuple(plain_label(label, name) for label in found), declared, declared and seen.ordered)
    known = known_numbers(found)
    if not len(known.values):
        raise _without_cells(name)
    if not np.isfinite(known.values).all():
        infinite = known.values[~np.isfinite(known.values)][0]
        raise DataError(f"column {name!r} holds {infinite}, which is no state; mark missing cells as NaN")
    if looks_continuous(known.values, int(known.counts.sum())):
        if numeric == "quantiles":
            if is_identifier(known, consecutive=True):
                notice(f"column {name!r} is an identifier, which numbers the rows; drop it (it is cut into bins)")
            weighed = found.weights is not None and found.weights.any()
            return Bins.of(found.values, found.weights if weighed else found.counts)
        raise _continuous(name, known)
    return Labels(tuple(plain_label(number, name) for number in known.values.tolist()))


def is_identifier(known: ValueCounts, consecutive: bool = False) -> bool:
    """Return whether all known cells are different whole numbers, as identifiers are; maybe one after the other."""
    whole = bool((known.counts == 1).all() and (known.values == np.rint(known.values)).all())
    return whole and (not consecutive or known.values[-1] - known.values[0] == len(known.values) - 1)


def _continuous(name: str, known: ValueCounts) -> DataError:
    rows = known.counts.sum()
    bins = "cut it into bins with numeric='quantiles', or yourself as with pandas.qcut"
    if is_identifier(known):
        return DataError(
            f"column {name!r} holds {rows} different whole numbers in {rows} rows, such as "
            f"{known.values[0].item()!r}, as an identifier does; drop the column, or, of a measurement, {bins}"
        )
    example = next((cell for cell in known.values.tolist() if cell % 1), known.values.tolist()[0])
    weight = "; or give it as sample_weight if it says how often each row came" if _is_frequency(name) else ""
    return DataError(
        f"column {name!r} looks continuous: {len(known.values)} different numbers in {rows} "
        f"rows, such as {example!r}; {bins}, or give its values as categories={{{name!r}: [...]}} if they are "
        f"labels{weight}"
    )


def _is_frequency(name: str) -> bool:
    return name.casefold() in FREQUENCIES


def report_frequencies(name: str, labels: Sequence[Label], states: Sequence[int], rows: int) -> None:
    """Warn where a column of whole numbers is named as frequencies are, beside rows that may all differ."""
    if not _is_frequency(name) or len(states) == 1 or rows > math.prod(states) // len(labels):
        return
    if all(type(label) is int and label >= 0 for label in labels):
        notice(
            f"column {name!r} holds whole numbers, which are read as labels; if they say how often each row came, "
            f"drop the column and give it as sample_weight"
        )


def _report_commas(name: str, labels: Sequence[str]) -> None:
    """Warn where text holds numbers, which commas kept from being read as such."""
    commas = [label for label in labels if "," in label]
    if commas and all(map(_WITH_COMMAS.fullmatch, labels)):
        option = "thousands=','" if all(map(_THOUSANDS.fullmatch, labels)) else "decimal=','"
        notice(
            f"column {name!r} holds numbers with commas, such as {commas[0]!r}, and is read as text; read its file "
            f"with {option} (eigentree.open_table), or make numbers of them first"
        )


def _without_cells(name: str) -> DataError:
    return DataError(
        f"column {name!r} has no known cell, so its states are unknown; drop it, or give "
        f"them as categories={{{name!r}: [...]}} or in a LatentGraph"
    )


def report_names(name: str, meaning: Meaning, cells: int) -> None:
    """Warn where a column with so many known cells names its rows: each label goes with what is beside it."""
    if isinstance(meaning, Labels) and looks_like_names(len(meaning.values), cells):
        notice(
            f"column {name!r} is an identifier: {len(meaning.values)} different labels in {cells} rows, which are "
            f"not informative about new rows and mislead a learned structure; drop the column, or join labels"
        )


def known_numbers(numbers: ValueCounts) -> ValueCounts:
    """Return the known cells of a column of numbers.

    Among codes, which begin at 0, the number -1 marks a missing cell; among other numbers it is one of them.
    """
    rest = numbers.values != -1
    others = numbers.values[rest]
    if len(others) and others.min() != 0:
        return numbers
    return ValueCounts(others, numbers.counts[rest], None if numbers.weights is None else numbers.weights[rest])


def stands_for_itself(seen: ColumnSummary, states: int, numeric: NumericRule) -> bool:
    """Return whether the cells of a graph's column are codes already."""
    if numeric == "error" and seen.kind == "numbers":
        return True
    if seen.beyond:
        return False
    found = seen.together()
    if found is None:
        return True
    if not isinstance(found, ValueCounts):
        return all(isinstance(label, int) and 0 <= label < states for label in found)
    known = known_numbers(found)
    return numeric == "error" or not looks_continuous(known.values, int(known.counts.sum()))


def without_codes(labels: Labels) -> tuple[int, Labels | None]:
    """Return the number of states, and the labels unless they are the codes themselves."""
    states = len(labels.values)
    same = all(type(value) is int and value == code for code, value in enumerate(labels.values))
    return states, None if same and not labels.declared else labels
