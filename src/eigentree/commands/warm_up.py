"""``eigentree warm-up``: compile all kernels now, so that no later call has to wait for it."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import argparse

__all__ = ["add"]


def add(commands: Any) -> None:
    """Add the command to the parsers of ``eigentree``."""
    parser = commands.add_parser(
        "warm-up",
        help="compile all kernels now (once per installation)",
        description="Compile all kernels now and keep them on disk, so that no later call has to wait for it.",
    )
    parser.set_defaults(run=_run)


def _run(asked: argparse.Namespace) -> int:
    from eigentree.models.warming import warm_up

    start = time.perf_counter()
    for step in warm_up():
        print(f"{step:<28}{time.perf_counter() - start:7.1f} s", flush=True)
    print("all kernels are compiled")
    return 0
