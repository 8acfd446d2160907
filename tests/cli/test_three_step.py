"""``eigentree three-step`` and ``fit --covariates``: what they print is that of the library."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path

import pandas as pd
import pytest
from command_line import answer, call

import eigentree as et

ITEMS = ["education", "husband_education", "living_standard", "media_exposure"]
OTHERS = "age children religion working husband_occupation class"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a survey, and the model of its classes."""
    made = tmp_path_factory.mktemp("survey")
    with contextlib.chdir(made):
        et.datasets.load_contraceptive(as_frame=True).frame.iloc[:400].to_csv("survey.csv", index=False)
        answer(f"eigentree fit survey.csv --drop {OTHERS} --structure mixture --hidden 2 -o classes.eigentree")
    return made


def test_tables_are_those_of_the_library(here: Path) -> None:
    survey, model = pd.read_csv("survey.csv", dtype={"husband_occupation": str}), et.load("classes.eigentree")
    text = pd.read_csv("survey.csv", dtype=str).assign(age=survey.age, children=survey.children)
    found = et.class_regression(model, text, ["age", "religion"])
    outcome = et.distal_outcomes(model, text, ["children"])
    printed = answer(
        "eigentree three-step classes.eigentree survey.csv --covariates age religion --outcomes children"
    )
    assert printed.rstrip() == f"{found!r}\n\n{outcome!r}"
    latex = answer("eigentree three-step classes.eigentree survey.csv --covariates age --two-step --as latex")
    assert latex.rstrip() == et.class_regression(model, text, ["age"], n_steps=2).to_latex().rstrip()
    other = answer("eigentree three-step classes.eigentree survey.csv --covariates age --reference 1 --as markdown")
    assert other.rstrip() == et.class_regression(model, text, ["age"]).relative_to(1).to_markdown().rstrip()


def test_json_has_estimates_and_tests(here: Path) -> None:
    asked = "eigentree three-step classes.eigentree survey.csv --outcomes children --correction none --json"
    found = json.loads(answer(asked))["outcomes"]
    naive = et.distal_outcomes(
        et.load("classes.eigentree"),
        pd.read_csv("survey.csv", dtype=dict.fromkeys(ITEMS, str)),
        ["children"],
        correction=None,
    )
    assert [each["estimate"] for each in found["estimates"]] == pytest.approx(naive.estimates.values.tolist())
    assert found["tests"][0]["statistic"] == pytest.approx(naive.tests["children"].statistic)
    assert "naive" in found["notes"][0]


def test_a_model_with_covariates_prints_its_own(here: Path) -> None:
    left_out = "children working husband_occupation class"
    how = "--structure mixture --hidden 2 --covariates age religion"
    errors = call(f"eigentree fit survey.csv --drop {left_out} {how} -o one.eigentree")[2]
    assert "age continuous" in errors
    model = et.load("one.eigentree")
    assert isinstance(model, et.LatentClassModel)
    assert list(model.coefficients_.states[1]) == ["intercept", "age", "religion: other"]
    printed = answer("eigentree three-step one.eigentree survey.csv")
    assert "one step" in printed
    assert f"{model.coefficients_[1, 1]:.4f}" in printed


@pytest.mark.parametrize(
    ("asked", "code", "words"),
    [
        ("three-step classes.eigentree survey.csv", 2, "name columns"),
        ("three-step classes.eigentree survey.csv --covariates agee", 1, "did you mean 'age'"),
        ("three-step classes.eigentree survey.csv --covariates age --reference 9", 1, "reference"),
        ("fit survey.csv --structure tree --covariates age -o x.eigentree", 2, "--structure mixture"),
    ],
)
def test_errors_say_what_to_do(here: Path, asked: str, code: int, words: str) -> None:
    found, _, errors = call(f"eigentree {asked}")
    assert found == code
    assert words in errors
