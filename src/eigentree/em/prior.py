"""Where pseudo-counts go: a little everywhere, so that nothing is impossible, and the rest as the columns are.

What is not known of a column in one class, or after one hidden state, is best guessed from the column in all rows:
one that is nearly always 0 is so in most classes. Pseudo-counts that are spread evenly would say otherwise.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping

    from eigentree.arrays import Floats
    from eigentree.em.parameters import ParameterLayout
    from eigentree.graphs.graph import LatentGraph

__all__ = ["EVEN_PSEUDO_COUNTS", "spread"]

EVEN_PSEUDO_COUNTS = 0.25
"""So many are spread evenly: a column's own states say nothing of those that it has not shown yet."""


def spread(layout: ParameterLayout, margins: Mapping[str, Floats], pseudo_counts: float) -> Floats:
    """Return the pseudo-count of each parameter, on the average as many as given; none where nothing is learned.

    What goes beyond `EVEN_PSEUDO_COUNTS` is spread over the states of an observed variable as they are among the
    rows, whose `margins` are given; over those of a hidden one evenly.
    """
    even = min(pseudo_counts, EVEN_PSEUDO_COUNTS)
    graph, parts = layout.graph, []
    for key, shape in layout.shapes.items():
        usual = np.ones(())
        for name in key:
            usual = np.multiply.outer(usual, _usual(graph, margins, name))
        counts = even + (pseudo_counts - even) * usual.size * usual
        parts.append(np.tile(counts.ravel(), math.prod(shape) // usual.size))
    return np.where(layout.learned, np.concatenate(parts), 0.0)


def _usual(graph: LatentGraph, margins: Mapping[str, Floats], name: str) -> Floats:
    """Return how often each state of a variable is met: among the rows, or evenly if it is hidden or unknown."""
    states = graph.states[name]
    if name in graph.hidden:
        return np.full(states, 1.0 / states)
    counts = margins[name][:-1]
    total = float(counts.sum())
    return counts / total if total > 0 else np.full(states, 1.0 / states)
