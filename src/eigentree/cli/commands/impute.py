"""``eigentree impute``: fill missing cells."""

from typing import Annotated, Any, Literal

from cyclopts import Parameter

from eigentree.cli.arguments import Data, Json, ModelFile, Reading, RowsOutput, Seed, Unknown, UsageError
from eigentree.cli.output import RowSink, number_of

__all__ = ["impute", "missing_cells"]

FEWEST = 2
"""Completed tables that can be compared."""


def impute(
    model: ModelFile,
    data: Data,
    /,
    *,
    output: RowsOutput = "-",
    by: Annotated[
        Literal["mode", "mean", "median", "sample"],
        Parameter(
            help="mode or mean: the most probable label of each cell, of a number the mean; median: the same, of a "
            "number the median; sample: all cells of a row sampled jointly."
        ),
    ] = "mode",
    multiple: Annotated[
        int | None,
        Parameter(
            metavar="M",
            help="Write so many completed tables, one below the other, with a column 'imputation': 1, 2, …; all "
            "cells and the parameters of each are sampled. The rows are those that the model was fitted to.",
        ),
    ] = None,
    unknown: Unknown = "error",
    reading: Reading = Reading(),
    seed: Seed = 0,
    json: Json = False,
) -> None:
    """Fill missing cells by their most probable labels and the means of numbers, or by a sample.

    Everything else stays as it was, including columns that are not in the model.

    Examples
    --------
      eigentree impute model.eigentree mushrooms.csv -o filled.csv
      eigentree impute model.eigentree mushrooms.csv --by sample -o sampled.csv.gz
      eigentree impute people.eigentree people.csv --by median -o filled.csv
      eigentree impute model.eigentree mushrooms.csv --multiple 5 -o five.csv
      cat mushrooms.csv | eigentree impute model.eigentree - | head -3
    """
    sink = RowSink(output, reading.format, json)
    import numpy as np

    from eigentree.cli.model_arguments import loaded_model, read_for, unit_of
    from eigentree.estimators.mixins.density_mixin import completed_cells

    asked = loaded_model(model, unknown)
    if multiple is not None:
        if by != "mode":
            raise UsageError(f"--multiple samples cells, so --by {by} has no effect; leave it out")
        if multiple < FEWEST:
            raise UsageError(f"--multiple is a whole number of at least {FEWEST}, not {multiple}")
        written(asked, read_for(asked, data, reading), multiple, seed, sink)
        return
    given = read_for(asked, data, reading, stream=True)
    counts: list[tuple[int, int]] = []
    if unit_of(given) == "sequence":
        channels = given.table
        filled = np.asarray(asked.impute(given, method=by, random_state=seed), object)
        missing = missing_cells(channels)
        sink.write(completed_cells(given.whole, channels.names, filled, missing))
        counts.append((channels.count, sum(map(len, missing))))
    else:
        options: Any = {"method": by, "random_state": seed}
        sink.write_by(asked.impute_to, given, **options, each=lambda table, own: counts.append((table.count, own)))
    rows, cells_filled = (sum(numbers) for numbers in zip(*counts, strict=True))
    sentence = f"{number_of(cells_filled, 'missing cell')} of {number_of(rows, 'row')} filled"
    sink.report({"rows": rows, "filled": cells_filled}, sentence)


def missing_cells(table: Any) -> list[Any]:
    """Return which rows miss a cell, for each column."""
    import numpy as np

    cells = [table.cells(place) for place in range(table.width)]
    return [np.array([row for row, cell in enumerate(own) if cell is None], int) for own in cells]


def written(model: Any, given: Any, count: int, seed: int, sink: RowSink) -> None:
    """Write so many completed tables, one below the other."""
    import numpy as np

    from eigentree.cli.model_arguments import rows_for, unit_of
    from eigentree.estimators.mixins.density_mixin import completed_cells
    from eigentree.uncertainty.multiple_imputation import multiple_imputation

    own = rows_for(model, given)
    table, whole = (given.table, given.whole) if unit_of(given) == "sequence" else (own, given)
    missing = missing_cells(table)
    completed = multiple_imputation(model, own, count, random_state=seed)
    sink.write_parts(
        (
            {"imputation": [number] * table.count},
            completed_cells(whole, table.names, np.asarray(filled, object), missing),
        )
        for number, filled in enumerate(completed, 1)
    )
    cells = sum(map(len, missing))
    sentence = f"{number_of(cells, 'missing cell')} of {number_of(table.count, 'row')} filled {count} times"
    sink.report({"rows": table.count, "filled": cells, "imputations": count}, sentence)
