"""One table of ratios against other packages, all in one run: counting, scoring and learning."""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import numpy as np

import eigentree as et
from benchmarks import em, scoring
from benchmarks.counting import COLUMNS, GROUPS, STATES, random_groups
from benchmarks.measure import best_seconds, show_note, show_table

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    Group = tuple[int, ...]
    Tables = list[NDArray[np.int64]]

CLOCK = time.process_time
NAMES = [f"x{j}" for j in range(COLUMNS)]


@dataclass(frozen=True)
class Line:
    """One peer at one type of work: seconds of ours and of theirs per row."""

    work: str
    peer: str
    rows: int
    ours: float
    theirs: float

    def cells(self) -> list[str]:
        """Return the line of the table."""
        return [
            self.work,
            self.peer,
            f"{self.rows:,}",
            *(f"{1e6 * spent:,.4g}" for spent in (self.ours, self.theirs)),
            f"{self.theirs / self.ours:,.3g}",
        ]


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


def counting_lines(rows: int, repeats: int) -> list[Line]:
    """Return how long counting takes beside the best way of each peer, once all agree."""
    X = np.asfortranarray(np.random.default_rng(0).integers(0, STATES, (rows, COLUMNS), dtype=np.uint8))
    groups = random_groups(seed=1)
    graph = et.zoo.mixture(COLUMNS, 2, STATES)
    names = [[graph.observed[j] for j in group] for group in groups]
    empty = et.Counts(graph, names)
    expected = [empty.update(X).table(name).ravel() for name in names]
    runs: dict[str, Callable[[], Any]] = {"eigentree": partial(empty.update, X)}
    found = {"polars": polars_ways, "duckdb": duckdb_ways}
    for peer, ways in found.items():
        if find_spec(peer):
            runs |= {f"{peer} {version(peer)}, {way}": run for way, run in ways(X, groups).items()}
    for name, run in runs.items():
        if name != "eigentree" and not all(np.array_equal(a, b) for a, b in zip(run(), expected, strict=True)):
            raise AssertionError(f"{name} does not count as eigentree does")
    best = best_seconds(runs, repeats, CLOCK)
    work = f"counting {GROUPS} groups of 3-4 of {COLUMNS} columns"
    return [
        Line(work, name, rows, best["eigentree"] / rows, spent / rows)
        for name, spent in best.items()
        if name != "eigentree"
    ]


def scoring_lines(steps: int, rows: int, repeats: int, budget: float) -> list[Line]:
    """Return how long the scores of rows take."""
    running = [scoring.affordable(one, budget / repeats) for one in scoring.contenders(steps, rows)]
    for one in running:
        if not one.difference() < scoring.TOLERANCE:
            raise AssertionError(f"{one.name} differs from eigentree")
    best = best_seconds({one.name: partial(one.score, one.X) for one in running}, repeats, CLOCK)
    each = {one.name: best[one.name] / len(one.X) for one in running}
    ours = "eigentree, int64"
    return [
        Line(f"log probability, {steps} steps", one.name, len(one.X), each[ours], each[one.name])
        for one in running
        if not one.name.startswith("eigentree")
    ]


def learning_lines(steps: int, rows: int, slow: dict[str, int], repeats: int) -> list[Line]:
    """Return how long one EM iteration takes; hmmlearn beside ours over the same pairs of states."""
    start, X = em.start_and_rows(steps, rows)
    running = em.contenders(start, X, slow, repeats)
    spent = em.measured(running)
    each = {one.name: spent[one.name].iteration / one.rows for one in running}
    own = {"(hmmlearn, over pairs)": "(eigentree, over pairs)"}
    return [
        Line(f"EM iteration, {steps} steps", one.name, one.rows, each[own.get(one.name, em.OURS)], each[one.name])
        for one in running
        if "eigentree" not in one.name
    ]


def run(quick: bool) -> None:
    """Print the table."""
    if quick:
        lines = [
            *counting_lines(20_000, 2),
            *scoring_lines(10, 2_000, 3, 0.1),
            *learning_lines(5, 500, {"hmmlearn": 200, "pyagrum": 20, "pgmpy": 10}, 2),
        ]
    else:
        lines = [
            *counting_lines(1_000_000, 3),
            *scoring_lines(40, 100_000, 5, 1.0),
            *learning_lines(40, 100_000, {"hmmlearn": 10_000, "pyagrum": 5}, 5),
            *learning_lines(10, 1_000, {"pgmpy": 8}, 5),
        ]
    show_table(
        "peers: processor time, 1 thread each, best of several in turns, per row",
        ["work", "peer", "its rows", "our us", "its us", "x ours"],
        [line.cells() for line in lines],
    )
    show_note(
        "before any clock runs, all answers are compared; slow ones get fewer rows, and ratios are by the row"
    )
    show_note(
        "counting: from memory, each in the form it likes best (column-major bytes, a frame of bytes, a table of"
        " bytes that was loaded before); handing over the counts included"
    )
    show_note(
        "scores and EM: 2nd-order HMM, 2 hidden, 4 observed states, other tables at every step; hmmlearn has one"
        " set of tables for all steps, over pairs of states, and its EM is put beside ours over the same pairs"
    )
