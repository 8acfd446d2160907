"""`TreeChain`: a hidden Markov tree, in which nodes follow their parents as steps follow the ones before."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from eigentree.data.sequences.forests import Forest
from eigentree.inference.sequences.cell_tables import StepQueries
from eigentree.inference.sequences.hmm_chain import Chain
from eigentree.inference.sequences.links import InputLinks
from eigentree.inference.sequences.number_steps import NumberCounts, NumberPass, Part, ShownSteps
from eigentree.inference.sequences.sequence_passes import sums_of_sequences
from eigentree.inference.sequences.tree_steps import TreeSteps

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from eigentree.arrays import Floats, Integers
    from eigentree.data.sequences.sequence_codes import Sequences
    from eigentree.emissions.base import Emission
    from eigentree.inference.sequences.links import Links
    from eigentree.inference.sequences.number_steps import Numbered

__all__ = ["TreeChain", "TreePass", "pass_of"]

PART_NODES = 2**15
"""Nodes that are worked on together: enough for a call of numpy at each depth."""


@dataclass(frozen=True, eq=False)
class TreePass(NumberPass):
    """Trees that are passed through again and again; attributes are those of `NumberPass` and of `Forest`."""

    parents: Integers = field(kw_only=True)
    depths: Integers = field(kw_only=True)

    @classmethod
    def of_forest(cls, forest: Forest, weights: Floats, numbers: Numbered, threads: int) -> TreePass:
        """Return a pass over all trees."""
        known = (forest.columns, forest.codes, forest.values, forest.starts, weights, numbers, threads)
        return cls(*known, part_steps=PART_NODES, parents=forest.parents, depths=forest.depths)

    def links(self, tables: Sequence[Floats]) -> InputLinks:
        """Return how nodes follow their parents, given the tables of a Markov chain."""
        return InputLinks.everywhere(*tables)

    @property
    def pairs(self) -> tuple[Integers, Integers]:
        """The nodes that have a parent: first their parents, then they themselves."""
        children = np.flatnonzero(self.parents >= 0)
        return self.parents[children], children

    def blocks(self, count: int) -> tuple[NumberPass, NumberPass] | None:
        """Return most trees, and one in `count` to be held out; None where there are too few."""
        held = np.arange(len(self.weights)) % count == count - 1
        if not held.any():
            return None
        return replace(self, weights=self.weights * ~held), replace(self, weights=self.weights * held)

    def _part(self, numbers: Integers) -> Part:
        part = super()._part(numbers)
        shift = np.repeat(self.starts[numbers] - part.starts[:-1], np.diff(part.starts))
        nodes = shift + np.arange(part.starts[-1])
        parents = np.where(self.parents[nodes] < 0, -1, self.parents[nodes] - shift)
        return part._replace(trees=TreeSteps(part.starts, parents, self.depths[nodes]))

    def log_prob(self, links: Sequence[Floats], tables: Sequence[Floats], emissions: Sequence[Emission]) -> Floats:
        """Return the log density of each tree."""
        out, known = np.zeros(len(self.starts) - 1), self.links(links)

        def score(part: Part) -> None:
            assert part.trees is not None
            lines, highest = part.shown.likelihoods(tables, emissions)
            found = part.trees.upward(known, part.shown.which, lines).log_prob
            out[part.numbers] = found + sums_of_sequences(highest, part.starts)

        self._each_part(score)
        return out

    def counts(self, links: Links, tables: Sequence[Floats], emissions: Sequence[Emission]) -> NumberCounts:
        """Return what is expected of all trees by weight, and their log densities."""
        found = super().counts(links, tables, emissions)
        return found._replace(links=[own for (own,) in found.links])


def pass_of(sequences: Sequences, weights: Floats, numbers: Numbered, threads: int) -> NumberPass:
    """Return a pass over sequences that differ, or over trees."""
    if isinstance(sequences, Forest):
        return TreePass.of_forest(sequences, weights, numbers, threads)
    return NumberPass.of_distinct(sequences, weights, numbers, threads)


@dataclass(frozen=True, eq=False)
class TreeChain(StepQueries, Chain):
    """A homogeneous hidden Markov tree: the state of a node depends on that of its parent, its cells on its state.

    Children of a node are independent given its state. Attributes are those of a `Chain` of order 1; its sequences
    are a `Forest`.
    """

    def _steps(self, sequences: Sequences) -> TreeSteps:
        assert isinstance(sequences, Forest)
        return TreeSteps(sequences.starts, sequences.parents, sequences.depths)

    def _read_steps(self, sequences: Sequences) -> tuple[TreeSteps, tuple[InputLinks, Integers, Floats], Floats]:
        shown = ShownSteps.of(self.columns, sequences.codes, sequences.values, self.numbers)
        lines, highest = shown.likelihoods(self.emissions, list(self.numbers.values()))
        return self._steps(sequences), (InputLinks.everywhere(*self.links), shown.which, lines), highest

    def log_prob(self, sequences: Sequences, threads: int = 1) -> Floats:
        """Return the log probability of each tree, missing cells marginalised out; -inf if it is impossible."""
        every = pass_of(sequences, np.ones(sequences.count), self.numbers, threads)
        return every.log_prob(self.links, self.emissions, list(self.numbers.values()))

    def drawn_nodes(self, forest: Forest, random: np.random.Generator) -> NDArray[Any]:
        """Return the cells of the nodes of new trees of these shapes, as `drawn` does for sequences."""
        links, which = InputLinks.everywhere(*self.links), np.zeros(forest.steps, np.int64)
        return self.shown(self._steps(forest).drawn(links, which, None, random.random(forest.steps)), random)

    def permuted(self, orders: Sequence[Integers]) -> TreeChain:
        """Return the same with states in another order: state i is now ``order[i]``, of the only order."""
        return TreeChain.of_plain(super().permuted(orders))

    @classmethod
    def of_plain(cls, chain: Chain) -> TreeChain:
        """Return the hidden Markov tree that has the tables of a hidden Markov model."""
        return cls(chain.columns, chain.links, chain.emissions, (), chain.numbers)
