"""``eigentree merge``: add up what was counted."""

from typing import Annotated

from cyclopts import App, Parameter

from eigentree.cli.arguments import Json, Output
from eigentree.cli.row_output import hand_saved, require_file

__all__ = ["app"]

app = App(
    name="merge",
    help="Add up what eigentree count wrote for parts of the rows: the same, to the last bit, as all rows "
    "counted at once.",
    help_epilogue="""\
Examples

  eigentree merge first.eigentree second.eigentree -o all.eigentree""",
)


@app.default
def merge(
    *files: Annotated[str, Parameter(help="Files that eigentree count wrote.")],
    output: Output,
    json: Json = False,
) -> None:
    """Add up counts."""
    require_file(output)
    from eigentree.cli.arguments import UsageError
    from eigentree.cli.model_arguments import loaded
    from eigentree.cli.terminal_output import told_rows
    from eigentree.errors import DataError

    if not files:
        raise UsageError("name the files to add up")
    total = loaded(files[0], ("Statistics",), "counts of rows, as eigentree count writes")
    for path in files[1:]:
        more = loaded(path, ("Statistics",), "counts of rows, as eigentree count writes")
        try:
            total = total + more
        except DataError as error:
            raise DataError(
                f"{path!r} does not add up with {files[0]!r}: {error}; count the parts --like one of them"
            ) from None
    total.save(output)
    hand_saved(output, json, {"files": len(files), "rows": total.rows}, f"{told_rows(total.rows)} in all")
