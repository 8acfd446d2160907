"""EM where rows do not fit into memory: a multi-start on a sample, whose best candidate finishes out of core.

Which start is best shows on few rows, and a run that begins where one on many rows has ended is short. So all but
the last run are on rows in memory, and the last one on all rows or, where these are far more than the tables need,
on a larger sample.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

import numpy as np

from eigentree.em.estep.expectation import Expectation
from eigentree.em.multistart import MIXED, Candidate, Sample, run_each
from eigentree.em.out_of_core.parted import PartedObjective
from eigentree.em.smoothing import smoothed
from eigentree.em.tree_fit import fit_tree
from eigentree.inference.networks.network import LatentNetwork

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from eigentree.arrays import Codes, Floats, Integers
    from eigentree.counting.pair_counts import PairCounts
    from eigentree.data.tables.columns import Columns
    from eigentree.em.estep.unique_rows import DistinctRows
    from eigentree.em.init.trees import Kind
    from eigentree.em.multistart import Multistart
    from eigentree.em.optimize.objective import Objective
    from eigentree.em.optimize.stopping import Stopping
    from eigentree.em.out_of_core.parted import Parts
    from eigentree.em.tree_fit import TreeFit

__all__ = [
    "FarRows",
    "Finish",
    "finish_rows_for",
    "fit_rows",
    "race_rows_for",
    "sampled_numbers",
]

FINISH_ROWS, FINISH_ROWS_PER_PARAMETER = 1_000_000, 1_000
"""How many rows the last run is on unless told otherwise, and how many at least for each entry of the tables.

From p entries and n rows chance makes the log-likelihood per row wrong by p / 2n, here by no more than 1/2000 nat:
far less than what models of hidden variables miss of real tables, or what their starts differ by.
"""

RACE_ROWS, RACE_ROWS_PER_PARAMETER = 200_000, 50
"""How many rows a multi-start has in memory, and how many at least for each entry of the tables."""

RACE_CELLS = 2**26
"""Most cells of these rows, which bounds memory."""


def finish_rows_for(parameters: int) -> int:
    """Return on how many rows the last run is, of tables with so many entries."""
    return max(FINISH_ROWS, FINISH_ROWS_PER_PARAMETER * parameters)


def race_rows_for(parameters: int, columns: int) -> int:
    """Return on how many rows in memory a multi-start is, for tables with so many entries."""
    return min(max(RACE_ROWS, RACE_ROWS_PER_PARAMETER * parameters), max(1, RACE_CELLS // columns))


def sampled_numbers(rows: int, size: int, random: np.random.Generator) -> Integers:
    """Return the numbers of so many rows, one of each stretch of rows, in their order; of all, if these are fewer.

    They depend on the number of rows and on the generator alone, and so are the same wherever rows lie.
    """
    if size >= rows:
        return np.arange(rows)
    bounds = np.arange(size + 1) * rows // size
    # Stretches are not all of one length; turned by any number of rows, they favour none.
    turned = random.integers(bounds[:-1], bounds[1:]) + random.integers(rows)
    return np.sort(turned % rows)


class FarRows(ABC):
    """Rows that are not in memory.

    Attributes
    ----------
    count : int
    margins : mapping of str to array
        How often each code of each column occurs; the last is that of a missing cell.
    """

    count: int
    margins: Mapping[str, Floats]

    @property
    def weight(self) -> float:
        """The total weight of the rows."""
        return float(next(iter(self.margins.values())).sum())

    @abstractmethod
    def taken(self, numbers: Integers) -> tuple[Codes, Floats]:
        """Return the codes of some rows, whose numbers rise, shape (rows, columns), and their weights."""

    @abstractmethod
    def parts(self, expectation: Expectation, numbers: Integers | None, threads: int) -> Parts:
        """Return all rows, or those of some numbers, as an E-step counts them where they lie."""

    @abstractmethod
    def pairs(self, columns: Columns) -> PairCounts:
        """Return the joint counts of all pairs of columns, of all rows."""

    def few(self) -> DistinctRows | None:
        """Return the rows that differ, where they are few enough to be in memory."""
        return None

    def gaps(self) -> frozenset[str]:
        """Return the columns with missing cells."""
        return frozenset(name for name, counts in self.margins.items() if counts[-1] > 0)


@dataclass(frozen=True, eq=False)
class Finish:
    """Where the last run of a fit is: on rows that are not in memory.

    Attributes
    ----------
    rows : FarRows
    numbers : (rows,), optional
        Those that it runs on; all by default.
    stopping : Stopping
    """

    rows: FarRows
    numbers: Integers | None
    stopping: Stopping

    @property
    def count(self) -> int:
        """How many rows it runs on."""
        return self.rows.count if self.numbers is None else len(self.numbers)

    def objective(self, fit: TreeFit) -> PartedObjective:
        """Return the objective of its rows, after a fit to some of them in memory."""
        expectation = Expectation.of(fit.graph, fit.gaps, self.count)
        parts = self.rows.parts(expectation, self.numbers, fit.threads)
        return PartedObjective.of(expectation, parts, self.rows.margins, fit.pseudo_counts, self.numbers)


def fit_rows(
    fit: TreeFit,
    finish: Finish | None,
    init: LatentNetwork | Literal["multistart"] | Kind,
    n_init: int,
    random: np.random.Generator,
    has_choice: bool = False,
) -> Iterator[tuple[TreeFit, Objective, Multistart]]:
    """Yield a fit, the objective that it is on, and its state, until its last run has converged.

    The last run goes on from the best start where pseudo-counts are chosen, or rows are not in memory.

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
        if finish is None and chosen == fit.pseudo_counts:
            return
        fit = replace(fit, pseudo_counts=chosen)
    elif finish is None:
        return
    last = Sample(finish.objective(fit), finish.count, fit.sample.chance) if finish else fit.sample
    if finish is not None and state is not None:
        # More rows may show what the sample lacks.
        start = fit.whole.layout.mixed(start, MIXED)
    how = (finish.stopping if finish else fit.stopping, fit.max_iter, fit.accelerate, fit.validation)
    for following in run_each(last, [Candidate(name, lambda: start)], *how, before=state):
        yield fit, last.objective, following
