"""The moments of a grammar that is known: what an endless treebank of its trees would show, without noise."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from scipy.sparse import csr_array

from eigentree.counting.tree_windows import AROUND, SHOWN
from eigentree.errors import NetworkError
from eigentree.spectral.grammars.grammar_moments import ProjectedMoments
from eigentree.spectral.learn.bonds import PairMoment

if TYPE_CHECKING:
    from collections.abc import Sequence

    from eigentree.arrays import Floats
    from eigentree.data.treebanks.tree_rows import GrammarSymbols
    from eigentree.inference.grammars.grammar import Grammar
    from eigentree.spectral.grammars.grammar_moments import FeatureMaps

__all__ = ["ExactMoments"]


@dataclass(frozen=True, eq=False)
class ExactMoments:
    """The moments of the trees of a grammar, by its rules alone.

    Given its label and state, what a node shows inside is independent of what it shows outside. So all moments
    follow from the expected number of nodes of each label and state, and from the distributions of features given
    these.

    Attributes
    ----------
    grammar : Grammar
    """

    grammar: Grammar
    exact = True

    @property
    def symbols(self) -> GrammarSymbols:
        """The labels, words and rules."""
        return self.grammar.symbols

    @cached_property
    def _states(self) -> list[Floats]:
        """The expected number of nodes of each label in each state: roots, their children, and so on."""
        symbols, grammar = self.symbols, self.grammar
        at = np.concatenate([[0], np.cumsum(grammar.states)])
        below = np.zeros((at[-1], at[-1]))
        for rule, (a, b, c) in enumerate(symbols.rules.tolist()):
            table, own = grammar.binary(rule), slice(at[a], at[a + 1])
            below[own, at[b] : at[b + 1]] += table.sum(axis=2)
            below[own, at[c] : at[c + 1]] += table.sum(axis=1)
        if max(abs(np.linalg.eigvals(below))) >= 1:
            raise NetworkError("the trees of this grammar have no finite mean size, so there are no moments")
        roots = np.concatenate([grammar.root(label) for label in range(len(symbols.labels))])
        found = np.maximum(np.linalg.solve(np.eye(at[-1]) - below.T, roots), 0.0)
        return np.split(found, at[1:-1])

    @cached_property
    def nodes(self) -> Floats:
        """How many nodes of each label are expected in a tree."""
        return np.array([own.sum() for own in self._states])

    @cached_property
    def rules(self) -> Floats:
        """How many nodes of each rule are expected in a tree."""
        own = zip(self._tables, self.symbols.rules[:, 0].tolist(), strict=True)
        return np.array([self._states[a] @ table.sum(axis=(1, 2)) for table, a in own])

    @cached_property
    def lexicon(self) -> Floats:
        """How many nodes of each pair of the lexicon are expected in a tree."""
        labels = range(len(self.symbols.labels))
        return np.concatenate([self._states[label] @ self.grammar.lexical(label) for label in labels])

    @cached_property
    def roots(self) -> Floats:
        """The probability of each label at the root."""
        return np.array([self.grammar.root(label).sum() for label in range(len(self.symbols.labels))])

    def pair(self, label: int) -> PairMoment:
        """Return the moment of the features that nodes of a label have, as the joint table of two columns."""
        inside, outside = self._inside[label], self._outside[label]
        none = np.zeros((len(inside), 0)), np.zeros((len(outside), 0))
        joint = inside @ outside.T / (SHOWN * AROUND * max(self.nodes[label], np.finfo(float).tiny))
        return PairMoment(csr_array(joint), *none)

    def deviations(self, label: int, maps: FeatureMaps) -> tuple[Floats, Floats]:
        """Return ones: features are scaled for shrinkage alone."""
        return np.ones(maps.inside.shape[1]), np.ones(maps.outside.shape[1])

    def projected(self, maps: Sequence[FeatureMaps]) -> ProjectedMoments:
        """Return the means of mapped features."""
        labels = range(len(self.symbols.labels))
        inside = [own.inside.T @ each / SHOWN for own, each in zip(maps, self._inside, strict=True)]
        # Expected numbers of nodes times means.
        outside = [own.outside.T @ each / AROUND for own, each in zip(maps, self._outside, strict=True)]
        most = max(len(each) for each in inside)

        def means(sums: Floats, counts: Floats) -> Floats:
            return np.divide(sums, counts, out=np.zeros_like(sums), where=counts > 0)

        rules = []
        for rule, (a, b, c) in enumerate(self.symbols.rules.tolist()):
            left = np.tensordot(inside[b], self._tables[rule], axes=(1, 1))
            both = np.tensordot(left, inside[c], axes=(2, 1))
            rules.append(means(np.einsum("jhk,ih->jki", both, outside[a]), self.rules[rule]))
        pairs = [outside[label] @ self.grammar.lexical(label) for label in labels]
        lexicon = np.concatenate([np.pad(each, ((0, most - len(each)), (0, 0))).T for each in pairs])
        roots = [inside[label] @ self.grammar.root(label) for label in labels]
        at_root = np.stack([np.pad(each, (0, most - len(each))) for each in roots])
        return ProjectedMoments(rules, means(lexicon, self.lexicon[:, None]), means(at_root, self.roots[:, None]))

    @cached_property
    def _tables(self) -> list[Floats]:
        return [self.grammar.binary(rule) for rule in range(len(self.symbols.rules))]

    @cached_property
    def _expanded(self) -> list[Floats]:
        """For each label, the probability of each rule and pair given the state: P(expansion, state)."""
        symbols = self.symbols
        count = len(symbols.rules)
        found = [np.zeros((count + len(symbols.lexicon), states)) for states in self.grammar.states.tolist()]
        for rule, table in enumerate(self._tables):
            found[symbols.rules[rule, 0]][rule] = table.sum(axis=(1, 2))
        for label, own in enumerate(found):
            own[count + np.flatnonzero(symbols.lexicon[:, 0] == label)] = self.grammar.lexical(label).T
        return found

    @cached_property
    def _inside(self) -> list[Floats]:
        """For each label, the mean of each one-hot inside feature in each state."""
        own = self._expanded
        left, right = ([np.zeros((len(each) + 1, each.shape[1])) for each in own] for _ in range(2))
        for (a, b, c), table in zip(self.symbols.rules.tolist(), self._tables, strict=True):
            left[a][:-1] += own[b] @ table.sum(axis=2).T
            right[a][:-1] += own[c] @ table.sum(axis=1).T
        for each in (*left, *right):
            each[-1] = 1.0 - each[:-1].sum(axis=0)
        return [np.concatenate(parts) for parts in zip(own, left, right, strict=True)]

    @cached_property
    def _outside(self) -> list[Floats]:
        """For each label, the mean of each one-hot outside feature in each state, times its number of nodes."""
        rules = self.symbols.rules.tolist()
        labels = range(len(self.symbols.labels))
        sides, shown = 2 * len(rules), len(self._inside[0])
        nearest = [np.zeros((sides + 1 + shown + 1, own.size)) for own in self._states]
        for label in labels:
            # A root has no rule above, and no sister in any of three places.
            nearest[label][sides] = self.grammar.root(label)
            nearest[label][-1] = SHOWN * self.grammar.root(label)
        for rule, (a, b, c) in enumerate(rules):
            joint = self._states[a][:, None, None] * self._tables[rule]
            nearest[b][2 * rule] = joint.sum(axis=(0, 2))
            nearest[c][2 * rule + 1] = joint.sum(axis=(0, 1))
            nearest[b][sides + 1 : -1] += self._inside[c] @ joint.sum(axis=0).T
            nearest[c][sides + 1 : -1] += self._inside[b] @ joint.sum(axis=0)
        further = [np.zeros_like(own) for own in nearest]
        for label in labels:
            further[label][sides] = self.grammar.root(label)
            further[label][-1] = SHOWN * self.grammar.root(label)
        for rule, (a, b, c) in enumerate(rules):
            further[b] += nearest[a] @ self._tables[rule].sum(axis=2)
            further[c] += nearest[a] @ self._tables[rule].sum(axis=1)
        return [np.concatenate(parts) for parts in zip(nearest, further, strict=True)]
