"""What a search over sizes ends with: fewer pseudo-counts where rows ask for them, and every row learned from.

Sizes are compared with the same pseudo-counts. How many the best one needs shows once it has been found: what rows
say of it is counted once more, and tables with fewer pseudo-counts are compared by the rows that choose. Where
these were taken from the rows to learn from, one last step of EM brings them in. It begins where they have ended
the climb, so it adds what they tell, and hardly more of what the others do.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from eigentree.em.averaging import averaged, fitted_average
from eigentree.em.sizes import SizeSearch
from eigentree.em.tree_objective import TreeObjective

if TYPE_CHECKING:
    from collections.abc import Sequence

    from eigentree.arrays import Floats
    from eigentree.em.searching import Fit, Ground, Searched
    from eigentree.exact.network import LatentNetwork

__all__ = ["Settled", "settled"]

FEWER = (0.3, 0.1, 0.03, 0.01)
"""Shares of the pseudo-counts of the search that are tried in turn, while each is better than the one before."""


class Settled(NamedTuple):
    """A model of the best size.

    Attributes
    ----------
    network : LatentNetwork
    search : SizeSearch
    pseudo_counts : float
    """

    network: LatentNetwork
    search: SizeSearch
    pseudo_counts: float


class _Choice(NamedTuple):
    """The models of the best size, with some pseudo-counts."""

    pseudo_counts: float
    fits: tuple[Fit, ...]

    @property
    def score(self) -> float:
        """The log-likelihood of the rows that choose, summed over the models."""
        return sum(fit.ascent.score for fit in self.fits)


def settled(standing: Searched, ground: Ground) -> Settled:
    """Return the average of the models of the best size, and what was tried."""
    size, fits = standing.best.trial.size, standing.best.fits
    pairs = [ground.problems(size, fold) for fold in ground.folds]
    if len(ground.folds) == 1:
        # Where so many trees were asked for, it is those of the best, and no average.
        kept = standing.of_best_size[: ground.members if ground.trees is None else 1]
        fits = tuple(member.fits[0] for member in kept)
        pairs *= len(fits)
    chosen = _Choice(ground.pseudo_counts, fits)
    if ground.has_fewer:
        chosen = _with_fewer(chosen, pairs)
    shares, validation = _weighed(chosen.fits, each_its_own=len(ground.folds) > 1)
    places = np.flatnonzero(shares).tolist()
    networks = [chosen.fits[place].network for place in places]
    if ground.whole is not None:
        layout = pairs[0][0].layout
        whole = TreeObjective.of(layout.graph, ground.whole, ground.gaps, chosen.pseudo_counts, ground.threads)
        parameters = [chosen.fits[place].ascent.parameters for place in places]
        networks = [layout.network(whole.evaluated(own).update) for own in parameters]
    search = SizeSearch(
        trials=tuple(member.trial for member in standing.members),
        size=size,
        shares=tuple(shares[places].tolist()),
        validation=validation,
        rows=sum(float(fold.rows.weights.sum()) for fold in ground.folds) / len(ground.folds),
        validation_rows=sum(float(fold.validation.weights.sum()) for fold in ground.folds),
    )
    network = averaged(ground.tree(size.hidden_states), networks, shares[places])
    return Settled(network, search, chosen.pseudo_counts)


def _with_fewer(usual: _Choice, pairs: Sequence[tuple[TreeObjective, TreeObjective]]) -> _Choice:
    """Return the models with as few pseudo-counts as the rows ask for that choose; each is counted once."""
    problems, held = ([replace(each, single=False) for each in side] for side in zip(*pairs, strict=True))
    own = [fit.ascent.parameters for fit in usual.fits]
    counts = [problem.counted(each).counts for problem, each in zip(problems, own, strict=True)]
    chosen = usual
    for share in FEWER:
        # So few of them are the same for all entries, and fewer are in proportion.
        following = [
            problem.layout.normalised(count + share * problem.prior, each)
            for problem, count, each in zip(problems, counts, own, strict=True)
        ]
        moved = zip(usual.fits, problems, held, following, strict=True)
        tried = _Choice(share * usual.pseudo_counts, tuple(_moved(*each) for each in moved))
        if not tried.score > chosen.score:
            break
        chosen = tried
    return chosen


def _moved(fit: Fit, problem: TreeObjective, held: TreeObjective, parameters: Floats) -> Fit:
    """Return a model with other parameters; how likely it finds the rows that it was learned from is not asked."""
    ascent = fit.ascent._replace(parameters=parameters, score=held.log_likelihood(parameters))
    return replace(fit, network=problem.layout.network(parameters), ascent=ascent, log_likelihood=math.nan)


def _weighed(fits: Sequence[Fit], each_its_own: bool) -> tuple[Floats, float]:
    """Return shares of models, and the mean log probability of a row that chooses.

    Models of the same rows have the shares that make these likeliest; those of folds, each with rows of its own
    that choose, have the same.
    """
    log_prob, weights = [fit.log_prob for fit in fits], [fit.held.weights for fit in fits]
    if not each_its_own:
        return fitted_average(np.array(log_prob), weights[0])
    every = np.concatenate(weights)
    return np.full(len(fits), 1.0 / len(fits)), float(np.concatenate(log_prob) @ every / every.sum())
