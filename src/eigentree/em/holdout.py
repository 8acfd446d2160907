"""Which rows, or sequences, are held out: the one split into training and validation data."""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar

import numpy as np

from eigentree.em.estep.unique_rows import systematic
from eigentree.errors import DataError

if TYPE_CHECKING:
    from eigentree.arrays import Floats
    from eigentree.em.estep.unique_rows import DistinctRows
    from eigentree.em.mixed.mixed_rows import MixedRows

__all__ = ["FOLDS", "Fold", "check_split", "folds_of", "held_out", "held_out_folds"]

HELD_OUT = 0.1
"""The share of the rows that is held out where none is given: the usual tenth."""

FEW_ROWS, FOLDS = 2_000, 5
"""Up to so many rows a tenth would leave the choice to fewer than 200: five-fold cross-validation in its place."""


Learned = TypeVar("Learned", "DistinctRows", "MixedRows")


class Fold(NamedTuple, Generic[Learned]):
    """Training rows, and others that choose between the models fitted to them."""

    rows: Learned
    validation: Learned


def held_out(weights: Floats, share: float, random: np.random.Generator) -> Floats:
    """Return how much of each weight is held out: whole copies of a row, stratified (systematic sampling).

    Of a row of weight w, ``w * share`` copies are held out, rounded up or down, and so it is of all rows together.
    What is left of a weight beyond whole copies counts as one more copy.
    """
    order = random.permutation(len(weights))
    given, whole = weights[order], np.floor(weights[order])
    held = np.empty_like(weights)
    parted = (given > whole).astype(float)
    held[order] = systematic(whole * share, random) + (given - whole) * systematic(parted * share, random)
    return held


def held_out_folds(weights: Floats, folds: int, random: np.random.Generator) -> list[Floats]:
    """Return how much of each weight each fold holds out; all folds together hold out everything once."""
    rest, parts = weights, []
    for left in range(folds, 1, -1):
        parts.append(held_out(rest, 1.0 / left, random))
        rest = rest - parts[-1]
    return [*parts, rest]


def check_split(learned: float, held: float, share: float, count: float, data: str = "rows") -> None:
    """Raise `DataError` unless some data are left to learn from, and some to validate by."""
    if not (learned > 0 and held > 0):
        raise DataError(
            f"validation_fraction={share!r} of n_samples={count:g} {data} leaves none to learn from, or none to "
            f"validate by; give more {data} or another share"
        )


def folds_of(
    rows: Learned, share: float, random: np.random.Generator, one: bool = False
) -> tuple[Fold[Learned], ...]:
    """Return one fold of training and validation rows, or five where rows are few and it need not be `one`.

    The share 0 stands for the usual one. Raises `DataError` when no row is left to learn from, or none to validate
    by.
    """
    count = float(rows.weights.sum())
    if one or share or count > FEW_ROWS:
        parts = [held_out(rows.weights, share or HELD_OUT, random)]
    else:
        parts = held_out_folds(rows.weights, FOLDS, random)
    folds = [Fold(rows.weighing(rows.weights - part), rows.weighing(part)) for part in parts]
    usable = tuple(fold for fold in folds if len(fold.rows.weights) and len(fold.validation.weights))
    if not usable:
        check_split(0.0, 0.0, share or HELD_OUT, count)
    return usable
