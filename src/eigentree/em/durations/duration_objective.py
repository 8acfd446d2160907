"""The objective of sequences under a hidden semi-Markov chain, and its fit."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from eigentree.em.chain_fit import ChainFit, ChainLayout, fit_chain
from eigentree.em.durations.duration_families import DURATIONS
from eigentree.em.multistart import Candidate
from eigentree.em.number_chains import NumberChainLayout, NumberChainObjective, markov_objective
from eigentree.em.optimize.objective import ExpectedCounts
from eigentree.inference.sequences.duration_chain import DurationChain, sequences_at_once
from eigentree.inference.sequences.duration_steps import DurationLinks
from eigentree.inference.sequences.number_steps import NumberPass
from eigentree.inference.threads import one_thread

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from eigentree.arrays import Floats, Integers
    from eigentree.data.sequences.sequence_codes import Sequences
    from eigentree.data.tables.columns import Columns
    from eigentree.em.durations.duration_families import DurationFamily, DurationName
    from eigentree.em.multistart import Multistart
    from eigentree.inference.sequences.number_steps import NumberCounts

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
    def of_durations(self) -> DurationFamily:
        """The family of the durations."""
        return DURATIONS[self.family]

    @cached_property
    def _durations_size(self) -> int:
        return self.states * self.of_durations.width(self.longest)

    @cached_property
    def free_count(self) -> int:
        """The number of free parameters, those of emissions and durations included."""
        tables = self.learned_count - int(self.learned[self._first].sum())
        numbers = sum(emission.n_parameters for emission in self.numbers.values())
        return tables + numbers + self.states * self.of_durations.free(self.longest)

    def prior(self, pseudo_counts: float, sticky: float) -> Floats:
        """Return the pseudo-count of each entry of the tables, and then of each parameter of durations."""
        return np.concatenate([super().prior(pseudo_counts, sticky), np.full(self._durations_size, pseudo_counts)])

    def with_durations(self, rest: Floats, durations: Floats) -> Floats:
        """Return the vector of all parameters, given those of tables and emissions, and those of durations."""
        return np.concatenate([rest, durations.ravel()])

    def durations(self, vector: Floats) -> Floats:
        """Return the parameters of the durations of each state, or what else stands in their place."""
        return vector[len(vector) - self._durations_size :].reshape(self.states, -1)

    def segments(self, tables: Floats, durations: Floats) -> DurationLinks:
        """Return where the chain starts, how long it stays, and where it moves on."""
        (links,), _ = self.parts(tables)
        return DurationLinks(links[0], links[1], self.of_durations.table(durations, self.longest))

    def chain_of(self, columns: Columns, vector: Floats) -> DurationChain:
        """Return the model that has these parameters."""
        tables, _ = self.split(vector)
        segments, shown = self.segments(tables, self.durations(vector)), self.parts(tables)[1]
        links = (segments.start, segments.moves)
        return DurationChain(columns, links, tuple(shown), (), self.numbered(vector), durations=segments.durations)

    def lifted(self, plain: ChainLayout, vector: Floats, durations: Floats | None = None) -> Floats:
        """Return parameters given those of a hidden Markov model, with its durations or a table of others."""
        tables, emissions = plain.split(vector) if isinstance(plain, NumberChainLayout) else (vector, [])
        moves = plain.parts(tables)[0][0][1]
        rest = self.whole(self.settled(tables), emissions)
        family = self.of_durations
        own = family.started(np.diag(moves), self.longest) if durations is None else family.nearest(durations)
        return self.with_durations(rest, own)

    def even(self) -> Floats:
        """Return parameters under which all states are alike but where they are known."""
        stay = np.full(self.states, 0.5)
        return self.with_durations(super().even(), self.of_durations.started(stay, self.longest))

    def relabelled(self, vector: Floats, order: Integers) -> Floats:
        """Return parameters of one chain with states in another order; what is known of states is as it was."""
        return self.with_durations(super().relabelled(vector, order), self.durations(vector)[order])

    def mixed(self, parameters: Floats, share: float) -> Floats:
        """Return parameters whose learned tables are mixed with a share of the uniform distribution."""
        return self.with_durations(super().mixed(parameters, share), self.durations(parameters))


class StateDurations(NamedTuple):
    """The parameters of the durations of all states, which EM maximises as it does those of an emission."""

    family: DurationFamily
    parameters: Floats
    pseudo_counts: float

    def log_prior(self) -> float:
        """Return the log density of the prior."""
        return self.family.log_prior(self.parameters, self.pseudo_counts)

    def maximised(self, statistics: tuple[Floats, Floats]) -> StateDurations:
        """Return those of highest expected log-likelihood, given which durations ended, and which were cut."""
        return self._replace(parameters=self.family.maximised(self.parameters, *statistics, self.pseudo_counts))


@dataclass(frozen=True, eq=False)
class DurationObjective(NumberChainObjective):
    """The objective of sequences under a hidden semi-Markov chain.

    `prior` has the pseudo-counts of tables and then those of durations.
    """

    layout: DurationLayout

    @classmethod
    def of(
        cls, layout: DurationLayout, sequences: Sequences, weights: Floats, prior: Floats, threads: int
    ) -> DurationObjective:
        """Return the objective of sequences."""
        together = sequences_at_once(layout.states, layout.longest) * (
            sequences.steps // max(sequences.count, 1) + 1
        )
        walk = NumberPass.of_distinct(sequences, weights, layout.numbers, threads, part_steps=together)
        return cls(layout, walk, prior)

    def parted(self, parameters: Floats) -> tuple[Floats, tuple[Any, ...]]:
        """Return the tables of a vector of parameters, end to end, the emissions, and last the durations."""
        tables, emissions = super().parted(parameters)
        return tables, (*emissions, self.lasting(self.layout.durations(parameters)))

    def lasting(self, durations: Floats) -> StateDurations:
        """Return the durations of all states, given their parameters."""
        layout = self.layout
        return StateDurations(layout.of_durations, durations, layout.durations(self.prior).flat[0])

    def whole(self, tables: Floats, emissions: Sequence[Any]) -> Floats:
        """Return the vector of tables, emissions and durations."""
        *emissions, lasting = emissions
        return self.layout.with_durations(self.layout.whole(tables, emissions), lasting.parameters)

    def found(self, tables: Floats, emissions: Sequence[Any]) -> NumberCounts:
        """Return what is expected of all sequences, given tables, emissions and durations."""
        *emissions, lasting = emissions
        segments = self.layout.segments(tables, lasting.parameters)
        with one_thread():
            return self.walk.counts(segments, self.layout.parts(tables)[1], emissions)

    def expected_links(self, parameters: Floats) -> list[Floats]:
        """Return how many steps are expected in each state."""
        return super().expected_links(parameters)[-1:]

    def log_likelihood(self, parameters: Floats) -> float:
        """Return the log-likelihood of the sequences; -inf if one is impossible."""
        return self.counted(parameters).log_likelihood

    def expected_parts(self, tables: Floats, emissions: Sequence[Any]) -> tuple[ExpectedCounts, list[Any]]:
        """Return expected counts of the tables, and statistics of emissions and of durations."""
        found = self.found(tables, emissions)
        counts = self.layout.joined(found.links[:2], found.tables)
        _, _, ended, censored, _ = found.links
        return ExpectedCounts(counts, *self.total(found.log_prob)), [*found.statistics, (ended, censored)]


def without_durations(fit: ChainFit, plain: ChainLayout, pseudo_counts: float) -> ChainFit:
    """Return the fit of a hidden Markov model to the same sequences."""
    if not isinstance(fit.whole, DurationObjective):
        return fit
    held = fit.validation
    validation = (
        markov_objective(held.walk, plain, plain.prior(0.0, 0.0)) if isinstance(held, DurationObjective) else None
    )
    whole = markov_objective(fit.whole.walk, plain, plain.prior(pseudo_counts, 0.0))
    return replace(fit, whole=whole, validation=validation)


def fit_with_durations(
    plain: ChainFit, fit: ChainFit, init: Floats | str, n_init: int, random: np.random.Generator
) -> Iterator[Multistart]:
    """Yield the state of a fit with durations, again and again, until its runs have converged.

    From given parameters it is one run. Else a hidden Markov model is fitted first, as `fit_chain` does, and a run
    starts from each of its runs on all data.
    """
    layout = fit.whole.layout
    assert isinstance(layout, DurationLayout)
    if not isinstance(init, str):
        yield from fit.runs([Candidate("given", partial(np.copy, init))])
        return
    *_, found = fit_chain(plain, init, n_init, random)
    below = plain.whole.layout
    candidates = [
        Candidate(name, partial(layout.lifted, below, run.parameters)) for name, run in found.runs[:n_init]
    ]
    yield from fit.runs(candidates, found)
