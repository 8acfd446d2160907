"""The four structures of the paper's Figure 3, models of them, and how wrong a learned model is."""

from __future__ import annotations

import math
import time
import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.measure import afresh, seconds
from benchmarks.paper.baselines import IndependentColumns
from eigentree import LatentNetwork, SpectralJunctionTree, zoo

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from eigentree import LatentGraph

FIRST_SEED = 100
TEST_ROWS = 1_000
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
    """Return sampled rows as column-major uint8, drawn in parts so that no large int64 array is ever made."""
    X = np.empty((rows, len(truth.graph.observed)), np.uint8, order="F")
    random = np.random.default_rng(seed)
    for start in range(0, rows, 10_000):
        X[start : start + 10_000] = truth.sample(min(10_000, rows - start), seed=random)
    return X


@dataclass(frozen=True, eq=False)
class Trial:
    """A model, rows to learn from, and test rows with their true log probabilities."""

    truth: LatentNetwork
    X: NDArray[np.uint8]
    test: NDArray[np.uint8]
    log_prob: NDArray[np.float64]

    @classmethod
    def draw(cls, graph: LatentGraph, concentration: float, number: int, rows: int) -> Trial:
        """Return one of the fixed trials of a graph."""
        truth = LatentNetwork.random(graph, concentration, seed=FIRST_SEED + number)
        test = codes(truth, TEST_ROWS, seed=3_000 + number)
        return cls(truth, codes(truth, rows, seed=2_000 + number), test, truth.log_prob(test))

    def error(self, log_prob: NDArray[np.float64]) -> float:
        """Return the mean of |estimate - truth| / truth over the test rows."""
        with np.errstate(over="ignore"):
            return float(np.abs(np.expm1(log_prob - self.log_prob)).mean())

    def fitted(self, rows: int, **parameters: Any) -> Outcome:
        """Return how a fit to the first rows does."""
        model = SpectralJunctionTree(afresh(self.truth.graph), **parameters)
        with warnings.catch_warnings():
            # Few rows give weak separators.
            warnings.simplefilter("ignore", RuntimeWarning)
            spent = seconds(lambda: model.fit(self.X[:rows]), time.process_time)
            error = self.error(model.score_samples(self.test))
        return Outcome(error, spent, model.shrinkage_, model.report_.clipping.share)

    def independent_error(self, rows: int) -> float:
        """Return the error of independent columns with add-1/2 smoothing."""
        graph = self.truth.graph
        columns = IndependentColumns([graph.states[name] for name in graph.observed], self.X[:rows])
        return self.error(columns.score_samples(self.test))


@dataclass(frozen=True)
class Outcome:
    """Error, seconds and chosen shrinkage of one fit, and how much of its cells' distributions was clipped."""

    error: float
    seconds: float
    shrinkage: float
    clipped: float


def slope(rows: list[int], errors: list[float]) -> float:
    """Return the least-squares slope of log error against log rows."""
    return float(np.polyfit(np.log(rows), np.log(errors), 1)[0])


def per_doubling(sizes: list[int], times: list[float]) -> list[str]:
    """Return by how much each time exceeds the one before, as a factor for twice the size; empty for the first."""
    factors = [""]
    for k in range(1, len(sizes)):
        doublings = math.log2(sizes[k] / sizes[k - 1])
        factors.append(f"{(times[k] / times[k - 1]) ** (1 / doublings):.2f}")
    return factors
