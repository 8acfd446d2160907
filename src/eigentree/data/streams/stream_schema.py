"""The look at a stream that tells what its columns are, and then its rows: in one pass where they come once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from eigentree.data.streams.encoded_stream import Encoded, StreamedRows, weighed, weight_column
from eigentree.data.streams.partitions import Partitions
from eigentree.data.streams.row_batches import Batch
from eigentree.data.streams.sources import is_stream, stream_of
from eigentree.data.streams.spool import Spool, SpoolWriter
from eigentree.data.tables.column_summary import Look
from eigentree.data.tables.columns import Columns
from eigentree.data.tables.rows import Rows
from eigentree.data.tables.state_rules import DEFAULT_OPTIONS, ReadOptions, given_labels, learned_meaning
from eigentree.data.tables.table import table_of
from eigentree.errors import DataError
from eigentree.progress import shown_batches

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from eigentree.data.streams.row_batches import Stream
    from eigentree.data.tables.state_rules import NumericRule
    from eigentree.graphs.graph import LatentGraph

__all__ = ["Looked", "any_rows_and_columns"]


@dataclass(frozen=True, eq=False)
class Looked:
    """A stream that was looked at.

    Attributes
    ----------
    look : Look
        What `Columns.learned` and `Columns.fitted_to` take.
    stream : Stream
    weight : str or None
        The name of the column that weighs the rows.
    kept : SpoolWriter or None
        Where the rows are, of a stream that is over now.
    often : bool
        Whether the rows are to be read more than once.
    """

    look: Look
    stream: Stream
    weight: str | None
    kept: SpoolWriter | None = None
    often: bool = False

    @classmethod
    def at(
        cls, X: Any, options: ReadOptions = DEFAULT_OPTIONS, graph: LatentGraph | None = None, often: bool = False
    ) -> Looked:
        """Return the look at a stream; no row is read where the types of its columns tell all states.

        Parameters
        ----------
        X : whatever is a stream
        options : ReadOptions
            Weights are the name of a column.
        graph : LatentGraph, optional
            The columns are its observed variables, and numbers are codes; by default all columns are looked at.
        often : bool
            Whether the rows are to be read more than once.
        """
        numeric = options.numeric
        stream = stream_of(X)
        weight = weight_column(stream, options.sample_weight)
        told = stream.told
        if stream.names is not None:
            every = [name for name in stream.whole_names() if name != weight] if graph is None else graph.observed
            told = told.only(_among(every, stream))
        names = told.names or tuple(f"x{place}" for place in range(len(told.columns)))
        observed = names if graph is None else graph.observed
        given = set(given_labels(options.categories, observed)) if told.names or graph is None else set()
        if told.settles(given, codes=graph is not None and numeric == "error"):
            return cls(told, stream, weight, often=often)
        kept = None if stream.again else SpoolWriter(names)
        if isinstance(stream, Partitions):
            look = stream.reduced(_summed, told, weight, given, numeric)
        else:
            look = _summed(stream, told, weight, given, numeric, kept)
        if not look.rows:
            raise DataError("the data have no rows; give at least one")
        return cls(look, stream, weight, kept, often)

    def rows(self, columns: Columns) -> Encoded:
        """Return the rows as codes of some columns, which the look told."""
        if self.kept is not None:
            return self.kept.spool(columns)
        rows = StreamedRows(columns, self.stream, self.weight)
        return rows if self.stream.again or not self.often else Spool.of(columns, rows.chunks())


def _among(names: Sequence[str], stream: Stream) -> Sequence[str]:
    # Those that are missing are told by whoever reads them, by file.
    if stream.names is not None and not set(names) <= set(stream.names):
        next(stream.batches(names), None)
    return names


def _summed(
    stream: Stream,
    told: Look,
    weight: str | None,
    given: Collection[str],
    numeric: NumericRule,
    kept: SpoolWriter | None = None,
) -> Look:
    """Return the look at all rows of a stream, in one pass; rows that come once are kept meanwhile."""
    look: Look | None = None
    needed = None if told.names is None else [*told.names, *([] if weight is None else [weight])]
    for batch in shown_batches(stream.batches(needed), "looking at", stream.rows):
        table, weights = weighed(batch, weight)
        with batch.named():
            if told.names is not None:
                table.places(told.names)
            seen = Look.of(table, weights, given)
            look = seen if look is None else look + seen
            _stop_early(look, given, numeric)
        if kept is not None and table.count:
            kept.add(Batch(table, batch.source, batch.first), weights)
    if look is None:
        return told
    return look if told.names is None else look.only(told.names)


def _stop_early(look: Look, given: Collection[str], numeric: NumericRule) -> None:
    """Raise what the look at all rows would, where more rows cannot mend it."""
    names = look.names or tuple(f"x{place}" for place in range(len(look.columns)))
    for name, seen in zip(names, look.columns, strict=True):
        if name not in given and (seen.beyond or (numeric == "error" and seen.measured)):
            learned_meaning(seen, name, numeric)


def any_rows_and_columns(X: Any, options: ReadOptions = DEFAULT_OPTIONS) -> tuple[Rows | Encoded, Columns]:
    """Return the rows of a table or a stream, and what was learned of their columns; those read know theirs."""
    if isinstance(X, Rows | Encoded):
        return X, X.columns
    if not is_stream(X):
        table = table_of(X)
        columns = Columns.learned(table, options)
        return Rows.of(table, columns), columns
    looked = Looked.at(X, options, often=True)
    columns = Columns.learned(looked.look, options)
    return looked.rows(columns), columns
