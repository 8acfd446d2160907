"""``eigentree impute``: fill missing cells."""

from typing import Annotated, Any, Literal

from cyclopts import App, Parameter

from eigentree.commands.answering import check_rows_output, hand_rows
from eigentree.commands.arguments import Data, Json, ModelFile, Reading, RowsOutput, Seed
from eigentree.commands.models import Unknown

__all__ = ["app"]

app = App(
    name="impute",
    help="Fill missing cells by their likeliest labels, or by a draw. All else stays as it is written, and so do "
    "columns that the model does not know.",
    help_epilogue="""\
Examples

  eigentree impute model.eigentree mushrooms.csv -o filled.csv
  eigentree impute model.eigentree mushrooms.csv --by sample -o drawn.csv.gz
  cat mushrooms.csv | eigentree impute model.eigentree - | head -3""",
)


@app.default
def impute(
    model: ModelFile,
    data: Data,
    /,
    *,
    output: RowsOutput = "-",
    by: Annotated[
        Literal["mode", "sample"],
        Parameter(help="mode: the likeliest label of each cell; sample: all cells of a row drawn together."),
    ] = "mode",
    unknown: Annotated[
        Unknown, Parameter(help="What a label is that the model has not seen: a mistake, or a cell to fill.")
    ] = "error",
    reading: Reading = Reading(),
    seed: Seed = 0,
    json: Json = False,
) -> None:
    """Fill missing cells of rows."""
    check_rows_output(output, reading.format)
    import numpy as np

    from eigentree.commands.models import loaded_model, of_sequences, rows_for
    from eigentree.commands.screen import told_rows
    from eigentree.commands.tables import read_table

    asked = loaded_model(model, unknown)
    if of_sequences(asked, reading):
        from eigentree.commands.sequences import impute_sequences

        table, rows, filled = impute_sequences(asked, data, reading, by, seed)
    else:
        table = read_table(data, reading)
        rows = rows_for(asked, table)
        filled = np.asarray(asked.impute(rows, method=by, seed=seed))
    columns: list[list[Any]] = [table.cells(place) for place in range(table.width)]
    count = 0
    for place, name in enumerate(rows.names):
        own = columns[table.names.index(name)]
        # Where cells are text, as those of CSV are, so are those that are filled in.
        text = any(isinstance(cell, str) for cell in own)
        for row, (cell, found) in enumerate(zip(own, filled[:, place].tolist(), strict=True)):
            if cell is None:
                own[row] = str(found) if text else found
                count += 1
    facts = {"rows": table.count, "filled": count}
    cells = "1 missing cell" if count == 1 else f"{count:,} missing cells"
    hand_rows(
        output, reading.format, json, table.names, columns, facts, f"{cells} of {told_rows(table.count)} filled"
    )
