"""Joint diagonalisation: the basis in which a family of matrices is as nearly diagonal as it can be."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from eigentree.arrays import Floats

__all__ = ["Basis", "jointly_diagonal"]

TRIES = 12
"""From how many random combinations of the family a basis is looked for."""

EXACT = 1e-9
"""A residual below this leaves nothing to look for."""

SWEEPS = 30
"""Most steps that improve the best of them."""

LONGEST_STEP = 0.3
"""How far a step may turn a vector toward another: beyond, its first order is no guide."""

MOST_ILL = 1e8
"""A basis whose condition number is larger is none."""


class Basis(NamedTuple):
    """A basis, and how well it diagonalises a family.

    Attributes
    ----------
    vectors : array, shape (size, size)
        One column each, of length 1.
    residual : float
        What is left beside the diagonals, relative to the family less its multiples of the identity.
    """

    vectors: Floats
    residual: float


def jointly_diagonal(family: Floats) -> Basis | None:
    """Return the basis V in which V^-1 M V is nearly diagonal for every matrix M of a family, or None.

    The eigenvectors of the best of several random combinations, improved step by step: in the basis itself, the
    least squares of what stands beside the diagonals has, to first order, a solution for each pair of vectors.

    Parameters
    ----------
    family : array, shape (matrices, size, size)
    """
    size = family.shape[-1]
    if not len(family) or not np.isfinite(family).all():
        return None
    if size == 1:
        return Basis(np.ones((1, 1)), 0.0)
    means = np.trace(family, axis1=1, axis2=2)[:, None, None] / size
    scale = float(np.linalg.norm(family - means * np.eye(size)))
    if scale == 0.0:
        return None
    random = np.random.default_rng(0)
    found: list[Basis] = []
    for _ in range(TRIES):
        vectors = _eigenvectors(np.tensordot(random.standard_normal(len(family)), family, 1))
        if np.linalg.cond(vectors) < MOST_ILL:
            found.append(Basis(vectors, _beside(family, vectors) / scale))
            if found[-1].residual < EXACT:
                break
    if not found:
        return None
    return _improved(family, min(found, key=lambda basis: basis.residual), scale)


def _eigenvectors(matrix: Floats) -> Floats:
    """Return real eigenvectors of length 1; a complex pair gives its real and its imaginary part."""
    values, vectors = np.linalg.eig(matrix)
    real = np.where(values.imag < 0, vectors.imag, vectors.real)
    lengths = np.linalg.norm(real, axis=0)
    return np.asarray(np.divide(real, lengths, out=np.zeros_like(real), where=lengths > 0))


def _turned(family: Floats, vectors: Floats) -> Floats:
    return np.asarray(np.linalg.solve(vectors, family @ vectors))


def _beside(family: Floats, vectors: Floats) -> float:
    """Return the size of all that stands beside the diagonals."""
    turned = _turned(family, vectors)
    turned[:, range(len(vectors)), range(len(vectors))] = 0.0
    return float(np.linalg.norm(turned))


def _improved(family: Floats, basis: Basis, scale: float) -> Basis:
    """Return the basis after steps that lower its residual, as long as they do."""
    eye = np.eye(len(basis.vectors))
    for _ in range(SWEEPS):
        turned = _turned(family, basis.vectors)
        diagonals = np.diagonal(turned, axis1=1, axis2=2)
        gaps = diagonals[:, :, None] - diagonals[:, None, :]
        squares = (gaps**2).sum(axis=0)
        step = -(turned * gaps).sum(axis=0) / (squares + 1e-9 * squares.max() + np.finfo(float).tiny)
        np.fill_diagonal(step, 0.0)
        longest = np.abs(step).max()
        step *= min(1.0, LONGEST_STEP / longest) if longest > 0 else 0.0
        moved = basis.vectors @ (eye + step)
        moved /= np.linalg.norm(moved, axis=0)
        if not np.linalg.cond(moved) < MOST_ILL:
            break
        better = Basis(moved, _beside(family, moved) / scale)
        if not better.residual < basis.residual:
            break
        basis = better
    return basis
