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

__all__ = ["drawn_lazily", "filled_lazily", "numbers_predicted_lazily", "predicted_lazily", "scored_lazily"]

SCORES = "log_probability"
"""The name of a series of scores."""

MOST_PARTITIONS = 2**16
"""Most partitions that rows are sampled in: Dask takes 0.1 ms and 4 kB for each before any is computed."""


def scored_lazily(model: Any, frame: Any) -> Any:
    """Return a Dask Series of the log probability of each row of a Dask DataFrame."""
    import pandas as pd

    like = pd.Series(np.zeros(0), index=empty_frame(frame).index, name=SCORES)
    return lazy_frame(frame.to_delayed(), _scored, model, like=like, divisions=frame.divisions)


def predicted_lazily(model: Any, frame: Any, target: str, labels: Sequence[Any]) -> Any:
    """Return a Dask DataFrame of P(target | the other cells) of each row, one column per label."""
    import pandas as pd

    columns = pd.Index(list(labels), name=target)
    like = pd.DataFrame(np.zeros((0, len(columns))), index=empty_frame(frame).index, columns=columns)
    return lazy_frame(frame.to_delayed(), _predicted, model, columns, like=like, divisions=frame.divisions)


def numbers_predicted_lazily(
    model: Any, frame: Any, target: str, quantiles: Sequence[float] | None, unit: str
) -> Any:
    """Return a Dask Series of the mean of a number in each row, or a Dask DataFrame of its quantiles.

    `unit` is numpy's type of dates, and empty for other numbers.
    """
    import pandas as pd

    index, kind = empty_frame(frame).index, unit or np.float64
    if quantiles is None:
        like: Any = pd.Series(np.zeros(0, kind), index=index, name=target)
    else:
        columns = pd.Index(list(quantiles), name="quantile")
        like = pd.DataFrame(np.zeros((0, len(columns)), kind), index=index, columns=columns)
    return lazy_frame(frame.to_delayed(), _number, model, target, like, like=like, divisions=frame.divisions)


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


def _scored(frame: Any, model: Any) -> Any:
    import pandas as pd

    scores = model.score_samples(frame) if len(frame) else np.zeros(0)
    return pd.Series(scores, index=frame.index, name=SCORES)


def _predicted(frame: Any, model: Any, columns: Any) -> Any:
    import pandas as pd

    proba = model.predict_proba(frame, columns.name) if len(frame) else np.zeros((0, len(columns)))
    return pd.DataFrame(np.asarray(proba), index=frame.index, columns=columns)


def _number(frame: Any, model: Any, target: str, like: Any) -> Any:
    import pandas as pd

    if like.ndim == 1:
        found = model.predict(frame, target) if len(frame) else like.to_numpy()
        return pd.Series(found, index=frame.index, name=target)
    found = model.predict_quantiles(frame, target, like.columns) if len(frame) else like.to_numpy()
    return pd.DataFrame(np.asarray(found), index=frame.index, columns=like.columns)


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
