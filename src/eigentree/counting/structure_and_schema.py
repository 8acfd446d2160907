"""The graph of a model and its columns: given as they are, or made for the columns or the rows of the data."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from eigentree.counting.pair_counts import PairCounts
from eigentree.data.streams.sources import is_stream
from eigentree.data.streams.stream_schema import Looked, any_rows_and_columns
from eigentree.data.tables.columns import Columns
from eigentree.data.tables.rows import Rows
from eigentree.data.tables.weights import checked_weights
from eigentree.graphs.coercion import as_structure, require_structure
from eigentree.graphs.graph import LatentGraph
from eigentree.graphs.learned_templates import HiddenChowLiu, open_template

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from eigentree.data.tables.state_rules import Categories, NumericRule, UnknownRule
    from eigentree.graphs.templates import Template

__all__ = ["graph_over", "resolved", "resolved_rows", "rows_and_columns"]


def resolved(
    structure: LatentGraph | Template | Any,
    X: ArrayLike | Any,
    categories: Categories | None = None,
    numeric: NumericRule = "error",
    unknown: UnknownRule = "error",
    sample_weight: ArrayLike | None = None,
) -> tuple[LatentGraph, Columns]:
    """Return the graph of a model, given or made by `as_structure` for the columns of X, and these columns.

    What follows from rows is learned from X. Rows that were read already know their columns.
    """
    require_structure(structure)
    structure = open_template(structure) or structure
    reading = (categories, numeric, unknown, sample_weight)
    if isinstance(structure, HiddenChowLiu):
        rows, own = rows_and_columns(X, *reading)
        weights = checked_weights(sample_weight, rows.count)
        return structure.learned(PairCounts.empty(own).count(rows, weights)), own
    if isinstance(X, Rows):
        return graph_over(structure, X.columns), X.columns
    if isinstance(structure, LatentGraph):
        return structure, Columns.of(structure).fitted_to(X, *reading)
    learned = Columns.learned(X, *reading)
    graph = as_structure(structure, learned.states, learned.names if learned.named else None)
    columns = _arranged(learned, graph)
    return graph, columns or Columns.of(graph).fitted_to(X, *reading)


def resolved_rows(
    structure: LatentGraph | Template | Any,
    X: ArrayLike | Any,
    categories: Categories | None = None,
    numeric: NumericRule = "error",
    unknown: UnknownRule = "error",
    sample_weight: ArrayLike | str | None = None,
) -> tuple[LatentGraph, Columns, Any]:
    """Return the same as `resolved`, and the rows: as they were given, or those of a stream as codes."""
    reading = (categories, numeric, unknown, sample_weight)
    if not is_stream(X):
        return *resolved(structure, X, categories, numeric, unknown, sample_weight), X
    require_structure(structure)
    structure = open_template(structure) or structure
    if isinstance(structure, HiddenChowLiu):
        rows, columns = any_rows_and_columns(X, *reading)
        return structure.learned(PairCounts.empty(columns).count(rows, None)), columns, rows
    looked = Looked.at(X, *reading, structure if isinstance(structure, LatentGraph) else None)
    graph, columns = resolved(structure, looked.look, categories, numeric, unknown)
    return graph, columns, looked.rows(columns)


def rows_and_columns(
    X: ArrayLike | Any,
    categories: Categories | None,
    numeric: NumericRule,
    unknown: UnknownRule,
    sample_weight: ArrayLike | None,
) -> tuple[Rows, Columns]:
    """Return the rows of data, and what was learned of their columns; rows that were read know theirs."""
    if isinstance(X, Rows):
        return X, X.columns
    columns = Columns.learned(X, categories, numeric, unknown, sample_weight)
    return Rows.of(X, columns), columns


def graph_over(structure: LatentGraph | Template | Any, columns: Columns) -> LatentGraph:
    """Return the graph of a model: the given one, or the one that `as_structure` makes for some columns."""
    return as_structure(structure, columns.states, columns.names)


def _arranged(columns: Columns, graph: LatentGraph) -> Columns | None:
    """Return columns in the order of a graph that was made for them; None where it tells other names or states."""
    wanted = Columns.of(graph)
    # Columns without names of their own are those of the graph in turn.
    names = columns.names if columns.named else wanted.names
    if set(names) != set(wanted.names):
        return None
    order = [names.index(name) for name in wanted.names]
    if tuple(columns.states[place] for place in order) != wanted.states:
        return None
    meanings = tuple(columns.meanings[place] for place in order)
    return replace(columns, names=wanted.names, states=wanted.states, meanings=meanings)
