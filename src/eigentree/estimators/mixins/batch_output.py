"""Answers about more rows than memory holds: asked batch by batch, and written into a file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from eigentree.data.streams.parquet_parts import arrow_rows
from eigentree.data.streams.sources import is_stream, stream_of
from eigentree.data.tables.restore import filled_rows
from eigentree.data.tables.rows import Rows
from eigentree.errors import DataError
from eigentree.inference.queries import Answers, warn_helped
from eigentree.io.atomic_write import checked_path
from eigentree.io.byte_files import named_format
from eigentree.io.table_files import write_table
from eigentree.messages import renamed_arguments
from eigentree.progress import shown_batches
from eigentree.validation import generator

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator

    from numpy.typing import ArrayLike

    from eigentree.arrays import Floats
    from eigentree.data.streams.row_batches import Batch, Stream
    from eigentree.data.tables.columns import Columns
    from eigentree.inference.model import Model
    from eigentree.validation import Seed

__all__ = ["Writing", "scored_batches"]


class Writing(Answers):
    """What is asked of a fitted estimator about streams; each method is that without ``_to``, of each batch.

    The file is written beside its place and put there once it is complete: what ends a call early, be it an error
    in the last row, leaves what was there before.
    """

    def score_samples_to(self, X: ArrayLike | Any, path: str | os.PathLike[str]) -> int:
        """Write the log probability of each row into a file; return how many rows there were.

        Parameters
        ----------
        X : a stream, or whatever `score_samples` takes
            Such as a path of CSV or Parquet files; only the columns of the model are read.
        path : str or PathLike
            Of the file, Parquet, CSV, TSV or JSON lines as its name shows, with one column ``log_prob``, in the
            order of the rows.
        """
        helped = 0

        def parts() -> Iterator[dict[str, Any]]:
            nonlocal helped
            for _, log_prob, replaced in scored_batches(self._model, self._columns, X):
                helped += replaced
                yield {"log_prob": log_prob}

        rows = _written(path, parts())
        warn_helped(helped, f"of {rows} rows {self._model.replaced}")
        return rows

    def predict_proba_to(self, X: ArrayLike | Any, path: str | os.PathLike[str], target: str) -> int:
        """Write P(target | the other cells) of each row into a file; return how many rows there were.

        Parameters
        ----------
        X : a stream, or whatever `predict_proba` takes
            It need not have the column that is asked for.
        path : str or PathLike
            Of the file, with one column per state of the target, called by its label.
        target : str
            The name of a column.
        """
        columns, undefined = self._columns, 0
        self._model.graph.column(target)
        names = [str(label) for label in columns.labels(target)]

        def parts() -> Iterator[dict[str, Any]]:
            nonlocal undefined
            for batch in _batches(_stream(X), columns, "predicting", absent=target):
                with batch.named():
                    rows = Rows.of(batch.table, columns, target, batch.first)
                    proba, lost = self._model.predict(rows, target)
                undefined += lost
                yield dict(zip(names, proba.T, strict=True))

        rows = _written(path, parts())
        warn_helped(undefined, f"rows {self._model.undefined}; their column's marginal was used")
        return rows

    @renamed_arguments(False, seed="random_state")
    def impute_to(
        self,
        X: ArrayLike | Any,
        path: str | os.PathLike[str],
        method: Literal["mode", "sample"] = "mode",
        random_state: Seed = None,
    ) -> int:
        """Write the rows with their missing cells filled into a file; return how many there were.

        Columns that are none of the model's are handed on as they are.

        Parameters
        ----------
        X : a stream, or whatever `impute` takes
        path : str or PathLike
            Of the file, with all the columns of X.
        method, random_state
            As those of `impute`; "sample" draws for one batch after the other.
        """
        columns, random, undefined = self._columns, generator(random_state), 0
        stream = _stream(X)

        def parts() -> Iterator[dict[str, Any]]:
            nonlocal undefined
            for batch in _batches(stream, columns, "imputing", every=True):
                table = arrow_rows(batch, columns)
                with batch.named():
                    own = table.select([name for name in table.column_names if name in columns.names])
                    rows = Rows.of(own, columns, first=batch.first)
                    codes, lost = self._model.impute(rows, method, random)
                    filled = filled_rows(own, rows, columns, codes, random if method == "sample" else None)
                undefined += lost
                for name in filled.column_names:
                    table = table.set_column(table.column_names.index(name), name, filled.column(name))
                yield dict(zip(table.column_names, table.columns, strict=True))

        rows = _written(path, parts(), stream.types)
        warn_helped(undefined, f"missing cells {self._model.undefined}; their column's marginal was used")
        return rows


def _written(path: str | os.PathLike[str], parts: Iterator[dict[str, Any]], types: Any = None) -> int:
    """Return how many rows were written, as Parquet where the name of the file shows no format."""
    name = checked_path(path)
    return write_table(name, parts, named_format(name) or "parquet", types=types)


def scored_batches(model: Model, columns: Columns, X: Any) -> Iterator[tuple[Batch, Floats, int]]:
    """Yield each batch of a stream with the log probabilities of its rows, and for how many they were replaced."""
    for batch in _batches(_stream(X), columns, "scoring"):
        with batch.named():
            log_prob, replaced = model.log_prob(Rows.of(batch.table, columns, first=batch.first))
        yield batch, log_prob, replaced


def _stream(X: Any) -> Stream:
    """Return what data come from; a table is a stream of one batch."""
    return stream_of(X if is_stream(X) else iter([X]))


def _batches(
    stream: Stream, columns: Columns, doing: str, absent: str | None = None, every: bool = False
) -> Iterator[Batch]:
    """Yield the batches of a stream that have rows, with the columns of a model or with all."""
    names: tuple[str, ...] | None = None
    if stream.names is not None and not every:
        names = tuple(name for name in columns.names if name != absent or name in stream.names)
    none = True
    for batch in shown_batches(stream.batches(names), doing, stream.rows):
        if batch.table.count:
            none = False
            yield batch
    if none:
        raise DataError("the data have no rows; give at least one")
