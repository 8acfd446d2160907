"""Sequences whose steps, or some of them, have labels: the chains that show these, and what they learn from."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from eigentree.em.conditional.conditional_fit import LabelledData
from eigentree.em.holdout import FOLDS
from eigentree.em.number_chains import chain_objective
from eigentree.emissions.base import StackedEmission, stacked
from eigentree.errors import ParameterError
from eigentree.inference.sequences.hmm_chain import Chain

if TYPE_CHECKING:
    from collections.abc import Sequence

    from eigentree.arrays import Floats
    from eigentree.data.sequences.sequence_codes import Sequences
    from eigentree.em.chain_fit import ChainLayout
    from eigentree.em.optimize.objective import Objective

__all__ = ["LabelledSequences", "WeighedSequences", "joined_chains", "parted_chains"]


class WeighedSequences(NamedTuple):
    """Sequences, and how often each counts."""

    sequences: Sequences
    weights: Floats

    def weighing(self, weights: Floats) -> WeighedSequences:
        """Return the sequences that count, by other weights."""
        own = np.flatnonzero(weights > 0)
        return WeighedSequences(self.sequences.chosen(own), weights[own])


@dataclass(frozen=True, eq=False)
class LabelledSequences(LabelledData):
    """Sequences whose last channel is the label of each step, where it is known.

    Attributes
    ----------
    layout : ChainLayout
        Of a chain each of whose labels stands for states of its own.
    sticky : float
        Pseudo-counts for staying in a state.
    threads : int
    """

    rows: WeighedSequences
    layout: ChainLayout
    sticky: float
    threads: int

    @property
    def _labels(self) -> int:
        return self.layout.channels[-1]

    def objective(self, rows: WeighedSequences, clamped: bool) -> Objective:
        """Return the objective of sequences whose labels are known, or left out."""
        sequences = rows.sequences
        if not clamped:
            codes = sequences.codes.copy(order="F")
            codes[:, -1] = self._labels
            sequences = replace(sequences, codes=codes)
        prior = self.layout.prior(self.pseudo_counts, self.sticky)
        return chain_objective(self.layout, sequences, rows.weights, prior, self.threads)

    def known(self, rows: WeighedSequences) -> float:
        """Return the weight of the labels that are known."""
        of_steps = np.repeat(rows.weights, rows.sequences.lengths)
        return float(of_steps @ (rows.sequences.codes[:, -1] < self._labels))

    @property
    def divided(self) -> WeighedSequences:
        """The sequences of which some are held out; pieces, where there are fewer than folds."""
        sequences, weights = self.rows
        if sequences.count >= FOLDS:
            return self.rows
        ends = [np.linspace(*both, FOLDS + 1).astype(np.int64)[1:] for both in pairwise(sequences.starts)]
        starts = np.concatenate([[0], *ends])
        return WeighedSequences(replace(sequences, starts=starts), np.repeat(weights, FOLDS))


def joined_chains(chains: Sequence[Chain], shares: Floats) -> Chain:
    """Return the chains of several classes as one, in which no state of a class follows one of another.

    `shares` are the probabilities of the classes.
    """
    if len({tuple(chain.numbers) for chain in chains}) > 1:
        raise ParameterError(
            "the number channels of classes were grouped differently, so they cannot be trained together; name a "
            "family, as emissions='full' or emissions='gaussian' of the estimator"
        )
    size, count = chains[0].states, len(chains)
    links = []
    for place, first in enumerate(chains[0].links):
        whole = np.zeros((size * count,) * first.ndim)
        for own, (chain, share) in enumerate(zip(chains, shares, strict=True)):
            states = slice(own * size, (own + 1) * size)
            whole[(states,) * first.ndim] = chain.links[place] * (share if first.ndim == 1 else 1.0)
        if first.ndim > 2:
            # Histories through states of two classes are never reached.
            whole[whole.sum(axis=-1) == 0] = 1.0 / len(whole)
        links.append(whole)
    tables = [np.concatenate(each) for each in zip(*(chain.emissions for chain in chains), strict=True)]
    numbers = {group: stacked([chain.numbers[group] for chain in chains]) for group in chains[0].numbers}
    return Chain.of(chains[0].columns, [links], tables, numbers)


def parted_chains(whole: Chain, count: int) -> tuple[list[Chain], Floats]:
    """Return the chain of each class, and the shares of the classes."""
    size = whole.states // count
    shares = whole.links[0].reshape(count, size).sum(axis=1)
    found = []
    for own, share in enumerate(shares.tolist()):
        states = slice(own * size, (own + 1) * size)
        first, *others = (table[(states,) * table.ndim] for table in whole.links)
        numbers = {
            group: each.parts[own] for group, each in whole.numbers.items() if isinstance(each, StackedEmission)
        }
        tables = [table[states] for table in whole.emissions]
        found.append(Chain.of(whole.columns, [[first / share, *others]], tables, numbers))
    return found, shares
