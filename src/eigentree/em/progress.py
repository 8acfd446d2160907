"""A line on the terminal that says how far a fit has come."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["shown_progress"]


@contextmanager
def shown_progress(verbose: int, title: str, total: int) -> Iterator[Callable[[int, float], None]]:
    """Yield a function of the steps done and the objective that shows them, where anybody can see it."""
    if verbose > 0 and sys.stderr.isatty():
        try:
            from rich.console import Console
            from rich.progress import Progress
        except ImportError:
            pass
        else:
            with Progress(console=Console(stderr=True), transient=True) as bar:
                task = bar.add_task(title, total=total)
                yield lambda done, objective: bar.update(
                    task, completed=done, description=f"{title} {objective:.6g}"
                )
            return
    yield lambda done, objective: None
