"""``eigentree predict``: a column, or a hidden variable, from the other cells of each row."""

from typing import Any

from eigentree.cli.arguments import Data, ModelFile, Reading, RowOptions, Target
from eigentree.cli.output import RowSink, number_of

__all__ = ["predict"]


def predict(
    model: ModelFile,
    data: Data,
    /,
    *,
    target: Target,
    rows: RowOptions = RowOptions(),
    reading: Reading = Reading(),
) -> None:
    """Write the most probable label of a column given the other cells of each row, and the probability of each.

    The column itself is not used, and need not be there; where it is, the accuracy is reported. The target may be a
    hidden variable, of a model fitted by EM. Of a model of sequences: the next step of each, or with the target
    state the hidden state of each step.

    Examples
    --------
      eigentree predict model.eigentree mushrooms.csv --target class | head -3
      eigentree predict model.eigentree mushrooms.csv -t odor -o odor.parquet
      eigentree predict model.eigentree mushrooms.csv -t h -o h.csv --json
    """
    sink = RowSink(rows.output, reading.format, rows.json)
    from eigentree.cli.model_arguments import (
        Predictions,
        fitted_columns,
        loaded_model,
        read_for,
        require_tables,
        unit_of,
    )
    from eigentree.errors import GraphError, did_you_mean, what_there_is

    asked = loaded_model(model, rows.unknown)
    given = read_for(asked, data, reading, rows.id, stream=True)
    if unit_of(given) == "sequence":
        _predict_sequences(asked, model, given, target, sink)
        return
    graph, columns = asked.graph_, fitted_columns(asked)
    if target not in graph.names:
        hint = did_you_mean(target, graph.names) or what_there_is(target, graph.observed)
        raise GraphError(f"{model!r} has no column {target!r}{hint}")
    if target in graph.hidden:
        require_tables(asked, model)
    labels = range(graph.states[target]) if target in graph.hidden else columns.labels(target)
    found = Predictions(target, list(labels), None if target in graph.hidden else columns)
    sink.write_by(asked.predict_proba_to, given, target=target, id=rows.id or "row", each=found.add)
    sink.report(*found.report("row"))


def _predict_sequences(asked: Any, path: str, given: Any, target: str, sink: RowSink) -> None:
    """Write the next step of each sequence, or the hidden state of each step."""
    from eigentree.cli.model_arguments import Predictions, fitted_columns, require_tables
    from eigentree.data.tables.text_cells import require_names

    columns = fitted_columns(asked)
    if target not in columns.names and (target == "state" or target.startswith("chain ")):
        require_tables(asked, path)
        each = asked.predict_proba(given)
        by_chain = each if isinstance(each, dict) else {"state": each}
        require_names([target], list(by_chain), "the model")
        proba, identified = by_chain[target], given.column
        labels: list[Any] = list(range(proba.shape[1]))
        what = f"hidden states of {number_of(given.table.count, 'row')}"
    else:
        require_names([target], columns.names, "the model")
        proba, labels = asked.predict_next_proba(given, target=target), list(columns.labels(target))
        identified, what = given.ids, f"the next {target}"
    sink.write({given.name: identified}, Predictions(target, labels).columns(proba))
    facts = {"sequences": given.count, "target": target, "labels": [str(label) for label in labels]}
    sink.report(facts, f"{what} of {number_of(given.count, 'sequence')}")
