"""Symmetric tensors of order three, and what the moments of three different parts say about one."""

from __future__ import annotations

import math
from functools import cached_property
from itertools import combinations_with_replacement, permutations
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from eigentree.arrays import Floats

__all__ = ["SymmetricBasis", "distinct_triples"]


class SymmetricBasis:
    """An orthonormal basis of the symmetric tensors of a size.

    Parameters
    ----------
    size : int

    Examples
    --------
    >>> SymmetricBasis(2).vectors.shape
    (4, 8)
    """

    def __init__(self, size: int) -> None:
        self.size = size
        self.places = list(combinations_with_replacement(range(size), 3))

    @cached_property
    def vectors(self) -> Floats:
        """The basis, one flat tensor per row, shape (basis, size ** 3)."""
        made = np.zeros((len(self.places), self.size, self.size, self.size))
        for tensor, place in zip(made, self.places, strict=True):
            orders = set(permutations(place))
            for order in orders:
                tensor[order] = 1 / math.sqrt(len(orders))
        return made.reshape(len(made), -1)


def distinct_triples(grams: Floats) -> Floats:
    r"""Return the sum over ordered triples of different parts of :math:`G_a \otimes G_b \otimes G_c`.

    Parameters
    ----------
    grams : array, shape (…, parts, size, size)
        Symmetric matrices G.

    Returns
    -------
    array, shape (…, basis, basis)
        As a map of symmetric tensors, in the `SymmetricBasis`.
    """
    basis = SymmetricBasis(grams.shape[-1])
    # What is symmetric is known from the entries whose places rise.
    a, b, c = np.array(basis.places).T
    total = grams.sum(axis=-3)
    x, y, z = grams[..., a, :], grams[..., b, :], grams[..., c, :]
    one, two, three = total[..., a, :], total[..., b, :], total[..., c, :]
    # Of all triples those go in which two parts are the same; where all three are, they went thrice.
    found = np.einsum("...si,...sj,...sk->...sijk", one, two, three, optimize=True)
    found -= np.einsum("...psi,...psj,...sk->...sijk", x, y, three, optimize=True)
    found -= np.einsum("...psi,...sj,...psk->...sijk", x, two, z, optimize=True)
    found -= np.einsum("...si,...psj,...psk->...sijk", one, y, z, optimize=True)
    found += 2 * np.einsum("...psi,...psj,...psk->...sijk", x, y, z, optimize=True)
    rows = found.reshape(*found.shape[:-3], -1) @ basis.vectors.T
    # A symmetric tensor's coordinate is its entry times the root of how often that entry stands there.
    often = np.sqrt((basis.vectors > 0).sum(axis=1))
    return np.asarray(often[:, None] * rows)
