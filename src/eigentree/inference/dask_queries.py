"""Queries of Dask frames, computed partition by partition when their result is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from eigentree.data.streams.partitions import empty_frame, lazy_frame
from eigentree.data.tables.restore import sampled_rows
from eigentree.errors import DataError
from eigentree.validation import check_cells, generator, whole_number

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from eigentree.data.tables.columns import Columns
    from eigentree.validation import Seed

__all__ = ["drawn_lazily", "filled_lazily", "queried_lazily"]

MOST_PARTITIONS = 2**16
"""Most partitions that rows are sampled in: Dask takes 0.1 ms and 4 kB for each before any is computed."""


def queried_lazily(
    model: Any,
    frame: Any,
    method: str,
    *arguments: Any,
    name: str,
    columns: Sequence[Any] | None = None,
    kind: Any = np.float64,
) -> Any:
    """Return what a method of a model returns for each row of a Dask DataFrame, as one column or several.

    Parameters
    ----------
    model : LatentNetwork or a fitted estimator
    frame : Dask DataFrame
    method : str
    *arguments
        Of the method, after the rows.
    name : str
        What the Dask Series is called; of several columns, what they are.
    columns : sequence, optional
        Their names, of a Dask DataFrame.
    kind : dtype
        Of the numbers.
    """
    import pandas as pd

    index = empty_frame(frame).index
    like: Any = pd.Series(np.zeros(0, kind), index=index, name=name)
    if columns is not None:
        called = pd.Index(list(columns), name=name)
        like = pd.DataFrame(np.zeros((0, len(called)), kind), index=index, columns=called)
    return lazy_frame(
        frame.to_delayed(), _queried, model, method, arguments, like, like=like, divisions=frame.divisions
    )


def filled_lazily(model: Any, frame: Any, method: str, seed: Seed) -> Any:
    """Return a Dask DataFrame with missing cells filled; cells are sampled partition by partition."""
    frames = frame.to_delayed()
    parts = list(zip(frames, _seeds(seed, len(frames)), strict=True))
    return lazy_frame(parts, _filled, model, method, like=empty_frame(frame), divisions=frame.divisions)


def drawn_lazily(
    model: Any, columns: Columns, n: int, seed: Seed, given: Mapping[str, Any] | None, partitions: int
) -> Any:
    """Return a Dask DataFrame of rows sampled from a model, in partitions of about equally many."""
    n, partitions = whole_number("n", n), whole_number("partitions", partitions, most=MOST_PARTITIONS)
    if partitions > n:
        raise DataError(f"{n} rows cannot be sampled in {partitions} partitions; take at most one per row")
    check_cells(
        f"a partition of {n // partitions:,} rows", n // partitions * len(columns.names), "take more partitions"
    )
    bounds = [number * n // partitions for number in range(partitions + 1)]
    parts = list(zip(bounds[:-1], bounds[1:], _seeds(seed, partitions), strict=True))
    random = np.random.default_rng(0)
    like = _named(sampled_rows(columns, np.zeros((1, len(columns.names)), np.int64), random), columns, 0)[:0]
    divisions = (*bounds[:-1], n - 1)
    return lazy_frame(parts, _drawn, model, columns, given, like=like, divisions=divisions)


def _seeds(seed: Seed, count: int) -> list[int]:
    """Return a seed for each partition: whichever is computed again has the same rows."""
    return list(generator(seed).integers(2**63, size=count).tolist())


def _queried(frame: Any, model: Any, method: str, arguments: tuple[Any, ...], like: Any) -> Any:
    found = np.asarray(getattr(model, method)(frame, *arguments)) if len(frame) else like.to_numpy()
    named = {"name": like.name} if like.ndim == 1 else {"columns": like.columns}
    return type(like)(found, index=frame.index, **named)


def _filled(part: tuple[Any, int], model: Any, method: Any) -> Any:
    frame, seed = part
    return model.impute(frame, method, seed) if len(frame) else frame


def _drawn(part: tuple[int, int, int], model: Any, columns: Columns, given: Mapping[str, Any] | None) -> Any:
    start, stop, seed = part
    return _named(model.sample(stop - start, seed, given), columns, start)


def _named(rows: Any, columns: Columns, start: int) -> Any:
    """Return sampled rows as a frame of pandas, counted from a first one."""
    import pandas as pd

    if hasattr(rows, "to_pandas"):
        rows = rows.to_pandas()
    elif not isinstance(rows, pd.DataFrame):
        cells = [list(row) for row in rows] if len(rows) and isinstance(rows[0], str) else rows
        rows = pd.DataFrame(cells, columns=list(columns.names))
    return rows.set_axis(pd.RangeIndex(start, start + len(rows)))
