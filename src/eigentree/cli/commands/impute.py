"""``eigentree impute``: fill missing cells."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import App, Parameter

from eigentree.cli.arguments import Data, Json, ModelFile, Reading, RowsOutput, Seed
from eigentree.cli.model_arguments import Unknown
from eigentree.cli.row_output import check_rows_output, hand_parts

if TYPE_CHECKING:
    from eigentree.cli.table_io import Given

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
    from itertools import chain

    from eigentree.cli.model_arguments import loaded_model, of_sequences
    from eigentree.cli.terminal_output import told_rows

    asked = loaded_model(model, unknown)
    if of_sequences(asked, reading):
        from eigentree.cli.sequence_arguments import impute_sequences

        blocks = iter([impute_sequences(asked, data, reading, by, seed)])
    else:
        blocks = _filled(asked, data, reading, by, seed)
    # The first block tells the names of the columns.
    first = next(blocks)
    rows, cells = 0, 0

    def parts() -> Iterator[list[list[Any]]]:
        nonlocal rows, cells
        for table, own, filled in chain([first], blocks):
            columns, count = _completed(table, own, filled)
            rows, cells = rows + table.count, cells + count
            yield columns

    def told() -> tuple[dict[str, Any], str]:
        found = "1 missing cell" if cells == 1 else f"{cells:,} missing cells"
        return {"rows": rows, "filled": cells}, f"{found} of {told_rows(rows)} filled"

    hand_parts(output, reading.format, json, first[0].names, parts(), told)


def _filled(
    asked: Any, data: str, reading: Reading, by: Literal["mode", "sample"], seed: int
) -> Iterator[tuple["Given", "Given", Any]]:
    """Yield rows, those of their columns that the model knows, and these with all cells filled."""
    import numpy as np

    from eigentree.cli.block_io import given_blocks
    from eigentree.cli.model_arguments import rows_for
    from eigentree.validation import generator

    random = generator(seed)
    for table in given_blocks(data, reading):
        rows = rows_for(asked, table)
        yield table, rows, np.asarray(asked.impute(rows, method=by, random_state=random))


def _completed(table: "Given", rows: "Given", filled: Any) -> tuple[list[list[Any]], int]:
    """Return the cells of all columns, those that were missing filled in, and how many these were."""
    from eigentree.data.tables.text_cells import Written

    columns: list[list[Any]] = [table.cells(place) for place in range(table.width)]
    count = 0
    for place, name in enumerate(rows.names):
        at = table.names.index(name)
        own = columns[at]
        gaps = [row for row, cell in enumerate(own) if cell is None]
        # Where cells are text, as those of CSV are, so are those that are filled in.
        text = isinstance(table.held[at], Written) or (bool(gaps) and any(isinstance(cell, str) for cell in own))
        for row, found in zip(gaps, filled[gaps, place].tolist(), strict=True):
            own[row] = str(found) if text else found
        count += len(gaps)
    return columns, count
