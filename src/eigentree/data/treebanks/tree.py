"""Labelled trees: immutable values that are read from and written as Penn brackets, nested tuples and JSON."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from eigentree.errors import DataError, quoted

__all__ = ["Child", "Tree", "bracketed_trees"]

Child: TypeAlias = "Tree | str | None"
"""A subtree, a word, or a word that is missing."""

_TOKEN = re.compile(r"[()]|(?:\\[\s()\\]|[^\s()])+")

_ESCAPED = re.compile(r"\\([\s()\\])")

_SPECIAL = re.compile(r"[\s()]|\\(?=[\s()\\]|$)")

_NO_LABEL = object()
"""In place of a label in a bracket that begins with a tree."""


@dataclass(frozen=True, eq=False, repr=False, slots=True)
class Tree:
    r"""A tree: the label of its root and the children, each of which is a tree or a word.

    Trees are equal when their labels, words and shapes are. As text they are Penn brackets, where ``()`` stands for
    a label or a word that is missing, and a backslash stands before blanks and brackets of labels and words.

    Parameters
    ----------
    label : str or None
        None where it is missing.
    children : iterable of Tree, str or None
        One at least; None is a word that is missing.

    Examples
    --------
    >>> tree = Tree.parse("(S (NP she) (VP (V sees) (NP stars)))")
    >>> tree.label, tree.words, tree.children[0]
    ('S', ('she', 'sees', 'stars'), Tree('(NP she)'))
    >>> tree == Tree.of(("S", ("NP", "she"), ("VP", ("V", "sees"), ("NP", "stars"))))
    True
    """

    label: str | None
    children: tuple[Child, ...]

    def __post_init__(self) -> None:
        _check_text("label", self.label)
        object.__setattr__(self, "children", tuple(self.children))
        if not self.children:
            raise DataError(f"a node has children, and that of label {quoted(self.label)} has none")
        for child in self.children:
            if not isinstance(child, Tree):
                _check_text("word", child)

    @classmethod
    def parse(cls, text: str) -> Tree:
        """Return the tree that is written in brackets; raise `DataError` unless it is just one."""
        if not isinstance(text, str):
            raise DataError(f"a tree in brackets is a string, not {quoted(text)}")
        found = [tree for _, tree in bracketed_trees([text])]
        if len(found) != 1:
            raise DataError(f"one tree was expected, not {len(found)}, in {quoted(text)}")
        return found[0]

    @classmethod
    def of(cls, value: Any) -> Tree:
        """Return the tree that a value stands for.

        Parameters
        ----------
        value : Tree, str, nested tuples or lists, mapping, or a tree of nltk
            Brackets; ``(label, child, …)``, where None is missing; or ``{"label": …, "children": […]}``.
        """
        if isinstance(value, Tree):
            return value
        if isinstance(value, str):
            return cls.parse(value)
        frames: list[tuple[Any, Iterator[Any], list[Child]]] = [(*_opened(value), [])]
        # Without recursion: trees may be deeper than Python's stack.
        while True:
            label, rest, children = frames[-1]
            for child in rest:
                if child is None or isinstance(child, str | Tree):
                    children.append(child)
                else:
                    frames.append((*_opened(child), []))
                    break
            else:
                frames.pop()
                tree = cls(label, tuple(children))
                if not frames:
                    return tree
                frames[-1][2].append(tree)

    @property
    def words(self) -> tuple[str | None, ...]:
        """The words, from left to right."""
        return tuple(child for child in self._preorder() if not isinstance(child, Tree))

    def nodes(self) -> Iterator[Tree]:
        """Yield the tree itself and all its subtrees, each before those below it."""
        return (child for child in self._preorder() if isinstance(child, Tree))

    def nested(self) -> list[Any]:
        """Return the tree as nested lists ``[label, child, …]``, as JSON holds them."""
        whole: list[Any] = []
        stack: list[tuple[Tree, list[Any]]] = [(self, whole)]
        while stack:
            tree, filled = stack.pop()
            filled.append(tree.label)
            for child in tree.children:
                if isinstance(child, Tree):
                    inner: list[Any] = []
                    stack.append((child, inner))
                    filled.append(inner)
                else:
                    filled.append(child)
        return whole

    def _preorder(self) -> Iterator[Child]:
        stack: list[Child] = [self]
        while stack:
            child = stack.pop()
            yield child
            if isinstance(child, Tree):
                stack += reversed(child.children)

    def __str__(self) -> str:
        parts: list[str] = []
        stack: list[Child | bool] = [self]
        while stack:
            part = stack.pop()
            if isinstance(part, bool):
                parts.append(")")
            elif isinstance(part, Tree):
                parts.append(f" ({_written(part.label)}")
                stack.append(False)
                stack += reversed(part.children)
            else:
                parts.append(f" {_written(part)}")
        return "".join(parts)[1:]

    def __repr__(self) -> str:
        return f"Tree({str(self)!r})"

    def __eq__(self, other: object) -> bool:
        return str(self) == str(other) if isinstance(other, Tree) else NotImplemented

    def __hash__(self) -> int:
        return hash(str(self))

    def __reduce__(self) -> tuple[Any, ...]:
        return Tree.parse, (str(self),)


def bracketed_trees(lines: Iterable[str]) -> Iterator[tuple[int, Tree]]:
    """Yield the trees that are written in brackets in lines of text, each with the number of its last line.

    An outer pair of brackets without a label around one tree, as the Penn Treebank has it, is left out.
    """
    frames: list[tuple[list[Any], list[Child]]] = []
    number, first, begun = 0, 1, ""
    for number, line in enumerate(lines, 1):
        begun += line
        if line.endswith("\\\n"):
            # A word that has the end of a line in it.
            continue
        tokens, begun = _TOKEN.findall(begun), ""
        for token in tokens:
            if token == "(":
                first = first if frames else number
                frames.append(([], []))
            elif not frames:
                raise DataError(f"line {number}: {quoted(token)} stands outside the brackets of a tree")
            elif token != ")":
                label, children = frames[-1]
                (children if label or children else label).append(_ESCAPED.sub(r"\1", token))
            else:
                tree = _closed(frames, number)
                if tree is not None:
                    yield number, tree
    if frames:
        raise DataError(f"line {number}: {len(frames)} brackets of the tree of line {first} are not closed")


def _closed(frames: list[tuple[list[Any], list[Child]]], number: int) -> Tree | None:
    """Close the innermost bracket; return the tree if it was the outermost."""
    label, children = frames.pop()
    if not label and frames:
        above, siblings = frames[-1]
        (siblings if above or siblings else above).append(None)
        return None
    if not label:
        raise DataError(f"line {number}: a pair of brackets outside a tree has nothing in it")
    unlabelled = label == [_NO_LABEL]
    if not frames and unlabelled and len(children) == 1 and isinstance(children[0], Tree):
        return children[0]
    try:
        tree = Tree(None if unlabelled else label[0], tuple(children))
    except DataError as error:
        raise DataError(f"line {number}: {error}") from None
    if not frames:
        return tree
    frames[-1][1].append(tree)
    if not frames[-1][0]:
        # What comes next are children too.
        frames[-1][0].append(_NO_LABEL)
    return None


def _opened(value: Any) -> tuple[Any, Iterator[Any]]:
    """Return the label and the children of a value that stands for a tree."""
    if isinstance(value, Mapping):
        if set(value) != {"label", "children"} or not isinstance(value["children"], list | tuple):
            raise DataError(f"a tree as a mapping has a 'label' and a list of 'children', not {quoted(value)}")
        return value["label"], iter(value["children"])
    if isinstance(value, list | tuple):
        if callable(label := getattr(value, "label", None)):
            return label(), iter(value)
        if value:
            return value[0], iter(value[1:])
    raise DataError(f"a tree is a Tree, a string in brackets, or (label, child, …), not {quoted(value)}")


def _check_text(what: str, text: Any) -> None:
    if text is not None and (not isinstance(text, str) or not text):
        raise DataError(f"a {what} is a string that is not empty, or None where it is missing, not {quoted(text)}")


def _written(text: str | None) -> str:
    return "()" if text is None else _SPECIAL.sub(r"\\\g<0>", text)
