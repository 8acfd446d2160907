"""The errors that a user can meet, each a `ValueError` that says what to change."""

from __future__ import annotations

import math
from difflib import get_close_matches
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = [
    "DataError",
    "EigentreeError",
    "FileError",
    "GraphError",
    "NetworkError",
    "ParameterError",
    "RankError",
    "TensorError",
    "TreewidthError",
    "did_you_mean",
    "in_short",
]


class EigentreeError(ValueError):
    """Base of all errors that this package raises on purpose."""


class GraphError(EigentreeError):
    """A latent graph is malformed."""


class TreewidthError(EigentreeError):
    """A clique of the junction tree is too large for memory."""


class NetworkError(EigentreeError):
    """A probability table does not fit its graph or is not a distribution."""


class TensorError(EigentreeError):
    """Labels or sizes of labelled tensors do not match."""


class DataError(EigentreeError):
    """Rows do not fit the columns of a model."""


class ParameterError(EigentreeError):
    """An argument of an estimator is out of its range."""


class FileError(EigentreeError):
    """A file cannot be written or read, or does not hold what it should."""


class RankError(EigentreeError):
    """The views of a separator cannot reach the rank that the model needs."""


def did_you_mean(name: object, candidates: Iterable[str]) -> str:
    """Return a hint such as ``"; did you mean 'x1'?"``, or an empty string when nothing is close."""
    close = get_close_matches(str(name), list(candidates), n=1)
    return f"; did you mean {close[0]!r}?" if close else ""


def in_short(count: int) -> str:
    """Return a whole number to three digits, such as ``"1.07e+09"``, also where no float holds it."""
    if count < 10**300:
        return f"{count:.3g}"
    log = math.log10(count)
    return f"{10 ** (log % 1):.2f}e+{math.floor(log)}"
