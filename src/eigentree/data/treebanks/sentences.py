"""Sentences that users bring: strings, lists of words, or trees."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from eigentree.data.treebanks.tree import Tree
from eigentree.errors import DataError, quoted
from eigentree.validation import one_by_one

__all__ = ["sentences_of"]


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
    if isinstance(X, str | bytes | Tree) or not isinstance(X, Iterable):
        raise DataError(f"sentences are a list of strings, of lists of words or of trees, not {quoted(X)}")
    for number, value in enumerate(one_by_one("X", X, "sentences", DataError)):
        if isinstance(value, str):
            words: tuple[Any, ...] = tuple(value.split())
        elif isinstance(value, Tree):
            words = value.words
        elif isinstance(value, Iterable) and not isinstance(value, bytes):
            words = tuple(value)
        else:
            raise DataError(f"sentence {number} is a string, a list of words or a tree, not {quoted(value)}")
        if not words:
            raise DataError(f"sentence {number} has no words; leave it out")
        for word in words:
            if word is not None and (not isinstance(word, str) or not word):
                raise DataError(
                    f"sentence {number}: a word is a string that is not empty, or None where it is missing, "
                    f"not {quoted(word)}"
                )
        yield words
