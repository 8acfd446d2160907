"""The graph of a model: given as it is, or made for the columns of the data."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from eigentree.data.cells import names_in
from eigentree.data.columns import Columns
from eigentree.structures.given import as_structure, require_structure
from eigentree.structures.graph import LatentGraph

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from eigentree.structures.templates import Template

__all__ = ["graph_over", "resolve_structure"]


def resolve_structure(structure: LatentGraph | Template | Any, X: ArrayLike | Any) -> LatentGraph:
    """Return the graph of a model: the given one, or the one that `as_structure` makes for the columns of X."""
    if isinstance(structure, LatentGraph):
        return structure
    require_structure(structure)
    return as_structure(structure, Columns.learned(X).states, names_in(X))


def graph_over(structure: LatentGraph | Template | Any, columns: Columns) -> LatentGraph:
    """Return the graph of a model: the given one, or the one that `as_structure` makes for some columns."""
    return as_structure(structure, columns.states, columns.names)
