"""Joint counts of groups of columns, as a multiple of one plain pass over the same bytes, and beside databases."""

from __future__ import annotations

import time
from functools import partial
from importlib.metadata import version
from importlib.util import find_spec
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

    Group = tuple[int, ...]
    Tables = list[NDArray[np.int64]]

COLUMNS = 60
STATES = 4
GROUPS = 60
NAMES = [f"x{j}" for j in range(COLUMNS)]
PLAIN = "one pass: np.sum of the bytes, uint8 to uint64"
XOR = "one pass: xor of the bytes, 8 at a time"
OURS = "eigentree, uint8 column-major"


def random_groups(seed: int) -> list[Group]:
    """Return groups of 3 and of 4 columns in turn, none of which lies within another."""
    random = np.random.default_rng(seed)
    found: list[Group] = []
    while len(found) < GROUPS:
        group = tuple(sorted(int(j) for j in random.choice(COLUMNS, 3 + len(found) % 2, replace=False)))
        if not any(set(group) <= set(other) or set(other) <= set(group) for other in found):
            found.append(group)
    return found


def by_ravel(X: NDArray[np.uint8], groups: Sequence[Group]) -> Tables:
    """Return the counts by ravel_multi_index and bincount."""
    tables = []
    for group in groups:
        joint = np.ravel_multi_index(tuple(X[:, j] for j in group), (STATES,) * len(group))
        tables.append(np.bincount(joint, minlength=STATES ** len(group)))
    return tables


def by_horner(X: NDArray[np.uint8], groups: Sequence[Group], states: int = STATES) -> Tables:
    """Return the counts by joint codes that stay in uint8, and bincount."""
    tables = []
    for group in groups:
        joint = X[:, group[0]].copy()
        for j in group[1:]:
            joint *= np.uint8(states)
            joint += X[:, j]
        tables.append(np.bincount(joint, minlength=states ** len(group)))
    return tables


def packed(group: Group, column: Callable[[str], Any]) -> Any:
    """Return the joint code of a group as an expression over its columns."""
    code = column(NAMES[group[0]])
    for j in group[1:]:
        code = code * STATES + column(NAMES[j])
    return code


def polars_ways(X: NDArray[np.uint8], groups: Sequence[Group]) -> dict[str, Callable[[], Tables]]:
    """Return ways to count all groups of a frame in polars, all of them in one go."""
    import polars

    frame = polars.from_numpy(X, NAMES).lazy()

    def by_columns() -> Tables:
        wanted = [frame.group_by([NAMES[j] for j in group]).len() for group in groups]
        return [
            _table(found.to_numpy(), group) for found, group in zip(polars.collect_all(wanted), groups, strict=True)
        ]

    def by_codes() -> Tables:
        # A code of a small unsigned type is the fastest key; four states to the fourth fit in a byte.
        codes = [packed(group, polars.col).cast(polars.UInt8).alias("code") for group in groups]
        wanted = [frame.select(code).group_by("code").len() for code in codes]
        return [
            _spread(found["code"].to_numpy(), found["len"].to_numpy(), group)
            for found, group in zip(polars.collect_all(wanted), groups, strict=True)
        ]

    return {"group_by of the columns": by_columns, "group_by of a packed byte": by_codes}


def duckdb_ways(X: NDArray[np.uint8], groups: Sequence[Group]) -> dict[str, Callable[[], Tables]]:
    """Return ways to count all groups of a table in duckdb."""
    import duckdb

    database = duckdb.connect()
    database.execute("SET threads = 1")
    columns = dict(zip(NAMES, np.ascontiguousarray(X.T), strict=True))
    database.register("arrays", columns)
    database.execute("CREATE TABLE data AS SELECT * FROM arrays")

    def by_columns() -> Tables:
        found = []
        for group in groups:
            listed = ", ".join(NAMES[j] for j in group)
            answer = database.execute(f"SELECT {listed}, count(*) AS n FROM data GROUP BY {listed}").fetchnumpy()
            found.append(_table(np.stack([np.asarray(part) for part in answer.values()], axis=1), group))
        return found

    def by_codes() -> Tables:
        found = []
        for group in groups:
            # A key of one byte, which duckdb aggregates without hashing.
            code = " + ".join(f"{NAMES[j]} * {STATES ** (len(group) - 1 - k)}" for k, j in enumerate(group))
            answer = database.execute(
                f"SELECT ({code})::UTINYINT AS code, count(*) AS n FROM data GROUP BY 1"
            ).fetchnumpy()
            found.append(_spread(np.asarray(answer["code"]), np.asarray(answer["n"]), group))
        return found

    def at_once() -> Tables:
        sets = ", ".join(f"({', '.join(NAMES[j] for j in group)})" for group in groups)
        used = sorted({j for group in groups for j in group})
        listed = ", ".join(NAMES[j] for j in used)
        answer = database.execute(
            f"SELECT {listed}, count(*) AS n FROM data GROUP BY GROUPING SETS ({sets})"
        ).fetchnumpy()
        cells = {j: answer[NAMES[j]] for j in used}
        absent = {j: np.ma.getmaskarray(cells[j]) for j in used}
        found = []
        for group in groups:
            kept = np.ones(len(answer["n"]), bool)
            for j in used:
                kept &= ~absent[j] if j in group else absent[j]
            table = np.stack([*(np.ma.getdata(cells[j])[kept] for j in group), answer["n"][kept]], axis=1)
            found.append(_table(table, group))
        return found

    return {"GROUP BY the columns": by_columns, "GROUP BY a packed byte": by_codes, "GROUPING SETS": at_once}


def _table(lines: NDArray[Any], group: Group) -> NDArray[np.int64]:
    """Return a full table from lines of codes and a count."""
    cells = lines[:, :-1].astype(np.int64)
    codes = np.ravel_multi_index(tuple(cells.T), (STATES,) * len(group))
    return _spread(codes, lines[:, -1], group)


def _spread(codes: NDArray[Any], counts: NDArray[Any], group: Group) -> NDArray[np.int64]:
    table = np.zeros(STATES ** len(group), np.int64)
    table[codes.astype(np.int64)] = counts
    return table


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
        return count_rows(empty.count, read, None, len(empty.dense), threads)

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
    wide = row_major.astype(np.int64)
    steady = np.asfortranarray(random.random((rows, COLUMNS)) < 0.01).view(np.uint8)
    flat = X.ravel(order="K")
    groups = random_groups(seed=1)
    graph = et.zoo.mixture(COLUMNS, 2, STATES)
    names = [[graph.observed[j] for j in group] for group in groups]
    empty = et.Counts(graph, names)

    def counted(Y: NDArray[Any]) -> Tables:
        counts = empty.update(Y)
        return [counts.table(name).ravel() for name in names]

    ways: dict[str, Callable[[], Tables]] = {
        "numpy, Horner in uint8 + bincount, column-major": partial(by_horner, X, groups),
        "numpy, ravel_multi_index + bincount, row-major": partial(by_ravel, row_major, groups),
    }
    for peer, found in {"polars": polars_ways, "duckdb": duckdb_ways}.items():
        if find_spec(peer):
            ways |= {f"{peer} {version(peer)}, {way}": count for way, count in found(X, groups).items()}
    expected = counted(X)
    for tables in (counted(wide), *(count() for count in ways.values())):
        if not all(np.array_equal(a, b) for a, b in zip(tables, expected, strict=True)):
            raise AssertionError("two ways to count do not agree")
    runs: dict[str, Callable[[], Any]] = {
        PLAIN: partial(np.sum, flat, dtype=np.uint64),
        XOR: partial(np.bitwise_xor.reduce, flat.view(np.uint64)),
        OURS: partial(empty.update, X),
        "eigentree, the same, 99 % of the cells 0": partial(empty.update, steady),
        "eigentree, uint8 row-major": partial(empty.update, row_major),
        "eigentree, int64 row-major (with encoding)": partial(empty.update, wide),
        **ways,
    }
    best = best_seconds(runs, repeats, time.process_time)
    show_table(
        f"counting: {GROUPS} groups of 3-4 of {COLUMNS} columns, {STATES} states, {rows:,} rows, {X.nbytes:,} bytes"
        f" of codes;\nprocessor time, 1 thread, best of {repeats}",
        ["run", "ms", "ns a row and group", "x np.sum pass", "x xor pass", "x eigentree"],
        [
            [
                name,
                f"{1e3 * spent:.1f}",
                "" if name in (PLAIN, XOR) else f"{1e9 * spent / rows / GROUPS:.2f}",
                f"{spent / best[PLAIN]:.1f}",
                f"{spent / best[XOR]:.1f}",
                f"{spent / best[OURS]:.2f}",
            ]
            for name, spent in best.items()
        ],
    )
    show_note(
        "the aim is at most 15 times a plain pass for uint8 column-major, checking the codes included; np.sum of"
        " bytes is far slower than memory, the xor is not"
    )
    show_note(
        "polars and duckdb count from memory, each in the form it likes best (a frame of bytes, a table of bytes"
        " that was loaded before); handing over the counts included"
    )
