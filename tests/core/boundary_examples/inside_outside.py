"""Valid small calls of inside and outside passes."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from core.tree_problems import random_trees

from eigentree.core import _native


def examples(random: np.random.Generator) -> Iterator[tuple[Callable[..., object], tuple[object, ...]]]:
    """Yield functions and arguments, with fresh arrays each."""
    for sizes in ([1, 4, 2], [7]):
        grammar, trees = random_trees(random, sizes)
        known = (*grammar, *trees)
        count, nodes = len(sizes), len(trees.labels)
        size = int(grammar.states[trees.labels].sum())

        def found(count: int = count) -> tuple[np.ndarray, np.ndarray]:
            return np.empty(count), np.empty(count, np.int64)

        yield _native.inside_probabilities, (*known, *found())
        sums = (np.empty(len(grammar.values)), np.empty(len(grammar.children)))
        yield _native.expected_rules, (*known, random.random(count), *found(), *sums)
        messages = (np.empty(size), np.empty(size), np.empty(nodes, np.int64))
        yield _native.tree_messages, (*known, *found(), *messages)
        yield _native.decode_trees, (*known, *found(), np.empty(nodes, np.int32))
