"""What a search over sizes ends with: fewer pseudo-counts where rows ask for them, and every row learned from.

Sizes are compared with the same pseudo-counts. How many the best one needs shows once it has been found: what rows
say of it is counted once more, and tables with fewer pseudo-counts are compared by the rows that choose. Where
these were taken from the rows to learn from, one last step of EM brings them in. It begins where they have ended
the climb, so it adds what they tell, and hardly more of what the others do.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from eigentree.em.averaging import averaged, fitted_average
from eigentree.em.climbing import Problem
from eigentree.em.sizes import SizeSearch

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
    """What the models of the best size come to with some pseudo-counts.

    Attributes
    ----------
    pseudo_counts : float
    parameters : tuple of arrays
        Of each model.
    score : float
        The log-likelihood of the rows that choose, summed over the models.
    """

    pseudo_counts: float
    parameters: tuple[Floats, ...]
    score: float


def settled(standing: Searched, ground: Ground) -> Settled:
    """Return the average of the models of the best size, and what was tried."""
    size, fits = standing.best.trial.size, standing.best.fits
    pairs = [ground.problems(size, fold) for fold in ground.folds]
    if len(ground.folds) == 1:
        # Where so many trees were asked for, it is those of the best, and no average.
        kept = standing.of_best_size[: ground.members if ground.trees is None else 1]
        fits = tuple(member.fits[0] for member in kept)
        pairs *= len(fits)
    chosen = _chosen(ground, fits, pairs)
    layout = pairs[0][0].layout
    shares, validation = _weighed(ground, [layout.network(own) for own in chosen.parameters])
    places = np.flatnonzero(shares).tolist()
    parameters = [chosen.parameters[place] for place in places]
    if ground.whole is not None:
        whole = Problem.of(layout.graph, ground.whole, ground.gaps, chosen.pseudo_counts, ground.threads)
        parameters = [whole.evaluated(own).following for own in parameters]
    search = SizeSearch(
        trials=tuple(member.trial for member in standing.members),
        size=size,
        shares=tuple(shares[places].tolist()),
        validation=validation,
        rows=sum(float(fold.rows.weights.sum()) for fold in ground.folds) / len(ground.folds),
        validation_rows=sum(float(fold.validation.weights.sum()) for fold in ground.folds),
    )
    networks = [layout.network(own) for own in parameters]
    network = averaged(ground.tree(size.hidden_states), networks, shares[places])
    return Settled(network, search, chosen.pseudo_counts)


def _chosen(ground: Ground, fits: Sequence[Fit], pairs: Sequence[tuple[Problem, Problem]]) -> _Choice:
    """Return the models with as many pseudo-counts as the rows ask for that choose; all are counted once."""
    own = tuple(fit.ascent.parameters for fit in fits)
    chosen = _Choice(ground.pseudo_counts, own, sum(fit.ascent.score for fit in fits))
    if not ground.has_fewer:
        return chosen
    problems, held = ([replace(each, single=False) for each in side] for side in zip(*pairs, strict=True))
    counts = [problem.counted(each).counts for problem, each in zip(problems, own, strict=True)]
    for share in FEWER:
        # So few of them are the same for all entries, and fewer are in proportion.
        following = tuple(
            problem.layout.normalised(count + share * problem.prior, each)
            for problem, count, each in zip(problems, counts, own, strict=True)
        )
        score = sum(some.log_likelihood(each) for some, each in zip(held, following, strict=True))
        if not score > chosen.score:
            break
        chosen = _Choice(share * ground.pseudo_counts, following, score)
    return chosen


def _weighed(ground: Ground, networks: Sequence[LatentNetwork]) -> tuple[Floats, float]:
    """Return shares of networks, and the mean log probability of a row that chooses: of folds each has the same."""
    folds = ground.folds if len(ground.folds) > 1 else ground.folds * len(networks)
    pairs = zip(networks, folds, strict=True)
    log_prob = [network.model.score(fold.validation.codes)[0] for network, fold in pairs]
    if len(ground.folds) == 1:
        return fitted_average(np.array(log_prob), folds[0].validation.weights)
    weights = np.concatenate([fold.validation.weights for fold in folds])
    return np.full(len(networks), 1.0 / len(networks)), float(np.concatenate(log_prob) @ weights / weights.sum())
