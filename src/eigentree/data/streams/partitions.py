"""Rows that lie in partitions of a cluster: worked on where they lie, and what comes of them added up as a tree.

Dask runs it all: what is done once per partition is a task, and so is each sum of a few of them. So what travels is
what partitions come to (counts, looks at columns, expected counts), and never their rows. A task whose worker is
lost runs again elsewhere, and parts are added up in the same order each time, so the result is the same.
"""

from __future__ import annotations

import os
import time
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar

from eigentree.data.streams.file_batches import FileStream, found_files
from eigentree.data.streams.row_batches import Batch, Stream, check_names
from eigentree.data.tables.column_summary import Schema
from eigentree.data.tables.text_cells import require_names
from eigentree.errors import DataError, EigentreeError, named_failures, quoted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

__all__ = ["Partitions", "empty_frame", "is_dask_frame", "lazy_frame"]

T = TypeVar("T")

SUMMED_AT_ONCE = 8
"""How many parts one task adds up: few, so that no worker holds many at a time."""

LONGEST_WITHOUT_WORKERS = 60.0
"""Seconds without any worker after which a cluster is taken for lost, unless Dask's configuration says
`eigentree.longest-without-workers`."""

LOOK_AGAIN = 0.5
"""Seconds between two looks at the workers."""


def is_dask_frame(X: object) -> bool:
    """Return whether this is a Dask DataFrame; Dask is not imported to know it."""
    kind = type(X)
    return kind.__name__ == "DataFrame" and kind.__module__.partition(".")[0] in ("dask", "dask_expr")


def empty_frame(frame: Any) -> Any:
    """Return a frame of pandas with the columns and types of a Dask DataFrame, and no rows."""
    from dask.dataframe.dispatch import make_meta

    return make_meta(frame)


@dataclass(frozen=True, eq=False)
class Partitions(Stream):
    """The partitions of a table on a cluster of Dask: a stream whose rows stay there.

    Attributes
    ----------
    parts : tuple of dask.delayed.Delayed
        Each a `Stream` of the rows of one partition, or what `kept` made of it.
    places : tuple of str
        What each part is called in messages.
    names : tuple of str
        The columns that all have.
    typed : Schema
        What their types say.
    client : distributed.Client or None
        Where to work; None leaves it to Dask, which knows the client that was made last, or works in threads.

    Examples
    --------
    >>> import dask.dataframe
    >>> import pandas
    >>> import eigentree as et
    >>> frame = pandas.DataFrame({"a": [0, 1, 1, 0], "b": [1, 1, 0, 0]})
    >>> et.Partitions.of(dask.dataframe.from_pandas(frame, npartitions=2))
    <Partitions: 2 of 2 columns>
    """

    parts: tuple[Any, ...]
    places: tuple[str, ...]
    names: tuple[str, ...]
    typed: Schema
    client: Any = None

    @classmethod
    def of(cls, X: Any, client: Any = None) -> Partitions:
        """Return the partitions of a Dask DataFrame, or of files that all workers can read.

        Parameters
        ----------
        X : dask.dataframe.DataFrame, str, PathLike, or list of these
            Of files (Parquet, CSV, TSV), folders and patterns each file is one partition.
        client : distributed.Client, optional
            By default the one that was made last, if there is one.

        Raises
        ------
        DataError
            When they are nothing of these.
        FileError
            When there is no such file, or it is damaged.
        """
        if client is not None and not all(hasattr(client, name) for name in ("compute", "persist", "futures_of")):
            raise DataError(f"a client is a distributed.Client, not {quoted(client)}")
        delayed = _dask().delayed
        if is_dask_frame(X):
            check_names(tuple(X.columns), "the Dask DataFrame")
            parts = X.to_delayed()
            places = [f"partition {number}" for number in range(len(parts))]
            work = delayed(_of_part, pure=False)
            held = [work(_Held, part, place, place) for part, place in zip(parts, places, strict=True)]
            return cls(
                tuple(held), tuple(places), tuple(X.columns), Schema.of_types(_typed(empty_frame(X))), client
            )
        paths = X if isinstance(X, list | tuple) else [X]
        if not paths or not all(isinstance(path, str | os.PathLike) for path in paths):
            raise DataError(f"partitions are those of a Dask DataFrame, or files, not of {quoted(X)}")
        files = FileStream([found for path in paths for found in found_files(path)])
        opened = [delayed(FileStream, pure=False)([file.path]) for file in files.files]
        places = [repr(file.path) for file in files.files]
        return cls(tuple(opened), tuple(places), files.whole_names(), files.typed, client)

    def __repr__(self) -> str:
        return f"<Partitions: {len(self.parts)} of {len(self.names)} columns>"

    def batches(self, columns: Sequence[str] | None = None) -> Iterator[Batch]:
        """Yield the batches of one partition after the other, which come here for it."""
        for part in self.parts:
            yield from self._computed(part).batches(columns)

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

    def lazily(self, function: Callable[..., Any], own: Mapping[int, tuple[Any, ...]]) -> Partitions:
        """Return what a function will make of some parts, wherever it is needed.

        Parameters
        ----------
        function : callable
            Called with the part and the arguments of its own.
        own : mapping of int to tuple
            These arguments, by the place of the part.
        """
        made = _dask().delayed(function, pure=False)
        parts = tuple(made(self.parts[place], *arguments) for place, arguments in own.items())
        return replace(self, parts=parts, places=tuple(self.places[place] for place in own))

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
        return [work(function, part, place, *once) for part, place in zip(self.parts, self.places, strict=True)]

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
        client = self._running
        with _working(client):
            if client is None:
                return list(_dask().persist(*tasks))
            made = list(client.persist(tasks))
            _awaited(client, [future for task in made for future in client.futures_of(task)])
            return made

    def _computed(self, task: Any) -> Any:
        client = self._running
        with _working(client):
            if client is None:
                return task.compute()
            future = client.compute(task)
            _awaited(client, [future])
            return future.result()


def lazy_frame(
    parts: Sequence[Any], function: Callable[..., Any], *shared: Any, like: Any, divisions: Any = None
) -> Any:
    """Return a Dask frame or series, each partition of which a function makes when it is needed.

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
    work = delayed(_of_part, pure=False)
    made = [work(function, part, f"partition {number}", *once) for number, part in enumerate(parts)]
    from dask.dataframe import from_delayed

    return from_delayed(made, meta=like, divisions=divisions, verify_meta=False)


class _Held(Stream):
    """The rows of one partition of a Dask DataFrame, in the memory of a worker."""

    def __init__(self, frame: Any, place: str) -> None:
        self._frame, self._place = frame, place
        self.names, self.rows, self.typed = tuple(frame.columns), len(frame), Schema.of_types(frame[:0])

    def batches(self, columns: Sequence[str] | None = None) -> Iterator[Batch]:
        """Yield the partition, as one batch."""
        wanted = list(self.names or () if columns is None else columns)
        require_names(wanted, self.names or (), self._place)
        if self.rows:
            yield Batch(self._frame[wanted], self._place, 0)


def _of_part(function: Callable[..., T], part: Any, place: str, *shared: Any) -> T:
    """Return what a function makes of a part; errors say which part it was."""
    try:
        with named_failures(place):
            return function(part, *shared)
    except EigentreeError as error:
        message = str(error)
        raise type(error)(message if place in message else f"{place}: {message}") from None


def _typed(meta: Any) -> Any:
    """Return an empty frame of the types of a Dask DataFrame; categories that Dask does not know yet are none."""
    from dask.dataframe.utils import UNKNOWN_CATEGORIES

    kinds = {
        name: object for name, kind in meta.dtypes.items() if UNKNOWN_CATEGORIES in getattr(kind, "categories", ())
    }
    return meta.astype(kinds)


def _sum(parts: Sequence[Any]) -> Any:
    total = parts[0]
    for part in parts[1:]:
        total = total + part
    return total


@contextmanager
def _working(client: Any) -> Iterator[None]:
    """Raise our error where the work on partitions fails, or is not heard of any more."""
    with named_failures("the work on the partitions"):
        try:
            yield
        except Exception as error:
            if isinstance(error, EigentreeError) or getattr(client, "status", "running") == "running":
                raise
            raise DataError("the client of the cluster was closed; make another, and call again") from error


def _awaited(client: Any, futures: Sequence[Any]) -> None:
    """Wait for futures; raise `DataError` when workers die by them, or none is left."""
    from distributed import KilledWorker, wait

    longest = _dask().config.get("eigentree.longest-without-workers", LONGEST_WITHOUT_WORKERS)
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
        if time.monotonic() - alone_since > longest:
            client.cancel(list(futures))
            raise DataError(f"the cluster has had no worker for {longest:.0f} s; start workers, and call again")
    for future in futures:
        if isinstance(future.exception(), KilledWorker):
            raise DataError(
                "a partition ended each worker that it was given to, perhaps for want of memory; make partitions "
                "smaller, or give workers more"
            ) from None


def _dask() -> Any:
    try:
        import dask
    except ImportError:
        raise DataError("partitions of a cluster need Dask: pip install 'eigentree[dask]'") from None
    return dask
