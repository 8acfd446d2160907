"""``eigentree predict``: a column, or a hidden variable, from the other cells of each row."""

from typing import Any

from eigentree.cli.arguments import Data, ModelFile, Reading, RowOptions, Target
from eigentree.cli.output import RowSink, number_of

__all__ = ["predict"]

INTERVAL = (0.05, 0.95)
"""The quantiles that enclose 90 %."""


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

    Of a number it is the mean, and the quantiles that enclose 90 %.

    The column itself is not used, and need not be there; where it is, the accuracy is reported. The target may be a
    hidden variable, of a model fitted by EM. Of a model of sequences: the next step of each, or with the target
    state the hidden state of each step, with cluster the cluster of each sequence, of a mixture.

    Examples
    --------
      eigentree predict model.eigentree mushrooms.csv --target class | head -3
      eigentree predict model.eigentree mushrooms.csv -t odor -o odor.parquet
      eigentree predict model.eigentree mushrooms.csv -t h -o h.csv --json
      eigentree predict people.eigentree people.csv -t height | head -3
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
    columns = fitted_columns(asked)
    given = read_for(asked, data, reading, rows.id, stream=target not in columns.numbers)
    if unit_of(given) == "sequence":
        _predict_sequences(asked, model, given, target, sink)
        return
    graph = asked.graph_
    if target not in graph.names:
        hint = did_you_mean(target, graph.names) or what_there_is(target, graph.observed)
        raise GraphError(f"{model!r} has no column {target!r}{hint}")
    if target in graph.hidden:
        require_tables(asked, model)
    if target in columns.numbers:
        _predict_number(asked, given, target, rows.id, sink)
        return
    labels = range(graph.states[target]) if target in graph.hidden else columns.labels(target)
    found = Predictions(target, list(labels), None if target in graph.hidden else columns)
    sink.write_by(asked.predict_proba_to, given, target=target, id=rows.id or "row", each=found.add)
    sink.report(*found.report("row"))


def _predict_number(asked: Any, given: Any, target: str, id_column: str | None, sink: RowSink) -> None:
    """Write the mean of a number given the other cells of each row, and the quantiles that enclose 90 %."""
    import numpy as np

    from eigentree.cli.model_arguments import fitted_columns, identified
    from eigentree.data.tables.rows import Rows

    columns = fitted_columns(asked)
    own = given.only([name for name in columns.names if name != target or name in given.names])
    # Dates as days, whose errors are numbers.
    days: Any = columns.meanings[columns.position(target)]
    mean = days.values(asked.predict(own, target))
    ends = np.stack([*map(days.values, np.asarray(asked.predict_quantiles(own, target, INTERVAL)).T)], axis=1)
    sink.write(identified(given, id_column), _number_columns(columns, target, mean, ends))
    facts: dict[str, Any] = {"rows": given.count, "target": target}
    sentence = f"{target} of {number_of(given.count, 'row')}"
    rows = Rows.of(own, columns.reading(asked.handle_unknown), absent=target)
    value = rows.values()[:, columns.numbers.index(target)]
    known = ~np.isnan(value)
    if known.any():
        error = float(np.sqrt(np.mean((value - mean)[known] ** 2)))
        inside = float(((ends[:, 0] <= value) & (value <= ends[:, 1]))[known].mean())
        facts |= {"known": int(known.sum()), "root_mean_squared_error": error, "inside_90_percent": inside}
        sentence += f", root mean squared error {error:.4g} on {known.sum():,} with a known number"
        sentence += f", {100 * inside:.1f} % of these inside the 90 % interval"
    sink.report(facts, sentence)


def _number_columns(columns: Any, target: str, mean: Any, ends: Any) -> dict[str, Any]:
    """Return predictions of a number as columns; dates as such."""
    meaning = columns.meanings[columns.position(target)]
    found = {target: mean, f"{target}_5%": ends[:, 0], f"{target}_95%": ends[:, 1]}
    return {name: meaning.restored(own).astype(str) for name, own in found.items()} if meaning.unit else found


def _predict_sequences(asked: Any, path: str, given: Any, target: str, sink: RowSink) -> None:
    """Write the next step of each sequence, or the hidden state of each step."""
    import numpy as np

    from eigentree.cli.model_arguments import Predictions, fitted_columns, require_tables
    from eigentree.data.tables.text_cells import require_names

    columns = fitted_columns(asked)
    if target not in columns.names and (target == "state" or target.startswith("chain ")):
        require_tables(asked, path)
        each = asked.predict_proba(given, target="state")
        by_chain = each if isinstance(each, dict) else {"state": each}
        require_names([target], list(by_chain), "the model")
        proba, identified = by_chain[target], given.column
        labels: list[Any] = list(range(proba.shape[1]))
        what = f"hidden states of {number_of(given.table.count, 'row')}"
    elif target == "cluster" and hasattr(asked, "state_clusters_") and target not in columns.names:
        proba = asked.predict_proba(given)
        labels, identified, what = list(range(proba.shape[1])), given.ids, "clusters"
    else:
        require_names([target], columns.names, "the model")
        if target in columns.numbers:
            place = columns.numbers.index(target)
            mean = np.asarray(asked.predict_next(given))[:, place]
            ends = np.asarray(asked.predict_next(given, quantiles=INTERVAL))[:, place]
            sink.write({given.name: given.ids}, _number_columns(columns, target, mean, ends))
            facts = {"sequences": given.count, "target": target}
            sink.report(facts, f"the next {target} of {number_of(given.count, 'sequence')}")
            return
        proba, labels = asked.predict_next_proba(given, target=target), list(columns.labels(target))
        identified, what = given.ids, f"the next {target}"
    sink.write({given.name: identified}, Predictions(target, labels).columns(proba))
    facts = {"sequences": given.count, "target": target, "labels": [str(label) for label in labels]}
    sink.report(facts, f"{what} of {number_of(given.count, 'sequence')}")
