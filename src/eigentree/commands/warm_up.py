"""``eigentree warm-up``: compile all kernels now, so that no later call has to wait for it."""

import time

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
    from eigentree.models.warming import warm_up

    start = time.perf_counter()
    for step in warm_up():
        print(f"{step:<28}{time.perf_counter() - start:7.1f} s", flush=True)
    show("all kernels are compiled")
