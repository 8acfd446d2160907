"""Joint counts of groups of columns, as a multiple of one plain pass over the same bytes."""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

import eigentree as et
from benchmarks.measure import best_seconds, show_note, show_table
from eigentree.counting.counts import count_rows
from eigentree.data.tables.rows import Rows
from eigentree.planning.view_plan import ViewPlan

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from eigentree.counting.counts import Counts

COLUMNS = 60
STATES = 4
GROUPS = 60
PLAIN = "one pass: np.sum of the bytes, uint8 to uint64"
XOR = "one pass: xor of the bytes, 8 at a time"


def random_groups(seed: int) -> list[tuple[int, ...]]:
    """Return groups of 3 and of 4 columns in turn, none of which lies within another."""
    random = np.random.default_rng(seed)
    found: list[tuple[int, ...]] = []
    while len(found) < GROUPS:
        group = tuple(sorted(int(j) for j in random.choice(COLUMNS, 3 + len(found) % 2, replace=False)))
        if not any(set(group) <= set(other) or set(other) <= set(group) for other in found):
            found.append(group)
    return found


def by_ravel(X: NDArray[np.uint8], groups: Sequence[tuple[int, ...]]) -> list[NDArray[np.int64]]:
    """Return the counts by ravel_multi_index and bincount."""
    tables = []
    for group in groups:
        joint = np.ravel_multi_index(tuple(X[:, j] for j in group), (STATES,) * len(group))
        tables.append(np.bincount(joint, minlength=STATES ** len(group)))
    return tables


def by_horner(
    X: NDArray[np.uint8], groups: Sequence[tuple[int, ...]], states: int = STATES
) -> list[NDArray[np.int64]]:
    """Return the counts by joint codes that stay in uint8, and bincount."""
    tables = []
    for group in groups:
        joint = X[:, group[0]].copy()
        for j in group[1:]:
            joint *= np.uint8(states)
            joint += X[:, j]
        tables.append(np.bincount(joint, minlength=states ** len(group)))
    return tables


def _show_plans(rows: int, repeats: int) -> None:
    """Print how long the groups of whole plans take, of which those with columns in common are counted as one."""
    plans = {
        "2nd-order HMM, 40 steps, 2 hidden, 4 states": et.zoo.hmm(40, 2, 2, 4),
        "HMM, 40 steps, 3 hidden, 4 states": et.zoo.hmm(40, 1, 3, 4),
        "mixture of 3 classes, 40 columns of 2 states": et.zoo.mixture(40, 3, 2),
        "latent tree of 64 leaves, 3 hidden, 4 states": et.zoo.latent_tree(6, 2, 3, 4),
    }
    table = []
    for name, graph in plans.items():
        columns = [graph.states[column] for column in graph.observed]
        X = np.asfortranarray(np.random.default_rng(0).integers(0, columns, (rows, len(columns)), dtype=np.uint8))
        empty = et.Statistics.empty(ViewPlan.build(graph)).counts
        # What numpy takes for one group of three columns.
        by_numpy = partial(by_horner, X, [(0, 1, 2)], columns[0])
        spent, one = best_seconds(
            {name: partial(empty.update, X), "numpy": by_numpy}, repeats, time.process_time
        ).values()
        groups = len(empty.groups)
        each = 1e9 * spent / rows / groups
        table.append([name, f"{groups:,}", f"{1e3 * spent:.1f}", f"{each:.3f}", f"{1e9 * one / rows / each:.0f}"])
    show_table(
        f"counting: the groups of whole plans, {rows:,} rows, uint8 column-major; processor time, 1 thread,"
        f" best of {repeats}",
        ["plan", "groups", "ms", "ns a row and group", "x faster than numpy, by group"],
        table,
    )


def _show_threads(rows: int, repeats: int) -> None:
    """Print how much faster two threads are, each of which encodes and counts half of the rows."""
    X = np.asfortranarray(np.random.default_rng(0).integers(0, STATES, (rows, COLUMNS), dtype=np.uint8))
    graph = et.zoo.mixture(COLUMNS, 2, STATES)
    empty = et.Counts(graph, [[graph.observed[j] for j in group] for group in random_groups(seed=1)])
    read = Rows.of(X, empty.columns)

    def counted(threads: int) -> Counts:
        return count_rows(empty, empty, read, None, len(empty.dense), threads)

    if not np.array_equal(counted(1).dense, counted(2).dense):
        raise AssertionError("one thread and two do not agree")
    one, two = best_seconds({str(n): partial(counted, n) for n in (1, 2)}, repeats).values()
    show_table(
        f"counting: the same {GROUPS} groups, {rows:,} rows, on the clock, best of {repeats}",
        ["threads", "ms", "x one"],
        [["1", f"{1e3 * one:.1f}", "1.00"], ["2", f"{1e3 * two:.1f}", f"{one / two:.2f}"]],
    )
    show_note("on the clock, so it says something only where the machine has nothing else to do")


def run(quick: bool) -> None:
    """Print the times of all ways to count, once they are known to agree."""
    rows, repeats = (20_000, 3) if quick else (1_000_000, 5)
    _show_ways(rows, repeats)
    _show_plans(rows, repeats)
    _show_threads(rows, 3 if quick else 15)


def _show_ways(rows: int, repeats: int) -> None:
    """Print the times of all ways to count."""
    random = np.random.default_rng(0)
    X = np.asfortranarray(random.integers(0, STATES, (rows, COLUMNS), dtype=np.uint8))
    row_major = np.ascontiguousarray(X)
    steady = np.asfortranarray(random.random((rows, COLUMNS)) < 0.01).view(np.uint8)
    wide = row_major.astype(np.int64)
    groups = random_groups(seed=1)
    graph = et.zoo.mixture(COLUMNS, 2, STATES)
    names = [[graph.observed[j] for j in group] for group in groups]
    empty = et.Counts(graph, names)
    expected = by_horner(X, groups)
    for tables in (
        by_ravel(row_major, groups),
        *([empty.update(Y).table(n).ravel() for n in names] for Y in (X, wide)),
    ):
        if not all(np.array_equal(a, b) for a, b in zip(tables, expected, strict=True)):
            raise AssertionError("two ways to count do not agree")
    flat = X.ravel(order="K")
    runs: dict[str, Callable[[], Any]] = {
        PLAIN: partial(np.sum, flat, dtype=np.uint64),
        XOR: partial(np.bitwise_xor.reduce, flat.view(np.uint64)),
        "eigentree, uint8 column-major": partial(empty.update, X),
        "eigentree, the same, 99 % of the cells 0": partial(empty.update, steady),
        "eigentree, uint8 row-major": partial(empty.update, row_major),
        "eigentree, int64 row-major (with encoding)": partial(empty.update, wide),
        "numpy, Horner in uint8 + bincount, column-major": partial(by_horner, X, groups),
        "numpy, ravel_multi_index + bincount, row-major": partial(by_ravel, row_major, groups),
    }
    best = best_seconds(runs, repeats, time.process_time)
    show_table(
        f"counting: {GROUPS} groups of 3-4 of {COLUMNS} columns, {STATES} states, {rows:,} rows,"
        f" {X.nbytes:,} bytes of codes;\nprocessor time, 1 thread, best of {repeats}",
        ["run", "ms", "ns a row and group", "x np.sum pass", "x xor pass", "x eigentree"],
        [
            [
                name,
                f"{1e3 * spent:.1f}",
                "" if name in (PLAIN, XOR) else f"{1e9 * spent / rows / GROUPS:.2f}",
                f"{spent / best[PLAIN]:.1f}",
                f"{spent / best[XOR]:.1f}",
                f"{spent / best['eigentree, uint8 column-major']:.2f}",
            ]
            for name, spent in best.items()
        ],
    )
    show_note(
        "the aim is at most 15 times a plain pass for uint8 column-major, checking the codes included; np.sum of"
        " bytes is far slower than memory, the xor is not; the design's figures (Horner 41x, ravel 293x) fit it"
    )
