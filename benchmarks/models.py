"""The four structures of the paper's Figure 3, and rows of models of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from eigentree import LatentNetwork, zoo

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from eigentree import LatentGraph

FIRST_SEED = 100
PUBLISHED: dict[str, Any] = {"views": 1, "scaling": None, "shrinkage": 0.0, "floor": 0.03}
"""The parameters that make it Algorithm 1 as published, and let it give every row a probability."""


def structures() -> dict[str, LatentGraph]:
    """Return the four graphs; 2 hidden states everywhere."""
    return {
        "2nd-order HMM, 40 steps, 4 states": zoo.hmm(40, 2, 2, 4),
        "3rd-order HMM, 40 steps, 4 states": zoo.hmm(40, 3, 2, 4),
        "factorial HMM, 2 levels, 15 steps, 16 states": zoo.factorial_hmm(15, 2, 2, 16),
        "the paper's junction tree, 8 columns, 16 states": zoo.paper_junction_tree(2, 16),
    }


def codes(truth: LatentNetwork, rows: int, seed: int) -> NDArray[np.uint8]:
    """Return sampled rows as column-major uint8, sampled in parts so that no large int64 array is ever made."""
    X = np.empty((rows, len(truth.graph.observed)), np.uint8, order="F")
    random = np.random.default_rng(seed)
    for start in range(0, rows, 10_000):
        X[start : start + 10_000] = truth.sample(min(10_000, rows - start), seed=random)
    return X
