"""All that learning needs to know of rows, in one value that adds and subtracts."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import accumulate, chain, pairwise
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from eigentree.counting.additive import COUNTED, ROUNDING, StoredCounts, stored_rows
from eigentree.counting.count_layout import CountLayout
from eigentree.counting.counts import Counts, count_rows
from eigentree.counting.holdout_sample import EVERY_HASH, SAMPLE_ROWS, RowSample
from eigentree.counting.levels.hat_counts import count_hats
from eigentree.counting.levels.hat_plan import hat_plan
from eigentree.counting.levels.hats import HATS, LEVELS, HatScale, require_same_levels
from eigentree.counting.levels.number_scales import level_chunks, level_rows, number_scales, with_states
from eigentree.counting.levels.stored_scales import read_scales, scales_content
from eigentree.counting.structure_and_schema import resolved
from eigentree.data.streams.encoded_stream import Encoded, any_rows
from eigentree.data.tables.columns import Columns, columns_content, columns_of, require_columns
from eigentree.data.tables.state_rules import ReadOptions
from eigentree.data.tables.weights import MOST_WEIGHT, warn_of_few
from eigentree.errors import DataError, FileError, quoted
from eigentree.io.documents import Section, plain
from eigentree.messages import renamed_arguments
from eigentree.planning.view_plan import ViewPlan
from eigentree.planning.view_search import PlanOptions
from eigentree.validation import our_arithmetic

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import ArrayLike, NDArray

    from eigentree.arrays import Codes
    from eigentree.data.tables.rows import Rows
    from eigentree.data.tables.state_rules import Categories, NumericRule, UnknownRule
    from eigentree.graphs.graph import LatentGraph
    from eigentree.graphs.templates import Template
    from eigentree.io.stores import Reader, Writer

__all__ = ["Statistics", "check_counts"]


@dataclass(frozen=True, eq=False)
class Statistics(StoredCounts):
    """Joint counts of the columns that a plan needs, and the sample of rows on which the shrinkage is chosen.

    Statistics of two sets of rows add up to those of all rows, and what was added can be subtracted again.
    Unweighted ones are whole numbers: however rows are ordered, split into batches or spread over machines, the sum
    is bit-identical, and so is every model that is learned from it.

    Numbers are counted as hat functions of their smooth distribution function, which follows from the first rows.
    Statistics of other rows add up to these only if they were cut into the same levels, as `update` does.

    Attributes
    ----------
    counts : Counts
        Columns of numbers have as many states there as hat functions are counted.
    sample : RowSample
    scales : tuple of HatScale or None
        The levels of each column of numbers, None for other columns; () where there is no column of numbers.
    table : Columns or None
        The columns, of which those of numbers have one state; None where there are no numbers.

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
    scales: tuple[HatScale | None, ...] = ()
    table: Columns | None = None

    _what = "statistics"

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
        numeric: NumericRule = "emissions",
    ) -> Statistics:
        """Return the statistics of rows.

        Parameters
        ----------
        X : array-like of shape (rows, columns), a data frame, rows of letters, or a stream
            Labels or codes, None, NaN, null or -1 for a missing cell; or a stream: a path of CSV or Parquet files,
            a lazy frame, an iterator of tables, … (`stream_of` lists them).
        structure : LatentGraph, Template, or a graph of networkx, pgmpy or pyagrum
        views, max_rank, when_short
            As those of the estimator that is to learn from them: they decide which columns are counted together.
        sample_weight : array-like of shape (rows,), optional
            How often each row counts, which need not be whole; of a stream, the name of the column with the
            weights.
        categories, handle_unknown, numeric
            As those of the estimator; statistics add up only where their columns have the same labels, so give
            these where not all labels occur in all parts.
        """
        PlanOptions.checked(views, max_rank, when_short)
        options = ReadOptions(categories, numeric, handle_unknown, sample_weight)
        graph, columns, rows = resolved(structure, X, options)
        rows, weights = any_rows(rows, columns, sample_weight)
        plan = hat_plan(graph, columns.numbers, views, max_rank, when_short)
        return cls.empty(plan, columns, number_scales(rows, weights)).update(rows, weights)

    @classmethod
    def empty(
        cls, plan: ViewPlan, columns: Columns | None = None, scales: tuple[HatScale | None, ...] = ()
    ) -> Statistics:
        """Return the statistics that a plan needs, of no rows; without columns, codes stand for themselves.

        Columns of numbers need `scales`, and a plan of their hat functions.
        """
        if not isinstance(scales, tuple) or not all(each is None or isinstance(each, HatScale) for each in scales):
            raise DataError(f"scales are those of statistics, their scales, not {quoted(scales)}")
        if not isinstance(plan, ViewPlan):
            raise DataError(
                f"a plan is a ViewPlan, as the plan method of an estimator makes it, not {quoted(plan)}"
            )
        counts = Counts(plan.graph, plan.groups())
        if columns is not None:
            require_columns(columns, plan.graph)
            if not any(scales):
                columns.require_states()
            shown = with_states(columns, scales, _hats(columns, scales, plan))
            counts = Counts.laid_out(shown, counts.layout)
        sample = RowSample.empty(len(plan.graph.observed))
        return cls(counts, sample, scales, columns if any(scales) else None)

    @property
    def columns(self) -> Columns:
        """Names and states of the columns."""
        return self.counts.columns if self.table is None else self.table

    @property
    def hats(self) -> tuple[int, ...]:
        """How many hat functions are counted of each column, 0 of categories; () where there are no numbers."""
        every = zip(self.scales, self.counts.columns.states, strict=bool(self.scales))
        return tuple(0 if scale is None else states for scale, states in every)

    @cached_property
    def level_columns(self) -> Columns:
        """The columns with numbers as codes of levels, as rows of the sample have them."""
        return with_states(self.counts.columns, self.scales, LEVELS)

    @property
    def rows(self) -> float:
        """How many rows were seen, or the sum of their weights."""
        return self.counts.rows

    @our_arithmetic
    def update(self, X: ArrayLike | Any, sample_weight: ArrayLike | str | None = None) -> Statistics:
        """Return these statistics with more rows seen; the arguments are those of `of`."""
        rows, weights = any_rows(X, self.columns, sample_weight)
        warn_of_few(weights)
        return self.count_rows(rows, weights)

    def without(self, codes: Codes, weights: NDArray[Any]) -> Counts:
        """Return the counts without rows of the sample, each as often as its weight says."""
        return (
            self.counts - self._count(self.counts.empty(), iter([(codes, weights)])) if len(codes) else self.counts
        )

    @property
    def _emptied(self) -> Statistics:
        """The same of no rows: parts begin with nothing each, wherever they are counted."""
        return replace(self, counts=self.counts.empty(), sample=RowSample.empty(len(self.columns.names)))

    def count_rows(self, rows: Rows | Encoded, weights: NDArray[Any] | None) -> Statistics:
        """Return these statistics with rows of the same columns seen, whose weights were checked."""
        if isinstance(rows, Encoded):
            return self + rows.summed(_of_stream, self._emptied)
        if any(self.scales):
            rows = level_rows(rows, self.scales)
        return self + count_rows(self._emptied.count, rows, weights, len(self.counts.dense))

    def count(self, chunks: Iterator[tuple[Codes, NDArray[Any] | None]]) -> Statistics:
        """Return these statistics with chunks of (codes, weights or None) seen, in one pass.

        Codes of numbers are those of levels.
        """
        sample = self.sample

        def sampled() -> Iterator[tuple[Codes, NDArray[Any] | None]]:
            nonlocal sample
            for codes, weights in chunks:
                sample = sample.update(codes, weights)
                yield codes, weights

        counts = self._count(self.counts, sampled())
        return replace(self, counts=counts, sample=sample)

    def _count(self, counts: Counts, chunks: Iterator[tuple[Codes, NDArray[Any] | None]]) -> Counts:
        if not any(self.scales):
            return counts.count(chunks)
        return count_hats(counts, chunks, self.scales)

    def _combined(self, other: Statistics, sign: int) -> Statistics:
        require_same_levels(self.scales, other.scales)
        if sign > 0:
            return replace(self, counts=self.counts + other.counts, sample=self.sample + other.sample)
        return replace(self, counts=self.counts - other.counts, sample=self.sample - other.sample)

    def __repr__(self) -> str:
        groups, columns = len(self.counts.groups), len(self.columns.names)
        return f"<Statistics of {self.rows:,g} rows: {groups} groups of {columns} columns>"

    def _content(self, writer: Writer) -> dict[str, Any]:
        """Return the document of statistics, after putting their arrays into the file."""
        counts, sample = self.counts, self.sample
        sparse = [counts.sparse[g] for g in sorted(counts.sparse)]
        writer.array("dense", counts.dense)
        if sparse:
            writer.array("keys", np.concatenate([table.keys for table in sparse if table.keys is not None]))
            writer.array("values", np.concatenate([table.values for table in sparse]))
        for name in ("hashes", "codes", "weights"):
            writer.array(f"sample_{name}", getattr(sample, name))
        numbers = (
            {"scales": scales_content(writer, self.scales), "hats": max(self.hats)} if any(self.scales) else {}
        )
        return {
            **numbers,
            "columns": columns_content(self.columns),
            "groups": [list(group) for group in counts.groups],
            "rows": plain(counts.rows, "the number of rows"),
            "sparse": [len(table.values) for table in sparse],
            "sample": len(sample.hashes),
            "known_to": sample.known_to,
        }

    @classmethod
    def _read(cls, reader: Reader, content: Any) -> Statistics:
        """Return the statistics of a document and the arrays of the file; raise `FileError` where they are none."""
        entries = ("columns", "groups", "rows", "sparse", "sample", "known_to")
        entry = Section(content, "statistics", entries, ("scales", "hats"))
        columns, table = columns_of(entry["columns"]), None
        scales = read_scales(reader, entry.content.get("scales", []), columns.number_places, len(columns.names))
        if scales:
            hats = entry.whole("hats")
            if hats not in HATS:
                raise FileError(f"of numbers {', '.join(map(str, HATS))} hats are counted, not {hats}")
            columns, table = with_states(columns, scales, hats), columns
        layout = _checked_layout(entry.items("groups"), columns)
        rows = stored_rows(entry)
        dense = reader.array("dense", COUNTED, layout.cells)
        sizes, sparse = entry.wholes("sparse"), layout.empty_sparse()
        if len(sizes) != len(sparse):
            raise FileError("there is not one sparse table per large group")
        if sparse:
            keys, values = reader.array("keys", ("I64",), sum(sizes)), reader.array("values", COUNTED, sum(sizes))
            for (start, stop), g in zip(pairwise(accumulate(sizes, initial=0)), sparse, strict=True):
                sparse[g] = replace(sparse[g], keys=keys[start:stop], values=values[start:stop])
        size = entry.whole("sample", 0, SAMPLE_ROWS)
        kind = f"U{8 * with_states(columns, scales, LEVELS).code_type.itemsize}" if size else "U8"
        sample = RowSample(
            reader.array("sample_hashes", ("U64",), size),
            reader.array("sample_codes", (kind,), size, len(columns.names)),
            reader.array("sample_weights", COUNTED, size),
            entry.whole("known_to", -1, EVERY_HASH),
        )
        counts = Counts.laid_out(columns, layout, dense, sparse, rows)
        return _fitting(Statistics(counts, sample, scales, table))


def _of_stream(rows: Encoded, empty: Statistics) -> Statistics:
    return empty.count(level_chunks(rows, empty.scales))


def _hats(columns: Columns, scales: Sequence[HatScale | None], plan: ViewPlan) -> int:
    """Return how many hat functions of numbers a plan counts, 1 where there are no numbers."""
    if any(scales) and [scale is not None for scale in scales] != [
        place in columns.number_places for place in range(len(columns.names))
    ]:
        raise DataError("the columns of numbers, and they alone, have levels")
    return max((plan.graph.states[name] for name in columns.numbers), default=1)


def _checked_layout(groups: Sequence[Any], columns: Columns) -> CountLayout:
    """Return the layout of groups that were counted; raise `FileError` unless their columns are there, in order."""
    if set(map(type, groups)) - {list} or not all(groups) or set(map(type, chain.from_iterable(groups))) - {int}:
        raise FileError("a group of columns is a list of them")
    if any(sorted(set(group)) != group for group in groups):
        raise FileError("a group of columns has each once, in order")
    if any(group[0] < 0 or group[-1] >= len(columns.names) for group in groups):
        raise FileError("their groups are of columns that they do not have")
    found = list(map(tuple, groups))
    layout = CountLayout.of(found, columns.states)
    if not found or len(layout.groups) < len(found):
        raise FileError("groups of columns are at least one, and each is there once")
    return layout


def _rising(array: NDArray[Any]) -> bool:
    return bool((array[1:] > array[:-1]).all())


def _fitting(statistics: Statistics) -> Statistics:
    """Return statistics; raise `FileError` unless they are such as rows leave."""
    counts, sample = statistics.counts, statistics.sample
    if not _rising(sample.hashes) or (len(sample.hashes) and int(sample.hashes[-1]) > sample.known_to):
        raise FileError("the hashes of the row sample are not in order")
    # No cell counts more than all rows; weights may be rounded.
    most = counts.rows * (1 + ROUNDING) + ROUNDING
    states = np.array(statistics.level_columns.states)
    fits = (
        0 <= counts.rows <= MOST_WEIGHT
        and all(
            part.min(initial=0) >= -ROUNDING and part.max(initial=0) <= most
            for part in (*counts.arrays(), sample.weights)
        )
        and bool((sample.weights > 0).all() and (sample.codes <= states).all())
        and all(
            table.keys is not None
            and _rising(table.keys)
            and bool(((table.keys >= 0) & (table.keys < math.prod(table.shape))).all())
            for table in counts.sparse.values()
        )
    )
    if not fits:
        raise FileError("their numbers do not fit their columns")
    return statistics


def check_counts(plan: ViewPlan, counts: Counts) -> None:
    """Raise `DataError` unless counts are of a plan's columns, and of all groups that it needs."""
    if not counts.columns.are_of(plan.graph):
        raise DataError("the counts are of other columns than the structure's; count with the same graph")
    # Nearly all groups were counted by themselves, and only for others is one searched that holds them.
    for group in sorted(plan.column_groups().difference(counts.layout.groups)):
        if counts.layout.holder(group) < 0:
            names = [plan.graph.observed[column] for column in group]
            raise DataError(
                f"the columns {names} were not counted together; count for the same structure, views and "
                f"max_rank as the estimator's"
            )
