"""``eigentree decode``: the most probable hidden states of each row."""

from eigentree.cli.arguments import Data, ModelFile, Reading, RowOptions
from eigentree.cli.output import RowSink, number_of

__all__ = ["decode"]


def decode(
    model: ModelFile, data: Data, /, *, rows: RowOptions = RowOptions(), reading: Reading = Reading()
) -> None:
    """Write the jointly most probable states of all hidden variables given each row.

    These are latent classes, or the state sequence of an HMM. States are numbered from 0, the largest first.

    Examples
    --------
      eigentree decode model.eigentree mushrooms.csv -o classes.csv
      eigentree decode model.eigentree mushrooms.csv --json | head -3
    """
    sink = RowSink(rows.output, reading.format, rows.json)
    import numpy as np

    from eigentree.cli.model_arguments import identified, loaded_model, read_for, require_tables, rows_for, unit_of
    from eigentree.errors import GraphError

    asked = loaded_model(model, rows.unknown)
    require_tables(asked, model)
    given = read_for(asked, data, reading, rows.id)
    if unit_of(given) == "sequence":
        found = asked.decode(given).states
        states = found if isinstance(found, dict) else {"state": found}
        facts = {"sequences": given.count, "rows": given.table.count}
        sentence = f"hidden states of {number_of(given.table.count, 'row')} in {number_of(given.count, 'sequence')}"
        sink.write({given.name: given.column}, states)
        sink.report(facts, sentence)
        return
    graph = asked.graph_
    if not graph.hidden:
        raise GraphError(f"{model!r} has no hidden variables")
    decoded = asked.decode(rows_for(asked, given))
    states = dict(zip(graph.hidden, np.asarray(decoded.states).T, strict=True))
    about = {"rows": given.count, "hidden_variables": list(graph.hidden)}
    sink.write(identified(given, rows.id), states, {"log_probability": decoded.log_prob})
    sink.report(about, f"hidden states of {number_of(given.count, 'row')}")
