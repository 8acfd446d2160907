"""``eigentree reproduce``: the experiments of the paper."""

import sys
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import App, Parameter

from eigentree.commands.arguments import UsageError, command_line, count, one_of, positive
from eigentree.errors import did_you_mean

if TYPE_CHECKING:
    from eigentree.experiments.reproduce import Report

__all__ = ["STRUCTURES", "app"]

STRUCTURES = ("hmm2", "hmm3", "factorial", "junction")
"""The structures of Figure 3, known here so that ``--help`` loads nothing."""

app = App(
    name="reproduce",
    help="Run an experiment of the paper. A run that was stopped goes on where it stopped.",
    help_epilogue="""\
Examples

  eigentree reproduce fig3 --quick
  eigentree reproduce fig4 --quick --jobs 2""",
)


@Parameter(name="*")
@dataclass(frozen=True)
class Common:
    """What both figures have."""

    samples: Annotated[
        list[int] | None, command_line(count, "ROWS", "Training sizes (the paper's).", several=True)
    ] = None
    methods: Annotated[
        list[str] | None,
        Parameter(consume_multiple=(1, None), negative="", metavar="NAME...", help="Some of the methods (all)."),
    ] = None
    jobs: Annotated[int, command_line(count, "COUNT", "Processes, of one thread each.")] = 1
    quick: Annotated[
        bool, Parameter(negative="", show_default=False, help="A small version that takes well under a minute.")
    ] = False
    out: Annotated[Path | None, Parameter(metavar="DIR", help="Where results go (results/…).")] = None


@app.command
def fig3(
    *,
    structure: Annotated[
        list[str] | None,
        command_line(
            one_of("structure", STRUCTURES), "NAME", f"Some of {', '.join(STRUCTURES)} (all).", several=True
        ),
    ] = None,
    models: Annotated[int | None, command_line(count, "COUNT", "True models per structure (10).")] = None,
    concentration: Annotated[
        list[float] | None,
        command_line(
            positive, "NUMBER", "Of the Dirichlet distribution of the true tables' rows (1.0 0.3).", several=True
        ),
    ] = None,
    tests: Annotated[int | None, command_line(count, "COUNT", "Test rows (1000).")] = None,
    common: Common = Common(),
) -> int:
    """Error and time on rows drawn from known models, four structures."""

    def figure() -> "Report":
        from eigentree.experiments import figure3
        from eigentree.experiments.reproduce import reproduce_figure3

        quick = common.quick
        chosen = figure3.cells(
            _distinct(structure or (figure3.QUICK_STRUCTURES if quick else STRUCTURES)),
            _distinct(concentration or figure3.CONCENTRATIONS),
            models or (figure3.QUICK_MODELS if quick else figure3.MODELS),
            _distinct(common.samples or (figure3.QUICK_SAMPLES if quick else figure3.SAMPLES)),
            _methods(common, figure3.METHOD_NAMES),
            tests or figure3.TESTS,
            short=quick,
        )
        return reproduce_figure3(chosen, common.jobs, _folder(common, "fig3"))

    return _run(figure)


@app.command
def fig4(
    *,
    splits: Annotated[int | None, command_line(count, "COUNT", "Training-test splits (10).")] = None,
    drop_ambiguous: Annotated[
        bool,
        Parameter(
            negative="",
            show_default=False,
            help="Drop the 15 sequences with ambiguous letters; without it such letters are missing cells.",
        ),
    ] = False,
    common: Common = Common(),
) -> int:
    """Classes of splice junctions, one model per class."""

    def figure() -> "Report":
        from eigentree.experiments import figure4
        from eigentree.experiments.reproduce import reproduce_figure4

        quick = common.quick
        chosen = figure4.cells(
            splits or (figure4.QUICK_SPLITS if quick else figure4.SPLITS),
            _distinct(common.samples or (figure4.QUICK_SAMPLES if quick else (*figure4.SAMPLES, None))),
            _methods(common, figure4.METHOD_NAMES),
            "drop" if drop_ambiguous else "missing",
            figure4.QUICK_COLUMNS if quick else 60,
        )
        return reproduce_figure4(chosen, common.jobs, _folder(common, "fig4"))

    return _run(figure)


def _run(figure: "Callable[[], Report]") -> int:
    """Return the exit code: 0, or 1 when something failed."""
    if find_spec("matplotlib") is None:
        raise UsageError("reproduce draws figures with matplotlib: pip install 'eigentree[experiments]'")
    try:
        report = figure()
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


def _methods(common: Common, known: Sequence[str]) -> list[str]:
    """Return the methods asked for, in their usual order."""
    if common.methods is None:
        return list(known)
    for name in common.methods:
        if name not in known:
            raise UsageError(f"there is no method {name!r}{did_you_mean(name, known)} ({', '.join(known)})")
    return [name for name in known if name in common.methods]


def _distinct(values: Iterable[Any]) -> list[Any]:
    """Return values in their order, each once."""
    return list(dict.fromkeys(values))


def _folder(common: Common, figure: str) -> Path:
    return common.out or Path("results") / (f"{figure}-quick" if common.quick else figure)
