"""``eigentree fit``: learn a model from rows."""

import time
from typing import Any

from cyclopts import App

from eigentree.cli.arguments import Data, Json, Output, Reading, Seed, Shape
from eigentree.cli.row_output import hand_saved, require_file

__all__ = ["app"]

app = App(
    name="fit",
    help="Learn a model from rows, and write it to a file that the other commands and eigentree.load read.",
    help_epilogue="""\
Examples

  eigentree fit mushrooms.csv --structure mixture --hidden 4 -o model.eigentree
  eigentree fit mushrooms.csv --missing '?' --drop class -o auto.eigentree
  cat mushrooms.csv | eigentree fit - --structure hmm -o hmm.eigentree
  eigentree fit mushrooms.csv --structure graph.toml -o graph.eigentree

A graph of your own is a file such as this graph.toml; columns tell the states of what is not hidden:

  hidden = ["kind"]
  edges = [["kind", "odor"], ["kind", "habitat"], ["odor", "class"]]
  directed = true

  [states]
  kind = 3

Rows that were counted by eigentree count are learned from too, spectrally.""",
)


@app.default
def fit(
    data: Data,
    /,
    *,
    output: Output,
    shape: Shape = Shape(),
    reading: Reading = Reading(),
    seed: Seed = 0,
    json: Json = False,
) -> None:
    """Learn a model and write it."""
    require_file(output)
    begin = time.perf_counter()
    if reading.sequence is not None:
        _fit_sequences(data, output, shape, reading, seed, json)
        return
    shape = shape.or_else("auto")
    if data.endswith(".eigentree"):
        model, rows, score = _of_statistics(data, shape)
    else:
        model, rows, score = _of_rows(data, shape, reading, seed)
    seconds = time.perf_counter() - begin
    model.save(output)
    graph = model.graph_
    facts = {
        "model": type(model).__name__,
        "rows": rows,
        "columns": len(graph.observed),
        "hidden_variables": len(graph.hidden),
        "mean_log_probability": score,
        "seconds": round(seconds, 3),
    }
    told = "" if score is None else f", mean log probability {score:.4f}"
    hidden = "1 hidden variable" if len(graph.hidden) == 1 else f"{len(graph.hidden)} hidden variables"
    columns = "1 column" if len(graph.observed) == 1 else f"{len(graph.observed)} columns"
    sentence = f"{rows:,.0f} rows of {columns}, {hidden}{told}, {seconds:.1f} s"
    hand_saved(output, json, facts, sentence)


def _fit_sequences(data: str, output: str, shape: Shape, reading: Reading, seed: int, as_json: bool) -> None:
    from eigentree.cli.block_io import hint_at_marks
    from eigentree.cli.sequence_arguments import long_table, sequence_estimator
    from eigentree.cli.table_io import read_table
    from eigentree.cli.terminal_output import told_sequences

    begin = time.perf_counter()
    estimator = sequence_estimator(shape, seed)
    long = long_table(read_table(data, reading), str(reading.sequence), numeric=shape.numeric)
    hint_at_marks(long.table, reading)
    model = estimator.fit(long.table, lengths=long.lengths)
    score = model.score(long.table, lengths=long.lengths)
    seconds = time.perf_counter() - begin
    # Whoever asks it next need not say it again.
    model.set_params(sequence=reading.sequence)
    model.save(output)
    facts = {
        "model": type(model).__name__,
        "sequences": long.count,
        "steps": int(long.lengths.sum()),
        "mean_log_probability": score,
        "seconds": round(seconds, 3),
    }
    steps = f"{long.lengths.sum():,} steps"
    sentence = f"{told_sequences(long.count)} of {steps}, mean log probability {score:.4f}, {seconds:.1f} s"
    hand_saved(output, as_json, facts, sentence)


def _of_rows(data: str, shape: Shape, reading: Reading, seed: int) -> tuple[Any, float, float | None]:
    from eigentree.cli.block_io import given_rows, hint_at_marks
    from eigentree.cli.model_arguments import estimator_of
    from eigentree.cli.structure_arguments import structure_of
    from eigentree.graphs.graph import LatentGraph

    # A structure that there is not is told before rows are read, which may take a while.
    if not shape.is_file:
        structure_of(shape)
    table = given_rows(data, reading)
    estimator = estimator_of(shape, seed, table)
    if isinstance(estimator.structure, LatentGraph):
        table = table.only(estimator.structure.observed)
    hint_at_marks(table, reading)
    model = estimator.fit(table)
    score = model.score(table)
    return model, table.count, score


def _of_statistics(data: str, shape: Shape) -> tuple[Any, float, float | None]:
    from eigentree.cli.arguments import UsageError
    from eigentree.cli.model_arguments import estimator_of, loaded
    from eigentree.cli.structure_arguments import LEARNED

    statistics = loaded(data, ("Statistics",), "rows; give them as CSV or Parquet, or what eigentree count wrote")
    if shape.method != "spectral":
        raise UsageError(
            f"{data!r} holds counts of rows, which a spectral model learns from; say --method spectral"
        )
    if shape.structure in LEARNED:
        raise UsageError(f"{data!r} was counted for one structure; say which, as in --structure hmm")
    model = estimator_of(shape, 0).fit_statistics(statistics)
    return model, statistics.rows, None
