r"""Operators of rules and words from moments of nodes: singular vectors, whitening, shrinkage to frequencies.

With the singular vectors of :math:`\Omega^a` maps are made such that :math:`E[Y Z^T \mid a] = I`, the constant
being the first of both. Then what a node of state h shows inside and outside are two bases of one space, and

.. math:: C_{a \to b\,c} = E[1\{a \to b\,c\}\; Y_b \otimes Y_c \otimes Z_a \mid a], \quad
          L_{a \to x} = E[1\{a \to x\}\; Z_a \mid a], \quad s_a = E[1\{a \text{ is the root}\}\; Y_a]

are the grammar up to a change of basis of each label (Cohen et al., 2012). On few data two things are shrunk, by
one factor kappa of the noise: the directions of each label's bond, as those of tables; and the moments of each
rule, pair and root toward what they are without hidden states. Of a rule these are its cumulants: means of either
child and of the node's outside, covariances of two, and the third moment. All of one kind have the variance over
rules that the data show, and the part of them is kept that n nodes of the rule make sure of (empirical Bayes).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from eigentree.counting.tree_windows import AROUND, SHOWN
from eigentree.inference.threads import one_thread
from eigentree.spectral.grammars.grammar_moments import FeatureMaps
from eigentree.spectral.grammars.grammar_operators import GrammarOperators
from eigentree.spectral.learn.bonds import NO_SIGNAL, sparse_bond
from eigentree.spectral.learn.spectral_fit import LearnedEdge

if TYPE_CHECKING:
    from collections.abc import Sequence

    from eigentree.arrays import Floats, Integers
    from eigentree.data.treebanks.tree_rows import GrammarSymbols
    from eigentree.spectral.grammars.exact_moments import ExactMoments
    from eigentree.spectral.grammars.grammar_moments import CountedMoments

    GrammarMoments: TypeAlias = CountedMoments | ExactMoments

__all__ = ["SpectralGrammarFit", "learn_grammar"]


@dataclass(frozen=True, eq=False)
class SpectralGrammarFit:
    """All that was learned from one set of trees; the shrinkage is still open.

    Attributes
    ----------
    symbols : GrammarSymbols
    bonds : tuple of LearnedEdge
        Of each label, between the subtree below a node and the tree around it.
    scales : tuple of array
        The product of the deviations of either side's features, by which the moments are divided.
    nodes, rules, lexicon, roots : arrays
        How many nodes of each label, rule, pair and label at the root there were.
    cumulants : tuple of array, shape (left child, right child, node outside)
        Of each rule: 1, then means where one index is not 0, and central moments elsewhere.
    words, starts : array, shape (pairs, most features), (labels, most features)
        The means of outside features of the nodes of each pair, and of inside features of roots.
    """

    symbols: GrammarSymbols
    bonds: tuple[LearnedEdge, ...]
    scales: tuple[Floats, ...]
    nodes: Floats
    rules: Floats
    lexicon: Floats
    roots: Floats
    cumulants: tuple[Floats, ...]
    words: Floats
    starts: Floats

    @property
    def ranks(self) -> Integers:
        """The number of features of each label, the constant among them."""
        return np.array([len(scale) for scale in self.scales], np.int64)

    def operators(self, shrinkage: float) -> GrammarOperators:
        """Return the operators at some shrinkage toward rules and words that depend on labels only."""
        symbols, labels = self.symbols, self.symbols.rules[:, 0]
        gains = [bond.factors(shrinkage) * scale for bond, scale in zip(self.bonds, self.scales, strict=True)]
        known = np.zeros(len(gains))
        known += np.bincount(labels, self.rules, len(gains))
        known += np.bincount(symbols.lexicon[:, 0], self.lexicon, len(gains))
        known = np.maximum(known, np.finfo(float).tiny)
        kept = _kept(self.rules, *self._signal, shrinkage)
        rules = [
            _moments(own * factors[_kinds(own.shape)]) * gains[a] * share
            for own, factors, a, share in zip(
                self.cumulants, kept, labels.tolist(), self.rules / known[labels], strict=True
            )
        ]
        widest = self.words.shape[1]
        padded = np.stack([np.pad(gain, (0, widest - len(gain))) for gain in gains])
        of_pairs = symbols.lexicon[:, 0]
        words = _shrunk(self.words, self.lexicon, self.ranks[of_pairs] - 1, shrinkage)
        words = words * padded[of_pairs] * (self.lexicon / known[of_pairs])[:, None]
        starts = _shrunk(self.starts, self.roots, self.ranks - 1, shrinkage)
        starts[:, 0] = 1.0
        return GrammarOperators(symbols, self.ranks, tuple(rules), words, starts)

    @cached_property
    def _signal(self) -> tuple[Floats, Floats]:
        """Of each of the 8 kinds of cumulants the sum of squares, noise aside, and of entries, times nodes."""
        squares, entries, noise = np.zeros(8), np.zeros(8), np.zeros(8)
        for own, count in zip(self.cumulants, self.rules.tolist(), strict=True):
            kinds = _kinds(own.shape).ravel()
            sizes = np.bincount(kinds, minlength=8) * (count > 0)
            squares += count * np.bincount(kinds, own.ravel() ** 2, 8)
            entries += count * sizes
            noise += sizes
        return squares - noise, entries


def learn_grammar(moments: GrammarMoments, hidden_states: int) -> SpectralGrammarFit:
    """Return what moments show of a grammar with so many hidden states of each label at most."""
    # One thread: the matrices are small, and sums keep their order.
    with one_thread():
        learned = [_bond(moments, label, hidden_states) for label in range(len(moments.symbols.labels))]
        projected = moments.projected([maps for _, maps, _ in learned])
    return SpectralGrammarFit(
        moments.symbols,
        tuple(bond for bond, _, _ in learned),
        tuple(scale for _, _, scale in learned),
        moments.nodes,
        moments.rules,
        moments.lexicon,
        moments.roots,
        tuple(map(_cumulants, projected.rules)),
        projected.lexicon,
        projected.roots,
    )


def _bond(moments: GrammarMoments, label: int, hidden_states: int) -> tuple[LearnedEdge, FeatureMaps, Floats]:
    """Return the bond of a label, its features as scaled to variance 1, and the product of both sides' scales."""
    if not moments.nodes[label] > 0:
        nothing = np.zeros((0, 1))
        edge = LearnedEdge(nothing, (nothing,), np.ones(1), np.zeros(1), np.inf)
        return edge, FeatureMaps(nothing, nothing), np.ones(1)
    pair, rows = moments.pair(label), np.inf if moments.exact else float(moments.nodes[label])
    bond = sparse_bond([pair], hidden_states, rows)
    # As many as differ from rounding, the constant first.
    rank = max(1, int((bond.sizes[:hidden_states] > NO_SIGNAL).sum()))
    # As if the pairs of symbols, of which features are the mean, were independent.
    variance = 1.0 / (SHOWN * AROUND)
    edge = LearnedEdge.of(bond.projection, bond.solves, bond.sizes, rank, rows, variance)
    below, around = moments.deviations(label, FeatureMaps(edge.projection, edge.solves[0]))
    below, around = (np.where(each > 0, each, 1.0) for each in (below, around))
    below[0] = around[0] = 1.0
    return edge, FeatureMaps(edge.projection / below, edge.solves[0] / around), below * around


def _kinds(shape: Sequence[int]) -> Integers:
    """Return of each entry of a rule's cumulants which of its three indices are not 0, as the bits of a number."""
    left, right, outside = (np.arange(size) > 0 for size in shape)
    return np.asarray(4 * left[:, None, None] + 2 * right[:, None] + outside)


def _centred(moments: Floats, means: Sequence[Floats], sign: int) -> Floats:
    """Return moments about the means (sign -1), or about 0 of those about the means (1)."""
    for axis, mean in enumerate(means):
        along = np.moveaxis(np.zeros((1, 1, len(mean))) + mean, -1, axis)
        moments = moments + sign * along * moments.take([0], axis)
    return moments


def _means_of(rule: Floats) -> tuple[list[Floats], Floats]:
    """Return the means of the three features of a rule, 0 for the constants, and where they stand."""
    means = [rule[:, 0, 0].copy(), rule[0, :, 0].copy(), rule[0, 0].copy()]
    for mean in means:
        mean[0] = 0.0
    kinds = _kinds(rule.shape)
    return means, (kinds == 1) | (kinds == 2) | (kinds == 4)


def _cumulants(moments: Floats) -> Floats:
    """Return the cumulants of a rule: its means, and its central moments, which are cumulants up to the third."""
    means, at = _means_of(moments)
    return np.where(at, moments, _centred(moments, means, -1))


def _moments(cumulants: Floats) -> Floats:
    """Return the moments of a rule that has some cumulants."""
    means, at = _means_of(cumulants)
    return _centred(np.where(at, 0.0, cumulants), means, 1)


def _kept(counts: Floats, signal: Floats, entries: Floats, shrinkage: float) -> Floats:
    """Return which part of the moments of so many nodes is kept, along (groups, kinds of moments).

    Features have variance 1, so the mean over n nodes has the noise 1 / n. What the sum of squares is above it is
    signal: the variance of the groups' own means, of which n nodes make n / (n + kappa / variance) sure.
    """
    if not shrinkage > 0:
        return np.ones((len(counts), len(signal)))
    variance = np.maximum(signal, 0.0) / np.maximum(entries, 1.0)
    sure = counts[:, None] * variance
    found = np.divide(sure, sure + shrinkage, out=np.zeros_like(sure), where=sure > 0)
    found[:, 0] = 1.0
    return np.asarray(found)


def _shrunk(means: Floats, counts: Floats, free: Integers, shrinkage: float) -> Floats:
    """Return means of features shrunk toward 0, the constant apart."""
    seen = free * (counts > 0)
    signal = float(counts @ (means[:, 1:] ** 2).sum(axis=1)) - float(seen.sum())
    pooled = np.array([0.0, signal]), np.array([1.0, float(counts @ seen)])
    kept = _kept(counts, *pooled, shrinkage)
    return np.concatenate([means[:, :1] * kept[:, :1], means[:, 1:] * kept[:, 1:]], axis=1)
