"""``eigentree select``: choose a structure and its size by held-out rows."""

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import App, Parameter

from eigentree.commands.answering import require_file
from eigentree.commands.arguments import Data, Json, Reading, Seed, Shape, command_line, count, fraction, one_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from eigentree.commands.held_out import Trial
    from eigentree.commands.tables import Given

__all__ = ["app"]

CHOICES = ("mixture", "tree", "hmm", "factorial")

app = App(
    name="select",
    help="Fit structures of several sizes, tell how likely each finds rows that were held out, and with -o learn "
    "the best from all rows.",
    help_epilogue="""\
Examples

  eigentree select mushrooms.csv --structure mixture tree --hidden 2 4
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
    from eigentree.commands.screen import note, show_json, show_table, told_rows, told_sequences
    from eigentree.errors import DataError

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
    best = max(able, key=lambda place: trials[place].held_out)
    if output is not None:
        fitted(shapes[best]).save(output)
    if json:
        show_json({"tried": [vars(trial) for trial in trials], "best": trials[best].name, "output": output})
        return
    shown = [
        [
            trial.name,
            "failed" if trial.failure else f"{trial.held_out:.4f}",
            "" if trial.parameters is None else f"{trial.parameters:,}",
            f"{trial.seconds:.2f}",
        ]
        for trial in trials
    ]
    show_table(["structure", "held out", "parameters", "seconds"], shown, best)
    for trial in trials:
        if trial.failure:
            note(f"{trial.name}: {trial.failure}")
    after = f"; learned from all and written: {output}" if output else ""
    note(f"best on {told} held out: {trials[best].name}{after}")


def _on_rows(
    data: str, shapes: list[Shape], reading: Reading, held_out: float, seed: int
) -> "tuple[int, list[Trial], Callable[[Shape], Any]]":
    """Return how many rows were held out, how each model did, and what learns one from all rows."""
    from eigentree.commands.held_out import split, tried
    from eigentree.commands.models import estimator_of
    from eigentree.commands.screen import note
    from eigentree.commands.structures import told_structure
    from eigentree.commands.tables import read_table

    table = read_table(data, reading)
    training, test = split(table, held_out, seed)

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
    from eigentree.commands.held_out import split_sequences, tried_on_sequences
    from eigentree.commands.screen import note
    from eigentree.commands.sequences import long_table, sequence_estimator
    from eigentree.commands.structures import told_structure
    from eigentree.commands.tables import read_table

    estimators = [sequence_estimator(shape, seed) for shape in shapes]
    long = long_table(read_table(data, reading), str(reading.sequence), numeric=shapes[0].numeric)
    training, test = split_sequences(long, held_out, seed)

    def fitted(shape: Shape) -> Any:
        model = sequence_estimator(shape, seed).fit(long.table, lengths=long.lengths)
        return model.set_params(sequence=reading.sequence)

    trials = []
    for shape, estimator in zip(shapes, estimators, strict=True):
        note(f"{told_structure(shape)} …")
        trials.append(tried_on_sequences(told_structure(shape), estimator, training, test))
    return test.count, trials, fitted
