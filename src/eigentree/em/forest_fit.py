"""The objective of trees of nodes under a hidden Markov tree, and its multi-start."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from itertools import cycle, islice
from typing import TYPE_CHECKING

from eigentree.em.init.number_starts import NUMBER_KINDS
from eigentree.em.multistart import Candidate, Sample, multistart, run_each
from eigentree.em.number_chains import NumberChainObjective

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy as np

    from eigentree.em.multistart import Multistart
    from eigentree.em.optimize.stopping import Stopping

__all__ = ["ForestObjective", "fit_forest"]


@dataclass(frozen=True, eq=False)
class ForestObjective(NumberChainObjective):
    """The objective of trees, whose nodes show categories, numbers, or some of both."""

    initialisers = {name: NUMBER_KINDS[name] for name in ("clusters", "random")}  # noqa: RUF012
    pool = ("clusters", "random")


def fit_forest(
    objective: ForestObjective,
    stopping: Stopping,
    max_iter: int,
    init: str,
    n_init: int,
    random: np.random.Generator,
) -> Iterator[Multistart]:
    """Yield the state of a fit, again and again, until its runs have converged.

    It is a "multistart" of which at most `n_init` candidates run until they have converged, or so many starts of
    the named initialiser.
    """
    rows = int((objective.walk.weights > 0).sum())
    every = Sample(objective, rows, objective.layout.free_count / 2.0)
    kinds = cycle(objective.pool if init == "multistart" else [init])
    pool = (Candidate(kind, partial(objective.initialisers[kind], objective, random)) for kind in kinds)
    if init == "multistart":
        return multistart([every], pool, stopping, max_iter, finalists=n_init)
    return run_each(every, islice(pool, n_init), stopping, max_iter)
