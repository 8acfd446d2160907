"""The graph of a model: given as it is, or built by a template for the columns of the data."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from eigentree.data.columns import Columns
from eigentree.errors import GraphError
from eigentree.structures.graph import LatentGraph
from eigentree.structures.templates import Template

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

__all__ = ["graph_over", "resolve_structure"]


def resolve_structure(structure: LatentGraph | Template, X: ArrayLike | Any) -> LatentGraph:
    """Return the graph of a model: the given one, or the one that a template builds for the columns of X."""
    if isinstance(structure, LatentGraph):
        return structure
    _check_template(structure)
    return graph_over(structure, Columns.learned(X))


def graph_over(structure: LatentGraph | Template, columns: Columns) -> LatentGraph:
    """Return the graph of a model: the given one, or the one that a template builds for some columns."""
    if isinstance(structure, LatentGraph):
        return structure
    _check_template(structure)
    return structure.build(columns.states, columns.names)


def _check_template(structure: Any) -> None:
    if not isinstance(structure, Template):
        raise GraphError(
            f"the structure is a LatentGraph or a template such as zoo.HMM(order=2), not {type(structure).__name__}"
        )
