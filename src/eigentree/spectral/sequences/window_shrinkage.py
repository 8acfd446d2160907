"""How much to shrink what was learned from sequences, and how high the floor is: likelihood of held-out pieces."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from eigentree.counting.holdout_sample import held_share
from eigentree.spectral.learn.shrinkage import FLOORS, GRID, LEAST_LOG, USUAL, Search, usual_floor
from eigentree.spectral.sequences.sequence_model import SequenceModel
from eigentree.spectral.sequences.window_operators import cell_marginals, learn_windows, pseudo_windows

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from eigentree.arrays import Floats
    from eigentree.counting.window_counts import Pieces, SequenceStatistics
    from eigentree.spectral.sequences.window_operators import WindowFit

__all__ = ["WindowChoice", "choose_windows"]

FOLDS = 2

MANY_SAMPLES = 20
"""Where there are so many times the steps of the sample, all of it is held out at once."""


class WindowChoice(NamedTuple):
    """The model of a shrinkage and a floor, and how these were found.

    Attributes
    ----------
    model : SequenceModel
    tried : dict of (float, float) to float
        The held-out log probability of a step at each shrinkage and floor that were tried.
    """

    model: SequenceModel
    tried: dict[tuple[float, float], float]


def choose_windows(
    statistics: SequenceStatistics,
    shrinkage: float | None = None,
    floor: float | None = None,
    scaled: bool | None = None,
) -> WindowChoice:
    """Return the model of the shrinkage and the floor under which held-out pieces of sequences are likeliest.

    As for tables: the search climbs from the usual place, what is given is not searched for, with a given shrinkage
    the floor is the usual one, and a shrinkage of 0 means the counts as they are. Whether counts are scaled so that
    their noise is even is chosen with the shrinkage too; with a given one they are.
    """
    raw = shrinkage == 0
    added = 0.0 if raw else pseudo_windows(statistics.plan)
    usual = 0.0 if raw else usual_floor(statistics.steps)
    marginals = cell_marginals(statistics, added)
    held = _held(statistics, added) if shrinkage is None else []
    if not held:
        if shrinkage is None:
            # Pieces that can only be held out all together are too few to learn more from than their cells.
            shrinkage = math.inf if len(statistics.sample.hashes) else USUAL
        share = usual if floor is None else floor
        smoothed = cell_marginals(statistics, pseudo_windows(statistics.plan)) if share > 0 else marginals
        whole = learn_windows(statistics, added, marginals, scaled is not False)
        return WindowChoice(SequenceModel(whole, shrinkage, share, smoothed), {})
    floors = tuple(usual * multiple for multiple in FLOORS) if floor is None else (floor,)
    weights = np.concatenate([each.weights for each in held])
    ways = {way: Search([each.trial(way) for each in held], weights, GRID, floors) for way in _ways(scaled)}
    best = next(iter(ways))
    if len(ways) > 1 and ways[False].beats(ways[True]):
        best = False
    model = SequenceModel(learn_windows(statistics, added, marginals, best), *ways[best].best(), marginals)
    lengths = np.concatenate([np.diff(each.pieces.own, axis=1)[:, 0] for each in held])
    mean_length = float(weights @ lengths) / float(weights.sum())
    return WindowChoice(model, {pair: mean / mean_length for pair, mean in ways[best].tried().items()})


def _ways(scaled: bool | None) -> tuple[bool, ...]:
    return (True, False) if scaled is None else (scaled,)


class _Trial(NamedTuple):
    """A fit without the pieces of one fold, and these pieces."""

    fit: WindowFit
    marginals: tuple[Floats, ...]
    pieces: Pieces

    def score(self, shrinkage: float, floor: float) -> Floats:
        """Return the log probability of each held-out piece, given the steps before it that are known."""
        pieces = self.pieces
        walked = SequenceModel(self.fit, shrinkage, floor, self.marginals).walked(
            pieces.codes, pieces.starts, pieces.begins, each=True
        )
        least = LEAST_LOG * pieces.codes.shape[1]
        sums = np.concatenate([[0.0], np.cumsum(np.maximum(walked.each, least))])
        first, last = (pieces.starts[:-1, None] + pieces.own).T
        return np.asarray(sums[last] - sums[first])


class _Held(NamedTuple):
    """Pieces that are held out, how often each is, and the statistics without them."""

    pieces: Pieces
    weights: NDArray[Any]
    rest: SequenceStatistics
    added: float

    def trial(self, scaled: bool) -> _Trial:
        """Return what the rest tells, to be tried on the pieces."""
        marginals = cell_marginals(self.rest, self.added)
        return _Trial(learn_windows(self.rest, self.added, marginals, scaled), marginals, self.pieces)


def _held(statistics: SequenceStatistics, added: float) -> list[_Held]:
    """Return the folds that are held out in turn."""
    sample = statistics.sample
    if not len(sample.hashes):
        return []
    share = held_share([sample])
    steps = float(sample.weights @ np.diff(statistics.pieces().own, axis=1)[:, 0])
    folds = 1 if share * steps * MANY_SAMPLES <= statistics.steps else FOLDS
    found = []
    for number in range(folds):
        fold = sample.fold(number, folds, share)
        pieces, rest = statistics.held(fold)
        if len(fold.codes) and rest.windows.rows > 0 and rest.firsts.rows > 0:
            found.append(_Held(pieces, fold.weights, rest, added))
    return found
