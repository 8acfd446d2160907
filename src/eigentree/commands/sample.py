"""``eigentree sample``: draw new rows."""

from typing import Annotated

from cyclopts import App, Parameter

from eigentree.commands.answering import check_rows_output, hand_rows
from eigentree.commands.arguments import Format, Json, ModelFile, RowsOutput, Seed, command_line, count, each, named

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
    output: RowsOutput = "-",
    format: Annotated[Format | None, Parameter(help="The format of standard output (csv).")] = None,
    seed: Seed = 0,
    json: Json = False,
) -> None:
    """Draw rows."""
    check_rows_output(output, format)
    from eigentree.commands.models import fitted_columns, label_of, loaded_model
    from eigentree.commands.screen import told_rows
    from eigentree.commands.tables import required
    from eigentree.data.table import table_of

    asked = loaded_model(model)
    columns = fitted_columns(asked)
    pairs: dict[str, str] = dict(given or ())  # type: ignore[arg-type]
    known = {
        required(name, columns.names, repr(model)): label_of(columns, name, text) for name, text in pairs.items()
    }
    drawn = asked.sample(n, seed=seed, given=known or None)
    # Rows come as those did that were learned from, which may have been a frame, or words.
    table = table_of(drawn)
    cells = [table.cells(place) for place in range(table.width)]
    facts = {"rows": n, "given": known, "seed": seed}
    hand_rows(output, format, json, columns.names, cells, facts, f"{told_rows(n)} drawn")
