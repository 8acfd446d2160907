"""How many hidden states, and which order: models of several sizes compared, the best of them kept."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from eigentree.data.sequences.sequence_codes import Sequences
from eigentree.data.tables.state_rules import ReadOptions
from eigentree.data.tables.weights import positive_weights
from eigentree.errors import DataError, ParameterError, quoted
from eigentree.estimators.em_hmm import EMHMM
from eigentree.estimators.mixins.constructor_parameters import cloned
from eigentree.estimators.mixins.information_criteria import MAXIMUM_LIKELIHOOD
from eigentree.messages import renamed_arguments
from eigentree.validation import generator, one_by_one, one_of, our_arithmetic, whole_number

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import ArrayLike

__all__ = ["HMMSelection", "HMMTrial", "select_hmm"]

MOST_SIZES = 1000

FOLDS = 3
"""Folds of the cross-validation."""


class HMMTrial(NamedTuple):
    """What one size showed.

    Attributes
    ----------
    hidden_states, order : int
    value : float
        The criterion; the lower, the better ("validation": -2 · log-likelihood of sequences held out).
    n_parameters : int
    """

    hidden_states: int
    order: int
    value: float
    n_parameters: int


@dataclass(frozen=True, eq=False, repr=False)
class HMMSelection:
    """The sizes that were tried.

    Attributes
    ----------
    model : EMHMM
        The best, fitted to all sequences.
    trials : tuple of HMMTrial
    criterion : {"bic", "aic", "validation"}
    """

    model: EMHMM
    trials: tuple[HMMTrial, ...]
    criterion: str

    def __repr__(self) -> str:
        best = min(self.trials, key=lambda trial: trial.value)
        lines = [f"{self.criterion}, the lower the better:"]
        for trial in self.trials:
            mark = "  <- best" if trial is best else ""
            size = f"{trial.hidden_states} states, order {trial.order}"
            lines.append(f"  {size}: {trial.value:.2f}, {trial.n_parameters} parameters{mark}")
        return "\n".join(lines)


@renamed_arguments()
@our_arithmetic
def select_hmm(
    X: ArrayLike | Any,
    hidden_states: Iterable[int] = (1, 2, 3, 4, 5, 6),
    orders: Iterable[int] = (1,),
    criterion: Literal["bic", "aic", "validation"] = "bic",
    estimator: EMHMM | None = None,
    lengths: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
) -> HMMSelection:
    """Return the sizes of hidden Markov models that were tried on sequences, and the best model.

    Parameters
    ----------
    X : sequences in any form that `EMHMM.fit` takes
    hidden_states, orders : iterable of int
        All pairs of these are tried.
    criterion : {"bic", "aic", "validation"}
        "validation" is the log-likelihood of each third of the sequences after a fit to the others. For "bic" and
        "aic" fits are of maximum likelihood (``pseudo_counts=1e-6, sticky=0``), which these criteria presuppose.
    estimator : EMHMM, optional
        Whose other settings are used.
    lengths : array-like of int, shape (sequences,), optional
    sample_weight : array-like of shape (sequences,), optional

    Examples
    --------
    >>> selected = select_hmm(["AAAABBBB", "AAABBB", "BBBAAAA"] * 20, (1, 2), estimator=EMHMM(random_state=0))
    >>> selected.model.hidden_states
    2
    """
    one_of("criterion", criterion, ("bic", "aic", "validation"))
    settings = EMHMM() if estimator is None else estimator
    if not isinstance(settings, EMHMM):
        raise ParameterError(f"estimator is an EMHMM, not {quoted(settings)}")
    sizes = _wholes("hidden_states", hidden_states)
    depths = _wholes("orders", orders)
    sequences = Sequences.learned(X, lengths, settings.sequence, settings.time, ReadOptions.of(settings))
    weights = positive_weights(sample_weight, sequences.count)
    # Information criteria compare maxima of the likelihood.
    prior = {} if criterion == "validation" else {"pseudo_counts": MAXIMUM_LIKELIHOOD, "sticky": 0.0}
    trials, models = [], []
    for order in depths:
        for states in sizes:
            model = cloned(settings, hidden_states=states, order=order, **prior)
            model.fit(sequences, sample_weight=weights)
            if criterion == "validation":
                value = _held_out(model, sequences, weights)
            else:
                measure = model.bic if criterion == "bic" else model.aic
                value = measure(sequences, sample_weight=weights)
            trials.append(HMMTrial(states, order, value, model.n_parameters_))
            models.append(model)
    best = int(np.argmin([trial.value for trial in trials]))
    return HMMSelection(models[best], tuple(trials), criterion)


def _held_out(model: EMHMM, sequences: Sequences, weights: Any) -> float:
    if sequences.count < FOLDS:
        raise DataError(f"criterion='validation' needs at least {FOLDS} sequences, not {sequences.count}")
    fold = generator(0).permutation(sequences.count) % FOLDS
    total = 0.0
    for part in range(FOLDS):
        # What does not count may be impossible.
        own, others = np.flatnonzero((fold == part) & (weights > 0)), np.flatnonzero(fold != part)
        learned = cloned(model).fit(sequences.chosen(others), sample_weight=weights[others])
        total += float(weights[own] @ learned.score_samples(sequences.chosen(own)))
    return -2.0 * total


def _wholes(argument: str, numbers: Any) -> list[int]:
    given = islice(one_by_one(argument, numbers, "whole numbers", ParameterError), MOST_SIZES + 1)
    found = [whole_number(argument, number) for number in given]
    if not 0 < len(found) <= MOST_SIZES:
        raise ParameterError(f"{argument} are 1 to {MOST_SIZES} numbers, not {len(found) or 'none'}")
    return found
