"""The levels of the numbers of a table, and rows as levels: what is counted of them, and what a model scores."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from eigentree.counting.levels.hats import LEVELS, HatScale, level_codes
from eigentree.data.streams.encoded_stream import Encoded
from eigentree.data.tables.columns import Columns
from eigentree.data.tables.numbers import Numbers
from eigentree.data.tables.rows import Rows

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from eigentree.arrays import Codes, Floats

__all__ = [
    "MOST_VALUES",
    "NumberSample",
    "column_step",
    "level_chunks",
    "level_rows",
    "number_scales",
    "with_states",
]

MOST_VALUES = 2**18
"""Most different numbers of a column from which its smooth density is learned: their cdf errs by 0.001 at most."""


def number_scales(rows: Rows | Encoded, weights: NDArray[Any] | None) -> tuple[HatScale | None, ...]:
    """Return the levels of each column of numbers, None for other columns; () where there are no numbers.

    They do not depend on the order or the split of the rows.
    """
    columns = rows.columns
    if not columns.numbers:
        return ()
    if isinstance(rows, Encoded):
        sample = rows.summed(_sampled)
    else:
        sample = NumberSample.empty(len(columns.numbers)).update(rows.values(), weights)
    found: list[HatScale | None] = [None] * len(columns.names)
    for place, values, counted in zip(columns.number_places, sample.values, sample.weights, strict=True):
        found[place] = HatScale.of(values, counted, column_step(columns, place))
    return tuple(found)


def column_step(columns: Columns, place: int) -> float:
    """Return what the numbers of a column are multiples of; 0 where they are of nothing."""
    numbers = columns.meanings[place]
    return numbers.step if isinstance(numbers, Numbers) else 0.0


def _sampled(rows: Encoded) -> NumberSample:
    sample = NumberSample.empty(len(rows.columns.numbers))
    for _, values, weights in rows.parts():
        sample = sample.update(values, weights)
    return sample


@dataclass(frozen=True, eq=False)
class NumberSample:
    """The different numbers of some columns, each with how often it occurs; of too many those of smallest hashes.

    Samples of parts of the rows add up to that of all rows, whatever the parts.

    Attributes
    ----------
    values : tuple of array
        Sorted.
    weights : tuple of array
    """

    values: tuple[Floats, ...]
    weights: tuple[Floats, ...]

    @classmethod
    def empty(cls, columns: int) -> NumberSample:
        """Return the sample when no rows were seen."""
        return cls((np.zeros(0),) * columns, (np.zeros(0),) * columns)

    def update(self, values: Floats, weights: NDArray[Any] | None) -> NumberSample:
        """Return the sample with more rows seen, shape (rows, columns); NaN is a missing cell."""
        each = np.ones(len(values)) if weights is None else weights.astype(np.float64)
        known = [~np.isnan(column) & (each > 0) for column in values.T]
        columns = [column[own] for column, own in zip(values.T, known, strict=True)]
        return self + NumberSample(tuple(columns), tuple(each[own] for own in known))

    def __add__(self, other: NumberSample) -> NumberSample:
        made = [
            _merged(np.concatenate(values), np.concatenate(weights))
            for values, weights in zip(
                zip(self.values, other.values, strict=True),
                zip(self.weights, other.weights, strict=True),
                strict=True,
            )
        ]
        return NumberSample(tuple(values for values, _ in made), tuple(weights for _, weights in made))


def _merged(values: Floats, weights: Floats) -> tuple[Floats, Floats]:
    # -0 and 0 are one number.
    different, inverse = np.unique(values + 0.0, return_inverse=True)
    totals: Floats = np.asarray(np.bincount(inverse, weights, len(different)), np.float64)
    if len(different) > MOST_VALUES:
        kept = np.sort(np.argpartition(_hashes(different), MOST_VALUES)[:MOST_VALUES])
        different, totals = different[kept], totals[kept]
    return different, totals


def _hashes(values: Floats) -> NDArray[np.uint64]:
    """Return a hash of each number, different for different numbers (the finaliser of SplitMix64)."""
    bits = values.view(np.uint64).copy()
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        bits ^= bits >> np.uint64(shift)
        bits *= np.uint64(factor)
    return bits ^ (bits >> np.uint64(31))


def with_states(columns: Columns, scales: Sequence[HatScale | None], states: int) -> Columns:
    """Return columns in which those of numbers have so many states, and no meaning of their own."""
    if not any(scales):
        return columns
    every = zip(scales, columns.states, columns.meanings, strict=True)
    made = [(states, None) if scale is not None else (own, meaning) for scale, own, meaning in every]
    sizes, meanings = zip(*made, strict=True)
    return replace(columns, states=sizes, meanings=meanings)


def level_rows(rows: Rows, scales: Sequence[HatScale | None]) -> Rows:
    """Return rows in which numbers are codes of their levels."""
    columns = with_states(rows.columns, scales, LEVELS)
    plain = Columns(columns.names, columns.states)
    return Rows.of_codes(level_codes(rows.encode(), rows.values(), scales), plain)


def level_chunks(rows: Encoded, scales: Sequence[HatScale | None]) -> Iterator[tuple[Codes, NDArray[Any] | None]]:
    """Yield codes, of numbers their levels, and weights of rows that are not in memory."""
    for codes, values, weights in rows.parts():
        yield level_codes(codes, values, scales), weights
