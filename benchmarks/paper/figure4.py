"""The paper's Figure 4: splice junctions, one 2nd-order non-homogeneous HMM a class."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal
from zlib import crc32

import numpy as np

from benchmarks.paper.methods import (
    METHODS,
    WARM_UP_ROWS,
    Problem,
    facts,
    scored,
    timed,
    train,
    warm_up,
)
from eigentree.datasets import LETTERS, Splice, load_splice
from eigentree.estimators.classification.classifier import JunctionTreeClassifier
from eigentree.estimators.spectral_junction_tree import SpectralJunctionTree
from eigentree.graphs import zoo

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    from eigentree.graphs.graph import LatentGraph

    Codes = NDArray[Any]
    Floats = NDArray[np.float64]
    Integers = NDArray[np.int64]

__all__ = [
    "METHOD_NAMES",
    "QUICK_COLUMNS",
    "QUICK_SAMPLES",
    "QUICK_SPLITS",
    "SAMPLES",
    "SPLITS",
    "TEST_SHARE",
    "Figure4Cell",
    "cells",
    "chosen",
    "measure",
    "split_rows",
    "stratified_prefix",
]

SAMPLES = (100, 200, 400, 800, 1_600)
"""Training sizes; all rows that are not test rows come on top of these."""

SPLITS = 10
TEST_SHARE = 0.25
METHOD_NAMES = (
    "ours",
    "multistart",
    "published",
    "em",
    "accelerated",
    "online",
    "smoothed",
    "independent",
    "markov",
)

QUICK_SAMPLES = (200,)
QUICK_SPLITS = 2
QUICK_COLUMNS = 12
"""Bases around the junction, which lies in the middle, that the quick version looks at."""


@dataclass(frozen=True)
class Figure4Cell:
    """One method on the training rows of one split.

    Attributes
    ----------
    split : int
        Number of the split into training and test rows.
    samples : int or None
        Rows to learn from; None for all that are not test rows.
    ambiguous : {"missing", "drop"}
        What becomes of the letters D, N, R, S; see `load_splice`.
    columns : int
        Bases in the middle of each sequence that are looked at; 60 are all.
    method : str
    """

    split: int
    samples: int | None
    ambiguous: Literal["missing", "drop"]
    columns: int
    method: str

    def describe(self) -> dict[str, object]:
        """Return what identifies the cell."""
        return {"figure": 4, **asdict(self)}

    @property
    def size(self) -> int:
        """Rows to learn from, about."""
        return self.samples or 2_400


def cells(
    splits: int,
    samples: Iterable[int | None],
    methods: Iterable[str],
    ambiguous: Literal["missing", "drop"] = "missing",
    columns: int = 60,
) -> list[Figure4Cell]:
    """Return the cells in the order in which to run them: all of one split, then all of the next."""
    return [
        Figure4Cell(split, count, ambiguous, columns, method)
        for split in range(splits)
        for count in sorted(samples, key=lambda count: count or np.inf, reverse=True)
        for method in methods
    ]


def chosen(asked: Namespace) -> list[Figure4Cell]:
    """Return the cells of the command line."""
    quick = asked.quick
    return cells(
        asked.splits or (QUICK_SPLITS if quick else SPLITS),
        dict.fromkeys(asked.samples or (QUICK_SAMPLES if quick else (*SAMPLES, None))),
        [name for name in METHOD_NAMES if name in (asked.methods or METHOD_NAMES)],
        "drop" if asked.drop_ambiguous else "missing",
        QUICK_COLUMNS if quick else 60,
    )


@dataclass(frozen=True, eq=False)
class _Outcome:
    """What a method says of the test rows, log P(row, class), and what training its models took."""

    log_joint: Floats
    about: list[dict[str, Any]]
    seconds: float
    cpu_seconds: float


def measure(cell: Figure4Cell) -> dict[str, Any]:
    """Return the share of test rows whose class is named wrongly, and the time that training all classes took."""
    data, training, test, seeds = _data(cell.split, cell.samples, cell.ambiguous, cell.columns)
    codes, labels = data.codes[training].astype(np.int64), data.classes[training]
    tests = data.codes[test].astype(np.int64)
    if cell.method == "ours":
        outcome = _classified(_graph(cell.columns), codes, labels, tests)
    else:
        outcome = _one_by_one(cell, codes, labels, tests, seeds)
    log_joint = outcome.log_joint
    # Unsmoothed EM can call a row impossible in all classes; then only the prior is left to say anything.
    lost = ~np.isfinite(log_joint).any(axis=1)
    log_joint[lost] = _log_prior(labels)
    wrong = log_joint.argmax(axis=1) != data.classes[test]
    return {
        "error": float(wrong.mean()),
        "wrong": int(wrong.sum()),
        "tests": len(test),
        "rows": len(training),
        "seconds": outcome.seconds,
        "cpu_seconds": outcome.cpu_seconds,
        "impossible": int(lost.sum()),
        "classes": outcome.about,
        "seeds": seeds,
    }


def _classified(graph: LatentGraph, codes: Codes, labels: Codes, tests: Codes) -> _Outcome:
    """Return the outcome of our classifier, which chooses the shrinkage of all classes together."""

    def fit(chosen: Integers) -> JunctionTreeClassifier:
        return JunctionTreeClassifier(SpectralJunctionTree(graph)).fit(codes[chosen], labels[chosen])

    few = _missing_first(codes)[:WARM_UP_ROWS]
    _class_answers(timed(lambda: fit(few)).model, codes[few])
    trained = timed(lambda: fit(np.arange(len(codes))))
    answers = _class_answers(trained.model, tests)
    return _Outcome(*answers, trained.seconds, trained.cpu_seconds)


def _one_by_one(cell: Figure4Cell, codes: Codes, labels: Codes, tests: Codes, seeds: dict[str, int]) -> _Outcome:
    """Return the outcome of a method that learns each class by itself."""
    method, graph = METHODS[cell.method], _graph(cell.columns)
    warm_up(method, Problem(graph, codes[_missing_first(codes)], 0))
    log_prior = _log_prior(labels)
    trained = []
    for label in range(len(log_prior)):
        seed = crc32(f"{cell.method} {label} {seeds['split']} {seeds['rows']}".encode())
        trained.append(train(method, Problem(graph, codes[labels == label], seed)))
    answers = _answers([each.model for each in trained], log_prior, tests)
    return _Outcome(*answers, sum(each.seconds for each in trained), sum(each.cpu_seconds for each in trained))


def _class_answers(model: JunctionTreeClassifier, tests: Codes) -> tuple[Floats, list[dict[str, Any]]]:
    return _answers(model.estimators_, np.log(model.class_prior_), tests)


def _answers(models: Sequence[Any], log_prior: Floats, tests: Codes) -> tuple[Floats, list[dict[str, Any]]]:
    """Return log P(row, class), shape (rows, classes), and what is to be said of each class's model."""
    answers = [scored(model, tests) for model in models]
    return np.column_stack(answers) + log_prior, [facts(model) for model in models]


def _log_prior(labels: Codes) -> Floats:
    return np.asarray(np.log(np.bincount(labels) / len(labels)))


def _missing_first(codes: Codes) -> Integers:
    """Return the order for a warm-up: rows with missing cells may take other ways through the code."""
    return np.argsort(codes.min(axis=1), kind="stable")


def split_rows(data: Splice, seed: int) -> tuple[Integers, Integers]:
    """Return the numbers of training and of test rows, both in random order.

    Stratified: each class gives the same share of its rows to the test. Rows with identical cells go together, so
    that none is on both sides; a sequence with two labels counts for the class of its first row.
    """
    random = np.random.default_rng(seed)
    _, first, group = np.unique(data.codes, axis=0, return_index=True, return_inverse=True)
    sizes = np.bincount(group.ravel())
    chosen = np.zeros(len(first), bool)
    for label in range(len(data.class_names)):
        groups = random.permutation(np.flatnonzero(data.classes[first] == label))
        before = np.cumsum(sizes[groups]) - sizes[groups]
        chosen[groups[before < TEST_SHARE * sizes[groups].sum()]] = True
    order = random.permutation(len(data.codes))
    testing = chosen[group.ravel()][order]
    return order[~testing], order[testing]


def stratified_prefix(classes: NDArray[np.int8], rows: Integers, count: int | None) -> Integers:
    """Return the first rows of each class, `count` in all, in the proportions that the classes have in `rows`.

    So smaller training sets are parts of larger ones.
    """
    if count is None or count >= len(rows):
        return rows
    labels = classes[rows]
    shares = np.bincount(labels) * count / len(rows)
    quota = np.floor(shares).astype(np.int64)
    # What rounding leaves goes to the largest remainders.
    quota[np.argsort(quota - shares, kind="stable")[: count - quota.sum()]] += 1
    rank = np.empty(len(rows), np.int64)
    for label in range(len(quota)):
        members = np.flatnonzero(labels == label)
        rank[members] = np.arange(len(members))
    return rows[rank < quota[labels]]


@lru_cache(maxsize=2)
def _splice(ambiguous: Literal["missing", "drop"], columns: int) -> Splice:
    data = load_splice(ambiguous)
    start = (data.codes.shape[1] - columns) // 2
    middle = slice(start, start + columns)
    return replace(
        data,
        data=data.data[:, middle],
        codes=data.codes[:, middle],
        feature_names=data.feature_names[middle],
    )


@lru_cache(maxsize=2)
def _data(
    split: int, samples: int | None, ambiguous: Literal["missing", "drop"], columns: int
) -> tuple[Splice, Integers, Integers, dict[str, int]]:
    """Return the data, the numbers of training and test rows, and seeds: the same for all methods."""
    # The whole sequences are split, so that versions with fewer columns see the same split.
    seeds = {"split": crc32(f"split {split}".encode()), "rows": samples or 0}
    training, test = split_rows(_splice(ambiguous, 60), seeds["split"])
    data = _splice(ambiguous, columns)
    return data, stratified_prefix(data.classes, training, samples), test, seeds


@lru_cache(maxsize=2)
def _graph(columns: int) -> LatentGraph:
    return zoo.hmm(length=columns, order=2, hidden_states=2, observed_states=len(LETTERS))
