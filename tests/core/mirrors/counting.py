"""Joint counts and sums of features, one row or one product at a time."""

from __future__ import annotations

import math
from collections import Counter
from itertools import product
from typing import Any

import numpy as np


def groups_of(groups: list[tuple[int, ...]], states: list[int]) -> tuple[np.ndarray, ...]:
    """The columns of all groups end to end, as the core reads them."""
    cells = [math.prod(states[column] for column in group) for group in groups]
    return (
        np.cumsum([0, *(len(group) for group in groups)]),
        np.array([column for group in groups for column in group], np.int64),
        np.array([states[column] for group in groups for column in group], np.int64),
        np.cumsum([0, *cells]),
    )


def group_tables(
    codes: np.ndarray, weights: list[Any], groups: list[tuple[int, ...]], states: list[int]
) -> np.ndarray:
    """The tables end to end."""
    tables = []
    for group in groups:
        totals: Counter[tuple[int, ...]] = Counter()
        for row, weight in zip(codes.T.tolist(), weights, strict=True):
            if all(row[column] < states[column] for column in group):
                totals[tuple(row[column] for column in group)] += weight
        tables += [totals[cell] for cell in product(*(range(states[column]) for column in group))]
    return np.array(tables)


def pair_matrix(
    codes: np.ndarray, weights: np.ndarray, wide: np.ndarray, start: np.ndarray, kept: np.ndarray
) -> np.ndarray:
    """The upper triangle of pairs of which at least one is wide."""
    matrix = np.zeros((kept.sum(), kept.sum()), weights.dtype)
    columns = range(len(codes))
    for i, j in product(columns, repeat=2):
        if i <= j and (wide[i] or wide[j]):
            for one, other, weight in zip(codes[i], codes[j], weights, strict=True):
                if one < kept[i] and other < kept[j]:
                    matrix[start[i] + one, start[j] + other] += weight
    return matrix


def common_bits(bits: np.ndarray) -> np.ndarray:
    """How many bits each plane has in common with itself and those that follow."""
    ones = bits.astype(np.int64)
    return np.triu(ones @ ones.T)


def feature_sums(counts: np.ndarray, features: list[np.ndarray]) -> np.ndarray:
    """The sum over cells of count times product of features, axis by axis."""
    found = counts.astype(float)
    for matrix in features:
        found = np.tensordot(found, matrix, (0, 0))
    return found.ravel()
