"""``eigentree report``: an HTML page about a model, and about rows beside it."""

import os
from typing import Annotated, Any

from cyclopts import Parameter

from eigentree.cli.arguments import PIPE, Json, ModelFile, Reading, UsageError, file_option
from eigentree.cli.output import checked_output, note, show_json

__all__ = ["report"]


def report(
    model: ModelFile,
    /,
    *,
    output: Annotated[
        str, file_option("The page to write, such as report.html; - for standard output.", "--output", "-o")
    ],
    data: Annotated[
        str | None, file_option("Rows to evaluate on, best not the training data; - for standard input.")
    ] = None,
    training: Annotated[
        str | None,
        file_option("The training data; simpler models are fitted to it (without it cross-validated on --data)."),
    ] = None,
    title: Annotated[str | None, Parameter(metavar="TEXT", help="The heading of the page.")] = None,
    reading: Reading = Reading(),
    json: Json = False,
) -> None:
    """Write one page of HTML about a model, to look at and to pass on; it loads nothing from elsewhere.

    It shows classes or hidden states: their sizes, what each answers, transitions of sequences; the graph; and how
    the model was fitted. With --data also BIC and AIC, the log-likelihood of rows beside that of simpler models,
    the accuracy on masked cells, calibration, and anomalies. With --training also intervals of the parameters.

    Examples
    --------
      eigentree report model.eigentree -o model.html
      eigentree report model.eigentree --data mushrooms.csv -o report.html
      eigentree report model.eigentree --data mushrooms.csv -o - > piped.html
    """
    checked_output(output)
    if data is None and training is not None:
        raise UsageError("--training is what simpler models are fitted to, to be compared on --data; give both")
    if data == training == PIPE:
        raise UsageError("standard input can be --data or --training, not both")
    from eigentree.io.byte_files import write_bytes

    made = _made(model, data, training, title, reading)
    page = made.html.encode()
    write_bytes(output, lambda file: file.write(page))
    if json and output != PIPE:
        rows = None if made.facts.data is None else made.facts.data.count
        show_json({"title": made.title, "bytes": len(page), "rows": rows, "output": output})
    else:
        note(f"{made.title}: {len(page) / 1000:,.0f} kB" + ("" if output == PIPE else f"; written: {output}"))


def _made(path: str, data: str | None, training: str | None, title: str | None, reading: Reading) -> Any:
    from eigentree.cli.model_arguments import LIKE_MODELS, kind_of, loaded, read_for, rows_for, unit_of
    from eigentree.errors import FileError
    from eigentree.viz.reports.report import report as report_of

    found = loaded(path, (*LIKE_MODELS, "JunctionTreeClassifier", "JunctionTreeImputer"), "a model")
    model = vars(found).get("estimator_", found)
    if kind_of(model) == "JunctionTreeClassifier":
        raise FileError(
            f"{path!r} holds a classifier with one model per class, and a report is about one model; train it with "
            f"--class-as column, or fit a model to the rows of one class"
        )
    options: dict[str, Any] = {"title": title}
    if data is not None:
        rows = read_for(model, data, reading)
        options |= {
            "X": rows_for(model, rows),
            "source": "standard input" if data == PIPE else os.path.basename(data),
        }
        if unit_of(rows) == "sequence":
            options["names"] = rows.ids
    if training is not None:
        options["training"] = rows_for(model, read_for(model, training, reading))
    return report_of(model, **options)
