"""Rows with numbers that are not in memory: kept on disk in stretches of a fixed length, read one after another.

Stretches are those of rows in memory, however a stream is cut, and so are all sums: the objective is bit-identical.
What of a stretch does not depend on parameters is worked out again in each pass, for about the time of its E-step,
so that memory holds one stretch for each thread.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import TYPE_CHECKING, Any

import numpy as np

from eigentree.data.streams.encoded_stream import in_stretches
from eigentree.em.estep.unique_rows import margins
from eigentree.em.mixed import mixed_rows
from eigentree.em.mixed.mixed_objective import MixedLayout, MixedObjective, NumberObjective, Responsibilities
from eigentree.em.mixed.mixed_rows import MixedRows
from eigentree.em.out_of_core.parted_rows import OutOfCoreRows
from eigentree.em.out_of_core.stretch_file import StretchFile
from eigentree.inference.threads import in_order

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from eigentree.arrays import Floats, Integers
    from eigentree.data.streams.encoded_stream import Encoded
    from eigentree.em.mixed.number_columns import NumberColumns

__all__ = ["DiskNumbers", "NumberRows", "joined_rows"]


class NumberRows(OutOfCoreRows, ABC):
    """Rows with `numbers` that are not in memory; those without weight are left out."""

    numbers: NumberColumns

    def with_missing(self) -> frozenset[str]:
        """Return the categories with missing cells."""
        return super().with_missing() - set(self.numbers.names)

    @abstractmethod
    def taken(self, places: Integers) -> MixedRows:
        """Return the rows at some places among all, which rise."""

    @abstractmethod
    def objective(
        self,
        layout: MixedLayout,
        names: Sequence[str],
        missing: frozenset[str],
        pseudo_counts: float,
        places: Integers | None = None,
        threads: int = 1,
    ) -> NumberObjective:
        """Return the objective of all rows, or of those at some places.

        `names` are the number columns, those in `missing` may have missing cells.
        """


def joined_rows(parts: Sequence[MixedRows]) -> MixedRows:
    """Return the rows of several parts, in their order."""
    codes, values, weights, first = (np.concatenate(each) for each in zip(*parts, strict=True))
    return MixedRows(np.asfortranarray(codes), values, weights, first)


class DiskNumbers(NumberRows):
    """Rows with numbers that are read once, and then lie in a temporary file."""

    def __init__(self, numbers: NumberColumns, rows: Encoded) -> None:
        self.numbers = numbers
        self._file = _RowFile(numbers.parts(rows.parts()), numbers.states)
        self.count, self.margins = self._file.rows, self._file.margins

    def taken(self, places: Integers) -> MixedRows:
        """Return the rows at some places among all, which rise."""
        return joined_rows(list(self._chosen(places)))

    def _chosen(self, places: Integers) -> Iterator[MixedRows]:
        """Yield those at some places, stretch after stretch."""
        for number in range(self._file.stretches):
            first = number * self._file.size
            start, stop = np.searchsorted(places, [first, first + self._file.size])
            if stop > start:
                yield self._file.part(number).taken(places[start:stop] - first)

    def objective(
        self,
        layout: MixedLayout,
        names: Sequence[str],
        missing: frozenset[str],
        pseudo_counts: float,
        places: Integers | None = None,
        threads: int = 1,
    ) -> NumberObjective:
        """Return the objective of all rows, or of those at some places."""
        file = self._file if places is None else _RowFile(self._chosen(places), self.numbers.states)
        prior = layout.prior(file.margins, pseudo_counts)
        return DiskObjective(layout, tuple(names), file, missing, prior, threads)


@dataclass(frozen=True, eq=False)
class DiskObjective(NumberObjective):
    """The objective of rows with numbers on disk: one stretch after another is read and passed."""

    layout: MixedLayout
    names: tuple[str, ...]
    file: _RowFile
    missing: frozenset[str]
    prior: Floats
    threads: int

    @property
    def weight(self) -> float:
        """The total weight of the rows."""
        return self.file.weight

    def expected_parts(self, tables: Floats, emissions: Sequence[Any]) -> Responsibilities:
        """Return what the E-step finds in all rows; threads share the stretches."""

        def run(number: int) -> Responsibilities:
            return self._stretch(number).expected_parts(tables, emissions)

        return reduce(add, in_order(run, self.file.stretches, self.threads))

    def log_likelihood(self, parameters: Floats) -> float:
        """Return the log-likelihood of the rows; -inf if one is impossible."""
        return sum(
            in_order(
                lambda number: self._stretch(number).log_likelihood(parameters),
                self.file.stretches,
                self.threads,
            )
        )

    def _stretch(self, number: int) -> MixedObjective:
        rows = self.file.part(number)
        return MixedObjective.of(self.layout, self.names, rows, self.missing, 0.0)


class _RowFile(StretchFile):
    """Rows with numbers on disk."""

    def __init__(self, parts: Iterable[MixedRows], states: Mapping[str, int]) -> None:
        """Write rows, which come in parts of any sizes."""
        self.size, self.weight = mixed_rows.STRETCH, 0.0
        self.margins = {name: np.zeros(count + 1) for name, count in states.items()}
        super().__init__(self._counted(parts, states), self.size, "rows of numbers")

    def _counted(self, parts: Iterable[MixedRows], states: Mapping[str, int]) -> Iterator[MixedRows]:
        for arrays in in_stretches(parts, self.size):
            rows = MixedRows(*arrays)
            self.weight += float(rows.weights.sum())
            for name, found in margins(rows.codes, rows.weights, states).items():
                self.margins[name] += found
            yield rows

    def part(self, number: int) -> MixedRows:
        """Return the rows of a stretch."""
        return MixedRows(*self.read(number))
