"""The graph of a model and its columns: given as they are, or made for the columns or the rows of the data."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from eigentree.counting.pair_counts import PairCounts
from eigentree.data.streams.encoded_stream import Encoded
from eigentree.data.streams.sources import is_stream
from eigentree.data.streams.stream_schema import StreamSchema, any_rows_and_columns
from eigentree.data.tables.columns import Columns
from eigentree.data.tables.rows import Rows
from eigentree.data.tables.state_rules import DEFAULT_OPTIONS, ReadOptions
from eigentree.data.tables.table import table_of
from eigentree.data.tables.weights import checked_weights
from eigentree.graphs.coercion import as_structure, require_structure
from eigentree.graphs.graph import LatentGraph
from eigentree.graphs.learned_templates import HiddenChowLiu, open_template

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from eigentree.data.tables.column_summary import Schema
    from eigentree.data.tables.table import Table
    from eigentree.graphs.templates import Template

__all__ = ["graph_and_columns", "graph_over", "resolved"]


def resolved(
    structure: LatentGraph | Template | Any, X: ArrayLike | Any, options: ReadOptions = DEFAULT_OPTIONS
) -> tuple[LatentGraph, Columns, Rows | Encoded]:
    """Return the graph of a model, given or made by `as_structure` for the columns of X, these, and the rows.

    A structure that is learned is learned from X. Rows that were read already know their columns.
    """
    require_structure(structure)
    structure = open_template(structure) or structure
    if isinstance(structure, HiddenChowLiu):
        rows, columns = any_rows_and_columns(X, options)
        weights = None if isinstance(rows, Encoded) else checked_weights(options.sample_weight, rows.count)
        return structure.learned(PairCounts.empty(columns).count(rows, weights)), columns, rows
    if isinstance(X, Rows):
        return graph_over(structure, X.columns), X.columns, X
    if is_stream(X):
        summarised = StreamSchema.of(X, options, structure if isinstance(structure, LatentGraph) else None)
        graph, columns = graph_and_columns(structure, summarised.schema, options)
        return graph, columns, summarised.rows(columns)
    table = table_of(X)
    graph, columns = graph_and_columns(structure, table, options)
    return graph, columns, Rows.of(table, columns)


def graph_and_columns(
    structure: LatentGraph | Template | Any, table: Table | Schema, options: ReadOptions
) -> tuple[LatentGraph, Columns]:
    """Return the graph of a model over the columns of a table, and these."""
    if isinstance(structure, LatentGraph):
        return structure, Columns.of(structure).fitted_to(table, options)
    learned = Columns.learned(table, options)
    graph = as_structure(structure, learned.states, learned.names if learned.named else None)
    columns = _arranged(learned, graph)
    return graph, columns or Columns.of(graph).fitted_to(table, options)


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
