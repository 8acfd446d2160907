"""Rows that come in batches, whatever they come from: what a stream promises."""

from __future__ import annotations

from abc import ABC, abstractmethod
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from eigentree.data.tables.table import table_of
from eigentree.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from eigentree.data.tables.column_summary import Schema
    from eigentree.data.tables.table import Table

__all__ = [
    "Batch",
    "Stream",
    "batch_rows",
    "check_names",
    "has_arrow",
    "needs_arrow",
    "without_index",
]


BATCH_ROWS, BATCH_CELLS = 2**16, 2**24
"""Most rows of a batch, and most cells of it, which bounds memory however many columns there are."""


def batch_rows(columns: int) -> int:
    """Return how many rows a batch of so many columns has at most."""
    return max(1, min(BATCH_ROWS, BATCH_CELLS // max(columns, 1)))


@dataclass(frozen=True, eq=False)
class Batch:
    """Consecutive rows of a stream: what `table_of` takes, what they are from, and where the first stands there."""

    data: Any
    source: str
    first: int

    @cached_property
    def table(self) -> Table:
        """The rows as a table; there may be none."""
        with self.named():
            return table_of(self.data, least=0)

    @contextmanager
    def named(self) -> Iterator[None]:
        """Name what the rows are from in every `DataError` that is raised meanwhile."""
        try:
            yield
        except DataError as error:
            raise DataError(f"{self.source}: {error}") from None


class Stream(ABC):
    """Rows that come in batches of bounded size.

    Attributes
    ----------
    names : tuple of str, or None
        The names of the columns, where they have some and do not count by position.
    again : bool
        Whether the batches can be had more than once.
    rows : int or None
        How many rows there are, where that is known without reading them.
    typed : Schema
        What is known from the types of the columns: a schema of no rows.
    types : pyarrow.Schema or None
        The types of the columns in all batches together, where they are known without reading them.
    """

    names: tuple[str, ...] | None
    again: bool = True
    rows: int | None = None
    typed: Schema
    types: Any = None

    @abstractmethod
    def batches(self, columns: Sequence[str] | None = None) -> Iterator[Batch]:
        """Yield the batches, the same each time, with the columns that are needed; by default all."""

    def whole_pass(self, columns: Sequence[str] | None = None) -> Iterator[Batch]:
        """Yield the batches; raise `DataError` at their end where there were more or fewer rows the time before."""
        count = 0
        for batch in self.batches(columns):
            count += batch.table.count
            yield batch
        before = vars(self).setdefault("_passed", count)
        if count != before:
            raise DataError(
                f"the stream had {before:,} rows when it was read first and {count:,} the next time; give the same "
                f"rows each time"
            )

    def whole_names(self) -> tuple[str, ...]:
        """Return the names of all columns; raise `DataError` where they differ between files."""
        return self.names or ()


def check_names(names: Sequence[str], source: str) -> None:
    """Raise `DataError` unless columns have different names, and there is one at all."""
    if not names:
        raise DataError(f"{source} has no columns; give at least one")
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise DataError(f"{source} has two columns {name!r}; drop or rename one")
        seen.add(name)


def without_index(schema: Any) -> Any:
    """Return an Arrow schema without the index of the pandas frame that was written, which is no column there."""
    import pyarrow

    index = (schema.pandas_metadata or {}).get("index_columns", [])
    return pyarrow.schema([field for field in schema if field.name not in index])


def has_arrow() -> bool:
    """Return whether pyarrow is installed."""
    try:
        import pyarrow  # noqa: F401
    except ImportError:
        return False
    return True


def needs_arrow(what: str) -> Any:
    """Return pyarrow; raise `DataError` where it is not installed."""
    if not has_arrow():
        raise DataError(f"{what} needs pyarrow; pip install 'eigentree[streams]'")
    import pyarrow

    return pyarrow
