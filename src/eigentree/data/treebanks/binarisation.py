"""Trees in normal form, every inner node with two children or one word, and back again."""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Literal, TypeAlias

from eigentree.data.treebanks.tree import Tree
from eigentree.errors import DataError, ParameterError, quoted
from eigentree.validation import one_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from eigentree.data.treebanks.tree import Child

__all__ = ["INTERMEDIATE", "JOINT", "Binarisation", "Factoring", "is_intermediate"]

INTERMEDIATE = "@"
"""What the labels of nodes begin with that binarisation adds; alone it is that of a word beside other children."""

JOINT = "+"
"""What stands between the labels of a chain of only children."""

Factoring: TypeAlias = Literal["right", "left"]
"""On which side of a binarised node the rest of its children stands."""


def is_intermediate(label: str) -> bool:
    """Return whether binarisation added the node of such a label."""
    return label.startswith(INTERMEDIATE)


@dataclass(frozen=True)
class Binarisation:
    """How trees are brought into the normal form of Cohen et al. (2012), and back.

    A node ``NP`` of more than two children keeps one of them and has the others below a node ``@NP``; a chain of
    only children becomes one node of a joined label, such as ``S+VP``; and a word beside other children stands
    below a node ``@`` of its own. Where a label is missing, so are those that are made of it.

    Parameters
    ----------
    factoring : {"right", "left"}
        On which side the rest of the children stands.

    Examples
    --------
    >>> normal = Binarisation().binarised(Tree.parse("(S (VP (V see) (NP the stars) (. !)))"))
    >>> str(normal)
    '(S+VP (V see) (@VP (NP (@ the) (@ stars)) (. !)))'
    >>> str(Binarisation().restored(normal))
    '(S (VP (V see) (NP the stars) (. !)))'
    """

    factoring: Factoring = "right"

    def __post_init__(self) -> None:
        one_of("binarisation", self.factoring, ("right", "left"), ParameterError)

    def binarised(self, tree: Tree) -> Tree:
        """Return a tree in normal form.

        Raises `DataError` where a label cannot be known from those that are added: it begins with ``@``, or has a
        ``+`` in it.
        """
        (normal,) = _rebuilt(tree, lambda label, children: [self._normal(label, children)])
        assert isinstance(normal, Tree)
        return normal

    def restored(self, tree: Tree) -> Tree:
        """Return the tree that was binarised."""
        found = _rebuilt(tree, _unfolded)
        if len(found) > 1 or not isinstance(found[0], Tree):
            return Tree(tree.label, tuple(found))
        return found[0]

    def _normal(self, label: str | None, children: list[Child]) -> Tree:
        if label is not None and (is_intermediate(label) or JOINT in label):
            raise DataError(
                f"the label {quoted(label)} begins with {INTERMEDIATE!r} or has a {JOINT!r} in it, which stand for "
                f"nodes that binarisation adds and joins; give it another name, or binarisation=None"
            )
        if len(children) == 1:
            (only,) = children
            if not isinstance(only, Tree):
                return Tree(label, (only,))
            known = label is not None and only.label is not None
            return Tree(f"{label}{JOINT}{only.label}" if known else None, only.children)
        below = [each if isinstance(each, Tree) else Tree(INTERMEDIATE, (each,)) for each in children]
        added = INTERMEDIATE + (label or "")
        if self.factoring == "left":
            first = reduce(lambda left, right: Tree(added, (left, right)), below[1:-1], below[0])
            return Tree(label, (first, below[-1]))
        last = reduce(lambda right, left: Tree(added, (left, right)), below[-2:0:-1], below[-1])
        return Tree(label, (below[0], last))


def _unfolded(label: str | None, children: list[Child]) -> list[Child]:
    """Return what stands in place of a node of a tree in normal form."""
    if label is None:
        return [Tree(None, tuple(children))]
    if is_intermediate(label):
        return children
    first, *chain = label.split(JOINT)
    for each in reversed(chain):
        # An intermediate node cannot be a link of a chain in a tree that was binarised.
        children = children if is_intermediate(each) or not each else [Tree(each, tuple(children))]
    return [Tree(first or None, tuple(children))]


def _rebuilt(tree: Tree, node: Callable[[str | None, list[Child]], list[Child]]) -> list[Child]:
    """Return a tree made anew from its words up, by a function of a label and of what its children became."""
    frames: list[tuple[Tree, int, list[Child]]] = [(tree, 0, [])]
    while True:
        here, place, children = frames.pop()
        if place < len(here.children):
            child = here.children[place]
            frames.append((here, place + 1, children))
            if isinstance(child, Tree):
                frames.append((child, 0, []))
            else:
                children.append(child)
            continue
        made = node(here.label, children)
        if not frames:
            return made
        frames[-1][2].extend(made)
