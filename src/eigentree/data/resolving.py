"""The graph of a model: given as it is, or built by a template from the columns of the data."""

from __future__ import annotations

from typing import Any

import numpy as np

from eigentree.data.rows import Rows
from eigentree.errors import DataError, GraphError
from eigentree.structures.graph import LatentGraph
from eigentree.structures.zoo import Template


def resolve_structure(structure: LatentGraph | Template, X: Any) -> LatentGraph:
    """Return the graph of a model: the given one, or the one that a template builds for the columns of X.

    A column has as many states as its largest code says. The columns of a frame keep their names.
    """
    if isinstance(structure, LatentGraph):
        return structure
    if not isinstance(structure, Template):
        raise GraphError(
            f"the structure is a LatentGraph or a template such as zoo.HMM(order=2), not {type(structure).__name__}"
        )
    named = not isinstance(X, np.ndarray) and hasattr(X, "columns") and all(isinstance(n, str) for n in X.columns)
    try:
        shape = np.shape(X)
    except ValueError:
        raise DataError("the rows have different lengths; every row needs one cell a column") from None
    if len(shape) != 2 or shape[1] == 0:
        raise DataError(f"data need the shape (rows, columns), not {shape}")
    names = list(X.columns) if named else [f"x{column}" for column in range(shape[1])]
    # No column has more states than floats can tell apart, so this graph takes all data that are numbers.
    rows = Rows.of(X, LatentGraph(dict.fromkeys(names, 2**53)))
    states = []
    for name, column in zip(names, rows.columns, strict=True):
        known = column[column >= 0]
        if not len(known):
            raise DataError(f"column {name!r} has no known cell, so its states are unknown; give a LatentGraph")
        if not np.isfinite(known.max()):
            raise DataError(
                f"column {name!r} holds {known.max()}, which is no code; mark missing cells as -1 or NaN"
            )
        states.append(int(known.max()) + 1)
    return structure.build(states, names)
