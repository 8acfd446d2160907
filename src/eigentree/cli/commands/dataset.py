"""``eigentree dataset``: write a table to try things on."""

from typing import Annotated, Any, Literal

from cyclopts import App, Parameter

from eigentree.cli.arguments import Format, Json, RowsOutput
from eigentree.cli.row_output import check_rows_output, hand_rows

__all__ = ["app"]

app = App(
    name="dataset",
    help="Write a real table that comes with the package: mushrooms (8,124 rows, 22 columns and their class), "
    "votes (435 rows, 16 votes and the party) or splice (3,190 DNA sequences of 60 bases and their class).",
    help_epilogue="""\
Examples

  eigentree dataset mushrooms -o mushrooms.csv
  eigentree dataset votes --missing '?' | head -3""",
)


@app.default
def dataset(
    name: Annotated[Literal["mushrooms", "votes", "splice"], Parameter(help="Which table.")],
    /,
    *,
    output: RowsOutput = "-",
    missing: Annotated[
        str | None,
        Parameter(metavar="MARK", allow_leading_hyphen=True, help="What a missing cell is written as (nothing)."),
    ] = None,
    format: Annotated[Format | None, Parameter(help="The format of standard output (csv).")] = None,
    json: Json = False,
) -> None:
    """Write a table of the package."""
    check_rows_output(output, format)
    import eigentree
    from eigentree.cli.terminal_output import told_rows

    loaders: dict[str, Any] = {
        "mushrooms": eigentree.datasets.load_mushrooms,
        "votes": eigentree.datasets.load_votes,
        "splice": eigentree.datasets.load_splice,
    }
    found = loaders[name]()
    cells = [[missing if cell is None else cell for cell in column] for column in found.data.T.tolist()]
    columns = [*cells, found.target.tolist()]
    names = [*found.feature_names, "class"]
    facts = {"rows": len(columns[0]), "columns": names}
    hand_rows(output, format, json, names, columns, facts, f"{name}: {told_rows(len(columns[0]))}")
