"""One codec for what model files hold: a class is described once, by its entries, and written and read by that."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from eigentree.errors import FileError
from eigentree.io.documents import Section, number, plain, texts, typed, unplain, whole

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from eigentree.io.stores import Reader, Writer

__all__ = [
    "FLAG",
    "NUMBER",
    "SERIES",
    "TEXT",
    "TEXTS",
    "VALUE",
    "WHOLE",
    "At",
    "Field",
    "Record",
    "optional",
    "tuple_of",
    "within",
]


class At(NamedTuple):
    """Where a value is read: the name of its entry, what messages call it, and what was read before it."""

    name: str
    where: str
    known: Mapping[str, Any]


@dataclass(frozen=True)
class Field:
    """How one type of value stands in a file.

    `write` takes the writer, the name of the entry and the value, and returns what stands in the document. `read`
    takes the reader, what stands there, and where; it raises `FileError` where that is no such value.
    """

    write: Callable[[Any, str, Any], Any]
    read: Callable[[Any, Any, At], Any]


def _put_series(writer: Writer, name: str, series: Any) -> int:
    writer.array(name, np.asarray(series, np.float64))
    return len(series)


def _series(reader: Reader, content: Any, at: At) -> Any:
    series = reader.array(at.name, ("F64",), whole(content, at.where))
    if np.isnan(series).any():
        raise FileError(f"the series {at.name} holds what is no number")
    return series.copy()


TEXT = Field(lambda writer, name, value: str(value), lambda reader, content, at: typed(content, str, at.where))
FLAG = Field(lambda writer, name, value: bool(value), lambda reader, content, at: typed(content, bool, at.where))
WHOLE = Field(lambda writer, name, value: int(value), lambda reader, content, at: whole(content, at.where))
TEXTS = Field(lambda writer, name, value: list(value), lambda reader, content, at: texts(content, at.where))
NUMBER = Field(
    lambda writer, name, value: plain(value, name), lambda reader, content, at: number(content, at.where)
)
VALUE = Field(
    lambda writer, name, value: plain(value, name), lambda reader, content, at: unplain(content, at.where)
)
SERIES = Field(_put_series, _series)
"""Numbers in an array of the file; the document holds how many there are."""


def optional(inner: Field) -> Field:
    """Return the field of a value that may be None, null in the document."""
    return Field(
        lambda writer, name, value: None if value is None else inner.write(writer, name, value),
        lambda reader, content, at: None if content is None else inner.read(reader, content, at),
    )


def tuple_of(inner: Field) -> Field:
    """Return the field of a list of values, which is read as a tuple."""

    def read(reader: Reader | None, content: Any, at: At) -> Any:
        return tuple(inner.read(reader, each, at) for each in typed(content, list, at.where))

    return Field(lambda writer, name, value: [inner.write(writer, name, each) for each in value], read)


def within(write: Callable[[Writer, Any], Any], read: Callable[[Reader, Any, Mapping[str, Any]], Any]) -> Field:
    """Return the field of a class that functions write and read, whose arrays are named within the entry's name."""
    return Field(
        lambda writer, name, value: write(writer.within(name), value),
        lambda reader, content, at: read(reader.within(at.name), content, at.known),
    )


@dataclass(frozen=True)
class Record:
    """How a class stands in a file: an object of the document, with one entry per attribute.

    Messages call it `what`. Its `fields` are read in their order; those of `later` need not be there. `attributes`
    are those of entries that are called otherwise; the names of all others end with the `suffix`.
    """

    what: str
    fields: Mapping[str, Field]
    later: Mapping[str, Field] = field(default_factory=dict)
    attributes: Mapping[str, str] = field(default_factory=dict)
    suffix: str = ""

    def write(self, writer: Writer | None, thing: Any) -> dict[str, Any]:
        """Return the document of a thing, after putting its arrays into the file."""
        content = {}
        for name, each in {**self.fields, **self.later}.items():
            value = getattr(thing, self._attribute(name), None)
            # What a class has by default needs no entry.
            default = getattr(type(thing), self._attribute(name), None)
            if name in self.fields or (value is not None and value is not default):
                content[name] = each.write(writer, name, value)
        return content

    def read(self, reader: Reader | None, content: Any) -> dict[str, Any]:
        """Return the attributes that are not None, by name."""
        entry = Section(content, self.what, tuple(self.fields), tuple(self.later))
        known: dict[str, Any] = {}
        for name, each in {**self.fields, **self.later}.items():
            if name in entry.content:
                value = each.read(reader, entry[name], At(name, entry.at(name), known))
                if value is not None:
                    known[self._attribute(name)] = value
        return known

    def _attribute(self, name: str) -> str:
        return self.attributes.get(name, f"{name}{self.suffix}")
