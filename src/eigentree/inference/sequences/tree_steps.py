"""Upward and downward passes over trees of nodes under one hidden Markov tree, all nodes of a depth at a time.

The state of a node depends on that of its parent alone, as that of a step on the step before it; the upward pass is
the backward pass, and the downward pass makes posteriors from it (Ronen et al. 1995; Durand et al. 2004). Messages
are divided by their largest entry, and the logs of these are added up, so that deep trees do not underflow.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from eigentree.arrays import Floats, Integers

__all__ = ["TreeSteps", "Upward"]


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
    """Trees that are passed through together, as `Forest` has them."""

    starts: Integers
    parents: Integers
    depths: Integers

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

    def upward(self, start: Floats, moves: Floats, lines: Floats) -> Upward:
        """Return the messages from below, given P(root's state), P(state | parent's) and P(cells | state)."""
        own, sent, scales = lines.copy(), np.ones_like(lines), np.zeros(len(lines))
        below = np.empty(0, np.int64)
        with np.errstate(divide="ignore"):
            for nodes, mothers, first in reversed(self.levels):
                if len(below):
                    sent[below] = own[below] @ moves.T
                    # Of many children, the product itself might underflow.
                    together = np.add.reduceat(np.log(sent[below]), first)
                    highest = _finite(together.max(axis=1))
                    own[mothers] *= np.exp(together - highest[:, None])
                    scales[mothers] += highest
                largest = own[nodes].max(axis=1)
                own[nodes] /= np.where(largest > 0, largest, 1.0)[:, None]
                scales[nodes] += np.log(largest)
                below = nodes
            roots = self.starts[:-1]
            log_prob = np.add.reduceat(scales, roots) + np.log(own[roots] @ start)
        return Upward(own, sent, log_prob)

    def downward(self, start: Floats, moves: Floats, below: Upward) -> tuple[Floats, Floats]:
        """Return P(state | the tree) of each node, and by what each parent's posterior was divided on the way.

        The second times P(state | parent's) times the child's own message is P(both states | the tree). Where a
        tree is impossible, both are zeros.
        """
        found, ratio = np.zeros_like(below.own), np.zeros_like(below.own)
        roots = self.starts[:-1]
        found[roots] = _normalised(start * below.own[roots])
        for nodes, _, _ in self.levels[1:]:
            above, sent = found[self.parents[nodes]], below.sent[nodes]
            ratio[nodes] = np.divide(above, sent, out=np.zeros_like(above), where=sent > 0)
            found[nodes] = _normalised((ratio[nodes] @ moves) * below.own[nodes])
        return found, ratio

    def decoded(self, start: Floats, moves: Floats, logs: Floats) -> tuple[Integers, Floats]:
        """Return the jointly most probable states of all nodes, and their log probability with each tree.

        `logs` are log P(cells | state). States are -1 where a tree is impossible.
        """
        with np.errstate(divide="ignore"):
            log_start, log_moves = np.log(start), np.log(moves)
        own, choice = logs.copy(), np.zeros(logs.shape, np.int64)
        below = np.empty(0, np.int64)
        for nodes, mothers, first in reversed(self.levels):
            if len(below):
                best = log_moves[None] + own[below][:, None, :]
                choice[below] = best.argmax(axis=2)
                own[mothers] += np.add.reduceat(best.max(axis=2), first)
            below = nodes
        roots = self.starts[:-1]
        total = log_start + own[roots]
        states = np.zeros(len(logs), np.int64)
        states[roots] = total.argmax(axis=1)
        for nodes, _, _ in self.levels[1:]:
            states[nodes] = choice[nodes, states[self.parents[nodes]]]
        log_prob = total.max(axis=1)
        states[np.repeat(np.isneginf(log_prob), np.diff(self.starts))] = -1
        return states, log_prob

    def drawn(self, start: Floats, moves: Floats, own: Floats | None, chance: Floats) -> Integers:
        """Return sampled states of all nodes, given the messages from below or none, and a uniform number of each.

        They are -1 where a tree is impossible.
        """
        states = np.zeros(len(chance), np.int64)
        for nodes, _, _ in self.levels:
            above = self.parents[nodes]
            is_root = above[0] < 0
            shares = np.broadcast_to(start, (len(nodes), len(start))) if is_root else moves[states[above]]
            ends = np.cumsum(shares if own is None else shares * own[nodes], axis=1)
            # The last state that is possible is taken where rounding leaves nothing beyond it.
            last = (ends < ends[:, -1:]).sum(axis=1)
            states[nodes] = np.minimum((chance[nodes, None] * ends[:, -1:] >= ends).sum(axis=1), last)
            lost = ends[:, -1] == 0 if is_root else states[above] < 0
            states[nodes[lost]] = -1
        return states


def _finite(values: Floats) -> Floats:
    """Return logs, zero in place of minus infinity."""
    return np.where(np.isneginf(values), 0.0, values)


def _normalised(values: Floats) -> Floats:
    totals = values.sum(axis=1, keepdims=True)
    return np.asarray(np.divide(values, totals, out=np.zeros_like(values), where=totals > 0))
