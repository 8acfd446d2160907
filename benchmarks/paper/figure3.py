"""The paper's Figure 3: error and training time on rows drawn from known models, four structures."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any
from zlib import crc32

import numpy as np

from benchmarks.paper.methods import METHODS, Problem, facts, scored, train, warm_up
from eigentree.graphs import zoo
from eigentree.inference.networks.network import LatentNetwork

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Callable, Iterable

    from numpy.typing import NDArray

    from eigentree.graphs.graph import LatentGraph

__all__ = [
    "CONCENTRATIONS",
    "METHOD_NAMES",
    "MODELS",
    "QUICK_MODELS",
    "QUICK_SAMPLES",
    "QUICK_STRUCTURES",
    "SAMPLES",
    "STRUCTURES",
    "TESTS",
    "Figure3Cell",
    "Structure",
    "cells",
    "chosen",
    "measure",
]

SAMPLES = (100, 316, 1_000, 3_162, 10_000, 31_623, 100_000)
CONCENTRATIONS = (1.0, 0.3)
MODELS = 10
TESTS = 1_000
METHOD_NAMES = ("ours", "multistart", "published", "em", "accelerated", "online", "independent", "floor")

QUICK_SAMPLES = (200, 5_000)
QUICK_STRUCTURES = ("hmm2", "junction")
QUICK_MODELS = 1


@dataclass(frozen=True)
class Structure:
    """A latent graph of the experiment, in the paper's size and in a short version for trying out."""

    name: str
    title: str
    full: Callable[[], LatentGraph]
    short: Callable[[], LatentGraph]


STRUCTURES = {
    structure.name: structure
    for structure in (
        Structure(
            "hmm2",
            "2nd-order HMM",
            lambda: zoo.hmm(length=40, order=2, hidden_states=2, observed_states=4),
            lambda: zoo.hmm(length=8, order=2, hidden_states=2, observed_states=4),
        ),
        Structure(
            "hmm3",
            "3rd-order HMM",
            lambda: zoo.hmm(length=40, order=3, hidden_states=2, observed_states=4),
            lambda: zoo.hmm(length=8, order=3, hidden_states=2, observed_states=4),
        ),
        Structure(
            "factorial",
            "2-level factorial HMM",
            lambda: zoo.factorial_hmm(length=15, levels=2, hidden_states=2, observed_states=16),
            lambda: zoo.factorial_hmm(length=5, levels=2, hidden_states=2, observed_states=16),
        ),
        Structure(
            "junction",
            "synthetic junction tree",
            lambda: zoo.paper_junction_tree(hidden_states=2, observed_states=16),
            lambda: zoo.paper_junction_tree(hidden_states=2, observed_states=8),
        ),
    )
}


@dataclass(frozen=True)
class Figure3Cell:
    """One method on the rows of one model.

    Attributes
    ----------
    structure : str
    short : bool
        Whether the structure is in its short version.
    concentration : float
        Of the Dirichlet distribution that the rows of the true tables are drawn from.
    model : int
        Number of the true model.
    samples : int
        Rows to learn from.
    tests : int
        Rows to measure the error on.
    method : str
    """

    structure: str
    short: bool
    concentration: float
    model: int
    samples: int
    tests: int
    method: str

    def describe(self) -> dict[str, object]:
        """Return what identifies the cell."""
        return {"figure": 3, **asdict(self)}

    @property
    def size(self) -> int:
        """Rows to learn from."""
        return self.samples


def cells(
    structures: Iterable[str],
    concentrations: Iterable[float],
    models: int,
    samples: Iterable[int],
    methods: Iterable[str],
    tests: int = TESTS,
    short: bool = False,
) -> list[Figure3Cell]:
    """Return the cells in the order in which to run them: all of one model, then all of the next.

    So a run that is stopped early has fewer models, and not fewer sizes. Large sizes come first, which keeps all
    workers busy to the end.
    """
    return [
        Figure3Cell(structure, short, concentration, model, count, tests, method)
        for model in range(models)
        for count in sorted(samples, reverse=True)
        for structure in structures
        for concentration in concentrations
        for method in methods
    ]


def chosen(asked: Namespace) -> list[Figure3Cell]:
    """Return the cells of the command line."""
    quick = asked.quick
    return cells(
        dict.fromkeys(asked.structure or (QUICK_STRUCTURES if quick else STRUCTURES)),
        dict.fromkeys(asked.concentration or CONCENTRATIONS),
        asked.models or (QUICK_MODELS if quick else MODELS),
        dict.fromkeys(asked.samples or (QUICK_SAMPLES if quick else SAMPLES)),
        [name for name in METHOD_NAMES if name in (asked.methods or METHOD_NAMES)],
        asked.tests or TESTS,
        short=quick,
    )


def measure(cell: Figure3Cell) -> dict[str, Any]:
    """Return the error of a method on new rows, the time that its training took, and how it came about."""
    truth, tests, rows, seeds = _data(
        cell.structure, cell.short, cell.concentration, cell.model, cell.tests, cell.samples
    )
    method = METHODS[cell.method]
    seed = crc32(f"{cell.method} {seeds['rows']}".encode())
    problem = Problem(truth.graph, rows, seed, truth)
    warm_up(method, problem)
    training = train(method, problem)
    true, learned = truth.log_prob(tests), scored(training.model, tests)
    # Far beyond what any fit gives, the difference is cut so that the mean stays a number.
    relative = np.abs(np.expm1(np.minimum(learned - true, 600.0)))
    possible = np.isfinite(learned)
    return {
        "error": float(relative.mean()),
        "median_error": float(np.median(relative)),
        "seconds": training.seconds,
        "cpu_seconds": training.cpu_seconds,
        "impossible": int((~possible).sum()),
        "log_likelihood": float(learned[possible].mean()) if possible.any() else None,
        "true_log_likelihood": float(true.mean()),
        "train_log_likelihood": _mean(scored(training.model, rows)),
        "seeds": {**seeds, "method": seed},
        "theory": math.sqrt(2 * truth.n_parameters / (math.pi * cell.samples)),
        **facts(training.model),
    }


def _mean(values: NDArray[np.float64]) -> float | None:
    mean = float(values.mean())
    return mean if np.isfinite(mean) else None


@lru_cache(maxsize=8)
def _graph(structure: str, short: bool) -> LatentGraph:
    chosen = STRUCTURES[structure]
    return chosen.short() if short else chosen.full()


@lru_cache(maxsize=2)
def _data(
    structure: str, short: bool, concentration: float, model: int, tests: int, samples: int
) -> tuple[LatentNetwork, NDArray[np.int64], NDArray[np.int64], dict[str, int]]:
    """Return the true model, test rows, training rows and seeds: the same for all methods, in all processes."""
    common = f"{structure} {short} {concentration!r} {model}"
    seeds = {
        "truth": crc32(f"truth {common}".encode()),
        "tests": crc32(f"tests {common}".encode()),
        "rows": crc32(f"rows {common} {samples}".encode()),
    }
    truth = LatentNetwork.random(_graph(structure, short), concentration, seeds["truth"])
    return truth, truth.sample(tests, seeds["tests"]), truth.sample(samples, seeds["rows"]), seeds
