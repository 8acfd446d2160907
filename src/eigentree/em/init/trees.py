"""Initialisers for trees of tables: from moments, from distant rows, from a fitted mixture, at random."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, partial
from itertools import count, cycle
from typing import TYPE_CHECKING, Literal, TypeAlias

import numpy as np

from eigentree.counting.counts import Counts
from eigentree.em.init.classes import Classes, carried, class_graph, most_classes, random_start, seeded
from eigentree.em.init.partial import completed
from eigentree.em.multistart import Candidate
from eigentree.em.optimize.run import em_run
from eigentree.em.optimize.stopping import Stopping
from eigentree.em.parameters import ParameterLayout
from eigentree.em.tree_objective import TreeObjective
from eigentree.errors import RankError
from eigentree.planning.view_plan import ViewPlan
from eigentree.spectral.learn.moments import CountedTables
from eigentree.spectral.learn.operator_learning import learn
from eigentree.spectral.learn.shrinkage import USUAL
from eigentree.spectral.learn.spectral_fit import pseudo_rows
from eigentree.spectral.recover.recovery import recovered

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from eigentree.arrays import Floats
    from eigentree.em.estep.unique_rows import DistinctRows
    from eigentree.graphs.graph import LatentGraph
    from eigentree.inference.tensors.named_tables import TableKey

__all__ = ["KINDS", "NOISES", "SHARPNESS", "Kind", "TreeInit"]

Kind: TypeAlias = Literal["spectral", "mixture", "copy", "random"]

KINDS: tuple[Kind, ...] = ("spectral", "mixture", "copy", "random")
"""All initialisers. Spectral starts are recovered from moments: at a hub, by the CP decomposition of its k x k x k
moment."""

SHARPNESS = (0.5, 0.3, 0.8)
"""How much of a class is the row that it is seeded by, in turn; the rest are the marginals of the columns."""

NOISES = (0.3, 0.1, 0.6)
"""How much of a hidden variable is independent of the class that it is a noisy copy of, in turn."""

CLASS_PSEUDO_COUNTS, CLASS_ITERATIONS = 0.01, 30
"""Of the mixture whose classes are copied: it has to be good, not best."""


@dataclass(frozen=True, eq=False)
class TreeInit:
    """The initialisers for one graph.

    Attributes
    ----------
    graph : LatentGraph
    rows : DistinctRows
        All of them: moments are those of all.
    first : DistinctRows
        The smallest sample, from which other starts are made.
    gaps : frozenset of str
        The columns that may have missing cells.
    """

    graph: LatentGraph
    rows: DistinctRows
    first: DistinctRows
    gaps: frozenset[str]

    def pool(self, random: np.random.Generator) -> Iterator[Candidate]:
        """Yield candidates for a multi-start without end: random tables and mixtures in turn."""
        kinds: tuple[Kind, ...] = ("random", "mixture")
        numbers = count()
        for kind in cycle(kinds):
            yield self.candidate(kind, next(numbers) // len(kinds), random.spawn(1)[0])

    def candidate(self, kind: Kind, number: int, random: np.random.Generator) -> Candidate:
        """Return one candidate; those of the same kind differ by their number."""
        makers = {
            "spectral": self._spectral,
            "mixture": self._mixture,
            "copy": self._copy,
            "random": self._random,
        }
        return Candidate(kind, partial(makers[kind] if self.hidden else self._random, number, random))

    @cached_property
    def hidden(self) -> Sequence[str]:
        """The hidden variables that the data depend on."""
        learnable = {name for key in self._layout.learnable for name in key}
        return [name for name in self.graph.hidden if name in learnable]

    @property
    def _layout(self) -> ParameterLayout:
        return ParameterLayout.of(self.graph)

    def _random(self, number: int, random: np.random.Generator) -> Floats:
        return random_start(self._layout, random)

    def _mixture(self, number: int, random: np.random.Generator) -> Floats:
        """Return classes around rows as they are; where there are many hidden variables, each is a noisy copy."""
        noise = 0.0 if len(self.hidden) == 1 else NOISES[0]
        return carried(self._layout, self._seeded(number, random), noise, random)

    def _seeded(self, number: int, random: np.random.Generator) -> Classes:
        sharpness = SHARPNESS[number % len(SHARPNESS)]
        return seeded(self.graph, self.first, most_classes(self.graph), sharpness, random)

    def _copy(self, number: int, random: np.random.Generator) -> Floats:
        """Return tables in which each hidden variable is a noisy copy of the class of a fitted mixture."""
        graph = class_graph(self.graph, most_classes(self.graph))
        mixture = TreeObjective.of(graph, self.first, self.gaps, CLASS_PSEUDO_COUNTS)
        start = carried(mixture.layout, self._seeded(number, random), 0.0)
        *_, end = em_run(mixture, start, Stopping("gain", 1e-5), CLASS_ITERATIONS)
        tables = mixture.layout.tables(end.here.parameters)
        classes = Classes(tables[graph.hidden], {name: tables[(name,)] for name in self.graph.observed})
        return carried(self._layout, classes, NOISES[number % len(NOISES)], random)

    def _spectral(self, number: int, random: np.random.Generator) -> Floats:
        """Return the tables that a spectral fit recovers, and the others as EM finds them beside these."""
        objective = TreeObjective.of(self.graph, self.first, self.gaps, CLASS_PSEUDO_COUNTS)
        return completed(objective, self._recovered, random)

    @cached_property
    def _recovered(self) -> Mapping[TableKey, Floats]:
        """The tables that a spectral fit to all rows recovers.

        Raises
        ------
        RankError
            When it recovers none, or there can be no fit.
        """
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
