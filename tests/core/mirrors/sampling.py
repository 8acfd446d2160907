"""Decoding by trying all entries, and choosing of states by numpy."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from eigentree.inference.operators.operator_layout import NodeOperator


def decode(
    nodes: Sequence[NodeOperator], states: Sequence[int], row: Sequence[int], decoded: Sequence[bool]
) -> tuple[float, set[tuple[tuple[int, ...], tuple[int, ...]]]]:
    """Return the largest sum of logarithms, and all entries (of each node) and rows that have it."""
    columns = [column for node in nodes for column in node.columns]
    cells = [
        range(states[c]) if row[c] == states[c] and decoded[c] and c in columns else [row[c]]
        for c in range(len(row))
    ]
    best, found = -np.inf, set()
    for entries in product(*(range(len(node.index)) for node in nodes)):
        if nodes[0].index[entries[0], -1] != 0 or any(
            node.index[entry, k] != nodes[child].index[entries[child], -1]
            for node, entry in zip(nodes, entries, strict=True)
            for k, child in enumerate(node.children)
        ):
            continue
        for filled in product(*cells):
            score = sum(
                float(node.values[entry, filled[node.columns[0]] if node.columns else 0])
                for node, entry in zip(nodes, entries, strict=True)
            )
            if score > best + 1e-9:
                best, found = score, set()
            if score > best - 1e-9:
                found.add((entries, filled))
    return best, found


def choose(cumulative: np.ndarray, given: np.ndarray, uniform: np.ndarray) -> list[int]:
    """Return the state whose stretch of its row's cumulative distribution holds the uniform number."""
    lines = cumulative[given]
    return [
        int(np.searchsorted(line, level * line[-1], side="right"))
        for line, level in zip(lines, uniform, strict=True)
    ]
