"""Class membership that depends on covariates: the one-step model of `LatentClassModel(covariates=[...])`."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import eigentree as et
from eigentree.emissions.covariates.membership import Membership
from eigentree.errors import DataError, ParameterError
from eigentree.uncertainty.refits import FittedModel

ITEMS = ["q0", "q1", "q2", "q3"]


def survey(rows: int = 400, seed: int = 0) -> pd.DataFrame:
    """Answers of two classes that depend on age (a number) and region (a label)."""
    random = np.random.default_rng(seed)
    age, region = random.normal(40, 10, rows).round(1), random.choice(["east", "north", "west"], rows)
    logit = 0.08 * (age - 40) + np.where(region == "west", 1.0, 0.0)
    classes = random.random(rows) < 1 / (1 + np.exp(-logit))
    answers = random.random((rows, 4)) < np.where(classes, 0.85, 0.2)[:, None]
    table = pd.DataFrame(np.where(answers, "yes", "no"), columns=ITEMS)
    return table.assign(age=age, region=region)


def fitted(X: Any, covariates: list[str], classes: int = 2, **settings: Any) -> et.LatentClassModel:
    how = {"n_init": 2, "random_state": 0} | settings
    return et.LatentClassModel(classes, covariates=covariates, **how).fit(X)


def by_hand(model: et.LatentClassModel, X: pd.DataFrame, design: np.ndarray) -> np.ndarray:
    """log P(class, items | covariates) of rows, from the printed tables and coefficients alone."""
    logits = design @ np.asarray(model.coefficients_).T
    joint = logits - np.logaddexp.reduce(logits, axis=1)[:, None]
    for name in ITEMS:
        table = model.tables_[name]
        joint += np.log(np.asarray(table))[:, [list(table.states[1]).index(cell) for cell in X[name]]].T
    return joint


def test_scores_and_posteriors_are_those_of_the_formula() -> None:
    X = survey(60)
    model = fitted(X, ["age", "region"])
    assert list(model.coefficients_.states[1]) == ["intercept", "age", "region: north", "region: west"]
    assert not np.asarray(model.coefficients_)[0].any()
    assert model.n_parameters_ == 2 * 4 + 4
    indicators = [(X.region == label).to_numpy(float) for label in ("north", "west")]
    design = np.column_stack([np.ones(60), X.age, *indicators])
    joint = by_hand(model, X, design)
    every = np.logaddexp.reduce(joint, axis=1)
    np.testing.assert_allclose(model.score_samples(X), every, atol=1e-9)
    np.testing.assert_allclose(model.predict_proba(X), np.exp(joint - every[:, None]), atol=1e-9)
    # The mean of P(class | covariates) over the rows is what a row without covariates has.
    logits = design @ np.asarray(model.coefficients_).T
    prior = np.exp(logits - np.logaddexp.reduce(logits, axis=1)[:, None])
    np.testing.assert_allclose(model.class_weights_, prior.mean(axis=0), atol=1e-4)
    unknown = X.assign(age=np.nan)
    plain = by_hand(model, X, design) - np.log(prior) + np.log(model.class_weights_)
    np.testing.assert_allclose(model.score_samples(unknown), np.logaddexp.reduce(plain, axis=1), atol=1e-9)


def test_an_iteration_never_lowers_the_objective_and_the_score_is_zero_at_the_end() -> None:
    X = survey(200)
    model = fitted(X, ["age", "region"])
    assert (np.diff(model.history_) >= -1e-9 * abs(model.history_[-1])).all()
    # The maximum: residuals of class membership are orthogonal to each covariate.
    posterior = np.asarray(model.predict_proba(X))
    centred = ((X.age - X.age.mean()) / X.age.std()).to_numpy()
    for column in (np.ones(200), centred, (X.region == "west").to_numpy(float)):
        indicators = [(X.region == label).to_numpy(float) for label in ("north", "west")]
        logits = np.column_stack([np.ones(200), X.age, *indicators]) @ np.asarray(model.coefficients_).T
        prior = np.exp(logits - np.logaddexp.reduce(logits, axis=1)[:, None])
        assert abs(column @ (posterior - prior)[:, 1]) < 0.02


def test_free_coordinates_are_terms_of_equal_size_and_the_score_along_them_is_zero() -> None:
    X = survey(200).assign(twice=lambda table: 2 * table.age)
    model = fitted(X, ["age", "twice", "region"], classes=3, n_init=1, tol=1e-9)
    network = model.network_
    ((names, emission),) = network.all_emissions.items()
    assert emission.n_coordinates == 2 * 4  # one of both numbers depends on the other
    for step in 1e-3 * np.eye(8):
        above, below = (
            type(network)(network.graph, network.tables, {names: emission.moved(by)}, network.columns).log_prob(X)
            for by in (step, -step)
        )
        assert abs(above.sum() - below.sum()) / 2e-3 < 0.05
        assert np.abs(above - below).max() > 1e-5
    alone = fitted(survey(30).drop(columns="region"), ["age"], classes=1)
    ((_, one),) = alone.network_.all_emissions.items()
    assert not one.moved(np.zeros(0)).coefficients.any()


def test_a_covariate_without_effect_is_the_plain_model() -> None:
    X = survey(150)[ITEMS]
    plain = et.LatentClassModel(2, n_init=2, random_state=0).fit(X)
    constant = fitted(X.assign(c=7.0), ["c"])
    assert constant.n_parameters_ == plain.n_parameters_
    np.testing.assert_allclose(constant.score_samples(X.assign(c=7.0)), plain.score_samples(X), atol=1e-4)
    np.testing.assert_allclose(constant.class_weights_, plain.class_weights_, atol=1e-3)
    assert np.asarray(constant.coefficients_)[1, 1] == 0.0


def test_a_group_as_covariate_is_the_group_as_an_item_given_the_group() -> None:
    """P(items | group) P(group) is any joint distribution in which items depend on the group through classes."""
    X = survey(300).drop(columns="age")
    item = et.LatentClassModel(2, n_init=2, random_state=0).fit(X)
    covariate = fitted(X, ["region"])
    shares = X.region.value_counts(normalize=True)
    alone = np.log(X.region.map(shares).to_numpy(float))
    assert covariate.score_samples(X).sum() + alone.sum() == pytest.approx(item.score_samples(X).sum(), abs=1e-3)
    # Class sizes by group are the mean posteriors of its rows.
    posterior = pd.DataFrame(np.asarray(covariate.predict_proba(X)))
    sizes = posterior.groupby(X.region.to_numpy()).mean().to_numpy()
    found = np.log(sizes[:, 1] / sizes[:, 0])
    np.testing.assert_allclose(
        np.asarray(covariate.coefficients_)[1], [found[0], *(found[1:] - found[0])], atol=2e-3
    )


def test_known_classes_are_a_multinomial_logistic_regression() -> None:
    from sklearn.linear_model import LogisticRegression

    random = np.random.default_rng(1)
    z = random.normal(size=(300, 2)) * [1.0, 20.0]
    logits = np.column_stack([np.full(300, 1.0), z @ [1.0, 0.03], z @ [-0.5, 0.05]])
    classes = np.array([random.choice(3, p=np.exp(own) / np.exp(own).sum()) for own in logits])
    # Items that give the class away.
    X = pd.DataFrame({f"q{place}": np.array(list("abc"))[classes] for place in range(3)})
    X = X.assign(z0=z[:, 0], z1=z[:, 1])
    model = fitted(X, ["z0", "z1"], classes=3, tol=1e-12)
    found = np.asarray(model.predict(X))
    known = LogisticRegression(C=np.inf, tol=1e-10, max_iter=10_000).fit(z, found)
    theirs = np.column_stack([known.intercept_, known.coef_])
    ours = np.asarray(model.coefficients_)
    np.testing.assert_allclose(ours[1:], (theirs - theirs[0])[1:], rtol=1e-3, atol=1e-3)


def test_units_order_and_labels_of_covariates_change_nothing() -> None:
    X = survey(150)
    one = fitted(X, ["age", "region"])
    moved = X.assign(age=1000 * X.age - 5e4, region=X.region.map({"east": "z", "north": "a", "west": "m"}))
    other = fitted(moved, ["region", "age"])
    np.testing.assert_allclose(one.score_samples(X), other.score_samples(moved), atol=1e-3)
    ours, theirs = np.asarray(one.coefficients_)[1], np.asarray(other.coefficients_)[1]
    assert ours[1] == pytest.approx(1000 * theirs[3], rel=1e-2)


def test_weights_are_rows_and_rows_without_a_covariate_are_left_out() -> None:
    X = survey(80)
    alone = X.drop(columns="region")
    weights = np.r_[np.full(30, 2.0), np.ones(50)]
    weighted = et.LatentClassModel(2, n_init=2, random_state=0, covariates=["age"]).fit(
        alone, sample_weight=weights
    )
    repeated = fitted(pd.concat([alone, alone.iloc[:30]]), ["age"])
    scores = weighted.score_samples(alone), repeated.score_samples(alone)
    np.testing.assert_allclose(*scores, atol=1e-4)
    with_gaps = pd.concat([X, X.iloc[:5].assign(age=np.nan)])
    with pytest.warns(UserWarning, match="5 of 85 rows miss a covariate and are left out"):
        partial = fitted(with_gaps, ["age", "region"])
    whole = fitted(X, ["age", "region"])
    np.testing.assert_allclose(partial.score_samples(X), whole.score_samples(X), atol=1e-5)


def test_a_model_is_kept_in_files_and_can_start_another() -> None:
    X = survey(100)
    model = fitted(X, ["age", "region"])
    for again in (pickle.loads(pickle.dumps(model)), fitted(X, ["age", "region"], init=model.network_)):
        np.testing.assert_allclose(again.score_samples(X), model.score_samples(X), atol=1e-3)


def test_files_hold_the_coefficients(tmp_path: Path) -> None:
    X = survey(100)
    model = fitted(X, ["region", "age"])
    model.save(tmp_path / "model.npz")
    again = et.load(tmp_path / "model.npz")
    assert repr(again.coefficients_) == repr(model.coefficients_)
    np.testing.assert_array_equal(again.predict_proba(X[[*X.columns[::-1]]]), model.predict_proba(X))


def test_a_stream_is_its_rows() -> None:
    X = survey(120)
    whole = fitted(X, ["age", "region"])
    streamed = fitted(iter([X.iloc[:50], X.iloc[50:]]), ["age", "region"])
    np.testing.assert_allclose(streamed.score_samples(X), whole.score_samples(X), atol=1e-5)


def test_covariates_are_no_items() -> None:
    X = survey(100)
    model = fitted(X, ["age", "region"])
    assert list(model.tables_) == ["h", *ITEMS]
    assert not model.emissions_
    assert set(et.profiles(model)["h"].columns) == set(ITEMS)
    assert {name for link in et.dependencies(model).columns for name in link[:2]} == set(ITEMS)
    given = model.sample(500, random_state=0, given={"age": 90, "region": "west"})
    assert (given["q0"] == "yes").mean() > 0.7
    assert set(given["region"]) == {"west"}
    for ask in (
        lambda: model.sample(3),
        lambda: model.predict(X, target="age"),
        lambda: model.impute(X.assign(age=np.nan)),
        lambda: model.sample(3, given={"age": 3}),
    ):
        with pytest.raises(DataError, match="covariates have no distribution"):
            ask()
    page = et.report(model, X)
    assert "age" not in page.facts.graph.numbers.rows
    assert not page.facts.numbers


def test_refits_keep_covariates() -> None:
    X = survey(100).drop(columns="region")
    model = fitted(X, ["age"])
    data = FittedModel.of(model, X, None, None)
    again = data.refit(data.data, np.ones(100), np.random.default_rng(0))
    np.testing.assert_allclose(again.coefficients_, model.coefficients_, atol=1e-2)


@pytest.mark.parametrize(
    ("covariates", "error", "words"),
    [
        (["agee"], DataError, "'agee', which is no column; did you mean 'age'"),
        ("age", ParameterError, r"covariates=\['age'\]"),
        (["age", "age"], ParameterError, "'age'"),
        ([*ITEMS, "age", "region"], DataError, "all columns are covariates"),
    ],
)
def test_errors_name_the_covariate(covariates: Any, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        fitted(survey(30), covariates)


def test_a_covariate_is_no_item_with_an_emission() -> None:
    with pytest.raises(ParameterError, match="'age' is a covariate, which has no emission"):
        fitted(survey(30), ["age"], emissions={"age": "gaussian"})


def test_a_model_without_covariates_has_no_coefficients() -> None:
    model = et.LatentClassModel(2, n_init=1, random_state=0).fit(survey(30)[ITEMS])
    with pytest.raises(AttributeError, match="covariates="):
        _ = model.coefficients_
    X = survey(30)
    apart = X.assign(age=X.age.where(X.index < 10), region=X.region.where(X.index >= 10))
    with pytest.raises(DataError, match="covariate"):
        fitted(apart, ["age", "region"])


def test_a_newton_step_of_class_membership_never_lowers_the_likelihood() -> None:
    random = np.random.default_rng(0)
    cells = random.normal(size=(200, 1))
    counts = np.eye(2)[(random.random(200) < 1 / (1 + np.exp(-cells[:, 0]))).astype(int)]
    emission = Membership.started(cells, np.ones(200), 2).moved(np.array([-3.0, 4.0]))
    for _ in range(30):
        features = emission.features(cells)
        before = (counts * emission.log_proba(features)).sum()
        emission = emission.maximised(emission.statistics(features, counts))
        assert (counts * emission.log_proba(features)).sum() >= before - 1e-9
    assert abs(emission.coefficients[1, 1] - 1.0) < 0.5


def test_the_density_of_a_covariate_is_refused_at_once() -> None:
    X = np.random.default_rng(0).normal(size=(40, 3))
    model = et.LatentClassModel(2, covariates=["x0"], init="random", n_init=1, max_iter=3, random_state=0).fit(X)
    with pytest.raises(DataError, match="covariates have no distribution"):
        model.conditional(["x0"], {})
