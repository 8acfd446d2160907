"""`NumberColumns`: the columns that have an emission, and rows as EM reads them, in memory and of streams."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from eigentree.data.tables.rows import Rows
from eigentree.data.tables.weights import positive_weights, warn_of_few
from eigentree.em.mixed.emission_choice import coded_columns, is_of_covariates
from eigentree.em.mixed.mixed_rows import MixedRows
from eigentree.errors import DataError
from eigentree.messages import notice

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from numpy.typing import ArrayLike

    from eigentree.arrays import Codes, Floats
    from eigentree.data.streams.encoded_stream import Part
    from eigentree.data.tables.columns import Columns
    from eigentree.graphs.graph import LatentGraph

__all__ = ["NumberColumns"]


class NumberColumns(NamedTuple):
    """The columns that have an emission: numbers, and ordered labels, whose codes are read as numbers.

    Attributes
    ----------
    columns : Columns
    families : mapping of tuple of str to str or dict
    coded : tuple of str
        Ordered labels among them.
    """

    columns: Columns
    families: Mapping[tuple[str, ...], Any]
    coded: tuple[str, ...]

    @classmethod
    def of(cls, columns: Columns, families: Mapping[tuple[str, ...], Any]) -> NumberColumns:
        """Return the columns that have an emission, given the families of these."""
        return cls(columns, families, tuple(coded_columns(families, columns)))

    @property
    def names(self) -> tuple[str, ...]:
        """The columns, in the order of `read`'s values."""
        return (*self.columns.numbers, *self.coded)

    @property
    def states(self) -> dict[str, int]:
        """The states of all columns as EM reads them: these have one."""
        both = zip(self.columns.names, self.columns.states, strict=True)
        return {name: 1 if name in self.names else count for name, count in both}

    def graph(self, graph: LatentGraph) -> LatentGraph:
        """Return the graph that EM runs on: all these columns have one state."""
        return graph.with_states(dict.fromkeys(self.names, 1))

    def read(self, X: ArrayLike | Any, sample_weight: ArrayLike | None) -> MixedRows:
        """Return rows in memory that count, as EM reads them."""
        rows = Rows.of(X, self.columns)
        weights = positive_weights(sample_weight, rows.count)
        warn_of_few(weights)
        found = MixedRows.of(*self._levelled(rows.encode(), rows.values()), weights)
        complete = self._complete(found)
        if not len(complete.weights):
            raise DataError(
                "no row has all covariates; impute these before, or drop the one with most missing cells"
            )
        if left_out := len(found.weights) - len(complete.weights):
            notice(
                f"{left_out} of {len(found.weights)} rows miss a covariate and are left out, as classes depend on "
                f"all covariates; impute these before, or drop the one with most missing cells, to keep more rows",
                UserWarning,
            )
        return complete

    def parts(self, parts: Iterable[Part]) -> Iterator[MixedRows]:
        """Yield the rows of a stream that count, part after part."""
        first = 0
        for codes, values, own in parts:
            weights = np.ones(len(codes)) if own is None else own.astype(np.float64)
            found = self._complete(MixedRows.of(*self._levelled(codes, values), weights))
            yield found._replace(first=found.first + first)
            first += len(codes)

    @property
    def covariates(self) -> tuple[str, ...]:
        """The columns that states depend on, of which rows need all."""
        return tuple(name for group, family in self.families.items() if is_of_covariates(family) for name in group)

    def _complete(self, rows: MixedRows) -> MixedRows:
        """Return the rows that have all covariates."""
        if not self.covariates:
            return rows
        own = rows.values[:, [self.names.index(name) for name in self.covariates]]
        return rows.weighing(np.where(np.isnan(own).any(axis=1), 0.0, rows.weights))

    def _levelled(self, codes: Codes, values: Floats) -> tuple[Codes, Floats]:
        """Return codes and numbers in which ordered labels are numbers."""
        for name in self.coded:
            place = self.columns.position(name)
            missing = codes[:, place] == self.columns.states[place]
            levels = np.where(missing, np.nan, codes[:, place].astype(np.float64))
            values = np.column_stack([values, levels])
            codes[:, place] = missing
        return codes, values

    def missing(self, rows: MixedRows) -> frozenset[str]:
        """Return the categories with missing cells."""
        return frozenset(
            name
            for place, (name, states) in enumerate(self.states.items())
            if name not in self.names and (rows.codes[:, place] == states).any()
        )
