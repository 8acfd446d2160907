"""Structures learned from tables: time, memory, growth with the rows, and planted trees that are found again."""

from __future__ import annotations

import time
import warnings
from functools import partial
from itertools import combinations
from typing import TYPE_CHECKING

import networkx as nx
import numpy as np

import eigentree as et
from benchmarks.measure import best_seconds, in_fresh_process, peak_growth, seconds, show_note, show_table
from benchmarks.planted import planted_network, random_tree
from benchmarks.tree_distance import robinson_foulds

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    Codes = NDArray[np.uint8]

METHODS = ("chow-liu", "neighbour-joining")
NOISE = 0.3
"""Of a column, the share of cells that differ from the column that it is a copy of."""


def copies(rows: int, columns: int, states: int, seed: int = 0) -> Codes:
    """Return a table in which each column is a noisy copy of one of the ten before it."""
    random = np.random.default_rng(seed)
    X = np.empty((rows, columns), np.uint8, order="F")
    X[:, 0] = random.integers(0, states, rows)
    for j in range(1, columns):
        source = random.integers(max(0, j - 10), j)
        fresh = random.integers(0, states, rows)
        X[:, j] = np.where(random.random(rows) < NOISE, fresh, X[:, source])
    return X


# Time and memory


def by_numpy(X: Codes) -> set[frozenset[int]]:
    """Return the Chow-Liu tree by one product of all indicators, a loop over pairs, and networkx."""
    states = int(X.max()) + 1
    ones = (X[:, :, None] == np.arange(states)).reshape(len(X), -1).astype(np.float32)
    counts = (ones.T @ ones).astype(np.float64) / len(X)
    information = {}
    for i, j in combinations(range(X.shape[1]), 2):
        joint = counts[states * i : states * (i + 1), states * j : states * (j + 1)]
        with np.errstate(divide="ignore", invalid="ignore"):
            terms = joint * np.log(joint / np.outer(joint.sum(axis=1), joint.sum(axis=0)))
        information[i, j] = np.nansum(terms)
    return heaviest(information)


def by_sklearn(X: Codes) -> set[frozenset[int]]:
    """Return the Chow-Liu tree by scikit-learn's mutual information of each pair, and networkx."""
    from sklearn.metrics import mutual_info_score

    pairs = combinations(range(X.shape[1]), 2)
    return heaviest({(i, j): mutual_info_score(X[:, i], X[:, j]) for i, j in pairs})


def by_pgmpy(X: Codes) -> set[frozenset[int]]:
    """Return the Chow-Liu tree of pgmpy."""
    import pandas as pd
    from pgmpy.estimators import TreeSearch

    frame = pd.DataFrame(X, columns=[f"x{place}" for place in range(X.shape[1])])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tree = TreeSearch(frame, root_node="x0", n_jobs=1).estimate("chow-liu", show_progress=False)
    return {frozenset(int(name[1:]) for name in edge) for edge in tree.edges()}


def by_eigentree(X: Codes) -> set[frozenset[int]]:
    """Return our Chow-Liu tree."""
    graph = et.learn_structure(X, hidden_states=None)
    return {frozenset(int(name[1:]) for name in edge) for edge in graph.edges}


def heaviest(information: dict[tuple[int, int], float]) -> set[frozenset[int]]:
    """Return the edges of the heaviest spanning tree."""
    graph = nx.Graph()
    graph.add_weighted_edges_from((i, j, weight) for (i, j), weight in information.items())
    return {frozenset(edge) for edge in nx.maximum_spanning_tree(graph).edges}


def show_packages(rows: int, columns: int, states: int, repeats: int) -> None:
    """Print how long others take for the Chow-Liu tree of columns, once all agree."""
    X = copies(rows, columns, states)
    runs: dict[str, Callable[[Codes], set[frozenset[int]]]] = {
        "eigentree": by_eigentree,
        "numpy, one product, a loop over pairs": by_numpy,
        "scikit-learn, pair by pair": by_sklearn,
        "pgmpy, TreeSearch": by_pgmpy,
    }
    trees = {name: run(X) for name, run in runs.items()}
    if any(tree != trees["eigentree"] for tree in trees.values()):
        raise AssertionError("two ways to learn a tree do not agree")
    best = best_seconds({name: partial(run, X) for name, run in runs.items()}, repeats, time.process_time)
    show_table(
        f"structures: the Chow-Liu tree of {columns} columns of {states} states, {rows:,} rows of uint8, the same\n"
        f"by all; processor time, 1 thread, best of {repeats}",
        ["run", "s", "x eigentree"],
        [[name, f"{spent:.3f}", f"{spent / best['eigentree']:.1f}"] for name, spent in best.items()],
    )


def growth(rows: int, columns: int, states: int, method: str) -> list[float]:
    """Return processor seconds and the growth of peak memory of learning a structure; for a fresh process."""
    X = copies(rows, columns, states)
    et.learn_structure(copies(100, 5, 12), method)  # type: ignore[arg-type]
    spent = [0.0]

    def learn() -> None:
        spent[0] = seconds(lambda: et.learn_structure(X, method), time.process_time)  # type: ignore[arg-type]

    return [peak_growth(learn), spent[0]]


def show_sizes(cases: list[tuple[int, int, int]]) -> None:
    """Print time and memory for tables of many shapes."""
    table = []
    for rows, columns, states in cases:
        for method in METHODS:
            memory, spent = in_fresh_process(__name__, "growth", rows, columns, states, method)
            table.append(
                [
                    f"{columns:,} columns of {states}, {rows:,} rows",
                    method,
                    f"{spent:.2f}",
                    f"{memory / 1e6:,.0f}",
                    f"{rows * columns / 1e6:,.0f}",
                ]
            )
    show_table(
        "structures: learn_structure(X), hidden variables and all; processor seconds and peak memory beyond the\n"
        "data, each a single run in a fresh process, 1 thread, uint8",
        ["table", "method", "s", "MB", "data MB"],
        table,
    )


def show_rows(columns: int, sizes: list[int], repeats: int) -> None:
    """Print how time grows with the rows."""
    table = []
    tables = {f"{rows:,}": copies(rows, columns, 2) for rows in sizes}
    for method in METHODS:
        runs = {rows: partial(et.learn_structure, X, method) for rows, X in tables.items()}
        spent = list(best_seconds(runs, repeats, time.process_time).values())
        exponent = np.polyfit(np.log(sizes), np.log(spent), 1)[0]
        last = np.log2(spent[-1] / spent[-2]) / np.log2(sizes[-1] / sizes[-2])
        table.append([method, *(f"{each:.2f}" for each in spent), f"{exponent:.2f}", f"{last:.2f}"])
    show_table(
        f"structures: growth with the rows, {columns:,} columns of 2 states; processor seconds, 1 thread, best of\n"
        f"{repeats}; exponents are of the rows: over all, and of the last step",
        ["method", *tables, "exponent", "at last"],
        table,
    )


# Planted trees


def planted(columns: int, hidden_states: int, observed_states: int, seed: int) -> et.LatentNetwork:
    """Return a network on a random tree of hidden variables, each with three neighbours or more."""
    random = np.random.default_rng(seed)
    return planted_network(random_tree(columns, hidden_states, observed_states, random), random)


def show_planted(cases: list[tuple[int, int, int]], sizes: list[int], seeds: int) -> None:
    """Print how often planted trees are found, and how far those are that are not."""
    table = []
    for columns, hidden_states, observed_states in cases:
        networks = [planted(columns, hidden_states, observed_states, seed) for seed in range(seeds)]
        for rows in sizes:
            cells = []
            for method in METHODS:
                far = [
                    robinson_foulds(et.learn_structure(network.sample(rows, seed=1), method), network.graph)  # type: ignore[arg-type]
                    for network in networks
                ]
                cells += [f"{np.mean([each == 0 for each in far]):.0%}", f"{np.mean(far):.2f}"]
            table.append(
                [f"{columns} columns, {hidden_states} hidden, {observed_states} observed", f"{rows:,}", *cells]
            )
    show_table(
        f"structures: planted trees found again, {seeds} of each kind; states are hidden and observed; 15 to 50 %\n"
        "of noise on each edge, and the number of hidden states is not given; exact: the share of trees that are\n"
        "the planted ones; RF: the mean Robinson-Foulds distance from them, 0 to 1",
        ["planted", "rows", *(f"{method} {what}" for method in METHODS for what in ("exact", "RF"))],
        table,
    )


def run(quick: bool) -> None:
    """Print all tables."""
    if quick:
        show_packages(2_000, 12, 3, 1)
        show_sizes([(2_000, 50, 2)])
        show_rows(50, [2_000, 4_000, 8_000], 2)
        show_planted([(12, 2, 2)], [1_000], 3)
        return
    show_packages(20_000, 100, 2, 1)
    show_packages(20_000, 50, 4, 1)
    show_sizes([(20_000, 1_000, 2), (20_000, 1_000, 4), (2_000, 5_000, 2), (20_000, 100, 100), (2_000, 40, 250)])
    show_rows(1_000, [10_000, 20_000, 40_000, 80_000, 160_000], 2)
    show_planted([(16, 2, 2), (16, 4, 4), (16, 3, 6), (48, 2, 2), (48, 3, 4)], [1_000, 10_000, 100_000], 20)
    show_note(
        "the hidden variables of a Chow-Liu tree are no claim about the truth: it has one where columns meet, not"
        " where hidden ones do"
    )
