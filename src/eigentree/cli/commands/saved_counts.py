"""``eigentree count`` and ``eigentree merge``: saved statistics of rows, which add up."""

from typing import Annotated, Any

from cyclopts import Parameter

from eigentree.cli.arguments import Data, Json, Output, Reading, Shape, Structure, UsageError
from eigentree.cli.output import number_of, report_saved, require_file

__all__ = ["count", "merge"]

COUNTS = "counts of rows, as eigentree count writes"


def count(
    data: Data,
    /,
    *,
    output: Output,
    like: Annotated[
        str | None,
        Parameter(
            metavar="FILE", help="Counts of other rows, or a spectral model, with the structure and the labels."
        ),
    ] = None,
    structure: Structure = Structure(),
    reading: Reading = Reading(),
    json: Json = False,
) -> None:
    """Count rows as a spectral model needs them.

    Counts of parts add up (eigentree merge) to a model that is bit-identical to one fit on all rows. Parts have to
    agree on labels: count the others --like the first.

    Examples
    --------
      eigentree count mushrooms.csv --structure hmm -o first.eigentree
      eigentree count mushrooms.csv --like first.eigentree -o second.eigentree
      eigentree merge first.eigentree second.eigentree -o all.eigentree
      eigentree fit all.eigentree --structure hmm --method spectral -o hmm.eigentree
    """
    require_file(output)
    from eigentree.cli.model_arguments import LEARNED
    from eigentree.cli.rows_read import open_rows

    if reading.sequence is not None:
        raise UsageError("count is for rows, not for sequences; fit --sequence learns from these at once")
    if like is not None:
        if structure.structure or structure.hidden or structure.order:
            raise UsageError("--like gives the structure too; leave --structure, --hidden and --order out")
        statistics = _counted_like(open_rows(data, reading), like)
    else:
        if not structure.structure:
            raise UsageError("--structure is missing; or give --like a file that was counted before")
        if structure.structure in LEARNED:
            raise UsageError(
                f"{structure.structure} is learned from rows, so parts would be counted for different trees; "
                f"count for mixture, hmm, factorial or a graph.toml"
            )
        statistics = _counted(data, Shape(**vars(structure), method="spectral"), reading)
    statistics.save(output)
    report_saved(output, json, {"rows": statistics.rows}, f"{number_of(statistics.rows, 'row')} counted")


def _counted(data: str, shape: Shape, reading: Reading) -> Any:
    from eigentree.cli.model_arguments import categories_of, numeric_of, read_training, structure_of
    from eigentree.cli.rows_read import hint_at_marks
    from eigentree.counting.statistics import Statistics
    from eigentree.graphs.graph import LatentGraph

    rows = read_training(data, shape, reading, stream=True)
    structure = structure_of(shape, rows)
    if isinstance(structure, LatentGraph):
        rows = rows.only(structure.observed)
    known: Any = categories_of(structure, rows, shape)
    hint_at_marks(rows, reading)
    numeric: Any = numeric_of(shape)
    return Statistics.of(rows, structure, numeric=numeric, categories=known)


def _counted_like(rows: Any, like: str) -> Any:
    from eigentree.cli.model_arguments import kind_of, loaded, rows_for
    from eigentree.errors import FileError

    found = loaded(like, ("Statistics", "SpectralJunctionTree"), "counts of rows, or a spectral model")
    if kind_of(found) == "SpectralJunctionTree":
        if "statistics_" not in vars(found):
            raise FileError(f"{like!r} was learned from known moments, not from rows; count like another file")
        found = found.statistics_
    # The difference has the same plan and labels, and no rows.
    return (found - found).update(rows_for(found, rows))


def merge(
    *files: Annotated[str, Parameter(help="Files that eigentree count wrote.")],
    output: Output,
    json: Json = False,
) -> None:
    """Add up what eigentree count wrote for parts of the rows: bit-identical to counts of all rows at once.

    Examples
    --------
      eigentree merge first.eigentree second.eigentree -o all.eigentree
    """
    require_file(output)
    from eigentree.cli.model_arguments import loaded
    from eigentree.errors import DataError

    if not files:
        raise UsageError("name the files to add up")
    total = loaded(files[0], ("Statistics",), COUNTS)
    for path in files[1:]:
        more = loaded(path, ("Statistics",), COUNTS)
        try:
            total = total + more
        except DataError as error:
            raise DataError(
                f"{path!r} does not add up with {files[0]!r}: {error}; count the parts --like one of them"
            ) from None
    total.save(output)
    report_saved(output, json, {"files": len(files), "rows": total.rows}, f"{number_of(total.rows, 'row')} in all")
