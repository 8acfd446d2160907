"""``eigentree decode``: the likeliest hidden states of each row."""

from typing import Annotated

from cyclopts import App, Parameter

from eigentree.cli.arguments import Data, Json, ModelFile, Reading, RowsOutput
from eigentree.cli.model_arguments import Unknown
from eigentree.cli.row_output import check_rows_output, hand_rows

__all__ = ["app"]

app = App(
    name="decode",
    help="The jointly likeliest states of all hidden variables given each row: latent classes, or the path of a "
    "chain. States are numbered from 0, the largest first.",
    help_epilogue="""\
Examples

  eigentree decode model.eigentree mushrooms.csv -o classes.csv
  eigentree decode model.eigentree mushrooms.csv --json | head -3""",
)


@app.default
def decode(
    model: ModelFile,
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
    """Decode rows."""
    check_rows_output(output, reading.format)
    import numpy as np

    from eigentree.cli.model_arguments import kind_of, loaded_model, of_sequences, rows_for
    from eigentree.cli.table_io import read_table
    from eigentree.cli.terminal_output import told_rows
    from eigentree.errors import GraphError

    asked = loaded_model(model, unknown)
    if of_sequences(asked, reading):
        from eigentree.cli.sequence_arguments import decode_sequences

        decode_sequences(asked, data, reading, output, json)
        return
    if kind_of(asked) == "SpectralJunctionTree":
        raise GraphError(
            f"{model!r} is a spectral model, which has no tables of hidden states; fit with --method em"
        )
    graph = asked.graph if kind_of(asked) == "LatentNetwork" else asked.graph_
    if not graph.hidden:
        raise GraphError(f"{model!r} has no hidden variables")
    rows = rows_for(asked, read_table(data, reading))
    found = asked.decode(rows)
    columns = [*np.asarray(found.states).T, found.log_prob]
    facts = {"rows": rows.count, "hidden_variables": list(graph.hidden)}
    sentence = f"hidden states of {told_rows(rows.count)}"
    hand_rows(output, reading.format, json, [*graph.hidden, "log_probability"], columns, facts, sentence)
