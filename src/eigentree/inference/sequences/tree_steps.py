"""Upward and downward passes over trees of nodes under a hidden Markov tree, all nodes of a depth at a time.

The state of a node depends on that of its parent alone, as that of a step on the step before it; the upward pass is
the backward pass, and the downward pass makes posteriors from it (Ronen et al. 1995; Durand et al. 2004). Messages
are divided by their largest entry, and the logs of these are added up, so that deep trees do not underflow.
Sequences whose transitions depend on inputs are passed through as trees: each step is a child of the one before.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from eigentree.inference.sequences.sequence_passes import LinkCounts, sums_of_sequences

if TYPE_CHECKING:
    from eigentree.arrays import Floats, Integers
    from eigentree.inference.sequences.links import InputLinks

__all__ = ["TreeSteps", "Upward", "chosen", "group_sums"]


class Upward(NamedTuple):
    """Messages from what is below.

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
    """The nodes of one depth, and of those with children where the first of these stands among those below."""

    nodes: Integers
    mothers: Integers
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
    def roots(self) -> Integers:
        """The root of each tree that has nodes."""
        return self.starts[:-1][np.diff(self.starts) > 0]

    @cached_property
    def levels(self) -> list[_Level]:
        """The nodes of each depth, the roots first; children stand in the order of their parents."""
        order = np.argsort(self.depths, kind="stable")
        ends = np.cumsum(np.bincount(self.depths)) if len(order) else np.empty(0, np.int64)
        nodes = np.split(order, ends[:-1])
        levels = []
        for here, below in zip(nodes, [*nodes[1:], np.empty(0, np.int64)], strict=True):
            mothers, first = np.unique(self.parents[below], return_index=True)
            levels.append(_Level(here, mothers, first))
        return levels

    def upward(self, links: InputLinks, which: Integers, lines: Floats) -> Upward:
        """Return the messages from below."""
        own, sent, scales = lines.copy(), np.ones_like(lines), np.zeros(len(lines))
        below = np.empty(0, np.int64)
        with np.errstate(divide="ignore"):
            for nodes, mothers, first in reversed(self.levels):
                if len(below):
                    sent[below] = links.back(own[below], which[below])
                    if len(mothers) == len(below):
                        own[mothers] *= sent[below]
                    else:
                        # Of many children, the product itself might underflow.
                        together = np.add.reduceat(np.log(sent[below]), first)
                        highest = _finite(together.max(axis=1))
                        own[mothers] *= np.exp(together - highest[:, None])
                        scales[mothers] += highest
                largest = own[nodes].max(axis=1)
                own[nodes] /= np.where(largest > 0, largest, 1.0)[:, None]
                scales[nodes] += np.log(largest)
                below = nodes
            log_prob = sums_of_sequences(scales, self.starts)
            reached = (own[self.roots] * links.starts_of(which[self.roots])).sum(axis=1)
            log_prob[np.diff(self.starts) > 0] += np.log(reached)
        return Upward(own, sent, log_prob)

    def downward(self, links: InputLinks, which: Integers, below: Upward) -> tuple[Floats, Floats]:
        """Return P(state | the tree) of each node, and by what each parent's posterior was divided on the way.

        The second times P(state | parent's) times the child's own message is P(both states | the tree). Where a
        tree is impossible, both are zeros.
        """
        found, ratio = np.zeros_like(below.own), np.zeros_like(below.own)
        found[self.roots] = _normalised(links.starts_of(which[self.roots]) * below.own[self.roots])
        for nodes, _, _ in self.levels[1:]:
            above, sent = found[self.parents[nodes]], below.sent[nodes]
            ratio[nodes] = np.divide(above, sent, out=np.zeros_like(above), where=sent > 0)
            found[nodes] = _normalised(links.on(ratio[nodes], which[nodes]) * below.own[nodes])
        return found, ratio

    def filtered(self, links: InputLinks, which: Integers, lines: Floats) -> Floats:
        """Return P(state | the cells of the node and of all nodes above it) of each node."""
        found = np.zeros_like(lines)
        found[self.roots] = _normalised(links.starts_of(which[self.roots]) * lines[self.roots])
        for nodes, _, _ in self.levels[1:]:
            found[nodes] = _normalised(links.on(found[self.parents[nodes]], which[nodes]) * lines[nodes])
        return found

    def expected(self, links: InputLinks, which: Integers, lines: Floats, weights: Floats) -> LinkCounts:
        """Return what is expected of all trees, which count so often."""
        below = self.upward(links, which, lines)
        found, ratio = self.downward(links, which, below)
        of_nodes = np.repeat(weights, np.diff(self.starts))[:, None]
        found *= of_nodes
        ratio *= of_nodes
        start = group_sums(found[self.roots], which[self.roots], len(links.start))
        if len(links.moves) == 1:
            pairs = ratio.T @ below.own
        else:
            both = ratio[:, :, None] * below.own[:, None, :]
            pairs = group_sums(both.reshape(len(both), -1), which, len(links.moves))
        return LinkCounts([start, links.moves * pairs.reshape(links.moves.shape)], found, below.log_prob)

    def decoded(self, links: InputLinks, which: Integers, logs: Floats) -> tuple[Integers, Floats]:
        """Return the jointly most probable states of all nodes (Viterbi), and their log probability with each tree.

        `logs` are log P(cells | state). States are -1 where a tree is impossible.
        """
        logged = links.logarithms
        own, choice = logs.copy(), np.zeros(logs.shape, np.int64)
        below = np.empty(0, np.int64)
        for nodes, mothers, first in reversed(self.levels):
            if len(below):
                best = logged.moves_of(which[below]) + own[below][:, None, :]
                choice[below] = best.argmax(axis=2)
                own[mothers] += np.add.reduceat(best.max(axis=2), first)
            below = nodes
        total = logged.starts_of(which[self.roots]) + own[self.roots]
        states, log_prob = np.zeros(len(logs), np.int64), np.zeros(len(self.starts) - 1)
        states[self.roots] = total.argmax(axis=1)
        for nodes, _, _ in self.levels[1:]:
            states[nodes] = choice[nodes, states[self.parents[nodes]]]
        log_prob[np.diff(self.starts) > 0] = total.max(axis=1)
        states[np.repeat(np.isneginf(log_prob), np.diff(self.starts))] = -1
        return states, log_prob

    def drawn(self, links: InputLinks, which: Integers, own: Floats | None, chance: Floats) -> Integers:
        """Return sampled states of all nodes, given the messages from below or none, and a uniform number of each.

        They are -1 where a tree is impossible.
        """
        states = np.zeros(len(chance), np.int64)
        for depth, (nodes, _, _) in enumerate(self.levels):
            before = states[self.parents[nodes]]
            shares = links.rows_of(which[nodes], before) if depth else links.starts_of(which[nodes])
            shares = shares if own is None else shares * own[nodes]
            states[nodes] = chosen(shares, chance[nodes])
            lost = before < 0 if depth else shares.sum(axis=1) == 0
            states[nodes[lost]] = -1
        return states


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
    return np.asarray(np.divide(values, totals, out=np.zeros_like(values), where=totals > 0))
