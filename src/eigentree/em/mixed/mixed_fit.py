"""`MixedFit`: rows with numbers, and how EM runs on them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from eigentree.em.mixed.mixed_init import MixedInit
from eigentree.em.mixed.mixed_objective import MixedLayout, MixedObjective
from eigentree.em.out_of_core.number_rows import NumberRows
from eigentree.em.parameters import ParameterLayout
from eigentree.em.tree_fit import TreeFit
from eigentree.emissions.families import make
from eigentree.errors import DataError, naming
from eigentree.graphs.junction_tree import JunctionTree
from eigentree.inference.mixed.number_leaves import blocks_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from eigentree.em.constraints import ConstrainedLayout
    from eigentree.em.mixed.mixed_rows import MixedRows
    from eigentree.em.optimize.objective import Objective
    from eigentree.em.tree_fit import Finish
    from eigentree.graphs.graph import LatentGraph

__all__ = ["MixedFit", "mixed_layout"]

LARGEST = np.finfo(np.float64).max ** 0.25
"""Sums of the squares of larger numbers, times their weights, may overflow."""


@dataclass(frozen=True, eq=False)
class MixedFit(TreeFit):
    """Rows in memory, of which `names` are the number columns, and how EM runs on them."""

    rows: Any
    vectors: MixedLayout = field(kw_only=True)
    names: tuple[str, ...] = field(kw_only=True)

    def objective(self, rows: Any) -> Any:
        """Return the objective of some rows."""
        return MixedObjective.of(self.vectors, self.names, rows, self.missing, self.pseudo_counts, self.threads)

    def last(self, finish: Finish) -> Objective:
        """Return the objective that the last run is on, where its rows are not in memory."""
        assert isinstance(finish.rows, NumberRows)
        how = (self.missing, self.pseudo_counts, finish.numbers, self.threads)
        return finish.rows.objective(self.vectors, self.names, *how)

    def initialisers(self, first: Any) -> Any:
        """Return the initialisers, which start from the rows of a sample."""
        objective: Any = self.whole if first is self.rows else self.objective(first)
        return MixedInit(objective, first, self.names)


def mixed_layout(
    graph: LatentGraph,
    families: Mapping[tuple[str, ...], Any],
    names: Sequence[str],
    rows: MixedRows,
    constrained: ConstrainedLayout | None = None,
) -> MixedLayout:
    """Return where parameters stand for a graph whose number columns have these families, given all rows."""
    JunctionTree.of(graph)  # raises an error where there are more states than EM can take
    blocks = blocks_of(graph, families)
    column = {name: place for place, name in enumerate(names)}
    emissions = {}
    for block in blocks:
        for group in block.groups:
            cells = rows.values[:, [column[name] for name in group]]
            if np.nanmax(np.abs(cells), initial=0.0) > LARGEST:
                raise DataError(f"{', '.join(map(repr, group))}: squares of the numbers overflow; rescale them")
            with naming(group):
                emissions[group] = make(families[group], cells, rows.weights, block.states(graph))
    return MixedLayout(constrained or ParameterLayout.of(graph), blocks, emissions)
