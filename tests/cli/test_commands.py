"""The command line: its results are those of the library, and an error is one sentence."""

from __future__ import annotations

import bz2
import contextlib
import csv
import gzip
import io
import json
import lzma
import math
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from command_line import answer, call, in_shell, read_answer, read_numbers
from sklearn.base import clone

import eigentree as et
from eigentree.cli.arguments import count, fraction, named, one_of, seed
from eigentree.cli.main import COMMANDS, application

ROWS = 120
COLUMNS = ["cap-shape", "bruises", "odor", "gill-size", "stalk-root", "habitat", "class"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with some mushrooms, ``?`` for a missing cell, and models of them."""
    made = tmp_path_factory.mktemp("commands")
    with contextlib.chdir(made):
        answer("eigentree dataset mushrooms --missing '?' -o all.csv")
        # Some of everything, and missing cells too.
        rows = frame("all.csv")[COLUMNS]
        rows.iloc[:: len(rows) // ROWS][:ROWS].to_csv("mushrooms.csv", index=False, na_rep="?")
        answer("eigentree fit mushrooms.csv --missing '?' --structure mixture --hidden 3 -o model.eigentree")
        answer("eigentree fit mushrooms.csv --structure hmm --method spectral -o spectral.eigentree")
        answer("eigentree classify train mushrooms.csv --target class --hidden 2 -o classes.eigentree")
        answer("eigentree count mushrooms.csv --structure hmm -o counts.eigentree")
    return made


def frame(path: str | Path = "mushrooms.csv", **options: object) -> pd.DataFrame:
    return pd.read_csv(path, na_values="?", dtype=str, **options)


# Arguments


@pytest.mark.parametrize(("text", "number"), [("1", 1), ("12", 12), ("1_000", 1000), ("31,623", 31_623)])
def test_counts_are_whole_numbers_from_one_on(text: str, number: int) -> None:
    assert count(text) == number


@pytest.mark.parametrize("text", ["0", "-1", "2.5", "ten", ""])
def test_what_is_no_count_is_named(text: str) -> None:
    with pytest.raises(ValueError, match="is not a whole number of at least 1"):
        count(text)


def test_names_are_known_ones() -> None:
    known = one_of("structure", ("hmm2", "hmm3"))
    assert known("hmm3") == "hmm3"
    with pytest.raises(ValueError, match="there is no structure 'hmm33'; did you mean 'hmm3'"):
        known("hmm33")
    with pytest.raises(ValueError, match="there is no structure 'tree'; there are 'hmm3', 'hmm2'"):
        known("tree")


def test_shares_seeds_and_labels_are_read() -> None:
    assert (fraction("0.2"), seed("17"), named("odor=a=b")) == (0.2, 17, ("odor", "a=b"))
    for convert, texts in ((fraction, ("0", "1", "x")), (seed, ("-1", "1.5", "")), (named, ("odor", "=a"))):
        for text in texts:
            with pytest.raises(ValueError, match="is not a"):
                convert(text)


# Results


def test_the_dataset_is_that_of_the_package(here: Path) -> None:
    X, y = et.datasets.load_mushrooms(return_X_y=True, as_frame=True)
    found = frame("all.csv")
    assert (found.drop(columns="class").fillna("") == X.astype(object).fillna("")).all(axis=None)
    assert found["class"].tolist() == y.tolist()
    assert "?" in (here / "all.csv").read_text()


def test_fit_and_score_are_those_of_the_library(here: Path) -> None:
    model = et.EMJunctionTree(et.zoo.Mixture(3), random_state=0).fit(frame())
    loaded = et.load("model.eigentree")
    assert loaded.columns_.names == tuple(frame().columns)
    np.testing.assert_array_equal(loaded.score_samples(frame()), model.score_samples(frame()))
    answer("eigentree score model.eigentree mushrooms.csv --missing '?' -o scores.csv")
    scores = read_numbers("scores.csv")["log_probability"]
    np.testing.assert_array_equal(scores, model.score_samples(frame()))
    assert pd.read_csv("scores.csv")["row"].tolist() == list(range(ROWS))
    summary = json.loads(answer("eigentree score model.eigentree mushrooms.csv --missing '?' --summary --json"))
    assert summary["rows"] == ROWS
    assert summary["mean_log_probability"] == pytest.approx(scores.mean(), abs=1e-12)
    assert f"{scores.mean():.4f}" in answer("eigentree score model.eigentree mushrooms.csv --missing '?' --summary")


def test_weights_are_those_of_the_library(here: Path) -> None:
    rows = frame()
    weights = np.random.default_rng(0).integers(1, 9, len(rows)) / 4
    rows.assign(weight=weights, text="a").to_csv("weighed.csv", index=False)
    fit = (
        "eigentree fit weighed.csv --drop text --structure mixture --hidden 2 -o weighed.eigentree --json --weights"
    )
    told = json.loads(answer(f"{fit} weight"))
    model = et.EMJunctionTree(et.zoo.Mixture(2), random_state=0).fit(rows, sample_weight=weights)
    loaded = et.load("weighed.eigentree")
    assert loaded.columns_.names == tuple(rows.columns)
    np.testing.assert_allclose(loaded.score_samples(rows), model.score_samples(rows), rtol=1e-9)
    assert told["mean_log_probability"] == pytest.approx(np.average(model.score_samples(rows), weights=weights))
    found = answer("eigentree estimates weighed.eigentree weighed.csv --weights weight --kind robust --json")
    expected = model.estimates(rows, kind="robust", sample_weight=weights)
    lines = json.loads(found)["estimates"]
    np.testing.assert_allclose([line["estimate"] for line in lines], expected.values, rtol=1e-6)
    np.testing.assert_allclose([line["std_error"] or np.nan for line in lines], expected.standard_errors, rtol=1e-5)
    for name, message in (("wieght", "did you mean 'weight'?"), ("odor", "holds other cells than numbers")):
        code, _, error = call(f"{fit} {name}")
        assert code != 0
        assert message in error


def test_predict_is_that_of_the_library_and_needs_no_target(here: Path) -> None:
    expected = et.load("model.eigentree").predict_proba(frame(), target="odor")
    code, out, errors = call("eigentree predict model.eigentree mushrooms.csv --missing '?' --target odor")
    found = read_numbers(io.StringIO(out))
    labels = expected.states[1]
    np.testing.assert_array_equal(found[[f"P(odor={label})" for label in labels]], expected)
    assert found["odor"].tolist() == [labels[place] for place in np.argmax(expected, axis=1)]
    right = (found["odor"] == frame()["odor"]).mean()
    assert code == 0
    assert f"accuracy {100 * right:.1f} % on {ROWS} with a known label" in errors
    frame().drop(columns="odor").to_csv("without.csv", index=False)
    assert answer("eigentree predict model.eigentree without.csv --target odor") == out


def test_hidden_variables_are_predicted_and_decoded(here: Path) -> None:
    model = et.load("model.eigentree")
    proba = read_answer("eigentree predict model.eigentree mushrooms.csv --missing ? -t h")
    np.testing.assert_array_equal(proba[["P(h=0)", "P(h=1)", "P(h=2)"]], model.predict_proba(frame(), target="h"))
    decoded = read_answer("eigentree decode model.eigentree mushrooms.csv --missing ?")
    expected = model.decode(frame())
    np.testing.assert_array_equal(decoded[["h"]], expected.states)
    np.testing.assert_array_equal(decoded["log_probability"], expected.log_prob)


def test_impute_fills_what_is_missing_and_leaves_the_rest(here: Path) -> None:
    rows = frame()
    expected = et.load("model.eigentree").impute(rows)
    rows.insert(0, "id", [f"{row:04d}" for row in range(ROWS)])
    rows.to_csv("with_id.csv", index=False, na_rep="?")
    code, out, errors = call("eigentree impute model.eigentree with_id.csv --missing '?'")
    found = frame(io.StringIO(out))
    assert found["id"].tolist() == rows["id"].tolist()
    assert (found.drop(columns="id") == expected).all(axis=None)
    assert code == 0
    assert f"{rows.isna().sum().sum()} missing cells of {ROWS} rows filled" in errors
    drawn = [
        answer(f"eigentree impute model.eigentree with_id.csv --missing ? --by sample --seed {s}") for s in "112"
    ]
    assert drawn[0] == drawn[1] != drawn[2]


def test_imputations_are_one_below_the_other(here: Path) -> None:
    rows = frame()
    rows.insert(0, "id", [f"{row:04d}" for row in range(ROWS)])
    rows.to_csv("with_id.csv", index=False, na_rep="?")
    call = "eigentree impute model.eigentree with_id.csv --missing ? --multiple 2 --seed 3"
    found = frame(io.StringIO(answer(call)))
    expected = et.multiple_imputation(et.load("model.eigentree"), frame(), 2, random_state=3)
    assert found["imputation"].tolist() == np.repeat(["1", "2"], ROWS).tolist()
    assert found["id"].tolist() == 2 * rows["id"].tolist()
    for number, table in enumerate(expected, 1):
        own = found[found["imputation"] == str(number)].drop(columns=["imputation", "id"])
        assert (own.to_numpy() == table.to_numpy()).all()
    assert answer(call) == answer(call + " --by mode")


def test_filled_cells_are_written_as_the_others_are(here: Path) -> None:
    Path("numbers.csv").write_text("a,b\n0,1\n1,0\n0,\n1,1\n1,0\n,1\n")
    answer("eigentree fit numbers.csv --structure mixture --hidden 2 -o numbers.eigentree")
    rows = [
        json.loads(line) for line in answer("eigentree impute numbers.eigentree numbers.csv --json").splitlines()
    ]
    assert {type(cell) for row in rows for cell in row.values()} == {str}
    Path("numbers.jsonl").write_text('{"a": 0, "b": 1}\n{"a": null, "b": 0}\n')
    rows = [
        json.loads(line) for line in answer("eigentree impute numbers.eigentree numbers.jsonl --json").splitlines()
    ]
    assert {type(cell) for row in rows for cell in row.values()} == {int}


def test_sample_is_that_of_the_library(here: Path) -> None:
    found = frame(io.StringIO(answer("eigentree sample model.eigentree -n 30 --seed 5 --given class=p")))
    expected = et.load("model.eigentree").sample(30, seed=5, given={"class": "p"})
    assert (found.to_numpy() == expected).all()
    assert (found["class"] == "p").all()


def test_classes_are_those_of_the_library(here: Path) -> None:
    rows = frame().fillna("?")  # as it was trained, without --missing
    X, y = rows.drop(columns="class"), rows["class"]
    model = et.JunctionTreeClassifier(et.EMJunctionTree(et.zoo.Mixture(2), random_state=0)).fit(X, y)
    found = read_answer("eigentree classify apply classes.eigentree mushrooms.csv")
    np.testing.assert_array_equal(found[["P(class=e)", "P(class=p)"]], model.predict_proba(X))
    assert found["class"].tolist() == model.predict(X).tolist()


def test_conditional_training_is_that_of_the_library(here: Path) -> None:
    how = "-t class --hidden 1 --training conditional --alpha 2"
    answer(f"eigentree classify train mushrooms.csv {how} -o trained.eigentree")
    model = et.load("trained.eigentree")
    assert (model.training, model.alpha_, model.random_state) == ("conditional", 2.0, 0)
    rows = frame().fillna("?")
    classes = rows.pop("class")
    expected = clone(model).fit(rows, classes).predict_proba(rows)
    found = read_answer("eigentree classify apply trained.eigentree mushrooms.csv")
    np.testing.assert_allclose(found[["P(class=e)", "P(class=p)"]], expected)


def test_a_class_as_a_column_learns_from_rows_without_one(here: Path) -> None:
    rows = frame()
    rows.loc[rows.index % 2 == 0, "class"] = np.nan
    rows.to_csv("half.csv", index=False, na_rep="?")
    errors = call("eigentree classify train half.csv --missing ? -t class --class-as column -o half.eigentree")[2]
    assert f"from {ROWS} rows" in errors
    assert f"note: {ROWS // 2} of {ROWS} rows have no class" in errors
    errors = call("eigentree classify train half.csv --missing ? -t class -o half.eigentree --json")[1]
    assert json.loads(errors)["rows"] == ROWS // 2


def test_a_class_as_a_column_keeps_its_name(here: Path) -> None:
    answer("eigentree classify train mushrooms.csv --missing ? -t odor --class-as column -o odors.eigentree")
    assert et.load("odors.eigentree").class_column_.name == "odor"
    assert json.loads(answer("eigentree inspect odors.eigentree --json"))["class_column"] == "odor"
    shown = json.loads(answer("eigentree inspect odors.eigentree --table odor --json"))
    assert sorted(shown["states"][shown["axes"].index("odor")]) == sorted(frame()["odor"].unique())
    # Its training data have all the columns of the report.
    answer("eigentree report odors.eigentree --data mushrooms.csv --missing ? -o odors.html")


def test_counts_add_up_to_the_same_model(here: Path) -> None:
    lines = (here / "mushrooms.csv").read_text().splitlines()
    for name, part in (("a", lines[1:90]), ("b", lines[90:])):
        (here / f"{name}.csv").write_text("\n".join([lines[0], *part]) + "\n")
        answer(f"eigentree count {name}.csv --like counts.eigentree -o {name}.eigentree")
    assert json.loads(answer("eigentree merge a.eigentree b.eigentree -o all.eigentree --json"))["rows"] == ROWS
    assert (here / "all.eigentree").read_bytes() == (here / "counts.eigentree").read_bytes()
    answer("eigentree fit all.eigentree --structure hmm --method spectral -o summed.eigentree")
    rows = frame().fillna("?")
    one, other = (et.load(name).score_samples(rows) for name in ("summed.eigentree", "spectral.eigentree"))
    np.testing.assert_array_equal(one, other)


def test_compare_holds_the_same_rows_out_and_prints_likelihoods(here: Path) -> None:
    facts = json.loads(answer("eigentree compare mushrooms.csv --missing ? --structure mixture --json"))
    methods = {each["name"]: each for each in facts["methods"]}
    assert list(methods) == ["independent", "Chow-Liu tree", "spectral", "online EM", "EM"]
    assert facts["rows"] + facts["held_out_rows"] == ROWS
    out = np.sort(np.random.default_rng(0).permutation(ROWS)[: facts["held_out_rows"]])
    rows = frame()
    model = et.EMJunctionTree(et.zoo.Mixture(2), random_state=0).fit(rows.drop(index=out))
    model.handle_unknown = "missing"
    assert methods["EM"]["held_out"] == pytest.approx(model.score(rows.loc[out]), abs=1e-9)
    assert methods["EM"]["parameters"] == model.n_parameters_
    assert methods["EM"]["held_out"] > methods["independent"]["held_out"]
    assert all(each["seconds"] > 0 and not each["failure"] for each in facts["methods"])


def test_select_writes_the_best_of_what_it_tried(here: Path) -> None:
    line = "eigentree select mushrooms.csv --missing ? --structure mixture --hidden 1 3 -o best.eigentree --json"
    facts = json.loads(answer(line))
    held_out = {each["name"]: each["held_out"] for each in facts["tried"]}
    assert facts["best"] == max(held_out, key=held_out.__getitem__) == "mixture, 3 states"
    best = et.load("best.eigentree")
    np.testing.assert_array_equal(best.score_samples(frame()), et.load("model.eigentree").score_samples(frame()))
    assert best.columns_ == et.load("model.eigentree").columns_


def test_select_is_the_function_of_the_library(here: Path) -> None:
    line = "eigentree select mushrooms.csv --missing ? --structure mixture --hidden 1 2 --held-out 3 --by bic"
    mixture = {"mixture": et.EMJunctionTree(et.zoo.Mixture(), random_state=0)}
    selection = et.select(frame(), (1, 2), mixture, held_out=3)
    facts = json.loads(answer(f"{line} --json"))
    for each, trial in zip(facts["tried"], selection.trials, strict=True):
        expected = {"name": trial.name, **trial.values()}
        found = {name: math.nan if each[name] is None else each[name] for name in expected}
        assert found | {"seconds": 0} == pytest.approx(expected | {"seconds": 0}, nan_ok=True)
    assert facts["best"] == selection.best_trial().name
    assert answer(line) == f"{selection}\n"
    held_out = answer("eigentree select mushrooms.csv --missing ? --structure mixture --hidden 1")
    heads = "model  log-likelihood  parameters  smallest class  held out"
    assert held_out.splitlines()[0].split() == heads.split()


def test_select_tests_each_size_against_the_smaller_one(here: Path) -> None:
    frame()[COLUMNS[:2]].iloc[:60].to_csv("few.csv", index=False)
    line = "eigentree select few.csv --structure mixture --hidden 1 2 --by bic --blrt --json"
    one, two = json.loads(answer(line))["tried"]
    assert one["p_value"] is None
    assert 0 < two["p_value"] <= 1


def test_goodness_is_that_of_the_library(here: Path) -> None:
    line = "eigentree goodness model.eigentree mushrooms.csv --missing ? --pairs 2"
    model = et.load("model.eigentree")
    whole, residuals = et.goodness_of_fit(model, frame()), et.bivariate_residuals(model, frame())
    classes = et.classification_table(model, frame())
    text = answer(line)
    assert str(whole) in text
    assert str(classes) in text
    assert len(text.splitlines()) == len(
        f"{whole}\n\nhead\none\ntwo\n{residuals.notes[0]}\n\nh\n{classes}".splitlines()
    )
    facts = json.loads(answer(f"{line} --json"))
    assert facts["g2"]["value"] == pytest.approx(whole.g2.value)
    assert [pair["x2"] for pair in facts["pairs"]] == pytest.approx([each.x2 for each in residuals.pairs[:2]])
    np.testing.assert_allclose(facts["classes"]["h"]["counts"], classes.counts)
    assert "fit with --method em" in call("eigentree goodness spectral.eigentree mushrooms.csv")[2]


def test_inspect_shows_what_a_file_holds(here: Path) -> None:
    facts = json.loads(answer("eigentree inspect model.eigentree --json"))
    model = et.load("model.eigentree")
    assert facts["free_parameters"] == model.n_parameters_
    assert facts["columns"]["bruises"] == ["f", "t"]
    one = json.loads(answer("eigentree inspect model.eigentree --table odor --json"))
    np.testing.assert_allclose(one["table"], model.tables_["odor"])
    for name, word in (("spectral", "Spectral"), ("classes", "Classifier"), ("counts", "Statistics")):
        assert word in answer(f"eigentree inspect {name}.eigentree")


def test_estimates_are_those_of_the_library(here: Path) -> None:
    model, rows = et.load("model.eigentree"), frame("mushrooms.csv").replace("?", None)
    model_file = "eigentree estimates model.eigentree mushrooms.csv --missing ?"
    found = json.loads(answer(f"{model_file} --json"))
    expected = model.estimates(rows[list(model.columns_.names)])
    errors = [np.nan if line["std_error"] is None else line["std_error"] for line in found["estimates"]]
    np.testing.assert_allclose(errors, expected.standard_errors)
    assert found["notes"] == list(expected.notes)
    assert answer(f"{model_file} --table odor --as latex").count("\\\\") == 1 + model.tables_["odor"].size
    assert "0." in answer(f"{model_file} --table odor --kind robust")
    robust = json.loads(answer(f"{model_file} --table odor --clusters habitat --json"))["estimates"]
    by_place = model.estimates(rows[list(model.columns_.names)], clusters=rows["habitat"].astype(str))
    low = by_place.part(table="odor").confint()[:, 0]
    np.testing.assert_allclose([line["lower"] if line["lower"] is not None else np.nan for line in robust], low)
    code, _, errors_shown = call(f"{model_file} --table odour")
    assert (code, "did you mean 'odor'" in errors_shown) == (1, True)


def test_a_report_is_that_of_the_library(here: Path) -> None:
    errors = json.loads(
        answer("eigentree report model.eigentree --data mushrooms.csv --missing ? -o m.html --json")
    )
    page = Path("m.html").read_text()
    assert errors["rows"] == ROWS
    assert errors["bytes"] == len(page.encode())
    made = et.report(et.load("model.eigentree"), frame(), source="mushrooms.csv")
    assert page == made.html
    text = Path("mushrooms.csv").read_bytes()
    piped = answer("eigentree report model.eigentree --data - --missing ? --title Toadstools -o -", text)
    assert "<h1>Toadstools</h1>" in piped
    assert "standard input" in piped


def test_a_graph_in_a_file_is_that_graph(here: Path) -> None:
    (here / "own.toml").write_text('hidden = ["k"]\nedges = [["k", "odor"], ["k", "class"]]\n[states]\nk = 2\n')
    answer("eigentree fit mushrooms.csv --structure own.toml -o own.eigentree")
    model = et.load("own.eigentree")
    assert model.graph_.hidden == ("k",)
    assert model.graph_.observed == ("odor", "class")
    assert model.graph_.states == {"k": 2, "odor": frame()["odor"].nunique(), "class": 2}
    (here / "loop.toml").write_text('edges = [["odor", "class"]]\ndirected = false\n')
    answer("eigentree fit mushrooms.csv --structure loop.toml -o loop.eigentree")
    assert not et.load("loop.eigentree").graph_.directed


def test_numbers_are_labels_in_a_graph_too(here: Path) -> None:
    (here / "pair.csv").write_text("a,b\n" + "5,x\n7,y\n7,x\n" * 20)
    (here / "pair.toml").write_text('edges = [["a", "b"]]\n')
    answer("eigentree fit pair.csv --structure pair.toml -o pair.eigentree")
    table = et.load("pair.eigentree").joint(["a", "b"])
    assert [list(states) for states in table.states] == [[5, 7], ["x", "y"]]
    np.testing.assert_allclose(table, [[1 / 3, 0], [1 / 3, 1 / 3]], atol=0.02)
    facts = json.loads(answer("eigentree compare pair.csv --structure mixture --json"))
    assert not any(each["failure"] for each in facts["methods"])
    answer("eigentree count pair.csv --structure pair.toml -o pairs.eigentree")
    assert et.load("pairs.eigentree").rows == 60


def test_a_network_of_others_is_a_structure(here: Path) -> None:
    model = et.load("model.eigentree")
    model.network_.to_bif("net.bif")
    answer("eigentree fit mushrooms.csv --missing ? --structure net.bif -o net.eigentree")
    found = et.load("net.eigentree").graph_
    assert found.hidden == ("h",)
    assert found.states == model.graph_.states


def test_a_saved_network_is_a_model(here: Path) -> None:
    et.load("model.eigentree").network_.save("network.eigentree")
    for question in ("score", "decode", "predict --target class", "impute"):
        name, *options = question.split()
        line = " ".join(["eigentree", name, "{}", "mushrooms.csv", "--missing ?", *options])
        assert answer(line.format("network.eigentree")) == answer(line.format("model.eigentree"))


def test_unseen_labels_are_missing_cells_by_option(here: Path) -> None:
    rows = frame()
    rows.loc[3, "odor"] = "roses"
    rows.to_csv("roses.csv", index=False)
    code, _, errors = call("eigentree score model.eigentree roses.csv")
    assert code == 1
    assert "odor" in errors
    assert "roses" in errors
    rows.loc[3, "odor"] = np.nan
    rows.to_csv("masked.csv", index=False)
    assert answer("eigentree score model.eigentree roses.csv --unknown missing") == answer(
        "eigentree score model.eigentree masked.csv"
    )


# Sequences


@pytest.fixture(scope="module")
def steps(folder: Path) -> pd.DataFrame:
    """Return sequences of different lengths, their rows among each other, some cells missing; also as files."""
    random = np.random.default_rng(0)
    rows = []
    for person in range(40):
        state = person % 2
        for _ in range(random.integers(3, 9)):
            state = state if random.random() < 0.8 else 1 - state
            cell = random.choice(["a", "b", "c"], p=[[0.8, 0.1, 0.1], [0.1, 0.1, 0.8]][state])
            rows.append((f"p{person}", cell if random.random() > 0.05 else None, 5 + state, "eo"[person % 2]))
    made = pd.DataFrame(rows, columns=["id", "job", "kids", "kind"])
    made = made.iloc[np.argsort(random.random(len(made)))].reset_index(drop=True)
    made.to_csv(folder / "steps.csv", index=False, na_rep="?")
    before = Path.cwd()
    os.chdir(folder)
    answer("eigentree fit steps.csv --missing ? --drop kind --sequence id --hidden 2 -o hmm.eigentree")
    os.chdir(before)
    return made


def test_sequences_are_those_of_the_library(here: Path, steps: pd.DataFrame) -> None:
    rows = steps.drop(columns="kind")
    model = et.EMHMM(2, random_state=0, sequence="id").fit(rows)
    found = frame(io.StringIO(answer("eigentree score hmm.eigentree steps.csv --missing ? -o -")))
    np.testing.assert_allclose(found["log_probability"].astype(float), model.score_samples(rows))
    assert found["id"].tolist() == rows["id"].drop_duplicates().tolist()
    decoded = frame(io.StringIO(answer("eigentree decode hmm.eigentree steps.csv --missing ? --sequence id")))
    assert decoded["id"].tolist() == rows["id"].tolist()
    assert decoded["state"].astype(int).tolist() == model.decode(rows).states.tolist()
    proba = read_answer("eigentree predict hmm.eigentree steps.csv --missing ? -t state")
    np.testing.assert_allclose(proba[["P(state=0)", "P(state=1)"]], model.predict_proba(rows))
    after = read_answer("eigentree predict hmm.eigentree steps.csv --missing ? -t job")
    expected = model.predict_next_proba(rows, target="job")
    np.testing.assert_allclose(after[["P(job=a)", "P(job=b)", "P(job=c)"]], expected)
    filled = read_answer("eigentree impute hmm.eigentree steps.csv --missing ?")
    assert (filled[["id", "job", "kids"]] == model.impute(rows)).all(axis=None)
    assert filled["kind"].tolist() == steps["kind"].tolist()
    drawn = read_answer("eigentree sample hmm.eigentree -n 3 --length 4 --seed 2")
    assert drawn["id"].tolist() == [row // 4 for row in range(12)]
    assert set(drawn["job"]) <= {"a", "b", "c"}
    assert set(drawn["kids"]) <= {5, 6}


def test_inputs_are_those_of_the_library(here: Path, steps: pd.DataFrame) -> None:
    inputs = steps.assign(dose=np.arange(len(steps)) % 5 / 2).fillna({"job": "a"})
    inputs.to_csv("inputs.csv", index=False)
    answer("eigentree fit inputs.csv --drop kids --sequence id --hidden 2 --inputs dose,kind -o inputs.eigentree")
    own = inputs.drop(columns="kids")
    model = et.EMHMM(2, random_state=0, sequence="id").fit(own, inputs=["dose", "kind"])
    assert json.loads(answer("eigentree inspect inputs.eigentree --json"))["inputs"] == ["dose", "kind"]
    shown = json.loads(answer("eigentree inspect inputs.eigentree --table transitions --json"))
    np.testing.assert_allclose(shown["table"], model.coefficients_["transitions"])
    assert "state" in answer("eigentree inspect inputs.eigentree --table emissions")
    found = frame(io.StringIO(answer("eigentree score inputs.eigentree inputs.csv")))
    np.testing.assert_allclose(found["log_probability"].astype(float), model.score_samples(own))
    decoded = frame(io.StringIO(answer("eigentree decode inputs.eigentree inputs.csv")))
    assert decoded["state"].astype(int).tolist() == model.decode(own).states.tolist()
    line = "eigentree fit inputs.csv --drop kids dose --sequence id --hidden 2 --inputs kind --method spectral"
    answer(f"{line} -o transducer.eigentree")
    transducer = et.SpectralHMM(2, sequence="id").fit(own.drop(columns="dose"), inputs="kind")
    found = frame(io.StringIO(answer("eigentree score transducer.eigentree inputs.csv")))
    scores = transducer.score_samples(own.drop(columns="dose"))
    np.testing.assert_allclose(found["log_probability"].astype(float), scores)


def test_clusters_are_those_of_the_library(here: Path, steps: pd.DataFrame) -> None:
    number = steps.groupby("id").ngroup()
    known = steps.assign(sex=np.where(number % 2, "f", "m")).fillna({"job": "a"})
    known.to_csv("clusters.csv", index=False)
    line = "eigentree fit clusters.csv --drop kids kind --sequence id --clusters 2 --hidden 2 --inputs sex"
    answer(f"{line} -o clusters.eigentree")
    own = known.drop(columns=["kids", "kind"])
    model = et.MixtureHMM(2, 2, random_state=0, sequence="id").fit(own, inputs=["sex"])
    found = frame(io.StringIO(answer("eigentree predict clusters.eigentree clusters.csv -t cluster")))
    np.testing.assert_array_equal(found["cluster"].astype(int), model.predict(own))
    states = frame(io.StringIO(answer("eigentree predict clusters.eigentree clusters.csv -t state")))
    assert len(states) == len(known)
    assert "clusters" in answer("eigentree inspect clusters.eigentree")
    answer("eigentree estimates clusters.eigentree clusters.csv")


def test_durations_are_those_of_the_library(here: Path, steps: pd.DataFrame) -> None:
    line = "eigentree fit steps.csv --missing ? --drop kind --sequence id --hidden 2 --durations explicit"
    answer(f"{line} --max-duration 6 -o durations.eigentree")
    found = et.load("durations.eigentree")
    rows = steps.drop(columns="kind")
    model = et.EMHMM(2, durations="explicit", max_duration=6, random_state=0, sequence="id").fit(rows)
    np.testing.assert_array_equal(found.tables_["durations"], model.tables_["durations"])
    answer("eigentree report durations.eigentree -o durations.html")
    page = Path("durations.html").read_text()
    assert "How many steps each state lasts." in page
    assert f"state 1: {model.durations_[1]:.1f} steps on average" in page


def test_sequences_are_reported_by_their_names(here: Path, steps: pd.DataFrame) -> None:
    steps[steps["id"] != steps["id"].iloc[0]].to_csv("train.csv", index=False)
    answer("eigentree report hmm.eigentree --data steps.csv --missing ? --training train.csv -o hmm.html")
    page = Path("hmm.html").read_text()
    rows = steps.drop(columns="kind")
    scores = et.load("hmm.eigentree").score_samples(rows) / rows.groupby("id", sort=False).size().to_numpy()
    assert f"sequence {rows['id'].drop_duplicates().tolist()[int(scores.argmin())]} " in page
    assert "training sequences" in page


def test_the_chains_of_a_factorial_hmm_have_names(here: Path, steps: pd.DataFrame) -> None:
    rows = steps.drop(columns="kind")
    model = et.EMHMM((2, 2), random_state=0, sequence="id", init="random", n_init=1, max_iter=5).fit(rows)
    model.save("chains.eigentree")
    decoded = read_answer("eigentree decode chains.eigentree steps.csv --missing ?")
    states, proba = model.decode(rows).states, model.predict_proba(rows)
    for name in ("chain 0", "chain 1"):
        np.testing.assert_array_equal(decoded[name], states[name])
        asked = answer(f"eigentree predict chains.eigentree steps.csv --missing ? -t '{name}'")
        facts = pd.read_csv(io.StringIO(asked))
        np.testing.assert_allclose(facts[[f"P({name}=0)", f"P({name}=1)"]], proba[name])
    one = json.loads(answer("eigentree inspect chains.eigentree --table 'transitions of chain 1' --json"))
    np.testing.assert_allclose(one["table"], model.tables_["transitions"]["chain 1"])


def test_the_model_of_sequences_takes_frames_in_python(here: Path, steps: pd.DataFrame) -> None:
    model = et.load("hmm.eigentree")
    assert model.sequence == "id"
    found = frame(io.StringIO(answer("eigentree score hmm.eigentree steps.csv --missing ? -o -")))
    np.testing.assert_allclose(
        model.score_samples(steps.drop(columns="kind")), found["log_probability"].astype(float)
    )


def test_sequences_are_classified_compared_and_selected(here: Path, steps: pd.DataFrame) -> None:
    answer("eigentree classify train steps.csv --missing ? --sequence id -t kind --hidden 1 -o kinds.eigentree")
    facts = read_answer("eigentree classify apply kinds.eigentree steps.csv --missing ?")
    rows, kinds = steps.drop(columns="kind"), steps.groupby("id", sort=False)["kind"].first()
    model = et.JunctionTreeClassifier(et.EMHMM(1, random_state=0, sequence="id")).fit(rows, kinds.to_numpy())
    np.testing.assert_allclose(facts[["P(kind=e)", "P(kind=o)"]], model.predict_proba(rows))
    assert facts["id"].tolist() == kinds.index.tolist()
    steps.assign(kind=steps["kind"].where(steps["id"] != "p3")).to_csv("partly.csv", index=False, na_rep="?")
    assert "on 39 with a known label" in call("eigentree classify apply kinds.eigentree partly.csv --missing ?")[2]
    line = "steps.csv --missing ? --sequence id --drop kind --json"
    compared = json.loads(answer(f"eigentree compare {line} --hidden 2"))
    held_out = {each["name"]: each["held_out"] for each in compared["methods"]}
    assert (compared["sequences"], compared["held_out_sequences"]) == (32, 8)
    assert held_out["EM"] > held_out["independent"]
    selected = json.loads(answer(f"eigentree select {line} --hidden 1 2 -o chosen.eigentree"))
    assert selected["by"] == "held-out"
    assert {each["name"]: each["held_out"] for each in selected["tried"]} == pytest.approx(
        {"hmm, 1 state": held_out["independent"], "hmm, 2 states": held_out["EM"]}
    )
    assert et.load("chosen.eigentree").hidden_states == 2


@pytest.mark.parametrize("training", ["generative", "conditional --alpha 1"])
def test_steps_are_classified(here: Path, steps: pd.DataFrame, training: str) -> None:
    halves = steps.assign(half=np.where(steps.groupby("id").cumcount() % 2, "odd", "even")).drop(columns="kind")
    halves.to_csv("halves.csv", index=False, na_rep="?")
    line = "halves.csv --missing ? -t half --class-as steps -o halves.eigentree"
    answer(f"eigentree classify train {line} --sequence id --hidden 1 --training {training}")
    apply = "eigentree classify apply halves.eigentree halves.csv --missing ?"
    found = read_answer(apply)
    np.testing.assert_allclose(found["P(half=odd)"], et.load("halves.eigentree").predict_proba(halves)[:, 1])
    assert found["id"].tolist() == halves["id"].tolist()
    assert (found["half"] == halves["half"]).all()
    assert f"accuracy 100.0 % on {len(halves)} with a known label" in call(apply)[2]
    assert "name these by --sequence" in call(f"eigentree classify train {line}")[2]


# Formats, pipes and files


@pytest.mark.parametrize(
    "name", ["t.tsv", "t.jsonl", "t.parquet", "t.csv.gz", "t.tsv.bz2", "t.jsonl.xz", "t.csv.zst"]
)
def test_every_format_is_read_as_it_was_written(here: Path, name: str) -> None:
    answer(f"eigentree impute model.eigentree mushrooms.csv --missing ? -o {name}")
    answer("eigentree impute model.eigentree mushrooms.csv --missing ? -o t.csv")
    assert answer(f"eigentree score model.eigentree {name} --json") == answer(
        "eigentree score model.eigentree t.csv --json"
    )
    assert answer(f"eigentree impute model.eigentree {name}") == (here / "t.csv").read_text()


@pytest.mark.parametrize("pack", [bytes, gzip.compress, bz2.compress, lzma.compress])
def test_pipes_are_read_as_they_come(here: Path, pack: object) -> None:
    rows = (here / "mushrooms.csv").read_bytes()
    expected = answer("eigentree score model.eigentree mushrooms.csv --missing ?")
    assert answer("eigentree score model.eigentree - --missing ?", pack(rows)) == expected  # type: ignore[operator]


def test_pipes_have_the_format_of_the_option(here: Path) -> None:
    written = frame().to_json(orient="records", lines=True)
    out = answer("eigentree impute model.eigentree - --format jsonl", written.encode())
    rows = [json.loads(line) for line in out.splitlines()]
    assert [row["odor"] for row in rows] == frame()["odor"].tolist()
    assert not any(cell is None for row in rows for cell in row.values())
    assert answer("eigentree impute model.eigentree - --format jsonl --json", written.encode()) == out


def test_numbers_are_labels_as_the_model_learned_them(here: Path) -> None:
    """A column of text that holds only digits this time is still one of text, and 2.0 is the number 2."""
    rows = pd.DataFrame({"a": ["1", "2", "x", "1"] * 20, "b": ["5", "7", "7", "5"] * 20})
    rows.to_csv("mixed.csv", index=False)
    answer("eigentree fit mixed.csv --structure mixture -o mixed.eigentree")
    assert list(et.load("mixed.eigentree").columns_.labels("b")) == [5, 7]
    (here / "digits.csv").write_text("b,a\n5,1\n7.0,2\n")
    (here / "digits.jsonl").write_text('{"a": "1", "b": 5}\n{"a": "2", "b": 7}\n')
    assert answer("eigentree score mixed.eigentree digits.csv") == answer(
        "eigentree score mixed.eigentree digits.jsonl"
    )


def test_cells_stay_as_they_are_written(here: Path) -> None:
    (here / "written.csv").write_text('a,b\n"x, y",007\n,1.50\n"x, y",007\nz,\n' + "z,1.50\n" * 9)
    answer("eigentree fit written.csv --structure mixture --numeric quantiles -o written.eigentree")
    rows = list(csv.reader(io.StringIO(answer("eigentree impute written.eigentree written.csv"))))
    assert rows[1] == ["x, y", "007"]
    assert rows[2][1] == "1.50"
    assert all(all(row) for row in rows)


def test_a_file_is_written_whole_or_not_at_all(here: Path) -> None:
    (here / "kept.csv").write_text("before")
    assert call("eigentree score model.eigentree missing.csv -o kept.csv")[0] == 1
    assert (here / "kept.csv").read_text() == "before"
    names = set(os.listdir(here))
    assert call("eigentree impute model.eigentree mushrooms.csv -o nowhere/filled.csv")[0] == 1
    assert set(os.listdir(here)) == names


def test_the_same_rows_are_the_same_bytes(here: Path) -> None:
    for name in ("one.csv.gz", "two.csv.gz"):
        answer(f"eigentree sample model.eigentree -n 50 -o {name}")
    assert (here / "one.csv.gz").read_bytes() == (here / "two.csv.gz").read_bytes()


def test_a_pipe_that_is_closed_is_no_failure(here: Path) -> None:
    done = in_shell("eigentree sample model.eigentree -n 20000 | head -2")
    assert done.returncode == 0
    assert done.stdout.count(b"\n") == 2
    assert b"Traceback" not in done.stderr
    assert b"Broken" not in done.stderr


def test_an_output_that_is_closed_or_full_is_no_traceback(here: Path) -> None:
    done = in_shell("eigentree sample model.eigentree -n 2 >&-")
    assert (done.returncode, done.stderr) == (0, b"2 rows sampled\n")
    if Path("/dev/full").exists():
        done = in_shell("eigentree sample model.eigentree -n 2 > /dev/full")
        assert done.returncode == 1
        assert done.stderr.startswith(b"eigentree: standard input or output: No space left")
        assert done.stderr.count(b"\n") == 1


def test_the_command_is_there_as_a_process(here: Path) -> None:
    done = in_shell("cat mushrooms.csv | eigentree predict model.eigentree - --missing ? -t class --json | wc -l")
    assert (done.returncode, done.stdout.strip()) == (0, str(ROWS).encode())
    done = in_shell("eigentree score model.eigentree mushroom.csv")
    assert (done.returncode, done.stdout) == (1, b"")
    assert done.stderr == b"eigentree: there is no file 'mushroom.csv'; did you mean 'mushrooms.csv'?\n"
    assert in_shell("eigentree scroe").returncode == 2


# Help


def helps() -> list[list[str]]:
    """Return the arguments that show each help text."""
    subcommands = [[command.name, each] for command in COMMANDS for each in command.below]
    return [[], *([command.name] for command in COMMANDS), *subcommands]


def examples(text: str) -> list[str]:
    """Return the lines of a help text that are commands."""
    return [line.strip() for line in text.splitlines() if re.match(r"  (\S.* \| )?eigentree ", line)]


@pytest.mark.parametrize("command", helps(), ids=" ".join)
def test_every_help_text_fits_a_terminal(command: list[str]) -> None:
    code, text, errors = call(shlex.join(["eigentree", *command, "--help"]))
    assert (code, errors) == (0, "")
    assert text.startswith("Usage: eigentree")
    assert max(map(len, text.splitlines())) <= 80
    if len(command) == 1:
        assert examples(text)


ORDER = [
    "dataset",
    "fit",
    "select",
    "classify",
    "inspect",
    "goodness",
    "score",
    "predict",
    "impute",
    "decode",
    "sample",
]
ORDER += ["estimates", "three-step", "report", "compare", "count", "merge", "grammar", "hidden-tree", "completion"]


def run_in_turn(lines: list[str]) -> None:
    """Run lines as printed, without a process for each; other programs at the end of a pipe are left out."""
    for line in lines:
        head, *rest = [part.strip() for part in line.split("|")]
        if head.startswith("cat "):
            head, stdin = rest[0], Path(head.split()[1]).read_bytes()
        else:
            stdin = b""
        out, _, target = head.partition(" > ")
        text = answer(out, stdin)
        if target:
            Path(target).write_text(text)
        if made := re.fullmatch(r"eigentree dataset .*-o (\S+)", line):
            shorten(made[1])


def shorten(name: str) -> None:
    """Leave some rows and columns of a table of the package: all examples work on all of them, but take longer."""
    rows, marked = frame(name), "?" in Path(name).read_text()
    wanted = {"odor", "bruises", "habitat", "crime", "immigration", "class"}
    wanted |= {"age", "religion", "children", "education", "husband_education", "living_standard"}
    kept = [each for each in rows if each in wanted]
    rows[kept].iloc[:: len(rows) // 80].to_csv(name, index=False, na_rep="?" if marked else "")


def test_every_example_of_every_help_text_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shown = {name: call(f"eigentree {name} --help")[1] for name in ORDER}
    graph = re.search(r"^( *hidden = .*?kind = 3)$", shown["fit"], flags=re.MULTILINE | re.DOTALL)
    assert graph
    monkeypatch.chdir(tmp_path)
    run_in_turn(examples(shown["dataset"]))
    Path("graph.toml").write_text(graph.group(1))
    random = np.random.default_rng(0)
    people = random.normal([170.0, 70.0, 40.0], [9.0, 8.0, 12.0], (60, 3)).round()
    pd.DataFrame(people, columns=["height", "weight", "age"]).to_csv("people.csv", index=False)
    visits = pd.DataFrame({"patient": np.repeat(range(10), 6), "dose": random.normal(size=60).round(2)})
    visits.assign(pain=random.choice(["none", "some"], 60)).to_csv("visits.csv", index=False)
    answers = pd.DataFrame(random.choice(["yes", "no"], (60, 3)), columns=["trust", "vote", "read"])
    answers.assign(weight=random.uniform(0.5, 2.0, 60)).to_csv("interviews.csv", index=False)
    for name in ("trees.mrg", "test.mrg"):
        Path(name).write_text("(S (NP she) (VP (V sees) (NP stars)))\n" * 9)
    Path("sentences.txt").write_text("she sees stars\n")
    Path("shoots.csv").write_text("kind,parent\nstem,\nleaf,0\nbud,0\nleaf,2\n")
    Path("kin.csv").write_text("id,mother,eyes\nada,,brown\neve,ada,blue\nida,ada,brown\n")
    for name in ORDER[1:]:
        run_in_turn(examples(shown[name]))
    assert set(ORDER) == {command.name for command in COMMANDS}


def test_the_first_help_text_is_a_way_to_begin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    lines = examples(call("eigentree --help")[1])
    assert len(lines) >= 3
    assert [line.split()[1] for line in lines[:3]] == ["dataset", "fit", "predict"]


def test_every_line_of_the_page_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = (Path(__file__).parents[2] / "docs" / "how_to" / "command_line.md").read_text()
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"^```(.+?)\n(.*?)^```", page, flags=re.MULTILINE | re.DOTALL)
    assert {kind.split()[0] for kind, _ in blocks} == {"sh", "toml", "csv"}
    for kind, block in blocks:
        if kind == "sh":
            lines = block.replace("\\\n", "").splitlines()
            assert all(line.startswith(("eigentree ", "cat ")) for line in lines)
            run_in_turn(lines)
        else:
            Path("graph.toml" if kind == "toml" else kind.split()[1]).write_text(block)
    asked = {
        line.split("eigentree ")[1].split()[0]
        for kind, block in blocks
        if kind == "sh"
        for line in block.replace("\\\n", "").splitlines()
    }
    assert asked == {command.name for command in COMMANDS}


def test_help_loads_nothing_heavy() -> None:
    script = "import sys; from eigentree.cli.main import main; main(sys.argv[1:]); print(*sys.modules)"
    for arguments in (["--help"], ["fit", "--help"]):
        loaded = subprocess.run(
            [sys.executable, "-c", script, *arguments], capture_output=True, text=True, check=True
        ).stdout.split()
        assert not {"numpy", "scipy", "sklearn", "narwhals", "pandas", "pyarrow"} & set(loaded)


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_knows_commands_and_options(shell: str) -> None:
    text = answer(f"eigentree completion {shell}")
    for word in ("held-out", "structure"):
        assert word in text
    assert application().name == ("eigentree",)


def test_the_completion_of_bash_is_bash(tmp_path: Path) -> None:
    (tmp_path / "script").write_text(answer("eigentree completion bash"))
    assert subprocess.run(["bash", "-n", str(tmp_path / "script")], check=False).returncode == 0


# Errors

USAGE = [
    ("eigentree", "name a command"),
    ("eigentree fti", "did you mean 'fit'"),
    ("eigentree scores model.eigentree mushrooms.csv", "did you mean 'score'"),
    ("eigentree --hlep", ""),
    ("eigentree fit", "DATA is missing"),
    ("eigentree fit mushrooms.csv", "--output is missing"),
    ("eigentree fit mushrooms.csv -o", "-o needs a value"),
    ("eigentree fit mushrooms.csv -o --json", "--output"),
    ("eigentree fit mushrooms.csv -o -", "to a file"),
    ("eigentree fit mushrooms.csv -o ''", "--output"),
    ("eigentree fit mushrooms.csv -o m --hidden", "--hidden needs a value"),
    ("eigentree fit mushrooms.csv -o m --hidden four", "'four' is not a whole number"),
    ("eigentree fit mushrooms.csv -o m --hidden 0", "'0' is not a whole number"),
    ("eigentree fit mushrooms.csv -o m --hidden -3", "'-3' is not a whole number"),
    ("eigentree fit mushrooms.csv -o m --hiden 3", "there is no option --hiden; did you mean --hidden?"),
    ("eigentree fit mushrooms.csv -o m --structure mixtur", "did you mean 'mixture'"),
    ("eigentree fit mushrooms.csv -o m --structure banana", "there are auto, hmm"),
    ("eigentree fit mushrooms.csv -o m --structure mixture --order 2", "--order is of hmm"),
    ("eigentree fit mushrooms.csv -o m --structure own.toml --hidden 2", "--hidden is not used"),
    ("eigentree fit mushrooms.csv -o m --method spectrum", "spectral"),
    ("eigentree fit mushrooms.csv -o m --seed one", "'one' is not a whole number"),
    ("eigentree fit mushrooms.csv -o m --seed -1", "'-1' is not a whole number"),
    (
        "eigentree fit mushrooms.csv -o m --format cvs",
        "--format is csv, tsv, jsonl or parquet, not 'cvs'; did you mean 'csv'?",
    ),
    ("eigentree fit mushrooms.csv more.csv -o m", "nothing to do with 'more.csv'"),
    ("eigentree fit mushrooms.csv -o m -o n", "multiple times"),
    ("eigentree fit mushrooms.csv -o m --json=perhaps", "--json"),
    ("eigentree fit mushrooms -o m", "does not show a format"),
    ("eigentree fit mushrooms.xlsx -o m", "does not show a format"),
    ("eigentree fit counts.eigentree -o m", "--method spectral"),
    ("eigentree fit counts.eigentree --method spectral -o m", "--structure hmm"),
    ("eigentree score model.eigentree", "DATA is missing"),
    ("eigentree score model.eigentree mushrooms.csv -o scores", "does not show a format"),
    ("eigentree predict model.eigentree mushrooms.csv", "--target is missing"),
    ("eigentree impute model.eigentree mushrooms.csv --by mod", "mode"),
    ("eigentree impute model.eigentree mushrooms.csv --multiple 2 --by sample", "--by sample has no effect"),
    ("eigentree impute model.eigentree mushrooms.csv --multiple 1", "--multiple is a whole number of at least 2"),
    ("eigentree sample model.eigentree -n none", "'none' is not a whole number"),
    ("eigentree sample model.eigentree --given class", "'class' is not a column and its label"),
    ("eigentree classify", "train or apply"),
    ("eigentree classify trian mushrooms.csv", "did you mean 'train'"),
    ("eigentree classify train mushrooms.csv -o m", "--target is missing"),
    ("eigentree compare mushrooms.csv --held-out 2", "between 0 and 1"),
    ("eigentree compare mushrooms.csv --method spectral", "there is no option --method"),
    ("eigentree select mushrooms.csv --structure mixtures", "did you mean 'mixture'"),
    ("eigentree select mushrooms.csv --hidden 2 x", "'x' is not a whole number"),
    ("eigentree select mushrooms.csv --method spectral --by bic", "free parameters"),
    ("eigentree count mushrooms.csv -o c", "--structure is missing"),
    ("eigentree count mushrooms.csv --structure tree -o c", "is learned from rows"),
    ("eigentree count mushrooms.csv --like counts.eigentree --hidden 3 -o c", "--like gives the structure"),
    ("eigentree merge -o c", "name the files"),
    (
        "eigentree dataset mushroom",
        "NAME is mushrooms, votes, splice or contraceptive, not 'mushroom'; did you mean 'mushrooms'?",
    ),
    ("eigentree completion tcsh", "bash"),
    ("eigentree fit steps.csv --sequence id --structure mixture -o m", "sequences are learned by hmm"),
    ("eigentree fit steps.csv --clusters 2 -o m", "--clusters are of sequences"),
    ("eigentree fit steps.csv --durations explicit -o m", "--durations are of sequences"),
    ("eigentree fit steps.csv --inputs kind -o m", "--inputs are of sequences"),
    ("eigentree fit steps.csv --sequence id --inputs kind,kind -o m", "are not columns, such as dose,group"),
    ("eigentree fit steps.csv --sequence id --max-duration 3 -o m", "--max-duration is of --durations"),
    ("eigentree score model.eigentree mushrooms.csv --sequence id", "fit with --sequence too"),
    ("eigentree count mushrooms.csv --sequence id --structure hmm -o c", "not for sequences"),
    ("eigentree score hmm.eigentree steps.csv --id job", "identified by their column 'id'; leave --id out"),
    ("eigentree score model.eigentree mushrooms.csv --summary -o s.csv", "--summary writes no rows"),
    ("eigentree sample model.eigentree --length 3", "--length is for models of sequences"),
    ("eigentree report model.eigentree", "--output is missing"),
    ("eigentree report model.eigentree -o ''", "--output"),
    ("eigentree report model.eigentree -o m.html --training mushrooms.csv", "give both"),
    ("eigentree report model.eigentree -o m.html --data - --training -", "not both"),
    ("eigentree report model.eigentree mushrooms.csv -o m.html", "nothing to do with 'mushrooms.csv'"),
    ("eigentree report model.eigentree --data mushrooms.csv --sequence id -o m.html", "fit with --sequence too"),
    ("eigentree completion bash now", "nothing to do with 'now'"),
    (
        "eigentree predict model.eigentree mushrooms.csv --traget class",
        "no option --traget; did you mean --target?",
    ),
    ("eigentree fit mushrooms.csv --hiden 3", "there is no option --hiden; did you mean --hidden?"),
    ("eigentree fit mushrooms.csv --hiden=3 -o m", "there is no option --hiden; did you mean --hidden?"),
    ("eigentree classify train mushrooms.csv --traget=class -o m", "did you mean --target?"),
    ("eigentree reproduce fig3 --quick", "reproduce is now python -m benchmarks.paper"),
    (
        "eigentree classify fit mushrooms.csv --target class -o m",
        "there is no command 'fit'; there are 'train', 'apply'",
    ),
    ("eigentree classify --hlep", "there is no option --hlep; did you mean --help?"),
    ("eigentree --versoin", "there is no option --versoin; did you mean --version?"),
    ("eigentree fit mushrooms.csv -q 3 -o m", "there is no option -q ("),
    ("eigentree report model.eigentree --help-me", "there is no option --help-me"),
]

FAILURES = [
    ("eigentree fit mushroom.csv -o m", "did you mean 'mushrooms.csv'"),
    ("eigentree fit mushrooms.cvs -o m", "there is no file 'mushrooms.cvs'; did you mean 'mushrooms.csv'"),
    ("eigentree fit mushrooms.csv --drop clas -o m", "did you mean 'class'"),
    ("eigentree fit mushrooms.csv -o nowhere/m", "there is no folder 'nowhere'"),
    ("eigentree fit mushrooms.csv -o folder", "is a folder"),
    ("eigentree fit folder -o m --format csv", "is a folder"),
    ("eigentree fit ragged.csv -o m", "line 3 of 'ragged.csv' has 1 cells"),
    ("eigentree fit empty.csv -o m", "is empty"),
    ("eigentree fit header.csv -o m", "has no rows"),
    ("eigentree fit twice.csv -o m", "two columns 'a'"),
    ("eigentree fit latin.csv -o m", "UTF-8"),
    ("eigentree fit broken.jsonl -o m", "line 2 of 'broken.jsonl' is no JSON"),
    ("eigentree fit list.jsonl -o m", "line 1 of 'list.jsonl'"),
    ("eigentree fit broken.parquet -o m", "'broken.parquet' cannot be read; it may have been cut short"),
    ("eigentree fit cut.csv.gz -o m", "cut short"),
    ("eigentree fit numbers.csv --numeric error -o m", "--numeric quantiles"),
    ("eigentree fit unknown.csv -o m --structure mixture", "no known cell"),
    ("eigentree fit quotes.csv -o m", "quotes.csv"),
    ("eigentree fit model.eigentree -o m", "holds an EMJunctionTree"),
    ("eigentree fit mushrooms.csv -o m --structure nowhere.toml", "there is no file 'nowhere.toml'"),
    ("eigentree fit mushrooms.csv -o m --structure nowhere.bif", "there is no file 'nowhere.bif'"),
    ("eigentree fit mushrooms.csv -o m --structure broken.toml", "is no TOML"),
    ("eigentree fit mushrooms.csv -o m --structure odd.toml", "did you mean 'edges'"),
    ("eigentree fit mushrooms.csv -o m --structure typo.toml", "did you mean 'odor'"),
    ("eigentree fit mushrooms.csv -o m --structure unsized.toml", "say them under [states]"),
    ("eigentree fit mushrooms.csv -o m --structure cycle.toml", "cycle.toml"),
    ("eigentree score nowhere.eigentree mushrooms.csv", "there is no file 'nowhere.eigentree'"),
    ("eigentree score mushrooms.csv model.eigentree", "mushrooms.csv"),
    ("eigentree score mushrooms.csv mushrooms.csv", "mushrooms.csv"),
    ("eigentree score counts.eigentree mushrooms.csv", "eigentree fit counts.eigentree"),
    ("eigentree score classes.eigentree mushrooms.csv", "eigentree classify apply"),
    ("eigentree score model.eigentree renamed.csv", "did you mean 'odour'"),
    ("eigentree score model.eigentree mushrooms.csv", "--unknown missing"),
    ("eigentree score model.eigentree nowhere.csv", "there is no file 'nowhere.csv'"),
    ("eigentree predict model.eigentree mushrooms.csv --target clas", "did you mean 'class'"),
    ("eigentree predict spectral.eigentree mushrooms.csv --target h0", "--method em"),
    ("eigentree decode spectral.eigentree mushrooms.csv", "--method em"),
    ("eigentree sample model.eigentree --given oder=n", "did you mean 'odor'"),
    ("eigentree sample model.eigentree --given odor=roses", "'roses'"),
    ("eigentree sample classes.eigentree", "not a model"),
    ("eigentree inspect mushrooms.csv", "mushrooms.csv"),
    ("eigentree inspect model.eigentree --table oder", "did you mean 'odor'"),
    ("eigentree inspect spectral.eigentree --table odor", "--method em"),
    ("eigentree classify train mushrooms.csv --target clas -o m", "did you mean 'class'"),
    ("eigentree classify train mushrooms.csv --target root -o m", "no column 'root'; there are 'stalk-root', "),
    (
        "eigentree predict model.eigentree mushrooms.csv --target shape",
        "no column 'shape'; did you mean 'cap-shape'?",
    ),
    ("eigentree classify apply model.eigentree mushrooms.csv", "eigentree predict"),
    ("eigentree merge counts.eigentree model.eigentree -o c", "not counts of rows"),
    ("eigentree merge counts.eigentree other.eigentree -o c", "--like"),
    ("eigentree compare one.csv", "cannot be held out"),
    ("eigentree report classes.eigentree -o m.html", "one model per class"),
    ("eigentree report counts.eigentree -o m.html", "not a model"),
    ("eigentree report model.eigentree -o nowhere/m.html", "there is no folder 'nowhere'"),
    ("eigentree report model.eigentree --data nowhere.csv -o m.html", "there is no file 'nowhere.csv'"),
    ("eigentree report model.eigentree --data renamed.csv -o m.html", "did you mean 'odour'"),
    ("eigentree fit steps.csv --sequence idd -o m", "did you mean 'id'"),
    ("eigentree score hmm.eigentree mushrooms.csv", "has no column 'id'"),
    ("eigentree classify train steps.csv --sequence id --target job -o m", "several classes in 'job'"),
]


@pytest.fixture(scope="module")
def trouble(folder: Path, steps: pd.DataFrame) -> Path:
    """Return the folder with files that are not what they should be."""
    (folder / "folder").mkdir(exist_ok=True)
    files = {
        "mushrooms": "a,b\n1,2\n",
        "mushrooms.xlsx": "PK",
        "ragged.csv": "a,b\n1,2\n1\n",
        "empty.csv": "",
        "header.csv": "a,b\n",
        "twice.csv": "a,a\n1,2\n",
        "broken.jsonl": '{"a": 1}\n{"a": \n',
        "list.jsonl": "[1, 2]\n",
        "broken.parquet": "PAR1 and no more",
        "numbers.csv": "a\n" + "".join(f"{row / 7}\n" for row in range(40)),
        "unknown.csv": "a,b\n1,?\n2,NA\n".replace("?", ""),
        "quotes.csv": 'a,b\n"1,2\n3,4\n',
        "broken.toml": "hidden = [\n",
        "odd.toml": 'edgse = [["odor", "class"]]\n',
        "own.toml": 'edges = [["odor", "class"]]\n',
        "typo.toml": 'edges = [["oder", "class"]]\n',
        "unsized.toml": 'hidden = ["k"]\nedges = [["k", "class"]]\n',
        "cycle.toml": 'edges = [["odor", "class"], ["class", "odor"]]\n',
        "one.csv": "a,b\n1,2\n",
    }
    for name, text in files.items():
        (folder / name).write_text(text)
    (folder / "latin.csv").write_bytes("a,b\né,1\n".encode("latin-1"))
    (folder / "cut.csv.gz").write_bytes(gzip.compress(b"a,b\n" + os.urandom(4000).hex().encode())[:900])
    text = (folder / "mushrooms.csv").read_text()
    (folder / "renamed.csv").write_text(text.replace("odor", "odour", 1))
    before = Path.cwd()
    os.chdir(folder)
    answer("eigentree count mushrooms.csv --drop odor --structure mixture -o other.eigentree")
    os.chdir(before)
    return folder


def check_error(line: str, sentence: str, code: int) -> None:
    found, out, errors = call(line)
    assert (found, out) == (code, ""), errors
    assert errors.startswith("eigentree")
    assert errors.count("\n") == 1
    assert sentence in errors
    assert "Traceback" not in errors


@pytest.mark.parametrize(("line", "sentence"), USAGE)
def test_a_mistyped_command_gets_one_sentence(
    line: str, sentence: str, trouble: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(trouble)
    check_error(line, sentence, 2)


@pytest.mark.parametrize(("line", "sentence"), FAILURES)
def test_what_cannot_be_done_gets_one_sentence(
    line: str, sentence: str, trouble: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(trouble)
    names = set(os.listdir(trouble))
    check_error(line, sentence, 1)
    assert set(os.listdir(trouble)) == names, "nothing is left behind"


def test_there_are_many_errors() -> None:
    assert len({line for line, _ in USAGE + FAILURES}) >= 90


@pytest.mark.parametrize("command", [command for command in COMMANDS if not command.below])
def test_every_command_guesses_a_mistyped_option(command: object) -> None:
    code, _, errors = call(f"eigentree {command.name} --hlep")  # type: ignore[attr-defined]
    assert (code, errors.count("\n")) == (2, 1)
    assert "there is no option --hlep; did you mean --help?" in errors


HINT = "eigentree: note: column stalk-root has {} cells '?', taken as a label; --missing '?' reads them as missing"


@pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet"])
def test_marks_that_are_taken_as_labels_are_reported_once(kind: str, here: Path) -> None:
    rows = frame()
    gaps = int(rows["stalk-root"].isna().sum())
    rows = rows.fillna("?")
    {
        "csv": lambda: rows.to_csv("marked.csv", index=False),
        "jsonl": lambda: rows.to_json("marked.jsonl", orient="records", lines=True),
        "parquet": lambda: rows.to_parquet("marked.parquet"),
    }[kind]()
    for line in (
        f"eigentree count marked.{kind} --structure hmm -o m",
        f"eigentree fit marked.{kind} --structure mixture -o m --json",
        f"eigentree select marked.{kind} --structure mixture --hidden 2",
        f"eigentree classify train marked.{kind} -t class -o m",
    ):
        code, _, errors = call(line)
        assert code == 0, errors
        assert errors.splitlines().count(HINT.format(gaps)) == 1
        assert errors.count("note:") == 1
    for line in (
        f"eigentree count marked.{kind} --missing ? --structure hmm -o m",
        f"eigentree count marked.{kind} --missing none --structure hmm -o m",
        f"eigentree count marked.{kind} --structure hmm --drop stalk-root -o m",
        f"eigentree fit marked.{kind} --structure own.toml -o m",
    ):
        (here / "own.toml").write_text('edges = [["odor", "class"]]\n')
        assert "note:" not in call(line)[2], "it was given, or the column is not used"


def test_marks_in_several_columns_are_reported_by_the_one_with_most(here: Path) -> None:
    (here / "marks.csv").write_text("a,b,c\n?,?,.\n?,x,y\nz,x,y\n")
    errors = call("eigentree count marks.csv --structure mixture -o m")[2]
    assert "column a has 2 cells '?', taken as a label, as in 1 more column; --missing '?' reads them" in errors
    assert "column c has 1 cell '.', taken as a label; --missing '.' reads it as missing" in errors


def test_parquet_without_pyarrow_is_an_error_that_names_it(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    frame().to_parquet("rows.parquet")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    check_error("eigentree score model.eigentree rows.parquet", "Parquet needs pyarrow; pip install", 1)
    check_error("eigentree sample model.eigentree -o new.parquet", "pip install pyarrow", 1)
    check_error("eigentree sample model.eigentree -o new.csv.zst", "pip install pyarrow", 1)
    assert not (here / "new.parquet").exists()
    assert "mean log" in answer("eigentree score model.eigentree mushrooms.csv --missing ? --summary"), (
        "CSV needs none"
    )


def test_a_missing_file_is_no_reason_to_propose_another_of_the_same_ending(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("roses.csv", "votes.csv"):
        Path(name).touch()
    assert call("eigentree fit nope.csv -o m")[2] == "eigentree: there is no file 'nope.csv'\n"
    assert "did you mean 'votes.csv'?" in call("eigentree fit vote.csv -o m")[2]
    assert "did you mean 'votes.csv'?" in call("eigentree fit votes.cvs --format csv -o m")[2]
