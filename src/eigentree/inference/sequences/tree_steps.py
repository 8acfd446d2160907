"""Upward and downward passes over trees of nodes under a hidden Markov tree, all nodes of a depth at a time.

The state of a node depends on that of its parent alone, as that of a step on the step before it; the upward pass is
the backward pass, and the downward pass makes posteriors from it (Ronen et al. 1995; Durand et al. 2004). Messages
are divided by their largest entry, and the logs of these are added up, so that deep trees do not underflow.
Sequences whose transitions depend on inputs are passed through as trees: each step is a child of the one before.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from eigentree.inference.sequences.sequence_passes import LinkCounts, sums_of_sequences

if TYPE_CHECKING:
    from eigentree.arrays import Floats, Integers
    from eigentree.inference.sequences.links import InputLinks

__all__ = ["TreeSteps", "Upward", "chosen", "group_sums"]


class Upward(NamedTuple):
    """Messages from what is below; nodes stand as in `TreeSteps.order`.

    Attributes
    ----------
    own : array, shape (nodes, states)
        P(the subtree's cells | state of its node), over a number of the node's.
    sent : array, shape (nodes, states)
        P(the subtree's cells | state of the parent), over the same; ones for a root.
    log_prob : array, shape (trees,)
    """

    own: Floats
    sent: Floats
    log_prob: Floats


class _Level(NamedTuple):
    """The nodes of one depth.

    `above` are the places of their parents among the nodes of the depth before, and `first` which of them are the
    first children of these.
    """

    nodes: slice
    above: Integers
    first: Integers


@dataclass(frozen=True, eq=False)
class TreeSteps:
    """Trees that are passed through together, as `Forest` has them.

    Passes read `links`, an `InputLinks`, the input `which` of each node, and `lines`, P(its cells | state), shape
    (nodes, states).
    """

    starts: Integers
    parents: Integers
    depths: Integers

    @classmethod
    def of_sequences(cls, starts: Integers) -> TreeSteps:
        """Return sequences as trees: the parent of a step is the one before it."""
        steps = np.arange(starts[-1])
        depths = steps - np.repeat(starts[:-1], np.diff(starts))
        return cls(starts, np.where(depths > 0, steps - 1, -1), depths)

    @cached_property
    def order(self) -> Integers:
        """All nodes, those of one depth together: the roots first, and children in the order of their parents."""
        return np.argsort(self.depths, kind="stable")

    @cached_property
    def levels(self) -> list[_Level]:
        """The nodes of each depth, which are passed through together."""
        place = np.empty(len(self.order), np.int64)
        place[self.order] = np.arange(len(place))
        above = np.where(self.parents < 0, -1, place[self.parents])[self.order]
        differ = np.diff(above, prepend=-1) != 0
        ends = [0, *np.cumsum(np.bincount(self.depths)).tolist()]
        levels = []
        for before, begin, end in zip([0, *ends], ends, ends[1:], strict=False):
            nodes = slice(begin, end)
            levels.append(_Level(nodes, above[nodes] - before, differ[nodes].nonzero()[0]))
        return levels

    @property
    def _roots(self) -> slice:
        return self.levels[0].nodes if self.levels else slice(0, 0)

    def _placed(self, values: Any) -> Any:
        """Return values of nodes as nodes stand otherwise."""
        made = np.empty_like(values)
        made[self.order] = values
        return made

    def upward(self, links: InputLinks, which: Integers, lines: Floats) -> Upward:
        """Return the messages from below."""
        own, which = lines[self.order], which[self.order]
        sent, scales = np.ones_like(own), np.zeros(len(own))
        with np.errstate(divide="ignore"):
            for level, below in zip(reversed(self.levels), [None, *reversed(self.levels)], strict=False):
                mine = own[level.nodes]
                if below is not None:
                    messages = links.back(own[below.nodes], which[below.nodes])
                    sent[below.nodes], mothers = messages, below.above[below.first]
                    if len(mothers) == len(messages):
                        mine[mothers] *= messages
                    else:
                        # Of many children, the product itself might underflow.
                        together = np.add.reduceat(np.log(messages), below.first)
                        highest = _finite(together.max(axis=1))
                        mine[mothers] *= np.exp(together - highest[:, None])
                        scales[level.nodes][mothers] += highest
                largest = mine.max(axis=1)
                mine /= np.where(largest > 0, largest, 1.0)[:, None]
                scales[level.nodes] += np.log(largest)
            log_prob, roots = sums_of_sequences(self._placed(scales), self.starts), self._roots
            reached = (own[roots] * links.starts_of(which[roots])).sum(axis=1)
            log_prob[np.diff(self.starts) > 0] += np.log(reached)
        return Upward(own, sent, log_prob)

    def downward(self, links: InputLinks, which: Integers, below: Upward) -> tuple[Floats, Floats]:
        """Return P(state | the tree) of each node, and by what each parent's posterior was divided on the way.

        The second, in which nodes stand as in `order`, times P(state | parent's) times the child's own message is
        P(both states | the tree). Where a tree is impossible, both are zeros.
        """
        found, ratio, which = np.zeros_like(below.own), np.zeros_like(below.own), which[self.order]
        found[self._roots] = _normalised(links.starts_of(which[self._roots]) * below.own[self._roots])
        for before, (nodes, places, _) in pairwise(self.levels):
            above, sent = found[before.nodes][places], below.sent[nodes]
            ratio[nodes] = np.divide(above, sent, out=np.zeros_like(above), where=sent > 0)
            found[nodes] = _normalised(links.on(ratio[nodes], which[nodes]) * below.own[nodes])
        return self._placed(found), ratio

    def filtered(self, links: InputLinks, which: Integers, lines: Floats) -> Floats:
        """Return P(state | the cells of the node and of all nodes above it) of each node."""
        found, which = lines[self.order], which[self.order]
        found[self._roots] = _normalised(links.starts_of(which[self._roots]) * found[self._roots])
        for before, (nodes, places, _) in pairwise(self.levels):
            found[nodes] = _normalised(links.on(found[before.nodes][places], which[nodes]) * found[nodes])
        return np.asarray(self._placed(found))

    def expected(self, links: InputLinks, which: Integers, lines: Floats, weights: Floats) -> LinkCounts:
        """Return what is expected of all trees, which count so often."""
        below = self.upward(links, which, lines)
        found, ratio = self.downward(links, which, below)
        of_nodes = np.repeat(weights, np.diff(self.starts))[:, None]
        found *= of_nodes
        ratio *= of_nodes[self.order]
        roots = self.order[self._roots]
        start = group_sums(found[roots], which[roots], len(links.start))
        if len(links.moves) == 1:
            pairs = ratio.T @ below.own
        else:
            both = (ratio[:, :, None] * below.own[:, None, :]).reshape(len(ratio), -1)
            pairs = group_sums(both, which[self.order], len(links.moves))
        return LinkCounts([start, links.moves * pairs.reshape(links.moves.shape)], found, below.log_prob)

    def decoded(self, links: InputLinks, which: Integers, logs: Floats) -> tuple[Integers, Floats]:
        """Return the jointly most probable states of all nodes (Viterbi), and their log probability with each tree.

        `logs` are log P(cells | state). States are -1 where a tree is impossible.
        """
        logged, own, which = links.logarithms, logs[self.order], which[self.order]
        choice = np.zeros(own.shape, np.int64)
        for before, (nodes, places, first) in reversed(list(pairwise(self.levels))):
            best = logged.moves_of(which[nodes]) + own[nodes][:, None, :]
            choice[nodes] = best.argmax(axis=2)
            own[before.nodes][places[first]] += np.add.reduceat(best.max(axis=2), first)
        total = logged.starts_of(which[self._roots]) + own[self._roots]
        states, log_prob = np.zeros(len(own), np.int64), np.zeros(len(self.starts) - 1)
        states[self._roots] = total.argmax(axis=1)
        for before, (nodes, places, _) in pairwise(self.levels):
            states[nodes] = np.take_along_axis(choice[nodes], states[before.nodes][places][:, None], 1)[:, 0]
        log_prob[np.diff(self.starts) > 0] = total.max(axis=1)
        states = self._placed(states)
        states[np.repeat(np.isneginf(log_prob), np.diff(self.starts))] = -1
        return states, log_prob

    def drawn(self, links: InputLinks, which: Integers, below: Upward | None, chance: Floats) -> Integers:
        """Return sampled states of all nodes, given the messages from below or none, and a uniform number of each.

        They are -1 where a tree is impossible.
        """
        states, which, chance = np.zeros(len(chance), np.int64), which[self.order], chance[self.order]
        for before, (nodes, places, _) in zip([None, *self.levels], self.levels, strict=False):
            above = None if before is None else states[before.nodes][places]
            shares = links.starts_of(which[nodes]) if above is None else links.rows_of(which[nodes], above)
            shares = shares if below is None else shares * below.own[nodes]
            lost = shares.sum(axis=1) == 0 if above is None else above < 0
            states[nodes] = np.where(lost, -1, chosen(shares, chance[nodes]))
        return np.asarray(self._placed(states))


def chosen(shares: Floats, draws: Floats) -> Integers:
    """Return a state for each row of shares, by a uniform number in [0, 1) each."""
    ends = np.cumsum(shares, axis=1)
    # The last state that is possible is taken where rounding leaves nothing beyond it.
    last = (ends < ends[:, -1:]).sum(axis=1)
    return np.asarray(np.minimum((draws[:, None] * ends[:, -1:] >= ends).sum(axis=1), last))


def group_sums(values: Floats, groups: Integers, count: int) -> Floats:
    """Return the sum of the rows of each group, shape (groups, columns); of one group that of all rows."""
    if count == 1:
        return np.asarray(values.sum(axis=0)[None])
    return np.stack([np.bincount(groups, column, count) for column in values.T], axis=1)


def _finite(values: Floats) -> Floats:
    """Return logs, zero in place of minus infinity."""
    return np.where(np.isneginf(values), 0.0, values)


def _normalised(values: Floats) -> Floats:
    totals = values.sum(axis=1, keepdims=True)
    return np.asarray(values / np.where(totals > 0, totals, 1.0))
