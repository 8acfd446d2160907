"""``eigentree impute``: fill missing cells."""

from collections.abc import Iterator
from typing import Annotated, Any, Literal

from cyclopts import App, Parameter

from eigentree.cli.arguments import Data, Json, ModelFile, Reading, RowsOutput, Seed, Unknown
from eigentree.cli.row_output import RowSink
from eigentree.cli.terminal_output import number_of

__all__ = ["app"]

app = App(
    name="impute",
    help="Fill missing cells by their most probable labels, or by a sample. Everything else stays as it was, "
    "including columns that are not in the model.",
    help_epilogue="""\
Examples

  eigentree impute model.eigentree mushrooms.csv -o filled.csv
  eigentree impute model.eigentree mushrooms.csv --by sample -o sampled.csv.gz
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
        Parameter(help="mode: the most probable label of each cell; sample: all cells of a row sampled jointly."),
    ] = "mode",
    unknown: Unknown = "error",
    reading: Reading = Reading(),
    seed: Seed = 0,
    json: Json = False,
) -> None:
    """Fill missing cells of rows."""
    sink = RowSink(output, reading.format, json)
    from eigentree.cli.model_arguments import loaded_model

    asked = loaded_model(model, unknown)
    totals = {"rows": 0, "filled": 0}

    def parts() -> Iterator[dict[str, list[Any]]]:
        for table, names, filled in _filled(asked, data, reading, by, seed):
            columns, cells = _completed(table, names, filled)
            totals["rows"] += table.count
            totals["filled"] += cells
            yield columns

    def report() -> tuple[dict[str, Any], str]:
        return totals, f"{number_of(totals['filled'], 'missing cell')} of {number_of(totals['rows'], 'row')} filled"

    sink.write(parts(), report)


def _filled(
    asked: Any, data: str, reading: Reading, by: Literal["mode", "sample"], seed: int
) -> Iterator[tuple[Any, tuple[str, ...], Any]]:
    """Yield rows as they came, the columns of the model, and their cells, filled."""
    import numpy as np

    from eigentree.cli.model_arguments import fitted_columns, read_for, rows_for, unit_of
    from eigentree.cli.rows_read import batches_of
    from eigentree.validation import generator

    names, random = fitted_columns(asked).names, generator(seed)
    given = read_for(asked, data, reading, stream=True)
    if unit_of(given) == "sequence":
        yield given.whole, names, np.asarray(asked.impute(given, method=by, random_state=random), object)
        return
    for table in batches_of(given):
        yield table, names, np.asarray(asked.impute(rows_for(asked, table), method=by, random_state=random))


def _completed(table: Any, names: tuple[str, ...], filled: Any) -> tuple[dict[str, list[Any]], int]:
    """Return the cells of all columns, missing ones filled, and the number of these."""
    from eigentree.data.tables.text_cells import TextColumn

    columns: dict[str, list[Any]] = {name: table.cells(place) for place, name in enumerate(table.names)}
    count = 0
    for place, name in enumerate(names):
        own = columns[name]
        gaps = [row for row, cell in enumerate(own) if cell is None]
        # Where cells are text, as those of CSV are, so are those that are filled in.
        text = isinstance(table.held[table.names.index(name)], TextColumn)
        text = text or (bool(gaps) and any(isinstance(cell, str) for cell in own))
        for row, found in zip(gaps, filled[gaps, place].tolist(), strict=True):
            own[row] = str(found) if text else found
        count += len(gaps)
    return columns, count
