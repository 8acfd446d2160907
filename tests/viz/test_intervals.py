"""Intervals of parameters: drawn by matplotlib, and on pages."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd
import pytest

import eigentree as et
from eigentree.errors import ParameterError
from eigentree.uncertainty.estimates import Estimates
from eigentree.viz.interval_charts import interval_chart
from eigentree.viz.reports.state_section import INFORMATIVE

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


def test_profiles_have_the_intervals_of_probabilities_and_means() -> None:
    pytest.importorskip("matplotlib")
    random = np.random.default_rng(0)
    cells = np.repeat([0, 1], 100)
    frame = {"x": random.normal(3.0 * cells, 1.0), "q": (random.random(200) < 0.2 + 0.6 * cells).astype(int)}
    model = et.LatentClassModel(2, random_state=0, emissions={"q": "categorical"}).fit(pd.DataFrame(frame))
    found = model.estimates()
    ends = dict(zip([tuple(map(str, each)) for each in found.labels], found.confint(0.9).tolist(), strict=True))
    (profile,) = et.profiles(model).values()
    wanted = []
    for name in profile.columns:
        for given in ("h=0", "h=1"):
            pair = np.array(ends[(name, "mean" if name == "x" else "1", given)])
            wanted.append(profile.numbers[name].overall.cdf(pair) if name == "x" else pair)
    for intervals in (True, found):
        ax = et.plot.profiles(model, intervals=intervals, level=0.9)
        drawn = [(np.array(line.get_xdata()) % 1 - 0.03) / 0.94 for line in ax.lines if line.get_ydata()[0] % 1]
        np.testing.assert_allclose(drawn, wanted)
        heads = [label.get_text().split("\n")[2] for label in ax.get_xticklabels()]
        assert heads == ["{:.0%} to {:.0%}".format(*ends[("h", state, "")]) for state in "01"]
    # Without them nothing else is drawn than before.
    assert [line for line in et.plot.profiles(model).lines if line.get_ydata()[0] % 1] == []
    with pytest.raises(ParameterError, match="estimates are drawn"):
        et.plot.profiles(model, intervals=VOTES)
    other = Estimates([("age",)], np.ones(1), np.eye(1), ("covariate",))
    with pytest.raises(ParameterError, match="those of parameters"):
        et.plot.profiles(model, intervals=other)


def test_pages_with_training_data_have_intervals(model: et.LatentClassModel) -> None:
    with_them = et.report(model, VOTES[:50], training=VOTES)
    found = with_them.facts.estimates
    assert found is not None
    assert "intervals of 95" in with_them.html
    without = et.report(model, VOTES[:50])
    assert without.facts.estimates is None
    # Below each bar of a probability that has a standard error stands its interval, and nowhere else.
    ends = re.findall(r"interval of 95 %: (\d+) to (\d+)", with_them.html)
    (profile,) = with_them.facts.profiles
    shown = {name for name, nats in zip(profile.columns, profile.nats, strict=True) if nats >= INFORMATIVE} | {"h"}
    places = [place for place, (table, *_) in enumerate(found.labels) if table in shown]
    known = found.confint()[places]
    assert np.isfinite(known).all()
    assert sorted(ends) == sorted((f"{100 * low:.0f}", f"{100 * high:.0f}") for low, high in known)
    assert "interval of 95" not in without.html


def test_transitions_have_intervals_too() -> None:
    words = ["AABAB", "BBABA", "ABABB", "AAABB"] * 5
    model = et.HMM(2, n_init=1, random_state=0, pseudo_counts=0.1).fit(words)
    report = et.report(model, words, training=words)
    known = np.isfinite(report.facts.estimates.standard_errors).sum()
    assert report.html.count("interval of 95 %:") == known > 6


def test_coefficients_are_drawn() -> None:
    survey = et.datasets.load_contraceptive().data[:300, [0, 1, 2, 6]]
    model = et.LatentClassModel(2, covariates=["x0"], n_init=1, tol=1e-4, random_state=0).fit(survey)
    assert "Coefficients of covariates" in et.report(model, survey, training=survey).html


def test_criteria_and_assignment_are_those_of_the_model(model: et.LatentClassModel) -> None:
    facts = et.report(model, VOTES[:50], training=VOTES).facts
    assert facts.criteria == model.criteria(VOTES)
    assert facts.comparable
    assert facts.classification is not None
    assert np.array_equal(facts.classification.counts, et.classification_table(model, VOTES[:50]).counts)
    smoothed = et.LatentClassModel(2, pseudo_counts=1.0, n_init=1, random_state=0).fit(VOTES)
    assert not et.report(smoothed, VOTES).facts.comparable


def test_rows_that_were_learned_from_are_not_called_held_out(model: et.LatentClassModel) -> None:
    assert et.report(model, VOTES[:50], training=VOTES).facts.likelihoods.held_out
    both = et.report(model, VOTES, training=VOTES).facts
    assert both.estimates is not None
    assert not both.likelihoods.held_out
    words = ["ab", "ba", "ab"]
    chain = et.HMM(1, n_init=1, random_state=0).fit(words)
    assert not et.report(chain, words, training=words).facts.likelihoods.held_out
    assert et.report(chain, words, training=["abb", "aab"]).facts.likelihoods.held_out
