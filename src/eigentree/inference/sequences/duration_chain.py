"""`DurationChain`: a hidden semi-Markov model, whose stays in a state have a distribution, and exact inference."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from eigentree.inference.sequences.duration_steps import (
    DurationLinks,
    SegmentSteps,
    after_steps,
    drawn_segments,
)
from eigentree.inference.sequences.hmm_chain import Chain
from eigentree.inference.sequences.number_steps import ShownSteps
from eigentree.inference.sequences.sequence_passes import sums_of_sequences
from eigentree.inference.threads import in_order
from eigentree.validation import check_cells

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

    from eigentree.arrays import Floats, Integers
    from eigentree.data.sequences.sequence_codes import Sequences
    from eigentree.inference.networks.network import LatentNetwork

Values = TypeVar("Values", bound="NDArray[Any]")

__all__ = ["DurationChain", "sequences_at_once", "steps_of"]

MESSAGE_NUMBERS = 2**17
"""Numbers in the messages of one step of all sequences that are worked on together: they stay in the processor's
cache, and are enough for a call of numpy."""


@dataclass(frozen=True, eq=False)
class DurationChain(Chain):
    """A homogeneous hidden semi-Markov model: a chain of segments, each with a state and a duration.

    Attributes
    ----------
    columns, links, emissions, numbers
        As those of `Chain`; the links are those of segments.
    durations : array, shape (states, longest)
        P(duration | state) of 1, 2, … steps.
    """

    durations: Floats = field(kw_only=True)

    @cached_property
    def segments(self) -> DurationLinks:
        """Where the chain starts, how long it stays, and where it moves on."""
        start, moves = self.links
        return DurationLinks(start, moves, self.durations)

    @property
    def mean_durations(self) -> Floats:
        """The mean duration of each state."""
        mean: Floats = self.durations @ np.arange(1.0, self.durations.shape[1] + 1)
        return mean

    def _parts(self, sequences: Sequences) -> Iterator[tuple[Integers, Sequences]]:
        """Yield sequences that are worked on together, the longest first, and their numbers."""
        order = np.argsort(-sequences.lengths, kind="stable")
        together = sequences_at_once(*self.durations.shape)
        for begin in range(0, max(1, len(order)), together):
            own = order[begin : begin + together]
            yield own, sequences.chosen(own)

    def _lines(self, sequences: Sequences) -> tuple[Floats, Floats]:
        """Return the likelihood of each step in each state over a high one of the step, and the log of that."""
        steps = ShownSteps.of(self.columns, sequences.codes, sequences.values, self.numbers)
        return steps.likelihoods(self.emissions, list(self.numbers.values()))

    def _of_steps(self, sequences: Sequences, work: Callable[[SegmentSteps, Floats], Values]) -> Values:
        """Return what some work gives for each step, part by part of the sequences."""
        parts = list(self._parts(sequences))
        found = [work(SegmentSteps(part.starts), self._lines(part)[0]) for _, part in parts]
        together: Any = np.concatenate(found)
        made: Values = np.empty_like(together)
        made[np.concatenate([steps_of(sequences.starts, own)[1] for own, _ in parts])] = together
        return made

    def log_prob(self, sequences: Sequences, threads: int = 1) -> Floats:
        """Return the log probability of each sequence, missing cells marginalised out; -inf if it is impossible."""
        out, parts = np.zeros(sequences.count), list(self._parts(sequences))

        def score(place: int) -> None:
            own, part = parts[place]
            lines, highest = self._lines(part)
            steps = SegmentSteps(part.starts)
            found = steps.log_prob(steps.forward(self.segments, lines))
            out[own] = found + sums_of_sequences(highest, part.starts)

        list(in_order(score, len(parts), threads))
        return out

    def filtered(self, sequences: Sequences) -> tuple[Floats, Floats]:
        """Return P(state | steps so far) of each step, and at the end of each sequence, zeros of an empty one."""

        def state(steps: SegmentSteps, lines: Floats) -> Floats:
            return steps.order.placed(steps.forward(self.segments, lines).state)

        found = self._of_steps(sequences, state)
        ends = np.zeros((sequences.count, self.states))
        own = sequences.lengths > 0
        ends[own] = found[sequences.starts[1:][own] - 1]
        return found, ends

    def smoothed(self, sequences: Sequences) -> Floats:
        """Return P(state | all steps of its sequence), shape (steps, states); zeros where that is impossible."""
        return self._of_steps(sequences, lambda steps, lines: steps.smoothed(self.segments, lines))

    def decoded(self, sequences: Sequences) -> tuple[Integers, Floats]:
        """Return the jointly most probable states of all steps, and their log probability with each sequence."""
        states, out = np.zeros(sequences.steps, np.int64), np.zeros(sequences.count)
        for own, part in self._parts(sequences):
            lines, highest = self._lines(part)
            with np.errstate(divide="ignore"):
                found, best = SegmentSteps(part.starts).decoded(self.segments, np.log(lines))
            out[own] = best + sums_of_sequences(highest, part.starts)
            states[steps_of(sequences.starts, own)[1]] = found
        return states, out

    def sampled_states(self, sequences: Sequences, random: np.random.Generator) -> Integers:
        """Return the hidden states of all steps, sampled given the sequences; -1 where one is impossible."""
        return self._of_steps(sequences, lambda steps, lines: steps.sampled(self.segments, lines, random))

    def drawn_states(self, starts: Integers, random: np.random.Generator) -> Integers:
        """Return the hidden states of new sequences, end to end."""
        return drawn_segments(self.segments, starts, random)

    def states_ahead(self, sequences: Sequences, steps: int) -> Floats:
        """Return P(state so many steps after the end | sequence), shape (sequences, states)."""
        state = np.zeros((sequences.count, self.states))
        for own, part in self._parts(sequences):
            last = SegmentSteps(part.starts).forward(self.segments, self._lines(part)[0]).last
            state[own] = after_steps(self.segments, last, part.lengths == 0, steps)[-1]
        return state

    def shares(self, length: int) -> Floats:
        """Return how often each state is expected, as a share of so many steps from the beginning of a sequence."""
        alive = np.zeros((self.states, 1, self.durations.shape[1]))
        every = after_steps(self.segments, alive, np.ones(1, np.bool_), length)
        return np.asarray(np.mean(every, axis=0)[0])

    def expanded(self) -> Chain:
        """Return the same as a hidden Markov model, whose states are a state and how long it has lasted.

        State s in its step d has the number ``s * longest + d - 1``.
        """
        links, (states, longest) = self.segments, self.durations.shape
        check_cells("the transitions of all durations", (states * longest) ** 2, "lower max_duration")
        start = np.zeros((states, longest))
        start[:, 0] = links.start
        moves = np.zeros((states, longest, states, longest))
        moves[:, :, :, 0] = links.leave[:, :, None] * links.moves[:, None, :]
        for state in range(states):
            here = np.arange(longest - 1)
            moves[state, here, state, here + 1] += links.stay[state]
        whole = np.arange(states * longest) // longest
        numbers = {group: emission.permuted(whole) for group, emission in self.numbers.items()}
        tables = [table[whole] for table in self.emissions]
        return Chain.of(self.columns, [[start.ravel(), moves.reshape(len(whole), len(whole))]], tables, numbers)

    def network(self, length: int) -> LatentNetwork:
        """Return the network of sequences of one length, whose hidden states are those of `expanded`."""
        return self.expanded().network(length)

    def permuted(self, orders: Sequence[Integers]) -> DurationChain:
        """Return the same with states in another order: state i is now ``order[i]``, of the only order."""
        plain = super().permuted(orders)
        return DurationChain(
            self.columns, plain.links, plain.emissions, (), plain.numbers, durations=self.durations[orders[0]]
        )


def sequences_at_once(states: int, longest: int) -> int:
    """Return how many sequences are worked on together."""
    return max(1, MESSAGE_NUMBERS // (states * longest))


def steps_of(starts: Integers, numbers: Integers) -> tuple[Integers, Integers]:
    """Return where some sequences start end to end, and which steps theirs are, given where all start."""
    lengths = np.diff(starts)[numbers]
    own = np.concatenate([[0], np.cumsum(lengths)])
    return own, np.repeat(starts[numbers] - own[:-1], lengths) + np.arange(own[-1])
