"""Random grammars and trees as arrays."""

from __future__ import annotations

import numpy as np

from eigentree.core.trees.inside_outside import GrammarArrays, TreeArrays


def random_trees(
    random: np.random.Generator, sizes: list[int], states: tuple[int, ...] = (2, 3, 1), smooth: bool = True
) -> tuple[GrammarArrays, TreeArrays]:
    """Return a grammar with all rules but a few, and trees of so many words; some rules and words are missing."""
    labels, words = len(states), 4
    count = np.array(states)
    # Label 0 has inner nodes only, the others both.
    triples = [(a, b, c) for a in range(labels) for b in range(labels) for c in range(labels)]
    triples = sorted(triples[k] for k in random.permutation(len(triples))[: max(1, len(triples) - 4)])
    pairs = [(a, x) for a in range(labels) for x in range(words - 1)]
    own = [[t for t in triples if t[0] == a] for a in range(labels)]
    sizes_of = [[count[b] * count[c] for _, b, c in rules] for rules in own]
    widths = np.array([sum(each) + words - 1 for each in sizes_of])
    first = count.sum() + np.concatenate([[0], np.cumsum(count * widths)])
    rules = [(*t, first[a] + sum(sizes_of[a][:k])) for a in range(labels) for k, t in enumerate(own[a])]
    lexicon = [(a, first[a] + sum(sizes_of[a]) + x) for a, x in pairs]
    values = [random.dirichlet(np.ones(count.sum()))]
    values += [random.dirichlet(np.ones(widths[a])) for a in range(labels) for _ in range(count[a])]
    unseen = random.random((labels, 2)) * 0.2 if smooth else np.zeros((labels, 2))
    grammar = GrammarArrays(
        count,
        widths,
        np.array(rules).reshape(-1, 4),
        np.array(lexicon),
        np.concatenate(values),
        unseen,
        random.dirichlet(np.ones(count.sum())),
        random.dirichlet(np.ones(words)),
    )
    rule_of = {tuple(rule[:3]): k for k, rule in enumerate(rules)}
    nodes: list[tuple[int, int, int, int]] = []
    offsets = [0]
    for size in sizes:
        # Random merges of neighbours, then post-order.
        forest: list = [("leaf", int(random.integers(labels))) for _ in range(size)]
        while len(forest) > 1:
            k = int(random.integers(len(forest) - 1))
            known = [t for t in triples if (t[1], t[2]) == (forest[k][1], forest[k + 1][1])]
            a = known[random.integers(len(known))][0] if known and not smooth else int(random.integers(labels))
            forest[k : k + 2] = [("node", a, forest[k], forest[k + 1])]
        _add(forest[0], nodes, rule_of, random, words)
        offsets.append(len(nodes))
    columns = np.array(nodes, np.int32).reshape(-1, 4).T.copy()
    return grammar, TreeArrays(*columns, np.array(offsets))


def _add(tree: tuple, nodes: list, rule_of: dict, random: np.random.Generator, words: int) -> int:
    if tree[0] == "leaf":
        word = int(random.choice([-2, *range(words)]))
        nodes.append((tree[1], -1, word, tree[1] * (words - 1) + word if 0 <= word < words - 1 else -1))
    else:
        left = _add(tree[2], nodes, rule_of, random, words)
        _add(tree[3], nodes, rule_of, random, words)
        nodes.append((tree[1], left, -1, rule_of.get((tree[1], tree[2][1], tree[3][1]), -1)))
    return len(nodes) - 1
