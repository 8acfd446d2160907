"""Queries that every estimator of tables of data has, of rows in memory and of streams."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np

from eigentree.data.streams.partitions import is_dask_frame
from eigentree.data.streams.sources import is_stream, stream_of
from eigentree.data.tables.restore import arrow_rows, filled_rows
from eigentree.data.tables.rows import Rows
from eigentree.data.tables.text_cells import FileTable, TextColumn
from eigentree.errors import DataError, ParameterError, quoted
from eigentree.estimators.mixins.constructor_parameters import Parameters
from eigentree.graphs.graph import LatentGraph
from eigentree.graphs.templates import Template
from eigentree.inference.dask_queries import queried_lazily
from eigentree.inference.queries import Queries, warn_undefined
from eigentree.io.byte_files import checked_path, named_format
from eigentree.io.table_files import write_table
from eigentree.messages import renamed_arguments
from eigentree.progress import shown_batches
from eigentree.validation import generator

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import ArrayLike, NDArray

    from eigentree.arrays import Floats
    from eigentree.data.streams.row_batches import Batch, Stream
    from eigentree.data.tables.columns import Columns
    from eigentree.data.tables.table import Table
    from eigentree.validation import FillMethod, Seed

    Form: TypeAlias = Literal["csv", "tsv", "jsonl", "parquet"]
    ForEach: TypeAlias = Callable[[Table, Any], object]

__all__ = ["DensityMixin", "completed_cells", "require_estimator"]

ROW = "row"
"""The name of the numbers of rows, where no column identifies them."""


class DensityMixin(Parameters, Queries):
    """Queries of a fitted estimator, which its model answers.

    Methods that end with ``_to`` write the results for a stream into a file. It is written beside its place and put
    there once it is complete: what ends a call early, be it an error in the last row, leaves what was there before.
    Its name shows its format: Parquet, CSV, TSV or JSON lines, compressed or not; "-" is standard output.
    """

    @property
    def graph_(self) -> LatentGraph:
        """The graph that was fitted."""
        return self._model.graph

    def get_feature_names_out(self, input_features: object = None) -> NDArray[np.object_]:
        """Return the names of the columns that `impute` and `sample` give; `input_features` is ignored."""
        return np.array(self._columns.names, object)

    def score_samples(self, X: ArrayLike | Any) -> Floats:
        """Return the log probability of each row, hidden variables and missing cells marginalised out.

        A warning says how many scores were renormalised, or of impossible rows.

        Parameters
        ----------
        X : array-like of shape (rows, columns), a data frame, rows of letters, or a stream
            Labels, or codes where the columns have none, None, NaN, null or -1 for a missing cell; or a stream,
            whose scores `score_samples_to` writes to a file.
        """
        if is_dask_frame(X):
            lazy: Floats = queried_lazily(self, X, "score_samples", name="log_probability")
            return lazy
        if is_stream(X):
            scored = []
            for batch in _batches(_stream(X), self._columns, "scoring"):
                with batch.named():
                    scored.append(self._model.log_prob(Rows.of(batch.table, self._columns, first=batch.first)))
            log_prob, replaced = np.concatenate([part for part, _ in scored]), sum(count for _, count in scored)
        else:
            log_prob, replaced = self._model.log_prob(self._rows(X))
        warn_undefined(replaced, f"of {len(log_prob)} rows {self._model.replaced}")
        return log_prob

    def score(self, X: ArrayLike | Any, y: object = None) -> float:
        """Return the mean log probability of the rows; `y` is ignored."""
        mean: Any = self.score_samples(X).mean()
        return float(mean.compute() if is_dask_frame(X) else mean)

    def score_samples_to(
        self,
        X: ArrayLike | Any,
        path: str | os.PathLike[str],
        *,
        id: str | None = None,
        form: Form | None = None,
        each: ForEach | None = None,
    ) -> int:
        """Write the log probability of each row into a file; return how many rows there were.

        Parameters
        ----------
        X : a stream, or whatever `score_samples` takes
            Such as a path of CSV or Parquet files; only the columns of the model are read.
        path : str or PathLike
            Of the file, with the column ``log_probability``, in the order of the rows.
        id : str, optional
            A column that identifies rows, or "row" for their number; written first.
        form : {"csv", "tsv", "jsonl", "parquet"}, optional
            The format, where the name of the file does not show it.
        each : callable, optional
            Called with each batch as a table and its log probabilities.
        """
        replaced = 0

        def scored(rows: Rows, table: Table) -> dict[str, Any]:
            nonlocal replaced
            log_prob, count = self._model.log_prob(rows)
            replaced += count
            if each is not None:
                each(table, log_prob)
            return {"log_probability": log_prob}

        parts = _results(X, self._columns, "scoring", scored, id)
        rows = write_table(checked_path(path), parts, _form_of(path, form))
        warn_undefined(replaced, f"of {rows} rows {self._model.replaced}")
        return rows

    def predict_proba_to(
        self,
        X: ArrayLike | Any,
        path: str | os.PathLike[str],
        target: str,
        *,
        id: str | None = None,
        form: Form | None = None,
        each: ForEach | None = None,
    ) -> int:
        """Write P(target | the other cells) of each row into a file; return how many rows there were.

        Parameters
        ----------
        X : a stream, or whatever `predict_proba` takes
            It need not have the target.
        path : str or PathLike
            Of the file, with the most probable label, called by the name of the target, and a column
            ``P(target=label)`` for each.
        target : str
            The name of a column, or of a hidden variable where the model has tables.
        id, form, each
            As those of `score_samples_to`; `each` gets the probabilities.
        """
        labels, predict = self._prediction(target)
        undefined = 0

        def predicted(rows: Rows, table: Table) -> dict[str, Any]:
            nonlocal undefined
            proba, lost = predict(rows)
            undefined += lost
            if each is not None:
                each(table, proba)
            best = [labels[place] for place in proba.argmax(axis=1).tolist()]
            return {target: best} | {
                f"P({target}={label})": own for label, own in zip(labels, proba.T, strict=True)
            }

        parts = _results(X, self._columns, "predicting", predicted, id, target)
        rows = write_table(checked_path(path), parts, _form_of(path, form))
        warn_undefined(undefined, f"rows {self._model.undefined}; their column's marginal was used")
        return rows

    def _prediction(self, target: str) -> tuple[Sequence[Any], Callable[[Rows], tuple[Floats, int]]]:
        """Return the labels of a target, and what returns their probabilities and how many rows are undefined."""
        self._model.graph.column(target)
        return self._columns.labels(target), lambda rows: self._model.predict(rows, target)

    @renamed_arguments(False, seed="random_state")
    def impute_to(
        self,
        X: ArrayLike | Any,
        path: str | os.PathLike[str],
        method: FillMethod = "mode",
        random_state: Seed = None,
        *,
        form: Form | None = None,
        each: ForEach | None = None,
    ) -> int:
        """Write the rows with their missing cells filled into a file; return how many there were.

        Columns that are none of the model's are handed on as they are, and so is every known cell: text files that
        are written as text keep their cells as they were written.

        Parameters
        ----------
        X : a stream, or whatever `impute` takes
        path : str or PathLike
            Of the file, with all the columns of X.
        method, random_state
            As those of `impute`; "sample" draws for one batch after the other.
        form, each
            As those of `score_samples_to`; `each` gets the number of filled cells.
        """
        columns, random, undefined = self._columns, generator(random_state), 0
        stream, kind = _stream(X), _form_of(path, form)

        def parts() -> Iterator[dict[str, Any]]:
            nonlocal undefined
            for batch in _batches(stream, columns, "imputing", every=True):
                as_written = isinstance(batch.data, FileTable) and kind != "parquet"
                table = batch.data if as_written else arrow_rows(batch, columns)
                with batch.named():
                    there = (
                        columns.names
                        if as_written
                        else [name for name in table.column_names if name in columns.names]
                    )
                    own = table.only(there) if as_written else table.select(there)
                    rows = Rows.of(own, columns, first=batch.first)
                    codes, lost = self._model.impute(rows, method, random)
                    filled = filled_rows(own, rows, columns, codes, random if method == "sample" else None)
                undefined += lost
                missing = [np.flatnonzero(rows.missing(place)) for place in range(len(columns.names))]
                if each is not None:
                    each(batch.table, sum(map(len, missing)))
                if as_written:
                    yield completed_cells(table, columns.names, np.asarray(filled), missing)
                    continue
                for name in filled.column_names:
                    table = table.set_column(table.column_names.index(name), name, filled.column(name))
                yield dict(zip(table.column_names, table.columns, strict=True))

        rows = write_table(checked_path(path), parts(), kind, types=stream.types)
        warn_undefined(undefined, f"missing cells {self._model.undefined}; their column's marginal was used")
        return rows


def require_estimator(estimator: object) -> None:
    """Raise `ParameterError` unless this is an estimator that another one can fit to rows of its own."""
    if not isinstance(estimator, DensityMixin):
        structure = isinstance(estimator, str | LatentGraph | Template)
        hint = f"; a structure is wrapped, as in EMJunctionTree({quoted(estimator)})" if structure else ""
        raise ParameterError(
            f"estimator is a SpectralJunctionTree, an EMJunctionTree or an OnlineEMJunctionTree, "
            f"not {quoted(estimator)}{hint}"
        )


def completed_cells(
    table: FileTable, names: Sequence[str], filled: Any, missing: Sequence[Any]
) -> dict[str, list[Any]]:
    """Return the cells of all columns as they were written; in some, the rows that are missing are filled in."""
    columns = {name: table.cells(place) for place, name in enumerate(table.names)}
    for place, name in enumerate(names):
        own = columns[name]
        # Where cells are text, as those of CSV are, so are those that are filled in.
        text = isinstance(table.held[table.names.index(name)], TextColumn) or any(
            isinstance(cell, str) for cell in own
        )
        # A column of floats, such as other programs make of whole numbers with missing cells, stays one.
        floats = text and any(cell is not None and "." in cell for cell in own)
        for row, cell in zip(missing[place].tolist(), filled[missing[place], place].tolist(), strict=True):
            cell = float(cell) if floats and isinstance(cell, int) else cell
            own[row] = str(cell) if text else cell
    return columns


def _form_of(path: str | os.PathLike[str], form: Form | None) -> str:
    """Return the format of a file: by its name, as given, or Parquet."""
    return form or named_format(checked_path(path)) or "parquet"


def _results(
    X: Any,
    columns: Columns,
    doing: str,
    compute: Callable[[Rows, Table], dict[str, Any]],
    id: str | None,
    absent: str | None = None,
) -> Iterator[dict[str, Any]]:
    """Yield what is computed for the rows of each batch as columns, what identifies rows first."""
    first = 0
    for batch in _batches(_stream(X), columns, doing, absent, id):
        table = batch.table
        there = id is not None and id in (table.names or ())
        with batch.named():
            own = table.without(str(id)) if there and id not in columns.names else table
            found = compute(Rows.of(own, columns, absent, batch.first), table)
        if id is not None:
            if id in found:
                raise DataError(f"the column {id!r} would stand in the output twice; take another id, or rename it")
            numbers = range(first, first + table.count)
            found = {id: table.cells((table.names or ()).index(id)) if there else list(numbers)} | found
        yield found
        first += table.count


def _stream(X: Any) -> Stream:
    """Return what data come from; a table is a stream of one batch."""
    return stream_of(X if is_stream(X) else iter([X]))


def _batches(
    stream: Stream,
    columns: Columns,
    doing: str,
    absent: str | None = None,
    id: str | None = None,
    every: bool = False,
) -> Iterator[Batch]:
    """Yield the batches of a stream that have rows, with the columns of a model or with all."""
    names: tuple[str, ...] | None = None
    if stream.names is not None and not every:
        names = tuple(name for name in columns.names if name != absent or name in stream.names)
        if id is not None and id not in names and (id != ROW or id in stream.names):
            names += (id,)
    none = True
    for batch in shown_batches(stream.batches(names), doing, stream.rows):
        if batch.table.count:
            none = False
            yield batch
    if none:
        raise DataError("the data have no rows; give at least one")
