"""Bonds from pair moments: singular vectors, scaled and centred or as the paper has them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from eigentree.arrays import Floats

__all__ = [
    "NO_SIGNAL",
    "Bond",
    "PairMoment",
    "centred_bond",
    "leading_triples",
    "leaf_bond",
    "plain_bond",
    "sparse_bond",
]

SCALING_ROWS = 20.0
"""c of the variance scaling: how many rows' worth of counts are added to a rare state."""

NO_SIGNAL = 1e-10
"""Singular values below this part of the largest are rounding, and are not inverted."""

RANDOMISED_FROM = 400
"""Matrices with both sides larger than this get a randomised SVD: only a few directions are wanted."""

ITERATIONS = 6
"""Of the subspace in a randomised SVD."""

Triples: TypeAlias = "tuple[Floats, Floats, Floats]"


class Bond(NamedTuple):
    """The bonds of several edges of one shape, for several sets of tables.

    Attributes
    ----------
    projection : array, shape (sets, nodes, features of the inside view, rank)
    solves : list of array, shape (sets, nodes, features of an outside view, rank)
    sizes : array, shape (sets, nodes, at most rank + 1)
        Singular values.
    """

    projection: Floats
    solves: list[Floats]
    sizes: Floats


def plain_bond(pairs: list[Floats], rank: int) -> Bond:
    """Return the bonds as the paper has them: from the singular vectors of the pair moment itself."""
    u, sizes, v = _top_singular(np.concatenate(pairs, axis=-1), rank + 1)
    u, v, top = _padded(u, v, sizes, rank)
    solve = np.swapaxes(v, -1, -2) * _inverted(top, top[..., :1])[..., None, :]
    ends = np.cumsum([pair.shape[-1] for pair in pairs])[:-1]
    return Bond(u, np.split(solve, ends, axis=-2), sizes)


def leaf_bond(pairs: list[Floats], rank: int, rows: Floats | None) -> Bond:
    """Return the bonds of leaves, the shared direction taken out exactly; scaled by variance if there are rows."""
    insides, outsides = [pair.sum(axis=-1) for pair in pairs], [pair.sum(axis=-2) for pair in pairs]
    means = zip(pairs, insides, outsides, strict=True)
    covariance = [p - a[..., None] * b[..., None, :] for p, a, b in means]
    low, high = (None, None) if rows is None else _scales(insides, outsides, rows)
    if low is not None and high is not None:
        scaled = zip(covariance, high, strict=True)
        covariance = [low[..., None] * each * scale[..., None, :] for each, scale in scaled]
    triples = _top_singular(np.concatenate(covariance, axis=-1), rank)
    return _spread(_directions(triples, insides, outsides, rank, low, high))


def _scales(insides: list[Floats], outsides: list[Floats], rows: Floats | float) -> tuple[Floats, list[Floats]]:
    """Return the scales of leaves and of each outside view, given the distributions of the columns in each pair."""
    sums = [
        np.mean(insides, axis=0) + SCALING_ROWS / rows,
        *(outside + SCALING_ROWS / rows for outside in outsides),
    ]
    low, *high = (1 / np.sqrt(each, out=np.full_like(each, np.inf), where=each > 0) for each in sums)
    return low, high


def _spread(bond: Bond) -> Bond:
    """Return a bond in terms of one-hot vectors alone: the constant is the sum of their entries."""
    spread = [part[..., 1:, :] + part[..., :1, :] for part in (bond.projection, *bond.solves)]
    return Bond(spread[0], spread[1:], bond.sizes)


def centred_bond(pairs: list[Floats], rank: int) -> Bond:
    """Return the bonds that carry the constant and the leading directions of the covariance.

    Pairs have the shape (sets, nodes, features of the inside view, features of an outside view), the first
    feature on each side being the constant.
    """
    covariance = [pair[..., 1:, 1:] - pair[..., 1:, :1] * pair[..., :1, 1:] for pair in pairs]
    triples = _top_singular(np.concatenate(covariance, axis=-1), rank)
    return _directions(triples, [pair[..., 1:, 0] for pair in pairs], [pair[..., 0, 1:] for pair in pairs], rank)


def _directions(
    triples: Triples,
    insides: list[Floats],
    outsides: list[Floats],
    rank: int,
    low: Floats | None = None,
    high: list[Floats] | None = None,
) -> Bond:
    """Return the bonds of leading singular triples of covariances, given the means of the features.

    `low` and `high` are the scales of the features but the constant, inside and in each outside view.
    """
    sizes = triples[1]
    u, v, top = _padded(triples[0], triples[2], sizes, rank - 1)
    # Each outside view adds 1 to the square of what the constant's singular value would be.
    trivial = np.full((*sizes.shape[:-1], 1), math.sqrt(len(insides)))
    inside = u if low is None else low[..., :, None] * u
    mean = np.mean(insides, axis=0)
    ends = np.cumsum([outside.shape[-1] for outside in outsides])[:-1]
    solve = np.split(np.swapaxes(v, -1, -2) * _inverted(top, trivial)[..., None, :], ends, axis=-2)
    if high is not None:
        solve = [b[..., :, None] * part for b, part in zip(high, solve, strict=True)]
    solves = [_centred(part, q, 1 / len(insides)) for part, q in zip(solve, outsides, strict=True)]
    return Bond(_centred(inside, mean, 1.0), solves, np.concatenate([trivial, sizes], axis=-1))


def _centred(directions: Floats, mean: Floats, constant: float) -> Floats:
    """Return the constant and directions less their mean, in terms of features that begin with the constant."""
    *lead, features, rank = directions.shape
    made = np.zeros((*lead, 1 + features, 1 + rank))
    made[..., 0, 0] = constant
    made[..., :1, 1:] = -(mean[..., None, :] @ directions)
    made[..., 1:, 1:] = directions
    return made


def _inverted(sizes: Floats, scale: Floats) -> Floats:
    """Return 1 / singular values, and 0 where they are nothing but rounding."""
    return np.divide(1.0, sizes, out=np.zeros_like(sizes), where=sizes > NO_SIGNAL * scale)


def _padded(u: Floats, v: Floats, sizes: Floats, rank: int) -> tuple[Floats, Floats, Floats]:
    """Return exactly `rank` singular triples: the first ones, then zeros where there are fewer."""
    short = max(0, rank - sizes.shape[-1])
    lead = [(0, 0)] * (sizes.ndim - 1)
    return (
        np.pad(u[..., :rank], [*lead, (0, 0), (0, short)]),
        np.pad(v[..., :rank, :], [*lead, (0, short), (0, 0)]),
        np.pad(sizes[..., :rank], [*lead, (0, short)]),
    )


def _top_singular(matrices: Floats, wanted: int) -> Triples:
    """Return the largest singular triples of a stack of matrices, with signs that do not depend on the solver."""
    small = min(matrices.shape[-2:])
    if small < 3 * wanted + 8:
        return _signed(*np.linalg.svd(matrices, full_matrices=False), wanted)
    transposed = np.swapaxes(matrices, -1, -2)
    if small > RANDOMISED_FROM:
        shape = matrices.shape[-2], matrices.shape[-1]
        return leading_triples(matrices.__matmul__, transposed.__matmul__, shape, wanted)
    # Leading left directions from the matrix times its transpose: three times as fast as an SVD.
    _, vectors = np.linalg.eigh(matrices @ transposed)
    return _refined(matrices.__matmul__, transposed @ vectors[..., -wanted - 4 :], wanted)


def leading_triples(
    times: Callable[[Floats], Floats],
    transposed_times: Callable[[Floats], Floats],
    shape: tuple[int, int],
    wanted: int,
) -> Triples:
    """Return the largest singular triples of matrices that are only multiplied with, by subspace iteration.

    See Halko, Martinsson and Tropp (2011).
    """
    random = np.random.default_rng(0)
    sketch = times(random.standard_normal((shape[1], min(wanted + 10, *shape))))
    for _ in range(ITERATIONS):
        sketch, _ = np.linalg.qr(sketch)
        sketch = times(transposed_times(sketch))
    return _refined(times, transposed_times(np.linalg.qr(sketch)[0]), wanted)


def _refined(times: Callable[[Floats], Floats], rows: Floats, wanted: int) -> Triples:
    """Return the singular triples within a row space (Rayleigh-Ritz).

    Small singular values come out as exactly as from a full decomposition, though the row space may be rough in
    their directions.
    """
    right, _ = np.linalg.qr(rows)
    u, sizes, v = np.linalg.svd(times(right), full_matrices=False)
    return _signed(u, sizes, v @ np.swapaxes(right, -1, -2), wanted)


def _signed(u: Floats, sizes: Floats, v: Floats, wanted: int) -> Triples:
    """Return the first singular triples, with signs that do not depend on the solver."""
    u, sizes, v = u[..., :wanted], sizes[..., :wanted], v[..., :wanted, :]
    if not u.shape[-2] or not u.shape[-1]:
        return u, sizes, v
    largest = np.take_along_axis(u, np.abs(u).argmax(axis=-2, keepdims=True), axis=-2)
    signs = np.where(largest < 0, -1.0, 1.0)
    return u * signs, sizes, v * np.swapaxes(signs, -1, -2)


@dataclass(frozen=True, eq=False)
class PairMoment:
    """The joint distribution of two columns, as a sparse matrix and the sum of outer products ``left @ right.T``.

    Attributes
    ----------
    counted : scipy.sparse.csr_array, shape (states inside, states outside)
    left, right : array, shape (states, products)
    """

    counted: Any
    left: Floats
    right: Floats

    @cached_property
    def _transposed(self) -> Any:
        return self.counted.T.tocsr()

    def times(self, matrix: Floats) -> Floats:
        """Return the moment times a matrix."""
        return np.asarray(self.counted @ matrix + self.left @ (self.right.T @ matrix))

    def transposed_times(self, matrix: Floats) -> Floats:
        """Return the transposed moment times a matrix."""
        return np.asarray(self._transposed @ matrix + self.right @ (self.left.T @ matrix))

    def mapped(self, inside: Any, outside: Any) -> PairMoment:
        """Return the moment of other states of both columns: sparse matrices of them in terms of these."""
        return PairMoment((inside @ self.counted @ outside.T).tocsr(), inside @ self.left, outside @ self.right)

    @cached_property
    def inside(self) -> Floats:
        """The distribution of the inside column."""
        return self.times(np.ones((self.counted.shape[1], 1)))[:, 0]

    @cached_property
    def outside(self) -> Floats:
        """The distribution of the outside column."""
        return self.transposed_times(np.ones((self.counted.shape[0], 1)))[:, 0]


def sparse_bond(pairs: Sequence[PairMoment], rank: int, rows: float) -> Bond:
    """Return the bond of one leaf as `leaf_bond` does, without an axis for sets and nodes.

    A table of 10,000 x 10,000 states has no more counts than there are rows. Singular vectors need only products
    with it, so time and memory grow with rows and states, never with their square.
    """
    insides, outsides = [pair.inside for pair in pairs], [pair.outside for pair in pairs]
    low, high = _scales(insides, outsides, rows)
    ends = np.cumsum([len(part) for part in high])[:-1]

    def times(matrix: Floats) -> Floats:
        total = np.zeros((len(low), matrix.shape[1]))
        for pair, scale, part in zip(pairs, high, np.split(matrix, ends), strict=True):
            scaled = scale[:, None] * part
            total += pair.times(scaled) - pair.inside[:, None] * (pair.outside @ scaled)
        return low[:, None] * total

    def transposed_times(matrix: Floats) -> Floats:
        scaled = low[:, None] * matrix
        parts = [
            scale[:, None] * (pair.transposed_times(scaled) - pair.outside[:, None] * (pair.inside @ scaled))
            for pair, scale in zip(pairs, high, strict=True)
        ]
        return np.concatenate(parts)

    triples = leading_triples(times, transposed_times, (len(low), sum(map(len, high))), rank)
    return _spread(_directions(triples, insides, outsides, rank, low, high))
