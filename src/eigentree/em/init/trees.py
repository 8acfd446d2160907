"""Initialisers for trees of tables: from moments or known tables, distant rows, a fitted mixture, at random."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import cycle
from typing import TYPE_CHECKING, Literal, TypeAlias

import numpy as np

from eigentree.counting.counts import Counts
from eigentree.em.init.classes import (
    FLOOR,
    NOISE,
    Classes,
    carried,
    class_graph,
    most_classes,
    random_start,
    seeded,
)
from eigentree.em.multistart import Candidate
from eigentree.em.optimize.run import em_run
from eigentree.em.optimize.stopping import SHORT_RUN, Stopping
from eigentree.em.parameters import ParameterLayout
from eigentree.em.tree_objective import TreeObjective
from eigentree.errors import DataError, RankError
from eigentree.planning.view_plan import ViewPlan
from eigentree.spectral.learn.moments import CountedTables
from eigentree.spectral.learn.operator_learning import learn
from eigentree.spectral.learn.shrinkage import USUAL
from eigentree.spectral.learn.spectral_fit import pseudo_rows
from eigentree.spectral.recover.recovery import recovered

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from eigentree.arrays import Booleans, Floats
    from eigentree.em.estep.unique_rows import DistinctRows
    from eigentree.graphs.graph import LatentGraph
    from eigentree.inference.tensors.named_tables import TableKey

__all__ = ["FEW_PSEUDO_COUNTS", "KINDS", "Kind", "TreeInit", "completed", "fitted_classes"]

Kind: TypeAlias = Literal["spectral", "mixture", "copy", "random"]

KINDS: tuple[Kind, ...] = ("spectral", "mixture", "copy", "random")
"""All initialisers. Spectral starts are recovered from moments: at a hub, by the CP decomposition of its k x k x k
moment."""

FEW_PSEUDO_COUNTS = 0.01
"""Pseudo-counts that make no cell impossible and hardly change anything else."""


@dataclass(frozen=True, eq=False)
class TreeInit:
    """The initialisers for one graph: moments are those of all rows, other starts are from the `first` sample."""

    graph: LatentGraph
    rows: DistinctRows
    first: DistinctRows
    missing: frozenset[str]

    def pool(self, random: np.random.Generator) -> Iterator[Candidate]:
        """Yield candidates for a multi-start without end: random tables and mixtures in turn."""
        kinds: tuple[Kind, ...] = ("random", "mixture")
        for kind in cycle(kinds):
            yield self.candidate(kind, random.spawn(1)[0])

    def candidate(self, kind: Kind, random: np.random.Generator) -> Candidate:
        """Return one candidate."""
        makers = {"spectral": self._spectral, "mixture": self._mixture, "copy": self._copy}
        make = makers.get(kind) if self.hidden else None
        return Candidate(kind, partial(make or partial(random_start, self._layout), random))

    @cached_property
    def hidden(self) -> Sequence[str]:
        """The hidden variables that the data depend on."""
        learnable = {name for key in self._layout.learnable for name in key}
        return [name for name in self.graph.hidden if name in learnable]

    @property
    def _layout(self) -> ParameterLayout:
        return ParameterLayout.of(self.graph)

    def _mixture(self, random: np.random.Generator) -> Floats:
        """Return classes around rows as they are; where there are many hidden variables, each is a noisy copy."""
        classes = seeded(self.graph, self.first, most_classes(self.graph), random)
        return carried(self._layout, classes, 0.0 if len(self.hidden) == 1 else NOISE, random)

    def _copy(self, random: np.random.Generator) -> Floats:
        """Return tables in which each hidden variable is a noisy copy of the class of a fitted mixture."""
        classes = fitted_classes(self.graph, self.first, self.missing, most_classes(self.graph), random)
        return carried(self._layout, classes, NOISE, random)

    def _spectral(self, random: np.random.Generator) -> Floats:
        """Return the tables that a spectral fit recovers, and the others as EM finds them beside these."""
        objective = TreeObjective.of(self.graph, self.first, self.missing, FEW_PSEUDO_COUNTS)
        return completed(objective, self._recovered, random)

    @cached_property
    def _recovered(self) -> Mapping[TableKey, Floats]:
        """The tables that a spectral fit to all rows recovers; a `RankError` when it recovers none."""
        plan = ViewPlan.build(self.graph, when_short="warn")
        states = [self.graph.states[name] for name in self.graph.observed]
        cells = np.where(self.rows.codes == states, -1, self.rows.codes.astype(np.int32))
        counts = Counts(self.graph, plan.groups()).update(cells, self.rows.weights)
        (fit,) = learn(plan, [CountedTables(counts, pseudo_rows(self.graph))], "variance")
        found = recovered(fit, USUAL)
        if not found.hints:
            reason = next(iter(found.unresolved.values()))
            raise RankError(f"the moments of the columns determine no table of this graph, since {reason}")
        return found.hints


def fitted_classes(
    graph: LatentGraph, rows: DistinctRows, missing: frozenset[str], count: int, random: np.random.Generator
) -> Classes:
    """Return the classes of a mixture of the columns of a graph after a short EM run."""
    own = class_graph(graph, count)
    mixture = TreeObjective.of(own, rows, missing, FEW_PSEUDO_COUNTS)
    start = carried(mixture.layout, seeded(graph, rows, count, random), 0.0)
    # Plain iterations leave classes soft, as starts should be.
    *_, end = em_run(mixture, start, Stopping("gain", 0.0), SHORT_RUN, accelerate=False)
    tables = mixture.layout.tables(end.here.parameters)
    return Classes(tables[own.hidden], {name: tables[(name,)] for name in graph.observed})


def completed(
    problem: TreeObjective,
    known: Mapping[TableKey, Floats],
    random: np.random.Generator,
    starts: int = 3,
    steps: int = 15,
) -> Floats:
    """Return parameters with the known tables, and the others as plain EM iterations leave them.

    Of several random starts for the unknown tables, the one with the highest objective is kept; a few thousand rows
    suffice. Raises `DataError` when a table is known that the graph does not have, or in another shape.
    """
    layout = problem.layout
    given, frozen = np.zeros(layout.size), np.zeros(layout.size, np.bool_)
    for key, table in known.items():
        if layout.shapes.get(key) != table.shape:
            raise DataError(f"there is no table of {key} with the shape {table.shape} on this graph")
        place = slice(layout.starts[key], layout.starts[key] + table.size)
        given[place], frozen[place] = table.ravel(), True
    if frozen[layout.learned].all():
        starts, steps = 1, 0
    best, highest = given, -math.inf
    for seed in random.spawn(starts):
        unknown = random_start(layout, seed)
        start = layout.mixed(np.where(frozen, given, unknown), FLOOR)
        for parameters, objective in _iterated(problem, start, ~frozen, steps):
            if objective > highest or best is given:
                best, highest = parameters, objective
    return best


def _iterated(problem: TreeObjective, start: Floats, free: Booleans, steps: int) -> Iterator[tuple[Floats, float]]:
    """Yield the start and plain EM iterations of the free parameters, each with its objective."""
    here = problem.evaluated(start)
    yield start, here.objective
    for _ in range(steps):
        here = problem.evaluated(np.where(free, here.update, start))
        yield here.parameters, here.objective
