"""Small valid calls of the E-step."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from core.estep_problems import random_problem

import eigentree as et
from eigentree.core import _native

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


def examples(random: np.random.Generator) -> Iterator[tuple[Callable[..., object], tuple[object, ...]]]:
    """Yield calls of either precision, with codes of either size, with sums and without."""
    graphs = [et.zoo.mixture(3, 2, 3), et.zoo.hmm(4, 1, 9, 2), et.zoo.hmm(4, 2, 2, 2), None, None]
    for number, code in ((np.float64, np.uint16), (np.float32, np.uint32)):
        for graph in graphs:
            # So many rows of few columns that sections pay.
            passage, values = random_problem(random, 40, graph=graph)
            for sums in (np.empty(len(values)), np.empty(0)):
                yield (
                    _native.expected_counts,
                    (
                        *(part.copy() if isinstance(part, np.ndarray) else part for part in passage.layout.tree),
                        passage.sections.copy(),
                        values.astype(number),
                        passage.codes.astype(code),
                        passage.weights.copy(),
                        sums,
                        int(random.integers(1, 3)),
                        int(random.integers(0, 20)),
                    ),
                )
