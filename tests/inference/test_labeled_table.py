"""Labelled tables: an array to numpy, states by name, and shown so that people can read them."""

from __future__ import annotations

import copy
import pickle
import sys

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import eigentree as et

CUBE = np.arange(24.0).reshape(2, 3, 4) / 24
TABLE = et.LabeledTable(CUBE, ["a", "b", "c"], [("no", "yes"), (1, 2, 3), "wxyz"])


def test_it_is_an_array_to_numpy() -> None:
    assert_array_equal(np.asarray(TABLE), CUBE)
    assert_array_equal(np.exp(TABLE), np.exp(CUBE))
    assert np.asarray(TABLE, np.float32).dtype == np.float32
    own = np.array(TABLE)
    own[:] = 0
    assert TABLE.array[1, 2, 3] == 23 / 24


def test_it_cannot_be_changed_and_copies_stay_so() -> None:
    given = CUBE.copy()
    table = et.LabeledTable(given, "abc")
    given[:] = 0
    for twin in (table, copy.deepcopy(table), pickle.loads(pickle.dumps(table))):
        assert_array_equal(twin, CUBE)
        with pytest.raises(ValueError, match="read-only"):
            twin.array[0] = 1
    with pytest.raises(AttributeError):
        table.names = ("x",)  # type: ignore[misc]


def test_states_are_picked_by_their_labels() -> None:
    for i, a in enumerate(TABLE.states[0]):
        for k, c in enumerate(TABLE.states[2]):
            part = TABLE.at({"c": c}, a=a)
            assert (part.names, part.states) == (("b",), ((1, 2, 3),))
            assert_array_equal(part, CUBE[i, :, k])
    assert float(TABLE.at(a="yes", b=3, c="z")) == 23 / 24
    assert et.LabeledTable(CUBE, "abc").at(b=2).shape == (2, 4)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda: TABLE.at(aa="no"), "the table has no axis 'aa'; did you mean 'a'"),
        (lambda: TABLE.at(b=0), "'b' has no state 0; it has 1, 2, 3"),
        (lambda: et.LabeledTable(CUBE, ["a", "b"]), r"shape \(2, 3, 4\) needs as many different names"),
        (lambda: et.LabeledTable(CUBE, "aab"), "names names 'a' twice"),
        (lambda: et.LabeledTable([0.5, 0.5], "a", [(0, 0)]), "different labels of states along each axis"),
        (lambda: et.LabeledTable(0.5, ()).to_pandas(), "a single number makes no frame"),
    ],
)
def test_errors_are_named(wrong: object, message: str) -> None:
    with pytest.raises(et.DataError, match=message):
        wrong()  # type: ignore[operator]


def test_pandas_finds_every_cell_by_its_labels() -> None:
    frame = TABLE.to_pandas()
    assert list(frame.index.names) == ["a", "b"]
    assert frame.columns.name == "c"
    assert frame.loc[("yes", 2), "x"] == CUBE[1, 1, 1]
    series = TABLE.at(a="no", c="w").to_pandas()
    assert series[3] == CUBE[0, 2, 0]
    assert TABLE.at(a="no").to_pandas().loc[1, "y"] == CUBE[0, 0, 2]


def test_without_pandas_the_error_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(et.EigentreeError, match="to_pandas needs pandas: pip install pandas"):
        TABLE.to_pandas()


def test_what_is_shown_is_aligned_rounded_and_short() -> None:
    lines = repr(TABLE).split("\n")
    assert lines[0].split() == ["a", "b", "c=w", "c=x", "c=y", "c=z"]
    assert lines[6].split() == ["yes", "3", *(f"{value:.4f}" for value in CUBE[1, 2])]
    large = repr(et.LabeledTable(np.random.default_rng(0).random((40, 50, 60)), "abc")).split("\n")
    assert len(large) <= 22
    assert max(map(len, large)) <= 116
    assert large[-1].split()[:2] == ["39", "49"]
    for shown in (lines, large):
        assert len(set(map(len, shown))) == 1
    assert repr(et.LabeledTable([1234.56, 1.0], "n")).split() == ["n=0", "n=1", "1234.6", "1.0"]
    assert repr(et.LabeledTable([0.003018, -1e-4], "n")).split() == ["n=0", "n=1", "3.018e-03", "-1.000e-04"]
    assert repr(et.LabeledTable(0.25, ())).split() == ["0.2500"]


def test_html_escapes_labels() -> None:
    shown = et.LabeledTable([[0.25, 0.75]], ["<h>", "x"], [("a&b",), (0, 1)])._repr_html_()
    assert "<th>&lt;h&gt;</th><th>x=0</th><th>x=1</th>" in shown
    assert "<th>a&amp;b</th><td>0.2500</td><td>0.7500</td>" in shown
    assert et.LabeledTable([0.25, 0.75], "x")._repr_html_().count("<td>") == 2
