"""``eigentree sample``: new rows."""

from typing import Annotated, Any

from cyclopts import Parameter

from eigentree.cli.arguments import (
    Format,
    Json,
    ModelFile,
    RowsOutput,
    Seed,
    UsageError,
    count,
    each,
    named,
    option,
)
from eigentree.cli.output import RowSink, number_of

__all__ = ["sample"]


def sample(
    model: ModelFile,
    /,
    *,
    n: Annotated[int, option(count, "ROWS", "How many rows."), Parameter(name=["-n", "--rows"])] = 1,
    given: Annotated[
        list[str] | None,
        Parameter(
            converter=each(named),
            negative="",
            metavar="COLUMN=CELL",
            help="A known cell of every row, a label or a number; may be repeated.",
        ),
    ] = None,
    length: Annotated[
        int | None, option(count, "STEPS", "Of a model of sequences, the length of each (10).")
    ] = None,
    output: RowsOutput = "-",
    format: Annotated[Format | None, Parameter(help="The format of standard output (csv).")] = None,
    seed: Seed = 0,
    json: Json = False,
) -> None:
    """Sample new rows from a model, or the other cells of rows in which some are given.

    Examples
    --------
      eigentree sample model.eigentree -n 5
      eigentree sample model.eigentree -n 1000 --seed 1 -o new.csv
      eigentree sample model.eigentree -n 5 --given class=p --given odor=f --json
    """
    sink = RowSink(output, format, json)
    import numpy as np

    from eigentree.cli.model_arguments import SEQUENCE_MODELS, fitted_columns, kind_of, loaded_model
    from eigentree.data.tables.table import table_of
    from eigentree.data.tables.text_cells import require_names

    asked = loaded_model(model)
    columns = fitted_columns(asked)
    if kind_of(asked) in SEQUENCE_MODELS:
        if given:
            raise UsageError("--given is for models of rows, and this is one of sequences; leave it out")
        facts: dict[str, Any] = {"sequences": n, "length": length or 10, "seed": seed}
        found = asked.sample(n, length=facts["length"], random_state=seed)
        # One step per row.
        steps = np.concatenate([np.asarray(one, object).reshape(facts["length"], -1) for one in found])
        part: dict[str, Any] = {asked.sequence or "sequence": np.repeat(np.arange(n), facts["length"])}
        part |= zip(columns.names, steps.T, strict=True)
        sink.write(part)
        sink.report(facts, f"{number_of(n, 'sequence')} sampled")
        return
    if length is not None:
        raise UsageError("--length is for models of sequences, and this is one of rows; leave it out")
    pairs: dict[str, str] = dict(given or ())  # type: ignore[arg-type]
    require_names(list(pairs), columns.names, repr(model))
    known = {name: _cell(columns, name, text) for name, text in pairs.items()}
    # Sampled rows come in the form of the training data, which may have been a frame, or words.
    table = table_of(asked.sample(n, random_state=seed, given=known or None))
    part = {name: table.cells(place) for place, name in enumerate(columns.names)}
    facts = {"rows": n, "given": known, "seed": seed}
    sink.write(part)
    sink.report(facts, f"{number_of(n, 'row')} sampled")


def _cell(columns: Any, name: str, text: str) -> Any:
    """Return a cell of a column: a label is the text itself, or the number that it stands for."""
    if name in columns.numbers and not columns.meanings[columns.position(name)].unit:
        try:
            return float(text)
        except ValueError:
            raise UsageError(f"--given {name}={text}: {name} is a number, and {text!r} is none") from None
    return next((label for label in columns.labels(name) if str(label) == text), text)
