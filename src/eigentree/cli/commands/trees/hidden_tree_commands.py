"""``eigentree hidden-tree``: hidden states of the nodes of trees, from a table with a row for each node."""

import time
from typing import Annotated, Any, Literal

from cyclopts import App, Parameter

from eigentree.cli.arguments import (
    PIPE,
    Data,
    Json,
    ModelFile,
    Output,
    Reading,
    RowOptions,
    RowsOutput,
    Seed,
    Unknown,
    UsageError,
    count,
    option,
)
from eigentree.cli.output import RowSink, note, number_of, report_saved, require_file

__all__ = ["app"]

Parents = Annotated[
    str,
    Parameter(
        metavar="COLUMN",
        help="The column that holds the parent of each node: its row, from 0, or with --node its name; empty for a "
        "root.",
    ),
]
Node = Annotated[
    str | None,
    Parameter(metavar="COLUMN", help="The column that names each node, where parents are named so."),
]

app = App(
    name="hidden-tree",
    group_commands="Commands",
    help="Hidden states at the nodes of trees: a hidden Markov tree.",
    help_epilogue="""\
Examples

  eigentree hidden-tree fit shoots.csv --parents parent -o tree.eigentree
  eigentree hidden-tree decode tree.eigentree shoots.csv --parents parent
  eigentree hidden-tree score tree.eigentree shoots.csv --parents parent
  eigentree hidden-tree fit kin.csv --node id --parents mother -o kin.eigentree""",
)


@app.command
def fit(
    data: Data,
    /,
    *,
    parents: Parents,
    output: Output,
    node: Node = None,
    hidden: Annotated[int, option(count, "NUMBER", "Hidden states.")] = 2,
    reading: Reading = Reading(),
    seed: Seed = 0,
    json: Json = False,
) -> None:
    """Learn the hidden states of nodes, and write the model to a file."""
    require_file(output)
    from eigentree.cli.model_arguments import described, saved
    from eigentree.estimators.trees.hidden_markov_tree import HiddenMarkovTree

    begin = time.perf_counter()
    whole, above = _nodes(data, reading, parents, node)
    rows = whole.dropping([parents] if node is None else [parents, node])
    model = HiddenMarkovTree(hidden, random_state=seed, verbose=1).fit(rows, above)
    saved(model, output)
    note(f"eigentree: columns: {described(model.columns_)}")
    scores, seconds = model.score_samples(rows, above), time.perf_counter() - begin
    facts = {"model": "HiddenMarkovTree", "trees": len(scores), "nodes": rows.count, "hidden_states": hidden}
    facts |= {"mean_log_probability": scores.mean(), "seconds": round(seconds, 3)}
    sentence = f"{number_of(len(scores), 'tree')}, {number_of(rows.count, 'node')}"
    report_saved(output, json, facts, f"{sentence}, mean log-likelihood {scores.mean():.4f}, {seconds:.1f} s")


@app.command
def score(
    model: ModelFile,
    data: Data,
    /,
    *,
    parents: Parents,
    node: Node = None,
    rows: RowOptions = RowOptions(),
    reading: Reading = Reading(),
) -> None:
    """Write the log probability of each tree, in the order of their roots."""
    sink = RowSink(rows.output, reading.format, rows.json)
    asked, given, own, above = _asked(model, rows.unknown, data, reading, parents, node)
    scores = asked.score_samples(own, above)
    roots = [place for place, parent in enumerate(above) if parent < 0]
    names = {key: [cells[root] for root in roots] for key, cells in _names(given, node).items()}
    sink.write(names, {"log_probability": scores})
    facts = {"trees": len(scores), "mean_log_probability": scores.mean()}
    sink.report(facts, f"mean log-likelihood {scores.mean():.4f} of {number_of(len(scores), 'tree')}")


@app.command
def decode(
    model: ModelFile,
    data: Data,
    /,
    *,
    parents: Parents,
    node: Node = None,
    rows: RowOptions = RowOptions(),
    reading: Reading = Reading(),
) -> None:
    """Write the most probable hidden state of each node, jointly over its tree, and its posterior probability."""
    sink = RowSink(rows.output, reading.format, rows.json)
    asked, given, own, above = _asked(model, rows.unknown, data, reading, parents, node)
    from eigentree.data.sequences.forests import Forest

    forest = Forest.grown(own, above, asked.columns_.reading(rows.unknown))
    states, proba = asked.predict(forest), asked.predict_proba(forest)
    found = {"state": states, "probability": proba[range(len(states)), states]}
    sink.write(_names(given, node), found)
    sink.report({"nodes": given.count}, f"hidden states of {number_of(given.count, 'node')}")


@app.command
def impute(
    model: ModelFile,
    data: Data,
    /,
    *,
    parents: Parents,
    node: Node = None,
    by: Annotated[
        Literal["mode", "mean", "median", "sample"],
        Parameter(help="The most probable label and the mean of numbers; their median; or a joint sample."),
    ] = "mode",
    output: RowsOutput = PIPE,
    unknown: Unknown = "error",
    reading: Reading = Reading(),
    seed: Seed = 0,
    json: Json = False,
) -> None:
    """Fill missing cells from all of their trees; everything else stays as it was."""
    sink = RowSink(output, reading.format, json)
    import numpy as np

    from eigentree.cli.commands.impute import missing_cells
    from eigentree.estimators.mixins.density_mixin import completed_cells

    asked, given, own, above = _asked(model, unknown, data, reading, parents, node)
    filled = np.asarray(asked.impute(own, above, by, seed), object)
    missing = missing_cells(own)
    sink.write(completed_cells(given, own.names, filled, missing))
    cells = sum(map(len, missing))
    sentence = f"{number_of(cells, 'missing cell')} of {number_of(given.count, 'node')} filled"
    sink.report({"nodes": given.count, "filled": cells}, sentence)


def _nodes(path: str, reading: Reading, parents: str, node: str | None) -> tuple[Any, list[int]]:
    """Return the rows of a file, and the row of each one's parent."""
    from eigentree.cli.rows_read import read_rows
    from eigentree.data.tables.text_cells import require_names
    from eigentree.errors import DataError

    if reading.sequence is not None:
        raise UsageError("--sequence is of sequences; trees need --parents alone")
    table = read_rows(path, reading)
    named = [parents] if node is None else [parents, node]
    require_names(named, table.names, table.source)
    names = range(table.count) if node is None else table.cells(table.names.index(node))
    place = {str(name): row for row, name in enumerate(names)}
    if len(place) < table.count:
        raise DataError(f"two nodes of {table.source} have one name in {node!r}; each needs its own")
    above = []
    for row, cell in enumerate(table.cells(table.names.index(parents))):
        is_root = cell is None or (node is None and str(cell) == "-1")
        if not is_root and str(cell) not in place:
            hint = "" if node is not None else "; rows are numbered from 0, and with --node parents are names"
            raise DataError(f"row {row} of {table.source} has the parent {cell!r}, which is no node{hint}")
        above.append(-1 if is_root else place[str(cell)])
    return table, above


def _names(table: Any, node: str | None) -> dict[str, Any]:
    """Return the column that identifies nodes."""
    return {"row": range(table.count)} if node is None else {node: table.cells(table.names.index(node))}


def _asked(
    model: str, unknown: str, data: str, reading: Reading, parents: str, node: str | None
) -> tuple[Any, Any, Any, list[int]]:
    """Return a model, the rows of a file, the columns of the model in them, and the row of each node's parent."""
    from eigentree.cli.model_arguments import loaded

    given, above = _nodes(data, reading, parents, node)
    asked = loaded(model, ("HiddenMarkovTree",), "a hidden Markov tree; eigentree hidden-tree fit writes one")
    asked.handle_unknown = unknown
    return asked, given, given.only(asked.columns_.names), above
