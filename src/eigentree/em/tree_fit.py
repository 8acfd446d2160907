"""A fit of a tree of tables: from where to start, given or to be found, to runs that have converged."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Literal

import numpy as np

from eigentree.em.init.trees import TreeInit
from eigentree.em.multistart import ETA, ROWS_PER_PARAMETER, Candidate, Sample, multistart, run_each
from eigentree.em.tree_objective import TreeObjective
from eigentree.inference.networks.network import LatentNetwork

if TYPE_CHECKING:
    from collections.abc import Iterator

    from eigentree.em.estep.unique_rows import DistinctRows
    from eigentree.em.init.trees import Kind
    from eigentree.em.multistart import Multistart
    from eigentree.em.optimize.stopping import Stopping
    from eigentree.graphs.graph import LatentGraph

__all__ = ["TreeFit", "fit_tree"]


@dataclass(frozen=True, eq=False)
class TreeFit:
    """Rows in memory, and how EM runs on them.

    Attributes
    ----------
    graph : LatentGraph
    rows : DistinctRows
    gaps : frozenset of str
        The columns that may have missing cells.
    pseudo_counts : float
    stopping : Stopping
    max_iter : int
    accelerate : bool
    threads : int
    validation : TreeObjective, optional
    """

    graph: LatentGraph
    rows: DistinctRows
    gaps: frozenset[str]
    pseudo_counts: float
    stopping: Stopping
    max_iter: int
    accelerate: bool = True
    threads: int = 1
    validation: TreeObjective | None = None

    @cached_property
    def whole(self) -> TreeObjective:
        """The objective of all rows."""
        return self.objective(self.rows)

    def objective(self, rows: DistinctRows) -> TreeObjective:
        """Return the objective of some rows."""
        return TreeObjective.of(self.graph, rows, self.gaps, self.pseudo_counts, self.threads)

    @cached_property
    def sample(self) -> Sample:
        """All rows."""
        return Sample(self.whole, len(self.rows.weights), self.whole.layout.free_count / 2.0)

    def samples(self, random: np.random.Generator) -> list[tuple[DistinctRows, Sample]]:
        """Return growing samples of the rows, at last all: each is worth its while while the next is far larger."""
        found: list[tuple[DistinctRows, Sample]] = []
        total, parameters = float(self.rows.weights.sum()), self.whole.layout.free_count
        draws = float(ROWS_PER_PARAMETER * max(1, parameters))
        while ETA * draws <= total:
            distinct = math.ceil(np.minimum(draws * self.rows.weights / total, 1.0).sum())
            if ETA * distinct > len(self.rows.weights):
                break
            rows, drawn = self.rows.sampled(distinct, random)
            objective = self.objective(rows)
            chance = parameters / 2.0 * objective.weight / drawn
            found.append((rows, Sample(objective, len(rows.weights), chance)))
            draws *= ETA
        return [*found, (self.rows, self.sample)]


def fit_tree(
    fit: TreeFit, init: LatentNetwork | Literal["multistart"] | Kind, n_init: int, random: np.random.Generator
) -> Iterator[Multistart]:
    """Yield the state of a fit, again and again, until its runs have converged.

    Parameters
    ----------
    fit : TreeFit
    init : LatentNetwork, "multistart" or the name of an initialiser
        From a network, and from each start of one initialiser, EM runs until it has converged.
    n_init : int
        The number of starts of one initialiser; in a multi-start, how many candidates at most run until they have
        converged on all rows.
    random : Generator
    """
    how = (fit.stopping, fit.max_iter, fit.accelerate, fit.validation)
    if isinstance(init, LatentNetwork):
        start = fit.whole.layout.vector(init)
        return run_each(fit.sample, [Candidate("given", lambda: start)], *how)
    starts = TreeInit(fit.graph, fit.rows, fit.rows, fit.gaps)
    if init != "multistart" or not starts.hidden:
        # Without hidden variables that the data depend on, one EM iteration from anywhere leads to the optimum.
        kind: Kind = "random" if init == "multistart" else init
        seeds = random.spawn(n_init if starts.hidden else 1)
        return run_each(fit.sample, [starts.candidate(kind, seed) for seed in seeds], *how)
    samples = fit.samples(random)
    starts = TreeInit(fit.graph, fit.rows, samples[0][0], fit.gaps)
    # Where all rows are one sample, they are too few for moments to be confirmed.
    moments = starts.candidate("spectral", random.spawn(1)[0]) if len(samples) > 1 else None
    every = [sample for _, sample in samples]
    return multistart(every, starts.pool(random), *how, moments=moments, finalists=n_init)
