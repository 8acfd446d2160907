"""Fits whose last run goes on elsewhere: with chosen pseudo-counts, on rows out of core, or from known tables."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Literal, NamedTuple

from eigentree.em.estep.unique_rows import columns_with_missing
from eigentree.em.init.partial import completed
from eigentree.em.multistart import MIXED, Candidate, Sample, multistart, run_each
from eigentree.em.optimize.stopping import Stopping
from eigentree.em.smoothing import smoothed
from eigentree.em.tree_fit import TreeFit, fit_tree
from eigentree.em.tree_objective import TreeObjective
from eigentree.inference.networks.network import LatentNetwork

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import numpy as np

    from eigentree.arrays import Floats, Integers
    from eigentree.em.estep.unique_rows import DistinctRows
    from eigentree.em.init.trees import Kind
    from eigentree.em.multistart import Multistart
    from eigentree.em.optimize.objective import Objective
    from eigentree.em.out_of_core.parted_rows import PartedRows
    from eigentree.graphs.graph import LatentGraph
    from eigentree.inference.tensors.named_tables import TableKey

__all__ = ["Finish", "finished", "fit_rows"]


class Finish(NamedTuple):
    """Where the last run of a fit is: on rows that are not in memory.

    Attributes
    ----------
    rows : PartedRows
    size : int
        How many of them it is on.
    numbers : (rows,), optional
        Which; all by default.
    stopping : Stopping
    """

    rows: PartedRows
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

    Parameters
    ----------
    fit : TreeFit
        Over all rows, or a sample in memory.
    finish : Finish, optional
        Where it ends, if that is not in memory.
    init, n_init, random
        As `fit_tree` takes them.
    has_choice : bool
        Whether pseudo-counts are chosen.
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
    if has_choice:
        chosen, start = smoothed(fit, start, finish.rows.weight if finish else fit.whole.weight)
        is_over = finish is None and chosen == fit.pseudo_counts
        fit = replace(fit, pseudo_counts=chosen)
    else:
        is_over = finish is None
    if is_over:
        return
    sample, stopping = fit.sample, fit.stopping
    if finish is not None:
        objective = finish.rows.objective(fit.graph, fit.gaps, fit.pseudo_counts, finish.numbers, fit.threads)
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
    gaps = columns_with_missing(rows.codes, graph)
    fit = TreeFit(graph, rows, gaps, pseudo_counts, Stopping("paper", 0.0), steps)
    (first, _), *_ = samples = fit.samples(random)
    beside = TreeObjective.of(graph, first, gaps, pseudo_counts)
    candidate = Candidate("spectral", lambda: completed(beside, known, random))
    *_, state = multistart([sample for _, sample in samples], [candidate], fit.stopping, steps)
    return fit.whole.layout.network(state.best[1].parameters).ordered()
