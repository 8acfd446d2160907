"""Plain JSON documents, written from values and read back with every entry checked."""

from __future__ import annotations

import json
import math
from numbers import Real
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from eigentree.errors import FileError, quoted

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = [
    "MOST",
    "Section",
    "UnknownEntryError",
    "number",
    "parsed",
    "plain",
    "texts",
    "typed",
    "unplain",
    "whole",
    "written",
]

T = TypeVar("T")

MOST = 2**53
"""Whole numbers in documents are smaller than this, unless they are parameters of the user's."""

TYPE_NAMES = {str: "a string", bool: "true or false", list: "a list"}

MOST_PARTS = 2**20
"""Lists and objects of a document: each takes twenty times the memory of its two letters; the largest graphs have
half as many."""

MOST_BITS = 10_000
"""Python itself refuses to write or read whole numbers of more than 4,300 digits."""


class UnknownEntryError(FileError):
    """A document has an entry, or names a kind of thing, that this version does not know."""


def written(document: Any) -> str:
    """Return plain values as JSON, in letters that every system can write."""
    return json.dumps(document, allow_nan=False, separators=(",", ":"))


def parsed(text: str) -> Any:
    """Return the plain values of a JSON text; raise `FileError` where it is none, or names an entry twice."""
    if text.count("[") + text.count("{") > MOST_PARTS:
        raise FileError(f"a header has more than {MOST_PARTS:,} lists and objects")
    try:
        return json.loads(text, object_pairs_hook=_distinct, parse_constant=_refuse)
    except (ValueError, RecursionError) as error:
        if isinstance(error, FileError):
            raise
        raise FileError("a header is no JSON document, or one beyond reason") from None


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise FileError("a header names an entry twice")
    return found


def _refuse(constant: str) -> Any:
    raise FileError(f"a header holds {constant}, which is no JSON")


def plain(value: Any, what: str) -> Any:
    """Return a value of the user's as JSON can hold it, so that `unplain` gives it back.

    Strings, numbers (numpy's and fractions come back as Python's), booleans, None, and lists, tuples and
    dictionaries of these; an array of one axis comes back as a list.
    """
    if isinstance(value, np.generic) and not isinstance(value, np.void):
        # The item of a long double is one again.
        value = float(value) if isinstance(value, np.floating) else value.item()
    if isinstance(value, int) and value.bit_length() > MOST_BITS:
        raise FileError(f"{what} is a whole number of thousands of digits, which a file cannot hold")
    if value is None or isinstance(value, bool | str | int):
        return value
    if isinstance(value, Real):
        value = float(value)
        return value if math.isfinite(value) else {"float": repr(value)}
    if isinstance(value, np.ndarray) and value.ndim == 1:
        value = value.tolist()
    if isinstance(value, list):
        return [plain(each, what) for each in value]
    if isinstance(value, tuple):
        return {"tuple": [plain(each, what) for each in value]}
    if isinstance(value, dict):
        return {"dict": [[plain(key, what), plain(each, what)] for key, each in value.items()]}
    raise FileError(f"{what} is a {type(value).__name__}, which a file cannot hold")


def unplain(content: Any, what: str) -> Any:
    """Return the value that `plain` made this of."""
    if isinstance(content, list):
        return [unplain(each, what) for each in content]
    if not isinstance(content, dict):
        return number(content, what) if isinstance(content, float) else content
    if len(content) == 1:
        ((kind, inner),) = content.items()
        if kind == "float" and inner in ("inf", "-inf", "nan"):
            return float(inner)
        if kind == "tuple" and isinstance(inner, list):
            return tuple(unplain(each, what) for each in inner)
        if kind == "dict" and isinstance(inner, list) and all(_is_pair(pair) for pair in inner):
            pairs = [(unplain(key, what), unplain(each, what)) for key, each in inner]
            try:
                return dict(pairs)
            except TypeError:  # a list within a key
                raise FileError(f"{what} has a key that can be none") from None
    raise UnknownEntryError(f"{what} is of a kind that is not known")


def _is_pair(content: Any) -> bool:
    return isinstance(content, list) and len(content) == 2


def number(content: Any, what: str) -> float:
    """Return a number that `plain` wrote: it may be infinite, or NaN."""
    found = unplain(content, what) if isinstance(content, dict) else content
    if type(found) is float and (math.isfinite(found) or isinstance(content, dict)):
        return found
    try:
        if type(found) is int:
            return float(found)
    except OverflowError:
        pass
    raise FileError(f"{what} is a number, not {quoted(content)}")


def whole(content: Any, what: str, least: int = 0, most: int = MOST) -> int:
    """Return a whole number within bounds."""
    if type(content) is not int or not least <= content <= most:
        raise FileError(f"{what} is a whole number from {least} to {most}, not {quoted(content)}")
    return content


def texts(content: Any, what: str) -> tuple[str, ...]:
    """Return a list of strings."""
    if type(content) is not list or not all(type(each) is str for each in content):
        raise FileError(f"{what} is a list of strings, not {quoted(content)}")
    return tuple(content)


def typed(content: Any, kind: type[T], what: str) -> T:
    """Return a string, truth value or list as it is."""
    if type(content) is not kind:
        raise FileError(f"{what} is {TYPE_NAMES[kind]}, not {quoted(content)}")
    return content


class Section:
    """One JSON object of a document, called `where` in messages, whose entries are known and are read by type."""

    def __init__(self, content: Any, where: str, required: Sequence[str], optional: Sequence[str] = ()) -> None:
        if not isinstance(content, dict):
            raise FileError(f"{where} is a JSON object, not {quoted(content)}")
        for name in content:
            if name not in required and name not in optional:
                raise UnknownEntryError(f"{where} has an entry {quoted(name)}, which is not known")
        self.content = content
        self.where = where
        for name in required:
            _ = self[name]

    def has(self, name: str) -> bool:
        """Return whether there is an entry that is not null."""
        return self.content.get(name) is not None

    def at(self, name: str) -> str:
        """Return what messages call an entry."""
        return f"{self.where}: {name}"

    def __getitem__(self, name: str) -> Any:
        if name not in self.content:
            raise FileError(f"{self.where} has no entry {name!r}")
        return self.content[name]

    def value(self, name: str) -> Any:
        """Return a value that `plain` wrote."""
        return unplain(self[name], self.at(name))

    def text(self, name: str) -> str:
        """Return a string."""
        return typed(self[name], str, self.at(name))

    def flag(self, name: str) -> bool:
        """Return True or False."""
        return typed(self[name], bool, self.at(name))

    def number(self, name: str) -> float:
        """Return a number that `plain` wrote: it may be infinite, or NaN."""
        return number(self[name], self.at(name))

    def whole(self, name: str, least: int = 0, most: int = MOST) -> int:
        """Return a whole number within bounds."""
        return whole(self[name], self.at(name), least, most)

    def items(self, name: str) -> list[Any]:
        """Return a list."""
        return typed(self[name], list, self.at(name))

    def texts(self, name: str) -> tuple[str, ...]:
        """Return a list of strings."""
        return texts(self[name], self.at(name))

    def wholes(self, name: str, least: int = 0, most: int = MOST) -> tuple[int, ...]:
        """Return a list of whole numbers within bounds."""
        return tuple(whole(each, self.at(name), least, most) for each in self.items(name))
