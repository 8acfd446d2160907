"""`select`: figures of each size are those of fits of that size, and all are judged by the same held-out rows."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

import eigentree as et
from eigentree.errors import DataError, ParameterError

RANDOM = np.random.default_rng(1)
ROWS = (RANDOM.random((150, 5)) < np.where(RANDOM.random((150, 1)) < 0.4, 0.8, 0.2)).astype(int)
"""Of two classes."""
WORDS = ["AAAABBBB", "AAABBB", "BBBAAAA"] * 10
QUICK: dict[str, Any] = {"init": "random", "n_init": 2, "random_state": 0}


def test_figures_are_those_of_fits_of_each_size() -> None:
    chosen = et.select(ROWS, (2, 1, 2))
    assert [trial.size for trial in chosen.trials] == [1, 2]
    for trial in chosen.trials:
        model = et.LatentClassModel(trial.size, random_state=0).fit(ROWS)
        assert trial.criteria == pytest.approx(model.criteria(ROWS), nan_ok=True)
        assert math.isnan(trial.p_value)
        assert math.isnan(trial.held_out)
    assert chosen.best().n_classes == 2
    assert chosen.best("aic") is chosen.trials[1].model
    assert repr(chosen).splitlines()[0].split()[-3:] == ["R²", "smallest", "class"]
    assert [line.split()[1] for line in repr(chosen).splitlines()[1:3]] == ["class", "classes"]


def test_held_out_log_likelihood_is_that_of_fits_to_the_other_rows() -> None:
    estimator = et.LatentClassModel(pseudo_counts=0.5, **QUICK)
    chosen = et.select(ROWS, (1, 2), estimator, by="held_out", held_out=3)
    order = np.random.default_rng(0).permutation(len(ROWS))
    total = 0.0
    for part in np.split(order, 3):
        others = np.setdiff1d(np.arange(len(ROWS)), part)
        model = et.LatentClassModel(2, pseudo_counts=0.5, **QUICK).fit(ROWS[others])
        total += model.score_samples(ROWS[np.sort(part)]).sum()
    assert chosen.trials[1].held_out == pytest.approx(total / len(ROWS))
    # The criteria are those of maximum likelihood, which fits with pseudo-counts are not.
    assert math.isnan(chosen.trials[1].criteria.bic)
    assert "BIC" not in repr(chosen)
    with pytest.raises(ParameterError, match="BIC of these fits is not known; give by='bic'"):
        chosen.best("bic")
    with pytest.raises(ParameterError, match="give held_out=5 or by='held_out'"):
        et.select(ROWS, (1, 2)).best("held_out")


def test_weights_are_repeated_rows() -> None:
    unique, counts = np.unique(ROWS, axis=0, return_counts=True)
    weighted, repeated = et.select(unique, (1, 2), sample_weight=counts), et.select(ROWS, (1, 2))
    for one, other in zip(weighted.trials, repeated.trials, strict=True):
        assert one.criteria == pytest.approx(other.criteria, rel=1e-4, nan_ok=True)


def test_p_values_are_those_of_the_test_against_the_next_smaller_size() -> None:
    # Of one class, so that the test ends early.
    rows = np.random.default_rng(0).integers(0, 2, (60, 3))
    estimator = et.LatentClassModel(**QUICK)
    chosen = et.select(rows, (1, 2), estimator, blrt=True)
    fits = [trial.model for trial in chosen.trials]
    test = et.bootstrap_likelihood_ratio_test(*fits, rows, random_state=0)
    assert math.isnan(chosen.trials[0].p_value)
    assert chosen.trials[1].p_value == test.p_value
    assert ("no better than a size less" in repr(chosen)) == (test.p_value > 0.05)
    assert "BLRT p" in chosen.to_markdown()
    with pytest.raises(ParameterError, match="blrt"):
        et.select(rows, (1, 2), estimator, blrt="yes")  # type: ignore[arg-type]


def test_hidden_markov_models_and_trees_have_sizes() -> None:
    hmms = et.select(WORDS, (1, 2), et.HMM(**QUICK), held_out=2)
    assert [trial.name for trial in hmms.trials] == ["1 state", "2 states"]
    assert hmms.best().hidden_states == 2
    assert all(trial.held_out < 0 for trial in hmms.trials)
    shapes = {"mixture": et.zoo.Mixture(), "tree": et.zoo.HiddenChowLiu()}
    trees = {name: et.EMJunctionTree(shape, **QUICK) for name, shape in shapes.items()}
    chosen = et.select(ROWS, (1, 2), trees)
    assert [trial.name for trial in chosen.trials] == [
        "mixture, 1 state",
        "mixture, 2 states",
        "tree, 1 state",
        "tree, 2 states",
    ]
    # With one state each, columns are independent in both.
    assert chosen.trials[0].criteria.bic == pytest.approx(chosen.trials[2].criteria.bic)
    assert {chosen.best_trial().family} <= {"mixture", "tree"}


def test_spectral_models_are_judged_by_held_out_rows() -> None:
    spectral = et.SpectralJunctionTree(et.zoo.Mixture())
    chosen = et.select(ROWS, (1, 2), spectral, by="held_out")
    assert chosen.best() is not None
    assert math.isnan(chosen.trials[0].criteria.parameters)
    with pytest.raises(ParameterError, match="needs the number of free parameters"):
        et.select(ROWS, (1, 2), spectral)
    with pytest.raises(ParameterError, match="blrt=True needs"):
        et.select(ROWS, (1, 2), spectral, by="held_out", blrt=True)


def test_the_ends_of_what_was_tried_are_said() -> None:
    chosen = et.select(ROWS, (1, 2))
    assert "2 is the largest size tried" in repr(chosen)
    smallest = et.select(ROWS, (2, 5))
    assert ("2 is the smallest size tried" in repr(smallest)) == (smallest.best().n_classes == 2)


def test_tables_for_papers_frames_and_plots() -> None:
    pytest.importorskip("matplotlib")
    chosen = et.select(ROWS, (1, 2), held_out=2)
    frame = chosen.to_frame()
    assert frame["name"].tolist() == ["1 class", "2 classes"]
    assert_allclose(frame["bic"], [trial.criteria.bic for trial in chosen.trials])
    assert chosen.to_latex().count(r"\\") == 3
    assert chosen.to_markdown().splitlines()[2].startswith("| 1 class | ")
    assert [line.get_label() for line in chosen.plot().get_lines()] == ["BIC", "AIC", "SABIC", "CAIC", "ICL"]


def test_wrong_sizes_and_estimators_are_named() -> None:
    for wrong, said in (
        ({"sizes": ()}, "sizes are 1 to 1000 numbers, not none"),
        ({"sizes": (1, 2), "by": "brier"}, "by is"),
        ({"sizes": (1, 2), "held_out": 1.5}, "held_out is a number of parts"),
        ({"sizes": (1, 2), "held_out": 0, "by": "held_out"}, "needs rows that are held out"),
        ({"sizes": (1, 2), "estimator": {}}, "there are none"),
        ({"sizes": (1, 2), "estimator": et.EMJunctionTree(et.zoo.mixture(5, 2))}, "has no size to choose"),
    ):
        with pytest.raises(ParameterError, match=said):
            et.select(ROWS, **wrong)  # type: ignore[arg-type]
    with pytest.raises(DataError, match="cannot be held out"):
        et.select(ROWS[:3], (1, 2), held_out=5)
