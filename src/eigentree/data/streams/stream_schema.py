"""The schema of a stream, and then its rows: in one pass where they come once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from eigentree.data.streams.encoded_stream import Encoded, StreamedRows, weighed, weight_column
from eigentree.data.streams.partitions import Partitions
from eigentree.data.streams.sources import is_stream, stream_of
from eigentree.data.streams.spool import KeptBatches, Spool
from eigentree.data.tables.column_summary import Schema
from eigentree.data.tables.columns import Columns
from eigentree.data.tables.rows import Rows
from eigentree.data.tables.state_rules import DEFAULT_OPTIONS, ReadOptions, given_labels, learned_meaning
from eigentree.data.tables.table import table_of
from eigentree.errors import DataError
from eigentree.progress import shown_batches

if TYPE_CHECKING:
    from collections.abc import Collection

    from eigentree.data.streams.row_batches import Stream
    from eigentree.data.tables.state_rules import NumericRule
    from eigentree.graphs.graph import LatentGraph

__all__ = ["StreamSchema", "any_rows_and_columns"]


@dataclass(frozen=True, eq=False)
class StreamSchema:
    """A stream and the schema of its rows.

    Attributes
    ----------
    schema : Schema
        What `Columns.learned` and `Columns.fitted_to` take.
    stream : Stream
        What came once, if it was read for the schema, is kept on disk and comes from there now.
    weight : str or None
        The name of the column that weighs the rows.
    spooled : bool
        Whether the codes of rows go to disk, since they come once and are to be read often.
    """

    schema: Schema
    stream: Stream
    weight: str | None
    spooled: bool

    @classmethod
    def of(
        cls, X: Any, options: ReadOptions = DEFAULT_OPTIONS, graph: LatentGraph | None = None, often: bool = False
    ) -> StreamSchema:
        """Return the schema of a stream; no row is read where the types of its columns show all states.

        Parameters
        ----------
        X : whatever is a stream
        options : ReadOptions
            Weights are the name of a column.
        graph : LatentGraph, optional
            The columns are its observed variables, and numbers are codes; by default all columns are summarised.
        often : bool
            Whether the rows are to be read more than once.
        """
        stream = stream_of(X)
        spooled = often and not stream.again
        weight = weight_column(stream, options.sample_weight)
        typed = stream.typed
        if stream.names is not None:
            needed = [name for name in stream.whole_names() if name != weight] if graph is None else graph.observed
            if not set(needed) <= set(stream.names):
                # Who reads the columns that are missing names the file.
                next(stream.batches(needed), None)
            typed = typed.only(needed)
        observed = typed.all_names if graph is None else graph.observed
        given = set(given_labels(options.categories, observed)) if typed.names or graph is None else set()
        if typed.settles(given, codes=graph is not None and options.numeric == "error"):
            return cls(typed, stream, weight, spooled)
        kept = None if stream.again else KeptBatches(stream)
        if isinstance(stream, Partitions):
            schema = stream.reduced(_summed, typed, weight, given, options.numeric)
        else:
            schema = _summed(stream, typed, weight, given, options.numeric, kept)
        if not schema.rows:
            raise DataError("the data have no rows; give at least one")
        return cls(schema, kept or stream, weight, spooled)

    def rows(self, columns: Columns) -> Encoded:
        """Return the rows as codes of some columns, which were learned from the schema."""
        rows = StreamedRows(columns, self.stream, self.weight)
        return Spool.of(columns, rows.chunks()) if self.spooled else rows


def _summed(
    stream: Stream,
    typed: Schema,
    weight: str | None,
    given: Collection[str],
    numeric: NumericRule,
    kept: KeptBatches | None = None,
) -> Schema:
    """Return the schema of all rows of a stream, in one pass; rows that come once are kept meanwhile."""
    schema: Schema | None = None
    needed = None if typed.names is None else [*typed.names, *([] if weight is None else [weight])]
    for batch in shown_batches(stream.batches(needed), "reading", stream.rows):
        table, weights = weighed(batch, weight)
        with batch.named():
            if typed.names is not None:
                table.places(typed.names)
            own = Schema.of(table, weights, given)
            schema = own if schema is None else schema + own
            # What more rows cannot mend is an error at once.
            for name, column in zip(schema.all_names, schema.columns, strict=True):
                if name not in given and (column.beyond or (numeric == "error" and column.is_continuous)):
                    learned_meaning(column, name, numeric)
        if kept is not None and table.count:
            kept.add(batch)
    if schema is None:
        return typed
    return schema if typed.names is None else schema.only(typed.names)


def any_rows_and_columns(X: Any, options: ReadOptions = DEFAULT_OPTIONS) -> tuple[Rows | Encoded, Columns]:
    """Return the rows of a table or a stream, and what was learned of their columns; those read know theirs."""
    if isinstance(X, Rows | Encoded):
        return X, X.columns
    if is_stream(X):
        summarised = StreamSchema.of(X, options, often=True)
        columns = Columns.learned(summarised.schema, options)
        return summarised.rows(columns), columns
    table = table_of(X)
    columns = Columns.learned(table, options)
    return Rows.of(table, columns), columns
