"""Statistics in files: counts group by group, and the row sample."""

from __future__ import annotations

import math
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from eigentree.counting.count_layout import CountLayout
from eigentree.counting.counts import Counts, Tally
from eigentree.counting.holdout_sample import EVERY_HASH, SAMPLE_ROWS, RowSample
from eigentree.counting.joint_table import JointTable
from eigentree.counting.statistics import Statistics
from eigentree.data.stored_columns import columns_content, columns_of
from eigentree.errors import FileError, with_article
from eigentree.io.documents import Section, plain, unplain, whole
from eigentree.io.stores import Writer, opened_store

if TYPE_CHECKING:
    import os

    from numpy.typing import NDArray

    from eigentree.data.tables.columns import Columns
    from eigentree.io.stores import Reader

__all__ = ["COUNTED", "KIND", "load_statistics", "read_statistics", "save_statistics", "statistics_content"]

KIND = "Statistics"

COUNTED = ("I64", "F64")
"""Counts are whole, or sums of weights."""


def save_statistics(statistics: Statistics, path: str | os.PathLike[str]) -> None:
    """Write statistics into a file, whole or not at all."""
    writer = Writer()
    writer.save(path, KIND, statistics_content(writer, statistics))


def load_statistics(path: str | os.PathLike[str]) -> Statistics:
    """Return the statistics of a file."""
    with opened_store(path) as reader:
        if reader.kind != KIND:
            raise FileError(f"it holds {with_article(reader.kind[:60])}, not statistics; eigentree.load loads it")
        return read_statistics(reader, reader.content)


def statistics_content(writer: Writer, statistics: Statistics) -> dict[str, Any]:
    """Return the document of statistics, after putting their arrays into the file."""
    counts, sample = statistics.counts, statistics.sample
    layout, tally = counts.layout, counts.tally
    sparse = [tally.sparse[g] for g in sorted(tally.sparse)]
    writer.array("dense", tally.dense)
    if tally.residual is not None:
        writer.array("residual", tally.residual)
    if sparse:
        writer.array("keys", np.concatenate([table.keys for table in sparse if table.keys is not None]))
        writer.array("values", np.concatenate([table.values for table in sparse]))
    writer.array("sample_hashes", sample.hashes)
    writer.array("sample_codes", sample.codes)
    writer.array("sample_weights", sample.weights)
    return {
        "columns": columns_content(statistics.columns),
        "groups": [list(group) for group in (*layout.groups, *layout.covered)],
        "rows": plain(tally.rows, "the number of rows"),
        "holes": tally.residual is not None,
        "sparse": [len(table.values) for table in sparse],
        "sample": len(sample.hashes),
        "known_to": sample.known_to,
    }


def read_statistics(reader: Reader, content: Any) -> Statistics:
    """Return the statistics of a document and the arrays of the file.

    Raises
    ------
    FileError, DataError
        When they are none.
    """
    entries = ("columns", "groups", "rows", "holes", "sparse", "sample", "known_to")
    entry = Section(content, "statistics", entries)
    columns = columns_of(entry["columns"])
    layout = CountLayout.of(_groups(entry, len(columns.names)), columns.states)
    rows = unplain(entry["rows"], entry.at("rows"))
    if type(rows) not in (int, float) or not 0 <= rows < math.inf:
        raise FileError("the number of rows is no number of at least 0")
    dense = _counted(reader, "dense", int(layout.table_start[-1]))
    residual = _counted(reader, "residual", layout.residual_size) if entry.flag("holes") else None
    tally = Tally(dense, _sparse(reader, entry, layout), residual, rows)
    return Statistics(Counts.laid_out(columns, layout, tally), _sample(reader, entry, columns))


def _groups(entry: Section, columns: int) -> list[tuple[int, ...]]:
    """Return the groups that were counted: columns in order, each once."""
    groups = []
    for group in entry.items("groups"):
        if type(group) is not list or not group:
            raise FileError("a group of columns is a list of them")
        found = tuple(whole(column, "a column of a group", 0, columns - 1) for column in group)
        if any(a >= b for a, b in pairwise(found)):
            raise FileError("a group of columns has each once, in order")
        groups.append(found)
    if not groups or len(set(groups)) != len(groups):
        raise FileError("groups of columns are at least one, and each is there once")
    return groups


def _counted(reader: Reader, name: str, size: int) -> NDArray[Any]:
    counts = reader.array(name, COUNTED, size)
    if not np.isfinite(counts).all():
        raise FileError(f"the counts {name!r} are not all finite")
    return counts


def _sparse(reader: Reader, entry: Section, layout: CountLayout) -> dict[int, JointTable]:
    """Return the tables of the groups that are too large for arrays."""
    empty = layout.empty_sparse()
    sizes = entry.wholes("sparse")
    if len(sizes) != len(empty):
        raise FileError("there is not one sparse table per large group")
    if not empty:
        return {}
    keys = reader.array("keys", ("I64",), sum(sizes))
    values = _counted(reader, "values", sum(sizes))
    found = {}
    for (start, stop), (g, table) in zip(pairwise(accumulate(sizes, initial=0)), empty.items(), strict=True):
        own = keys[start:stop]
        inside = not len(own) or (own[0] >= 0 and int(own[-1]) < math.prod(table.shape))
        if not inside or not (own[1:] > own[:-1]).all():
            raise FileError("the joint codes of a sparse table are not in order, or beyond its shape")
        found[g] = JointTable(table.columns, table.shape, own, values[start:stop])
    return found


def _sample(reader: Reader, entry: Section, columns: Columns) -> RowSample:
    size = entry.whole("sample", 0, SAMPLE_ROWS)
    known_to = entry.whole("known_to", -1, EVERY_HASH)
    hashes = reader.array("sample_hashes", ("U64",), size)
    kind = f"U{8 * columns.code_type.itemsize}" if size else "U8"
    codes = reader.array("sample_codes", (kind,), size, len(columns.names))
    weights = reader.array("sample_weights", COUNTED, size)
    if not (hashes[1:] > hashes[:-1]).all() or (size and int(hashes[-1]) > known_to):
        raise FileError("the hashes of the row sample are not in order")
    if (codes > np.array(columns.states)).any() or not (np.isfinite(weights) & (weights > 0)).all():
        raise FileError("the row sample holds codes or weights that no row can have")
    return RowSample(hashes, codes, weights, known_to)
