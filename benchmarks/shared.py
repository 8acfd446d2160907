"""Real data, which lie beside the repository in ``../shared/data`` and belong to no checkout."""

from __future__ import annotations

import csv
import gzip
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pandas

from benchmarks.measure import ROOT, show_note

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Codes = NDArray[np.int8]

FOLDER = ROOT.parent / "shared" / "data"
SPLIT_SEED = 0
TRAINING_SHARE = 0.75
"""Of the rows of data that come without a split."""


@dataclass(frozen=True, eq=False)
class Table:
    """Rows of codes, -1 for a missing cell, and how many states each column has, in these rows or in others."""

    codes: Codes
    states: tuple[int, ...]

    @property
    def configurations(self) -> int:
        """How many different rows there can be."""
        return math.prod(self.states)

    def all_rows(self) -> Codes:
        """Return every possible row once."""
        return np.indices(self.states, np.int8).reshape(len(self.states), -1).T


@dataclass(frozen=True, eq=False)
class Split:
    """Rows to learn from and rows to be judged by."""

    train: Table
    test: Table


@dataclass(frozen=True, eq=False)
class Crowd:
    """Labels that workers gave to items, one row an item, one column a worker, and the true ones; all 0 or 1."""

    votes: Table
    truth: Codes


def is_absent(topic: str, names: Sequence[str]) -> bool:
    """Return whether any of these files is absent, and say so where it is: nothing is measured then."""
    absent = [name for name in names if not (FOLDER / name).exists()]
    if absent:
        print(f"\n{topic}: NOT MEASURED, for want of real data")
        show_note(f"../shared/data beside the repository lacks {', '.join(absent)}")
    return bool(absent)


def split_files(name: str) -> list[str]:
    """Return the files of a data set that comes split."""
    return [f"{name}.{part}.data.gz" for part in ("train", "test")]


def binary_split(name: str, most: int | None = None) -> Split:
    """Return a binary data set that comes split; its first training rows only, where the most of them is given."""
    parts = [binary_part(name, part, most) for part in ("train", "test")]
    states = (2,) * parts[0].shape[1]
    return Split(*(Table(part, states) for part in parts))


def binary_part(name: str, part: str, most: int | None = None) -> Codes:
    """Return the rows of a binary data set "train", "valid" or "test"; the first only, where the most are given."""
    with gzip.open(FOLDER / f"{name}.{part}.data.gz", "rt") as lines:
        return np.loadtxt(lines, delimiter=",", dtype=np.int8, max_rows=most)


def labelled(name: str) -> Table:
    """Return a table of labels with its header, or of letters without one (``.data``), in the labels' order."""
    with (FOLDER / name).open(newline="") as file:
        lines = [line for line in csv.reader(file) if line]
    return coded(lines[1:] if name.endswith(".csv") else lines)


def coded(lines: Sequence[Sequence[str]]) -> Table:
    """Return labels as codes, column by column; an empty one and "?" are missing."""
    columns, states = [], []
    for column in zip(*lines, strict=True):
        labels = sorted(set(column) - {"", "?"})
        code = {label: number for number, label in enumerate(labels)}
        columns.append([code.get(cell, -1) for cell in column])
        states.append(len(labels))
    return Table(np.array(columns, np.int8).T, tuple(states))


def seeded_split(table: Table) -> Split:
    """Return the same part of the rows to learn from every time, and the others."""
    order = np.random.default_rng(SPLIT_SEED).permutation(len(table.codes))
    train, test = np.split(table.codes[order], [round(TRAINING_SHARE * len(order))])
    return Split(Table(train, table.states), Table(test, table.states))


def folds(table: Table, count: int) -> list[Split]:
    """Return a table cut into parts, each once held out; the same every time."""
    part = np.random.default_rng(SPLIT_SEED).permutation(len(table.codes)) % count
    return [
        Split(Table(table.codes[part != out], table.states), Table(table.codes[part == out], table.states))
        for out in range(count)
    ]


SEQUENCE_FILES = ("mvad.csv", "biofam-child.csv", "biofam-left.csv", "biofam-married.csv")


def careers() -> pandas.DataFrame:
    """Return the months of school leavers (mvad), a row for each person."""
    return pandas.read_csv(FOLDER / SEQUENCE_FILES[0]).iloc[:, 2:]


def families() -> dict[str, pandas.DataFrame]:
    """Return the three channels of family life (biofam), a row for each person."""
    return {
        file.removeprefix("biofam-").removesuffix(".csv"): pandas.read_csv(FOLDER / file).iloc[:, 1:]
        for file in SEQUENCE_FILES[1:]
    }


def crowd_files(name: str) -> list[str]:
    """Return the files of a set of crowd labels."""
    return [f"crowd/{name}_{part}.txt" for part in ("crowd", "truth")]


def crowd(name: str) -> Crowd:
    """Return a set of crowd labels; most cells are missing."""
    labels, truth = (np.loadtxt(FOLDER / file, dtype=np.int64) for file in crowd_files(name))
    items, row = np.unique(labels[:, 0], return_inverse=True)
    workers, column = np.unique(labels[:, 1], return_inverse=True)
    votes = np.full((len(items), len(workers)), -1, np.int8)
    votes[row, column] = labels[:, 2] - 1
    label_of = dict(truth.tolist())
    known = np.array([label_of[item] - 1 for item in items.tolist()], np.int8)
    return Crowd(Table(votes, (2,) * len(workers)), known)
