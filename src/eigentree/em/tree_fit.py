"""A fit of a tree of tables: from where to start, given or to be found, to runs that have converged."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np

from eigentree.em.estep.unique_rows import columns_with_missing
from eigentree.em.init.trees import TreeInit, completed
from eigentree.em.multistart import ETA, MIXED, ROWS_PER_PARAMETER, Candidate, Sample, multistart, run_each
from eigentree.em.optimize.stopping import Stopping
from eigentree.em.out_of_core.parted_rows import OutOfCoreRows, PartedRows
from eigentree.em.smoothing import smoothed
from eigentree.em.tree_objective import TreeObjective
from eigentree.inference.networks.network import LatentNetwork

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from eigentree.arrays import Floats, Integers
    from eigentree.em.constraints import ConstrainedLayout
    from eigentree.em.estep.unique_rows import DistinctRows
    from eigentree.em.init.trees import Kind
    from eigentree.em.multistart import Multistart
    from eigentree.em.optimize.objective import Objective
    from eigentree.graphs.graph import LatentGraph
    from eigentree.inference.tensors.named_tables import TableKey

__all__ = ["Finish", "TreeFit", "finished", "fit_rows", "fit_tree"]


@dataclass(frozen=True, eq=False)
class TreeFit:
    """Rows in memory, and how EM runs on them; columns in `missing` may have missing cells.

    `constrained` says what of the tables is fixed or equal, if anything is.
    """

    graph: LatentGraph
    rows: DistinctRows
    missing: frozenset[str]
    pseudo_counts: float
    stopping: Stopping
    max_iter: int
    accelerate: bool = True
    threads: int = 1
    validation: Objective | None = None
    constrained: ConstrainedLayout | None = None

    @cached_property
    def whole(self) -> TreeObjective:
        """The objective of all rows."""
        return self.objective(self.rows)

    def objective(self, rows: DistinctRows) -> TreeObjective:
        """Return the objective of some rows."""
        how = (self.missing, self.pseudo_counts, self.threads)
        return TreeObjective.of(self.graph, rows, *how, constrained=self.constrained)

    def last(self, finish: Finish) -> Objective:
        """Return the objective that the last run is on, where its rows are not in memory."""
        assert isinstance(finish.rows, PartedRows)
        how = (self.missing, self.pseudo_counts, finish.numbers, self.threads, self.constrained)
        return finish.rows.objective(self.graph, *how)

    def initialisers(self, first: DistinctRows) -> TreeInit:
        """Return the initialisers, which start from the rows of a sample."""
        return TreeInit(self.graph, self.rows, first, self.missing)

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

    It starts from a network, from `n_init` starts of the named initialiser, or is a "multistart" of which at most
    `n_init` candidates run until they have converged on all rows.
    """
    how = (fit.stopping, fit.max_iter, fit.accelerate, fit.validation)
    if isinstance(init, LatentNetwork):
        start = fit.whole.layout.vector(init)
        return run_each(fit.sample, [Candidate("given", lambda: start)], *how)
    starts = fit.initialisers(fit.rows)
    if init != "multistart" or not starts.hidden:
        # Without hidden variables that the data depend on, one EM iteration from anywhere leads to the optimum.
        kind: Kind = "random" if init == "multistart" else init
        seeds = random.spawn(n_init if starts.hidden else 1)
        return run_each(fit.sample, [starts.candidate(kind, seed) for seed in seeds], *how)
    samples = fit.samples(random)
    starts = fit.initialisers(samples[0][0])
    # Where all rows are one sample, they are too few for moments to be confirmed.
    moments = starts.candidate("spectral", random.spawn(1)[0]) if len(samples) > 1 else None
    every = [sample for _, sample in samples]
    return multistart(every, starts.pool(random), *how, moments=moments, finalists=n_init)


class Finish(NamedTuple):
    """Where the last run of a fit is: on `size` rows that are not in memory, those of some numbers or all."""

    rows: OutOfCoreRows
    size: int
    numbers: Integers | None
    stopping: Stopping


def fit_rows(
    fit: TreeFit,
    finish: Finish | None,
    init: LatentNetwork | Literal["multistart"] | Kind,
    n_init: int,
    random: np.random.Generator,
    has_choice: bool = False,
) -> Iterator[tuple[TreeFit, Objective, Multistart]]:
    """Yield a fit, the objective that it is on, and its state, until its last run has converged.

    The fit is over all rows or a sample in memory; it ends at `finish`, if that is not in memory. With
    `has_choice`, pseudo-counts are chosen. The others are as `fit_tree` takes them.
    """
    state: Multistart | None = None
    if finish is None or has_choice or not isinstance(init, LatentNetwork):
        for state in fit_tree(fit, init, n_init, random):
            yield fit, fit.whole, state
    if state is None:
        assert isinstance(init, LatentNetwork)
        name, start = "given", fit.whole.layout.vector(init)
    else:
        name, start = state.best[0], state.best[1].parameters
    before = fit.pseudo_counts
    if has_choice:
        chosen, start = smoothed(fit, start, finish.rows.weight if finish else fit.whole.weight)
        fit = replace(fit, pseudo_counts=chosen)
    if finish is None and fit.pseudo_counts == before:
        return
    sample, stopping = fit.sample, fit.stopping
    if finish is not None:
        objective = fit.last(finish)
        sample, stopping = Sample(objective, finish.size, sample.chance), finish.stopping
        if state is not None:
            # More rows may show what the sample lacks.
            start = objective.layout.mixed(start, MIXED)
    how = (stopping, fit.max_iter, fit.accelerate, fit.validation)
    for last in run_each(sample, [Candidate(name, lambda: start)], *how, before=state):
        yield fit, sample.objective, last


def finished(
    graph: LatentGraph,
    rows: DistinctRows,
    known: Mapping[TableKey, Floats],
    steps: int,
    random: np.random.Generator,
    pseudo_counts: float,
) -> LatentNetwork:
    """Return the network that EM makes of rows from tables that are partly known.

    The known tables are kept while the others are found on a sample of the rows. Then all are learned, on growing
    samples and, for `steps` accelerated iterations, on all rows. States of hidden variables come in canonical
    order.
    """
    missing = columns_with_missing(rows.codes, graph)
    fit = TreeFit(graph, rows, missing, pseudo_counts, Stopping("paper", 0.0), steps)
    (first, _), *_ = samples = fit.samples(random)
    beside = TreeObjective.of(graph, first, missing, pseudo_counts)
    candidate = Candidate("spectral", lambda: completed(beside, known, random))
    *_, state = multistart([sample for _, sample in samples], [candidate], fit.stopping, steps)
    return fit.whole.layout.network(state.best[1].parameters).ordered()
