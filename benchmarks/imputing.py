"""Cells that were hidden and filled in again: how many rightly, beside other imputers, and in what time."""

from __future__ import annotations

import time
import warnings
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks import shared
from benchmarks.measure import show_note, show_table
from benchmarks.shared import Table
from eigentree import EMJunctionTree, SpectralJunctionTree, zoo

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

SHARES = (0.1, 0.3)
"""Of the known cells that are hidden."""

MOST_ROWS = 4_000
"""Of a data set: chained forests take minutes on more."""

HIDDEN_STATES = (4, 8, 16, 32)
NEIGHBOURS = (5, 20, 60)
LEAVES = (1, 5)
"""Least rows of a leaf of a tree; as of the neighbours, the best in hindsight counts."""

FILES = {"nltcs": "", "votes": "house-votes-84.data", "mushrooms": "agaricus-lepiota.data", "plants": ""}


def table_of(name: str, most: int) -> Table:
    """Return the first rows of a data set."""
    table = shared.labelled(FILES[name]) if FILES[name] else shared.binary_split(name).train
    # The mushrooms stand in an order.
    order = np.random.default_rng(shared.SPLIT_SEED).permutation(len(table.codes))[:most]
    return Table(table.codes[order], table.states)


def commonest(masked: Table) -> NDArray[Any]:
    """Return the rows filled with the commonest state of each column."""
    filled = masked.codes.copy()
    for column in filled.T:
        column[column < 0] = np.bincount(column[column >= 0]).argmax()
    return filled


def mixture(masked: Table) -> NDArray[Any]:
    """Return the rows filled by a mixture learned by EM, of as many classes as a tenth of the rows chooses."""
    held = np.random.default_rng(1).random(len(masked.codes)) < 0.1
    scores = []
    for states in HIDDEN_STATES:
        model = EMJunctionTree(zoo.Mixture(states).build(masked.states), random_state=0)
        scores.append(model.fit(masked.codes[~held]).score(masked.codes[held]))
        if scores[-1] < max(scores):
            break
    best = HIDDEN_STATES[int(np.argmax(scores))]
    model = EMJunctionTree(zoo.Mixture(best).build(masked.states), random_state=0).fit(masked.codes)
    return np.asarray(model.impute(masked.codes))


def spectral(masked: Table) -> NDArray[Any]:
    """Return the rows filled by a spectral mixture of eight classes."""
    model = SpectralJunctionTree(zoo.Mixture(8).build(masked.states), when_short="warn").fit(masked.codes)
    return np.asarray(model.impute(masked.codes))


def neighbours(masked: Table, count: int) -> NDArray[Any]:
    """Return the rows filled by the nearest rows, which vote on the states of a missing cell."""
    from sklearn.impute import KNNImputer

    blocks = []
    for column, states in zip(masked.codes.T, masked.states, strict=True):
        block = (column[:, None] == np.arange(states)).astype(np.float64)
        block[column < 0] = np.nan
        blocks.append(block)
    filled = KNNImputer(n_neighbors=count, keep_empty_features=True).fit_transform(np.concatenate(blocks, axis=1))
    starts = np.cumsum([0, *masked.states])
    return np.stack([filled[:, a:b].argmax(axis=1) for a, b in pairwise(starts)], axis=1)


def forests(masked: Table, leaf: int) -> NDArray[Any]:
    """Return the rows filled by forests, one per column, each given all other columns, in rounds."""
    from sklearn.ensemble import RandomForestClassifier
    from sklearn.experimental import enable_iterative_imputer  # noqa: F401
    from sklearn.impute import IterativeImputer

    forest = RandomForestClassifier(100, min_samples_leaf=leaf, random_state=0, n_jobs=1)
    chained = IterativeImputer(
        forest,
        missing_values=-1,
        max_iter=3,
        initial_strategy="most_frequent",
        keep_empty_features=True,
        random_state=0,
    )
    return np.asarray(chained.fit_transform(masked.codes), np.int64)


METHODS: dict[str, list[tuple[str, Callable[[Table], NDArray[Any]]]]] = {
    "column mode": [("", commonest)],
    "EM mixture": [("", mixture)],
    "spectral mixture": [("", spectral)],
    "nearest rows": [(f"k={count}", lambda masked, count=count: neighbours(masked, count)) for count in NEIGHBOURS],
    "chained forests": [(f"leaf={leaf}", lambda masked, leaf=leaf: forests(masked, leaf)) for leaf in LEAVES],
}
"""Each method with its settings; times are of all settings together, accuracy is that of the best."""


def _measured(method: str, masked: Table, hidden: NDArray[np.bool_], truth: NDArray[Any]) -> list[str]:
    """Return the cells of a line: accuracy in per cent, and processor seconds."""
    start = time.process_time()
    with warnings.catch_warnings():
        # Rounds that did not settle, ranks that few rows do not support: the accuracy shows the effect.
        warnings.simplefilter("ignore")
        right = {setting: (fill(masked) == truth)[hidden].mean() for setting, fill in METHODS[method]}
    spent = (time.process_time() - start) / len(right)
    best = max(right, key=lambda setting: right[setting])
    return [f"{100 * right[best]:.2f}{f' ({best})' if best else ''}", f"{spent:.2f}"]


def run(quick: bool) -> None:
    """Print a table for each data set."""
    names = [name for name in FILES if not quick or name == "votes"]
    needed = [file for name in names for file in ([FILES[name]] if FILES[name] else shared.split_files(name))]
    if shared.is_absent("imputing", needed):
        return
    methods = [method for method in METHODS if not quick or method != "chained forests"]
    for name in names:
        table = table_of(name, MOST_ROWS)
        # Imported before any clock runs.
        for fill in (mixture, spectral):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                fill(Table(table.codes[:40], table.states))
        lines = []
        for method in methods:
            line = [method]
            for share in SHARES:
                hidden = (np.random.default_rng(2).random(table.codes.shape) < share) & (table.codes >= 0)
                masked = Table(np.where(hidden, np.int8(-1), table.codes), table.states)
                line += _measured(method, masked, hidden, table.codes)
            lines.append(line)
        header = ["", *(cell for share in SHARES for cell in (f"{share:.0%} hidden", "s"))]
        show_table(
            f"imputing: {name}, {len(table.codes):,} rows, {len(table.states)} columns:\n"
            "accuracy on masked cells in per cent, processor seconds, 1 thread",
            header,
            lines,
        )
    show_note(
        "EM mixture: EMJunctionTree(zoo.Mixture(k)), k of 4, 8, 16, 32 by the likelihood of a tenth of the rows,"
        " that search included in its time; the others show the best of their settings in hindsight, and the time"
        " of one setting. Nearest rows: KNNImputer on indicator columns; chained forests: IterativeImputer, three"
        " rounds of RandomForestClassifier of 100 trees"
    )
