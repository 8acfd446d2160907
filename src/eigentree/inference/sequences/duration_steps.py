"""Forward and backward passes under a hidden semi-Markov chain, all sequences one step at a time.

A segment is a stay in one state. The chain is one on pairs of a state and how long it has lasted, where each pair
has but one way on within its segment: so a step costs K D + K^2 for K states and durations up to D (Yu and
Kobayashi, 2003), and the backward pass needs beginnings and ends of segments only (Guedon, 2003). The first segment
begins at the first step; of the one in which a sequence ends only the least duration is known.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np

from eigentree.inference.sequences.sequence_passes import LinkCounts
from eigentree.inference.sequences.tree_steps import chosen

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from eigentree.arrays import Booleans, Floats, Integers
    from eigentree.inference.sequences.number_steps import Part

__all__ = ["DurationLinks", "SegmentSteps", "after_steps", "drawn_segments"]

Values = TypeVar("Values", bound="NDArray[Any]")

LARGEST = 1e300
"""Messages from later steps are at most so large: where they were larger, those from earlier ones are about 0."""


@dataclass(frozen=True, eq=False)
class DurationLinks:
    """Where a semi-Markov chain starts, how long it stays in each state, and where it moves on.

    Attributes
    ----------
    start : array, shape (states,)
    moves : array, shape (states, states)
        P(state of the next segment | that of this one).
    durations : array, shape (states, longest)
        P(duration | state) of 1, 2, … steps.
    """

    start: Floats
    moves: Floats
    durations: Floats

    @cached_property
    def at_least(self) -> Floats:
        """P(a segment has so many steps or more | state), shape (states, longest)."""
        return np.minimum(np.cumsum(self.durations[:, ::-1], axis=1)[:, ::-1], 1.0)

    @cached_property
    def leave(self) -> Floats:
        """P(a segment ends after so many steps | it has so many or more), shape (states, longest)."""
        known = self.at_least > 0
        return np.divide(self.durations, self.at_least, out=np.ones_like(self.durations), where=known)

    @cached_property
    def stay(self) -> Floats:
        """P(a segment has one more step | it has so many or more), shape (states, longest - 1)."""
        before = self.at_least[:, :-1]
        return np.divide(self.at_least[:, 1:], before, out=np.zeros_like(before), where=before > 0)

    def expected(self, part: Part, lines: Floats) -> LinkCounts:
        """Return what is expected of sequences, given the likelihood of each step in each state.

        Counts are of start and moves, of segments that were seen to end and of those cut by the end of a sequence,
        both of shape (states, longest), and of states.
        """
        return SegmentSteps(part.starts).counts(self, lines, part.weights)


class Forward(NamedTuple):
    """Messages from earlier steps, in the order of `StepMajor`.

    Attributes
    ----------
    enter : array, shape (steps, states)
        P(a segment begins here, in this state | steps before).
    ended : array, shape (steps, states)
        P(a segment ends here, in this state | steps so far).
    state : array, shape (steps, states)
        P(state | steps so far).
    scales : array, shape (steps,)
        P(step | steps before).
    last : array, shape (states, sequences, longest)
        P(state, so long in it | all steps) at the end of each sequence; zeros of an empty one.
    """

    enter: Floats
    ended: Floats
    state: Floats
    scales: Floats
    last: Floats


class Backward(NamedTuple):
    """Messages from later steps, in the order of `StepMajor`, scaled as `Forward` scales.

    Attributes
    ----------
    onward : array, shape (steps, states)
        From this step and all later ones, to a segment that begins here.
    after : array, shape (steps, states)
        From all later steps, to a segment that ends here; zeros at the end of a sequence.
    posteriors : array, shape (steps, states)
        P(state | all steps); zeros where a sequence is impossible.
    ended : array, shape (states, longest)
        The expected number of segments that were seen to end after so many steps, by weight.
    censored : array, shape (states, longest)
        That of segments in which a sequence ended, by how many steps of them were seen.
    """

    onward: Floats
    after: Floats
    posteriors: Floats
    ended: Floats
    censored: Floats


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

    def placed(self, values: Values) -> Values:
        """Return values of steps of this order as steps stand otherwise."""
        made: Values = np.empty_like(values)
        made[self.steps] = values
        return made

    def sums(self, values: Floats) -> Floats:
        """Return the sum of values of steps of this order over each sequence."""
        return np.asarray(np.bincount(self.sequence, values, len(self.starts) - 1), np.float64)


@dataclass(frozen=True, eq=False)
class SegmentSteps:
    """Sequences whose steps are passed through together, given where each starts.

    What a step shows are `lines`, P(its cells | state) as steps stand otherwise, shape (steps, states).
    """

    starts: Integers

    @cached_property
    def order(self) -> StepMajor:
        """The order in which all first steps stand first, then all second ones, and so on."""
        return StepMajor(self.starts)

    @cached_property
    def _blocks(self) -> list[tuple[int, int]]:
        """Where the first, second, … steps begin and end."""
        return list(zip([0, *self.order.ends], self.order.ends, strict=False))

    @cached_property
    def _remaining(self) -> Integers:
        """For each step, how many its sequence has from it on."""
        found: Integers = self.starts[self.order.sequence + 1] - self.order.steps
        return found

    def forward(self, links: DurationLinks, lines: Floats) -> Forward:
        """Return the messages from earlier steps."""
        lines = lines[self.order.steps]
        enter, ended, state = (np.zeros_like(lines) for _ in range(3))
        scales = np.zeros(len(lines))
        states, longest = links.durations.shape
        last = np.zeros((states, len(self.starts) - 1, longest))
        width = self._blocks[0][1] if self._blocks else 0
        alive, fresh = np.zeros((2, states, width, longest))
        sums = np.stack([links.leave, np.ones_like(links.leave)], axis=2)
        previous, entry = np.ones((width, 1)), np.broadcast_to(links.start, (width, states))
        for begin, end in self._blocks:
            count, shown = end - begin, lines[begin:end]
            enter[begin:end] = entry[:count]
            now = fresh[:, :count]
            np.multiply(alive[:, :count, :-1], links.stay[:, None], out=now[:, :, 1:])
            now[:, :, 1:] *= (shown / previous[:count]).T[:, :, None]
            now[:, :, 0] = (entry[:count] * shown).T
            both = now @ sums
            scale = both[:, :, 1].sum(axis=0)
            scales[begin:end] = scale
            previous = np.where(scale > 0, scale, 1.0)[:, None]
            ended[begin:end], state[begin:end] = both[:, :, 0].T / previous, both[:, :, 1].T / previous
            entry = ended[begin:end] @ links.moves
            over = self._remaining[begin:end] == 1
            last[:, self.order.sequence[begin:end][over]] = now[:, over] / previous[over]
            alive, fresh = fresh, alive
        return Forward(enter, ended, state, scales, last)

    def backward(self, links: DurationLinks, lines: Floats, found: Forward, weights: Floats) -> Backward:
        """Return the messages from later steps, and what they say together with those from earlier ones."""
        lines, scales = lines[self.order.steps], found.scales[:, None]
        lines = np.divide(lines, scales, out=np.zeros_like(lines), where=scales > 0)
        onward, after, posteriors = np.zeros_like(lines), np.zeros_like(lines), found.state.copy()
        states, longest = links.durations.shape
        width = self._blocks[0][1] if self._blocks else 0
        ahead, fresh = np.zeros((2, states, width, longest))
        ended, of_lanes = np.zeros((states, longest)), weights[self.order.sequence]
        # P(a segment that begins here lasts to the end of its sequence).
        at_least = np.concatenate([links.at_least, np.zeros((states, 1))], axis=1).T
        least = at_least[np.minimum(self._remaining, longest + 1) - 1]
        window, censored = np.ones((width, states)), np.zeros_like(lines)
        later = 0
        for begin, end in reversed(self._blocks):
            count, shown = end - begin, lines[begin:end]
            on = slice(end, end + later)
            after[begin : begin + later] = onward[on] @ links.moves.T
            now = fresh[:, :count]
            with np.errstate(over="ignore"):
                np.multiply(ahead[:, :count, :-1], shown.T[:, :, None], out=now[:, :, 1:])
                now[:, :, 0] = (after[begin:end] * shown).T
                window[:count] = np.minimum(window[:count] * shown, LARGEST)
            np.minimum(now, LARGEST, out=now)
            to_the_end = window[:count] * least[begin:end]
            onward[begin:end] = (now @ links.durations[:, :, None])[:, :, 0].T + to_the_end
            entered = found.enter[begin:end] * of_lanes[begin:end, None]
            censored[begin:end] = entered * to_the_end
            ended += (entered.T[:, None] @ now)[:, 0]
            ends = found.ended[begin : begin + later] * after[begin : begin + later]
            begins = found.enter[on] * onward[on]
            posteriors[begin : begin + later] = np.maximum(posteriors[on] - begins + ends, 0.0)
            ahead, fresh, later = fresh, ahead, count
        short = self._remaining <= longest
        places = self._remaining[short] - 1
        lost = [np.bincount(places, own[short], longest) for own in censored.T]
        return Backward(onward, after, posteriors, ended * links.durations, np.array(lost, np.float64))

    def log_prob(self, found: Forward) -> Floats:
        """Return the log probability of each sequence; -inf if it is impossible."""
        with np.errstate(divide="ignore"):
            return self.order.sums(np.log(found.scales))

    def counts(self, links: DurationLinks, lines: Floats, weights: Floats) -> LinkCounts:
        """Return what is expected of all sequences, which count so often."""
        found = self.forward(links, lines)
        back = self.backward(links, lines, found, weights)
        own = weights[self.order.sequence][:, None]
        first = self.order.ends[0] if self.order.ends else 0
        start = (own * found.enter * back.onward)[:first].sum(axis=0)
        moves = (own * back.onward)[first:].T @ found.ended[self.order.before]
        states = self.order.placed(back.posteriors * own)
        counts = [start, moves.T * links.moves, back.ended, back.censored, states.sum(axis=0)]
        return LinkCounts(counts, states, self.log_prob(found))

    def smoothed(self, links: DurationLinks, lines: Floats) -> Floats:
        """Return P(state | all steps of its sequence), as steps stand otherwise; zeros where it is impossible."""
        found = self.forward(links, lines)
        ones = np.ones(len(self.starts) - 1)
        return self.order.placed(self.backward(links, lines, found, ones).posteriors)

    def decoded(self, links: DurationLinks, logs: Floats) -> tuple[Integers, Floats]:
        """Return the jointly most probable states (Viterbi), -1 where a sequence is impossible, and their logs.

        The most probable segments: states and durations together. `logs` are the log probabilities of the cells of
        each step in each state.
        """
        logs = logs[self.order.steps]
        states, longest = links.durations.shape
        with np.errstate(divide="ignore"):
            start, moves = np.log(links.start), np.log(links.moves)
            durations, at_least = np.log(links.durations), np.log(links.at_least)
        origin, lasted, open_since = (np.zeros(logs.shape, np.int64) for _ in range(3))
        final = np.full(logs.shape, -np.inf)
        width = self._blocks[0][1] if self._blocks else 0
        alive, fresh = np.full((2, states, width, longest), -np.inf)
        entry = np.broadcast_to(start, (width, states))
        for begin, end in self._blocks:
            count = end - begin
            now = fresh[:, :count]
            now[:, :, 1:] = alive[:, :count, :-1]
            now[:, :, 0] = entry[:count].T
            now += logs[begin:end].T[:, :, None]
            whole = now + durations[:, None]
            lasted[begin:end] = whole.argmax(axis=2).T
            ways = whole.max(axis=2).T[:, :, None] + moves
            over = self._remaining[begin:end] == 1
            cut = now[:, over] + at_least[:, None]
            open_since[begin:end][over], final[begin:end][over] = cut.argmax(axis=2).T, cut.max(axis=2).T
            entry = ways.max(axis=1)
            following = slice(end, end + int((~over).sum()))
            origin[following] = ways.argmax(axis=1)[~over]
            alive, fresh = fresh, alive
        return self._traced(origin, lasted, open_since, final)

    def _traced(
        self, origin: Integers, lasted: Integers, open_since: Integers, final: Floats
    ) -> tuple[Integers, Floats]:
        """Return the states that the best ways went through, and their log probabilities."""
        found, states = np.zeros(len(self.starts) - 1), np.zeros(len(final), np.int64)
        width = self._blocks[0][1] if self._blocks else 0
        state, left = np.zeros((2, width), np.int64)
        later = 0
        for begin, end in reversed(self._blocks):
            # Sequences whose next step begins a segment come from the state before it.
            lane = np.flatnonzero(left[:later] == 0)
            state[lane] = origin[end + lane, state[lane]]
            left[lane] = lasted[begin + lane, state[lane]] + 1
            ends = np.arange(later, end - begin)
            state[ends] = final[begin + ends].argmax(axis=1)
            left[ends] = open_since[begin + ends, state[ends]] + 1
            found[self.order.sequence[begin + ends]] = final[begin + ends, state[ends]]
            states[begin:end], later = state[: end - begin], end - begin
            left[:later] -= 1
        states = np.where(np.isneginf(found)[self.order.sequence], -1, states)
        return self.order.placed(states), found

    def sampled(self, links: DurationLinks, lines: Floats, random: np.random.Generator) -> Integers:
        """Return states that are sampled given all steps of each sequence; -1 where it is impossible."""
        found = self.forward(links, lines)
        placed = self.order.placed
        back = self.backward(links, lines, found, np.ones(len(self.starts) - 1))
        onward, after, scales = placed(back.onward), placed(back.after), placed(found.scales)
        with np.errstate(divide="ignore", invalid="ignore"):
            logs = np.where(scales[:, None] > 0, np.log(lines / scales[:, None]), -np.inf)
        possible = self.order.sums((found.scales <= 0).astype(np.float64)) == 0
        states = np.full(len(lines), -1)
        sequence = np.flatnonzero(possible & (np.diff(self.starts) > 0))
        here = self.starts[:-1][sequence]
        shares = links.start * onward[here]
        while len(here):
            state = chosen(shares, random.random(len(here)))
            rest = self.starts[1:][sequence] - here
            steps = np.arange(min(links.durations.shape[1], int(rest.max())))
            inside = steps < rest[:, None]
            there = np.where(inside, here[:, None] + steps, here[:, None])
            window = np.where(inside, logs[there, state[:, None]], -np.inf).cumsum(axis=1)
            window = np.exp(np.minimum(window, np.log(LARGEST)))
            ways = window * links.durations[state][:, : len(steps)] * after[there, state[:, None]]
            cut = steps == rest[:, None] - 1
            ways += np.where(cut, window * links.at_least[state][:, : len(steps)], 0.0)
            lasts = chosen(ways, random.random(len(here))) + 1
            states[np.repeat(here - np.cumsum(lasts) + lasts, lasts) + np.arange(lasts.sum())] = np.repeat(
                state, lasts
            )
            on = lasts < rest
            sequence, here = sequence[on], (here + lasts)[on]
            shares = links.moves[state[on]] * onward[here]
        return states


def drawn_segments(links: DurationLinks, starts: Integers, random: np.random.Generator) -> Integers:
    """Return the states of new sequences, end to end."""
    states = np.zeros(int(starts[-1]), np.int64)
    sequence = np.flatnonzero(np.diff(starts) > 0)
    here = starts[:-1][sequence]
    shares = np.broadcast_to(links.start, (len(here), len(links.start)))
    while len(here):
        state = chosen(shares, random.random(len(here)))
        rest = starts[1:][sequence] - here
        lasts = np.minimum(chosen(links.durations[state], random.random(len(here))) + 1, rest)
        states[np.repeat(here - np.cumsum(lasts) + lasts, lasts) + np.arange(lasts.sum())] = np.repeat(state, lasts)
        on = lasts < rest
        sequence, here, shares = sequence[on], (here + lasts)[on], links.moves[state[on]]
    return states


def after_steps(links: DurationLinks, alive: Floats, empty: Booleans, steps: int) -> list[Floats]:
    """Return P(state) one, two, … steps after messages, shape (sequences, states) each.

    `alive`, shape (states, sequences, longest), is P(state, so long in it); sequences that are `empty` begin.
    """
    found = []
    for step in range(steps):
        entry = (alive @ links.leave[:, :, None])[:, :, 0].T @ links.moves
        if step == 0:
            entry[empty] = links.start
        fresh = np.zeros_like(alive)
        fresh[:, :, 1:] = alive[:, :, :-1] * links.stay[:, None]
        fresh[:, :, 0] = entry.T
        alive = fresh
        found.append(alive.sum(axis=2).T)
    return found
