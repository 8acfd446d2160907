"""Estimates: intervals on their scales, Wald tests, tables."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.stats import chi2, norm, t

from eigentree.errors import ParameterError, UnknownNameError
from eigentree.uncertainty.estimates import Estimates
from eigentree.uncertainty.external.wald_tests import combined


def made(**more: object) -> Estimates:
    covariance = np.array([[0.04, 0.01, 0.0], [0.01, 0.09, 0.0], [0.0, 0.0, 0.0004]])
    labels = [("q1", "a"), ("q1", "b"), ("q2", "a")]
    return Estimates(labels, np.array([0.5, 1.2, 0.02]), covariance, ("variable", "state"), **more)  # type: ignore[arg-type]


def test_intervals_are_normal_on_their_scale() -> None:
    found = made(scales=("identity", "log", "logit")).confint(0.9)
    z = norm.ppf(0.95)
    assert_allclose(found[0], [0.5 - z * 0.2, 0.5 + z * 0.2])
    assert_allclose(np.log(found[1]), np.log(1.2) + np.array([-1, 1]) * z * 0.3 / 1.2)
    half = z * 0.02 / (0.02 * 0.98)
    assert_allclose(np.log(found[2] / (1 - found[2])), np.log(0.02 / 0.98) + np.array([-half, half]))
    assert ((found[2] > 0) & (found[2] < 1)).all()


def test_intervals_with_degrees_of_freedom_are_those_of_t() -> None:
    found = made(df=np.array([3.0, 10.0, np.inf])).confint()
    assert_allclose(found[:, 1] - [0.5, 1.2, 0.02], t.ppf(0.975, [3, 10, np.inf]) * [0.2, 0.3, 0.02])


def test_wald_test_of_one_is_its_square_and_of_several_uses_their_covariance() -> None:
    test = made().wald([1])
    assert_allclose([test.statistic, test.p_value], [16.0, chi2.sf(16.0, 1)])
    both = made().wald([0, 1])
    values = np.array([0.5, 1.2])
    assert both.df == 2
    assert_allclose(both.statistic, values @ np.linalg.inv(np.array([[0.04, 0.01], [0.01, 0.09]])) @ values)


def test_what_has_no_standard_error_has_no_wald_test() -> None:
    found = made()
    found.covariance[2] = found.covariance[:, 2] = np.nan
    with pytest.raises(ParameterError, match=r"\('q2', 'a'\) has no standard error"):
        found.wald()
    assert found.wald([0, 1]) == made().wald([0, 1])
    with pytest.raises(ParameterError, match="places from 0 to 2"):
        found.wald([3])


def test_a_difference_to_what_has_no_standard_error_has_none() -> None:
    found = made()
    found.covariance[2] = found.covariance[:, 2] = np.nan
    weights = np.array([[-1.0, 1.0, 0.0], [1.0, 0.0, -1.0]])
    assert_allclose(combined(found, weights, [(0,), (1,)], ["difference"]).standard_errors, [np.sqrt(0.11), np.nan])


def test_a_part_keeps_its_covariance() -> None:
    part = made().part(variable="q1")
    assert [labels[1] for labels in part.labels] == ["a", "b"]
    assert_allclose(part.vcov(), [[0.04, 0.01], [0.01, 0.09]])
    with pytest.raises(UnknownNameError, match="variable"):
        made().part(varible="q1")
    with pytest.raises(UnknownNameError, match=r"there are no estimates with .*; there are 'q2', 'q1'"):
        made().part(variable="coefficients")


def test_tables_for_a_paper_have_every_estimate() -> None:
    frame = made().to_frame()
    assert frame.columns.tolist() == ["variable", "state", "estimate", "std_error", "lower", "upper"]
    assert made().to_markdown(2).splitlines()[2] == "| q1 | a | 0.50 | 0.20 | [0.11, 0.89] |"
    assert made().to_latex(2).count(r"\\") == 4
    assert r"95 \% interval" in made().to_latex()


def test_what_has_no_standard_error_has_no_interval() -> None:
    covariance = np.full((1, 1), np.nan)
    lonely = Estimates([("x",)], np.array([0.0]), covariance, ("variable",), notes=("x is on the boundary",))
    assert np.isnan(lonely.confint()).all()
    assert "nan" not in repr(lonely)
    assert repr(lonely).endswith("x is on the boundary")


@pytest.mark.parametrize("level", [0, 1, 95])
def test_a_level_is_a_share(level: float) -> None:
    with pytest.raises(ParameterError, match="level"):
        made().confint(level)
