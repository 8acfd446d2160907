"""How likely held-out rows of labelled tables with missing cells are, as they are read from their files."""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable
from statistics import fmean, stdev
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

import eigentree as et
from benchmarks import shared
from benchmarks.measure import show_note, show_table

if TYPE_CHECKING:
    from numpy.typing import NDArray

FILES = {
    "gss82": "gss82.csv",
    "votes": "house-votes-84.data",
    "election": "election.csv",
    "mushrooms": "agaricus-lepiota.data",
}
SPLITS = 5
TRAINING_SHARE = 0.75
MIXTURE_STATES = (1, 2, 4, 8, 16, 32, 64, 128)
FOLDS, FEW_ROWS = 5, 500
"""Folds of the training rows, by which the mixture's size is chosen: each of few rows, else the first."""

OURS = 'EM, "auto"'


def frame_of(name: str) -> pd.DataFrame:
    """Return a table of labels, the class of a row as one of its columns; a column declares all labels it has."""
    headed = FILES[name].endswith(".csv")
    frame = pd.read_csv(shared.FOLDER / FILES[name], header=0 if headed else None, na_values="?", dtype=str)
    frame.columns = [str(column) if headed else f"c{column}" for column in frame]
    return frame.astype("category")


def independent(train: pd.DataFrame, seed: int) -> et.EMJunctionTree:
    """Return a mixture of one class."""
    return et.EMJunctionTree(et.zoo.Mixture(1), random_state=seed).fit(train)


def chow_liu(train: pd.DataFrame, seed: int) -> et.EMJunctionTree:
    """Return the Chow-Liu tree of the columns themselves."""
    graph = et.learn_structure(train, hidden_states=None)
    return et.EMJunctionTree(graph, random_state=seed).fit(train)


def mixture(train: pd.DataFrame, seed: int) -> et.EMJunctionTree:
    """Return a mixture, with twice as many classes while cross-validated log-likelihood rises."""
    part = np.random.default_rng(seed).permutation(len(train)) % FOLDS
    best, highest = 1, -np.inf
    for states in MIXTURE_STATES:
        total = 0.0
        for out in range(FOLDS if len(train) <= FEW_ROWS else 1):
            model = et.EMJunctionTree(et.zoo.Mixture(states), random_state=seed).fit(train[part != out])
            total += float(model.score_samples(train[part == out]).sum())
        if total <= highest:
            break
        best, highest = states, total
    return et.EMJunctionTree(et.zoo.Mixture(best), random_state=seed).fit(train)


def ours(train: pd.DataFrame, seed: int) -> et.EMJunctionTree:
    """Return what one line makes of the table."""
    return et.EMJunctionTree("auto", random_state=seed).fit(train)


METHODS: dict[str, Callable[[pd.DataFrame, int], et.EMJunctionTree]] = {
    "independent": independent,
    "Chow-Liu": chow_liu,
    "mixture": mixture,
    OURS: ours,
}


def _size(model: et.EMJunctionTree) -> str:
    if hasattr(model, "search_"):
        return str(model.search_.size)
    return " ".join(str(model.graph_.states[name]) for name in model.graph_.hidden) or "-"


def _error(values: NDArray[Any]) -> float:
    """Return the standard error of a mean."""
    return float(stdev(values.tolist()) / math.sqrt(len(values)))


def _show_table(name: str, splits: int) -> None:
    """Print one table: a line for each method."""
    frame = frame_of(name)
    scores: dict[str, NDArray[Any]] = {}
    lines = []
    count = round(TRAINING_SHARE * len(frame))
    for method, fit in reversed(METHODS.items()):
        found, spent, sizes = [], [], []
        for split in range(splits):
            order = np.random.default_rng(split).permutation(len(frame))
            train, test = frame.iloc[order[:count]], frame.iloc[order[count:]]
            start = time.process_time()
            model = fit(train, split)
            spent.append(time.process_time() - start)
            found.append(float(model.score_samples(test).mean()))
            sizes.append(_size(model))
        scores[method] = np.array(found)
        behind = scores[OURS] - scores[method]
        lines.append(
            [
                method,
                f"{fmean(found):.4f}",
                f"{_error(scores[method]):.4f}",
                "" if method == OURS else f"{behind.mean():+.4f}",
                "" if method == OURS else f"{_error(behind):.4f}",
                f"{fmean(spent):.2f}",
                " | ".join(sorted(set(sizes), key=sizes.index)),
            ]
        )
    missing = int(frame.isna().to_numpy().sum())
    show_table(
        f"frames: {name}, {frame.shape[1]} columns, {missing:,} missing cells, {count:,} rows to learn from,"
        f" {len(frame) - count:,} to test:\n"
        f"mean log probability of a test row, mean of {splits} fixed splits and its standard error; by how\n"
        "much ours is ahead in the same splits, and the error of that; processor seconds of a fit, 1 thread",
        ["method", "test", "error", "ours ahead", "error", "s", "chosen"],
        lines,
    )


def run(quick: bool) -> None:
    """Print a table for each data set."""
    names = [name for name in FILES if not quick or name == "votes"]
    if shared.is_absent("frames", [FILES[name] for name in names]):
        return
    for name in names:
        few = frame_of(name).iloc[::20]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for fit in METHODS.values():
                # Imported before any clock runs.
                fit(few, 0)
        _show_table(name, 2 if quick else SPLITS)
    show_note(
        "default settings of EMJunctionTree throughout; the mixture's classes are doubled from 1 while"
        f" {FOLDS} folds of the training rows gain log-likelihood (one of them beyond {FEW_ROWS:,} rows), then it"
        " learns from all of them"
    )
