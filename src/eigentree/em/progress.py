"""A line on the terminal that says how far a fit has come."""

from __future__ import annotations

import sys
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from eigentree.em.size_search import SearchState

__all__ = ["shown_progress", "shown_search"]


@contextmanager
def shown_progress(verbose: int, title: str, total: int) -> Iterator[Callable[[int, float], None]]:
    """Yield a function of the steps done and the objective that shows them, where anybody can see it."""
    with _bar(verbose) as bar:
        if bar is None:
            yield lambda done, objective: None
            return
        task = bar.add_task(title, total=total)
        yield lambda done, objective: bar.update(task, completed=done, description=f"{title} {objective:.6g}")


@contextmanager
def shown_search(verbose: int) -> Iterator[Callable[[SearchState], None]]:
    """Yield a function of how a search stands that shows it, with the time to come if no larger size does."""
    # The time that the bar itself would tell is that of one fit of many.
    with _bar(verbose, ["{task.description}"]) as bar:
        if bar is None:
            yield lambda standing: None
            return
        task = bar.add_task("sizes", total=None)
        clock = _Clock()

        def show(standing: SearchState) -> None:
            best = f": best {standing.best.trial.validation:.5g}" if standing.members else ""
            left = clock.left(standing)
            time_to_come = "" if left is None else f", at most {left:.0f} s if no larger comes"
            bar.update(
                task,
                completed=standing.passes,
                total=standing.most,
                description=f"{standing.size}{best}{time_to_come}",
            )

        yield show


class _Clock:
    """How long a pass over the rows takes with models of the size that is being learned."""

    def __init__(self) -> None:
        self._size: object = None
        self._members = 0
        self._passes, self._first, self._began = 0, 0, 0.0
        self._pace: float | None = None

    def left(self, standing: SearchState) -> float | None:
        """Return the seconds that this model and all others of its size will take; None where nothing tells."""
        now, passes = time.monotonic(), standing.passes
        # A model that is learned stands at the most passes there are, whatever it took: that tells no pace.
        learned = len(standing.members) > self._members
        if standing.size != self._size:
            self._pace = None
        if standing.size != self._size or passes < self._passes:
            # The clock begins after the first pass, since what goes before it is no pass: the start of a model.
            self._first, self._began = passes, now
        elif passes > self._first and not learned:
            self._pace = (now - self._began) / (passes - self._first)
        self._size, self._passes, self._members = standing.size, passes, len(standing.members)
        to_come = standing.most - passes + standing.to_come * standing.most
        return None if self._pace is None or not to_come else self._pace * to_come


@contextmanager
def _bar(verbose: int, before: Sequence[str] = ()) -> Iterator[Any]:
    """Yield a bar on the terminal, with some texts before it or in the usual form; None where nobody can see it."""
    if verbose > 0 and sys.stderr.isatty():
        try:
            from rich.console import Console
            from rich.progress import Progress
        except ImportError:
            pass
        else:
            columns: tuple[Any, ...] = ()
            if before:
                from rich.progress import BarColumn

                columns = (*before, BarColumn())
            with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
                yield bar
            return
    yield None
