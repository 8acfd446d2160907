"""The paper's Figure 4: splice junctions, one 2nd-order non-homogeneous HMM a class."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal
from zlib import crc32

import numpy as np

from eigentree import zoo
from eigentree.datasets import LETTERS, Splice, load_splice
from eigentree.experiments.methods import METHODS, Problem, facts, scores, train, warm_up

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from eigentree.graph import LatentGraph

    Integers = NDArray[np.int64]

SAMPLES = (100, 200, 400, 800, 1_600)
"""Training sizes; all rows that are not test rows come on top of these."""

SPLITS = 10
TEST_SHARE = 0.25
METHOD_NAMES = ("ours", "published", "em", "accelerated", "online", "smoothed", "independent", "markov")

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
    def kind(self) -> tuple[str, ...]:
        """What cells of equal cost share."""
        return (self.method,)

    @property
    def size(self) -> int:
        """Rows to learn from, about."""
        return self.samples or 2_400


def cells(
    splits: int,
    samples: Sequence[int | None],
    methods: Sequence[str],
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


def measure(cell: Figure4Cell) -> dict[str, Any]:
    """Return the share of test rows whose class is named wrongly, and the time that training all classes took."""
    data, training, test, seeds = _data(cell.split, cell.samples, cell.ambiguous, cell.columns)
    method = METHODS[cell.method]
    rows = data.codes[training].astype(np.int64)
    # Rows with missing cells first, since these may take other ways through the code.
    warm_up(method, Problem(_graph(cell.columns), rows[np.argsort(rows.min(axis=1), kind="stable")], 0))
    seconds = cpu_seconds = 0.0
    about: list[dict[str, Any]] = []
    log_joint = np.empty((len(test), len(data.class_names)))
    prior = np.bincount(data.classes[training], minlength=len(data.class_names)) / len(training)
    for label in range(len(data.class_names)):
        rows = data.codes[training[data.classes[training] == label]].astype(np.int64)
        seed = crc32(f"{cell.method} {label} {seeds['split']} {seeds['rows']}".encode())
        fitted = train(method, Problem(_graph(cell.columns), rows, seed))
        log_joint[:, label] = np.log(prior[label]) + scores(fitted.model, data.codes[test].astype(np.int64))
        seconds += fitted.seconds
        cpu_seconds += fitted.cpu_seconds
        about.append(facts(fitted.model))
    # Unsmoothed EM can call a row impossible in all classes; then only the prior is left to say anything.
    lost = ~np.isfinite(log_joint).any(axis=1)
    log_joint[lost] = np.log(prior)
    wrong = log_joint.argmax(axis=1) != data.classes[test]
    return {
        "error": float(wrong.mean()),
        "wrong": int(wrong.sum()),
        "tests": len(test),
        "rows": len(training),
        "seconds": seconds,
        "cpu_seconds": cpu_seconds,
        "impossible": int(lost.sum()),
        "floored": sum(found["floored"] for found in about),
        "classes": about,
        "seeds": seeds,
    }


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
    return Splice(data.codes[:, start : start + columns], data.classes, data.class_names, data.attribution)


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
