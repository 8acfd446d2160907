"""``eigentree impute``: fill missing cells."""

from typing import Annotated, Any, Literal

from cyclopts import Parameter

from eigentree.cli.arguments import Data, Json, ModelFile, Reading, RowsOutput, Seed, Unknown
from eigentree.cli.output import RowSink, number_of

__all__ = ["impute"]


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
      cat mushrooms.csv | eigentree impute model.eigentree - | head -3
    """
    sink = RowSink(output, reading.format, json)
    import numpy as np

    from eigentree.cli.model_arguments import loaded_model, read_for, unit_of
    from eigentree.estimators.mixins.density_mixin import completed_cells

    asked = loaded_model(model, unknown)
    given = read_for(asked, data, reading, stream=True)
    counts: list[tuple[int, int]] = []
    if unit_of(given) == "sequence":
        channels = given.table
        filled = np.asarray(asked.impute(given, method=by, random_state=seed), object)
        cells = [channels.cells(place) for place in range(channels.width)]
        missing = [np.array([row for row, cell in enumerate(own) if cell is None], int) for own in cells]
        sink.write(completed_cells(given.whole, channels.names, filled, missing))
        counts.append((channels.count, sum(map(len, missing))))
    else:
        options: Any = {"method": by, "random_state": seed}
        sink.write_by(asked.impute_to, given, **options, each=lambda table, own: counts.append((table.count, own)))
    rows, cells_filled = (sum(numbers) for numbers in zip(*counts, strict=True))
    sentence = f"{number_of(cells_filled, 'missing cell')} of {number_of(rows, 'row')} filled"
    sink.report({"rows": rows, "filled": cells_filled}, sentence)
