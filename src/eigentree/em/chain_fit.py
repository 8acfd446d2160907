"""A fit of a hidden chain to sequences: from where to start, given or to be found, to runs that have converged."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import cycle
from typing import TYPE_CHECKING, cast

import numpy as np

from eigentree.em.init.chains import start_of
from eigentree.em.multistart import ETA, ROWS_PER_PARAMETER, Candidate, Sample, multistart, run_each
from eigentree.engine.sequence_passes import SequencePass
from eigentree.engine.symbols import Symbols

if TYPE_CHECKING:
    from collections.abc import Iterator

    from eigentree.arrays import Floats, Integers
    from eigentree.em.chains import ChainObjective
    from eigentree.em.init.chains import ChainKind
    from eigentree.em.multistart import Multistart
    from eigentree.em.optimize.stopping import Stopping

__all__ = ["ChainFit", "fit_chain"]

LONGEST_PIECE = 1_000
"""A longer sequence is sampled in pieces: a chain has long forgotten its first state by then."""


@dataclass(frozen=True, eq=False)
class ChainFit:
    """Sequences, and how EM runs on them.

    Attributes
    ----------
    whole : ChainObjective
    stopping : Stopping
    max_iter : int
    accelerate : bool
    validation : ChainObjective, optional
    """

    whole: ChainObjective
    stopping: Stopping
    max_iter: int
    accelerate: bool = True
    validation: ChainObjective | None = None

    @cached_property
    def sample(self) -> Sample:
        """All sequences."""
        return self._sample(self.whole)

    def _sample(self, objective: ChainObjective) -> Sample:
        rows = int((objective.walk.weights > 0).sum())
        return Sample(objective, rows, objective.layout.free_count / 2.0)

    def samples(self, random: np.random.Generator) -> list[Sample]:
        """Return growing samples of the sequences, at last all.

        Their size is that of their spells of equal symbols: the steps of one spell say the same thing.
        """
        begins, ends, weights, spells = _pieces(self.whole.walk)
        order = random.permutation(len(begins))
        reached = np.cumsum(spells[order])
        found, draws = [], ROWS_PER_PARAMETER * self.whole.layout.free_count
        while ETA * draws <= reached[-1]:
            taken = np.sort(order[: int(np.searchsorted(reached, draws)) + 1])
            found.append(self._sample(_taken(self.whole, begins[taken], ends[taken], weights[taken])))
            draws *= ETA
        return [*found, self.sample]


def _pieces(walk: SequencePass) -> tuple[Integers, Integers, Floats, Integers]:
    """Return where sequences, or pieces of long ones, begin and end, their weights and their numbers of spells."""
    order = walk.order if walk.order is not None else np.arange(len(walk.weights))
    own = order[(walk.weights[order] > 0) & (np.diff(walk.starts)[order] > 0)]
    lengths = np.diff(walk.starts)[own]
    pieces = -(-lengths // LONGEST_PIECE)
    sequence = np.repeat(np.arange(len(own)), pieces)
    number = np.arange(len(sequence)) - np.repeat(np.cumsum(pieces) - pieces, pieces)
    begins = walk.starts[own][sequence] + number * LONGEST_PIECE
    ends = np.minimum(begins + LONGEST_PIECE, walk.starts[own + 1][sequence])
    changes = np.concatenate([[0], np.cumsum(np.diff(walk.symbols.steps.astype(np.int64)) != 0)])
    return begins, ends, walk.weights[own][sequence], changes[ends - 1] - changes[begins] + 1


def _taken(whole: ChainObjective, begins: Integers, ends: Integers, weights: Floats) -> ChainObjective:
    """Return the objective of some pieces, with their share of the prior."""
    symbols = whole.walk.symbols
    steps = np.concatenate([symbols.steps[begin:end] for begin, end in zip(begins, ends, strict=True)])
    starts = np.concatenate([[0], np.cumsum(ends - begins)])
    walk = SequencePass(Symbols(steps, symbols.lines, symbols.states), starts, weights, whole.walk.threads)
    return replace(whole, walk=walk, prior=whole.prior * float(weights @ (ends - begins)) / whole.weight)


def fit_chain(fit: ChainFit, init: Floats | str, n_init: int, random: np.random.Generator) -> Iterator[Multistart]:
    """Yield the state of a fit, again and again, until its runs have converged.

    Parameters
    ----------
    fit : ChainFit
    init : parameters to start from, "multistart", or the name of an initialiser
    n_init : int
        The number of starts of one initialiser; in a multi-start, how many candidates at most run until they have
        converged on all sequences.
    random : Generator
    """
    how = (fit.stopping, fit.max_iter, fit.accelerate, fit.validation)
    if not isinstance(init, str):
        start = init
        return run_each(fit.sample, [Candidate("given", lambda: start)], *how)
    if init != "multistart":
        kind = cast("ChainKind", init)
        return run_each(fit.sample, [_candidate(kind, fit.whole, random) for _ in range(n_init)], *how)
    samples = fit.samples(random)
    first = cast("ChainObjective", samples[0].objective)
    pool = (_candidate(kind, first, random) for kind in cycle(POOL))
    return multistart(samples, pool, *how, finalists=n_init)


POOL: tuple[ChainKind, ...] = ("random", "merged")
"""The initialisers of a multi-start, in turn."""


def _candidate(kind: ChainKind, objective: ChainObjective, random: np.random.Generator) -> Candidate:
    return Candidate(kind, partial(start_of, kind, objective, random))
