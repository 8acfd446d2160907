"""``eigentree report``: a page about a model, and about rows beside it."""

from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import App, Parameter

from eigentree.cli.arguments import PIPE, Json, ModelFile, Reading, checked_output

if TYPE_CHECKING:
    from eigentree.viz.reports.report import Report

__all__ = ["app"]

app = App(
    name="report",
    help="One page of HTML about a model, to look at and to pass on: its graph and junction tree, what its hidden "
    "states say about columns, and how it was learned. With --data also how likely rows are beside simpler models, "
    "how well hidden cells are predicted, whether probabilities come true, and the oddest rows. Nothing is loaded "
    "from elsewhere.",
    help_epilogue="""\
Examples

  eigentree report model.eigentree -o model.html
  eigentree report model.eigentree --data mushrooms.csv -o report.html
  eigentree report model.eigentree --data mushrooms.csv -o - > piped.html""",
)


@app.default
def report(
    model: ModelFile,
    /,
    *,
    output: Annotated[
        str,
        Parameter(
            name=["--output", "-o"],
            metavar="FILE",
            allow_leading_hyphen=True,
            help="The page to write, such as report.html; - for standard output.",
        ),
    ],
    data: Annotated[
        str | None,
        Parameter(
            metavar="FILE",
            allow_leading_hyphen=True,
            help="Rows to look at, best such as were not learned from; - for standard input.",
        ),
    ] = None,
    training: Annotated[
        str | None,
        Parameter(
            metavar="FILE",
            allow_leading_hyphen=True,
            help="Rows that simpler models learn from (by default parts of --data, in turn).",
        ),
    ] = None,
    title: Annotated[str | None, Parameter(metavar="TEXT", help="The heading of the page.")] = None,
    reading: Reading = Reading(),
    json: Json = False,
) -> None:
    """Write a report."""
    from eigentree.cli.arguments import UsageError
    from eigentree.cli.pipes import require_folder, written
    from eigentree.cli.terminal_output import note, show_json

    if not output:
        raise UsageError("--output is the name of a file, not empty; as in -o report.html")
    require_folder(checked_output(output))
    if data is None and training is not None:
        raise UsageError("--training is what simpler models learn from, to be compared on --data; give both")
    if data == training == PIPE:
        raise UsageError("standard input can be --data or --training, not both")
    made = _made(model, data, training, title, reading)
    page = made.html.encode()
    written(output, lambda file: file.write(page))
    if json and output != PIPE:
        show_json({"title": made.title, "bytes": len(page), "rows": _rows(made), "output": output})
    else:
        note(f"{made.title}: {len(page) / 1000:,.0f} kB" + ("" if output == PIPE else f"; written: {output}"))


def _made(path: str, data: str | None, training: str | None, title: str | None, reading: Reading) -> "Report":
    from eigentree.cli.model_arguments import of_sequences, rows_for
    from eigentree.cli.table_io import read_table
    from eigentree.viz.reports.report import report as report_of

    model = _model(path)
    told: dict[str, Any] = {"title": title, "source": _called(data)}
    if not of_sequences(model, reading):
        tables = [None if file is None else rows_for(model, read_table(file, reading)) for file in (data, training)]
        return report_of(model, tables[0], training=tables[1], **told)
    if data is not None:
        from eigentree.cli.sequence_arguments import sequences_for

        long, _, _ = sequences_for(model, data, reading)
        told |= {"X": long.table, "lengths": long.lengths, "names": long.ids}
        if training is not None:
            known, _, _ = sequences_for(model, training, reading)
            told |= {"training": known.table, "training_lengths": known.lengths}
    return report_of(model, **told)


def _model(path: str) -> Any:
    """Return the model of a file: its own, or the one that a classifier or an imputer holds."""
    from eigentree.cli.model_arguments import LIKE_MODELS, kind_of, loaded
    from eigentree.errors import FileError

    found = loaded(path, (*LIKE_MODELS, "JunctionTreeClassifier", "JunctionTreeImputer"), "a model")
    model = vars(found).get("estimator_", found)
    if kind_of(model) == "JunctionTreeClassifier":
        raise FileError(
            f"{path!r} holds a classifier with one model per class, and a report is about one model; train it with "
            f"--class-as column, or fit a model to the rows of one class"
        )
    return model


def _called(data: str | None) -> str | None:
    import os

    if data is None:
        return None
    return "standard input" if data == PIPE else os.path.basename(data)


def _rows(made: "Report") -> int | None:
    return None if made.facts.data is None else made.facts.data.count
