"""The objective of sequences under a hidden semi-Markov chain, and its fit."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from eigentree.em.chain_fit import ChainFit, ChainLayout, ChainObjective, SequenceObjective, fit_chain
from eigentree.em.durations.duration_families import DURATIONS
from eigentree.em.multistart import Candidate, run_each
from eigentree.em.number_chains import NumberChainLayout, NumberChainObjective
from eigentree.em.optimize.objective import Evaluation, ExpectedCounts
from eigentree.inference.sequences.duration_chain import DurationChain, sequences_at_once, steps_of
from eigentree.inference.sequences.duration_steps import DurationLinks, SegmentCounts, SegmentSteps
from eigentree.inference.sequences.input_chain import ShownCells, relative
from eigentree.inference.sequences.number_steps import NumberPass, sums_of_sequences
from eigentree.inference.sequences.sequence_passes import SequencePass, Symbols
from eigentree.inference.threads import in_order, one_thread

if TYPE_CHECKING:
    from collections.abc import Iterator

    from eigentree.arrays import Floats, Integers
    from eigentree.data.tables.columns import Columns
    from eigentree.em.durations.duration_families import DurationFamily, DurationName
    from eigentree.em.multistart import Multistart

__all__ = ["DurationLayout", "DurationObjective", "fit_with_durations", "without_durations"]


@dataclass(frozen=True, eq=False)
class DurationLayout(NumberChainLayout):
    """Where each parameter stands: the tables, the parameters of emissions, and those of durations.

    The transitions are those between segments: a state follows itself only where no other may.

    Attributes
    ----------
    family : DurationName
    longest : int
        The maximum duration.
    """

    family: DurationName = "explicit"
    longest: int = 1

    @classmethod
    def of_segments(cls, plain: ChainLayout, family: DurationName, longest: int) -> DurationLayout:
        """Return the layout of segments, given that of a hidden Markov model."""
        (allowed,) = plain.allowed
        others = allowed & ~np.eye(len(allowed), dtype=np.bool_)
        others |= np.eye(len(allowed), dtype=np.bool_) & ~others.any(axis=1, keepdims=True)
        numbers = plain.numbers if isinstance(plain, NumberChainLayout) else {}
        known = (plain.sizes, plain.order, plain.channels, (others,), plain.starts)
        return cls(*known, numbers, family=family, longest=longest, known_states=plain.known_states)

    @cached_property
    def _family(self) -> DurationFamily:
        return DURATIONS[self.family]

    @cached_property
    def _durations_size(self) -> int:
        return self.states * self._family.width(self.longest)

    @cached_property
    def free_count(self) -> int:
        """The number of free parameters, those of emissions and durations included."""
        tables = self.learned_count - int(self.learned[self._first].sum())
        numbers = sum(emission.n_parameters for emission in self.numbers.values())
        return tables + numbers + self.states * self._family.free(self.longest)

    def prior(self, pseudo_counts: float, sticky: float) -> Floats:
        """Return the pseudo-count of each entry of the tables, and then of each parameter of durations."""
        return np.concatenate([super().prior(pseudo_counts, sticky), np.full(self._durations_size, pseudo_counts)])

    def with_durations(self, rest: Floats, durations: Floats) -> Floats:
        """Return the vector of all parameters, given those of tables and emissions, and those of durations."""
        return np.concatenate([rest, durations.ravel()])

    def durations(self, vector: Floats) -> Floats:
        """Return the parameters of the durations of each state, or what else stands in their place."""
        return vector[len(vector) - self._durations_size :].reshape(self.states, -1)

    def segments(self, vector: Floats) -> DurationLinks:
        """Return where the chain starts, how long it stays, and where it moves on."""
        (links,), _ = self.parts(self.split(vector)[0])
        return DurationLinks(links[0], links[1], self._family.table(self.durations(vector), self.longest))

    def chain_of(self, columns: Columns, vector: Floats) -> DurationChain:
        """Return the model that has these parameters."""
        segments, shown = self.segments(vector), self.parts(self.split(vector)[0])[1]
        links = (segments.start, segments.moves)
        return DurationChain(columns, links, tuple(shown), (), self.numbered(vector), durations=segments.durations)

    def lifted(self, plain: ChainLayout, vector: Floats, durations: Floats | None = None) -> Floats:
        """Return parameters given those of a hidden Markov model, with its durations or a table of others."""
        tables, emissions = plain.split(vector) if isinstance(plain, NumberChainLayout) else (vector, [])
        moves = plain.parts(tables)[0][0][1]
        rest = self.whole(self.settled(tables), emissions)
        family = self._family
        own = family.started(np.diag(moves), self.longest) if durations is None else family.nearest(durations)
        return self.with_durations(rest, own)

    def even(self) -> Floats:
        """Return parameters under which all states are alike but where they are known."""
        stay = np.full(self.states, 0.5)
        return self.with_durations(super().even(), self._family.started(stay, self.longest))

    def relabelled(self, vector: Floats, order: Integers) -> Floats:
        """Return parameters of one chain with states in another order; what is known of states is as it was."""
        return self.with_durations(super().relabelled(vector, order), self.durations(vector)[order])

    def mixed(self, parameters: Floats, share: float) -> Floats:
        """Return parameters whose learned tables are mixed with a share of the uniform distribution."""
        return self.with_durations(super().mixed(parameters, share), self.durations(parameters))

    def maximised_durations(self, vector: Floats, found: SegmentCounts, prior: Floats) -> Floats:
        """Return the parameters of durations of highest expected log-likelihood, given pseudo-counts of each."""
        return self._family.maximised(self.durations(vector), found.ended, found.censored, prior.flat[0])

    def log_duration_prior(self, vector: Floats, prior: Floats) -> float:
        """Return the log density of the prior of durations, given pseudo-counts of each."""
        return self._family.log_prior(self.durations(vector), prior.flat[0])


class _DurationPart(NamedTuple):
    """Some of the sequences: their numbers, weights, and what their steps show."""

    numbers: Integers
    weights: Floats
    passes: SegmentSteps
    shown: ShownCells


class _ExpectedSegments(NamedTuple):
    """Expected counts of start and transitions, of segments, of each channel's codes, and numbers' statistics."""

    segments: SegmentCounts
    tables: list[Floats]
    statistics: list[Floats]


@dataclass(frozen=True, eq=False)
class DurationObjective(SequenceObjective):
    """The objective of sequences under a hidden semi-Markov chain.

    `prior` has the pseudo-counts of tables and then those of durations.
    """

    chain: DurationLayout
    walk: NumberPass
    prior: Floats

    is_accelerable = False

    @property
    def layout(self) -> DurationLayout:
        """Where each parameter stands."""
        return self.chain

    def without(self, plain: ChainLayout, pseudo_counts: float) -> SequenceObjective:
        """Return the objective of the same sequences under a hidden Markov model."""
        walk, prior = self.walk, plain.prior(pseudo_counts, 0.0)
        if isinstance(plain, NumberChainLayout):
            return NumberChainObjective(plain, walk, prior)
        symbols = Symbols.of(walk.codes, walk.columns.states)
        return ChainObjective(
            plain, SequencePass.of_distinct(symbols, walk.starts, walk.weights, walk.threads), prior
        )

    @cached_property
    def _parts(self) -> list[_DurationPart]:
        walk, layout = self.walk, self.layout
        lengths = np.diff(walk.starts)
        used = np.flatnonzero((lengths > 0) & (walk.weights > 0))
        order = used[np.argsort(-lengths[used], kind="stable")]
        together = sequences_at_once(layout.states, layout.longest)
        return [self._part(order[begin : begin + together]) for begin in range(0, len(order), together)]

    def _part(self, numbers: Integers) -> _DurationPart:
        walk = self.walk
        starts, steps = steps_of(walk.starts, numbers)
        which = np.zeros(len(steps), np.int64)
        shown = ShownCells.of(walk.columns, walk.codes[steps], walk.values[steps], which, walk.numbers)
        return _DurationPart(numbers, walk.weights[numbers], SegmentSteps(starts), shown)

    def _expected(self, parameters: Floats) -> tuple[_ExpectedSegments, Floats]:
        """Return what is expected of all sequences by weight, and the log probability of each."""
        layout, walk = self.layout, self.walk
        links, numbered = layout.segments(parameters), list(layout.numbered(parameters).values())
        shown = [table[None] for table in layout.parts(layout.split(parameters)[0])[1]]
        out = np.zeros(len(walk.starts) - 1)

        def expect(place: int) -> list[Floats]:
            part = self._parts[place]
            lines, highest = relative(part.shown.logs(shown, numbered, layout.states))
            found = part.passes.counts(links, lines, part.weights)
            out[part.numbers] = found.log_prob + sums_of_sequences(highest, part.passes.starts)
            tables = [own[0] for own in part.shown.counts(found.states, shown)]
            used = found.states.sum(axis=0)
            return [*found[:4], used, *tables, *part.shown.statistics(found.states, numbered)]

        with one_thread():
            first, *more = in_order(expect, len(self._parts), walk.threads)
            for other in more:
                first = [a + b for a, b in zip(first, other, strict=True)]
        channels = len(layout.channels)
        start, moves, ended, censored, used = first[:5]
        segments = SegmentCounts(start, moves, ended, censored, used, out)
        return _ExpectedSegments(segments, first[5 : 5 + channels], first[5 + channels :]), out

    def expected_links(self, parameters: Floats) -> list[Floats]:
        """Return how many steps are expected in each state."""
        return [self._expected(parameters)[0].segments.states]

    def log_likelihood(self, parameters: Floats) -> float:
        """Return the log-likelihood of the sequences; -inf if one is impossible."""
        return self.total(self._expected(parameters)[1])[0]

    def counted(self, parameters: Floats) -> ExpectedCounts:
        """Return the expected counts of the tables and the log-likelihood of all sequences."""
        found, log_prob = self._expected(parameters)
        return ExpectedCounts(self._counts(found), *self.total(log_prob))

    def _counts(self, found: _ExpectedSegments) -> Floats:
        return self.layout.joined([found.segments.start, found.segments.moves], found.tables)

    def total(self, log_prob: Floats) -> tuple[float, int]:
        """Return the log-likelihood, and the user's number of a sequence that is impossible, or -1."""
        log_likelihood, impossible = super().total(log_prob)
        origins = self.walk.origins
        return log_likelihood, impossible if impossible < 0 or origins is None else int(origins[impossible])

    def evaluated(self, parameters: Floats) -> Evaluation:
        """Return the objective of some parameters and the EM iteration from them, by one pass over the data."""
        layout = self.layout
        tables, emissions = layout.split(parameters)
        found, log_prob = self._expected(parameters)
        objective, impossible = self.total(log_prob)
        of_tables, of_durations = self.prior[: len(tables)], layout.durations(self.prior)
        if (own := of_tables > 0).any():
            with np.errstate(divide="ignore"):
                objective += float(of_tables[own] @ np.log(tables[own]))
        objective += layout.log_duration_prior(parameters, of_durations)
        objective += sum(emission.log_prior() for emission in emissions)
        counts = np.where(layout.learned, self._counts(found) + of_tables, 0.0)
        durations = layout.durations(parameters)
        if impossible < 0:
            pairs = zip(emissions, found.statistics, strict=True)
            emissions = [emission.maximised(own) for emission, own in pairs]
            durations = layout.maximised_durations(parameters, found.segments, of_durations)
        update = layout.with_durations(layout.whole(layout.normalised(counts, tables), emissions), durations)
        totals = np.zeros(len(update))
        totals[: len(counts)] = layout.totals(counts)
        return Evaluation(parameters, update, totals, objective, impossible)


def without_durations(fit: ChainFit, plain: ChainLayout, pseudo_counts: float) -> ChainFit:
    """Return the fit of a hidden Markov model to the same sequences."""
    if not isinstance(fit.whole, DurationObjective):
        return fit
    held = fit.validation
    validation = held.without(plain, 0.0) if isinstance(held, DurationObjective) else None
    return replace(fit, whole=fit.whole.without(plain, pseudo_counts), validation=validation)


def fit_with_durations(
    plain: ChainFit, fit: ChainFit, init: Floats | str, n_init: int, random: np.random.Generator
) -> Iterator[Multistart]:
    """Yield the state of a fit with durations, again and again, until its runs have converged.

    From given parameters it is one run. Else a hidden Markov model is fitted first, as `fit_chain` does, and a run
    starts from each of its runs on all data.
    """
    layout, sample = fit.whole.layout, fit.sample
    assert isinstance(layout, DurationLayout)
    how = (fit.stopping, fit.max_iter, fit.accelerate, fit.validation)
    if not isinstance(init, str):
        yield from run_each(sample, [Candidate("given", partial(np.copy, init))], *how)
        return
    *_, found = fit_chain(plain, init, n_init, random)
    below = plain.whole.layout
    candidates = [
        Candidate(name, partial(layout.lifted, below, run.parameters)) for name, run in found.runs[:n_init]
    ]
    yield from run_each(sample, candidates, *how, before=found)
