"""Multi-group models and known classes: sums of separate fits, nesting, naive Bayes, plain fits."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import eigentree as et
from eigentree.errors import DataError, EigentreeError, ParameterError
from eigentree.inference.mixed.group_order import matched_groups
from eigentree.uncertainty.likelihood_ratio import likelihood_ratio_test

RANDOM = np.random.default_rng(0)
ROWS = 600
COUNTRIES = RANDOM.integers(0, 3, ROWS)
CLASSES = (RANDOM.random(ROWS) < np.array([0.3, 0.5, 0.7])[COUNTRIES]).astype(int)
YES = np.array([[0.9, 0.8, 0.85, 0.7], [0.2, 0.3, 0.1, 0.25]])
CELLS = np.where(RANDOM.random((ROWS, 4)) < YES[CLASSES], "yes", "no")
ITEMS = pd.DataFrame(CELLS, columns=list("abcd"))
SURVEY = ITEMS.assign(country=np.array(["se", "no", "dk"])[COUNTRIES])
HOW = {"tol": 1e-10, "random_state": 0}


def grouped(invariance: bool | list[str], data: pd.DataFrame = SURVEY) -> et.LatentClassModel:
    return et.LatentClassModel(2, group="country", measurement_invariance=invariance, **HOW).fit(data)


def total(model: et.LatentClassModel, data: pd.DataFrame) -> float:
    return float(model.score_samples(data).sum())


def test_a_heterogeneous_model_is_the_sum_of_separate_fits() -> None:
    whole = grouped(False)
    separate = shares = parameters = 0.0
    for _, part in SURVEY.groupby("country"):
        own = et.LatentClassModel(2, **HOW).fit(part.drop(columns="country"))
        separate += total(own, part.drop(columns="country"))
        shares += len(part) * np.log(len(part) / ROWS)
        parameters += own.n_parameters_
    assert total(whole, SURVEY) == pytest.approx(separate + shares, abs=1e-3)
    assert whole.n_parameters_ == parameters + 2, "the shares of the groups"


def test_classes_that_no_item_ties_are_numbered_alike_in_all_groups() -> None:
    yes = np.asarray(grouped(False).tables_["a"])[:, :, 1]
    assert (yes[:, 0] > yes[:, 1]).all() or (yes[:, 0] < yes[:, 1]).all()
    measured = SURVEY.assign(z=np.random.default_rng(1).normal(size=ROWS) + 3 * CLASSES)
    model = et.LatentClassModel(2, group="country", measurement_invariance=False, **HOW).fit(measured)
    means = np.asarray(model.tables_["z"])[:, :, 0]
    assert len(set(means.argmax(axis=1).tolist())) == 1
    yes = np.asarray(model.tables_["a"])[:, :, 1]
    assert_array_equal(means.argmax(axis=1), yes.argmin(axis=1), "numbers and labels are permuted together")
    parts = [measured[measured.country == name].drop(columns="country") for name in ("dk", "no", "se")]
    separate = sum(total(et.LatentClassModel(2, **HOW).fit(part), part) for part in parts)
    shares = sum(len(part) * np.log(len(part) / ROWS) for part in parts)
    # The prior of a variance, one row, is of all rows in one and of each group in the other.
    assert total(model, measured) == pytest.approx(separate + shares, abs=0.05)


def test_groups_whose_classes_were_permuted_get_them_back_in_tables_and_numbers() -> None:
    measured = SURVEY.assign(z=np.random.default_rng(1).normal(size=ROWS) + 3 * CLASSES)
    network = et.LatentClassModel(2, group="country", measurement_invariance=False, **HOW).fit(measured).network_
    tables = {name: table.copy() for name, table in network.tables.items() if name != "z"}
    for name in ("h", "a", "b", "c", "d"):
        # Of the smallest group, whose states follow those of the others.
        small = int(np.argmin(tables["country"]))
        tables[name][small] = np.flip(tables[name][small], axis=0)
    order = np.arange(6).reshape(3, 2)
    order[small] = order[small][::-1]
    emissions = {key: emission.permuted(order.ravel()) for key, emission in network.all_emissions.items()}
    permuted = et.MixedNetwork(network.graph, tables, emissions, network.columns)
    assert_allclose(permuted.log_prob(measured), network.log_prob(measured), rtol=1e-12)
    matched = matched_groups(permuted, "country")
    assert_allclose(matched.log_prob(measured), network.log_prob(measured), rtol=1e-12)
    for name in ("h", "a", "z"):
        found = matched.labeled_tables[name]
        assert_allclose(np.asarray(found), np.asarray(network.labeled_tables[name]), rtol=1e-12)


def test_a_homogeneous_model_is_the_sum_over_its_classes() -> None:
    model = grouped(True)
    tables = {name: np.asarray(table) for name, table in model.tables_.items()}
    group = np.array([["dk", "no", "se"].index(name) for name in SURVEY.country])
    yes = np.stack([tables[name][:, (SURVEY[name] == "yes").astype(int)] for name in "abcd"]).prod(axis=0)
    by_hand = tables["country"][group] * (tables["h"][group] * yes.T).sum(axis=1)
    assert_allclose(model.score_samples(SURVEY), np.log(by_hand), rtol=1e-9)
    assert_allclose(model.class_weights_, tables["country"] @ tables["h"])
    assert tables["h"].shape == (3, 2)


def test_models_are_nested_and_their_test_has_the_parameters_between_them() -> None:
    models = [grouped(invariance) for invariance in (True, ["b", "c", "d"], ["d"], False)]
    for small, large in pairwise(models):
        assert total(large, SURVEY) >= total(small, SURVEY) - 1e-6
    test = likelihood_ratio_test(models[0], models[1], SURVEY)
    assert test.df == 4, "one item: two groups more, with a probability in two classes each"
    assert test.p_value > 0.001, "the items are the same in all groups"
    shifted = SURVEY.assign(a=np.where(SURVEY.country == "se", np.roll(SURVEY.a, 1), SURVEY.a))
    assert likelihood_ratio_test(grouped(["b", "c", "d"], shifted), grouped(False, shifted), shifted).df == 12
    assert likelihood_ratio_test(grouped(True, shifted), grouped(["b", "c", "d"], shifted), shifted).p_value < 1e-4


def test_the_names_of_groups_and_the_order_of_rows_and_columns_change_nothing() -> None:
    model = grouped(["b"])
    other = SURVEY.sample(frac=1.0, random_state=1)[["country", "d", "b", "a", "c"]]
    renamed = other.assign(country=other.country.map({"se": 1, "no": 3, "dk": 2}))
    again = grouped(["b"], renamed)
    assert total(again, renamed) == pytest.approx(total(model, SURVEY), abs=1e-3)
    assert again.columns_.numbers == (), "groups are no numbers"


def test_a_missing_group_is_marginalised_out() -> None:
    model = grouped(True)
    unknown = SURVEY.assign(country=None)
    joint = [model.score_samples(SURVEY.assign(country=name)) for name in ("se", "no", "dk")]
    assert_allclose(model.score_samples(unknown), np.logaddexp.reduce(joint))
    found = np.asarray(model.predict_proba(SURVEY.drop(columns="country"), "country"))
    assert_allclose(found[:, 2], np.exp(joint[0] - np.logaddexp.reduce(joint)))


def test_multi_group_models_are_saved_cloned_and_made_trees(tmp_path: Path) -> None:
    model = grouped(["a"])
    model.save(tmp_path / "m.eigentree")
    again = et.load(tmp_path / "m.eigentree")
    assert_array_equal(again.score_samples(SURVEY), model.score_samples(SURVEY))
    assert again.get_params() == model.get_params()
    tree = model.as_tree().fit(SURVEY)
    assert tree.score(SURVEY) == pytest.approx(model.score(SURVEY), abs=1e-9)
    tree.save(tmp_path / "tree.eigentree")
    assert et.load(tmp_path / "tree.eigentree").structure == tree.structure


# Known classes


def labelled(known: np.ndarray, labels: tuple[str, ...] = ("ill", "well")) -> pd.DataFrame:
    return ITEMS.assign(diagnosis=np.where(known, np.array(labels)[CLASSES], None))


def test_classes_that_are_all_known_are_counted() -> None:
    table = labelled(np.ones(ROWS, bool))
    model = et.LatentClassModel(2, known_class="diagnosis", **HOW).fit(table)
    shares = np.bincount(CLASSES) / ROWS
    assert_allclose(model.class_weights_, shares, atol=1e-6)
    for name in "abcd":
        counted = [np.mean(ITEMS[name][label == CLASSES] == "yes") for label in (0, 1)]
        assert_allclose(np.asarray(model.tables_[name])[:, 1], counted, atol=1e-6)
    assert model.tables_["a"].states[0] == ("ill", "well")
    assert model.n_parameters_ == 1 + 2 * 4


def test_classes_of_which_none_is_known_are_those_of_a_plain_fit() -> None:
    table = labelled(np.zeros(ROWS, bool))
    given = {"diagnosis": ["ill", "well"]}
    model = et.LatentClassModel(2, known_class="diagnosis", categories=given, **HOW).fit(table)
    plain = et.LatentClassModel(2, **HOW).fit(ITEMS)
    assert total(model, table) == pytest.approx(total(plain, ITEMS), abs=1e-3)
    assert model.n_parameters_ == plain.n_parameters_


def test_some_known_classes_name_the_others_and_new_rows_need_no_column() -> None:
    known = np.random.default_rng(2).random(ROWS) < 0.1
    model = et.LatentClassModel(2, known_class="diagnosis", **HOW).fit(labelled(known))
    predicted = model.predict(ITEMS)
    assert set(predicted) == {"ill", "well"}
    assert np.mean(predicted == np.array(["ill", "well"])[CLASSES]) > 0.85
    sure = np.asarray(model.predict_proba(labelled(known), "h"))[known]
    assert_array_equal(sure, np.eye(2)[CLASSES[known]])
    # Labels in another order: the same model, whose states are named alike.
    other = et.LatentClassModel(2, known_class="diagnosis", **HOW).fit(labelled(known, ("z", "a")))
    assert_array_equal(other.predict(ITEMS) == "z", predicted == "ill")
    assert total(other, labelled(known, ("z", "a"))) == pytest.approx(total(model, labelled(known)), abs=1e-3)


def test_classes_may_be_known_in_several_groups(tmp_path: Path) -> None:
    table = labelled(np.arange(ROWS) % 4 == 0).assign(country=SURVEY.country)
    how = {"known_class": "diagnosis", "group": "country", "measurement_invariance": ["a", "b"]}
    model = et.LatentClassModel(2, **how, **HOW).fit(table)
    assert model.graph_.parents("diagnosis") == ("h",)
    assert model.graph_.parents("c") == ("country", "h")
    model.save(tmp_path / "m.eigentree")
    again = et.load(tmp_path / "m.eigentree")
    assert again.tables_["h"].states == model.tables_["h"].states
    assert_array_equal(again.predict(table), model.predict(table))


@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        ({"group": "land"}, EigentreeError, "group, known_class or emissions name 'land', which is no column"),
        ({"group": 3}, ParameterError, "group is the name of a column, not 3"),
        ({"group": "country", "measurement_invariance": ["q"]}, EigentreeError, "'q' is no column"),
        (
            {"group": "country", "measurement_invariance": "a"},
            ParameterError,
            "write measurement_invariance=",
        ),
        ({"measurement_invariance": False}, ParameterError, "give group="),
        ({"group": "country", "known_class": "country"}, ParameterError, "is the group and the known class"),
        ({"group": "country", "covariates": ["a"]}, ParameterError, "cannot stand beside covariates"),
        ({"group": "country", "emissions": {"country": "gaussian"}}, ParameterError, "has no emission"),
        ({"known_class": "country"}, DataError, "'country' has 3 labels, and there are 2 classes"),
        ({"known_class": "a", "fixed": {"a": [[1, 0], [0, 1]]}}, ParameterError, "whose table is known already"),
    ],
)
def test_what_makes_no_sense_is_named(settings: dict, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        et.LatentClassModel(2, **settings).fit(SURVEY)


def test_a_homogeneous_model_is_one_with_the_group_as_a_covariate() -> None:
    model = grouped(True)
    other = et.LatentClassModel(2, covariates=["country"], **HOW).fit(SURVEY)
    shares = SURVEY.country.map(SURVEY.country.value_counts() / ROWS)
    assert total(other, SURVEY) == pytest.approx(total(model, SURVEY) - float(np.log(shares).sum()), abs=1e-3)
    assert other.n_parameters_ == model.n_parameters_ - 2
    assert_allclose(np.sort(other.class_weights_), np.sort(model.class_weights_), atol=1e-3)


def test_standard_errors_are_those_of_free_parameters() -> None:
    separate = et.LatentClassModel(2, **HOW).fit(SURVEY[SURVEY.country == "se"].drop(columns="country"))
    errors = grouped(False).standard_errors_
    own = np.asarray(errors["a"])[2]
    order = np.argsort(np.asarray(grouped(False).tables_["a"])[2, :, 1])
    expected = np.argsort(np.asarray(separate.tables_["a"])[:, 1])
    assert_allclose(own[order], np.asarray(separate.standard_errors_["a"])[expected], rtol=1e-3)
    known = et.LatentClassModel(2, known_class="diagnosis", **HOW).fit(labelled(np.ones(ROWS, bool)))
    counts = np.bincount(CLASSES)
    yes = np.asarray(known.tables_["a"])[:, 1]
    assert_allclose(np.asarray(known.standard_errors_["a"])[:, 1], np.sqrt(yes * (1 - yes) / counts), rtol=1e-3)
    assert np.isnan(np.asarray(known.standard_errors_["diagnosis"])).all()
