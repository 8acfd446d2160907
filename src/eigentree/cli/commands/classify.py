"""``eigentree classify``: train a classifier, and apply it."""

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import App, Parameter

from eigentree.cli.arguments import Data, Json, Output, Reading, RowOptions, Seed, Shape, Target, UsageError
from eigentree.cli.output import RowSink, number_of, report_saved, require_file

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from eigentree.data.tables.text_cells import FileTable

__all__ = ["app"]

app = App(
    name="classify",
    group_commands="Commands",
    help="Learn a classifier by the probability of rows in each class (train), and classify rows (apply).",
    help_epilogue="""\
Examples

  eigentree classify train mushrooms.csv --target class -o classes.eigentree
  eigentree classify apply classes.eigentree mushrooms.csv -o classified.csv""",
)


@app.command
def train(
    data: Data,
    /,
    *,
    target: Target,
    output: Output,
    class_as: Annotated[
        Literal["models", "column", "steps"],
        Parameter(
            help="models: one model per class; column: one model of all rows with the class as a column, which "
            "learns from rows without a class too; steps: each step of a sequence has a class of its own, and "
            "--hidden states are those of each class."
        ),
    ] = "models",
    training: Annotated[
        Literal["generative", "conditional"],
        Parameter(
            help="generative: most probable rows and classes; conditional: from there on, classes given rows."
        ),
    ] = "generative",
    alpha: Annotated[
        float | None,
        Parameter(help="Penalty of conditional training; by default chosen on held-out rows."),
    ] = None,
    shape: Shape = Shape(),
    reading: Reading = Reading(),
    seed: Seed = 0,
    json: Json = False,
) -> None:
    """Train a classifier on rows whose class is a column; its structure is mixture unless another is named."""
    require_file(output)
    import numpy as np

    from eigentree.cli.model_arguments import estimator_of, read_training, saved, unit_of
    from eigentree.cli.rows_read import hint_at_marks
    from eigentree.data.tables.text_cells import require_names
    from eigentree.errors import DataError
    from eigentree.estimators.classification.classifier import JunctionTreeClassifier
    from eigentree.estimators.classification.sequence_tagger import SequenceTagger

    begin = time.perf_counter()
    if reading.sequence is None:
        if class_as == "steps":
            raise UsageError("steps are those of sequences; name these by --sequence")
        shape = shape.or_else("mixture")
    elif class_as == "column":
        raise UsageError("sequences have one model per class; leave --class-as out")
    rows = read_training(data, shape, reading)
    table: FileTable = rows.whole if unit_of(rows) == "sequence" else rows
    require_names([target], table.names, table.source)
    classes = _class_labels(table, target)
    if unit_of(rows) == "sequence":
        classes = classes if class_as == "steps" else np.array(rows.labels(target, classes), object)
        rows = rows.without([target])
    else:
        if class_as == "models":
            known = np.array([label is not None for label in classes])
            if not known.any():
                raise DataError(f"no row of {table.source} has a class in {target!r}")
            rows, classes = rows.take(np.flatnonzero(known)), classes[known]
        rows = rows.dropping([target])
    hint_at_marks(table, reading)
    penalty: float | Literal["auto"] = "auto" if alpha is None else alpha
    how: Any = {"training": training, "alpha": penalty, "random_state": seed}
    pattern = estimator_of(shape, seed, rows)
    classifier: Any
    if class_as == "steps":
        classifier = SequenceTagger(pattern, **how).fit(rows, classes)
        classifier.target_ = target
    else:
        classifier = JunctionTreeClassifier(pattern, class_as, **how).fit(rows, _Named(target, classes))
    seconds = time.perf_counter() - begin
    if reading.sequence is not None:
        classifier.estimator.set_params(sequence=reading.sequence)
    saved(classifier, output)
    labels = classifier.classes_.tolist()
    facts = {f"{unit_of(rows)}s": rows.count, "classes": labels, "seconds": round(seconds, 3)}
    shown = ", ".join(map(str, labels[:6])) + (", …" if len(labels) > 6 else "")
    sentence = f"classes {shown} from {number_of(rows.count, unit_of(rows))}, {seconds:.1f} s"
    report_saved(output, json, facts, sentence)


@app.command
def apply(
    classifier: Annotated[str, Parameter(help="A file that eigentree classify train wrote.")],
    data: Data,
    /,
    *,
    target: Annotated[
        str | None,
        Parameter(
            name=["--target", "-t"],
            metavar="COLUMN",
            help="The column of true classes, for the accuracy (by default the one of the training data).",
        ),
    ] = None,
    rows: RowOptions = RowOptions(),
    reading: Reading = Reading(),
) -> None:
    """Classify rows: the most probable class of each, and the probability of each class."""
    sink = RowSink(rows.output, reading.format, rows.json)
    import numpy as np

    from eigentree.cli.model_arguments import (
        Predictions,
        identified,
        kind_of,
        loaded,
        read_for,
        rows_for,
        unit_of,
    )
    from eigentree.data.sequences.sequence_codes import Sequences
    from eigentree.data.tables.text_cells import require_names

    kinds = ("JunctionTreeClassifier", "SequenceTagger")
    asked = loaded(classifier, kinds, "a classifier; eigentree predict uses a model")
    of_steps = kind_of(asked) == "SequenceTagger"
    asked.estimator.handle_unknown = rows.unknown
    given = read_for(asked, data, reading, rows.id)
    table = given.whole if unit_of(given) == "sequence" else given
    if target is not None:
        require_names([target], table.names, table.source)
    name = target or asked.target_ or "class"
    found = Predictions(name, asked.classes_.tolist())
    own: Any = rows_for(asked, given)
    if unit_of(given) == "sequence":
        own = Sequences.of(given, asked.columns_.reading(rows.unknown))
    proba = asked.predict_proba(own)
    truth: Any = [None] * len(proba)
    if name in table.names:
        truth = _class_labels(table, name)
        if unit_of(given) == "sequence" and not of_steps:
            truth = given.labels(name, truth, partly=True)
    codes = {str(label): code for code, label in enumerate(found.labels)}
    found.compare(proba, np.array([codes.get(str(label), -1) for label in truth]))
    sink.write({given.name: given.column} if of_steps else identified(given, rows.id), found.columns(proba))
    sink.report(*found.report("step" if of_steps else unit_of(given)))


@dataclass(frozen=True, eq=False)
class _Named:
    """Labels with the name of their column, as the series of a frame have."""

    name: str
    labels: "NDArray[Any]"

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> "NDArray[Any]":
        return self.labels.astype(dtype or self.labels.dtype, copy=bool(copy))


def _class_labels(table: "FileTable", target: str) -> Any:
    """Return the class of each row as its label, a number where all are; None where it is not known."""
    import numpy as np

    from eigentree.data.tables.text_cells import TextColumn, typed_texts

    cells = table.column(table.names.index(target), target)
    if isinstance(cells, TextColumn):
        typed = typed_texts([str(label) for label in cells.labels])
        labels = cells.labels if typed is None else tuple(typed.tolist())
        return np.array([*labels, None], object)[cells.places]
    return np.array(table.cells(table.names.index(target)), object)
