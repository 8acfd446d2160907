"""Where the variables of a graph stand in a picture: trees that grow from their middle to the left and the right.

Each variable is a box of one row. Branches are moved as near to each other as they can be without a box or an edge
of one touching a box of another.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

__all__ = ["Box", "Layout", "laid_out"]

APART = 1.25
"""Rows from one branch to the next."""

Outline: TypeAlias = dict[int, tuple[float, float]]
"""The first and the last row that a branch fills: at 2d beside the boxes of depth d, at 2d + 1 beyond them."""


class Box(NamedTuple):
    """Where a variable stands.

    Attributes
    ----------
    left, right : float
        Where its box begins and ends; 0 is the middle of the picture.
    row : float
        From the top, which is row 0.
    """

    left: float
    right: float
    row: float


class Layout(NamedTuple):
    """Where all variables stand.

    Attributes
    ----------
    boxes : dict of str to Box
    branches : list of (str, str)
        The edges of the trees, away from their middles; other edges of a graph are none of these.
    rows : float
        How many rows the picture has.
    """

    boxes: dict[str, Box]
    branches: list[tuple[str, str]]
    rows: float


def laid_out(edges: Iterable[tuple[str, str]], widths: Mapping[str, float], gap: float) -> Layout:
    """Return where the variables of a graph stand; one that is no tree is laid out along one that spans it.

    Parameters
    ----------
    edges : iterable of (str, str)
    widths : mapping of str to float
        Of the box of each variable.
    gap : float
        Room for edges between the boxes of one depth and those of the next.

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
            tree = _Tree(around, _middle(around, name), widths, gap)
            below = tree.boxes()
            top = min(box.row for box in below.values())
            boxes |= {each: box._replace(row=box.row - top + rows) for each, box in below.items()}
            branches += tree.branches
            rows = 1 + max(box.row for box in boxes.values())
    return Layout(boxes, branches, rows)


@dataclass(frozen=True)
class _Branch:
    """A variable and all beyond it, the variable at row 0.

    Attributes
    ----------
    rows : dict of str to float
        Of its children, which carry their own.
    outline : Outline
    """

    rows: dict[str, float]
    outline: Outline


class _Tree:
    """A tree that grows from a root to both sides."""

    def __init__(
        self, around: Mapping[str, Sequence[str]], root: str, widths: Mapping[str, float], gap: float
    ) -> None:
        order, parents = _outward(around, root)
        self.branches = [(parents[name], name) for name in order[1:]]
        self._root, self._order, self._widths, self._gap = root, order, widths, gap
        self._children: dict[str, list[str]] = {name: [] for name in order}
        self._depths = {root: 0}
        for parent, name in self.branches:
            self._children[parent].append(name)
            self._depths[name] = self._depths[parent] + 1
        self._heights, self._ends = dict.fromkeys(order, 1), dict.fromkeys(order, 1)
        for name in reversed(order):
            if children := self._children[name]:
                self._heights[name] = 1 + max(self._heights[child] for child in children)
                self._ends[name] = sum(self._ends[child] for child in children)

    def boxes(self) -> dict[str, Box]:
        """Return where all stand, the root at row 0."""
        found = {self._root: Box(-self._widths[self._root] / 2, self._widths[self._root] / 2, 0.0)}
        for side, sign in zip(self._halves(), (1, -1), strict=True):
            found |= self._side(side, sign)
        return found

    def _side(self, first: Sequence[str], sign: int) -> dict[str, Box]:
        """Return where all stand that hang from some children of the root, the root at row 0."""
        here = set(first)
        for name in self._order:
            if name in here:
                here.update(self._children[name])
        members = [name for name in self._order if name in here]
        starts = self._starts(members)
        made: dict[str, _Branch] = {}
        for name in reversed(members):
            children = self._around_the_largest(self._children[name])
            made[name] = self._joined(children, made, self._depths[name], self._own(name, starts))
        rows = dict(self._joined(self._around_the_largest(first), made, 0, {}).rows)
        boxes = {}
        for name in members:
            rows |= {child: rows[name] + row for child, row in made[name].rows.items()}
            near = starts[self._depths[name]]
            far = near + self._widths[name]
            boxes[name] = Box(near, far, rows[name]) if sign > 0 else Box(-far, -near, rows[name])
        return boxes

    def _starts(self, members: Sequence[str]) -> list[float]:
        """Return where the boxes of each depth begin, counted from the middle of the root."""
        widest = [self._widths[self._root] / 2]
        for name in members:
            if self._children[name]:
                depth = self._depths[name]
                widest += [0.0] * (depth + 1 - len(widest))
                widest[depth] = max(widest[depth], self._widths[name])
        starts = [0.0]
        for width in widest:
            starts.append(starts[-1] + width + self._gap)
        return starts

    def _own(self, name: str, starts: Sequence[float]) -> Outline:
        """Return what the box of a variable fills; one that stands at an end may reach beyond its depth."""
        depth = self._depths[name]
        outline = {2 * depth: (0.0, 0.0)}
        if self._children[name]:
            return outline
        end = starts[depth] + self._widths[name]
        for beyond in range(depth + 1, len(starts)):
            if end > starts[beyond] - self._gap:
                outline[2 * beyond - 1] = (0.0, 0.0)
            if end > starts[beyond]:
                outline[2 * beyond] = (0.0, 0.0)
        return outline

    def _joined(self, children: Sequence[str], made: Mapping[str, _Branch], depth: int, own: Outline) -> _Branch:
        """Return children below each other, as near as they can be, and their parent in the middle of them."""
        if not children:
            return _Branch({}, own)
        rows: dict[str, float] = {}
        filled: Outline = {}
        height = 1
        for name in children:
            outline = made[name].outline
            # Branches stand a little apart from each other, ends close together.
            apart = 1.0 if self._heights[name] == height == 1 else APART
            row = max(
                (filled[at][1] - top + apart for at, (top, _) in outline.items() if at in filled), default=0.0
            )
            # Edges to children come in order too, however short these are.
            rows[name] = row = max([row, *(before + apart for before in rows.values())])
            height = self._heights[name]
            for at, (top, bottom) in outline.items():
                first, last = filled.get(at, (top + row, bottom + row))
                filled[at] = min(first, top + row), max(last, bottom + row)
        middle = (rows[children[0]] + rows[children[-1]]) / 2
        filled = {at: (first - middle, last - middle) for at, (first, last) in filled.items()}
        between = 2 * depth + 1
        filled[between] = rows[children[0]] - middle, rows[children[-1]] - middle
        return _Branch({name: row - middle for name, row in rows.items()}, filled | own)

    def _around_the_largest(self, children: Sequence[str]) -> list[str]:
        """Return children from the top: half of the ends, branches with the largest in their middle, other ends."""
        ends = [name for name in children if self._heights[name] == 1]
        # From the small to the large, in turn above and below.
        rising = sorted((name for name in children if self._heights[name] > 1), key=self._ends.__getitem__)
        half = (len(ends) + 1) // 2
        return [*ends[:half], *rising[1::2], *rising[::2][::-1], *ends[half:]]

    def _halves(self) -> tuple[list[str], list[str]]:
        """Return the children of the root for either side: the deepest two apart, then as many ends on both."""
        children = self._children[self._root]
        sides: tuple[list[str], list[str]] = ([], [])
        sizes = [0, 0]
        for name in sorted(children, key=lambda name: (-self._heights[name], -self._ends[name])):
            side = int(sizes[1] < sizes[0])
            sizes[side] += self._ends[name]
            sides[side].append(name)
        return sides


def _outward(around: Mapping[str, Sequence[str]], root: str) -> tuple[list[str], dict[str, str]]:
    """Return what hangs together with a root, nearest first, and the neighbour by which each was reached."""
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
