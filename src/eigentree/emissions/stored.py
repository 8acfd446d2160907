"""Emissions in files: the name of the class, and its fields."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from eigentree.emissions.base import PARAMETER, Emission, StackedEmission
from eigentree.emissions.covariates.membership import Membership
from eigentree.emissions.families import FAMILIES
from eigentree.emissions.marginal import Marginal
from eigentree.errors import FileError
from eigentree.io.codec import NUMBER, VALUE, At
from eigentree.io.documents import Section, UnknownEntryError, plain, typed, whole

if TYPE_CHECKING:
    from collections.abc import Iterator

    from eigentree.io.stores import Reader, Writer

__all__ = ["emission_content", "read_emission"]

PARTS: tuple[type[Any], ...] = (Marginal,)
"""What emissions are made of, beside arrays and plain values."""

SIMPLE = {"float": float, "int": int, "str": str, "bool": bool}


def _known() -> dict[str, type[Any]]:
    every: tuple[type[Any], ...] = (*FAMILIES.values(), Membership, *PARTS, StackedEmission)
    return {each.__name__: each for each in every}


def emission_content(writer: Writer, emission: Any) -> dict[str, Any]:
    """Return the document of an emission, or of a part of one, after putting its arrays into the file."""
    name = type(emission).__name__
    if _known().get(name) is not type(emission):
        raise FileError(f"a file holds eigentree's own emissions, not a {name}; FAMILIES lists them")
    entries = {}
    for each in fields(emission):
        entries[each.name] = _content(writer, each.name, getattr(emission, each.name))
    return {"kind": name, "fields": entries}


def _content(writer: Writer, name: str, value: Any) -> dict[str, Any]:
    if isinstance(value, np.ndarray):
        writer.array(name, np.asarray(value, np.float64))
        return {"array": list(value.shape)}
    if is_dataclass(value):
        return {"part": emission_content(writer.within(name), value)}
    if isinstance(value, tuple) and any(is_dataclass(each) or isinstance(each, np.ndarray) for each in value):
        return {"parts": [_content(writer, f"{name}.{place}", each) for place, each in enumerate(value)]}
    return {"value": plain(value, name)}


def read_emission(reader: Reader, content: Any) -> Emission:
    """Return the emission of a document, once its densities are numbers."""
    emission = _read(reader, content)
    if not isinstance(emission, Emission):
        raise FileError("an emission is one of the families")
    try:
        proper = emission.is_proper()
    except (ValueError, TypeError, IndexError, ArithmeticError, AttributeError, np.linalg.LinAlgError):
        proper = False
    if not proper:
        raise FileError(f"the parameters of the emission {type(emission).family!r} are none of a distribution")
    return emission


def _read(reader: Reader, content: Any) -> Any:
    entry = Section(content, "an emission", ("kind", "fields"))
    known = _known()
    if entry.text("kind") not in known:
        raise UnknownEntryError(f"there is no emission {entry.text('kind')[:60]!r}")
    made = known[entry.text("kind")]
    own = {each.name: str(each.type) for each in fields(made)}
    given = Section(entry["fields"], f"an emission {made.__name__}", tuple(own))
    values = {name: _value(reader, name, given[name], kind) for name, kind in own.items()}
    if issubclass(made, Emission) and made is not StackedEmission:
        counts = {len(array) for array in _arrays(made, values)}
        if len(counts) != 1:
            raise FileError(f"the parameters of an emission {made.__name__} have different numbers of states")
    return made(**values)


def _arrays(made: type[Any], values: dict[str, Any]) -> Iterator[Any]:
    for each in fields(made):
        if each.metadata == PARAMETER:
            array = values[each.name]
            if not isinstance(array, np.ndarray) or not array.ndim:
                raise FileError(f"the parameter {each.name!r} of an emission is an array, one line for each state")
            yield array


def _value(reader: Reader, name: str, content: Any, kind: str) -> Any:
    entry = Section(content, name, (), ("array", "part", "parts", "value"))
    if len(entry.content) != 1:
        raise FileError(f"the field {name} of an emission has one value")
    if "array" in entry.content:
        shape = [whole(each, name) for each in typed(entry["array"], list, name)]
        return reader.floats(name, *shape).copy()
    if "part" in entry.content:
        return _read(reader.within(name), entry["part"])
    if "parts" in entry.content:
        return tuple(
            _value(reader, f"{name}.{place}", each, "")
            for place, each in enumerate(typed(entry["parts"], list, name))
        )
    at = At(name, name, {})
    if kind == "float":
        return float(NUMBER.read(reader, entry["value"], at))
    value = VALUE.read(reader, entry["value"], at)
    if kind in SIMPLE and type(value) is not SIMPLE[kind]:
        raise FileError(f"the field {name} of an emission is a {kind}")
    return value
