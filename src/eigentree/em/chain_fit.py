"""A fit of a hidden chain to sequences: from where to start, given or to be found, to runs that have converged."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import cycle
from typing import TYPE_CHECKING, NamedTuple, cast

import numpy as np

from eigentree.em.estep.unique_rows import systematic
from eigentree.em.init.chains import start_of
from eigentree.em.multistart import ETA, ROWS_PER_PARAMETER, Candidate, Sample, multistart, run_each
from eigentree.inference.sequences.sequence_passes import SequencePass, Symbols

if TYPE_CHECKING:
    from collections.abc import Iterator

    from eigentree.arrays import Floats, Integers
    from eigentree.em.chain_objective import ChainObjective
    from eigentree.em.init.chains import ChainKind
    from eigentree.em.multistart import Multistart
    from eigentree.em.optimize.stopping import Stopping

__all__ = ["ChainFit", "fit_chain"]

LONGEST_PIECE = 1_000
"""A longer sequence is sampled in pieces: a chain has long forgotten its first state by then."""

SPELLS_PER_ROW = 10
"""So many spells of equal symbols count as one row: the steps of a spell say the same, and a row has several
cells."""


POOL: tuple[ChainKind, ...] = ("moments", "random", "merged")
"""The initialisers of a multi-start, in turn."""


@dataclass(frozen=True, eq=False)
class ChainFit:
    """Sequences, and how EM runs on them."""

    whole: ChainObjective
    stopping: Stopping
    max_iter: int
    accelerate: bool = True
    validation: ChainObjective | None = None

    @cached_property
    def sample(self) -> Sample:
        """All sequences."""
        return self._sample(self.whole)

    @cached_property
    def distinct(self) -> ChainObjective:
        """The objective of the sequences that differ, in an order of their own: starts do not depend on copies."""
        pieces = _Pieces.of(self.whole.walk)
        return pieces.objective(self.whole, pieces.weights)

    def _sample(self, objective: ChainObjective) -> Sample:
        rows = int((objective.walk.weights > 0).sum())
        return Sample(objective, rows, objective.layout.free_count / 2.0)

    def samples(self, random: np.random.Generator) -> list[Sample]:
        """Return growing samples of the sequences, at last all."""
        pieces = _Pieces.of(self.whole.walk)
        total = float(pieces.weights @ pieces.spells) / SPELLS_PER_ROW
        found, draws = [], float(ROWS_PER_PARAMETER * self.whole.layout.free_count)
        while ETA * draws <= total:
            counts = systematic(pieces.weights, draws / total * float(pieces.weights.sum()), random)
            if ETA * np.count_nonzero(counts) > len(counts):
                break
            found.append(self._sample(pieces.objective(self.whole, counts)))
            draws *= ETA
        return [*found, self.sample]


class _Pieces(NamedTuple):
    """Sequences, or pieces of long ones: begin, end, weight and number of spells of equal symbols."""

    begins: Integers
    ends: Integers
    weights: Floats
    spells: Integers

    @classmethod
    def of(cls, walk: SequencePass) -> _Pieces:
        order = walk.order if walk.order is not None else np.arange(len(walk.weights))
        own = order[(walk.weights[order] > 0) & (np.diff(walk.starts)[order] > 0)]
        counts = -(-np.diff(walk.starts)[own] // LONGEST_PIECE)
        sequence = np.repeat(np.arange(len(own)), counts)
        number = np.arange(len(sequence)) - np.repeat(np.cumsum(counts) - counts, counts)
        begins = walk.starts[own][sequence] + number * LONGEST_PIECE
        ends = np.minimum(begins + LONGEST_PIECE, walk.starts[own + 1][sequence])
        changes = np.concatenate([[0], np.cumsum(np.diff(walk.symbols.steps.astype(np.int64)) != 0)])
        return cls(begins, ends, walk.weights[own][sequence], changes[ends - 1] - changes[begins] + 1)

    def objective(self, whole: ChainObjective, counts: Floats) -> ChainObjective:
        """Return the objective of pieces that were drawn so often, with their share of the prior."""
        own = np.flatnonzero(counts)
        begins, ends, symbols = self.begins[own], self.ends[own], whole.walk.symbols
        steps = np.concatenate([symbols.steps[begin:end] for begin, end in zip(begins, ends, strict=True)])
        starts = np.concatenate([[0], np.cumsum(ends - begins)])
        walk = SequencePass(Symbols(steps, symbols.lines, symbols.states), starts, counts[own], whole.walk.threads)
        return replace(whole, walk=walk, prior=whole.prior * float(counts[own] @ (ends - begins)) / whole.weight)


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
        return run_each(fit.sample, [_candidate(kind, fit.distinct, random) for _ in range(n_init)], *how)
    samples = fit.samples(random)
    first = cast("ChainObjective", samples[0].objective) if len(samples) > 1 else fit.distinct
    pool = (_candidate(kind, first, random) for kind in cycle(POOL))
    return multistart(samples, pool, *how, finalists=n_init)


def _candidate(kind: ChainKind, objective: ChainObjective, random: np.random.Generator) -> Candidate:
    return Candidate(kind, partial(start_of, kind, objective, random))
