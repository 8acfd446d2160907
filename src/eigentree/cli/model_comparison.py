"""Rows held out, and models beside each other on them."""

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from eigentree.cli.terminal_output import note, show_table
from eigentree.core.compiling import announced
from eigentree.errors import DataError, EigentreeError

if TYPE_CHECKING:
    from eigentree.cli.sequence_arguments import Long
    from eigentree.cli.table_io import Given

__all__ = ["Entry", "Trial", "show_trials", "split", "split_sequences", "tried", "tried_on_sequences"]


@dataclass(frozen=True)
class Trial:
    """How a model did.

    Attributes
    ----------
    name : str
    held_out, training : float
        Mean log probability of a row, of distributions that add up to 1; NaN where the fit failed.
    parameters : int or None
        Free parameters, where they are known.
    seconds : float
        Of processor time, of the fit; compiling, which is done once per installation, is not counted.
    failure : str
        Why it failed; empty if it did not.
    bic, aic : float or None
        Information criteria on the rows that were learned from, the lower the better, where parameters are known.
    """

    name: str
    held_out: float
    training: float
    parameters: int | None
    seconds: float
    failure: str = ""
    bic: float | None = None
    aic: float | None = None


Entry = tuple[str, Callable[["Given"], Any]]
"""The name of a model, and what fits it to rows."""


def split(table: "Given", share: float, seed: int) -> tuple["Given", "Given"]:
    """Return the rows to learn from, and a share of them that is held out.

    Raises
    ------
    DataError
        When either would be empty.
    """
    known, out = _parts(table.count, share, seed, f"{table.shown} has {table.count} rows")
    return table.take(known), table.take(out)


def split_sequences(long: "Long", share: float, seed: int) -> tuple["Long", "Long"]:
    """Return the sequences to learn from, and a share of them that is held out, as `split` does of rows."""
    known, out = _parts(long.count, share, seed, f"{long.table.shown} has {long.count} sequences")
    return long.chosen(known), long.chosen(out)


def _parts(count: int, share: float, seed: int, what: str) -> tuple[Any, Any]:
    order = np.random.default_rng(seed).permutation(count)
    out = round(share * count)
    if not 0 < out < count:
        raise DataError(f"{what}; a share of {share:g} of them cannot be held out")
    return np.sort(order[out:]), np.sort(order[:out])


def tried(entry: Entry, training: "Given", held_out: "Given", scored: int | None = None) -> Trial:
    """Return how a model does on rows that it has not seen; a label that it has not seen is a missing cell.

    Its score is the mean over so many of what it learns from, or else over the rows.
    """
    name, fit = entry
    begin = _worked()
    try:
        model = fit(training)
    except EigentreeError as error:
        return Trial(name, float("nan"), float("nan"), None, _worked() - begin, str(error))
    seconds = _worked() - begin
    model.handle_unknown = "missing"
    parameters = getattr(model, "n_parameters_", None)
    score = model.score(training)
    bic = aic = None
    if parameters is not None:
        # As model.bic and model.aic have it, without another walk through the rows.
        deviance = -2 * score * (training.count if scored is None else scored)
        bic, aic = deviance + parameters * math.log(training.count), deviance + 2 * parameters
    return Trial(name, model.score(held_out), score, parameters, seconds, "", bic, aic)


def _worked() -> float:
    """Return the processor seconds of this process, those of compiling left out."""
    return time.process_time() - announced.processor_seconds


def tried_on_sequences(name: str, estimator: Any, training: "Long", held_out: "Long") -> Trial:
    """Return how a model of sequences does on those that it has not seen, per sequence."""

    def fit(rows: "Given") -> Any:
        return _OfSequences(estimator.fit(rows, lengths=training.lengths), training, held_out)

    return tried((name, fit), training.table, held_out.table, training.count)


def show_trials(
    called: str, trials: Sequence[Trial], best: int | None, more: Mapping[str, Callable[[Trial], str]]
) -> None:
    """Print a line for each model, with what more there is to tell of it, and why some failed.

    Parameters
    ----------
    called : str
        What the models are called.
    trials : sequence of Trial
    best : int, optional
        The place of the best.
    more : mapping of str to callable
        Further columns, between the rows held out and the number of parameters.
    """
    lines = [
        [
            trial.name,
            "failed" if trial.failure else f"{trial.held_out:.4f}",
            *(told(trial) for told in more.values()),
            "" if trial.parameters is None else f"{trial.parameters:,}",
            f"{trial.seconds:.2f}",
        ]
        for trial in trials
    ]
    show_table([called, "held out", *more, "parameters", "seconds"], lines, best)
    for trial in trials:
        if trial.failure:
            note(f"{trial.name}: {trial.failure}")


@dataclass
class _OfSequences:
    """A model of sequences that is asked as models of rows are."""

    model: Any
    training: "Long"
    held_out: "Long"
    unknown: str = "error"

    @property
    def n_parameters_(self) -> int | None:
        return getattr(self.model, "n_parameters_", None)

    def score(self, table: "Given") -> float:
        self.model.handle_unknown = self.unknown
        own = self.training if table is self.training.table else self.held_out
        return float(self.model.score(table, lengths=own.lengths))
