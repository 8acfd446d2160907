"""Hidden states that are split in two, and merged again where that loses nothing (Petrov et al. 2006)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from eigentree.core.trees.inside_outside import tree_messages
from eigentree.inference.grammars.grammar import GrammarLayout
from eigentree.inference.grammars.tree_passes import grammar_arrays, tree_arrays
from eigentree.inference.threads import in_order

if TYPE_CHECKING:
    from collections.abc import Sequence

    from eigentree.arrays import Booleans, Floats, Integers
    from eigentree.em.grammars.grammar_objective import GrammarObjective, GrammarVector
    from eigentree.inference.grammars.grammar import Backoff

__all__ = ["StateMap", "merge_losses", "perturbed"]


@dataclass(frozen=True, eq=False)
class StateMap:
    """How the states of each label become others.

    Attributes
    ----------
    lines : sequence of array, shape (new states, old states)
        For each label, the shares of the old states that a new one is made of.
    shares : sequence of array, shape (old states, new states)
        For each label, how what an old state was as a child is shared among new states.
    """

    lines: Sequence[Floats]
    shares: Sequence[Floats]

    @classmethod
    def split(cls, states: Integers, wanted: Integers) -> StateMap:
        """Return the map that splits states, the first of each label, so that there are as many as wanted."""
        lines = []
        for count, more in zip(states.tolist(), wanted.tolist(), strict=True):
            origin = np.repeat(np.arange(count), more // count + (np.arange(count) < more % count))
            lines.append((origin[:, None] == np.arange(count)).astype(np.float64))
        return cls(lines, [each.T / each.sum(axis=0)[:, None] for each in lines])

    @classmethod
    def merged(cls, pairs: Sequence[Booleans], used: Sequence[Floats]) -> StateMap:
        """Return the map that merges states with the next ones, given which, and how often each occurs.

        No state is both merged with the one before and with the next.
        """
        lines, shares = [], []
        for own, weights in zip(pairs, used, strict=True):
            target = np.concatenate([[0], np.cumsum(~own)])
            share = (target[:, None] == np.arange(target[-1] + 1)).astype(np.float64)
            # A state that never occurs counts as much as others do.
            line = share.T * np.where(weights > 0, weights, 1e-300)
            lines.append(line / line.sum(axis=1, keepdims=True))
            shares.append(share)
        return cls(lines, shares)

    def layout(self, layout: GrammarLayout) -> GrammarLayout:
        """Return the layout with the new states."""
        return GrammarLayout(layout.symbols, np.array([len(line) for line in self.lines]))

    def backoff(self, backoff: Backoff, layout: GrammarLayout) -> Backoff:
        """Return what is expected of unseen rules with the new states."""
        return replace(backoff, children=self._along(backoff.children, layout))

    def values(self, values: Floats, layout: GrammarLayout) -> Floats:
        """Return the parameters of the grammar with the new states."""
        new = self.layout(layout)
        found = np.empty(new.size)
        new.root(found)[:] = self._along(layout.root(values), layout)
        for label, line in enumerate(self.lines):
            new.lexical(found, label)[:] = line @ layout.lexical(values, label)
        for rule, (a, b, c) in enumerate(layout.symbols.rules.tolist()):
            old = layout.binary(values, rule)
            left = np.einsum("Hh,hij,iI->HIj", self.lines[a], old, self.shares[b], optimize=False)
            size = int(new.rule_sizes[rule])
            begin = int(new.rule_at[rule] - new.first[a])
            own = (left @ self.shares[c]).reshape(-1, size)
            new.block(found, a)[:, begin : begin + size] = own
        return found

    def _along(self, states: Floats, layout: GrammarLayout) -> Floats:
        """Return a distribution over the states of all labels as one over the new ones."""
        at = layout.state_at
        return np.concatenate([states[at[a] : at[a + 1]] @ share for a, share in enumerate(self.shares)])


def perturbed(vector: GrammarVector, values: Floats, share: float, random: np.random.Generator) -> Floats:
    """Return parameters each of which is changed by a random share of at most so much."""
    noise = 1.0 + share * random.uniform(-1.0, 1.0, len(values))
    return vector.normalised(values * noise, values)


def merge_losses(
    objective: GrammarObjective, values: Floats, pairs: Sequence[Booleans], used: Sequence[Floats]
) -> list[Floats]:
    """Return by how much the log-likelihood would fall if a state and the next were one, each pair by itself.

    It is the approximation of Petrov et al. (2006): a node by itself, all others as they are. For each label there
    are two lines, one entry for each pair: the sum over nodes, and that of squares.

    Parameters
    ----------
    objective : GrammarObjective
        The trees on which it would fall.
    values : array
    pairs : sequence of bool arrays, shape (states - 1,)
        For each label, whether a state is tried together with the next.
    used : sequence of arrays, shape (states,)
        For each label, how often each state occurs.
    """
    layout = objective.layout.grammar
    arrays = grammar_arrays(layout, values, objective.backoff)
    tried = [np.flatnonzero(own) for own in pairs]

    def run(block: int) -> list[Floats]:
        rows = objective.blocks[block]
        messages = tree_messages(arrays, tree_arrays(rows))
        node_at = np.concatenate([[0], np.cumsum(layout.states[rows.labels])])
        weights = np.repeat(objective.weights[objective.first[block] :][: rows.count], np.diff(rows.offsets))
        losses = []
        for label, first in enumerate(tried):
            nodes = np.flatnonzero((rows.labels == label) & (weights > 0)) if len(first) else first
            own = node_at[nodes][:, None] + np.arange(layout.states[label])
            inside, outside = messages.inside[own], messages.outside[own]
            both = inside * outside
            second = first + 1
            shares = used[label][first], used[label][second]
            weight = np.where(sum(shares) > 0, shares[0] / np.maximum(sum(shares), 1e-300), 0.5)
            one = weight * inside[:, first] + (1.0 - weight) * inside[:, second]
            total = both.sum(axis=1, keepdims=True)
            joint = total - both[:, first] - both[:, second] + one * (outside[:, first] + outside[:, second])
            with np.errstate(divide="ignore", invalid="ignore"):
                change = np.where(total > 0, np.log(total) - np.log(np.maximum(joint, 1e-300)), 0.0)
            losses.append(np.stack([weights[nodes] @ change, weights[nodes] @ change**2]))
        return losses

    total = [np.zeros((2, len(first))) for first in tried]
    for losses in in_order(run, len(objective.blocks), objective.threads):
        total = [before + here for before, here in zip(total, losses, strict=True)]
    return total
