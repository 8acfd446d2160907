"""``eigentree classify``: learn to tell classes apart, and tell them."""

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import App, Parameter

from eigentree.cli.arguments import Data, Json, Output, Reading, RowsOutput, Seed, Shape, Target
from eigentree.cli.model_arguments import Unknown
from eigentree.cli.row_output import check_rows_output, hand_saved, require_file
from eigentree.data.tables.state_rules import ReadOptions

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from eigentree.cli.table_io import Given

__all__ = ["app"]

app = App(
    name="classify",
    help="Learn to tell classes apart by what is likely in each (train), and tell the classes of rows (apply).",
    help_epilogue="""\
Examples

  eigentree classify train mushrooms.csv --target class -o classes.eigentree
  eigentree classify apply classes.eigentree mushrooms.csv -o told.csv""",
)


@app.command
def train(
    data: Data,
    /,
    *,
    target: Target,
    output: Output,
    class_as: Annotated[
        Literal["models", "column"],
        Parameter(
            help="models: one model per class; column: one model of all rows with the class as a column, which "
            "learns from rows without a class too."
        ),
    ] = "models",
    shape: Shape = Shape(),
    reading: Reading = Reading(),
    seed: Seed = 0,
    json: Json = False,
) -> None:
    """Learn a classifier from rows whose class is a column; its structure is mixture unless another is named."""
    require_file(output)
    import numpy as np

    from eigentree.cli.block_io import hint_at_marks
    from eigentree.cli.model_arguments import estimator_of
    from eigentree.cli.structure_arguments import structure_of
    from eigentree.cli.table_io import read_table, required
    from eigentree.cli.terminal_output import told_rows
    from eigentree.errors import DataError
    from eigentree.estimators.classification.classifier import JunctionTreeClassifier

    begin = time.perf_counter()
    if reading.sequence is not None:
        _train_sequences(data, target, output, class_as, shape, reading, seed, json)
        return
    shape = shape.or_else("mixture")
    if not shape.is_file:
        structure_of(shape)
    table = read_table(data, reading)
    required(target, table.names, table.shown)
    classes = _class_labels(table, target)
    if class_as == "models":
        known = np.array([label is not None for label in classes])
        if not known.any():
            raise DataError(f"no row of {table.shown} has a class in {target!r}")
        table, classes = table.take(np.flatnonzero(known)), classes[known]
    rows = table.without([target])
    hint_at_marks(table, reading)
    classifier = JunctionTreeClassifier(estimator_of(shape, seed, rows), class_as=class_as)
    classifier.fit(rows, _Called(target, classes))
    seconds = time.perf_counter() - begin
    classifier.save(output)
    labels = classifier.classes_.tolist()
    facts = {"rows": table.count, "classes": labels, "seconds": round(seconds, 3)}
    told = ", ".join(map(str, labels[:6])) + (", …" if len(labels) > 6 else "")
    hand_saved(output, json, facts, f"classes {told} from {told_rows(table.count)}, {seconds:.1f} s")


@app.command
def apply(
    classifier: Annotated[str, Parameter(help="What eigentree classify train wrote.")],
    data: Data,
    /,
    *,
    output: RowsOutput = "-",
    unknown: Annotated[
        Unknown, Parameter(help="What a label is that the model has not seen: a mistake, or a missing cell.")
    ] = "error",
    reading: Reading = Reading(),
    json: Json = False,
) -> None:
    """Tell the class of each row, and how probable each class is."""
    check_rows_output(output, reading.format)
    import numpy as np

    from eigentree.cli.model_arguments import loaded, of_sequences, rows_for
    from eigentree.cli.row_output import hand_rows
    from eigentree.cli.table_io import read_table
    from eigentree.cli.terminal_output import told_rows

    asked = loaded(classifier, ("JunctionTreeClassifier",), "a classifier; eigentree predict asks a model")
    asked.estimator.handle_unknown = unknown
    if of_sequences(asked.estimator, reading):
        _apply_sequences(asked, data, reading, output, json)
        return
    table = read_table(data, reading)
    proba = np.asarray(asked.predict_proba(rows_for(asked, table)))
    labels = asked.classes_.tolist()
    names = ["class", *(f"class={label}" for label in labels)]
    columns = [[labels[place] for place in proba.argmax(axis=1)], *proba.T]
    sentence = f"classes of {told_rows(table.count)}"
    hand_rows(output, reading.format, json, names, columns, {"rows": table.count, "classes": labels}, sentence)


def _train_sequences(
    data: str, target: str, output: str, class_as: str, shape: Shape, reading: Reading, seed: int, as_json: bool
) -> None:
    """Learn a classifier of sequences, whose class stands in each of their rows."""
    from eigentree.cli.arguments import UsageError
    from eigentree.cli.block_io import hint_at_marks
    from eigentree.cli.sequence_arguments import classes_of, long_table, sequence_estimator
    from eigentree.cli.table_io import read_table, required
    from eigentree.cli.terminal_output import told_sequences
    from eigentree.data.sequences.sequence_codes import Sequences
    from eigentree.estimators.classification.classifier import JunctionTreeClassifier

    if class_as == "column":
        raise UsageError("sequences have one model per class; leave --class-as out")
    begin = time.perf_counter()
    estimator = sequence_estimator(shape, seed)
    table = read_table(data, reading)
    required(target, table.names, table.shown)
    long = long_table(table.without([target]), str(reading.sequence), numeric=shape.numeric)
    labels = _class_labels(table, target)[long.order]
    classes = classes_of(long, labels, target)
    hint_at_marks(table, reading)
    sequences = Sequences.learned(long.table, long.lengths, options=ReadOptions(numeric=shape.numeric))
    classifier = JunctionTreeClassifier(estimator).fit(sequences, classes)
    seconds = time.perf_counter() - begin
    estimator.set_params(sequence=reading.sequence)
    classifier.save(output)
    names = classifier.classes_.tolist()
    told = ", ".join(map(str, names[:6])) + (", …" if len(names) > 6 else "")
    facts = {"sequences": long.count, "classes": names, "seconds": round(seconds, 3)}
    hand_saved(output, as_json, facts, f"classes {told} from {told_sequences(long.count)}, {seconds:.1f} s")


def _apply_sequences(asked: Any, data: str, reading: Reading, output: str, as_json: bool) -> None:
    """Tell the class of each sequence."""
    import numpy as np

    from eigentree.cli.row_output import hand_rows
    from eigentree.cli.sequence_arguments import long_table
    from eigentree.cli.table_io import read_table
    from eigentree.cli.terminal_output import told_sequences
    from eigentree.data.sequences.sequence_codes import Sequences

    column = reading.sequence or asked.estimator.sequence
    long = long_table(read_table(data, reading), column, asked.columns_)
    sequences = Sequences.of(long.table, asked.columns_.reading(asked.estimator.handle_unknown), long.lengths)
    proba = np.asarray(asked.predict_proba(sequences))
    labels = asked.classes_.tolist()
    names = [column, "class", *(f"class={label}" for label in labels)]
    cells = [long.ids, [labels[place] for place in proba.argmax(axis=1)], *proba.T]
    facts = {"sequences": long.count, "classes": labels}
    hand_rows(output, reading.format, as_json, names, cells, facts, f"classes of {told_sequences(long.count)}")


@dataclass(frozen=True, eq=False)
class _Called:
    """Labels with the name of the column that they are from, as the series of a frame have."""

    name: str
    labels: "NDArray[Any]"

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> "NDArray[Any]":
        return self.labels.astype(dtype or self.labels.dtype, copy=bool(copy))


def _class_labels(table: "Given", target: str) -> Any:
    """Return the class of each row as its label, a number where all are; None where it is not known."""
    import numpy as np

    from eigentree.data.tables.text_cells import Written, typed_texts

    cells = table.column(table.names.index(target), target)
    if isinstance(cells, Written):
        typed = typed_texts([str(label) for label in cells.labels])
        labels = cells.labels if typed is None else tuple(typed.tolist())
        return np.array([*labels, None], object)[cells.places]
    return np.array(table.cells(table.names.index(target)), object)
