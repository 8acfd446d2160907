"""The command ``python -m benchmarks``: runs the named topics, or all of them, and prints their tables."""

from __future__ import annotations

import argparse
import os
import platform
import warnings
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any

TOPICS = (
    "first_minute",
    "scoring",
    "counting",
    "fitting",
    "em",
    "em_states",
    "em_large",
    "multistart",
    "memory",
    "large",
    "growth",
    "grammars",
    "load",
    "consistency",
    "real",
    "classes",
    "blrt",
    "three_step",
    "imputing",
    "multiple_imputation",
    "mixed_tables",
    "structures",
    "density",
    "discriminative",
    "frames",
    "sequences",
    "gaussian_hmm",
    "durations",
    "mixture_hmm",
    "continuous_sequences",
    "automata",
    "transducers",
    "tagging",
    "parsing",
    "coverage",
)
LONG = ("density", "mixed_tables", "discriminative", "coverage")
"""The topics that take hours and can be run for some data sets only."""
PEERS = ("density",)
"""The topics that can measure what another Python has installed."""
SPLITS = ("mixed_tables", "discriminative")
"""The topics that can be run for some methods and some splits only."""
THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS", "POLARS_MAX_THREADS")


def _arguments() -> argparse.Namespace:
    """Return the arguments of the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="Measure eigentree.")
    parser.add_argument(
        "topics", nargs="*", metavar="topic", help=f"what to measure: {', '.join(TOPICS)} (default: all)"
    )
    parser.add_argument("--quick", action="store_true", help="small sizes that take a few seconds")
    parser.add_argument(
        "--sets", nargs="+", default=[], metavar="SET", help=f"the data sets of {' and '.join(LONG)} (default: all)"
    )
    parser.add_argument(
        "--peer",
        type=Path,
        metavar="PYTHON",
        help=f"a Python that has deeprob-kit, to be measured in {' and '.join(PEERS)}",
    )
    parser.add_argument(
        "--methods", nargs="+", default=[], help=f"the methods of {' and '.join(SPLITS)} (default: all)"
    )
    parser.add_argument(
        "--seeds", nargs="+", type=int, default=[], help=f"the splits of {' and '.join(SPLITS)} (default: 0 to 4)"
    )
    arguments = parser.parse_args()
    if unknown := [topic for topic in arguments.topics if topic not in TOPICS]:
        parser.error(f"there is no topic {unknown[0]!r}; the topics are {', '.join(TOPICS)}")
    return arguments


def main() -> None:
    """Run the topics one after the other, on one thread each."""
    arguments = _arguments()
    # Numeric libraries read these when they are first imported, which no import above does.
    os.environ.update(dict.fromkeys(THREADS, "1"))
    # Where iterations are timed, EM ends after so many on purpose.
    warnings.filterwarnings("ignore", message="EM ended at max_iter")
    libraries = ", ".join(f"{name} {version(name)}" for name in ("eigentree", "numpy"))
    print(f"Python {platform.python_version()}, {libraries}; {os.cpu_count()} cores, 1 thread used.")
    print("Times are the best of several repeats, the contenders taking turns; read the ratios.")
    for topic in arguments.topics or TOPICS:
        options: dict[str, Any] = {}
        if topic in LONG:
            options["sets"] = arguments.sets
        if topic in PEERS:
            # Not resolved: a link to a Python is how an environment of its own is distinguished from the system's.
            options["peer_python"] = arguments.peer and arguments.peer.absolute()
        if topic in SPLITS:
            options.update(methods=arguments.methods, seeds=arguments.seeds)
        import_module(f"benchmarks.{topic}").run(quick=arguments.quick, **options)


if __name__ == "__main__":
    main()
