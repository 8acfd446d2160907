"""``eigentree compare``: EM, spectral and simpler models on held-out rows."""

import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from eigentree.cli.arguments import Data, Densities, HeldOut, Json, Reading, Seed, Shape
from eigentree.cli.output import note, number_of, show_json, show_table
from eigentree.errors import DataError, EigentreeError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

__all__ = ["compare"]


def compare(
    data: Data,
    /,
    *,
    held_out: HeldOut = 0.2,
    structure: Densities = Densities(),
    reading: Reading = Reading(),
    seed: Seed = 0,
    json: Json = False,
) -> None:
    """Compare the held-out log-likelihoods of models of one structure, and of simpler ones.

    The structure is fitted by EM, by stepwise (online) EM and spectrally, beside the independence model and the
    Chow-Liu tree of the columns. Stepwise EM, which searches for no size, has 8 states with --structure auto.
    Columns of numbers have densities by EM and spectrally, which are then compared with normal distributions; with
    --numeric quantiles all methods are compared on bins.

    Examples
    --------
      eigentree compare mushrooms.csv --structure mixture --hidden 4
      eigentree compare mushrooms.csv --structure mixture --held-out 0.3 --json
    """
    from eigentree.cli.model_arguments import read_training, structure_of, structure_words, unit_of
    from eigentree.cli.rows_read import hint_at_marks
    from eigentree.graphs.graph import LatentGraph

    given = structure.or_else("auto" if reading.sequence is None else "hmm")
    shape = Shape(**vars(given))
    rows = read_training(data, shape, reading)
    unit = unit_of(rows)
    if unit == "row" and isinstance(graph := structure_of(shape, rows), LatentGraph):
        rows = rows.only(graph.observed)
    training, test = _split(rows, held_out, seed)
    fits = list(_fits(shape, rows, seed))
    hint_at_marks(rows, reading)
    trials = [_tried(name, fit, training, test) for name, fit in fits]
    if json:
        sizes = {f"{unit}s": training.count, f"held_out_{unit}s": test.count}
        show_json({**sizes, "structure": structure_words(shape), "methods": trials})
        return
    _show_trials(trials)
    note(
        f"{structure_words(shape)}: fitted to {number_of(training.count, unit)}, mean log-likelihood of "
        f"{number_of(test.count, unit)} held out; processor seconds of each fit"
    )


def _fits(shape: Shape, rows: Any, seed: int) -> "Iterator[tuple[str, Callable[[Any], Any]]]":
    """Yield the name of each method, and a function that fits it to rows or sequences."""
    from eigentree.cli.model_arguments import learned_columns, numeric_of, unit_of

    if unit_of(rows) == "sequence":
        return _sequence_fits(shape, rows, seed)
    columns = learned_columns(rows, shape) if numeric_of(shape) == "emissions" else None
    if columns is not None and columns.numbers:
        return _mixed_fits(shape, rows, columns.numbers, seed)
    return _row_fits(shape, rows, seed)


def _mixed_fits(
    shape: Shape, rows: Any, numbers: "Sequence[str]", seed: int
) -> "Iterator[tuple[str, Callable[[Any], Any]]]":
    """Yield the methods that have densities of numbers."""
    from eigentree.cli.model_arguments import estimator_of

    def by(own: Shape) -> Any:
        return lambda training: estimator_of(own, seed, training).fit(training)

    together: Any = [(tuple(numbers), "full")]
    alone = replace(shape, structure="mixture", hidden=1, order=None)
    yield "independent", by(alone)
    if len(numbers) > 1:
        yield "one normal distribution", by(replace(alone, emissions=together, kind=None))
    if not (shape.emissions or shape.kind):
        yield "spectral", by(replace(shape, method="spectral"))
    yield "EM", by(shape)


def _sequence_fits(shape: Shape, sequences: Any, seed: int) -> "Iterator[tuple[str, Callable[[Any], Any]]]":
    from eigentree.cli.model_arguments import estimator_of

    for name, own in (
        ("independent", replace(shape, hidden=1, order=1)),
        ("spectral", replace(shape, method="spectral")),
        ("EM", shape),
    ):
        yield name, estimator_of(own, seed, sequences).fit


def _row_fits(shape: Shape, rows: Any, seed: int) -> "Iterator[tuple[str, Callable[[Any], Any]]]":
    """Yield the name of each method, and a function that fits it to rows."""
    from eigentree.cli.model_arguments import categories_of, structure_of
    from eigentree.counting.structure_and_schema import learn_structure
    from eigentree.estimators.em_junction_tree import EMJunctionTree
    from eigentree.estimators.online_em import OnlineEMJunctionTree
    from eigentree.estimators.spectral_junction_tree import SpectralJunctionTree
    from eigentree.graphs import zoo

    structure = structure_of(shape, rows)
    numeric: Any = {"numeric": shape.numeric or "error"}
    labels: Any = {"categories": categories_of(structure, rows, shape), **numeric}
    fixed = zoo.HiddenChowLiu(shape.hidden or 8) if shape.structure == "auto" else structure
    one_tree = fixed if shape.hidden else structure

    def chow_liu(training: Any) -> Any:
        graph = learn_structure(training, hidden_states=None, **numeric)
        known: Any = {"categories": categories_of(graph, training, shape), **numeric}
        return EMJunctionTree(graph, random_state=seed, **known).fit(training)

    yield "independent", EMJunctionTree(zoo.Mixture(1), random_state=seed, **numeric).fit
    yield "Chow-Liu tree", chow_liu
    yield "spectral", SpectralJunctionTree(one_tree, **labels).fit
    yield "online EM", OnlineEMJunctionTree(fixed, random_state=seed, pseudo_counts=0.1, **labels).fit
    yield "EM", EMJunctionTree(structure, random_state=seed, verbose=1, **labels).fit


def _split(rows: Any, share: float, seed: int) -> tuple[Any, Any]:
    """Return the training rows, and a share that is held out; of sequences likewise."""
    import numpy as np

    order = np.random.default_rng(seed).permutation(rows.count)
    out = round(share * rows.count)
    if not 0 < out < rows.count:
        raise DataError(f"{rows.source} has {rows.count} of them; a share of {share:g} cannot be held out")
    return rows.take(np.sort(order[out:])), rows.take(np.sort(order[:out]))


def _tried(name: str, fit: "Callable[[Any], Any]", training: Any, held_out: Any) -> dict[str, Any]:
    """Return the scores of a model by name; a label that is not in its training data is a missing cell.

    `held_out` and `training` are mean log probabilities, NaN where the fit failed (`failure` says why); `seconds`
    are of the processor.
    """
    note(f"{name} …")
    nan, begin = float("nan"), time.process_time()
    found: dict[str, Any] = {"name": name, "held_out": nan, "training": nan, "parameters": None, "seconds": nan}
    found["failure"] = ""
    try:
        model = fit(training)
    except EigentreeError as error:
        return {**found, "seconds": time.process_time() - begin, "failure": str(error)}
    found["seconds"] = time.process_time() - begin
    model.handle_unknown = "missing"
    parameters, score = getattr(model, "n_parameters_", None), model.score(training)
    return found | {"held_out": model.score(held_out), "training": score, "parameters": parameters}


def _show_trials(trials: list[dict[str, Any]]) -> None:
    """Print a line for each model, the one with the highest held-out score in bold, and why some failed."""
    fitted = [place for place, trial in enumerate(trials) if not trial["failure"]]
    best = max(fitted, key=lambda place: trials[place]["held_out"], default=None)
    lines = [
        [
            trial["name"],
            *(["failed", ""] if trial["failure"] else [f"{trial[each]:.4f}" for each in ("held_out", "training")]),
            "" if trial["parameters"] is None else f"{trial['parameters']:,}",
            f"{trial['seconds']:.2f}",
        ]
        for trial in trials
    ]
    show_table(["method", "held out", "training", "parameters", "seconds"], lines, best)
    for trial in trials:
        if trial["failure"]:
            note(f"{trial['name']}: {trial['failure']}")
