"""``eigentree warm-up``: compile all kernels now, so that no later call has to wait for it."""

import sys
import time
from collections.abc import Iterable

from cyclopts import App

from eigentree.commands.screen import show

__all__ = ["app"]

app = App(
    name="warm-up",
    help="Compile all kernels now and keep them on disk, so that no later call has to wait for it.",
    help_epilogue="""\
Examples

  eigentree warm-up""",
)


@app.default
def warm_up() -> None:
    """Compile all kernels."""
    from eigentree.kernels.compiling import announced
    from eigentree.models.warming import STEPS, warm_up

    start = time.perf_counter()
    # Else each kernel would be announced for itself.
    with announced:
        _watched(warm_up(), STEPS)
    show(f"all kernels are compiled, {time.perf_counter() - start:.0f} s")


def _watched(steps: Iterable[str], count: int) -> None:
    """Take all steps; on a terminal one line tells how far they are."""
    if not sys.stderr.isatty():
        for _ in steps:
            pass
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (BarColumn(20), MofNCompleteColumn(), TimeElapsedColumn(), TextColumn("{task.description}"))
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("", total=count)
        for step in steps:
            progress.update(task, advance=1, description=step)
