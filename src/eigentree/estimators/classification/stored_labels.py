"""The labels of classes in files."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import numpy as np

from eigentree.errors import FileError
from eigentree.io.documents import Section, plain

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["labels_content", "read_labels"]

PLAIN_TYPE = re.compile(r"\|b1|\|[iu]1|<[iuf][248]|<U\d{1,6}|<[Mm]8\[\w{1,8}\]|\|O")
"""The types whose labels JSON can hold, as numpy writes them: the lowest byte first."""

MOST_LABELS = 2**26
"""Bytes of all labels of classes together: numpy gives each the width of the longest."""


def labels_content(labels: NDArray[Any]) -> dict[str, Any]:
    """Return the document of an array of labels."""
    kind = labels.dtype.newbyteorder("<").str
    if not PLAIN_TYPE.fullmatch(kind):
        raise FileError(f"labels of classes are of the type {labels.dtype}, which a file cannot hold; use strings")
    _check_size(len(labels), labels.dtype)
    # Times as numbers: their texts have no unit.
    values = labels.view(np.int64) if labels.dtype.kind in "mM" else labels
    return {"type": kind, "labels": [plain(label, "a label of a class") for label in values.tolist()]}


def read_labels(content: Any) -> NDArray[Any]:
    """Return the labels of a document: at least two, in order, all different."""
    entry = Section(content, "labels", ("type", "labels"))
    kind, values = entry.text("type"), entry.value("labels")
    if not PLAIN_TYPE.fullmatch(kind) or not isinstance(values, list):
        raise FileError("labels of classes are a list, and of a type that labels can have")
    try:
        _check_size(len(values), np.dtype(kind))
        labels = _label_array(np.dtype(kind), values)
        ordered = len(labels) > 1 and bool((labels[1:] > labels[:-1]).all())
    except FileError:
        raise
    except (TypeError, ValueError, OverflowError):
        raise FileError("labels of classes are not of the type that is given") from None
    if not ordered:
        raise FileError("labels of classes are at least two, in order and all different")
    return labels


def _check_size(count: int, kind: np.dtype[Any]) -> None:
    if count * kind.itemsize > MOST_LABELS:
        raise FileError(
            f"{count:,} labels of classes of the type {kind} are {count * kind.itemsize:,} bytes (the limit is "
            f"{MOST_LABELS:,}); use shorter ones"
        )


def _label_array(kind: np.dtype[Any], values: list[Any]) -> NDArray[Any]:
    allowed = {"b": bool, "i": int, "u": int, "f": float, "U": str, "m": int, "M": int}
    if kind.kind in allowed and not all(type(value) is allowed[kind.kind] for value in values):
        raise TypeError
    if kind.kind == "U" and max(map(len, values), default=0) * 4 > kind.itemsize:
        raise ValueError
    labels = np.empty(len(values), kind.newbyteorder("="))
    if kind.kind in "mM":
        return np.array(values, np.int64).view(labels.dtype)
    for k, value in enumerate(values):
        labels[k] = value
    return labels
