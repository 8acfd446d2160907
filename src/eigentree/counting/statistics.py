"""All that learning needs to know of rows, in one value that adds and subtracts."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from eigentree.counting.additive import ROUNDING, Additive, GivenArrays, columns_array
from eigentree.counting.count_layout import CountLayout
from eigentree.counting.counts import Counts, Tally, weighted_chunks
from eigentree.counting.holdout_sample import RowSample
from eigentree.counting.joint_table import JointTable
from eigentree.counting.structure_and_schema import resolved
from eigentree.data.streams.encoded_stream import Encoded, any_rows
from eigentree.data.tables.state_rules import ReadOptions
from eigentree.data.tables.weights import MOST_WEIGHT, warn_of_few
from eigentree.errors import DataError, quoted
from eigentree.messages import renamed_arguments
from eigentree.planning.view_plan import ViewPlan
from eigentree.planning.view_search import PlanOptions
from eigentree.validation import our_arithmetic

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator, Mapping

    from numpy.typing import ArrayLike, NDArray

    from eigentree.arrays import Codes
    from eigentree.data.tables.columns import Columns
    from eigentree.data.tables.state_rules import Categories, NumericRule, UnknownRule
    from eigentree.graphs.graph import LatentGraph
    from eigentree.graphs.templates import Template

__all__ = ["Statistics", "check_counts"]


@dataclass(frozen=True, eq=False)
class Statistics(Additive):
    """Joint counts of the columns that a plan needs, and the sample of rows on which the shrinkage is chosen.

    Statistics of two sets of rows add up to those of all rows, and what was added can be subtracted again.
    Unweighted ones are whole numbers: however rows are ordered, split into batches or spread over machines, the sum
    is bit-identical, and so is every model that is learned from it.

    Attributes
    ----------
    counts : Counts
    sample : RowSample

    Examples
    --------
    >>> import eigentree as et
    >>> graph = et.zoo.hmm(length=6, hidden_states=2, observed_states=3)
    >>> rows = et.LatentNetwork.random(graph, seed=0).sample(1_000, seed=1)
    >>> parts = [et.Statistics.of(part, graph) for part in (rows[:300], rows[300:])]
    >>> whole = parts[0] + parts[1]
    >>> whole.rows
    1000
    >>> model = et.SpectralJunctionTree(graph).fit_statistics(whole)
    >>> bool((model.score_samples(rows) == et.SpectralJunctionTree(graph).fit(rows).score_samples(rows)).all())
    True
    """

    counts: Counts
    sample: RowSample

    @classmethod
    @renamed_arguments(unknown="handle_unknown")
    def of(
        cls,
        X: ArrayLike | Any,
        structure: LatentGraph | Template | Any,
        views: int = 6,
        max_rank: int | None = None,
        when_short: Literal["raise", "warn"] = "raise",
        *,
        sample_weight: ArrayLike | str | None = None,
        categories: Categories | None = None,
        handle_unknown: UnknownRule = "error",
        numeric: NumericRule = "error",
    ) -> Statistics:
        """Return the statistics of rows.

        Parameters
        ----------
        X : array-like of shape (rows, columns), a data frame, rows of letters, or a stream
            Labels or codes; None, NaN, null or -1 for a missing cell. A stream is rows that come in batches: a path
            of CSV or Parquet files, a lazy frame, an iterator of tables, … (`stream_of` lists them).
        structure : LatentGraph, Template, or a graph of networkx, pgmpy or pyagrum
        views, max_rank, when_short
            As those of the estimator that is to learn from them: they decide which columns are counted together.
        sample_weight : array-like of shape (rows,), optional
            How often each row counts; may be fractional. Of a stream, the name of the column with the weights.
        categories, handle_unknown, numeric
            As those of the estimator; statistics add up only where their columns have the same labels, so give
            these where not all labels occur in all parts.
        """
        PlanOptions.checked(views, max_rank, when_short)
        options = ReadOptions(categories, numeric, handle_unknown, sample_weight)
        graph, columns, rows = resolved(structure, X, options)
        plan = ViewPlan.build(graph, views, max_rank, when_short)
        return cls.empty(plan, columns).update(rows, sample_weight)

    @classmethod
    def empty(cls, plan: ViewPlan, columns: Columns | None = None) -> Statistics:
        """Return the statistics that a plan needs, of no rows; without columns, codes stand for themselves."""
        if not isinstance(plan, ViewPlan):
            raise DataError(
                f"a plan is a ViewPlan, as the plan method of an estimator makes it, not {quoted(plan)}"
            )
        counts = Counts(plan.graph, plan.groups())
        if columns is not None:
            counts = Counts.laid_out(columns, counts.layout)
        return cls(counts, RowSample.empty(len(plan.graph.observed)))

    @property
    def columns(self) -> Columns:
        """Names and states of the columns."""
        return self.counts.columns

    @property
    def rows(self) -> float:
        """How many rows were seen, or the sum of their weights."""
        return self.counts.rows

    @our_arithmetic
    def update(self, X: ArrayLike | Any, sample_weight: ArrayLike | str | None = None) -> Statistics:
        """Return these statistics with more rows seen; the arguments are those of `of`."""
        rows, weights = any_rows(X, self.columns, sample_weight)
        warn_of_few(weights)
        if not isinstance(rows, Encoded):
            return self.count(weighted_chunks(rows, weights))
        # Parts begin with nothing each, wherever they are counted.
        empty = Statistics(self.counts.empty(), RowSample.empty(len(self.columns.names)))
        added = rows.summed(_counted, empty)
        return self + added if self.rows else added

    def count(self, chunks: Iterator[tuple[Codes, NDArray[Any] | None]]) -> Statistics:
        """Return these statistics with chunks of (codes, weights or None) seen, in one pass."""
        sample = self.sample

        def sampled() -> Iterator[tuple[Codes, NDArray[Any] | None]]:
            nonlocal sample
            for codes, weights in chunks:
                sample = sample.update(codes, weights)
                yield codes, weights

        counts = self.counts.count(sampled())
        return Statistics(counts, sample)

    def _combined(self, other: Statistics, sign: int) -> Statistics:
        if sign > 0:
            return Statistics(self.counts + other.counts, self.sample + other.sample)
        return Statistics(self.counts - other.counts, self.sample - other.sample)

    def __repr__(self) -> str:
        groups, columns = len(self.counts.groups), len(self.columns.names)
        return f"<Statistics of {self.rows:,g} rows: {groups} groups of {columns} columns>"

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the statistics into a file (safetensors), whole or not at all; `load` gives them back, bit by bit.

        Raises
        ------
        FileError
            When the file cannot be written; one that was there is as it was.
        """
        from eigentree.counting.stored_statistics import save_statistics

        save_statistics(self, path)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Statistics:
        """Return the statistics that `save` wrote.

        Raises
        ------
        FileError
            When there is no such file, it is damaged or tampered with, or holds something else.
        """
        from eigentree.counting.stored_statistics import load_statistics

        return load_statistics(path)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return all there is as plain arrays by name, from which `from_arrays` makes the same statistics."""
        counts, sample = self.counts, self.sample
        layout, tally = counts.layout, counts.tally
        groups = [*layout.groups, *layout.covered]
        found: dict[str, NDArray[Any]] = {
            "columns": columns_array(self.columns),
            "group_sizes": np.array([len(group) for group in groups]),
            "group_columns": np.array([column for group in groups for column in group]),
            "rows": np.array(tally.rows),
            "dense": tally.dense,
            "sample_hashes": sample.hashes,
            "sample_codes": sample.codes,
            "sample_weights": sample.weights,
            "sample_known_to": np.array([sample.known_to >= 0, max(sample.known_to, 0)], np.uint64),
        }
        if tally.residual is not None:
            found["residual"] = tally.residual
        for g, table in tally.sparse.items():
            assert table.keys is not None
            found[f"keys_{g}"], found[f"values_{g}"] = table.keys, table.values
        return found

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> Statistics:
        """Return the statistics whose `arrays` these are.

        Raises
        ------
        DataError
            When an array is missing or does not fit the others.
        """
        given = GivenArrays.of(arrays, "statistics", "Statistics")
        columns = given.columns()
        layout = CountLayout.of(_given_groups(given, len(columns.names)), columns.states)
        rows = given.one("rows", "iuf", 0).item()
        sparse = {
            g: JointTable(table.columns, table.shape, given.one(f"keys_{g}", "i"), given.one(f"values_{g}", "if"))
            for g, table in layout.empty_sparse().items()
        }
        residual = given.one("residual", "if") if "residual" in arrays else None
        tally = Tally(given.one("dense", "if"), sparse, residual, rows)
        known_to = given.one("sample_known_to", "u").tolist()
        if len(known_to) != 2:
            raise given.error("it is unknown how far their sample of rows goes")
        hashes, codes = given.one("sample_hashes", "u"), given.one("sample_codes", "u", 2)
        weights = given.one("sample_weights", "if")
        sample = RowSample(hashes, codes, weights, known_to[1] if known_to[0] else -1)
        if not _fitting(layout, tally, sample, columns.states):
            raise given.error("their lengths or numbers do not fit their columns")
        return cls(Counts.laid_out(columns, layout, tally), sample)


def _counted(rows: Encoded, empty: Statistics) -> Statistics:
    return empty.count(rows.chunks())


def _given_groups(given: GivenArrays, columns: int) -> list[tuple[int, ...]]:
    """Return the groups that were counted, once their columns are there."""
    sizes, members = given.one("group_sizes", "iu"), given.one("group_columns", "iu").tolist()
    if (sizes < 1).any() or sum(sizes.tolist()) != len(members):
        raise given.error("the sizes of their groups do not fit")
    groups = [tuple(members[end - size : end]) for size, end in zip(sizes, np.cumsum(sizes), strict=True)]
    if not all(group[0] >= 0 and group[-1] < columns and _rising(group) for group in groups):
        raise given.error("their groups are of columns that they do not have")
    return groups


def _rising(numbers: Any) -> bool:
    array = np.asarray(numbers)
    return bool((array[1:] > array[:-1]).all())


def _fitting(layout: CountLayout, tally: Tally, sample: RowSample, states: tuple[int, ...]) -> bool:
    """Return whether a tally and a sample are such as rows of some columns leave in a layout."""
    parts = [*tally.arrays(), sample.weights]
    # No cell counts more than all rows; weights may be rounded.
    most = tally.rows * (1 + ROUNDING) + ROUNDING
    return (
        0 <= tally.rows <= MOST_WEIGHT
        and all(bool(((part >= -ROUNDING) & (part <= most)).all()) for part in parts)
        and len(tally.dense) == layout.table_start[-1]
        and (tally.residual is None or len(tally.residual) == layout.residual_size)
        and sample.codes.shape == (len(sample.hashes), len(states))
        and len(sample.weights) == len(sample.hashes)
        and _rising(sample.hashes)
        and bool((sample.codes <= np.array(states)).all())
        and all(
            table.keys is not None
            and len(table.keys) == len(table.values)
            and _rising(table.keys)
            and bool(((table.keys >= 0) & (table.keys < math.prod(table.shape))).all())
            for table in tally.sparse.values()
        )
    )


def check_counts(plan: ViewPlan, counts: Counts) -> None:
    """Raise `DataError` unless counts are of a plan's columns, and of all groups that it needs."""
    if not counts.columns.are_of(plan.graph):
        raise DataError("the counts are of other columns than the structure's; count with the same graph")
    for group in plan.groups():
        if counts.layout.holder(tuple(plan.graph.column(name) for name in group)) < 0:
            raise DataError(
                f"the columns {list(group)} were not counted together; count for the same structure, views and "
                f"max_rank as the estimator's"
            )
