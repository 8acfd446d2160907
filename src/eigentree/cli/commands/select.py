"""``eigentree select``: choose a structure and its size by held-out rows, or by an information criterion."""

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import App, Parameter

from eigentree.cli.arguments import (
    Data,
    Json,
    Reading,
    Seed,
    Shape,
    UsageError,
    command_line,
    count,
    fraction,
    one_of,
)
from eigentree.cli.row_output import require_file

if TYPE_CHECKING:
    from collections.abc import Callable

    from eigentree.cli.model_comparison import Trial
    from eigentree.cli.table_io import Given

__all__ = ["app", "at_the_edge"]

CHOICES = ("mixture", "tree", "hmm", "factorial")

app = App(
    name="select",
    help="Fit structures of several sizes, tell how likely each finds rows that were held out and its information "
    "criteria on the others, and with -o learn the best from all rows.",
    help_epilogue="""\
Examples

  eigentree select mushrooms.csv --structure mixture tree --hidden 2 4
  eigentree select mushrooms.csv --structure mixture --hidden 2 4 --by bic
  eigentree select mushrooms.csv --hidden 2 4 -o best.eigentree""",
)


@app.default
def select(
    data: Data,
    /,
    *,
    structure: Annotated[
        list[str] | None,
        command_line(one_of("structure", CHOICES), "NAME", "Some of mixture, tree, hmm, factorial.", several=True),
    ] = None,
    hidden: Annotated[
        list[int] | None,
        command_line(count, "NUMBER", "Numbers of hidden states to try (2 4 8).", several=True),
    ] = None,
    order: Annotated[int | None, command_line(count, "NUMBER", "Of hmm and factorial, as in fit.")] = None,
    method: Annotated[Literal["em", "spectral"], Parameter(help="How to fit.")] = "em",
    numeric: Annotated[
        Literal["error", "quantiles"],
        Parameter(help="What a column of measurements is: a mistake, or cut into bins."),
    ] = "error",
    by: Annotated[
        Literal["held-out", "bic", "aic"],
        Parameter(
            help="What the best is by: rows held out, or a criterion on the others; the lower that, the better."
        ),
    ] = "held-out",
    held_out: Annotated[float, command_line(fraction, "SHARE", "The share of the rows that is held out.")] = 0.2,
    output: Annotated[
        str | None,
        Parameter(
            name=["--output", "-o"],
            metavar="FILE",
            allow_leading_hyphen=True,
            help="Where the best model goes, learned from all rows.",
        ),
    ] = None,
    reading: Reading = Reading(),
    seed: Seed = 0,
    json: Json = False,
) -> None:
    """Select a structure and its size."""
    if output is not None:
        require_file(output)
    from eigentree.cli.model_comparison import show_trials
    from eigentree.cli.terminal_output import note, show_json, told_rows, told_sequences
    from eigentree.errors import DataError

    if by != "held-out" and method == "spectral":
        raise UsageError(f"--by {by} counts free parameters, which a spectral model does not have; leave it out")
    base = Shape(method=method, numeric=numeric)
    names = structure or (["mixture", "tree"] if reading.sequence is None else ["hmm"])
    shapes = [
        replace(base, structure=name, hidden=states, order=order if name in ("hmm", "factorial") else None)
        for name in dict.fromkeys(names)
        for states in dict.fromkeys(hidden or (2, 4, 8))
    ]
    trying = _on_rows if reading.sequence is None else _on_sequences
    count_held, trials, fitted = trying(data, shapes, reading, held_out, seed)
    told = (told_rows if reading.sequence is None else told_sequences)(count_held)
    able = [place for place, trial in enumerate(trials) if not trial.failure]
    if not able:
        raise DataError(f"none of these could be fitted: {trials[0].failure}")
    best = max(able, key=lambda place: _merit(trials[place], by))
    if output is not None:
        fitted(shapes[best]).save(output)
    if json:
        show_json(
            {"tried": [vars(trial) for trial in trials], "best": trials[best].name, "by": by, "output": output}
        )
        return
    criteria: dict[str, Callable[[Trial], str]] = {
        "BIC": lambda trial: "" if trial.bic is None else f"{trial.bic:.1f}",
        "AIC": lambda trial: "" if trial.aic is None else f"{trial.aic:.1f}",
    }
    show_trials("structure", trials, best, criteria)
    after = f"; learned from all and written: {output}" if output else ""
    means = f"on {told} held out" if by == "held-out" else f"by {by.upper()}"
    note(f"best {means}: {trials[best].name}{after}")
    if edge := at_the_edge(shapes, best):
        note(edge)


def _merit(trial: "Trial", by: str) -> float:
    """Return how good a model is; the more, the better."""
    if by == "held-out":
        return trial.held_out
    criterion = trial.bic if by == "bic" else trial.aic
    return float("-inf") if criterion is None else -criterion


def at_the_edge(shapes: list[Shape], best: int) -> str | None:
    """Return what to try next, where the best size is the largest or the smallest of those tried."""
    tried = [shape.hidden or 0 for shape in shapes if shape.structure == shapes[best].structure]
    size = shapes[best].hidden or 0
    if len(tried) > 1 and size == max(tried):
        return f"{size} is the largest size tried; try --hidden {2 * size}"
    if len(tried) > 1 and size == min(tried) > 1:
        return f"{size} is the smallest size tried; try --hidden {size // 2}"
    return None


def _on_rows(
    data: str, shapes: list[Shape], reading: Reading, held_out: float, seed: int
) -> "tuple[int, list[Trial], Callable[[Shape], Any]]":
    """Return how many rows were held out, how each model did, and what learns one from all rows."""
    from eigentree.cli.block_io import hint_at_marks
    from eigentree.cli.model_arguments import estimator_of
    from eigentree.cli.model_comparison import split, tried
    from eigentree.cli.structure_arguments import told_structure
    from eigentree.cli.table_io import read_table
    from eigentree.cli.terminal_output import note

    table = read_table(data, reading)
    training, test = split(table, held_out, seed)
    hint_at_marks(table, reading)

    def fitted(shape: Shape, rows: "Given") -> Any:
        return estimator_of(shape, seed, rows).fit(rows)

    trials = []
    for shape in shapes:
        note(f"{told_structure(shape)} …")
        trials.append(tried((told_structure(shape), partial(fitted, shape)), training, test))
    return test.count, trials, lambda shape: fitted(shape, table)


def _on_sequences(
    data: str, shapes: list[Shape], reading: Reading, held_out: float, seed: int
) -> "tuple[int, list[Trial], Callable[[Shape], Any]]":
    """Return the same of sequences."""
    from eigentree.cli.block_io import hint_at_marks
    from eigentree.cli.model_comparison import split_sequences, tried_on_sequences
    from eigentree.cli.sequence_arguments import long_table, sequence_estimator
    from eigentree.cli.structure_arguments import told_structure
    from eigentree.cli.table_io import read_table
    from eigentree.cli.terminal_output import note

    estimators = [sequence_estimator(shape, seed) for shape in shapes]
    long = long_table(read_table(data, reading), str(reading.sequence), numeric=shapes[0].numeric)
    training, test = split_sequences(long, held_out, seed)
    hint_at_marks(long.table, reading)

    def fitted(shape: Shape) -> Any:
        model = sequence_estimator(shape, seed).fit(long.table, lengths=long.lengths)
        return model.set_params(sequence=reading.sequence)

    trials = []
    for shape, estimator in zip(shapes, estimators, strict=True):
        note(f"{told_structure(shape)} …")
        trials.append(tried_on_sequences(told_structure(shape), estimator, training, test))
    return test.count, trials, fitted
