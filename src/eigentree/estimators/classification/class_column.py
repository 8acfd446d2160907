"""The class as one more column: its place among the columns of the data, and rows that have it."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from eigentree.data.tables.cells import plain_label
from eigentree.data.tables.columns import Columns
from eigentree.data.tables.labels import Labels
from eigentree.data.tables.rows import Rows
from eigentree.data.tables.state_rules import ReadOptions, without_codes
from eigentree.data.tables.table import table_of
from eigentree.errors import DataError, GraphError
from eigentree.graphs.coercion import as_structure, require_structure
from eigentree.graphs.graph import LatentGraph
from eigentree.graphs.learned_templates import open_template
from eigentree.graphs.templates import Template

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from eigentree.arrays import Floats, Integers
    from eigentree.estimators.classification.class_targets import Targets
    from eigentree.inference.queries import Model

__all__ = ["CLASS", "ClassColumn", "column_of_class"]

CLASS = "class"
"""What the column is called where y has no name, unless the data have a column that is called so."""


@dataclass(frozen=True)
class ClassColumn:
    """All columns, and the name of the one that holds the class."""

    columns: Columns
    name: str

    @property
    def others(self) -> Columns:
        """The columns of the data."""
        return self.columns.only([name for name in self.columns.names if name != self.name])

    def rows(self, own: Rows, classes: Integers) -> Rows:
        """Return rows with their classes, -1 where one is not known."""
        place = self.columns.position(self.name)
        return Rows(self.columns, (*own.cells[:place], classes, *own.cells[place:]))

    def log_joint(self, model: Model, own: Rows) -> Floats:
        """Return log P(row, class), shape (rows, classes)."""
        place = self.columns.position(self.name)
        found = np.empty((own.count, self.columns.states[place]))
        for label in range(found.shape[1]):
            found[:, label], _ = model.log_prob(self.rows(own, np.full(own.count, label)))
        return found


def column_of_class(
    settings: Any, X: ArrayLike | Any, targets: Targets, sample_weight: ArrayLike | None
) -> tuple[LatentGraph | Template, ClassColumn]:
    """Return the structure of a model of the data and their class, and all columns.

    A template is built for the columns and, last, the class. In a graph the class is the one observed variable that
    is no column of the data; where these have no names, the one called as y is, or "class", or else the last.
    """
    classes, called = targets.classes, targets.name
    options = ReadOptions.of(settings, sample_weight)
    structure = open_template(settings.structure) or settings.structure
    require_structure(structure)
    if not isinstance(structure, LatentGraph | Template):
        structure = _graph_of_others(structure, X, Columns.learned(X, options), targets)
    if isinstance(structure, LatentGraph):
        name = _class_variable(structure, X, called)
        if structure.states[name] != len(classes):
            raise DataError(
                f"the class is the variable {name!r}, which has {structure.states[name]} states in the graph, but "
                f"y has {len(classes)} classes"
            )
        place = structure.observed.index(name)
        own = ClassColumn(Columns.of(structure), name).others.fitted_to(X, options)
    else:
        own = Columns.learned(X, options)
        place, name = len(own.names), called or CLASS
        if name == called and own.named and name in own.names:
            raise DataError(
                f"y is called {name!r}, and so is a column of X; leave that column out, if it is the class, or "
                f"rename y"
            )
        while name in own.names:
            name += "_"
    return structure, ClassColumn(own.with_column(place, name, *_labels(classes)), name)


def _graph_of_others(structure: Any, X: ArrayLike | Any, learned: Columns, targets: Targets) -> LatentGraph:
    """Return the graph of another library over the columns of the data and the class."""
    classes, called = len(targets.classes), targets.name
    last = (*learned.states, classes)
    if learned.named:
        if called is not None and called not in learned.names:
            # It may as well be called "class" there, whatever y is called.
            with suppress(GraphError):
                graph = as_structure(structure, last, (*learned.names, called))
                if called in graph.observed:
                    return graph
        return as_structure(structure, last, (*learned.names, CLASS))
    # Columns without names are the observed nodes in turn, among which the class may stand anywhere.
    name = _class_variable(graph := as_structure(structure, last), X, called)
    return as_structure(structure, learned.with_column(graph.observed.index(name), CLASS, classes, None).states)


def _class_variable(graph: LatentGraph, X: ArrayLike | Any, called: str | None) -> str:
    """Return the observed variable of a graph that is no column of the data."""
    table = table_of(X)
    if table.names is None:
        if table.width != len(graph.observed) - 1:
            raise DataError(
                f"X has {table.width} features, but eigentree is expecting {len(graph.observed) - 1} features as "
                f"input: one per observed variable of the graph but the class"
            )
        return next((name for name in (called, CLASS) if name in graph.observed), graph.observed[-1])
    others = [name for name in graph.observed if name not in table.names]
    if len(others) != 1:
        found = f"{len(others)} are: {', '.join(others[:6])}" if others else "all are columns"
        raise DataError(
            f"the class is the one observed variable of the graph that is no column of X, but {found}; rename, "
            f"drop or add a variable"
        )
    return others[0]


def _labels(classes: NDArray[Any]) -> tuple[int, Labels | None]:
    """Return how many classes there are, and what a column calls them."""
    values = tuple(plain_label(label, CLASS, any_kind=True) for label in classes.tolist())
    return without_codes(Labels(values)) if len(set(values)) == len(values) else (len(values), None)
