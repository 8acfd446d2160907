"""Results as they come: one line of JSON a cell, appended, so that a killed run goes on where it stopped."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

from eigentree.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    Record = dict[str, Any]

__all__ = ["Journal", "identity"]


class Journal:
    """An append-only file of results.

    Each line is an object with the keys "cell" (what was asked, which identifies the line) and "result". A line
    that a killed run left half-written is cut off when the file is opened; its cell is then run again.

    Parameters
    ----------
    path : Path
        The file; it and its folder are made when they do not exist.

    Raises
    ------
    DataError
        When a line other than the last is not a result.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        path.parent.mkdir(parents=True, exist_ok=True)
        self._records: dict[str, Record] = {}
        written = path.read_bytes() if path.exists() else b""
        whole = written.rfind(b"\n") + 1
        if whole < len(written):
            with path.open("r+b") as file:
                file.truncate(whole)
        for number, line in enumerate(written[:whole].splitlines(), start=1):
            try:
                record = json.loads(line)
                self._records[identity(record["cell"])] = record
            except (ValueError, TypeError, KeyError):
                raise DataError(
                    f"line {number} of {path} is not a result; remove that line, or choose another --out"
                ) from None

    def find(self, cell: Mapping[str, object]) -> Record | None:
        """Return the last record of a cell, or None."""
        return self._records.get(identity(cell))

    def append(self, record: Record) -> None:
        """Write a record through to the disk."""
        line = json.dumps(record, allow_nan=False) + "\n"
        with self.path.open("a", encoding="utf-8") as file:
            file.write(line)
            file.flush()
            os.fsync(file.fileno())
        self._records[identity(record["cell"])] = record


def identity(cell: Mapping[str, object]) -> str:
    """Return the text that two descriptions of one cell share, whatever the order of their keys."""
    return json.dumps(dict(cell), sort_keys=True)
