"""How a user wants the cells of columns read, and what is said of columns that may be meant otherwise."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

from eigentree.data.tables.cells import is_missing, plain_label
from eigentree.data.tables.column_summary import MOST_DIFFERENT
from eigentree.data.tables.labels import Labels, looks_like_names
from eigentree.data.tables.numbers import NUMBER_KINDS, Numbers
from eigentree.errors import DataError, ParameterError, did_you_mean, quoted
from eigentree.messages import notice
from eigentree.validation import a_mapping, one_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from eigentree.data.tables.cells import Label
    from eigentree.data.tables.labels import Meaning

__all__ = [
    "COLUMN_KINDS",
    "DEFAULT_OPTIONS",
    "UNKNOWN_RULES",
    "Categories",
    "ColumnKind",
    "NumericRule",
    "ReadOptions",
    "UnknownRule",
    "check_rules",
    "checked_labels",
    "given_kinds",
    "given_labels",
    "is_frequency",
    "report_blanks",
    "report_frequencies",
    "report_names",
    "without_codes",
]

MOST_LABELS = 2**20
"""Of a column."""

FREQUENCIES = ("freq", "frequency", "frequencies", "count", "counts", "n", "weight", "weights")
"""Names of columns that may say how often each row came."""

UnknownRule: TypeAlias = Literal["error", "missing"]
"""What a label is that a column does not have: an error, or a missing cell."""

NumericRule: TypeAlias = Literal["error", "quantiles", "emissions"]
"""What a continuous column is: an error, cut into bins that hold equally many rows, or numbers with a density."""

ColumnKind: TypeAlias = Literal["categorical", "ordinal", "count", "continuous", "date", "covariate"]
"""What a user can say that a column is; a covariate is read as numbers: of labels their codes."""

UNKNOWN_RULES, NUMERIC_RULES, COLUMN_KINDS = get_args(UnknownRule), get_args(NumericRule), get_args(ColumnKind)

Categories: TypeAlias = "Mapping[str, Iterable[Label]] | Iterable[Label]"
"""The labels of some columns by name, or those of every column."""


@dataclass(frozen=True, eq=False)
class ReadOptions:
    """How the cells of a table become states.

    Attributes
    ----------
    categories : mapping of str to sequence of labels, or one sequence, optional
        The labels of some columns, or those of all.
    numeric : {"error", "quantiles", "emissions"}
    handle_unknown : {"error", "missing"}
    sample_weight : array-like of shape (rows,), or the name of a column of a stream, optional
        How often each row counts, also where numbers are cut into bins.
    kinds : mapping of str to {"categorical", "ordinal", "count", "continuous", "date"}, optional
        What some columns are, by name, in place of what they look like.
    """

    categories: Categories | None = None
    numeric: NumericRule = "error"
    handle_unknown: UnknownRule = "error"
    sample_weight: Any = None
    kinds: Mapping[str, ColumnKind] | None = None

    def __post_init__(self) -> None:
        check_rules(self.handle_unknown, self.numeric)
        if self.kinds is not None:
            a_mapping("kinds", self.kinds, "{'age': 'count'}", ParameterError)
            for name, kind in self.kinds.items():
                one_of(f"kinds[{name!r}]", kind, COLUMN_KINDS)
                if kind in NUMBER_KINDS and self.numeric != "emissions":
                    raise ParameterError(
                        f"column {name!r} is to be {kind}, but numeric={self.numeric!r} reads no columns of "
                        f"numbers; give numeric='emissions' to an estimator that has densities, or call the "
                        f"column 'categorical'"
                    )

    @classmethod
    def of(cls, estimator: Any, sample_weight: Any = None) -> ReadOptions:
        """Return the options that an estimator has as parameters."""
        kinds = getattr(estimator, "_column_kinds", None)
        return cls(estimator.categories, estimator.numeric, estimator.handle_unknown, sample_weight, kinds or None)


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


def given_kinds(kinds: Mapping[str, ColumnKind] | None, names: Sequence[str]) -> Mapping[str, ColumnKind]:
    """Return what a user said that columns are, by name."""
    for name, kind in (kinds or {}).items():
        if name not in names:
            what = {"covariate": "covariates", "categorical": "group, known_class or emissions"}.get(
                kind, "emissions"
            )
            raise DataError(f"{what} name {quoted(name)}, which is no column{did_you_mean(name, names)}")
    return kinds or {}


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


def is_frequency(name: str) -> bool:
    """Return whether a column is named as those are that say how often each row came."""
    return name.casefold() in FREQUENCIES


def report_frequencies(name: str, meaning: Meaning | None, states: Sequence[int], own: int, rows: int) -> None:
    """Warn where a column of whole numbers is named as frequencies are, beside rows that may all differ.

    `states` are those of all columns, and `own` those of this.
    """
    if not is_frequency(name) or len(states) == 1 or rows > math.prod(states) // own:
        return
    numbers = isinstance(meaning, Numbers)
    labels = () if meaning is None else meaning.labels
    if meaning.kind == "count" if isinstance(meaning, Numbers) else all(type(x) is int and x >= 0 for x in labels):
        notice(
            f"column {name!r} holds whole numbers, which are read as {'counts' if numbers else 'labels'}; if they "
            f"say how often each row came, drop the column and give it as sample_weight"
        )


def report_names(name: str, meaning: Meaning, cells: int) -> None:
    """Warn where a column with so many known cells names its rows: each label goes with what is beside it."""
    if isinstance(meaning, Labels) and looks_like_names(len(meaning.values), cells):
        notice(
            f"column {name!r} is an identifier: {len(meaning.values)} different labels in {cells} rows, which are "
            f"not informative about new rows and mislead a learned structure; drop the column, join labels, or "
            f"convert text to dates (2024-01-31) or numbers"
        )
    elif isinstance(meaning, Numbers) and cells == meaning.most - meaning.least + 1 > MOST_DIFFERENT:
        # Of so many cells it is not known which are equal.
        notice(
            f"column {name!r} holds {cells} whole numbers, from {meaning.least:.0f} to {meaning.most:.0f}, as an "
            f"identifier does; drop the column, or, of a measurement, give its density as "
            f"emissions={{{name!r}: 'gaussian'}} (it is read as numbers)"
        )


def report_blanks(name: str, meaning: Meaning) -> None:
    """Warn where labels of a column differ in nothing but the blanks around them."""
    seen: dict[str, str] = {}
    for label in meaning.values if isinstance(meaning, Labels) else ():
        if isinstance(label, str) and (other := seen.setdefault(label.strip(), label)) != label:
            notice(
                f"column {name!r} has the labels {quoted(other)} and {quoted(label)}, which differ in blanks only; "
                f"strip them if they mean the same"
            )
            return


def without_codes(labels: Labels) -> tuple[int, Labels | None]:
    """Return the number of states, and the labels unless they are the codes themselves."""
    states = len(labels.values)
    same = all(type(value) is int and value == code for code, value in enumerate(labels.values))
    return states, None if same and not labels.declared and not labels.ordered else labels
