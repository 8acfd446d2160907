"""Groups of symbols: no move and no exchange raises the likelihood of what follows what and of what is shown."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from eigentree.em.init.symbol_clustering import exchanged


def log_likelihood(follow: np.ndarray, shown: np.ndarray, member: list[int], groups: int) -> float:
    onto = np.eye(groups)[member]
    total = 0.0
    for counts in (onto.T @ follow @ onto, onto.T @ shown):
        shares = counts / counts.sum(axis=1, keepdims=True)
        total += float((counts * np.log(np.where(counts > 0, shares, 1.0))).sum())
    return total


@pytest.mark.parametrize("seed", range(20))
def test_no_move_and_no_exchange_raises_the_likelihood(seed: int) -> None:
    random = np.random.default_rng(seed)
    units, groups = 7, 3
    follow, shown = random.integers(1, 30, (units, units)), random.integers(1, 60, (units, 5))
    start = np.array([0, 1, 2, *random.integers(0, groups, units - 3)])
    end = exchanged(follow.astype(float), shown.astype(float), start).tolist()
    assert sorted(set(end)) == list(range(groups))
    reached = log_likelihood(follow, shown, end, groups)
    assert reached >= log_likelihood(follow, shown, start.tolist(), groups) - 1e-9
    others = []
    for unit in range(units):
        others += [[*end[:unit], group, *end[unit + 1 :]] for group in range(groups) if end.count(end[unit]) > 1]
    for one, other in combinations(range(units), 2):
        swapped = end[:]
        swapped[one], swapped[other] = end[other], end[one]
        others.append(swapped)
    assert max(log_likelihood(follow, shown, each, groups) for each in others) <= reached + 1e-6 * abs(reached)
