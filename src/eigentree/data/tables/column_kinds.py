"""What a column is, as its cells show: one rule, which a user can override column by column.

The rule where an estimator has densities for numbers (``numeric="emissions"``):

1. Text, categories and truth values are categorical; categories that are declared in an order keep it (ordinal).
2. Codes 0 … k-1 without a gap, in a named column at most 12, are categorical, and so are numbers of which at most
   12 differ, each in 5 rows on average.
3. Other whole numbers, none negative and 0 or 1 among them, are a count. Among codes and counts -1 marks a missing
   cell, of which the user of a named column is warned.
4. Dates, durations, and text of which each cell is a date as 2024-02-29, are dates, numbers of days.
5. All other numbers are continuous; of whole numbers that may name the rows the user is warned.

Without densities (``"error"``, ``"quantiles"``) numbers are labels, an error where they look continuous, or bins.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np

from eigentree.data.tables.cells import check_states, plain_label
from eigentree.data.tables.column_summary import MOST_DIFFERENT, ValueCounts
from eigentree.data.tables.labels import FEW_ROWS_EACH, MANY_NUMBERS, Bins, Labels, looks_continuous
from eigentree.data.tables.numbers import NUMBER_KINDS, LabelCodes, Numbers, Span
from eigentree.data.tables.state_rules import is_frequency
from eigentree.errors import DataError, quoted
from eigentree.messages import notice

if TYPE_CHECKING:
    from collections.abc import Sequence

    from eigentree.data.tables.column_summary import ColumnSummary
    from eigentree.data.tables.labels import Meaning
    from eigentree.data.tables.state_rules import ColumnKind, NumericRule

__all__ = ["graph_numbers", "learned_meaning", "stands_for_itself"]

FEW_NUMBERS = 12
"""Of no more different numbers each can be a category: months, grades and answers on scales have no more, and
lengths or prices that were rounded soon have."""

CHANCE_REPEATS = 10
"""Whole numbers that are all different name the rows where chance alone would have repeated so many of them."""

LONG_NAMES = 8
"""Digits of whole numbers that, all different and equally long, are numbers of orders, customers or telephones."""

_WITH_COMMAS = re.compile(r"\s*[+-]?[0-9]+(,[0-9]+)*(\.[0-9]*)?\s*")
_THOUSANDS = re.compile(r"\s*[+-]?[0-9]{1,3}(,[0-9]{3})*(\.[0-9]*)?\s*")


def learned_meaning(
    seen: ColumnSummary, name: str, numeric: NumericRule, kind: ColumnKind | None = None, named: bool = True
) -> Meaning:
    """Return what the cells of a column are, by its summary; weights count for bins only.

    A kind that the user said takes the place of the rule. Columns without names of their own may hold any number of
    codes, as sampled rows do.
    """
    if kind == "covariate":
        if seen.span() is not None:
            return graph_numbers(seen, name, "continuous")
        labels = learned_meaning(seen, name, numeric, "categorical", named)
        assert isinstance(labels, Labels)
        return LabelCodes.of_labels(labels)
    if kind in NUMBER_KINDS or (
        kind is None and numeric == "emissions" and seen.beyond and seen.span() is not None
    ):
        return graph_numbers(seen, name, kind)
    if seen.beyond:
        raise DataError(
            f"column {name!r} holds more than {MOST_DIFFERENT:,} different cells, such as {seen.beyond}, too many "
            f"to keep where rows come in parts; round or join them first, leave the column out, or give its labels "
            f"as categories={{{name!r}: [...]}}"
        )
    if numeric == "emissions" and kind is None and seen.dates() is not None:
        return graph_numbers(seen, name)
    for letter in seen.values.keys() & {"m", "M"}:
        check_states(seen.values[letter].values, name)
    found = seen.together()
    if found is None:
        raise _without_cells(name)
    if not isinstance(found, ValueCounts):
        _report_commas(name, [label for label in found if isinstance(label, str)])
        declared = seen.declared and found == seen.labels
        ordered = kind == "ordinal" or (declared and seen.ordered)
        return Labels(tuple(plain_label(label, name) for label in found), declared, ordered)
    _check_finite(found, name)
    known = known_numbers(found)
    if not len(known.values):
        raise _without_cells(name)
    if kind is None and numeric == "emissions" and not _are_few(found, named):
        if _name_rows(known):
            notice(
                f"column {name!r} holds {len(known.values)} different whole numbers in as many rows, such as "
                f"{known.values[0].item()!r}, as an identifier does; drop the column, or, of a measurement, give "
                f"its density as emissions={{{name!r}: 'gaussian'}} (it is read as numbers)"
            )
        numbers = Numbers.of(Span.of(found.values))
        if named and numbers.kind == "count":
            _report_minus_one(name, found, known, f"emissions={{{name!r}: 'gaussian'}}")
        return numbers
    if kind is None and numeric != "emissions" and looks_continuous(known.values, int(known.counts.sum())):
        if numeric == "quantiles":
            if is_identifier(known, consecutive=True):
                notice(f"column {name!r} is an identifier, which numbers the rows; drop it (it is cut into bins)")
            weighed = found.weights is not None and found.weights.any()
            return Bins.of(found.values, found.weights if weighed else found.counts)
        raise _continuous(name, known)
    if named:
        _report_minus_one(name, found, known, f"categories={{{name!r}: [-1, 0, …]}}")
    return Labels(tuple(plain_label(number, name) for number in known.values.tolist()), ordered=kind == "ordinal")


def graph_numbers(seen: ColumnSummary, name: str, kind: ColumnKind | None = None) -> Numbers:
    """Return the numbers of a column that is one of numbers, whatever they look like; of a kind, if one is given.

    Raises
    ------
    DataError
        When they are none, or not of that kind.
    """
    span = seen.span()
    if span is None:
        # Declared categories may be numbers.
        found = None if seen.beyond or seen.is_empty else seen.together()
        if found is None:
            raise _no_numbers(name, kind, seen.beyond) if seen.beyond else _without_cells(name)
        others = [label for label in found if isinstance(label, str | bool)] if isinstance(found, tuple) else []
        if others or not isinstance(found, tuple):
            raise _no_numbers(name, kind, quoted(others[0]) if others else "dates beside other cells")
        span = Span.of(np.array(found, np.float64))
    if not np.isfinite((span.least, span.most)).all():
        infinite = span.least if np.isinf(span.least) else span.most
        raise DataError(f"column {name!r} holds {infinite}; mark missing cells as NaN")
    if span.unit and kind == "continuous":
        kind = "date"
    if bool(span.unit) != (kind == "date") and kind is not None:
        raise _no_numbers(name, kind, "dates" if span.unit else "numbers")
    if kind == "count" and not (span.whole and (span.least >= 0 or (span.least == -1 and np.isfinite(span.above)))):
        raise _no_numbers(name, kind, f"numbers such as {span.least!r}" if span.least < 0 else "fractions")
    return Numbers.of(span, kind)  # type: ignore[arg-type]


def _no_numbers(name: str, kind: str | None, held: str) -> DataError:
    what = {"count": "no count", "continuous": "not continuous", "date": "no date"}.get(
        kind or "", "not of numbers"
    )
    wanted = {"count": "whole numbers, none negative", "date": "dates, durations, or text such as '2024-02-29'"}
    needed = wanted.get(kind or "", "numbers")
    return DataError(f"column {name!r} is {what}: it holds {held}; give {needed} there, or another family")


def _check_finite(found: ValueCounts, name: str) -> None:
    if not np.isfinite(found.values).all():
        infinite = found.values[~np.isfinite(found.values)][0]
        raise DataError(f"column {name!r} holds {infinite}, which is no state; mark missing cells as NaN")


def _are_few(found: ValueCounts, named: bool) -> bool:
    """Return whether numbers are codes, or so few that each is a category."""
    known = known_numbers(found)
    different, rows = len(known.values), int(known.counts.sum())
    if different > MOST_DIFFERENT:
        return False
    codes = known.values[0] == 0 and known.values[-1] == different - 1 and _whole(known)
    if codes and (different <= FEW_NUMBERS or not (named or looks_continuous(known.values, rows))):
        return True
    # Two numbers have no distribution between them.
    return different <= 2 or (different <= FEW_NUMBERS and rows >= FEW_ROWS_EACH * different)


def _name_rows(known: ValueCounts) -> bool:
    """Return whether all known cells are different whole numbers, as identifiers are and prices are not."""
    different = len(known.values)
    if not MANY_NUMBERS < different <= MOST_DIFFERENT or not is_identifier(known):
        return False
    least, most = float(known.values[0]), float(known.values[-1])
    # Of n numbers among R about n² / 2R pairs are equal by chance.
    if different**2 > 2 * CHANCE_REPEATS * (most - least + 1):
        return True
    return least >= 10 ** (LONG_NAMES - 1) and len(str(int(least))) == len(str(int(most)))


def _whole(known: ValueCounts) -> bool:
    return bool((known.values == np.rint(known.values)).all())


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
    weight = "; or give it as sample_weight if it says how often each row came" if is_frequency(name) else ""
    return DataError(
        f"column {name!r} looks continuous: {len(known.values)} different numbers in {rows} "
        f"rows, such as {example!r}; {bins}, or give its values as categories={{{name!r}: [...]}} if they are "
        f"labels{weight}"
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


def known_numbers(numbers: ValueCounts) -> ValueCounts:
    """Return the known cells of a column of numbers.

    Among codes, which begin at 0, the number -1 marks a missing cell; among other numbers it is one of them.
    """
    rest = numbers.values != -1
    others = numbers.values[rest]
    if len(others) and others.min() != 0:
        return numbers
    return ValueCounts(others, numbers.counts[rest], None if numbers.weights is None else numbers.weights[rest])


def _report_minus_one(name: str, found: ValueCounts, known: ValueCounts, otherwise: str) -> None:
    """Warn where -1 is read as a missing cell, since it may also be an answer, as on a scale from -1 to 1."""
    if len(known.values) < len(found.values):
        notice(
            f"column {name!r} holds -1, which is read as a missing cell; write NaN where it is one, or give "
            f"{otherwise} where it is none"
        )


def stands_for_itself(seen: ColumnSummary, states: int, numeric: NumericRule) -> bool:
    """Return whether the cells of a graph's column are codes already.

    Numbers without a 0, of which as many differ as the graph has states, and which go beyond its codes, are labels.
    """
    if numeric != "quantiles" and seen.kind == "numbers" and seen.beyond:
        return True
    if seen.beyond or seen.holds_dates:
        return False
    found = seen.together()
    if found is None:
        return True
    if not isinstance(found, ValueCounts):
        return all(isinstance(label, int) and 0 <= label < states for label in found)
    known = known_numbers(found)
    if numeric != "quantiles" and seen.kind == "numbers":
        return not (len(known.values) == states and known.values[0] >= 1 and known.values[-1] >= states)
    return numeric != "quantiles" or not looks_continuous(known.values, int(known.counts.sum()))
