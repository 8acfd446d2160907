"""Models fitted to some rows, or sequences, and scored on others that are held out."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from eigentree.cli.output import note, show_table
from eigentree.core.compiling import announced
from eigentree.data.sequences.steps import Steps
from eigentree.errors import DataError, EigentreeError
from eigentree.estimators.mixins.information_criteria import MAXIMUM_LIKELIHOOD, Criteria

__all__ = ["Trial", "show_trials", "split", "tried"]


@dataclass(frozen=True)
class Trial:
    """The scores of a model.

    Attributes
    ----------
    name : str
    held_out, training : float
        Mean log probability of a row or a sequence; NaN where the fit failed.
    parameters : int or None
        Free parameters, where they are known.
    seconds : float
        Processor seconds of the fit, without those of compiling.
    failure : str
        Why it failed; empty if it did not.
    bic, aic : float or None
        Information criteria on the training data, of a fit by maximum likelihood.
    """

    name: str
    held_out: float
    training: float
    parameters: int | None
    seconds: float
    failure: str = ""
    bic: float | None = None
    aic: float | None = None


def split(rows: Any, share: float, seed: int) -> tuple[Any, Any]:
    """Return the training rows, and a share that is held out; of sequences likewise."""
    order = np.random.default_rng(seed).permutation(rows.count)
    out = round(share * rows.count)
    if not 0 < out < rows.count:
        raise DataError(f"{rows.source} has {rows.count} of them; a share of {share:g} cannot be held out")
    return rows.take(np.sort(order[out:])), rows.take(np.sort(order[:out]))


def tried(name: str, fit: Callable[[Any], Any], training: Any, held_out: Any) -> Trial:
    """Return the scores of a model; a label that is not in its training data is a missing cell."""
    note(f"{name} …")
    begin = _processor_seconds()
    try:
        model = fit(training)
    except EigentreeError as error:
        return Trial(name, float("nan"), float("nan"), None, _processor_seconds() - begin, str(error))
    seconds = _processor_seconds() - begin
    model.handle_unknown = "missing"
    parameters, score = getattr(model, "n_parameters_", None), model.score(training)
    trial = Trial(name, model.score(held_out), score, parameters, seconds)
    if getattr(model, "pseudo_counts", None) != MAXIMUM_LIKELIHOOD or parameters is None:
        return trial
    # Those of model.bic and model.aic, without another pass through the rows.
    count = training.table.count if isinstance(training, Steps) else training.count
    criteria = Criteria.of(score * training.count, parameters, count)
    return replace(trial, bic=criteria.bic, aic=criteria.aic)


def _processor_seconds() -> float:
    """Return the processor seconds of this process, without those of compiling."""
    return time.process_time() - announced.processor_seconds


def show_trials(
    called: str, trials: Sequence[Trial], best: int | None, more: Mapping[str, Callable[[Trial], str]]
) -> None:
    """Print a line for each model, with more columns after the held-out score, and why some failed."""
    lines = [
        [
            trial.name,
            "failed" if trial.failure else f"{trial.held_out:.4f}",
            *(shown(trial) for shown in more.values()),
            "" if trial.parameters is None else f"{trial.parameters:,}",
            f"{trial.seconds:.2f}",
        ]
        for trial in trials
    ]
    show_table([called, "held out", *more, "parameters", "seconds"], lines, best)
    for trial in trials:
        if trial.failure:
            note(f"{trial.name}: {trial.failure}")
