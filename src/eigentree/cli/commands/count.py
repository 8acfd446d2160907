"""``eigentree count``: count rows for a spectral model, here or on many machines."""

from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import App, Parameter

from eigentree.cli.arguments import Data, Json, Output, Reading, Shape
from eigentree.cli.row_output import hand_saved, require_file

if TYPE_CHECKING:
    from eigentree.cli.block_io import Blocks
    from eigentree.cli.table_io import Given

__all__ = ["app"]

app = App(
    name="count",
    help="Count rows as a spectral model needs them. Counts of parts add up (eigentree merge), to the same model, "
    "to the last bit, as one fit on all rows. Parts have to agree on labels: count the others --like the first.",
    help_epilogue="""\
Examples

  eigentree count mushrooms.csv --structure hmm -o first.eigentree
  eigentree count mushrooms.csv --like first.eigentree -o second.eigentree
  eigentree merge first.eigentree second.eigentree -o all.eigentree
  eigentree fit all.eigentree --structure hmm --method spectral -o hmm.eigentree""",
)


@app.default
def count(
    data: Data,
    /,
    *,
    output: Output,
    like: Annotated[
        str | None,
        Parameter(
            metavar="FILE", help="Counts of other rows, or a spectral model: for the same structure and labels."
        ),
    ] = None,
    shape: Shape = Shape(),
    reading: Reading = Reading(),
    json: Json = False,
) -> None:
    """Count rows."""
    require_file(output)
    from eigentree.cli.arguments import UsageError
    from eigentree.cli.block_io import given_rows, hint_at_marks
    from eigentree.cli.structure_arguments import LEARNED, structure_of
    from eigentree.cli.terminal_output import told_rows

    if reading.sequence is not None:
        raise UsageError("rows are counted, not sequences; fit --sequence learns from these at once")
    if like is None:
        if not shape.structure:
            raise UsageError("--structure is missing; or say --like a file that was counted before")
        if shape.structure in LEARNED:
            raise UsageError(
                f"{shape.structure} is learned from rows, so parts would be counted for different trees; "
                f"count for mixture, hmm, factorial or a graph.toml"
            )
        if not shape.is_file:
            structure_of(shape)
    elif shape.structure or shape.hidden or shape.order:
        raise UsageError("--like says the structure too; leave --structure, --hidden and --order out")
    table = given_rows(data, reading)
    if like is None:
        hint_at_marks(table, reading)
    statistics = _counted(table, shape) if like is None else _counted_like(table, like)
    statistics.save(output)
    hand_saved(output, json, {"rows": statistics.rows}, f"{told_rows(statistics.rows)} counted")


def _counted(table: "Given | Blocks", shape: Shape) -> Any:
    from eigentree.cli.model_arguments import categories_of
    from eigentree.cli.structure_arguments import structure_of
    from eigentree.counting.statistics import Statistics
    from eigentree.graphs.graph import LatentGraph

    structure = structure_of(shape, table)
    if isinstance(structure, LatentGraph):
        table = table.only(structure.observed)
    known: Any = categories_of(structure, table, shape)
    return Statistics.of(table, structure, numeric=shape.numeric, categories=known)


def _counted_like(table: "Given | Blocks", like: str) -> Any:
    from eigentree.cli.model_arguments import kind_of, loaded, rows_for
    from eigentree.errors import FileError

    found = loaded(like, ("Statistics", "SpectralJunctionTree"), "counts of rows, or a spectral model")
    if kind_of(found) == "SpectralJunctionTree":
        if "statistics_" not in vars(found):
            raise FileError(f"{like!r} was learned from known moments, not from rows; count like another file")
        found = found.statistics_
    # What is left without its own rows is the same plan and labels, and no rows.
    return (found - found).update(rows_for(found, table))
