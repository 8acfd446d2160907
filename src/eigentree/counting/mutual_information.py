"""Dependence of pairs of columns: mutual information, and distances that add up along trees.

Counts of a pair are smoothed toward independent columns by one row, so that a pair that few rows have shows little
dependence. Each number follows from the counts of its two columns only, taken in the order of their names: it is
bit-identical wherever in a table the columns stand.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from eigentree.counting.joint_table import smoothed
from eigentree.graphs.structure_learning import spanning_tree

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from eigentree.arrays import Floats, Integers
    from eigentree.counting.pair_counts import PairCounts

__all__ = ["correlation_distances", "distances_of", "information_of", "mutual_information", "tree_distances"]

PRIOR_ROWS = 1.0
"""Rows of independent columns that are added to each pair."""

BLOCK_CELLS = 2**20
"""Most cells of tables that are worked on at a time."""

SURE, LIKELY = 4.0, 1.3
"""Times the noise from which a correlation is there beyond doubt, and from which it may be."""

SHORTEST = 0.65
"""Of 1 row, the length of an edge that is significant; it falls with the fourth root of their number."""

LEAST_CORRELATION = 1e-4
"""Columns that are less correlated than this are as far from each other as any."""


def mutual_information(pairs: PairCounts) -> Floats:
    """Return the mutual information of all pairs of columns in nats, shape (columns, columns).

    That of a column with itself is its entropy. Where no row has both cells it is 0.
    """
    found = _of_all_pairs(pairs, information_of)
    for place in range(len(found)):
        own = smoothed(pairs.margins([place]))
        found[place, place] = -(own * np.log(own)).sum()
    return found


def correlation_distances(pairs: PairCounts, hidden_states: int | None = None) -> Floats:
    """Return the distances of all pairs of columns, shape (columns, columns); see `distances_of`."""
    return _of_all_pairs(pairs, lambda tables: distances_of(tables, hidden_states))


def tree_distances(pairs: PairCounts) -> tuple[Floats, float]:
    """Return distances of all pairs of columns that add up along trees, and the shortest that is significant.

    As many canonical correlations are multiplied as columns have that are near each other, where that is
    beyond doubt and all columns have as many; else the root of the sum of their squares is taken.
    """
    pooled = correlation_distances(pairs)
    places = {name: place for place, name in enumerate(pairs.columns.names)}
    edges = [(places[one], places[other]) for one, other in spanning_tree(-pooled, pairs.columns.names)]
    count = _resolved_correlations(pairs, edges)
    shortest = SHORTEST * max(pairs.rows, 1.0) ** -0.25
    # Columns of two states have one correlation, whichever way distances are worked out.
    if count is None or max(pairs.columns.states) == 2:
        return pooled, shortest
    return correlation_distances(pairs, count + 1), shortest * count**0.5


def _resolved_correlations(pairs: PairCounts, edges: Sequence[tuple[int, int]]) -> int | None:
    """Return how many canonical correlations neighbours have, or None where rows leave it in doubt.

    Where there are none, the largest correlation of a table of noise is about that of a random matrix.
    """
    sure, likely = [], []
    for one, other in edges:
        table = pairs.tables([one], [other])[:, :, :, 0]
        rows = max(table.sum(), 1.0)
        noise = (np.sqrt(table.shape[0] - 1) + np.sqrt(table.shape[1] - 1)) / np.sqrt(rows)
        found = _correlations(_correlated(table / rows))[0]
        sure.append(int((found > SURE * noise).sum()))
        likely.append(int((found > LIKELY * noise).sum()))
    if not edges:
        return None
    count = int(np.median(likely))
    varied = [states for states in pairs.columns.states if states > 1]
    sure_of_it = count == int(np.quantile(sure, 0.25)) and 0 < count < min(varied, default=0)
    return count if sure_of_it else None


def information_of(tables: Floats) -> Floats:
    """Return the mutual information of joint distributions, shape (states, states, tables)."""
    ratio = np.divide(tables, _independent(tables), out=np.ones_like(tables), where=tables > 0)
    terms = np.log(ratio, out=ratio)
    terms *= tables
    # Rounding must not make the information of independent columns negative.
    return np.asarray(np.maximum(terms.sum(axis=(0, 1)), 0.0))


def distances_of(tables: Floats, hidden_states: int | None = None) -> Floats:
    """Return -log of how strongly columns are correlated, from joint distributions, shape (states, states, tables).

    Parameters
    ----------
    tables : array
    hidden_states : int, optional
        Multiply as many canonical correlations, less one: in the population these distances add up along
        every path of a tree whose hidden variables have so many states, where no column has fewer. By default the
        root of the sum of their squares is taken (phi, of chi squared), which needs no such number and is steadier
        on few rows; both are the same where variables have two states.
    """
    correlated = _correlated(tables)
    # Where one of two columns has two states, there is one correlation, and nothing to multiply.
    if hidden_states is None or (hidden_states > 1 and min(tables.shape[:2]) == 2):
        strength = np.sqrt(np.square(correlated, out=correlated).sum(axis=(0, 1)))
    else:
        count = min(hidden_states - 1, tables.shape[0] - 1, tables.shape[1] - 1)
        strength = _correlations(correlated)[:, :count].prod(axis=1) if count > 0 else np.zeros(tables.shape[2])
    return np.asarray(-np.log(np.clip(strength, LEAST_CORRELATION, 1.0)))


def _independent(tables: Floats) -> Floats:
    """Return the tables of independent columns with the same distributions."""
    return np.asarray(tables.sum(axis=1)[:, None] * tables.sum(axis=0)[None])


def _correlated(tables: Floats) -> Floats:
    """Return matrices whose singular values are the canonical correlations, but for the 1 of constants."""
    expected = np.sqrt(_independent(tables))
    return np.asarray(np.divide(tables, expected, out=np.zeros_like(tables), where=expected > 0) - expected)


def _correlations(correlated: Floats) -> Floats:
    """Return the singular values of matrices that stand last, shape (matrices, values)."""
    return np.asarray(np.linalg.svd(np.moveaxis(correlated, 2, 0), compute_uv=False))


def _of_all_pairs(pairs: PairCounts, measure: Callable[[Floats], Floats]) -> Floats:
    """Return a measure of the smoothed joint distributions of all pairs of columns, 0 for a column with itself."""
    found = np.zeros((len(pairs.columns.names),) * 2)
    for first, second in _blocks(pairs):
        tables = pairs.tables(first, second)
        total = tables.sum(axis=(0, 1))
        ones, others = (smoothed(pairs.margins(places)) for places in (first, second))
        tables += PRIOR_ROWS * ones[:, None, :, None] * others[None, :, None, :]
        tables /= total + PRIOR_ROWS
        values = measure(tables.reshape(*tables.shape[:2], -1)).reshape(len(first), len(second))
        if first[0] == second[0]:
            # Of columns with equally many states the one whose name is ahead comes first.
            values = np.triu(values) + np.triu(values, 1).T
        found[np.ix_(first, second)] = values
        found[np.ix_(second, first)] = values.T
    np.fill_diagonal(found, 0.0)
    return found


def _blocks(pairs: PairCounts) -> Iterator[tuple[Integers, Integers]]:
    """Yield columns of one number of states, and of one that is no smaller, so many that memory holds their tables.

    Of columns with equally many states those are ahead whose names are; blocks on the diagonal have pairs twice.
    """
    states = pairs.columns.states
    order = sorted(range(len(states)), key=pairs.columns.names.__getitem__)
    groups = {
        count: np.array([place for place in order if states[place] == count]) for count in sorted(set(states))
    }
    for one, first in groups.items():
        for other, second in groups.items():
            if other < one:
                continue
            side = max(1, int((BLOCK_CELLS / (one * other)) ** 0.5))
            for a in range(0, len(first), side):
                for b in range(a if one == other else 0, len(second), side):
                    yield first[a : a + side], second[b : b + side]
