"""The distribution of cells that are numbers, given the distribution of the hidden state of their step."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from eigentree.inference.mixed.density import mixture_quantiles

if TYPE_CHECKING:
    from collections.abc import Sequence

    from eigentree.arrays import Floats
    from eigentree.emissions.base import Emission

__all__ = ["mixture_means", "quantiles_of_mixture"]


def mixture_means(emission: Emission, cells: Floats, proba: Floats) -> tuple[Floats, Floats]:
    """Return mean and variance of each cell given the row's known cells and P(state), shape (rows, columns).

    `proba`, shape (rows, states), has seen the known cells.
    """
    means, variances = emission.moments(cells)
    mean = np.einsum("ns,nsj->nj", proba, means)
    spread = variances + (means - mean[:, None, :]) ** 2
    return mean, np.einsum("ns,nsj->nj", proba, spread)


def quantiles_of_mixture(emission: Emission, cells: Floats, proba: Floats, shares: Sequence[float]) -> Floats:
    """Return quantiles of each cell given the row's known cells and P(state), shape (rows, columns, shares)."""
    mean, variance = mixture_means(emission, cells, proba)
    made = np.empty((*cells.shape, len(shares)))
    for place in range(cells.shape[1]):

        def below(values: Floats, place: int = place) -> Floats:
            given = np.where(np.isnan(cells), 0.0, cells)
            given[:, place] = values
            found: Floats = np.einsum("ns,ns->n", proba, emission.cdf(given, cells)[:, :, place])
            return found

        for number, share in enumerate(shares):
            every = np.full(len(cells), share)
            made[:, place, number] = mixture_quantiles(below, every, mean[:, place], variance[:, place])
    return np.where(np.isnan(cells)[:, :, None], made, cells[:, :, None])
