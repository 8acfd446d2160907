"""The one progress display: a bar of rich on standard error, where somebody reads it as it is written."""

from __future__ import annotations

import sys
import time
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from eigentree.messages import on_terminal, showing

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

__all__ = ["ShowProgress", "progress", "shown_batches", "shown_progress", "shown_search"]

PATIENCE = 1.0
"""Seconds that work of unknown length takes before a bar is shown."""

INTERVAL = 30.0
"""Seconds between two lines, where lines are written in place of a bar."""


class ShowProgress(Protocol):
    """What shows how much is done, of how much, in words."""

    def __call__(self, done: float, text: str = "", total: float | None = None) -> None:
        """Show it."""


class _Batch(Protocol):
    @property
    def table(self) -> Any: ...


B = TypeVar("B", bound=_Batch)


@contextmanager
def progress(
    title: str, total: float | None = None, *, visible: bool, patience: float = 0.0, lines: bool = False
) -> Iterator[ShowProgress]:
    """Yield a function that shows how much is done; it does nothing where it is not to be seen.

    Parameters
    ----------
    title : str
    total : float, optional
        How much there is to do, where that is known.
    visible : bool
        Whether there is a terminal to show a bar on.
    patience : float
        Seconds before anything is shown.
    lines : bool
        Whether to write a line every half minute where there is no terminal.
    """
    began, last = time.monotonic(), -INTERVAL
    bar: Any = None
    with ExitStack() as open_until_done:

        def show(done: float, text: str = "", total: float | None = total) -> None:
            nonlocal bar
            if bar is None and time.monotonic() - began >= patience:
                open_until_done.enter_context(showing())
                bar = open_until_done.enter_context(_bar())
                bar.add_task(title, total=total, text="")
            if bar is not None:
                bar.update(bar.task_ids[0], completed=done, total=total, text=text)

        def write(done: float, text: str = "", total: float | None = total) -> None:
            nonlocal last
            now = time.monotonic()
            if now - last >= INTERVAL or done == total:
                last = now
                print(f"{title}: {done:.0f} of {total or 0:.0f}; {text}", file=sys.stderr, flush=True)

        yield show if visible else write if lines else lambda done, text="", total=None: None


@contextmanager
def shown_progress(verbose: int, title: str, total: int) -> Iterator[Callable[[int, float], None]]:
    """Yield a function of the iterations done and the objective that shows them, where anybody can see it."""
    with progress(title, total, visible=_seen(verbose)) as show:
        yield lambda done, objective: show(done, f"{objective:.6g}")


@contextmanager
def shown_search(verbose: int) -> Iterator[Callable[[Any], None]]:
    """Yield a function of how a search over sizes stands (`SearchState`) that shows it.

    The passes to come are those of the models of this size, if no larger one is tried.
    """
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


def shown_batches(batches: Iterable[B], doing: str, total: int | None) -> Iterator[B]:
    """Yield batches as they are, and show on a terminal how many rows they had so far, of how many, and how fast.

    Parameters
    ----------
    batches : iterable of Batch
    doing : str
        What is done with them, such as ``"counting"``.
    total : int or None
        How many rows there are, where it is known.
    """
    rows, began = 0, time.monotonic()
    with progress(doing, total, visible=on_terminal(), patience=PATIENCE) as show:
        for batch in batches:
            yield batch
            rows += batch.table.count
            show(rows, f"{rows:,} rows, {rows / max(time.monotonic() - began, 1e-9):,.0f} a second")


def _seen(verbose: int) -> bool:
    return verbose > 0 and sys.stderr is not None and sys.stderr.isatty()


def _bar() -> Any:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(20), TimeElapsedColumn(), TimeRemainingColumn())
    text = TextColumn("{task.fields[text]}", markup=False)
    return Progress(*columns, text, console=Console(stderr=True), transient=True)
