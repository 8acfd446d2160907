"""Learned operators, and the distribution over trees that is made of them: what each node expands to in turn.

Noise can leave a product of learned operators negative. So nodes are taken in pre-order: given all that was
expanded before, what the next one expands to has the distribution of the operators with all that is not yet
expanded marginalised out, its negative values clipped. With the moments of a grammar nothing is clipped, and the
product of all is its own probability of the tree.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from eigentree.core.trees.chain_rule import CLIPPED
from eigentree.counting.tree_windows import TreeWindows, held_trees
from eigentree.data.treebanks.tree import Tree
from eigentree.data.treebanks.tree_rows import TreeRows
from eigentree.errors import DataError
from eigentree.inference.grammars.chart_parser import ChartParser
from eigentree.inference.grammars.chart_tables import ChartTables, coarse_grammar
from eigentree.inference.grammars.grammar import Backoff
from eigentree.inference.grammars.tree_sampling import sampled_place
from eigentree.inference.operators.normalised_scoring import clipped_tables
from eigentree.spectral.grammars.grammar_learning import learn_grammar
from eigentree.spectral.grammars.grammar_moments import CountedMoments
from eigentree.spectral.grammars.grammar_operators import scaled
from eigentree.spectral.grammars.grammar_report import GrammarReport
from eigentree.spectral.learn.shrinkage import FOLDS, LEAST_LOG, chosen

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from eigentree.arrays import Floats, Integers
    from eigentree.data.treebanks.tree_rows import GrammarSymbols
    from eigentree.spectral.grammars.grammar_learning import SpectralGrammarFit
    from eigentree.spectral.grammars.grammar_operators import GrammarOperators
    from eigentree.spectral.learn.shrinkage import HeldOutScore, Trials

__all__ = ["NodeScores", "SpectralGrammar", "choose_grammar", "spectral_parser"]

HELD_SHARE = 0.1
"""The share of trees that are held out in each fold: from the others as much can be learned as from all."""

MOST_NODES = 2**18
"""About how many nodes are scored at once, which bounds the memory."""


class NodeScores(NamedTuple):
    """What was found of nodes.

    Attributes
    ----------
    log_prob : array
        The log probability of what each node expands to, given all before it in pre-order.
    clipped : array
        How much of the node's distribution was negative.
    """

    log_prob: Floats
    clipped: Floats


@dataclass(frozen=True, eq=False)
class SpectralGrammar:
    """The distribution over trees that learned operators stand for.

    Attributes
    ----------
    operators : GrammarOperators
    backoff : Backoff
        What is expected of rules and words that were not seen, of labels with one state each.
    roots : array, shape (labels,)
        The distribution of the label of the root.
    """

    operators: GrammarOperators
    backoff: Backoff
    roots: Floats

    @classmethod
    def of(
        cls, fit: SpectralGrammarFit, shrinkage: float, backoff: Backoff, roots: Floats | None = None
    ) -> SpectralGrammar:
        """Return the model of a fit at some shrinkage; roots are as frequent as in the fit unless given."""
        roots = fit.roots / fit.roots.sum() if roots is None else roots
        return cls(fit.operators(shrinkage), backoff, roots)

    @property
    def symbols(self) -> GrammarSymbols:
        """The labels, words and rules."""
        return self.operators.symbols

    def score(self, rows: TreeRows) -> Floats:
        """Return the log probability of each tree; missing words are marginalised out."""
        found, first = np.empty(rows.count), 0
        for last in _ends(rows):
            part = rows.part(first, last)
            nodes = np.add.reduceat(self.scored(part).log_prob, part.offsets[:-1])
            with np.errstate(divide="ignore"):
                found[first:last] = nodes + np.log(self.roots)[part.labels[part.offsets[1:] - 1]]
            first = last
        return found

    def scored(self, rows: TreeRows) -> NodeScores:
        """Return what is found of each node of trees without missing labels."""
        return self._scored(rows, self.operators.given_before(rows, self.operators.inside(rows)))

    def given_all(self, rows: TreeRows) -> Floats:
        """Return the log probability of what each node expands to, given all that is not below it."""
        return self._scored(rows, self.operators.given_all(rows, self.operators.inside(rows))).log_prob

    def _scored(self, rows: TreeRows, outside: Floats) -> NodeScores:
        log_prob, clipped = np.empty(len(rows.labels)), np.zeros(len(rows.labels))
        rules, pairs = self.operators.ranges
        order = np.argsort(rows.labels, kind="stable")
        counts = np.bincount(rows.labels, minlength=len(self.symbols.labels))
        for label, nodes in enumerate(np.split(order, np.cumsum(counts)[:-1])):
            own, clipped[nodes] = self.expansions(label, outside[nodes])
            is_rule, known = rows.left[nodes] >= 0, rows.rule[nodes]
            first_pair = rules[label + 1] - rules[label]
            place = np.where(is_rule, known - rules[label], known - pairs[label] + first_pair)
            seen = np.where(known >= 0, own[np.arange(len(nodes)), np.where(known >= 0, place, 0)], 0.0)
            missing = (rows.words[nodes] < 0) & ~is_rule
            seen[missing] = own[missing, first_pair:].sum(axis=1)
            log_prob[nodes] = self.backoff.kept[label] * seen
        with np.errstate(divide="ignore"):
            return NodeScores(np.log(log_prob + self._unseen(rows)), clipped)

    def expansions(self, label: int, outside: Floats) -> tuple[Floats, Floats]:
        """Return the distribution over rules and then words of nodes of a label, and how much was negative."""
        head = self.operators.heads[label]
        # Below zero is what noise has made of it, so in place of it stands what is surest.
        without = np.maximum(head[:, 0], 0.0)
        without /= max(float(without.sum()), np.finfo(float).tiny)
        own, clipped, usable = clipped_tables(outside[:, : head.shape[1]] @ head.T, without, CLIPPED)
        return own, np.where(usable, clipped, 1.0)

    def words(self, rows: TreeRows) -> tuple[Integers, Floats]:
        """Return the nodes whose word is missing, and the distribution of each over all words, given the rest."""
        nodes = np.flatnonzero((rows.left < 0) & (rows.words < 0))
        outside = self.operators.given_all(rows, self.operators.inside(rows))[nodes]
        found = np.zeros((len(nodes), len(self.symbols.words.names)))
        rules, pairs = self.operators.ranges
        for label in np.unique(rows.labels[nodes]).tolist():
            at = np.flatnonzero(rows.labels[nodes] == label)
            own = self.expansions(label, outside[at])[0][:, rules[label + 1] - rules[label] :]
            columns = self.symbols.lexicon[pairs[label] : pairs[label + 1], 1]
            found[np.ix_(at, columns)] = self.backoff.kept[label] * own
            found[at] += self.backoff.word[label] * self.backoff.words
        totals = found.sum(axis=1, keepdims=True)
        return nodes, np.divide(found, totals, out=np.full_like(found, 1 / found.shape[1]), where=totals > 0)

    def filled(self, rows: TreeRows) -> TreeRows:
        """Return trees with the most probable word in place of each that is missing, given the rest of its tree."""
        nodes, found = self.words(rows)
        words = rows.words.copy()
        words[nodes] = found.argmax(axis=1)
        return TreeRows.with_rules(rows.labels, rows.left, words, rows.offsets, self.symbols)

    def sampled(self, random: np.random.Generator, most_nodes: int) -> Tree:
        """Return a tree in normal form that is sampled, node by node in pre-order.

        Raises `DataError` where it would have more nodes than may be.
        """
        operators, names = self.operators, self.symbols.labels
        unit = np.eye(1, operators.words.shape[1])
        label = sampled_place(self.roots, random)
        outside = scaled(operators.starts[label : label + 1])
        waiting: list[_Waiting] = []
        for _ in range(most_nodes):
            what = self._expanded(label, outside, random)
            if isinstance(what, tuple):
                place = self.symbols.rule_of(*(np.array([each]) for each in (label, *what)))
                rule = int(place[0])
                both = operators.children(rule, outside) if rule >= 0 else None
                waiting.append(_Waiting(label, what[1], rule, both))
                label, outside = what[0], unit if both is None else scaled(both[:, :, 0])
                continue
            pair = int(self.symbols.pair_of(np.array([label]), np.array([what]))[0])
            made = Tree(names[label], (self.symbols.words.names[what],))
            inside = scaled(operators.words[pair : pair + 1]) if pair >= 0 else unit
            while waiting and waiting[-1].left:
                node = waiting.pop()
                left, before = node.left[0]
                made = Tree(names[node.label], (left, made))
                inside = operators.joined(node.rule, before, inside) if node.rule >= 0 else unit
            if not waiting:
                return made
            node = waiting[-1]
            node.left.append((made, inside))
            label, outside = node.right, unit
            if node.both is not None:
                given = (inside[:, None, : node.both.shape[1]] @ node.both)[:, 0]
                outside = scaled(given, node.both[:, 0])
        raise DataError(f"a sampled tree has more than max_nodes={most_nodes} nodes; raise max_nodes")

    def _expanded(self, label: int, outside: Floats, random: np.random.Generator) -> tuple[int, int] | int:
        """Return what a node becomes: the labels of two children, or a word."""
        backoff, level = self.backoff, random.random()
        if level < backoff.word[label]:
            return sampled_place(backoff.words, random)
        if level < backoff.word[label] + backoff.pair[label]:
            return sampled_place(backoff.children, random), sampled_place(backoff.children, random)
        rules, pairs = self.operators.ranges
        place = sampled_place(self.expansions(label, outside)[0][0], random)
        count = int(rules[label + 1] - rules[label])
        if place >= count:
            return int(self.symbols.lexicon[pairs[label] + place - count, 1])
        _, left, right = self.symbols.rules[rules[label] + place].tolist()
        return left, right

    def _unseen(self, rows: TreeRows) -> Floats:
        """Return the probability of what each node expands to among rules and words that were not seen."""
        backoff, labels, inner = self.backoff, rows.labels, rows.left >= 0
        found = backoff.word[labels] * np.where(rows.words >= 0, backoff.words[rows.words], 1.0)
        at = np.flatnonzero(inner)
        children = backoff.children[labels]
        found[at] = backoff.pair[labels[at]] * children[rows.left[at]] * children[at - 1]
        return np.asarray(found)


@dataclass
class _Waiting:
    """A node that is sampled, the labels of itself and its right child, its operators, and its left child."""

    label: int
    right: int
    rule: int
    both: Floats | None
    left: list[tuple[Tree, Floats]] = field(default_factory=list)


def spectral_parser(model: SpectralGrammar, pruning: float) -> ChartParser:
    """Return what parses sentences by learned operators (Cohen et al. 2013).

    The first unit vector is the inside vector of what is certain, and the outside vector of a child that does not
    depend on its parent.
    """
    operators, backoff, ranks = model.operators, model.backoff, model.operators.ranks
    kept = np.arange(operators.words.shape[1]) < ranks[:, None]
    certain = (np.arange(operators.words.shape[1]) == 0) & kept
    units = certain[kept].astype(float)
    tables = ChartTables(
        operators.symbols,
        ranks,
        (model.roots[:, None] * scaled(operators.starts))[kept],
        [rule.transpose(2, 0, 1) for rule in operators.rules],
        operators.words[kept[operators.symbols.lexicon[:, 0]]],
        units,
        Backoff(backoff.pair, backoff.word, units * np.repeat(backoff.children, ranks), backoff.words),
    )
    plain = coarse_grammar(operators.symbols, model.roots, backoff)
    return ChartParser(tables, ChartTables.of(plain), pruning)


def choose_grammar(
    blocks: Sequence[TreeRows],
    symbols: GrammarSymbols,
    hidden_states: int,
    shrinkage: float | None,
    backoff: Backoff,
    roots: Floats | None = None,
) -> tuple[SpectralGrammar, GrammarReport]:
    """Return the model of trees at the best shrinkage, and its report; see `chosen`.

    Parameters
    ----------
    blocks : sequence of TreeRows
    symbols : GrammarSymbols
    hidden_states : int
    shrinkage : float, optional
        None for the one that is best for held-out trees.
    backoff : Backoff
    roots : array, optional
        As for `SpectralGrammar.of`.
    """
    trees = sum(rows.count for rows in blocks)
    windows = TreeWindows.of(blocks, symbols)

    def trials(_: float) -> Trials:
        held = held_trees(blocks, trees, FOLDS * HELD_SHARE)
        made: list[HeldOutScore] = []
        sizes: list[Floats] = [np.zeros(0)]
        for number in range(FOLDS):
            fold = TreeRows.joined(
                [held.part(k, k + 1) for k in range(number, held.count, FOLDS)] or [held.part(0, 0)]
            )
            if 0 < fold.count < trees:
                rest = windows - TreeWindows.of([fold], symbols)
                made.append(_trial(learn_grammar(CountedMoments(rest), hidden_states), backoff, fold))
                sizes.append(np.diff(fold.offsets).astype(np.float64))
        lengths = np.concatenate(sizes)
        return [made], np.ones(len(lengths)), float(lengths.mean()) if len(lengths) else 1.0

    fit = learn_grammar(CountedMoments(windows), hidden_states)

    def best(_: int, shrinkage: float, floor: float, added: float, smoothing: float) -> float:
        return shrinkage

    used, tried = chosen(float(windows.counts.sum()), 0.0, trials, best, shrinkage, 0.0)
    return SpectralGrammar.of(fit, used, backoff, roots), GrammarReport.of(fit, used, tried)


def _trial(fit: SpectralGrammarFit, backoff: Backoff, fold: TreeRows) -> HeldOutScore:
    def score(shrinkage: float, floor: float) -> Floats:
        """Return the log probability of each held-out tree."""
        return np.maximum(SpectralGrammar.of(fit, shrinkage, backoff).score(fold), LEAST_LOG)

    return score


def _ends(rows: TreeRows) -> Iterator[int]:
    """Yield where stretches of trees end that have a bounded number of nodes, or just one tree."""
    first = 0
    while first < rows.count:
        last = int(np.searchsorted(rows.offsets, rows.offsets[first] + MOST_NODES, side="right")) - 1
        first = min(max(last, first + 1), rows.count)
        yield first
