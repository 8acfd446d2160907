"""Forward and backward passes under transitions that differ from step to step, all sequences one step at a time."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np

from eigentree.inference.sequences.number_steps import LinkCounts, MarkovLinks

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from eigentree.arrays import Floats, Integers
    from eigentree.inference.sequences.number_steps import Part

__all__ = ["InputLinks", "StepMajor", "chosen"]

Values = TypeVar("Values", bound="NDArray[Any]")


class InputLinks(NamedTuple):
    """Where a chain starts and moves on, for each input.

    Attributes
    ----------
    start : array, shape (inputs, states)
        P(first state | input); of one input, where it depends on none.
    moves : array, shape (inputs, states, states)
        P(state | state before, input); likewise.
    """

    start: Floats
    moves: Floats

    def starts_of(self, which: Integers) -> Floats:
        """Return the distributions of first states at steps, given the input of each."""
        return self.start[which * (len(self.start) > 1)]

    def moves_of(self, which: Integers) -> Floats:
        """Return the transitions to steps, given the input of each."""
        return self.moves[which * (len(self.moves) > 1)]

    def expected(self, part: Part, lines: Floats) -> LinkCounts:
        """Return what is expected of sequences, given the likelihood of each step in each state."""
        which = part.shown.which
        if len(self.moves) > 1:
            return StepMajor(part.starts).counts(self, which, lines, part.weights)
        # The transitions are those of a Markov chain, and P(first state | input) is part of what first steps show.
        first = part.starts[:-1]
        lines[first] *= self.starts_of(which[first])
        found = MarkovLinks([np.ones(self.start.shape[1]), self.moves[0]]).expected(part, lines)
        start = _summed(found.states[first], which[first] * (len(self.start) > 1), len(self.start))
        return found._replace(links=[start, found.links[1][None]])


@dataclass(frozen=True, eq=False)
class StepMajor:
    """The order of steps in which all first steps of sequences stand first, then all second ones, and so on.

    Within each, longer sequences stand first, so that the ones that go on are always the first.

    Attributes
    ----------
    starts : array of int, shape (sequences + 1,)
        Where each sequence starts, as steps stand otherwise.
    """

    starts: Integers

    @cached_property
    def ends(self) -> list[int]:
        """Where the first, second, … steps end."""
        return [int(end) for end in np.cumsum(self._active)]

    @cached_property
    def _active(self) -> Integers:
        """How many sequences have a first, second, … step."""
        lengths = np.sort(np.diff(self.starts))
        return len(lengths) - np.searchsorted(lengths, np.arange(lengths.max(initial=0)), side="right")

    @cached_property
    def _lane(self) -> Integers:
        """The place of each step's sequence among the longest."""
        ends = np.cumsum(self._active)
        return np.arange(ends[-1] if len(ends) else 0) - np.repeat(ends - self._active, self._active)

    @cached_property
    def sequence(self) -> Integers:
        """The sequence of each step."""
        order = np.argsort(-np.diff(self.starts), kind="stable")
        return order[self._lane]

    @cached_property
    def steps(self) -> Integers:
        """Which step each is, as steps stand otherwise."""
        return self.starts[self.sequence] + np.repeat(np.arange(len(self._active)), self._active)

    @cached_property
    def before(self) -> Integers:
        """For each step but the first ones, the place of the one before it in this order."""
        first = self.ends[0] if self.ends else 0
        ends = np.cumsum(self._active)
        return np.repeat((ends - self._active)[:-1], self._active[1:]) + self._lane[first:]

    @property
    def spans(self) -> list[tuple[int, int, int]]:
        """Of the second, third, … steps: where those before them begin, where they begin, and where they end."""
        return list(zip([0, *self.ends], self.ends, self.ends[1:], strict=False))

    def placed(self, values: Values) -> Values:
        """Return values of steps of this order as steps stand otherwise."""
        made: Values = np.empty_like(values)
        made[self.steps] = values
        return made

    def sums(self, values: Floats) -> Floats:
        """Return the sum of values of steps of this order over each sequence."""
        return np.asarray(np.bincount(self.sequence, values, len(self.starts) - 1), np.float64)

    def forward(self, links: InputLinks, which: Integers, lines: Floats) -> tuple[Floats, Floats]:
        """Return P(state | steps so far) and P(step | steps before) of each step, both in this order.

        Parameters
        ----------
        links : InputLinks
        which : array of int, shape (steps,)
            The input of each step, as steps stand otherwise.
        lines : array, shape (steps, states)
            P(cells of the step | state).
        """
        which = which[self.steps]
        alpha = lines[self.steps]
        scales = np.zeros(len(alpha))
        if not len(alpha):
            return alpha, scales
        first = slice(0, self.ends[0])
        alpha[first] *= links.starts_of(which[first])
        _normalise(alpha, scales, first)
        for earlier, begin, end in self.spans:
            now = slice(begin, end)
            previous = alpha[earlier : earlier + end - begin, None, :]
            alpha[now] *= (previous @ links.moves_of(which[now]))[:, 0, :]
            _normalise(alpha, scales, now)
        return alpha, scales

    def backward(self, links: InputLinks, which: Integers, lines: Floats, scales: Floats) -> tuple[Floats, Floats]:
        """Return the messages from later steps, and those of each step to the one before it, before transitions.

        Both are in this order, and scaled as `forward` scales.
        """
        which, lines = which[self.steps], lines[self.steps]
        with np.errstate(divide="ignore", invalid="ignore"):
            lines = np.where(scales[:, None] > 0, lines / scales[:, None], 0.0)
        beta = np.ones_like(lines)
        for earlier, begin, end in reversed(self.spans):
            now = slice(begin, end)
            lines[now] *= beta[now]
            beta[earlier : earlier + end - begin] = (links.moves_of(which[now]) @ lines[now, :, None])[:, :, 0]
        return beta, lines

    def smoothed(self, links: InputLinks, which: Integers, lines: Floats) -> Floats:
        """Return P(state | all steps of its sequence), as steps stand otherwise; zeros where it is impossible."""
        alpha, scales = self.forward(links, which, lines)
        beta, _ = self.backward(links, which, lines, scales)
        return self.placed(self._posteriors(alpha, beta))

    def counts(self, links: InputLinks, which: Integers, lines: Floats, weights: Floats) -> LinkCounts:
        """Return what is expected of all sequences, which count so often."""
        alpha, scales = self.forward(links, which, lines)
        beta, later = self.backward(links, which, lines, scales)
        first = self.ends[0] if self.ends else 0
        own = weights[self.sequence][:, None]
        posteriors = self._posteriors(alpha, beta) * own
        inputs = which[self.steps]
        start = _summed(posteriors[:first], inputs[:first] * (len(links.start) > 1), len(links.start))
        later = later[first:] * own[first:]
        pairs = (alpha[self.before][:, :, None] * later[:, None, :]).reshape(len(later), -1)
        moves = _summed(pairs, inputs[first:] * (len(links.moves) > 1), len(links.moves))
        with np.errstate(divide="ignore"):
            log_prob = self.sums(np.log(scales))
        moves = moves.reshape(links.moves.shape) * links.moves
        return LinkCounts([start, moves], self.placed(posteriors), log_prob)

    def decoded(self, links: InputLinks, which: Integers, logs: Floats) -> tuple[Integers, Floats]:
        """Return the jointly most probable states (Viterbi), -1 where a sequence is impossible, and their logs.

        `logs` are the log probabilities of the cells of each step in each state.
        """
        which, best = which[self.steps], logs[self.steps]
        choice = np.zeros(best.shape, np.int64)
        with np.errstate(divide="ignore"):
            start, moves = (np.log(table) for table in links)
        logged = InputLinks(start, moves)
        first = self.ends[0] if self.ends else 0
        best[:first] += logged.starts_of(which[:first])
        for earlier, begin, end in self.spans:
            now = slice(begin, end)
            ways = best[earlier : earlier + end - begin, :, None] + logged.moves_of(which[now])
            choice[now] = ways.argmax(axis=1)
            best[now] += ways.max(axis=1)
        states = best.argmax(axis=1)
        found = np.zeros(len(self.starts) - 1)
        # The last step of each sequence is written last.
        found[self.sequence] = best.max(axis=1)
        for earlier, begin, end in reversed(self.spans):
            states[earlier : earlier + end - begin] = choice[np.arange(begin, end), states[begin:end]]
        states = np.where(np.isneginf(found)[self.sequence], -1, states)
        return self.placed(states), found

    def sampled(self, links: InputLinks, which: Integers, lines: Floats, random: np.random.Generator) -> Integers:
        """Return states that are sampled given all steps of each sequence; -1 where it is impossible."""
        alpha, scales = self.forward(links, which, lines)
        which = which[self.steps]
        states = np.zeros(len(alpha), np.int64)
        draws = random.random(len(alpha))
        blocks = zip([0, *self.ends], self.ends, [*self.ends[1:], *self.ends[-1:]], strict=False)
        for begin, end, later in reversed(list(blocks)):
            shares = alpha[begin:end].copy()
            on = later - end
            if on:
                moves = links.moves_of(which[end:later])
                shares[:on] *= moves[np.arange(on), :, states[end:later]]
            states[begin:end] = chosen(shares, draws[begin:end])
        possible = self.sums((scales <= 0).astype(np.float64)) == 0
        return self.placed(np.where(possible[self.sequence], states, -1))

    def drawn(self, links: InputLinks, which: Integers, random: np.random.Generator) -> Integers:
        """Return the states of new sequences, as steps stand otherwise."""
        which = which[self.steps]
        states = np.zeros(len(which), np.int64)
        draws = random.random(len(which))
        first = self.ends[0] if self.ends else 0
        states[:first] = chosen(links.starts_of(which[:first]), draws[:first])
        for earlier, begin, end in self.spans:
            previous = states[earlier : earlier + end - begin]
            shares = links.moves_of(which[begin:end])[np.arange(end - begin), previous]
            states[begin:end] = chosen(shares, draws[begin:end])
        return self.placed(states)

    def _posteriors(self, alpha: Floats, beta: Floats) -> Floats:
        """Return the product of messages, normalised; zeros where a sequence is impossible."""
        joint = alpha * beta
        totals = joint.sum(axis=1, keepdims=True)
        found: Floats = np.divide(joint, totals, out=np.zeros_like(joint), where=totals > 0)
        return found


def chosen(shares: Floats, draws: Floats) -> Integers:
    """Return a state for each row of shares, by a uniform number in [0, 1) each."""
    ends = np.cumsum(shares, axis=1)
    return np.asarray((draws[:, None] * ends[:, -1:] >= ends[:, :-1]).sum(axis=1))


def _normalise(messages: Floats, scales: Floats, own: slice) -> None:
    scales[own] = messages[own].sum(axis=1)
    messages[own] /= np.where(scales[own] > 0, scales[own], 1.0)[:, None]


def _summed(values: Floats, groups: Integers, count: int) -> Floats:
    """Return the sum of the rows of each group, shape (groups, columns)."""
    return np.stack([np.bincount(groups, column, count) for column in values.T], axis=1)
