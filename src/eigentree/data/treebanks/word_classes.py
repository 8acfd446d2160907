"""Words of a grammar: those that are frequent, and classes of those that are rare or were never seen."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Literal, TypeAlias

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from eigentree.arrays import Integers

__all__ = ["UNKNOWN", "UNKNOWN_WORDS", "UnknownWords", "WordClasses", "signature"]

UNKNOWN = "<unknown>"
"""The class of words that no other class holds."""

UnknownWords: TypeAlias = Literal["signature", "single"]
"""How rare and unknown words are classed: by their looks, or all as one."""

UNKNOWN_WORDS: tuple[UnknownWords, ...] = ("signature", "single")

SUFFIX = 2
"""Letters of the end of a word that its signature has."""

LEAST_STEM = 2
"""Letters before them that a word has at least, so that they can be an ending."""


def signature(word: str) -> str:
    """Return the class of an unknown word by its looks: a capital letter, digits, a hyphen, and how it ends.

    Examples
    --------
    >>> signature("walking"), signature("Chomsky"), signature("1984"), signature("co-operate"), signature("%")
    ('<unknown ng>', '<unknown capital ky>', '<unknown digit>', '<unknown hyphen te>', '<unknown>')
    """
    looks = []
    if word[:1].isupper():
        looks.append("capital")
    if any(letter.isdigit() for letter in word):
        looks.append("digit")
    if "-" in word[1:]:
        looks.append("hyphen")
    end = word[-SUFFIX:].lower()
    if len(word) >= SUFFIX + LEAST_STEM and end.isalpha():
        looks.append(end)
    return f"<{' '.join(['unknown', *looks])}>"


@dataclass(frozen=True, eq=False)
class WordClasses:
    """The words that a grammar knows, and the classes of all others.

    A word that is not in the vocabulary is of the class of its `signature`, if rare words of the training data made
    one, and else of the class ``<unknown>``. A code is the place of a word or class in `names`.

    Attributes
    ----------
    vocabulary : tuple of str
        The known words, sorted.
    classes : tuple of str
        The classes, ``<unknown>`` first.

    Examples
    --------
    >>> words = WordClasses.of({"the": 9, "walking": 1, "talking": 1, "of": 1}, least=2)
    >>> words.names
    ('the', '<unknown>', '<unknown ng>')
    >>> words.codes(["the", "stalking", "of"]).tolist()
    [0, 2, 1]
    """

    vocabulary: tuple[str, ...]
    classes: tuple[str, ...]

    @classmethod
    def of(cls, counts: Mapping[str, int], least: int, unknown: UnknownWords = "signature") -> WordClasses:
        """Return the words that occur so often at least, and classes of the others.

        A class has as many rare words behind it as a known word has occurrences, or they are ``<unknown>``.

        Parameters
        ----------
        counts : mapping of str to int
        least : int
        unknown : {"signature", "single"}
        """
        known = sorted(word for word, count in counts.items() if count >= least)
        rare: dict[str, int] = {}
        for word, count in counts.items():
            if count < least and unknown == "signature":
                rare[signature(word)] = rare.get(signature(word), 0) + count
        kept = sorted(name for name, count in rare.items() if count >= least and name != UNKNOWN)
        return cls(tuple(known), (UNKNOWN, *kept))

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The words, then the classes."""
        return self.vocabulary + self.classes

    def codes(self, words: Iterable[str]) -> Integers:
        """Return the code of each word, known or not."""
        return np.array([self.code(word) for word in words], np.int64)

    def code(self, word: str) -> int:
        """Return the code of a word, known or not."""
        code = self._known.get(word)
        return self._classes.get(signature(word), len(self.vocabulary)) if code is None else code

    @cached_property
    def _known(self) -> dict[str, int]:
        return {word: code for code, word in enumerate(self.vocabulary)}

    @cached_property
    def _classes(self) -> dict[str, int]:
        return {name: code for code, name in enumerate(self.classes, len(self.vocabulary))}
