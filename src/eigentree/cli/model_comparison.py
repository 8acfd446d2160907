"""Models fitted to some rows, or sequences, and scored on others that are held out."""

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from eigentree.cli.output import note, show_table
from eigentree.errors import DataError, EigentreeError

__all__ = ["best_of", "show_trials", "split", "tried"]


def split(rows: Any, share: float, seed: int) -> tuple[Any, Any]:
    """Return the training rows, and a share that is held out; of sequences likewise."""
    order = np.random.default_rng(seed).permutation(rows.count)
    out = round(share * rows.count)
    if not 0 < out < rows.count:
        raise DataError(f"{rows.source} has {rows.count} of them; a share of {share:g} cannot be held out")
    return rows.take(np.sort(order[out:])), rows.take(np.sort(order[:out]))


def tried(name: str, fit: Callable[[Any], Any], training: Any, held_out: Any) -> dict[str, Any]:
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


def best_of(trials: Sequence[Mapping[str, Any]]) -> int | None:
    """Return the place of the model with the highest held-out score; None without any."""
    fitted = [place for place, trial in enumerate(trials) if not trial["failure"]]
    return max(fitted, key=lambda place: trials[place]["held_out"], default=None)


def show_trials(trials: Sequence[Mapping[str, Any]], best: int | None) -> None:
    """Print a line for each model, and why some failed."""
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
