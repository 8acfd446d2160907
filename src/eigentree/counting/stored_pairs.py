"""Pair counts in files."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from eigentree.counting.additive import columns_array
from eigentree.counting.pair_counts import PairCounts
from eigentree.counting.stored_statistics import COUNTED
from eigentree.data.stored_columns import columns_content, columns_of
from eigentree.errors import FileError, with_article
from eigentree.io.documents import Section, plain, unplain
from eigentree.io.stores import Writer, opened_store

if TYPE_CHECKING:
    import os

    from eigentree.io.stores import Reader

__all__ = ["KIND", "load_pairs", "read_pairs", "save_pairs"]

KIND = "PairCounts"


def save_pairs(pairs: PairCounts, path: str | os.PathLike[str]) -> None:
    """Write pair counts into a file, whole or not at all."""
    writer = Writer()
    whole = pairs.matrix.dtype.kind != "f"
    writer.array("complete", pairs.complete.astype(np.uint8))
    writer.array("matrix", pairs.matrix.astype(np.int64) if whole else pairs.matrix)
    content = {"columns": columns_content(pairs.columns), "rows": plain(pairs.rows, "the number of rows")}
    writer.save(path, KIND, content)


def load_pairs(path: str | os.PathLike[str]) -> PairCounts:
    """Return the pair counts of a file."""
    with opened_store(path) as reader:
        if reader.kind != KIND:
            raise FileError(f"it holds {with_article(reader.kind[:60])}, not pair counts; eigentree.load loads it")
        return read_pairs(reader, reader.content)


def read_pairs(reader: Reader, content: Any) -> PairCounts:
    """Return the pair counts of a document and the arrays of the file.

    Raises
    ------
    FileError, DataError
        When they are none.
    """
    entry = Section(content, "pair counts", ("columns", "rows"))
    columns = columns_of(entry["columns"])
    rows = unplain(entry["rows"], entry.at("rows"))
    if type(rows) not in (int, float):
        raise FileError("the number of rows is no number")
    complete = reader.array("complete", ("U8",), len(columns.names))
    if complete.max(initial=0) > 1:
        raise FileError("a column is complete or not, 1 or 0")
    size = sum(columns.states) - int(complete.sum())
    return PairCounts.from_arrays(
        {
            "columns": columns_array(columns),
            "rows": np.array(rows),
            "complete": complete.astype(np.bool_),
            "matrix": reader.array("matrix", COUNTED, size, size),
        }
    )
