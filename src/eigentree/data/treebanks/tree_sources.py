"""Trees and sentences one after the other: from lists and iterators; trees also from files of brackets or JSON."""

from __future__ import annotations

import io
import json
import os
from itertools import chain, islice
from typing import TYPE_CHECKING, Any

from eigentree.data.treebanks.tree import Tree, bracketed_trees
from eigentree.errors import DataError, FileError, quoted
from eigentree.io.byte_files import checked_path, read_bytes, shown_path
from eigentree.validation import one_by_one

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

__all__ = ["read_trees", "sentences_of", "trees_of"]

MOST_WORDS = 2**15 - 1
"""Of a sentence: charts take the square of them in memory."""


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


def sentences_of(X: Any) -> Iterator[tuple[str | None, ...]]:
    """Yield the words of each sentence, None where one is missing; an error names the sentence, from 0.

    Parameters
    ----------
    X : iterable of str, iterable of str and None, or Tree
        The words of a string stand between blanks, and those of a tree below it.

    Examples
    --------
    >>> list(sentences_of(["she sees stars", ["she", None], Tree.parse("(NP the stars)")]))
    [('she', 'sees', 'stars'), ('she', None), ('the', 'stars')]
    """
    given = None if isinstance(X, str | Tree) else _values(X)
    if given is None:
        raise DataError(f"sentences are a list of strings, of lists of words or of trees, not {quoted(X)}")
    for number, value in enumerate(given):
        words = (
            value.split() if isinstance(value, str) else value.words if isinstance(value, Tree) else _values(value)
        )
        if words is None:
            raise DataError(f"sentence {number} is a string, a list of words or a tree, not {quoted(value)}")
        sentence = tuple(islice(words, MOST_WORDS + 1))
        if not sentence:
            raise DataError(f"sentence {number} has no words; leave it out")
        if len(sentence) > MOST_WORDS:
            raise DataError(f"sentence {number} has more than {MOST_WORDS:,} words; split it")
        for word in sentence:
            if word is not None and (not isinstance(word, str) or not word):
                raise DataError(
                    f"sentence {number}: a word is a string that is not empty, or None where it is missing, "
                    f"not {quoted(word)}"
                )
        yield sentence


def _values(value: Any) -> Iterator[Any] | None:
    """Return what a value holds, or None where that is nothing that can be words or sentences."""
    if isinstance(value, bytes):
        return None
    try:
        values: Iterator[Any] = iter(value)
    except TypeError:
        return None
    return values
