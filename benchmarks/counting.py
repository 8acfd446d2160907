"""Joint counts of groups of columns, as a multiple of one plain pass over the same bytes."""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

import eigentree as et
from benchmarks.measure import best_seconds, show_note, show_table

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

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


def by_horner(X: NDArray[np.uint8], groups: Sequence[tuple[int, ...]]) -> list[NDArray[np.int64]]:
    """Return the counts by joint codes that stay in uint8, and bincount."""
    tables = []
    for group in groups:
        joint = X[:, group[0]].copy()
        for j in group[1:]:
            joint *= np.uint8(STATES)
            joint += X[:, j]
        tables.append(np.bincount(joint, minlength=STATES ** len(group)))
    return tables


def run(quick: bool) -> None:
    """Print the times of all ways to count, once they are known to agree."""
    rows, repeats = (20_000, 3) if quick else (1_000_000, 5)
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
