"""The graph of a model and its columns: given as they are, or made for the columns or the rows of the data."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, get_args

from eigentree.counting.pair_counts import PairCounts, pairs_of_rows
from eigentree.data.streams.encoded_stream import Encoded, StreamSchema, any_rows_and_columns
from eigentree.data.streams.sources import is_stream
from eigentree.data.tables.columns import Columns
from eigentree.data.tables.rows import Rows
from eigentree.data.tables.state_rules import DEFAULT_OPTIONS, ReadOptions
from eigentree.data.tables.table import table_of
from eigentree.data.tables.weights import checked_weights
from eigentree.errors import DataError, GraphError, ParameterError
from eigentree.graphs.coercion import as_structure, require_structure
from eigentree.graphs.graph import LatentGraph
from eigentree.graphs.learned_templates import HiddenChowLiu, Method, open_template
from eigentree.graphs.structure_learning import chow_liu
from eigentree.messages import renamed_arguments
from eigentree.validation import one_of, our_arithmetic, whole_number

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from eigentree.data.tables.column_summary import Schema
    from eigentree.data.tables.state_rules import Categories, NumericRule, UnknownRule
    from eigentree.data.tables.table import Table
    from eigentree.graphs.templates import Template

__all__ = ["graph_and_columns", "graph_over", "learn_structure", "resolved"]


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
        graph = structure.learned(pairs_of_rows(rows, weights))
        return graph.with_states(dict.fromkeys(columns.numbers, 1)), columns, rows
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
    """Return columns in the order of a graph that was made for them; None where it has other names or states."""
    wanted = Columns.of(graph)
    # Columns without names of their own are those of the graph in turn.
    names = columns.names if columns.named else wanted.names
    if set(names) != set(wanted.names):
        return None
    place = {name: at for at, name in enumerate(names)}
    order = [place[name] for name in wanted.names]
    if tuple(columns.states[place] for place in order) != wanted.states:
        return None
    meanings = tuple(columns.meanings[place] for place in order)
    return replace(columns, names=wanted.names, states=wanted.states, meanings=meanings)


@our_arithmetic
@renamed_arguments(unknown="handle_unknown")
def learn_structure(
    X: ArrayLike | PairCounts | Any,
    method: Method = "chow-liu",
    hidden_states: int | None = 8,
    sample_weight: ArrayLike | str | None = None,
    *,
    categories: Categories | None = None,
    handle_unknown: UnknownRule = "error",
    numeric: NumericRule = "error",
) -> LatentGraph:
    """Return a tree of hidden variables above the columns of some data, learned from them.

    The order of rows and of columns plays no part; ties are broken by names.

    Parameters
    ----------
    X : array-like of shape (rows, columns), a data frame, rows of letters, a stream, or PairCounts
        Labels or codes, None, NaN, null or -1 for a missing cell, each pair of columns judged by the rows that have
        both; or `PairCounts`.
    method : {"chow-liu", "neighbour-joining"}
        How the tree is found: from the Chow-Liu tree of the columns, or from distances between columns.
    hidden_states : int or None
        The number of states of each hidden variable; None is the Chow-Liu tree of the columns themselves.
    sample_weight : array-like of shape (rows,), or the name of a column of a stream, optional
        How often each row counts; may be fractional.
    categories, handle_unknown, numeric
        How rows are read, as those of an estimator.

    Raises
    ------
    DataError
        When there are no rows, or the counts of all pairs of columns would not fit into memory.

    Notes
    -----
    "chow-liu" is the tree of columns with the most mutual information, and a hidden variable above each column that
    is no end of it, linked as the columns are. "neighbour-joining" is the tree of hidden variables along which
    distances between columns add up, found within neighbourhoods of such a tree (CLNJ, Choi et al. 2011); enough
    rows that were sampled from a tree of hidden variables give that tree back.

    Examples
    --------
    >>> import eigentree as et
    >>> truth = et.LatentNetwork.random(et.zoo.latent_tree(depth=2, observed_states=3), concentration=0.1, seed=0)
    >>> graph = learn_structure(truth.sample(5_000, seed=1), "neighbour-joining", hidden_states=2)
    >>> graph.edges
    (('h_x0', 'h_x2'), ('h_x0', 'x0'), ('h_x0', 'x1'), ('h_x2', 'x2'), ('h_x2', 'x3'))
    """
    one_of("method", method, get_args(Method))
    if hidden_states is None and method != "chow-liu":
        raise ParameterError(f"method={method!r} finds hidden variables, so it needs a number of hidden_states")
    if isinstance(hidden_states, str) and hidden_states == "auto":
        raise GraphError(
            "hidden_states is a whole number, or None, not 'auto': EMJunctionTree('auto') chooses it "
            "on held-out rows; its graph_ is what was learned"
        )
    template = (
        None
        if hidden_states is None
        else HiddenChowLiu(whole_number("hidden_states", hidden_states, error=GraphError), method)
    )
    if isinstance(X, PairCounts):
        if sample_weight is not None:
            raise DataError("rows that were counted already have their weights; leave sample_weight out")
        pairs = X
    else:
        reading: dict[str, Any] = {"categories": categories, "handle_unknown": handle_unknown, "numeric": numeric}
        pairs = PairCounts.of(X, sample_weight, **reading)
    if not pairs.rows > 0:
        raise DataError("no rows were counted, or the weight of all is zero; there is nothing to learn from")
    if template is None:
        return chow_liu(pairs.names, pairs.states, pairs.information)
    return template.learned(pairs)
