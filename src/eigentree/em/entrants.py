"""Who starts: which kinds of starts take part for a graph, how many of each, and in which order."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

import numpy as np

from eigentree.counting.counts import Counts
from eigentree.em.frozen import completed
from eigentree.em.optimize.run import em_run
from eigentree.em.optimize.stopping import Stopping
from eigentree.em.parameters import ParameterLayout
from eigentree.em.starts import Classes, Start, carried, class_graph, most_classes, random_start, seeded
from eigentree.em.tree_objective import TreeObjective
from eigentree.errors import RankError
from eigentree.planning.views import ViewPlan
from eigentree.recovery.recovery import recovered
from eigentree.spectral.held_out import USUAL
from eigentree.spectral.learning import learn
from eigentree.spectral.marginals import pseudo_rows
from eigentree.spectral.sources import CountedTables

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from eigentree.arrays import Floats
    from eigentree.em.distinct import DistinctRows
    from eigentree.engine.tables import TableKey
    from eigentree.structures.graph import LatentGraph

__all__ = ["FEW_ROWS", "KINDS", "Entrant", "Kind", "Office"]

Kind: TypeAlias = Literal["spectral", "mixture", "copy", "random"]

KINDS: tuple[Kind, ...] = ("spectral", "mixture", "copy", "random")
"""All kinds of starts. Spectral ones are recovered from moments: at a hub, by the CP decomposition of its k x k x k
moment."""

ONE_HIDDEN: tuple[Kind, ...] = (
    *("mixture", "mixture", "random", "mixture", "random", "mixture"),
    *("mixture", "random", "mixture", "spectral", "mixture", "random"),
)
"""Who takes part in a race where one hidden variable stands above all columns: a copy would be a mixture again."""

MANY_HIDDEN: tuple[Kind, ...] = (
    *("mixture", "random", "copy", "mixture", "spectral", "random", "mixture", "random", "copy", "mixture"),
    *("random", "mixture", "random", "mixture", "random", "mixture", "random", "mixture", "random", "mixture"),
)
"""Who takes part in a race elsewhere."""

FOR_LONG: tuple[Kind, ...] = (
    *("random", "mixture", "random", "random", "copy", "random", "spectral"),
    *("random", "mixture", "random", "random", "random", "mixture", "random"),
)
"""The same where starts climb for long before any is left behind: more are random, because these end highest."""

SHARPNESS = (0.5, 0.3, 0.8)
"""How much of a class is the row that it is seeded by, in turn."""

NOISES = (0.3, 0.1, 0.6)
"""How much of a hidden variable is not a copy of the class, in turn."""

SEEDINGS, SEEDING_STEPS, CLASS_STEPS = 3, 10, 30
"""A copy start's classes: so many seedings are run for so many steps, and the best of them goes on."""

CLASS_PSEUDO_COUNTS = 0.01
CLASS_STOPPING = Stopping("gain", 1e-5)

VIEWS = 6

FEW_ROWS, FEW_ROWS_TIMES = 2_000, 3
"""With no more rows that differ, so many times as many starts can run: they cost little, and optima are many."""


class Entrant(NamedTuple):
    """A start that is made once the rows are known on which it will run first.

    Attributes
    ----------
    name : str
        Which kind of start.
    make : callable
        Raises an `EigentreeError` where there can be no such start.
    """

    name: str
    make: Callable[[DistinctRows], Start]


@dataclass(frozen=True, eq=False)
class Office:
    """Where starts are entered for one graph and its rows.

    Attributes
    ----------
    graph : LatentGraph
    rows : DistinctRows
        All of them: spectral starts look at all.
    gaps : frozenset of str
        The columns that may have missing cells.
    """

    graph: LatentGraph
    rows: DistinctRows
    gaps: frozenset[str]

    def racing(self, for_long: bool, random: np.random.Generator) -> list[Entrant]:
        """Return those who take part in a race, in the order in which they enter.

        Parameters
        ----------
        for_long : bool
            Whether those with many hidden variables climb for long before any is left behind.
        random : Generator
        """
        if not self._hidden:
            return self.of_kinds(["random"], random)
        many_hidden = FOR_LONG if for_long else MANY_HIDDEN
        kinds = ONE_HIDDEN if len(self._hidden) == 1 else many_hidden
        if len(self.rows.weights) <= FEW_ROWS:
            # All spectral starts are one.
            kinds += tuple(kind for kind in kinds if kind != "spectral") * (FEW_ROWS_TIMES - 1)
        return self.of_kinds(kinds, random)

    def of_kinds(self, kinds: Sequence[Kind], random: np.random.Generator) -> list[Entrant]:
        """Return one entrant of each kind; those of the same kind differ."""
        makers = {
            "spectral": self._spectral,
            "mixture": self._mixture,
            "copy": self._copy,
            "random": self._random,
        }
        seeds = random.spawn(len(kinds))
        return [
            Entrant(kind, partial(makers[kind], kinds[:k].count(kind), seed))
            for k, (kind, seed) in enumerate(zip(kinds, seeds, strict=True))
        ]

    @cached_property
    def _hidden(self) -> list[str]:
        """The hidden variables that rows say anything about."""
        learnable = {name for key in self._layout.learnable for name in key}
        return [name for name in self.graph.hidden if name in learnable]

    @property
    def _layout(self) -> ParameterLayout:
        return ParameterLayout.of(self.graph)

    def _random(self, number: int, random: np.random.Generator, rows: DistinctRows) -> Start:
        return Start("random", random_start(self._layout, random))

    def _mixture(self, number: int, random: np.random.Generator, rows: DistinctRows) -> Start:
        """Return classes around rows as they are; where there are many hidden variables, each is a copy."""
        if not self.graph.hidden:
            return self._random(number, random, rows)
        sharpness = SHARPNESS[number % len(SHARPNESS)] if len(self._hidden) == 1 else 0.5
        noise = 0.0 if len(self._hidden) == 1 else NOISES[0]
        classes = seeded(self.graph, rows, most_classes(self.graph), sharpness, random)
        return Start("mixture", carried(self._layout, classes, noise, random))

    def _copy(self, number: int, random: np.random.Generator, rows: DistinctRows) -> Start:
        """Return classes of a fitted mixture, of which each hidden variable is a noisy copy."""
        if not self.graph.hidden:
            return self._random(number, random, rows)
        noise = NOISES[number % len(NOISES)]
        return Start("copy", carried(self._layout, self._classes(rows, random), noise, random))

    def _classes(self, rows: DistinctRows, random: np.random.Generator) -> Classes:
        graph = class_graph(self.graph, most_classes(self.graph))
        problem = TreeObjective.of(graph, rows, self.gaps, CLASS_PSEUDO_COUNTS, 1)
        ends = []
        for number in range(SEEDINGS):
            sharpness = SHARPNESS[number % len(SHARPNESS)]
            classes = seeded(self.graph, rows, most_classes(self.graph), sharpness, random)
            start = carried(problem.layout, classes, 0.0)
            *_, end = em_run(problem, start, CLASS_STOPPING, SEEDING_STEPS, True)
            ends.append(end)
        best = max(ends, key=lambda end: end.history[-1])
        *_, end = em_run(problem, best.here.parameters, CLASS_STOPPING, CLASS_STEPS, True)
        tables = problem.layout.network(end.here.parameters).tables
        return Classes(tables[graph.hidden[0]], {name: tables[name] for name in self.graph.observed})

    def _spectral(self, number: int, random: np.random.Generator, rows: DistinctRows) -> Start:
        """Return the tables that a spectral fit tells, and the others as they are found beside them."""
        problem = TreeObjective.of(self.graph, rows, self.gaps, CLASS_PSEUDO_COUNTS, 1)
        return Start("spectral", completed(problem, self._known, random))

    @cached_property
    def _known(self) -> Mapping[TableKey, Floats]:
        """The tables that a spectral fit to all rows tells or sketches.

        Raises
        ------
        RankError
            When it tells none, or there can be no fit.
        """
        plan = ViewPlan.build(self.graph, VIEWS, None, "warn")
        states = [self.graph.states[name] for name in self.graph.observed]
        cells = np.where(self.rows.codes == states, -1, self.rows.codes.astype(np.int32))
        counts = Counts(self.graph, plan.groups()).update(cells, self.rows.weights)
        (fit,) = learn(plan, [CountedTables(counts, pseudo_rows(self.graph))], "variance")
        found = recovered(fit, USUAL)
        if not found.hints:
            reason = next(iter(found.unresolved.values()))
            raise RankError(f"the moments of the columns tell no table of this graph, since {reason}")
        return found.hints
