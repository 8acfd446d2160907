"""How far a pass over a stream has come, and how fast it goes, on a terminal."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING

from eigentree.notices import on_terminal, showing

if TYPE_CHECKING:
    from collections.abc import Iterator

    from eigentree.data.batches import Batch

__all__ = ["shown_batches"]

PATIENCE = 1.0
"""Seconds that a pass takes before anything is shown of it."""

EVERY = 0.25
"""Seconds between two looks at how far it is."""


def shown_batches(batches: Iterator[Batch], doing: str, total: int | None) -> Iterator[Batch]:
    """Yield batches as they are, and show on a terminal how many rows they had so far, of how many, and how fast.

    Parameters
    ----------
    batches : iterator of Batch
    doing : str
        What is done with them, such as ``"counting"``.
    total : int or None
        How many rows there are, where it is known.
    """
    if not on_terminal():
        yield from batches
        return
    began = time.monotonic()
    rows, shown = 0, began + PATIENCE - EVERY
    with showing():
        try:
            for batch in batches:
                yield batch
                rows += batch.table.count
                now = time.monotonic()
                if now - shown >= EVERY:
                    shown = now
                    _show(_line(doing, rows, total, now - began))
        finally:
            if shown > began + PATIENCE - EVERY:
                _show("")


def _line(doing: str, rows: int, total: int | None, seconds: float) -> str:
    rate = rows / max(seconds, 1e-9)
    of = "" if total is None else f" of {total:,}"
    left = "" if total is None or not rows else f", {max(total - rows, 0) / rate:.0f} s left"
    return f"eigentree: {doing} {rows:,}{of} rows, {rate:,.0f} a second{left}"


def _show(line: str) -> None:
    """Write a line in place of the last one."""
    print(f"\r\x1b[K{line}", end="", file=sys.stderr, flush=True)
