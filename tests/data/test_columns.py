"""Columns: what a model knows of its data, learned from tables of every type."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from numpy.testing import assert_array_equal

import eigentree as et
from eigentree.data.tables.columns import Columns
from eigentree.data.tables.rows import Rows

ROWS = [[0, 2, 1], [1, 0, 0], [0, 1, 1], [1, 2, 0]]
NAMED = {"left": [0, 1, 0, 1], "right": [2, 0, 1, 2], "both": [1, 0, 1, 0]}


@pytest.mark.parametrize("library", [pd.DataFrame, pl.DataFrame, pa.table])
def test_frames_keep_their_names(library: Callable[[object], object]) -> None:
    table = library(NAMED)
    assert Columns.learned(table) == Columns(("left", "right", "both"), (2, 3, 2))
    model = et.SpectralJunctionTree(et.zoo.Mixture(hidden_states=2), max_rank=1, shrinkage=1.0).fit(table)
    assert model.graph_.observed == ("left", "right", "both")
    plain = et.SpectralJunctionTree(et.zoo.Mixture(hidden_states=2), max_rank=1, shrinkage=1.0).fit(ROWS)
    assert_array_equal(model.score_samples(table), plain.score_samples(ROWS))


@pytest.mark.parametrize("table", [ROWS, np.array(ROWS), pd.DataFrame(ROWS)], ids=["list", "array", "frame"])
def test_columns_without_names_are_numbered(table: object) -> None:
    assert Columns.learned(table) == Columns(("x0", "x1", "x2"), (2, 3, 2))


def test_evidence_is_one_row_with_all_else_missing() -> None:
    columns = Columns(("a", "b", "c"), (2, 300, 4))
    evidence = columns.evidence({"b": 299, "c": 1.0})
    assert evidence.tolist() == [[2, 299, 1]]
    assert evidence.dtype == columns.code_type == np.uint16
    assert columns.missing(2).tolist() == [[2, 300, 4]] * 2
    assert columns.missing(2).flags.f_contiguous
    assert_array_equal(Rows.of([[-1, 299, 1]], columns).encode(), evidence)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"d": 0}, "there is no column 'd'"),
        ({"a": 2}, "'a' is given as 2, but has the codes 0 to 1"),
        ({"a": -1}, "'a' is given as -1"),
        ({"a": 0.5}, r"'a' is given as 0\.5"),
        ({"a": "0"}, "'a' is given as '0'"),
        ([("a", 0)], r"given is a mapping of names to states, such as \{'a': 0\}"),
    ],
)
def test_evidence_that_does_not_fit_is_named(given: object, message: str) -> None:
    with pytest.raises(et.DataError, match=message):
        Columns(("a", "b", "c"), (2, 300, 4)).evidence(given)


def test_states_that_cannot_be_known_are_named() -> None:
    with pytest.raises(et.DataError, match="column 'x1' has no known cell"):
        Columns.learned([[0, -1], [1, -1]])
    with pytest.raises(et.DataError, match="column 'x0' holds inf"):
        Columns.learned([[np.inf, 0.0], [1.0, 1.0]])
    with pytest.raises(et.DataError, match=r"need the shape \(rows, columns\), not \(2,\)"):
        Columns.learned([0, 1])
    with pytest.raises(et.DataError, match="different lengths"):
        Columns.learned([[0, 1], [0]])


def test_a_column_is_found_without_a_look_at_the_others() -> None:
    """Chains of 10,000 steps ask for each of their columns many times."""

    class Watched(str):
        compared = 0

        def __eq__(self, other: object) -> bool:
            Watched.compared += 1
            return str.__eq__(self, other)

        __hash__ = str.__hash__

    columns = Columns(tuple(Watched(f"x{j}") for j in range(1_000)), (2,) * 1_000)
    assert columns.position("x0") == 0
    Watched.compared = 0
    assert columns.position("x999") == 999
    assert Watched.compared < 20


class Refusing:
    """Something that says that it is an array, and is none."""

    def __init__(self, error: Exception) -> None:
        self.error = error

    def __len__(self) -> int:
        return 6

    def __array__(self, *_: Any, **__: Any) -> Any:
        raise self.error


@pytest.mark.parametrize("error", [ValueError("no"), RuntimeError("no"), MemoryError("no"), KeyError("no")])
def test_what_an_object_raises_when_it_is_read_is_an_error_of_ours(error: Exception) -> None:
    given, rows = Refusing(error), np.arange(18).reshape(6, 3) % 2
    model = et.SpectralJunctionTree(et.zoo.Mixture(2))
    for call in (
        lambda: et.LabeledTensor(given, ["a"]),
        lambda: et.LatentNetwork.random(et.zoo.hmm(3, 1, 2, 4), seed=0).log_prob(given),
        lambda: model.fit(rows, sample_weight=given),
        lambda: et.JunctionTreeClassifier(model).fit(rows, given),
    ):
        with pytest.raises(et.EigentreeError):
            call()


def test_labels_that_cannot_be_compared_are_no_classes() -> None:
    class Label:
        def __ne__(self, other: object) -> bool:
            raise ValueError("no")

        __lt__ = __ne__

    arrays = np.empty(6, object)
    arrays[:] = [np.arange(2)] * 6
    rows = np.arange(18).reshape(6, 3) % 2
    for labels in ([Label() for _ in range(6)], arrays, [{1: 2}] * 6):
        for class_as in ("models", "column"):
            model = et.JunctionTreeClassifier(et.SpectralJunctionTree(et.zoo.Mixture(2)), class_as=class_as)
            with pytest.raises(et.DataError, match="y mixes labels that have no common order"):
                model.fit(rows, labels)
