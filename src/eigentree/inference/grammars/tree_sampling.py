"""Trees sampled from a grammar, from the root down."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from eigentree.data.treebanks.tree import Tree
from eigentree.errors import DataError

if TYPE_CHECKING:
    from eigentree.arrays import Floats
    from eigentree.inference.grammars.grammar import Grammar

__all__ = ["sampled_place", "sampled_tree"]


def sampled_tree(grammar: Grammar, random: np.random.Generator, most_nodes: int) -> Tree:
    """Return a tree in normal form that is sampled from a grammar; rare words are named by their classes.

    Raises `DataError` where it would have more nodes than may be.
    """
    layout, symbols, backoff = grammar.layout, grammar.symbols, grammar.backoff
    state_at = layout.state_at
    # Nodes in the order in which they are made, each with what it becomes: a word, or its two children.
    labels: list[int] = []
    becomes: list[int | tuple[int, int]] = []
    root = sampled_place(layout.root(grammar.values), random)
    waiting = [_label_and_state(state_at, root)]
    while len(labels) < len(waiting):
        if len(waiting) > most_nodes:
            raise DataError(f"a sampled tree has more than max_nodes={most_nodes} nodes; raise max_nodes")
        label, state = waiting[len(labels)]
        labels.append(label)
        level = random.random()
        if level < backoff.word[label]:
            becomes.append(sampled_place(backoff.words, random))
        elif level < backoff.word[label] + backoff.pair[label]:
            becomes.append((len(waiting), len(waiting) + 1))
            waiting += [_label_and_state(state_at, sampled_place(backoff.children, random)) for _ in range(2)]
        else:
            place = sampled_place(layout.block(grammar.values, label)[state], random) + int(layout.first[label])
            begin, end = np.searchsorted(symbols.lexicon[:, 0], [label, label + 1])
            if begin < end and place >= layout.word_at[begin]:
                becomes.append(int(symbols.lexicon[begin + place - layout.word_at[begin], 1]))
            else:
                rule = int(np.searchsorted(layout.rule_at, place, side="right")) - 1
                b, c = symbols.rules[rule, 1:].tolist()
                i, j = divmod(place - int(layout.rule_at[rule]), int(layout.states[c]))
                becomes.append((len(waiting), len(waiting) + 1))
                waiting += [(b, i), (c, j)]
    built: dict[int, Tree] = {}
    for node in range(len(labels) - 1, -1, -1):
        what, name = becomes[node], symbols.labels[labels[node]]
        if isinstance(what, int):
            built[node] = Tree(name, (symbols.words.names[what],))
        else:
            built[node] = Tree(name, (built.pop(what[0]), built.pop(what[1])))
    return built[0]


def sampled_place(distribution: Floats, random: np.random.Generator) -> int:
    """Return a place that is sampled from a distribution, which need not be normalised."""
    cumulative = np.cumsum(distribution)
    place = np.searchsorted(cumulative, random.random() * cumulative[-1], side="right")
    return int(min(place, len(cumulative) - 1))


def _label_and_state(state_at: np.ndarray, place: int) -> tuple[int, int]:
    label = int(np.searchsorted(state_at, place, side="right")) - 1
    return label, place - int(state_at[label])
