"""Counts of streams that go on where they were stopped.

While rows are counted, what was counted so far is written into a file now and then, whole or not at all, and with
it where in the stream it ends. A count that is begun again with this file goes on from there, and ends with the
same bits: rows are added up in segments that begin and end at the same rows, whoever counts them.
"""

from __future__ import annotations

import os
import time
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from eigentree.core.counting.encoding import hash_rows
from eigentree.counting.pair_counts import PairCounts
from eigentree.counting.statistics import Statistics
from eigentree.counting.stored_statistics import read_statistics, statistics_content
from eigentree.counting.structure_and_schema import graph_over, resolved_rows
from eigentree.data.streams.encoded_stream import StreamedRows, segments, weight_column
from eigentree.data.streams.sources import is_stream, stream_of
from eigentree.data.tables.state_rules import given_labels
from eigentree.errors import DataError, FileError, quoted, with_article
from eigentree.graphs.graph import LatentGraph
from eigentree.graphs.learned_templates import LearnedTemplate, open_template
from eigentree.io.atomic_write import checked_path
from eigentree.io.documents import Section, parsed, written
from eigentree.io.stores import Writer, opened_store

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from eigentree.arrays import Codes
    from eigentree.data.streams.row_batches import Stream
    from eigentree.data.tables.state_rules import Categories, NumericRule, UnknownRule
    from eigentree.graphs.templates import Template
    from eigentree.planning.view_plan import ViewPlan

__all__ = ["counted_with_checkpoints"]

KIND = "unfinished count"

EVERY_SECONDS = 30.0
"""How long a count goes on before what was counted is written down again."""


@dataclass(frozen=True, eq=False)
class _Standing:
    """How far a count has come.

    Attributes
    ----------
    statistics : Statistics
        Of the rows so far.
    batches, rows : int
        How many were counted.
    digest : int
        A sum over these rows that other rows would hardly have.
    asked : str
        What was to be counted, and how it was to be read, as JSON.
    """

    statistics: Statistics
    batches: int
    rows: int
    digest: int
    asked: str

    def save(self, path: str) -> None:
        """Write it into a file, whole or not at all."""
        writer = Writer()
        content = {
            "statistics": statistics_content(writer, self.statistics),
            "batches": self.batches,
            "rows": self.rows,
            "digest": f"{self.digest:016x}",
            "asked": self.asked,
        }
        writer.save(path, KIND, content)

    @classmethod
    def load(cls, path: str) -> _Standing:
        """Return what `save` wrote; raise `FileError` where it did not."""
        with opened_store(path) as reader:
            if reader.kind != KIND:
                raise FileError(f"it holds {with_article(reader.kind[:60])}, no unfinished count; name another")
            entry = Section(reader.content, "the count", ("statistics", "batches", "rows", "digest", "asked"))
            return cls(
                read_statistics(reader, entry["statistics"]),
                entry.whole("batches"),
                entry.whole("rows"),
                int(entry.text("digest"), 16),
                entry.text("asked"),
            )


def counted_with_checkpoints(
    path: str | os.PathLike[str],
    X: Any,
    structure: LatentGraph | Template | Any,
    plan: Callable[[LatentGraph], ViewPlan],
    categories: Categories | None,
    numeric: NumericRule,
    unknown: UnknownRule,
    sample_weight: Any,
) -> Statistics:
    """Return the statistics of a stream, counted from where the file says that an earlier count was stopped.

    The file is gone once all rows are counted.

    Parameters
    ----------
    path : str or PathLike
        Of the file; there may be none yet.
    X, structure, categories, numeric, unknown, sample_weight
        As those of `Statistics.of`.
    plan : callable
        Returns the plan over a graph.

    Raises
    ------
    FileError
        When the file is none of an unfinished count, or is of other rows, or of another structure.
    """
    given = checked_path(path)
    if not is_stream(X):
        raise DataError("a checkpoint is for rows that come in batches, as from files; these are in memory already")
    stream = stream_of(X)
    if not stream.again:
        raise DataError(
            "a count of batches that come once cannot go on where it was stopped; give files, or a callable that "
            "returns an iterator of batches"
        )
    asked = _asked(stream, categories, numeric, unknown, sample_weight)
    saved = _Standing.load(given) if os.path.exists(given) else None
    if saved is None:
        graph, columns, rows = resolved_rows(structure, stream, categories, numeric, unknown, sample_weight)
        begun = _Standing(Statistics.empty(plan(graph), columns), 0, 0, 0, asked)
        # The look at the rows need not be taken again.
        begun.save(given)
    else:
        _check_asked(saved.asked, asked, given)
        rows = StreamedRows(saved.statistics.columns, stream, weight_column(stream, sample_weight))
        _check_structure(saved.statistics, structure, rows, plan, given)
        begun = saved
    found = _counted(begun, rows, given)
    with suppress(OSError):
        os.unlink(given)
    return found


def _asked(stream: Stream, categories: Any, numeric: str, unknown: str, sample_weight: Any) -> str:
    """Return what tells one count from another."""
    names = stream.names or tuple(f"x{place}" for place in range(len(stream.told.columns)))
    labels = {
        name: [repr(label) for label in given.values] for name, given in given_labels(categories, names).items()
    }
    return written(
        {
            "rows": stream.mark(),
            "columns": list(names),
            "categories": labels,
            "numeric": numeric,
            "unknown": unknown,
            "sample_weight": quoted(sample_weight),
        }
    )


def _check_asked(saved: str, asked: str, path: str) -> None:
    before, now = parsed(saved), parsed(asked)
    for name in now:
        if not isinstance(before, dict) or before.get(name) != now[name]:
            what = {
                "rows": "other files, or they have changed since",
                "columns": f"other columns, {quoted(before.get(name))}",
            }.get(name, f"another {name}, {quoted(before.get(name))}")
            raise FileError(
                f"{path!r} is of a count of {what}, and cannot be gone on with; delete it to count from the "
                f"beginning, or give another checkpoint"
            )


def _check_structure(
    saved: Statistics, structure: Any, rows: StreamedRows, plan: Callable[[LatentGraph], ViewPlan], path: str
) -> None:
    """Raise `FileError` unless a structure asks for what was being counted."""
    structure = open_template(structure) or structure
    if isinstance(structure, LatentGraph):
        graph = structure
    elif isinstance(structure, LearnedTemplate):
        graph = structure.learned(PairCounts.empty(rows.columns).count(rows, None))
    else:
        graph = graph_over(structure, rows.columns)
    fits = rows.columns.are_of(graph)
    if fits:
        wanted = Statistics.empty(plan(graph), rows.columns).counts
        fits = (wanted.groups, wanted.layout.covered) == (saved.counts.groups, saved.counts.layout.covered)
    if not fits:
        raise FileError(
            f"{path!r} is of a count for another structure, views or max_rank, and cannot be gone on with; delete "
            f"it to count from the beginning, or give another checkpoint"
        )


def _counted(begun: _Standing, rows: StreamedRows, path: str) -> Statistics:
    standing, last = begun, time.monotonic()
    known = rows.stream.mark() is not None
    skip = standing.batches if known else 0
    if not known and standing.rows:
        # What cannot be told by its name is told by its rows, which are read again for it.
        skip = _recognised(standing, rows, path)
    for segment in segments(rows, skip):
        digest = _Digest(standing.digest)
        counted = standing.statistics.count(digest.of(segment.chunks()))
        standing = replace(
            standing,
            statistics=counted,
            batches=standing.batches + segment.batches,
            rows=standing.rows + digest.rows,
            digest=digest.total,
        )
        if time.monotonic() - last >= EVERY_SECONDS:
            standing.save(path)
            last = time.monotonic()
    return standing.statistics


class _Digest:
    """The sum of the hashes of rows, as they are counted."""

    def __init__(self, total: int = 0) -> None:
        self.total, self.rows = total, 0

    def of(
        self, chunks: Iterator[tuple[Codes, NDArray[Any] | None]]
    ) -> Iterator[tuple[Codes, NDArray[Any] | None]]:
        """Yield chunks as they are."""
        for codes, weights in chunks:
            hashes = np.empty(len(codes), np.uint64)
            hash_rows(codes.T, hashes)
            self.total = (self.total + int(hashes.sum(dtype=np.uint64))) % 2**64
            self.rows += len(codes)
            yield codes, weights


def _recognised(standing: _Standing, rows: StreamedRows, path: str) -> int:
    """Return how many batches to leave out, once their rows are those that were counted."""
    digest = _Digest()
    for number, batch in enumerate(rows.stream.batches(rows.needed)):
        if number == standing.batches:
            break
        for _ in digest.of(rows.encoded(batch)):
            pass
    if (digest.rows, digest.total) != (standing.rows, standing.digest):
        raise FileError(
            f"{path!r} is of a count of other rows than those that come now, and cannot be gone on with; delete it "
            f"to count from the beginning"
        )
    return standing.batches
