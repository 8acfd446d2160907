"""Values that nobody should give, and good ones in unusual dress: what the fuzzer samples its arguments from.

`JUNK` is for any argument. Data have two lists of their own: `DRESSES` turns a table of codes into other types of
data that mean the same, so that answers must be the same; `SPOILED` makes data that mean nothing, or not quite the
table. A new type of data is one more function in either list.
"""

from __future__ import annotations

import datetime
import decimal
import fractions
import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
from numpy.random import Generator


class Unprintable:
    """An object that fails when it is asked how it looks."""

    def __repr__(self) -> str:
        raise RuntimeError("no")


class Endless:
    """A sequence that claims to be enormous."""

    def __len__(self) -> int:
        return 2**62

    def __getitem__(self, place: int) -> int:
        return place

    def __repr__(self) -> str:
        return "Endless()"


NUMBERS: list[Callable[[], Any]] = [
    lambda: 0,
    lambda: -1,
    lambda: 1,
    lambda: True,
    lambda: False,
    lambda: np.True_,
    lambda: 2**31,
    lambda: 2**63,
    lambda: 2**64,
    lambda: 10**12,
    lambda: 10**400,
    lambda: -(10**400),
    lambda: 10**5000,
    lambda: 0.5,
    lambda: -0.0,
    lambda: 2.0,
    lambda: math.nan,
    lambda: math.inf,
    lambda: -math.inf,
    lambda: 1e300,
    lambda: 1e-320,
    lambda: np.int8(3),
    lambda: np.uint64(2**64 - 1),
    lambda: np.float32(0.25),
    lambda: np.longdouble(1) / 3,
    lambda: 1j,
    lambda: fractions.Fraction(1, 3),
    lambda: fractions.Fraction(10**400, 3),
    lambda: decimal.Decimal("0.1"),
    lambda: decimal.Decimal("sNaN"),
]

OBJECTS: list[Callable[[], Any]] = [
    lambda: None,
    lambda: "",
    lambda: "x",
    lambda: "x0",
    lambda: "auto",
    lambda: "random",
    lambda: "x" * 100_000,
    lambda: "x" + "9" * 5000,
    lambda: "\ud800",
    lambda: b"x0",
    list,
    lambda: (),
    dict,
    lambda: set(),
    lambda: ["x0", "x0"],
    lambda: ["x0", 3],
    lambda: [["x0"]],
    lambda: {"x0"},
    lambda: {"x0": 0},
    lambda: {"x0": "a"},
    lambda: {"x0": 10**400},
    lambda: {"x0": np.array([0, 1])},
    lambda: {3: 4},
    lambda: {("x0",): [0.5, 0.5]},
    lambda: [1, 2, 3],
    lambda: [[1, 2], [3]],
    lambda: [10**5000],
    lambda: range(10**12),
    lambda: itertools.count(),
    lambda: itertools.repeat("x0"),
    lambda: (name for name in ("x0", "x1")),
    lambda: np.array(3),
    lambda: np.array([]),
    lambda: np.array([0.5, 0.5]),
    lambda: np.array([1, 2]),
    lambda: np.array(["a", "b"]),
    lambda: np.array(["x0"], object),
    lambda: np.zeros((2, 3, 4)),
    lambda: np.ma.masked,
    lambda: np.ma.masked_array([1.0, 2.0], [True, False]),
    lambda: np.zeros(3, [("a", int)]),
    lambda: pd.NA,
    lambda: pd.NaT,
    lambda: pd.Series([1, 2]),
    lambda: pd.DataFrame(),
    lambda: datetime.date(2020, 1, 1),
    lambda: object(),
    lambda: object,
    lambda: len,
    lambda: lambda *_: None,
    lambda: NotImplemented,
    lambda: Ellipsis,
    Unprintable,
    Endless,
]

JUNK: list[Callable[[], Any]] = NUMBERS + OBJECTS


def junk(random: Generator) -> Any:
    """Return a value that hardly any argument should have."""
    return JUNK[random.integers(len(JUNK))]()


def codes(random: Generator, states: tuple[int, ...], rows: int) -> np.ndarray:
    """Return a table of codes, some cells missing (-1)."""
    table = np.stack([random.integers(0, count, rows) for count in states], axis=1)
    table[random.random(table.shape) < random.choice([0.0, 0.0, 0.2])] = -1
    return table


def _with_holes(table: np.ndarray, hole: Any) -> list[list[Any]]:
    return [[hole if cell < 0 else int(cell) for cell in row] for row in table]


DRESSES: list[Callable[[Generator, np.ndarray], Any]] = [
    lambda _, table: table,
    lambda _, table: table.astype(np.int8),
    lambda _, table: np.asfortranarray(table.astype(np.int16)),
    lambda _, table: np.where(table < 0, np.nan, table),
    lambda _, table: np.where(table < 0, np.nan, table).astype(np.float32),
    lambda _, table: table.astype(">i4"),
    lambda _, table: np.repeat(table, 2, axis=0)[::2],
    lambda _, table: table[:, ::-1][:, ::-1],
    lambda _, table: table.tolist(),
    lambda _, table: tuple(map(tuple, table.tolist())),
    lambda _, table: list(table),
    lambda _, table: _with_holes(table, None),
    lambda _, table: _with_holes(table, math.nan),
    lambda _, table: np.array(_with_holes(table, None), object),
    lambda _, table: np.array(_with_holes(table, pd.NA), object),
    lambda _, table: np.ma.masked_array(np.where(table < 0, 0, table), table < 0),
    lambda _, table: pd.DataFrame(table),
    lambda _, table: pd.DataFrame(np.where(table < 0, np.nan, table)),
    lambda _, table: pd.DataFrame(table).mask(table < 0).astype("Int64"),
    lambda _, table: pd.DataFrame(table).mask(table < 0).astype("Int64").astype("category"),
    lambda _, table: pd.DataFrame(_with_holes(table, None), index=np.arange(len(table))[::-1], dtype=object),
]
"""Ways to write a table of codes, -1 for a missing cell, that mean the same."""


def _with_cell(random: Generator, table: np.ndarray, cell: Any) -> Any:
    spoiled = table.astype(object)
    spoiled[tuple(random.integers(size) for size in table.shape)] = cell
    return spoiled if random.random() < 0.5 else spoiled.tolist()


SPOILED: list[Callable[[Generator, np.ndarray], Any]] = [
    lambda random, table: _with_cell(random, table, junk(random)),
    lambda random, table: _with_cell(random, table, 99),
    lambda random, table: _with_cell(random, table, 0.5),
    lambda _, table: table[0],
    lambda _, table: table[:0],
    lambda _, table: table[:, :0],
    lambda _, table: table[:, :1],
    lambda _, table: np.hstack([table, table]),
    lambda _, table: table[None],
    lambda _, table: table - 1,
    lambda _, table: table + 0.25,
    lambda _, table: table.astype(complex),
    lambda _, table: table.astype(str),
    lambda _, table: table.astype("S2"),
    lambda _, table: table.astype("m8[s]"),
    lambda _, table: table.astype(np.longdouble),
    lambda _, table: [*table.tolist(), [0]],
    lambda _, table: iter(table),
    lambda _, table: iter([table]),
    lambda _, table: iter([table[:0], table.astype(np.int8), table.tolist()]),
    lambda _, table: lambda: [table, table],
    lambda random, table: iter([table, junk(random)]),
    lambda _, table: iter([table, table[:, :1]]),
    lambda _, table: pl.LazyFrame(table, schema=[f"x{place}" for place in range(table.shape[1])]),
    lambda _, table: ["absent.csv"],
    lambda _, table: {"x0": table[:, 0]},
    # pandas itself would not find a type for integers of any size.
    lambda random, table: pd.DataFrame(_with_cell(random, table, junk(random)), dtype=object),
    lambda random, table: pd.DataFrame(table, columns=random.permutation(table.shape[1])),
    lambda _, table: pl.DataFrame(table),
    lambda _, table: pl.DataFrame(table, schema=[f"x{place}" for place in range(table.shape[1])]).cast(pl.Utf8),
    lambda _, table: pa.table({f"x{place}": pa.array([[0]] * len(table)) for place in range(table.shape[1])}),
    lambda _, table: pd.DataFrame(table).astype("datetime64[s]"),
    lambda _, table: ["".join(map(str, row)) for row in np.abs(table)],
    lambda _, table: table.astype(np.uint64),
    lambda random, _: junk(random),
]
"""Ways to spoil a table of codes."""


def weights(random: Generator, rows: int) -> Any:
    """Return weights for some rows, most of them good, some extreme, some impossible."""
    kinds: list[Callable[[], Any]] = [
        lambda: None,
        lambda: random.random(rows) + 0.1,
        lambda: random.integers(0, 3, rows),
        lambda: (random.random(rows) < 0.7).tolist(),
        lambda: np.full(rows, 1e-320),
        lambda: np.full(rows, 1e-20),
        lambda: np.full(rows, 1e300),
        lambda: np.full(rows, 2**62),
        lambda: np.full(rows, 2.0**50),
        lambda: np.zeros(rows),
        lambda: np.full(rows, -1.0),
        lambda: np.full(rows, math.nan),
        lambda: np.ma.masked_array(np.ones(rows), np.arange(rows) == 0),
        lambda: np.ones(rows + 1),
        lambda: [10**400] * rows,
        lambda: ["1"] * rows,
        lambda: np.ones((rows, 1)),
        lambda: np.append(np.ones(rows - 1), 1e-300),
        lambda: junk(random),
    ]
    return kinds[random.integers(len(kinds))]()
