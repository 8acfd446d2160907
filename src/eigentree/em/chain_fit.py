"""A hidden chain and its fit to sequences: all tables as one vector, the objective, and runs from starts."""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import cycle
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, TypeVar, cast

import numpy as np

from eigentree.em.estep.unique_rows import systematic
from eigentree.em.init.chains import KINDS
from eigentree.em.multistart import ETA, MIXED, ROWS_PER_PARAMETER, Candidate, Sample, multistart, run_each
from eigentree.em.optimize.objective import ExpectedCounts, Objective, SimplexVector
from eigentree.errors import DataError
from eigentree.inference.sequences.sequence_passes import SequencePass, marginal_chains, product_chain

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from eigentree.arrays import Booleans, Floats, Integers
    from eigentree.em.multistart import Multistart
    from eigentree.em.optimize.stopping import Stopping
    from eigentree.emissions.base import Emission
    from eigentree.inference.sequences.number_steps import NumberPass

__all__ = [
    "ChainFit",
    "ChainLayout",
    "ChainObjective",
    "SequenceObjective",
    "fit_chain",
    "fit_with_known_states",
    "with_free_states",
]

Scalar = TypeVar("Scalar", bound=np.generic)

LONGEST_PIECE = 1_000
"""A longer sequence is sampled in pieces: a chain has long forgotten its first state by then."""

SPELLS_PER_ROW = 10
"""So many spells of equal symbols count as one row: the steps of a spell say the same, and a row has several
cells."""


@dataclass(frozen=True, eq=False)
class ChainLayout(SimplexVector):
    """Where each parameter of hidden chains stands in one vector: links, chain by chain, then emissions.

    Several chains move on independently of each other, and what is shown depends on the states of all: they are one
    chain whose states are theirs together, and whose links are products of theirs. What is expected of a product is
    expected of each factor, so that counts of the one chain add up to those of each. `sizes` are the numbers of
    states of the chains, `channels` those of the channels, and `allowed` has which state may follow which in each
    chain; `starts` are the distributions of first states where these are given and not learned. With
    `known_states` the last channel is the state itself of one chain, where it is known; or its label, where each
    label stands for equally many states, one label's after another's.
    """

    sizes: tuple[int, ...]
    order: int
    channels: tuple[int, ...]
    allowed: tuple[Booleans, ...]
    starts: tuple[Floats, ...] = ()
    known_states: bool = field(default=False, kw_only=True)

    @cached_property
    def states(self) -> int:
        """How many states all chains have together."""
        return math.prod(self.sizes)

    @cached_property
    def shapes(self) -> list[tuple[int, ...]]:
        """The shape of each table that is learned."""
        links = [(size,) * (earlier + 1) for size in self.sizes for earlier in range(self.order + 1)]
        return links + [(self.states, count) for count in self.channels]

    @cached_property
    def _spans(self) -> list[tuple[slice, tuple[int, ...]]]:
        """Where each table stands in a vector, and its shape."""
        ends = np.cumsum([math.prod(shape) for shape in self.shapes]).tolist()
        return [(slice(end - math.prod(shape), end), shape) for end, shape in zip(ends, self.shapes, strict=True)]

    @cached_property
    def possible(self) -> Booleans:
        """Which parameters may be positive."""
        chains, emissions = self.parts(np.ones(self._spans[-1][0].stop, np.bool_))
        links = [
            table & allowed if table.ndim > 1 else table
            for chain, allowed in zip(chains, self.allowed, strict=True)
            for table in chain
        ]
        if self.known_states:
            emissions[-1] = self.labels_of_states > 0
        return np.concatenate([table.ravel() for table in (*links, *emissions)])

    @property
    def states_per_label(self) -> int:
        """How many states each label of the last channel stands for."""
        return self.states // self.channels[-1]

    @property
    def labels_of_states(self) -> Floats:
        """The table of the last channel, where it is the state or its label."""
        return np.repeat(np.eye(self.channels[-1]), self.states_per_label, axis=0)

    @cached_property
    def learned(self) -> Booleans:
        """Which parameters are learned."""
        learned = np.ones(len(self.possible), np.bool_)
        if self.starts:
            for chain in self.parts(learned)[0]:
                chain[0][:] = False
        if self.known_states:
            self.parts(learned)[1][-1][:] = False
        return learned

    @cached_property
    def lengths(self) -> Integers:
        """The number of entries of each distribution."""
        counts = [(math.prod(shape[:-1]), shape[-1]) for shape in self.shapes]
        return np.concatenate([np.full(lines, length) for lines, length in counts])

    def joined(self, links: Sequence[Floats], emissions: Sequence[Floats]) -> Floats:
        """Return counts of all chains together as one vector of counts of each chain."""
        split = [marginal_chains(table, self.sizes) for table in links]
        chains = [table[place] for place in range(len(self.sizes)) for table in split]
        return np.concatenate([np.ravel(table) for table in (*chains, *emissions)])

    def vector(self, links: Sequence[Floats], emissions: Sequence[Floats]) -> Floats:
        """Return tables of all chains together as one vector, what is not allowed or learned as it must be.

        Links that are no products become what they are to each chain by itself, the others being evenly likely.
        """
        return self.settled(self.joined(links, emissions))

    def settled(self, joined: Floats) -> Floats:
        """Return a vector of normalised distributions, with what is not allowed or learned as it must be."""
        joined = joined.copy()
        for chain, start in zip(self.parts(joined)[0], self.starts, strict=False):
            chain[0][:] = start
        return self.normalised(np.where(self.possible, joined, 0.0), self.uniform)

    def even(self) -> Floats:
        """Return parameters under which all states are alike but where they are known."""
        return self.uniform

    def relabelled(self, vector: Floats, order: Integers) -> Floats:
        """Return parameters of one chain with states in another order; what is known of states is as it was."""
        (links,), emissions = self.parts(vector)
        tables = [*(table[np.ix_(*[order] * table.ndim)] for table in links), *(own[order] for own in emissions)]
        return self.settled(np.concatenate([table.ravel() for table in tables]))

    def parts(self, vector: NDArray[Scalar]) -> tuple[list[list[NDArray[Scalar]]], list[NDArray[Scalar]]]:
        """Return the links of each chain and the emissions of a vector."""
        tables = [vector[span].reshape(shape) for span, shape in self._spans]
        each, links = self.order + 1, len(self.sizes) * (self.order + 1)
        return [tables[first : first + each] for first in range(0, links, each)], tables[links:]

    def tables(self, vector: Floats) -> tuple[list[Floats], list[Floats]]:
        """Return the links of all chains together, and the emissions, of a vector."""
        chains, emissions = self.parts(vector)
        return [product_chain(tables) for tables in zip(*chains, strict=True)], emissions

    def prior(self, pseudo_counts: float, sticky: float) -> Floats:
        """Return the pseudo-count of each parameter; `sticky` are more for staying in a state."""
        prior = np.where(self.possible & self.learned, pseudo_counts, 0.0)
        for chain, allowed in zip(self.parts(prior)[0], self.allowed, strict=True):
            for table in chain[1:]:
                table += sticky * (np.eye(len(allowed), dtype=np.bool_) & allowed)
        return prior


class SequenceObjective(Objective):
    """The objective of sequences under a hidden chain: log-likelihood plus log prior.

    Attributes
    ----------
    layout : ChainLayout
    walk : SequencePass or NumberPass
    prior : array
        The pseudo-count of each entry of the tables.
    """

    layout: ChainLayout
    walk: SequencePass | NumberPass

    initialisers: ClassVar[Mapping[Any, Callable[[Any, np.random.Generator], Floats]]]
    """By name; one raises `RankError` when the sequences do not allow such a start."""

    pool: ClassVar[tuple[str, ...]]
    """The initialisers of a multi-start, in turn."""

    @cached_property
    def weight(self) -> float:
        """The number of steps of all sequences, by weight: gains are judged per step."""
        return float(self.walk.weights @ np.diff(self.walk.starts))

    @abstractmethod
    def expected_links(self, parameters: Floats) -> list[Floats]:
        """Return the expected counts of the links of all chains together."""

    def total(self, log_prob: Floats) -> tuple[float, int]:
        """Return the log-likelihood of the sequences, and the user's number of one that is impossible, or -1."""
        log_likelihood, impossible = float(self.walk.weights[self._counted] @ log_prob[self._counted]), -1
        if log_likelihood == -math.inf:
            impossible = int(np.flatnonzero(np.isneginf(log_prob) & (self.walk.weights > 0))[0])
            if self.walk.origins is not None:
                impossible = int(self.walk.origins[impossible])
        return log_likelihood, impossible

    @cached_property
    def _counted(self) -> Integers:
        """The sequences that count, in the order in which they are added up."""
        order = self.walk.order if self.walk.order is not None else np.arange(len(self.walk.weights))
        return order[self.walk.weights[order] > 0]


@dataclass(frozen=True, eq=False)
class ChainObjective(SequenceObjective):
    """The objective of sequences of categories."""

    layout: ChainLayout
    walk: SequencePass
    prior: Floats

    initialisers = KINDS
    pool = ("moments", "random", "merged")

    def shown(self, counts: Floats) -> tuple[list[Floats], list[Emission]]:
        """Return tables of counts that follow from how often each step is in each state."""
        symbols = self.walk.symbols
        found = np.zeros((len(symbols.lines), counts.shape[1]))
        np.add.at(found, symbols.steps, counts)
        return symbols.channel_counts(found), []

    def expected_links(self, parameters: Floats) -> list[Floats]:
        """Return the expected counts of the links of all chains together."""
        return self.walk.counts(*self.layout.tables(parameters)).links

    def log_likelihood(self, parameters: Floats) -> float:
        """Return the log-likelihood of the sequences; -inf if one is impossible."""
        return self.total(self.walk.log_prob(*self.layout.tables(parameters)))[0]

    def counted(self, parameters: Floats) -> ExpectedCounts:
        """Return the expected counts and the log-likelihood of all sequences."""
        links, emissions, log_prob = self.walk.counts(*self.layout.tables(parameters))
        return ExpectedCounts(self.layout.joined(links, emissions), *self.total(log_prob))


@dataclass(frozen=True, eq=False)
class ChainFit:
    """Sequences, and how EM runs on them."""

    whole: SequenceObjective
    stopping: Stopping
    max_iter: int
    accelerate: bool = True
    validation: SequenceObjective | None = None

    @cached_property
    def sample(self) -> Sample:
        """All sequences."""
        return self._sample(self.whole)

    @cached_property
    def distinct(self) -> SequenceObjective:
        """The objective of the sequences that differ, in an order of their own: starts do not depend on copies."""
        pieces = _Pieces.of(self.whole.walk)
        return pieces.objective(self.whole, pieces.weights)

    def runs(self, candidates: Iterable[Candidate], before: Multistart | None = None) -> Iterator[Multistart]:
        """Yield the state while candidates run on all sequences, one after the other, until they have converged."""
        how = (self.stopping, self.max_iter, self.accelerate, self.validation)
        return run_each(self.sample, candidates, *how, before)

    def _sample(self, objective: SequenceObjective) -> Sample:
        rows = int((objective.walk.weights > 0).sum())
        return Sample(objective, rows, objective.layout.free_count / 2.0)

    def samples(self, random: np.random.Generator) -> list[Sample]:
        """Return growing samples of the sequences, at last all."""
        pieces = _Pieces.of(self.whole.walk)
        total = float(pieces.weights @ pieces.spells) / SPELLS_PER_ROW
        found, draws = [], float(ROWS_PER_PARAMETER * self.whole.layout.free_count)
        while ETA * draws <= total:
            counts = systematic(draws / total * pieces.weights, random)
            if ETA * np.count_nonzero(counts) > len(counts):
                break
            # Of so few long pieces perhaps none is drawn.
            if counts.any():
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
    def of(cls, walk: SequencePass | NumberPass) -> _Pieces:
        order = walk.order if walk.order is not None else np.arange(len(walk.weights))
        own = order[(walk.weights[order] > 0) & (np.diff(walk.starts)[order] > 0)]
        counts = -(-np.diff(walk.starts)[own] // LONGEST_PIECE)
        sequence = np.repeat(np.arange(len(own)), counts)
        number = np.arange(len(sequence)) - np.repeat(np.cumsum(counts) - counts, counts)
        begins = walk.starts[own][sequence] + number * LONGEST_PIECE
        ends = np.minimum(begins + LONGEST_PIECE, walk.starts[own + 1][sequence])
        changes = walk.changes
        return cls(begins, ends, walk.weights[own][sequence], changes[ends - 1] - changes[begins] + 1)

    def objective(self, whole: SequenceObjective, counts: Floats) -> SequenceObjective:
        """Return the objective of pieces that were drawn so often, with their share of the prior."""
        own = np.flatnonzero(counts)
        begins, ends = self.begins[own], self.ends[own]
        walk = whole.walk.of_pieces(begins, ends, counts[own])
        share = float(counts[own] @ (ends - begins)) / whole.weight
        return replace(whole, walk=walk, prior=whole.prior * share)  # type: ignore[type-var]


def fit_chain(fit: ChainFit, init: Floats | str, n_init: int, random: np.random.Generator) -> Iterator[Multistart]:
    """Yield the state of a fit, again and again, until its runs have converged.

    It starts from given parameters, from `n_init` starts of the named initialiser, or is a "multistart" of which at
    most `n_init` candidates run until they have converged on all sequences.
    """
    if not isinstance(init, str):
        return fit.runs([Candidate("given", partial(np.copy, init))])
    if init != "multistart":
        kind = init
        return fit.runs([_candidate(kind, fit.distinct, random) for _ in range(n_init)])
    samples = fit.samples(random)
    how = (fit.stopping, fit.max_iter, fit.accelerate, fit.validation)
    first = cast("SequenceObjective", samples[0].objective) if len(samples) > 1 else fit.distinct
    pool = (_candidate(kind, first, random) for kind in cycle(first.pool))
    return multistart(samples, pool, *how, finalists=n_init)


def with_free_states(fit: ChainFit, pseudo_counts: float, sticky: float) -> ChainFit:
    """Return the fit in which states that are known are but another channel, which states show with errors."""

    def free(objective: SequenceObjective, *counts: float) -> SequenceObjective:
        layout = replace(objective.layout, known_states=False)
        return replace(objective, layout=layout, prior=layout.prior(*counts))  # type: ignore[type-var]

    held = None if fit.validation is None else free(fit.validation, 0.0, 0.0)
    return replace(fit, whole=free(fit.whole, pseudo_counts, sticky), validation=held)


def fit_with_known_states(fit: ChainFit, runs: Iterator[Multistart]) -> Iterator[Multistart]:
    """Yield the state of a fit with known states, again and again, until its runs have converged.

    `runs` are those of `with_free_states`. A run starts from each of them, its states numbered as they show known
    ones, and, where each label is one state, one from where states differ in nothing but what is known.
    """
    whole, layout = fit.whole, fit.whole.layout
    start = layout.even()
    here = whole.counted(start)
    if here.impossible >= 0:
        raise DataError(
            f"sequence {here.impossible} cannot have its known states: transitions= forbids that they follow"
        )
    candidates, found = [], None
    if layout.states_per_label == 1:
        candidates.append(Candidate("known states", lambda: start))
    # Where all states are known, there is one optimum.
    if not candidates or layout.parts(here.counts)[1][-1].sum() < (1.0 - 1e-9) * whole.weight:
        *_, found = runs
        for name, run in found.runs:
            candidates.append(Candidate(name, partial(_numbered, whole, run.parameters)))
    yield from fit.runs(candidates, found)


def _numbered(whole: SequenceObjective, parameters: Floats) -> Floats:
    """Return parameters with states numbered as those known ones that they are expected with (Hungarian)."""
    from scipy.optimize import linear_sum_assignment

    layout = whole.layout
    order = np.arange(layout.states)
    if layout.allowed[0].all():
        free = replace(whole, layout=replace(layout, known_states=False))  # type: ignore[type-var]
        shown = layout.parts(free.counted(parameters).counts)[1][-1]
        order = linear_sum_assignment(-np.repeat(shown.T, layout.states_per_label, axis=0))[1]
    return layout.mixed(layout.relabelled(parameters, order), MIXED)


def _candidate(kind: str, objective: SequenceObjective, random: np.random.Generator) -> Candidate:
    return Candidate(kind, partial(objective.initialisers[kind], objective, random))
