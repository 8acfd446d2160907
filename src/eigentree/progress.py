"""The one progress display: a bar of rich on standard error, where somebody reads it as it is written."""

from __future__ import annotations

import sys
import time
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any, Protocol

from eigentree.messages import on_terminal, showing
from eigentree.validation import whole_number

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

__all__ = ["ShowProgress", "progress", "shown_batches", "shown_progress", "shown_search"]

PATIENCE = 1.0
"""Seconds that work of unknown length takes before a bar is shown."""


class ShowProgress(Protocol):
    """A function that shows how much is done, of how much, in words."""

    def __call__(self, done: float, text: str = "", total: float | None = None) -> None:
        """Show it."""


@contextmanager
def progress(
    title: str, total: float | None = None, *, visible: bool, patience: float = 0.0
) -> Iterator[ShowProgress]:
    """Yield a function that shows a bar once so many seconds have passed; it does nothing unless `visible`."""
    began = time.monotonic()
    bar: Any = None
    with ExitStack() as open_until_done:

        def show(done: float, text: str = "", total: float | None = total) -> None:
            nonlocal bar
            if not visible:
                return
            if bar is None and time.monotonic() - began >= patience:
                open_until_done.enter_context(showing())
                bar = open_until_done.enter_context(_bar())
                bar.add_task(title, total=total, text="")
            if bar is not None:
                bar.update(bar.task_ids[0], completed=done, total=total, text=text)

        yield show


@contextmanager
def shown_progress(verbose: int, title: str, total: int) -> Iterator[Callable[[int, float], None]]:
    """Yield a function of the iterations done and the objective that shows them, where anybody can see it."""
    with progress(title, total, visible=_seen(verbose)) as show:
        yield lambda done, objective: show(done, f"{objective:.6g}")


@contextmanager
def shown_search(verbose: int) -> Iterator[Callable[[Any], None]]:
    """Yield a function of the state of a size search (`SearchState`) that shows it, if no larger size is tried."""
    finished = before = 0
    with progress("sizes", visible=_seen(verbose)) as show:

        def shown(standing: Any) -> None:
            nonlocal finished, before
            # Passes begin again with the next model.
            finished += before if standing.passes < before else 0
            before = standing.passes
            best = f": best {standing.best.trial.validation:.5g}" if standing.members else ""
            total = finished + standing.most * (1 + standing.to_come)
            show(finished + before, f"{standing.size}{best}", total)

        yield shown


def shown_batches(batches: Iterable[Any], doing: str, total: int | None) -> Iterator[Any]:
    """Yield batches as they are, and show on a terminal how many rows they had so far, of `total`, and how fast."""
    rows, began = 0, time.monotonic()
    with progress(doing, total, visible=on_terminal(), patience=PATIENCE) as show:
        for batch in batches:
            yield batch
            rows += batch.table.count
            show(rows, f"{rows:,} rows, {rows / max(time.monotonic() - began, 1e-9):,.0f} a second")


def _seen(verbose: int) -> bool:
    level = whole_number("verbose", int(verbose) if isinstance(verbose, bool) else verbose, 0)
    return level > 0 and sys.stderr is not None and sys.stderr.isatty()


def _bar() -> Any:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(20), TimeElapsedColumn(), TimeRemainingColumn())
    text = TextColumn("{task.fields[text]}", markup=False)
    return Progress(*columns, text, console=Console(stderr=True), transient=True)
