"""Rows that lie in partitions of a cluster: worked on where they lie, and what comes of them added up as a tree.

Dask runs it all: what is done here once per partition is a task, and so is each sum of a few of them, so what travels is
what the partitions come to (counts, looks at columns, expected counts) and never their rows. A task whose worker
is lost runs again elsewhere, and since sums of whole numbers do not depend on their order, the result is the same.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar

from eigentree.errors import DataError, EigentreeError, did_you_mean, quoted

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["Partitions", "is_dask_frame", "lazy_frame"]

T = TypeVar("T")

SUMMED_AT_ONCE = 8
"""How many parts one task adds up: few, so that no worker holds many at a time."""

LONGEST_WITHOUT_WORKERS = 60.0
"""Seconds without any worker after which a cluster is taken for lost."""

LOOK_AGAIN = 0.5
"""Seconds between two looks at the workers."""


def is_dask_frame(X: object) -> bool:
    """Return whether this is a Dask DataFrame; Dask is not imported to know it."""
    kind = type(X)
    return kind.__name__ == "DataFrame" and kind.__module__.partition(".")[0] in ("dask", "dask_expr")


@dataclass(frozen=True, eq=False)
class Partitions:
    """Parts of a table that lie on a cluster, and what Dask knows them by.

    Attributes
    ----------
    parts : tuple of dask.delayed.Delayed
        Each a frame, or what was made of one by `kept`.
    places : tuple of str
        What each part is called in messages.
    names : tuple of str
        The columns that each has.
    client : distributed.Client or None
        Where to work; None leaves it to Dask, which knows the client that was made last, or works in threads.

    Examples
    --------
    >>> import dask.dataframe
    >>> import pandas
    >>> import eigentree as et
    >>> frame = dask.dataframe.from_pandas(pandas.DataFrame({"a": [0, 1, 1, 0], "b": [1, 1, 0, 0]}), npartitions=2)
    >>> et.Partitions.of(frame).reduced(len)
    4
    """

    parts: tuple[Any, ...]
    places: tuple[str, ...]
    names: tuple[str, ...]
    client: Any = None

    @classmethod
    def of(cls, frame: Any, client: Any = None) -> Partitions:
        """Return the partitions of a Dask DataFrame.

        Parameters
        ----------
        frame : dask.dataframe.DataFrame
        client : distributed.Client, optional
            By default the one that was made last, if there is one.
        """
        if not is_dask_frame(frame):
            raise DataError(f"partitions are those of a Dask DataFrame, not of {quoted(frame)}")
        if client is not None and not all(hasattr(client, name) for name in ("compute", "persist", "scheduler_info")):
            raise DataError(f"a client is a distributed.Client, not {quoted(client)}")
        if not all(isinstance(name, str) for name in frame.columns):
            raise DataError("the columns of a Dask DataFrame need names that are text; rename them")
        parts = tuple(frame.to_delayed())
        places = tuple(f"partition {number}" for number in range(len(parts)))
        return cls(parts, places, tuple(frame.columns), client)

    def kept(self, function: Callable[..., Any], *shared: Any) -> Partitions:
        """Return what a function makes of each part, worked out and kept where the part lies.

        Parameters
        ----------
        function : callable
            Called with the part and the shared arguments.
        *shared
            Sent to each worker once.
        """
        made = self._persisted(self._mapped(function, shared))
        return replace(self, parts=tuple(made))

    def reduced(self, function: Callable[..., T], *shared: Any) -> T:
        """Return the sum over all parts of what a function makes of each; the arguments are those of `kept`.

        Parts are added up in their order, a few at a time, whichever is ready first: the result is the same each
        time.

        Raises
        ------
        DataError
            When a part is not as it should be; the message names it. When the cluster has lost all workers, or
            lost one again and again by the same part.
        """
        level = self._mapped(function, shared)
        delayed = _dask().delayed
        while len(level) > 1:
            groups = [level[k : k + SUMMED_AT_ONCE] for k in range(0, len(level), SUMMED_AT_ONCE)]
            level = [delayed(_sum, pure=False)(group) if len(group) > 1 else group[0] for group in groups]
        result: T = self._computed(level[0])
        return result

    def _mapped(self, function: Callable[..., Any], shared: Sequence[Any]) -> list[Any]:
        delayed = _dask().delayed
        once = [delayed(each, pure=False, traverse=False) for each in shared]
        work = delayed(_of_part, pure=False)
        return [
            work(function, part, place, self.names, *once)
            for part, place in zip(self.parts, self.places, strict=True)
        ]

    @property
    def _running(self) -> Any:
        """The client to work with, or None."""
        if self.client is not None:
            return self.client
        try:
            from distributed import default_client

            return default_client()
        except (ImportError, ValueError):
            return None

    def _persisted(self, tasks: list[Any]) -> list[Any]:
        if (client := self._running) is None:
            return list(_dask().persist(*tasks))
        made = list(client.persist(tasks))
        _awaited(client, [future for task in made for future in client.futures_of(task)])
        return made

    def _computed(self, task: Any) -> Any:
        if (client := self._running) is None:
            return task.compute()
        future = client.compute(task)
        _awaited(client, [future])
        return future.result()


def lazy_frame(parts: Sequence[Any], function: Callable[..., Any], *shared: Any, like: Any, divisions: Any = None) -> Any:
    """Return a Dask frame or series, each partition of which a function makes when it is asked for.

    Parameters
    ----------
    parts : sequence
        What each partition is made of: a `Delayed` frame, or any small value.
    function : callable
        Called with a part and the shared arguments; returns a frame or series of pandas.
    *shared
        Sent to each worker once.
    like : pandas.DataFrame or pandas.Series
        Without rows: names and types of what the function returns.
    divisions : tuple, optional
        Those of the frame that the parts are from.
    """
    delayed = _dask().delayed
    once = [delayed(each, pure=False, traverse=False) for each in shared]
    made = [delayed(function, pure=False)(part, *once) for part in parts]
    from dask.dataframe import from_delayed

    return from_delayed(made, meta=like, divisions=divisions, verify_meta=False)


def _of_part(function: Callable[..., T], part: Any, place: str, names: Sequence[str], *shared: Any) -> T:
    """Return what a function makes of a part; errors say which part it was."""
    if hasattr(part, "columns"):
        for name in names:
            if name not in part.columns:
                raise DataError(f"{place} has no column {name!r}{did_you_mean(name, part.columns)}")
    try:
        return function(part, *shared)
    except EigentreeError as error:
        raise type(error)(f"{place}: {error}") from None


def _sum(parts: Sequence[Any]) -> Any:
    total = parts[0]
    for part in parts[1:]:
        total = total + part
    return total


def _awaited(client: Any, futures: Sequence[Any]) -> None:
    """Wait for futures; raise `DataError` when workers die by them, or none is left."""
    from distributed import KilledWorker, wait

    alone_since: float | None = None
    while True:
        try:
            wait(futures, timeout=LOOK_AGAIN)
            break
        except TimeoutError:
            pass
        if client.scheduler_info()["workers"]:
            alone_since = None
            continue
        alone_since = alone_since or time.monotonic()
        if time.monotonic() - alone_since > LONGEST_WITHOUT_WORKERS:
            client.cancel(list(futures))
            raise DataError(
                f"the cluster has had no worker for {LONGEST_WITHOUT_WORKERS:.0f} s; nothing is lost but time: start "
                f"workers, and call again"
            )
    for future in futures:
        if isinstance(error := future.exception(), KilledWorker):
            raise DataError(
                f"a partition ended each worker that it was given to, perhaps for want of memory; make partitions "
                f"smaller, or give workers more ({error})"
            ) from None


def _dask() -> Any:
    try:
        import dask
    except ImportError:
        raise DataError("partitions of a cluster need Dask: pip install 'eigentree[dask]'") from None
    return dask
