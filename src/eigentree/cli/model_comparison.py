"""Models fitted to some rows, or sequences, and scored on others that are held out."""

import math
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from eigentree.cli.output import note, show_table
from eigentree.data.sequences.steps import Steps
from eigentree.errors import DataError, EigentreeError
from eigentree.estimators.mixins.information_criteria import MAXIMUM_LIKELIHOOD, Criteria

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
    are of the processor; `bic` and `aic` are of the training data, by maximum likelihood.
    """
    note(f"{name} …")
    nan, begin = float("nan"), time.process_time()
    found: dict[str, Any] = {"name": name, "held_out": nan, "training": nan, "parameters": None, "seconds": nan}
    found |= {"failure": "", "bic": None, "aic": None}
    try:
        model = fit(training)
    except EigentreeError as error:
        return {**found, "seconds": time.process_time() - begin, "failure": str(error)}
    found["seconds"] = time.process_time() - begin
    model.handle_unknown = "missing"
    parameters, score = getattr(model, "n_parameters_", None), model.score(training)
    found |= {"held_out": model.score(held_out), "training": score, "parameters": parameters}
    if getattr(model, "pseudo_counts", None) == MAXIMUM_LIKELIHOOD and parameters is not None:
        # Those of model.bic and model.aic, without another pass through the rows.
        count = training.table.count if isinstance(training, Steps) else training.count
        criteria = Criteria.of(score * training.count, parameters, count)
        found |= {"bic": criteria.bic, "aic": criteria.aic}
    return found


def best_of(trials: Sequence[Mapping[str, Any]], by: str = "held_out") -> int | None:
    """Return the place of the model with the highest held-out score, or the lowest criterion; None without any."""
    merits = {
        place: trial[by] if by == "held_out" else -math.inf if trial[by] is None else -trial[by]
        for place, trial in enumerate(trials)
        if not trial["failure"]
    }
    return max(merits, key=lambda place: merits[place], default=None)


def show_trials(
    called: str, trials: Sequence[Mapping[str, Any]], best: int | None, more: Mapping[str, str]
) -> None:
    """Print a line for each model, with more scores after the held-out one, and why some failed.

    `more` are the names and the formats of these scores.
    """
    lines = [
        [
            trial["name"],
            "failed" if trial["failure"] else f"{trial['held_out']:.4f}",
            *(
                "" if trial["failure"] or trial[name.lower()] is None else format(trial[name.lower()], form)
                for name, form in more.items()
            ),
            "" if trial["parameters"] is None else f"{trial['parameters']:,}",
            f"{trial['seconds']:.2f}",
        ]
        for trial in trials
    ]
    show_table([called, "held out", *more, "parameters", "seconds"], lines, best)
    for trial in trials:
        if trial["failure"]:
            note(f"{trial['name']}: {trial['failure']}")
