"""Fits whose figures other programs have printed, on data that are small enough to stand here.

`speed.csv`: a response-time experiment, 439 trials of one person (Dutilh et al. 2011; depmixS4's example): response
time in milliseconds, and the pay-off for accuracy in parts of 22. `cheating.csv`: 319 students, four questions and
the grade point average (Dayton 1998; poLCA's example), as counts.
"""

from __future__ import annotations

from itertools import product
from pathlib import Path

import numpy as np
import pytest

import eigentree as et

HERE = Path(__file__).parent
CARCINOMA = {
    "0000000": 34,
    "0000100": 2,
    "0100000": 6,
    "0100001": 1,
    "0100100": 4,
    "0100101": 5,
    "1000000": 2,
    "1010101": 1,
    "1100000": 2,
    "1100001": 1,
    "1100100": 2,
    "1100101": 7,
    "1100111": 1,
    "1101001": 1,
    "1101101": 2,
    "1101111": 3,
    "1110101": 13,
    "1110111": 5,
    "1111101": 10,
    "1111111": 16,
}
"""Slides by what seven pathologists saw in them, 1 for carcinoma."""

MAXIMUM_LIKELIHOOD = {"family": "gaussian", "prior_rows": 0}


def test_depmix_speed() -> None:
    """depmixS4 prints -88.73058 with 7 free parameters for two states of log response times."""
    milliseconds, _ = np.loadtxt(HERE / "speed.csv", delimiter=",", skiprows=1).T
    times = np.log(milliseconds)[:, None]
    model = et.HMM(2, emissions={"x0": MAXIMUM_LIKELIHOOD}, pseudo_counts=0, tol=1e-12, random_state=0)
    model.fit(times, lengths=[439])
    assert model.n_parameters_ == 7
    assert model.score_samples(times, lengths=[439]).sum() == pytest.approx(-88.73058, abs=1e-4)


def test_depmix_speed_with_the_pay_off_on_transitions() -> None:
    """depmixS4 prints -44.19986 and these coefficients; its transitions depend on the step that they leave."""
    milliseconds, pay_off = np.loadtxt(HERE / "speed.csv", delimiter=",", skiprows=1).T
    times = np.log(milliseconds)[:, None]
    scaled = (pay_off - pay_off.mean()) / pay_off.std(ddof=1)
    before = np.concatenate([scaled[:1], scaled[:-1]])
    settings = {"pseudo_counts": 0, "tol": 1e-9, "init": "clusters", "n_init": 1, "random_state": 0}
    model = et.HMM(2, emissions={"x0": MAXIMUM_LIKELIHOOD}, inputs_affect="transitions", **settings)
    model.fit(times, lengths=[439], inputs=before)
    assert model.n_parameters_ == 9
    assert model.score_samples(times, lengths=[439], inputs=before).sum() >= -44.2
    # From the state of fast answers first; signs are of the other state, relative to it.
    found = np.asarray(model.coefficients_["transitions"])[:, :, 1]
    np.testing.assert_allclose(found[1], [0.9518, -1.3924], atol=2e-3)
    np.testing.assert_allclose(found[0], [-2.4719, -3.5811], atol=5e-3)


def test_polca_cheating_without_covariates() -> None:
    """poLCA prints -440.0271 with 9 free parameters for two classes."""
    pandas = pytest.importorskip("pandas")
    table = pandas.read_csv(HERE / "cheating.csv")
    items, counts = table.iloc[:, :4], table["count"].to_numpy()
    model = et.LatentClassModel(2, random_state=0).fit(items, sample_weight=counts)
    assert model.n_parameters_ == 9
    assert counts @ model.score_samples(items) == pytest.approx(-440.0271, abs=2e-3)
    criteria, fit = model.criteria(items, sample_weight=counts), et.goodness_of_fit(model, items, counts)
    assert [criteria.aic, criteria.bic] == pytest.approx([898.0542, 931.9409], abs=1e-3)
    assert [fit.g2.value, fit.x2.value, fit.df] == pytest.approx([7.764242, 8.323458, 6], abs=1e-3)


@pytest.mark.parametrize(
    ("classes", "printed"),
    [
        (2, (-317.2568, 664.5137, 706.0739, 62.36543, 92.64814)),
        (3, (-293.705, 633.41, 697.1357, 15.26171, 20.50335)),
        (4, (-289.2858, 640.5717, 726.4629, 6.423, 10.086)),
    ],
)
def test_polca_carcinoma(classes: int, printed: tuple[float, ...]) -> None:
    """Log-likelihood, AIC, BIC, G² and X² that poLCA prints for seven pathologists (Agresti 2002, table 13.1)."""
    rows = np.array([[int(cell) for cell in pattern] for pattern in CARCINOMA])
    counts = np.array(list(CARCINOMA.values()))
    model = et.LatentClassModel(classes, n_init=10, random_state=0).fit(rows, sample_weight=counts)
    criteria, fit = model.criteria(rows, sample_weight=counts), et.goodness_of_fit(model, rows, counts)
    found = [criteria.log_likelihood, criteria.aic, criteria.bic, fit.g2.value, fit.x2.value]
    assert found == pytest.approx(printed, abs=2e-3)
    # poLCA's degrees of freedom are those of 118 rows, fewer than cells.
    assert fit.df == 127 - model.n_parameters_


def test_polca_cheating_with_a_covariate() -> None:
    """poLCA prints -429.6384 with 10 free parameters for two classes that depend on the grade point average."""
    pandas = pytest.importorskip("pandas")
    table = pandas.read_csv(HERE / "cheating.csv").dropna()
    rows, counts = table.drop(columns="count"), table["count"].to_numpy()
    model = et.LatentClassModel(2, covariates=["GPA"], random_state=0).fit(rows, sample_weight=counts)
    assert model.n_parameters_ == 10
    assert counts @ model.score_samples(rows) == pytest.approx(-429.6384, abs=2e-4)


def test_stata_standard_errors_of_latent_classes() -> None:
    """Stata's manual (SEM, example 50g) on role conflicts (Stouffer and Toby 1951): 216 students, 4 items."""
    counts = [42, 23, 6, 25, 6, 24, 7, 38, 1, 4, 1, 6, 2, 9, 2, 20]
    rows = np.array(list(product([0, 1], repeat=4)))
    model = et.LatentClassModel(2, tol=1e-13, pseudo_counts=0, random_state=0).fit(rows, sample_weight=counts)
    assert counts @ model.score_samples(rows) == pytest.approx(-504.46767, abs=1e-5)
    found = model.estimates()
    sizes = np.column_stack([found.values, found.standard_errors, found.confint()])[:3]
    expected = [
        [0.7207539, 0.0580926, 0.5944743, 0.8196407],
        [0.2792461, 0.0580926, 0.1803593, 0.4055257],
        [0.7135879, 0.0403588, 0.6285126, 0.7858194],
    ]
    np.testing.assert_allclose(sizes, expected, atol=2e-7)
