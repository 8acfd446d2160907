"""``eigentree predict``: a column, or a hidden variable, from the other cells of each row."""

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import App, Parameter

from eigentree.cli.arguments import Data, Json, ModelFile, Reading, RowsOutput, Target
from eigentree.cli.model_arguments import Unknown
from eigentree.cli.row_output import check_rows_output, hand_parts

if TYPE_CHECKING:
    from eigentree.cli.table_io import Given
    from eigentree.data.tables.columns import Columns

__all__ = ["app"]

app = App(
    name="predict",
    help="The likeliest label of a column given the other cells of each row, and the probability of each label. "
    "The column itself is not looked at, and need not be there. A hidden variable is a target too, of a model "
    "that was learned by EM. Of a model of sequences: what comes next in each, or with the target state the hidden "
    "state of each step.",
    help_epilogue="""\
Examples

  eigentree predict model.eigentree mushrooms.csv --target class | head -3
  eigentree predict model.eigentree mushrooms.csv -t odor -o odor.parquet
  eigentree predict model.eigentree mushrooms.csv -t h -o h.csv --json""",
)


@app.default
def predict(
    model: ModelFile,
    data: Data,
    /,
    *,
    target: Target,
    output: RowsOutput = "-",
    unknown: Annotated[
        Unknown, Parameter(help="What a label is that the model has not seen: a mistake, or a missing cell.")
    ] = "error",
    reading: Reading = Reading(),
    json: Json = False,
) -> None:
    """Predict a column of rows."""
    check_rows_output(output, reading.format)
    from itertools import chain

    from eigentree.cli.block_io import given_blocks
    from eigentree.cli.model_arguments import fitted_columns, kind_of, loaded_model, of_sequences, rows_for
    from eigentree.errors import GraphError, did_you_mean, what_there_is

    asked = loaded_model(model, unknown)
    if of_sequences(asked, reading):
        from eigentree.cli.sequence_arguments import predict_sequences

        predict_sequences(asked, data, reading, target, output, json)
        return
    graph = asked.graph if kind_of(asked) == "LatentNetwork" else asked.graph_
    if target not in graph.names:
        hint = did_you_mean(target, graph.names) or what_there_is(target, graph.observed)
        raise GraphError(f"{model!r} has no column {target!r}{hint}")
    if target in graph.hidden and kind_of(asked) == "SpectralJunctionTree":
        raise GraphError(f"{target!r} is hidden, and a spectral model has no tables of it; fit with --method em")
    columns = None if target in graph.hidden else fitted_columns(asked)
    answers = (
        (table, asked.predict_proba(rows_for(asked, table, target), target))
        for table in given_blocks(data, reading)
    )
    # The first block tells the labels.
    first = next(answers)
    _hand_predictions(output, reading, json, target, list(first[1].states[1]), chain([first], answers), columns)


def _hand_predictions(
    output: str,
    reading: Reading,
    as_json: bool,
    target: str,
    labels: list[Any],
    answers: Iterable[tuple["Given", Any]],
    columns: "Columns | None",
) -> None:
    """Write the likeliest label and the probability of each, and say how often it is right where that is known.

    `answers` are rows, and the probabilities of the labels of each.
    """
    import numpy as np

    from eigentree.cli.terminal_output import told_rows

    count, known, right = 0, 0, 0

    def parts() -> Iterator[list[Any]]:
        nonlocal count, known, right
        for table, proba in answers:
            numbers = np.asarray(proba)
            likeliest = numbers.argmax(axis=1)
            count += len(numbers)
            if columns is not None and target in table.names:
                codes = _codes(table, target, columns)
                there = codes >= 0
                known, right = known + int(there.sum()), right + int((likeliest == codes)[there].sum())
            yield [[labels[place] for place in likeliest], *numbers.T]

    def told() -> tuple[dict[str, Any], str]:
        facts: dict[str, Any] = {"rows": count, "target": target, "labels": [str(label) for label in labels]}
        sentence = f"{target} of {told_rows(count)}"
        if known:
            facts |= {"known": known, "accuracy": right / known}
            sentence += f", {100 * right / known:.1f} % of {known:,} known cells right"
        return facts, sentence

    names = [target, *(f"{target}={label}" for label in labels)]
    hand_parts(output, reading.format, as_json, names, parts(), told)


def _codes(table: "Given", target: str, columns: "Columns") -> Any:
    """Return the code of each known cell of the target; negative where it is missing or of no known label."""
    import numpy as np

    from eigentree.data.tables.text_cells import Written, read_as

    place = columns.position(target)
    cells = table.column(table.names.index(target), target)
    meaning = columns.meanings[place]
    if isinstance(cells, Written):
        cells = read_as(cells, meaning)
    if meaning is not None:
        return meaning.encode(cells)
    if not isinstance(cells, np.ndarray):
        return np.full(table.count, -1)
    return np.where(cells == cells, cells, -1).astype(np.int64)
