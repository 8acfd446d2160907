"""The graph of a model and its columns: given as they are, or built by a template for the columns of the data."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from eigentree.data.columns import Columns
from eigentree.data.rows import Rows
from eigentree.errors import GraphError
from eigentree.structures.graph import LatentGraph
from eigentree.structures.templates import Template

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from eigentree.data.columns import UnknownRule
    from eigentree.data.states import Categories, NumericRule

__all__ = ["graph_over", "resolved"]


def resolved(
    structure: LatentGraph | Template,
    X: ArrayLike | Any,
    categories: Categories | None = None,
    numeric: NumericRule = "error",
    unknown: UnknownRule = "error",
) -> tuple[LatentGraph, Columns]:
    """Return the graph of a model, given or built by a template for the columns of X, and these columns.

    Rows that were read already know theirs.
    """
    if isinstance(X, Rows):
        return graph_over(structure, X.columns), X.columns
    if isinstance(structure, LatentGraph):
        return structure, Columns.of(structure).fitted_to(X, categories, numeric, unknown)
    _check_template(structure)
    columns = Columns.learned(X, categories, numeric, unknown)
    return graph_over(structure, columns), columns


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
