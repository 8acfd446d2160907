"""Trees from distances between their leaves: neighbour joining, on all leaves or neighbourhood by neighbourhood.

Where distances are sums of lengths along the paths of a tree, both find that very tree (Saitou and Nei 1987;
Choi, Tan, Anandkumar and Willsky 2011).
"""

from __future__ import annotations

import math
from heapq import heappop, heappush
from itertools import count
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from eigentree.arrays import Floats

__all__ = ["Edge", "contracted", "joined", "joined_around", "refined"]

Edge = tuple[int, int, float]
"""An inner node, its neighbour, and the length between them; nodes are numbered, the leaves first."""


MOST_PASSES = 5
"""Most times that nodes of many neighbours are joined again; two are enough for most trees."""


def joined(distances: Floats) -> list[Edge]:
    """Return the tree of neighbour joining, whose leaves are 0, 1, … and whose inner nodes have three neighbours.

    Lengths can be negative where distances are no sums along a tree.
    """
    whole = np.array(distances, np.float64)
    nodes = list(range(len(whole)))
    fresh = count(len(whole))
    edges: list[Edge] = []
    matrix = whole
    while len(nodes) > 3:
        size = len(nodes)
        sums = matrix.sum(axis=1)
        apart = (size - 2) * matrix - sums[:, None] - sums
        np.fill_diagonal(apart, np.inf)
        i, j = sorted(divmod(int(apart.argmin()), size))
        length = matrix[i, j] / 2 + (sums[i] - sums[j]) / (2 * (size - 2))
        inner = next(fresh)
        edges += [(inner, nodes[i], float(length)), (inner, nodes[j], float(matrix[i, j] - length))]
        matrix[i] = matrix[:, i] = (matrix[i] + matrix[j] - matrix[i, j]) / 2
        # The last node takes the place of the one that is gone, so that nothing else has to move.
        matrix[j], matrix[:, j] = matrix[-1].copy(), matrix[:, -1].copy()
        matrix[i, i] = matrix[j, j] = 0
        nodes[i], nodes[j] = inner, nodes[-1]
        nodes.pop()
        matrix = whole[: size - 1, : size - 1]
    if len(nodes) == 3:
        inner = next(fresh)
        for a, b, c in ((0, 1, 2), (1, 0, 2), (2, 0, 1)):
            edges.append((inner, nodes[a], float(matrix[a, b] + matrix[a, c] - matrix[b, c]) / 2))
    elif len(nodes) == 2:
        edges.append((nodes[0], nodes[1], float(matrix[0, 1])))
    return edges


def contracted(edges: Sequence[Edge], leaves: int, shortest: float) -> list[Edge]:
    """Return a tree in which inner nodes that are nearer to each other than `shortest` are one."""
    kept = {node: node for edge in edges for node in edge[:2]}

    def merged(node: int) -> int:
        while kept[node] != node:
            node = kept[node]
        return node

    for one, other, length in edges:
        if min(one, other) >= leaves and length < shortest:
            ends = sorted((merged(one), merged(other)))
            kept[ends[1]] = ends[0]
    found = [(merged(one), merged(other), length) for one, other, length in edges]
    return [edge for edge in found if edge[0] != edge[1]]


def joined_around(distances: Floats, tree: Sequence[tuple[int, int]]) -> list[Edge]:
    """Return the tree of Chow-Liu neighbour joining (CLNJ), given the minimum spanning tree over the leaves.

    Each inner node of that tree is joined with its neighbours, and the result put in their place. Distances of far
    leaves, which are estimated poorly, are not used.
    """
    around = _around([(one, other, float(distances[one, other])) for one, other in tree])
    for leaf in sorted(around):
        if len(around[leaf]) > 1:
            _split(around, leaf, distances, -math.inf)
    return _listed(around)


def refined(edges: Sequence[Edge], distances: Floats, shortest: float) -> list[Edge]:
    """Return a tree in which inner nodes with more than three neighbours are joined again, while that splits any.

    Each branch of such a node is represented by its nearest leaf, which finds splits that the neighbourhoods of
    `joined_around` miss. Inner nodes nearer than `shortest` are one; new ones are 1.5 times as far at least.
    """
    leaves = len(distances)
    found = contracted(edges, leaves, shortest)
    for _ in range(MOST_PASSES):
        around = _around(found)
        large = [node for node in sorted(around) if node >= leaves and len(around[node]) > 3]
        split = [_split(around, node, distances, 1.5 * shortest) for node in large]
        if not any(split):
            break
        found = contracted(_listed(around), leaves, shortest)
    return found


def _split(around: dict[int, dict[int, float]], node: int, distances: Floats, shortest: float) -> bool:
    """Join the branches of a node again, in place, a leaf being one of its own; return whether that splits it."""
    beside = sorted(around[node])
    branches = [node, *beside] if node < len(distances) else beside
    nearest = [_nearest_leaf(around, branch, node, len(distances)) for branch in branches]
    ends = [leaf for _, leaf in nearest]
    edges = contracted(joined(distances[np.ix_(ends, ends)]), len(branches), shortest)
    inner = sorted({number for edge in edges for number in edge[:2]} - set(range(len(branches))))
    if len(inner) == 1 and branches is beside:
        return False
    kept = [node] if branches is beside else []
    fresh = range(max(around) + 1, max(around) + 1 + len(inner) - len(kept))
    numbers = dict(enumerate(branches)) | dict(zip(inner, [*kept, *fresh], strict=True))
    for branch in beside:
        del around[branch][node]
    around |= {number: {} for number in (node, *fresh)}
    for one, other, length in edges:
        beyond = nearest[other][0] if other < len(branches) else 0.0
        here, there = numbers[one], numbers[other]
        around[here][there] = around[there][here] = max(length - beyond, 0.0)
    return True


def _nearest_leaf(around: dict[int, dict[int, float]], start: int, before: int, leaves: int) -> tuple[float, int]:
    """Return how far the nearest leaf is from a node, and which it is, on the side away from another node."""
    queue = [(0.0, start, before)]
    while True:
        length, here, came = heappop(queue)
        if here < leaves:
            return length, here
        for other, step in around[here].items():
            if other != came:
                heappush(queue, (length + step, other, here))


def _around(edges: Sequence[Edge]) -> dict[int, dict[int, float]]:
    """Return the neighbours of each node with their lengths, none of which is negative."""
    found: dict[int, dict[int, float]] = {node: {} for edge in edges for node in edge[:2]}
    for one, other, length in edges:
        found[one][other] = found[other][one] = max(length, 0.0)
    return found


def _listed(around: dict[int, dict[int, float]]) -> list[Edge]:
    """Return the edges, each from the node with the larger number, which is the inner one."""
    return [
        (one, other, length)
        for one in sorted(around)
        for other, length in sorted(around[one].items())
        if one > other
    ]
