"""Where the variables of a graph stand in a picture: trees that grow from their middle to the left and the right.

Each variable is a box. Ends of branches have a row each, and other variables stand in the middle of their children.
So no box touches another, and no branch passes through one: all between two rows of a branch belongs to it, and
stands further out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

__all__ = ["Box", "Layout", "laid_out"]


class Box(NamedTuple):
    """Where the box of a variable stands: 0 is the middle of the picture, and its top is row 0."""

    left: float
    right: float
    row: float


class Layout(NamedTuple):
    """Where all variables stand, the edges of the trees away from their middles, and how many rows there are."""

    boxes: dict[str, Box]
    branches: list[tuple[str, str]]
    rows: float


def laid_out(edges: Iterable[tuple[str, str]], widths: Mapping[str, float], gap: float) -> Layout:
    """Return where the variables of a graph stand; one that is no tree is laid out along one that spans it.

    `widths` are those of the boxes, `gap` is for edges between the boxes of one depth and those of the next.

    Examples
    --------
    >>> laid_out([("h", "x"), ("h", "y"), ("h", "z")], dict.fromkeys("hxyz", 10.0), 5.0).boxes["h"]
    Box(left=-5.0, right=5.0, row=0.5)
    """
    around: dict[str, list[str]] = {name: [] for name in widths}
    for one, other in edges:
        around[one].append(other)
        around[other].append(one)
    boxes: dict[str, Box] = {}
    branches: list[tuple[str, str]] = []
    rows = 0.0
    for name in widths:
        if name not in boxes:
            order, parents = _outward(around, _middle(around, name))
            branches += [(parents[each], each) for each in order[1:]]
            part = _tree(order, parents, widths, gap)
            boxes |= {each: box._replace(row=box.row + rows) for each, box in part.items()}
            rows = 1 + max(box.row for box in boxes.values())
    return Layout(boxes, branches, rows)


def _tree(
    order: Sequence[str], parents: Mapping[str, str], widths: Mapping[str, float], gap: float
) -> dict[str, Box]:
    """Return where the variables of a tree stand, given them from its root outward."""
    root = order[0]
    children: dict[str, list[str]] = {name: [] for name in order}
    for name in order[1:]:
        children[parents[name]].append(name)
    ends = dict.fromkeys(order, 1)
    for name in reversed(order):
        ends[name] = sum(ends[child] for child in children[name]) or 1
    sides: tuple[list[str], list[str]] = ([], [])
    # The largest branches of the root stand apart, then as many ends on both sides.
    for name in sorted(children[root], key=lambda name: -ends[name]):
        min(sides, key=lambda side: sum(ends[each] for each in side)).append(name)
    heights = [sum(ends[name] for name in side) for side in sides]
    middle = (max(heights) - 1) / 2 if children[root] else 0.0
    boxes = {root: Box(-widths[root] / 2, widths[root] / 2, middle)}
    for side, height, sign in zip(sides, heights, (1, -1), strict=True):
        inner = [widths[root] / 2]
        last = (max(heights) - height) / 2
        # Depth first: ends take their rows one after another, and children come before their parents.
        ahead = [(name, 1) for name in reversed(side)]
        way: list[tuple[str, int]] = []
        rows: dict[str, float] = {}
        while ahead:
            name, depth = ahead.pop()
            way.append((name, depth))
            ahead += [(child, depth + 1) for child in reversed(children[name])]
            if children[name]:
                inner += [0.0] * (depth + 1 - len(inner))
                inner[depth] = max(inner[depth], widths[name])
            else:
                rows[name], last = last, last + 1
        for name, depth in reversed(way):
            if own := children[name]:
                rows[name] = (rows[own[0]] + rows[own[-1]]) / 2
            near = sum(inner[:depth]) + depth * gap
            far = near + widths[name]
            boxes[name] = Box(near, far, rows[name]) if sign > 0 else Box(-far, -near, rows[name])
    return boxes


def _outward(around: Mapping[str, Sequence[str]], root: str) -> tuple[list[str], dict[str, str]]:
    """Return what is connected to a root, nearest first, and the neighbour by which each was reached."""
    order, parents = [root], {root: root}
    for name in order:
        for other in around[name]:
            if other not in parents:
                parents[other] = name
                order.append(other)
    return order, parents


def _middle(around: Mapping[str, Sequence[str]], name: str) -> str:
    """Return the middle of the longest path, of two the one with more neighbours."""
    one = _outward(around, name)[0][-1]
    order, parents = _outward(around, one)
    path = [order[-1]]
    while path[-1] != one:
        path.append(parents[path[-1]])
    middle = path[(len(path) - 1) // 2 : len(path) // 2 + 1]
    return max(middle, key=lambda each: len(around[each]))
