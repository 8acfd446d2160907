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
    from collections.abc import Iterator, Sequence

    from eigentree.arrays import Floats
    from eigentree.em.searching import Ground, Searched
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
    """Models that are averaged.

    Attributes
    ----------
    pseudo_counts : float
    parameters : tuple of arrays
        Of each model.
    shares : (models,)
    validation : float
        The mean log probability of a row that chooses.
    """

    pseudo_counts: float
    parameters: tuple[Floats, ...]
    shares: Floats
    validation: float


def settled(standing: Searched, ground: Ground) -> Settled:
    """Return the average of the models of the best size, and what was tried."""
    size = standing.best.trial.size
    problems = [ground.problems(size, fold)[0] for fold in ground.folds]
    fits = standing.best.fits
    if len(ground.folds) == 1:
        # Where so many trees were asked for, it is those of the best, and no average.
        kept = standing.of_best_size[: ground.members if ground.trees is None else 1]
        fits = tuple(member.fits[0] for member in kept)
        problems *= len(fits)
    chosen = _weighed(ground, [fit.network for fit in fits], [fit.ascent.parameters for fit in fits], 1.0)
    for tried in _with_fewer(ground, problems, chosen.parameters) if ground.has_fewer else ():
        if not tried.validation > chosen.validation:
            break
        chosen = tried
    layout, places = problems[0].layout, np.flatnonzero(chosen.shares).tolist()
    parameters = [chosen.parameters[place] for place in places]
    if ground.whole is not None:
        whole = Problem.of(layout.graph, ground.whole, ground.gaps, chosen.pseudo_counts, ground.threads)
        parameters = [whole.evaluated(each).following for each in parameters]
    search = SizeSearch(
        trials=tuple(member.trial for member in standing.members),
        size=size,
        shares=tuple(chosen.shares[places].tolist()),
        validation=chosen.validation,
        rows=sum(float(fold.rows.weights.sum()) for fold in ground.folds) / len(ground.folds),
        validation_rows=sum(float(fold.validation.weights.sum()) for fold in ground.folds),
    )
    networks = [layout.network(each) for each in parameters]
    network = averaged(ground.tree(size.hidden_states), networks, chosen.shares[places])
    return Settled(network, search, chosen.pseudo_counts)


def _with_fewer(ground: Ground, problems: Sequence[Problem], parameters: Sequence[Floats]) -> Iterator[_Choice]:
    """Yield the models after a step with ever fewer pseudo-counts; rows are counted once for all of them."""
    counts = [
        replace(problem, single=False).counted(own).counts
        for problem, own in zip(problems, parameters, strict=True)
    ]
    for share in FEWER:
        # So few of them are the same for all entries, and fewer are in proportion.
        following = [
            problem.layout.normalised(count + share * problem.prior, own)
            for problem, count, own in zip(problems, counts, parameters, strict=True)
        ]
        networks = [problem.layout.network(own) for problem, own in zip(problems, following, strict=True)]
        yield _weighed(ground, networks, following, share)


def _weighed(
    ground: Ground, networks: Sequence[LatentNetwork], parameters: Sequence[Floats], share: float
) -> _Choice:
    """Return models with the shares that make the rows that choose likeliest; of folds each has the same."""
    folds = ground.folds if len(ground.folds) > 1 else ground.folds * len(networks)
    log_prob = [
        network.model.score(fold.validation.codes)[0] for network, fold in zip(networks, folds, strict=True)
    ]
    if len(ground.folds) > 1:
        shares = np.full(len(networks), 1.0 / len(networks))
        weights = [fold.validation.weights for fold in folds]
        validation = float(np.concatenate(log_prob) @ np.concatenate(weights) / np.concatenate(weights).sum())
    else:
        shares, validation = fitted_average(np.array(log_prob), folds[0].validation.weights)
    return _Choice(share * ground.pseudo_counts, tuple(parameters), shares, validation)
