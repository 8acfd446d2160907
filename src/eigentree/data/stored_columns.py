"""Columns in model files: what their codes stand for, described by entries and types."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from eigentree.data.tables.columns import Columns
from eigentree.data.tables.labels import Bins, Labels
from eigentree.data.tables.state_rules import UNKNOWN_RULES, checked_labels
from eigentree.errors import FileError
from eigentree.io.codec import FLAG, NUMBER, TEXT, TEXTS, VALUE, WHOLE, Field, Record, optional, tuple_of

if TYPE_CHECKING:
    from eigentree.graphs.graph import LatentGraph
    from eigentree.io.codec import At

__all__ = ["checked_columns", "columns_content", "columns_of"]

LABELS = Record(
    "labels", {"labels": tuple_of(VALUE), "declared": FLAG, "ordered": FLAG}, attributes={"labels": "values"}
)

BINS = Record(
    "bins",
    {"edges": tuple_of(NUMBER), "least": NUMBER, "most": NUMBER, "typical": tuple_of(NUMBER), "whole": FLAG},
)


def _meaning(_: Any, content: Any, at: At) -> Labels | Bins:
    if isinstance(content, dict) and "labels" in content:
        labels = LABELS.read(None, content)
        return Labels(checked_labels(labels["values"], "a column").values, labels["declared"], labels["ordered"])
    bins = Bins(**BINS.read(None, content))
    rising = all(a < b for a, b in pairwise(bins.edges)) and len(bins.typical) == len(bins.edges) + 1
    if not rising or not np.isfinite((bins.least, *bins.edges, bins.most, *bins.typical)).all():
        raise FileError(f"{at.where}: the edges of bins are not in order, or not finite")
    return bins


MEANING = Field(lambda _, __, value: (LABELS if isinstance(value, Labels) else BINS).write(None, value), _meaning)

COLUMNS = Record(
    "a description of columns",
    {
        "names": TEXTS,
        "states": tuple_of(WHOLE),
        "meanings": tuple_of(optional(MEANING)),
        "unknown": TEXT,
        "container": TEXT,
        "named": FLAG,
    },
)


def columns_content(columns: Columns) -> dict[str, Any]:
    """Return the document of columns."""
    return COLUMNS.write(None, columns)


def columns_of(content: Any) -> Columns:
    """Return the columns of a document, once names, states and labels fit each other; else raise `FileError`."""
    columns = Columns(**COLUMNS.read(None, content))
    fits = len(columns.names) == len(set(columns.names)) == len(columns.states) == len(columns.meanings) > 0
    if not fits or columns.unknown not in UNKNOWN_RULES or not all(columns.states):
        raise FileError("columns have names, states and labels that do not fit each other")
    for states, meaning in zip(columns.states, columns.meanings, strict=True):
        if meaning is not None and len(meaning.labels) != states:
            raise FileError("a column has one label per state")
    return columns


def checked_columns(content: Any, graph: LatentGraph) -> Columns:
    """Return the columns of a document, once they are those of a graph."""
    columns = columns_of(content)
    if not columns.are_of(graph):
        raise FileError("the columns are not those of the graph")
    return columns
