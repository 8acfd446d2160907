"""How far a run is, and how long it will still take: a bar in a terminal, a line now and then elsewhere."""

from __future__ import annotations

import sys
import time
from contextlib import contextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from eigentree.experiments.runner import Display

__all__ = ["INTERVAL", "progress"]

INTERVAL = 30.0
"""Seconds between two lines."""


@contextmanager
def progress(title: str) -> Iterator[Display]:
    """Yield a display on stderr."""
    if not sys.stderr.isatty():
        yield _Lines(title)
    elif find_spec("rich") is None:
        print("pip install 'eigentree[experiments]' to see a progress bar here", file=sys.stderr)
        yield _Lines(title)
    else:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
        with Progress(*columns, TextColumn("{task.fields[left]}"), console=Console(stderr=True)) as bar:
            task = bar.add_task(title, total=None, left="")

            def show(done: int, total: int, remaining: float | None) -> None:
                bar.update(task, completed=done, total=total, left=_left(remaining))

            yield show


class _Lines:
    """A line at the start, at the end, and every half minute between."""

    def __init__(self, title: str) -> None:
        self.title = title
        self.last = -INTERVAL

    def __call__(self, done: int, total: int, remaining: float | None) -> None:
        now = time.monotonic()
        if now - self.last >= INTERVAL or done == total:
            self.last = now
            print(f"{self.title}: {done} of {total} cells; {_left(remaining)}", file=sys.stderr, flush=True)


def _left(remaining: float | None) -> str:
    if remaining is None:
        return "time left not known before each kind of cell was met once"
    if remaining < 90:
        return f"about {remaining:.0f} s left"
    minutes = round(remaining / 60)
    return f"about {minutes} min left" if minutes < 90 else f"about {minutes / 60:.1f} h left"
