"""How much to shrink what was learned from sequences, and how high the floor is: likelihood of held-out pieces."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from eigentree.counting.holdout_sample import held_share
from eigentree.spectral.learn.shrinkage import FOLDS, LEAST_LOG, MANY_SAMPLES, HeldOut, chosen
from eigentree.spectral.sequences.sequence_model import SpectralSequenceModel
from eigentree.spectral.sequences.window_operators import cell_marginals, learn_windows, pseudo_windows

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from eigentree.arrays import Floats
    from eigentree.counting.window_counts import SequencePieces, SequenceStatistics
    from eigentree.spectral.learn.shrinkage import HeldOutScore, Tried
    from eigentree.spectral.sequences.window_operators import WindowFit

__all__ = ["choose_windows"]


def choose_windows(
    statistics: SequenceStatistics,
    shrinkage: float | None = None,
    floor: float | None = None,
    scaled: bool | None = None,
) -> tuple[SpectralSequenceModel, Tried]:
    """Return the model of some statistics at the best shrinkage and floor, and what was tried.

    As for tables (`chosen`). Whether counts are scaled to equal noise is chosen with the shrinkage; with a given
    one they are.
    """
    return chosen(_HeldOutPieces(statistics, scaled), shrinkage, floor)


class _HeldOutPieces(HeldOut[SpectralSequenceModel]):
    """Pieces of sequences; the ways of learning are with and without variance scaling."""

    def __init__(self, statistics: SequenceStatistics, scaled: bool | None) -> None:
        self.statistics = statistics
        self.scaled = (True, False) if scaled is None else (scaled,)
        self.rows, self.pseudo_rows = statistics.steps, pseudo_windows(statistics.plan)
        self.sampled = len(statistics.sample.hashes) > 0

    def trials(self, added: float) -> tuple[list[list[HeldOutScore]], list[NDArray[Any]]]:
        statistics, sample = self.statistics, self.statistics.sample
        share = held_share([sample])
        steps = float(sample.weights @ np.diff(statistics.pieces(sample.codes).own, axis=1)[:, 0])
        folds = 1 if share * steps * MANY_SAMPLES <= statistics.steps else FOLDS
        ways: list[list[HeldOutScore]] = [[] for _ in self.scaled]
        lengths, found = [], []
        for number in range(folds):
            codes, weights = sample.fold(number, folds, share)
            pieces = statistics.pieces(codes)
            rest = statistics.without(pieces, weights)
            if len(codes) and rest.windows.rows > 0 and rest.firsts.rows > 0:
                marginals = cell_marginals(rest, added)
                for trials, scaled in zip(ways, self.scaled, strict=True):
                    trials.append(_trial(learn_windows(rest, added, marginals, scaled), marginals, pieces))
                lengths.append(np.diff(pieces.own, axis=1)[:, 0])
                found.append(weights)
        if found:
            every = np.concatenate(found)
            self.unit = float(every @ np.concatenate(lengths)) / float(every.sum())
        return ways, found

    def model(
        self, way: int, shrinkage: float, floor: float, added: float, smoothing: float
    ) -> SpectralSequenceModel:
        marginals = cell_marginals(self.statistics, added)
        fit = learn_windows(self.statistics, added, marginals, self.scaled[way])
        return SpectralSequenceModel(fit, shrinkage, floor, cell_marginals(self.statistics, smoothing))


def _trial(fit: WindowFit, marginals: tuple[Floats, ...], pieces: SequencePieces) -> HeldOutScore:
    def score(shrinkage: float, floor: float) -> Floats:
        """Return the log probability of each held-out piece, given the steps before it that are known."""
        scores = SpectralSequenceModel(fit, shrinkage, floor, marginals).scored(
            pieces.codes, pieces.starts, pieces.begins, each=True
        )
        least = LEAST_LOG * pieces.codes.shape[1]
        sums = np.concatenate([[0.0], np.cumsum(np.maximum(scores.each, least))])
        first, last = (pieces.starts[:-1, None] + pieces.own).T
        return np.asarray(sums[last] - sums[first])

    return score
