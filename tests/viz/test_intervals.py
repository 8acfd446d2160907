"""Intervals of parameters: drawn by matplotlib, and on pages."""

from __future__ import annotations

import numpy as np
import pytest

import eigentree as et
from eigentree.errors import ParameterError
from eigentree.uncertainty.estimates import Estimates
from eigentree.viz.interval_charts import interval_chart

VOTES = et.datasets.load_votes().data[:, :5]


@pytest.fixture(scope="module")
def model() -> et.LatentClassModel:
    return et.LatentClassModel(2, random_state=0).fit(VOTES)


def test_lines_reach_from_end_to_end() -> None:
    labels = [("q", "yes", "h=0"), ("q", "yes", "h=1"), ("h", "0", "")]
    found = Estimates(labels, np.array([0.5, 0.2, 1.0]), np.diag([0.01, 0.04, np.nan]), ("table", "state", "given"))
    chart = interval_chart(found, 3, 0.9)
    *lines, dots = chart.marks
    assert [line.points for line in lines] == [
        ((low, float(place)), (high, float(place)))
        for place, (low, high) in enumerate(found.confint(0.9)[:2].tolist())
    ]
    assert dots.points == ((0.5, 0.0), (0.2, 1.0), (1.0, 2.0))
    assert [text for _, text in chart.y.ticks] == ["q=yes | h=0", "q=yes | h=1", "h=0"]
    assert chart.numbers is not None
    assert chart.numbers.rows[2][2:] == ("", "", "")
    short = interval_chart(found, 2)
    assert short.numbers is not None
    assert len(short.numbers.rows) == 3
    assert "2 first of 3 estimates" in short.title


def test_estimates_and_models_are_drawn(model: et.LatentClassModel) -> None:
    pytest.importorskip("matplotlib")
    found = model.estimates()
    for given, count in ((model, 6), (found, 6), (found.part(table="h"), 2)):
        assert len(et.plot.intervals(given, most=6).get_yticks()) == count
    with pytest.raises(ParameterError, match="estimates are drawn"):
        et.plot.intervals(VOTES)


def test_pages_with_training_data_have_intervals(model: et.LatentClassModel) -> None:
    with_them = et.report(model, VOTES[:50], training=VOTES)
    assert with_them.facts.intervals is not None
    assert "intervals of 95" in with_them.html
    assert et.report(model, VOTES[:50]).facts.intervals is None
