"""``eigentree sample``: draw new rows."""

from typing import Annotated, Any

from cyclopts import App, Parameter

from eigentree.cli.arguments import Format, Json, ModelFile, RowsOutput, Seed, command_line, count, each, named
from eigentree.cli.row_output import check_rows_output, hand_rows

__all__ = ["app"]

app = App(
    name="sample",
    help="Draw new rows from a model, or the other cells of rows in which some are given.",
    help_epilogue="""\
Examples

  eigentree sample model.eigentree -n 5
  eigentree sample model.eigentree -n 1000 --seed 1 -o new.csv
  eigentree sample model.eigentree -n 5 --given class=p --given odor=f --json""",
)


@app.default
def sample(
    model: ModelFile,
    /,
    *,
    n: Annotated[int, command_line(count, "ROWS", "How many rows."), Parameter(name=["-n", "--rows"])] = 1,
    given: Annotated[
        list[str] | None,
        Parameter(
            converter=each(named),
            negative="",
            metavar="COLUMN=LABEL",
            help="What is known of every row; may be repeated.",
        ),
    ] = None,
    length: Annotated[
        int | None, command_line(count, "STEPS", "Of a model of sequences, how long each is (10).")
    ] = None,
    output: RowsOutput = "-",
    format: Annotated[Format | None, Parameter(help="The format of standard output (csv).")] = None,
    seed: Seed = 0,
    json: Json = False,
) -> None:
    """Draw rows."""
    check_rows_output(output, format)
    from eigentree.cli.arguments import UsageError
    from eigentree.cli.model_arguments import SEQUENCE_MODELS, fitted_columns, kind_of, label_of, loaded_model
    from eigentree.cli.table_io import required
    from eigentree.cli.terminal_output import told_rows
    from eigentree.data.tables.table import table_of

    asked = loaded_model(model)
    if kind_of(asked) in SEQUENCE_MODELS:
        from eigentree.cli.sequence_arguments import sample_sequences
        from eigentree.cli.terminal_output import told_sequences

        if given:
            raise UsageError("--given is for models of rows, and this is one of sequences; leave it out")
        names, steps = sample_sequences(asked, n, length or 10, seed)
        facts: dict[str, Any] = {"sequences": n, "length": length or 10, "seed": seed}
        hand_rows(output, format, json, names, steps, facts, f"{told_sequences(n)} drawn")
        return
    if length is not None:
        raise UsageError("--length is for models of sequences, and this is one of rows; leave it out")
    columns = fitted_columns(asked)
    pairs: dict[str, str] = dict(given or ())  # type: ignore[arg-type]
    known = {
        required(name, columns.names, repr(model)): label_of(columns, name, text) for name, text in pairs.items()
    }
    drawn = asked.sample(n, random_state=seed, given=known or None)
    # Rows come as those did that were learned from, which may have been a frame, or words.
    table = table_of(drawn)
    cells = [table.cells(place) for place in range(table.width)]
    facts = {"rows": n, "given": known, "seed": seed}
    hand_rows(output, format, json, columns.names, cells, facts, f"{told_rows(n)} drawn")
