"""Sentences that users bring: strings, lists of words, or trees."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any

from eigentree.data.treebanks.tree import Tree
from eigentree.errors import DataError, quoted

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["sentences_of"]

MOST_WORDS = 2**15 - 1
"""Of a sentence: charts take the square of them in memory."""


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
