"""``eigentree fit``: fit a model to rows."""

import time
from typing import Annotated, Any

from eigentree.cli.arguments import Data, Json, Output, Reading, Seed, Shape, UsageError, option
from eigentree.cli.output import note, number_of, report_saved, require_file

__all__ = ["fit"]


def fit(
    data: Data,
    /,
    *,
    output: Output,
    shape: Shape = Shape(),
    covariates: Annotated[
        list[str] | None,
        option(
            str, "COLUMN", "Columns that the classes of mixture depend on, by a multinomial logit.", several=True
        ),
    ] = None,
    weights: Annotated[
        str | None, option(str, "COLUMN", "How often each row counts, such as sampling weights (once).")
    ] = None,
    reading: Reading = Reading(),
    seed: Seed = 0,
    json: Json = False,
) -> None:
    """Fit a model to rows, and write it to a file that the other commands and eigentree.load read.

    Columns of numbers have densities in each hidden state. A note says what each column is taken for.

    Examples
    --------
      eigentree fit mushrooms.csv --structure mixture --hidden 4 -o model.eigentree
      eigentree fit mushrooms.csv --missing '?' --drop class -o auto.eigentree
      cat mushrooms.csv | eigentree fit - --structure hmm -o hmm.eigentree
      eigentree fit mushrooms.csv --structure graph.toml -o graph.eigentree
      eigentree fit people.csv --kind age=continuous -o people.eigentree
      eigentree fit people.csv --emissions height+weight=full -o people.eigentree
      eigentree fit survey.csv --covariates age religion -o survey.eigentree
      eigentree fit interviews.csv --weights weight -o interviews.eigentree
      eigentree fit visits.csv --sequence patient --inputs dose -o visits.eigentree
      eigentree fit visits.csv --sequence patient --clusters 2 -o groups.eigentree

    A graph of your own is such a file graph.toml; the states of what is not hidden are those of the columns:

      hidden = ["kind"]
      edges = [["kind", "odor"], ["kind", "habitat"], ["odor", "class"]]
      directed = true

      [states]
      kind = 3

    The data may also be counts that eigentree count wrote, with --method spectral.
    """
    require_file(output)
    begin = time.perf_counter()
    if reading.sequence is None:
        shape = shape.or_else("mixture" if covariates else "auto")
    if data.endswith(".eigentree"):
        if weights is not None:
            raise UsageError(f"--weights name a column of rows, and {data!r} holds none; leave them out")
        model, sizes, score = _fitted_to_statistics(data, shape)
    else:
        model, sizes, score = _fitted_to_rows(data, shape, reading, seed, covariates, weights)
    from eigentree.cli.model_arguments import saved

    seconds = time.perf_counter() - begin
    saved(model, output, reading.sequence)
    facts = {"model": type(model).__name__, **{f"{what}s".replace(" ", "_"): size for what, size in sizes.items()}}
    facts |= {"mean_log_probability": score, "seconds": round(seconds, 3)}
    counts = [number_of(size, what) for what, size in sizes.items()]
    mean = [] if score is None else [f"mean log-likelihood {score:.4f}"]
    report_saved(output, json, facts, ", ".join([*counts, *mean, f"{seconds:.1f} s"]))


def _fitted_to_rows(
    data: str, shape: Shape, reading: Reading, seed: int, covariates: list[str] | None, weights: str | None
) -> tuple[Any, dict[str, float], float]:
    """Return a model, the sizes of its data by what they count, and its mean log-likelihood."""
    import numpy as np

    from eigentree.cli.model_arguments import described, estimator_of, read_training, unit_of
    from eigentree.cli.rows_read import hint_at_marks, row_weights
    from eigentree.graphs.graph import LatentGraph

    rows = read_training(data, shape, reading, stream=weights is None)
    weighed: dict[str, Any] = {}
    if weights is not None:
        weighed, rows = {"sample_weight": row_weights(rows, weights)}, rows.dropping([weights])
    estimator = estimator_of(shape, seed, rows, covariates)
    if isinstance(getattr(estimator, "structure", None), LatentGraph):
        rows = rows.only(estimator.structure.observed)
    hint_at_marks(rows, reading)
    model = estimator.fit(rows, **weighed)
    note(f"eigentree: columns: {described(model.columns_)}")
    if weighed:
        score = float(np.average(model.score_samples(rows), weights=weighed["sample_weight"]))
    else:
        score = model.score(rows)
    more = {"step": rows.table.count} if unit_of(rows) == "sequence" else _graph_sizes(model)
    return model, {unit_of(rows): rows.count, **more}, score


def _fitted_to_statistics(data: str, shape: Shape) -> tuple[Any, dict[str, float], None]:
    from eigentree.cli.model_arguments import LEARNED, estimator_of, loaded

    statistics = loaded(data, ("Statistics",), "rows; give them as CSV or Parquet, or what eigentree count wrote")
    if shape.method != "spectral":
        raise UsageError(f"{data!r} holds counts of rows, for a spectral model; add --method spectral")
    if shape.structure in LEARNED:
        raise UsageError(f"{data!r} was counted for one structure; name it, as in --structure hmm")
    model = estimator_of(shape, 0).fit_statistics(statistics)
    return model, {"row": statistics.rows, **_graph_sizes(model)}, None


def _graph_sizes(model: Any) -> dict[str, float]:
    return {"column": len(model.graph_.observed), "hidden variable": len(model.graph_.hidden)}
