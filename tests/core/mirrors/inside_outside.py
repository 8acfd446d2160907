"""Inside and outside passes as the equations say: one node at a time, no number scaled."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from eigentree.arrays import Floats
    from eigentree.core.trees.inside_outside import GrammarArrays, TreeArrays


class Passes(NamedTuple):
    """The probability of a tree, the messages of its nodes, and its expected counts."""

    probability: float
    inside: list[Floats]
    outside: list[Floats]
    counts: Floats


def tables(grammar: GrammarArrays, trees: TreeArrays, n: int) -> tuple[Floats, Floats]:
    """Return what the rules of a node give, along the states of it and of its children, and what is unseen."""
    first = np.concatenate([[0], np.cumsum(grammar.states)])
    a, rule = trees.labels[n], trees.rule[n]
    m, width = grammar.states[a], grammar.widths[a]
    kept = 1.0 - grammar.unseen[a].sum()
    if trees.left[n] < 0:
        places = [at for label, at in grammar.lexicon if label == a]
        if trees.words[n] >= 0:
            places = [grammar.lexicon[rule, 1]] if rule >= 0 else []
        seen = sum((grammar.values[at + width * np.arange(m)] for at in places), np.zeros(m))
        share = grammar.words[trees.words[n]] if trees.words[n] >= 0 else 1.0
        return kept * seen, np.full(m, grammar.unseen[a, 1] * share)
    b, c = trees.labels[trees.left[n]], trees.labels[n - 1]
    shape = (m, grammar.states[b], grammar.states[c])
    seen = np.zeros(shape)
    if rule >= 0:
        at = grammar.rules[rule, 3]
        for h in range(m):
            seen[h] = grammar.values[at + h * width :][: shape[1] * shape[2]].reshape(shape[1:])
    pairs = np.outer(grammar.children[first[b] : first[b + 1]], grammar.children[first[c] : first[c + 1]])
    return kept * seen, np.broadcast_to(grammar.unseen[a, 0] * pairs, shape)


def passes(grammar: GrammarArrays, trees: TreeArrays, tree: int) -> Passes:
    """Return both passes over one tree."""
    begin, end = trees.offsets[tree : tree + 2]
    first = np.concatenate([[0], np.cumsum(grammar.states)])
    inside: dict[int, Floats] = {}
    for n in range(begin, end):
        both = sum(tables(grammar, trees, n))
        left = trees.left[n]
        inside[n] = both if left < 0 else np.einsum("hij,i,j->h", both, inside[left], inside[n - 1])
    root = trees.labels[end - 1]
    start = slice(first[root], first[root + 1])
    outside = {end - 1: grammar.values[start]}
    probability = float(grammar.values[start] @ inside[end - 1])
    counts = np.zeros(len(grammar.values))
    counts[start] = grammar.values[start] * inside[end - 1] / probability
    for n in range(end - 1, begin - 1, -1):
        seen, unseen = tables(grammar, trees, n)
        a, left = trees.labels[n], trees.left[n]
        lines = np.arange(grammar.states[a]) * grammar.widths[a]
        if left < 0:
            for label, at in grammar.lexicon[trees.rule[n] :][:1] if trees.words[n] >= 0 else grammar.lexicon:
                if label == a and (trees.rule[n] >= 0 or trees.words[n] < 0):
                    kept = 1.0 - grammar.unseen[a].sum()
                    counts[at + lines] += outside[n] * kept * grammar.values[at + lines] / probability
            continue
        both = seen + unseen
        outside[left] = np.einsum("h,hij,j->i", outside[n], both, inside[n - 1])
        outside[n - 1] = np.einsum("h,hij,i->j", outside[n], both, inside[left])
        if trees.rule[n] >= 0:
            used = np.einsum("h,hij,i,j->hij", outside[n], seen, inside[left], inside[n - 1]) / probability
            at = grammar.rules[trees.rule[n], 3]
            for h, line in enumerate(lines):
                counts[at + line :][: used[h].size] += used[h].ravel()
    order = range(begin, end)
    return Passes(probability, [inside[n] for n in order], [outside[n] for n in order], counts)


def enumerated(grammar: GrammarArrays, trees: TreeArrays, tree: int) -> dict[tuple[int, ...], float]:
    """Return the joint probability of a tree and each annotation of its nodes, in post-order."""
    begin, end = trees.offsets[tree : tree + 2]
    first = np.concatenate([[0], np.cumsum(grammar.states)])
    found = {}
    for states in product(*(range(grammar.states[trees.labels[n]]) for n in range(begin, end))):
        probability = grammar.values[first[trees.labels[end - 1]] + states[-1]]
        for n in range(begin, end):
            both = sum(tables(grammar, trees, n))
            left = trees.left[n]
            own = both[states[n - begin]]
            probability *= own if left < 0 else own[states[left - begin], states[n - 1 - begin]]
        found[states] = float(probability)
    return found
