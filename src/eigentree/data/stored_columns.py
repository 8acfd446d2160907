"""Columns in model files."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from eigentree.data.tables.columns import Columns
from eigentree.errors import FileError
from eigentree.io.documents import UnknownEntryError, plain, unplain

if TYPE_CHECKING:
    from eigentree.graphs.graph import LatentGraph

__all__ = ["checked_columns", "columns_content", "columns_of"]


def columns_content(columns: Columns) -> Any:
    """Return the document of columns."""
    return _marked(columns.to_json())


def columns_of(content: Any) -> Columns:
    """Return the columns of a document."""
    try:
        columns = Columns.from_json(_unmarked(content))
    except OverflowError:
        raise FileError("columns have a number beyond all that can be worked with") from None
    if new := set(content) - set(columns.to_json()):
        raise UnknownEntryError(f"columns have an entry {sorted(new)[0][:60]!r}, which is not known")
    return columns


def _marked(content: Any) -> Any:
    """Return plain values with numbers that JSON cannot hold as objects: a label can be infinite."""
    if isinstance(content, dict):
        return {key: _marked(value) for key, value in content.items()}
    if isinstance(content, list):
        return [_marked(value) for value in content]
    return plain(content, "a label")


def _unmarked(content: Any) -> Any:
    """Return what `_marked` was made of."""
    if isinstance(content, list):
        return [_unmarked(value) for value in content]
    if isinstance(content, dict):
        if list(content) == ["float"]:
            return unplain(content, "a label")
        return {key: _unmarked(value) for key, value in content.items()}
    return content


def checked_columns(content: Any, graph: LatentGraph) -> Columns:
    """Return the columns of a document, once they are those of a graph."""
    columns = columns_of(content)
    if not columns.are_of(graph):
        raise FileError("the columns are not those of the graph")
    return columns
