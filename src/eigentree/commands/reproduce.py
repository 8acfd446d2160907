"""``eigentree reproduce``: the experiments of the paper."""

from __future__ import annotations

import sys
from concurrent.futures.process import BrokenProcessPool
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from eigentree.commands.arguments import count, one_of, positive
from eigentree.errors import did_you_mean

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterable, Sequence

    from eigentree.experiments.reproduce import Report

__all__ = ["STRUCTURES", "add"]

STRUCTURES = ("hmm2", "hmm3", "factorial", "junction")
"""The structures of Figure 3, known here so that ``--help`` loads nothing."""


def add(commands: Any) -> None:
    """Add the command and its figures to the parsers of ``eigentree``."""
    figures = commands.add_parser(
        "reproduce",
        help="run an experiment of the paper",
        description="Run an experiment of the paper. A run that was stopped goes on where it stopped.",
    ).add_subparsers(title="figures", metavar="FIGURE", required=True)

    third = figures.add_parser("fig3", help="error and time on rows drawn from known models, four structures")
    third.add_argument(
        "--structure",
        nargs="+",
        type=one_of("structure", STRUCTURES),
        metavar="NAME",
        help=f"some of {', '.join(STRUCTURES)} (default: all)",
    )
    third.add_argument("--models", type=count, metavar="COUNT", help="true models per structure (default: 10)")
    third.add_argument(
        "--concentration",
        nargs="+",
        type=positive,
        metavar="NUMBER",
        help="of the Dirichlet distribution of the true tables' rows (default: 1.0 0.3)",
    )
    third.add_argument("--tests", type=count, metavar="COUNT", help="test rows (default: 1000)")
    _add_common(third, _figure3)

    fourth = figures.add_parser("fig4", help="classes of splice junctions, one model per class")
    fourth.add_argument("--splits", type=count, metavar="COUNT", help="training-test splits (default: 10)")
    fourth.add_argument(
        "--drop-ambiguous",
        action="store_true",
        help="drop the 15 sequences with ambiguous letters; without it such letters are missing cells",
    )
    _add_common(fourth, _figure4)


def _run(asked: argparse.Namespace) -> int:
    """Return the exit code: 0, or 1 when something failed."""
    if find_spec("matplotlib") is None:
        asked.parser.exit(
            2, "eigentree reproduce draws figures with matplotlib: pip install 'eigentree[experiments]'\n"
        )
    try:
        report: Report = asked.figure(asked)
    except KeyboardInterrupt:
        print("stopped; the same command goes on where it stopped", file=sys.stderr)
        return 130
    except BrokenProcessPool:
        print("eigentree: a worker died, perhaps for want of memory; the same command goes on", file=sys.stderr)
        return 1
    print(report.text)
    print("\n".join(f"written: {file}" for file in report.files))
    for failure in report.outcome.failures:
        print(f"failed: {failure}", file=sys.stderr)
    return 1 if report.outcome.failures else 0


def _figure3(asked: argparse.Namespace) -> Report:
    from eigentree.experiments import figure3
    from eigentree.experiments.reproduce import reproduce_figure3

    chosen = figure3.cells(
        _distinct(asked.structure or (figure3.QUICK_STRUCTURES if asked.quick else STRUCTURES)),
        _distinct(asked.concentration or figure3.CONCENTRATIONS),
        asked.models or (figure3.QUICK_MODELS if asked.quick else figure3.MODELS),
        _distinct(asked.samples or (figure3.QUICK_SAMPLES if asked.quick else figure3.SAMPLES)),
        _methods(asked, figure3.METHOD_NAMES),
        asked.tests or figure3.TESTS,
        short=asked.quick,
    )
    return reproduce_figure3(chosen, asked.jobs, _folder(asked, "fig3"))


def _figure4(asked: argparse.Namespace) -> Report:
    from eigentree.experiments import figure4
    from eigentree.experiments.reproduce import reproduce_figure4

    chosen = figure4.cells(
        asked.splits or (figure4.QUICK_SPLITS if asked.quick else figure4.SPLITS),
        _distinct(asked.samples or (figure4.QUICK_SAMPLES if asked.quick else (*figure4.SAMPLES, None))),
        _methods(asked, figure4.METHOD_NAMES),
        "drop" if asked.drop_ambiguous else "missing",
        figure4.QUICK_COLUMNS if asked.quick else 60,
    )
    return reproduce_figure4(chosen, asked.jobs, _folder(asked, "fig4"))


def _methods(asked: argparse.Namespace, known: Sequence[str]) -> list[str]:
    """Return the methods asked for, in their usual order."""
    if asked.methods is None:
        return list(known)
    for name in asked.methods:
        if name not in known:
            asked.parser.error(f"there is no method {name!r}{did_you_mean(name, known)} ({', '.join(known)})")
    return [name for name in known if name in asked.methods]


def _distinct(values: Iterable[Any]) -> list[Any]:
    """Return values in their order, each once."""
    return list(dict.fromkeys(values))


def _folder(asked: argparse.Namespace, figure: str) -> Path:
    folder: Path = asked.out or Path("results") / (f"{figure}-quick" if asked.quick else figure)
    return folder


def _add_common(parser: argparse.ArgumentParser, figure: Callable[[argparse.Namespace], Report]) -> None:
    parser.add_argument(
        "--samples", nargs="+", type=count, metavar="ROWS", help="training sizes (default: the paper's)"
    )
    parser.add_argument("--methods", nargs="+", metavar="NAME", help="some of the methods (default: all)")
    parser.add_argument(
        "--jobs", type=count, default=1, metavar="COUNT", help="processes, of one thread each (default: 1)"
    )
    parser.add_argument("--quick", action="store_true", help="a small version that takes well under a minute")
    parser.add_argument("--out", type=Path, metavar="DIR", help="where results go (default: results/…)")
    parser.set_defaults(run=_run, figure=figure, parser=parser)
