"""Trees one after the other: from lists and iterators, and from files of brackets or JSON lines."""

from __future__ import annotations

import io
import json
import os
from itertools import chain
from typing import TYPE_CHECKING, Any

from eigentree.data.treebanks.tree import Tree, bracketed_trees
from eigentree.errors import DataError, FileError
from eigentree.io.byte_files import checked_path, read_bytes, shown_path
from eigentree.validation import one_by_one

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

__all__ = ["read_trees", "trees_of"]


def read_trees(path: str | os.PathLike[str]) -> Iterator[Tree]:
    """Yield the trees of a file, one after the other, so that a file may be larger than memory.

    Parameters
    ----------
    path : str or PathLike
        A file of trees in Penn brackets, on one line or several each, or of JSON lines, each a tree as nested
        lists, perhaps compressed; ``"-"`` is standard input.

    Raises
    ------
    FileError
        When the file cannot be read, or holds something else; the error names the line.
    """
    name = checked_path(path)
    shown = shown_path(name)
    with read_bytes(name) as file:
        # A carriage return within a word is no end of a line.
        text = io.TextIOWrapper(file, "utf-8-sig", newline="\n")
        try:
            begin = []
            for line in text:
                begin.append(line)
                if line.strip():
                    break
            is_json = begin and begin[-1].lstrip()[:1] in ("[", "{")
            lines = chain(begin, text)
            for _, tree in _json_trees(lines) if is_json else bracketed_trees(lines):
                yield tree
        except (DataError, UnicodeDecodeError) as error:
            raise FileError(f"{shown}: {error}") from None


def trees_of(X: Any) -> Iterator[Tree]:
    """Yield the trees that users bring, one after the other; an error names the tree by its number, from 0.

    Parameters
    ----------
    X : Tree, iterable of whatever `Tree.of` takes, or path of a file
        A string that has no bracket in it is a path.
    """
    if isinstance(X, Tree):
        X = [X]
    if isinstance(X, os.PathLike) or (isinstance(X, str) and "(" not in X):
        yield from read_trees(X)
        return
    if isinstance(X, str):
        yield from (tree for _, tree in bracketed_trees(io.StringIO(X, newline="\n")))
        return
    for number, value in enumerate(one_by_one("X", X, "trees", DataError)):
        try:
            yield Tree.of(value)
        except DataError as error:
            raise DataError(f"tree {number}: {error}") from None


def _json_trees(lines: Iterable[str]) -> Iterator[tuple[int, Tree]]:
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            yield number, Tree.of(json.loads(line))
        except RecursionError:
            raise DataError(f"line {number}: the tree is too deep for JSON; write it in brackets") from None
        except ValueError as error:
            raise DataError(f"line {number}: {error}") from None
