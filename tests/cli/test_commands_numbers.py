"""Commands on a table of categories, numbers, counts and dates: their results are those of the library."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from command_line import answer, call

import eigentree as et
from eigentree.cli.arguments import emission, kind

MODEL = "--structure mixture --hidden 2 --emissions height+weight=full visits=poisson"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a mixed table, one of sequences, and models of them."""
    made = tmp_path_factory.mktemp("numbers")
    with contextlib.chdir(made):
        people().to_csv("people.csv", index=False)
        steps().to_csv("steps.csv", index=False)
        answer(f"eigentree fit people.csv {MODEL} -o model.eigentree")
        answer("eigentree fit steps.csv --sequence who --hidden 2 -o steps.eigentree")
    return made


def people(rows: int = 240) -> pd.DataFrame:
    random = np.random.default_rng(0)
    which = random.choice(2, rows, p=[0.6, 0.4])
    found = pd.DataFrame(
        {
            "colour": np.array(["red", "blue"])[np.where(random.random(rows) < 0.85, which, 1 - which)],
            "height": np.round(np.array([165.0, 180.0])[which] + random.normal(0, 6, rows), 1),
            "visits": random.poisson(np.array([3, 25])[which]),
            "joined": pd.Timestamp("2020-01-01")
            + pd.to_timedelta(which * 500 + random.integers(0, 300, rows), "D"),
        }
    )
    found["weight"] = np.round(found.height * 0.9 - 90 + random.normal(0, 6, rows), 1)
    for place, name in enumerate(found.columns):
        found.loc[place::17, name] = None
    found["visits"] = found.visits.astype("Int64")
    return found


def steps() -> pd.DataFrame:
    random = np.random.default_rng(1)
    states = np.concatenate([np.repeat(random.permutation(2), 10) for _ in range(10)])
    kinds = np.array(["a", "b"])[np.where(random.random(200) < 0.8, states, 1 - states)]
    values = np.round(np.array([0.0, 5.0])[states] + random.normal(size=200), 3)
    return pd.DataFrame({"who": np.repeat(np.arange(10), 20), "x": values, "kind": kinds})


def model() -> et.EMJunctionTree:
    found = et.load("model.eigentree")
    assert isinstance(found, et.EMJunctionTree)
    return found


def test_fit_says_what_each_column_is(here: Path) -> None:
    code, _, errors = call(f"eigentree fit people.csv {MODEL} -o again.eigentree")
    assert code == 0
    first = "eigentree: columns: colour categorical; height, weight continuous; visits count; joined date"
    assert errors.splitlines()[0] == first
    assert {type(each).family for each in model().emissions_.values()} == {"full", "poisson", "gaussian"}
    assert ("height", "weight") in model().emissions_


def test_kinds_and_families_reach_the_model(here: Path) -> None:
    line = "eigentree fit people.csv --structure mixture --hidden 2 -o other.eigentree"
    code, _, errors = call(f"{line} --kind visits=continuous joined=categorical --emissions height=student")
    assert code == 0
    assert "height, visits, weight continuous" in errors
    assert "joined categorical" in errors
    found = et.load("other.eigentree").emissions_
    assert {name: each.family for name, each in found.items()} == {
        "height": "student",
        "visits": "gaussian",
        "weight": "gaussian",
    }
    answer(f"{line} --emissions student --drop visits joined")
    assert {each.family for each in et.load("other.eigentree").emissions_.values()} == {"student"}
    answer(f"{line} --numeric quantiles --drop joined")
    assert et.load("other.eigentree").columns_.numbers == ()


def test_numbers_are_predicted_with_intervals(here: Path) -> None:
    code, _, errors = call("eigentree predict model.eigentree people.csv -t height -o height.csv")
    rows, found = pd.read_csv("people.csv"), pd.read_csv("height.csv")
    assert code == 0
    known = rows.drop(columns="height").assign(height=None)
    np.testing.assert_allclose(found.height, model().predict(known, "height"))
    np.testing.assert_allclose(
        found[["height_5%", "height_95%"]], model().predict_quantiles(known, "height", [0.05, 0.95])
    )
    error = np.sqrt(np.mean((rows.height - found.height) ** 2))
    inside = 100 * rows.height.between(found["height_5%"], found["height_95%"])[rows.height.notna()].mean()
    assert f"root mean squared error {error:.4g} on {rows.height.notna().sum()}" in errors
    assert f"{inside:.1f} % of these inside" in errors
    answer("eigentree predict model.eigentree people.csv -t height --drop height -o again.csv")
    assert Path("again.csv").read_bytes() == Path("height.csv").read_bytes()
    answer("eigentree predict model.eigentree people.csv -t joined -o joined.csv")
    dates = pd.to_datetime(pd.read_csv("joined.csv").joined)
    assert dates.between("2019-06-01", "2022-12-31").all()


def test_categories_are_predicted_from_numbers(here: Path) -> None:
    answer("eigentree predict model.eigentree people.csv -t colour -o colour.csv")
    found = pd.read_csv("colour.csv")
    proba = np.asarray(model().predict_proba(pd.read_csv("people.csv"), "colour"))
    np.testing.assert_allclose(found[["P(colour=blue)", "P(colour=red)"]], proba)


@pytest.mark.parametrize("by", ["mode", "mean", "median", "sample"])
def test_imputed_rows_keep_known_cells(here: Path, by: str) -> None:
    answer(f"eigentree impute model.eigentree people.csv --by {by} -o filled.csv")
    rows, found = pd.read_csv("people.csv", dtype=str), pd.read_csv("filled.csv", dtype=str)
    assert found.notna().all(axis=None)
    assert (found.columns == rows.columns).all()
    for name in rows:
        known = rows[name].notna()
        assert (found[name] == rows[name])[known].all()
    # Whole numbers are written as the known ones are, which pandas has made floats.
    assert found.visits.str.fullmatch(
        r"\d+\.0" if rows.visits.str.contains(".", regex=False).any() else r"\d+"
    ).all()
    if by != "sample":
        expected = model().impute(pd.read_csv("people.csv"), method=by)
        np.testing.assert_allclose(found.height.astype(float), expected["height"].astype(float))


def test_samples_have_what_is_given(here: Path) -> None:
    given = "--given height=171.5 --given joined=2020-05-01 --given colour=red"
    answer(f"eigentree sample model.eigentree -n 20 --seed 3 {given} -o new.csv")
    found = pd.read_csv("new.csv")
    assert (found.height == 171.5).all()
    assert (found.joined == "2020-05-01").all()
    assert (found.colour == "red").all()
    assert found.weight.std() > 0
    assert pd.api.types.is_integer_dtype(found.visits)


def test_scores_are_log_densities(here: Path) -> None:
    answer("eigentree score model.eigentree people.csv -o scores.csv")
    np.testing.assert_allclose(
        pd.read_csv("scores.csv").log_probability, model().score_samples(pd.read_csv("people.csv"))
    )
    assert "mean log-likelihood" in answer("eigentree score model.eigentree people.csv --summary")


def test_inspect_shows_numbers(here: Path) -> None:
    shown = answer("eigentree inspect model.eigentree")
    assert "height+weight full" in shown
    assert "count from" in shown
    columns = json.loads(answer("eigentree inspect model.eigentree --json"))["columns"]
    heights = pd.read_csv("people.csv").height
    assert columns["height"] == {"kind": "continuous", "least": heights.min(), "most": heights.max()}
    assert columns["colour"] == ["blue", "red"]
    table = json.loads(answer("eigentree inspect model.eigentree --table height --json"))
    np.testing.assert_allclose(table["table"], model().tables_["height"].array)


def test_reports_have_every_column(here: Path) -> None:
    answer("eigentree report model.eigentree --data people.csv -o report.html")
    page = Path("report.html").read_text()
    assert all(name in page for name in pd.read_csv("people.csv"))
    assert "Densities of numbers" in page


def test_classifiers_learn_from_numbers(here: Path) -> None:
    answer(
        "eigentree classify train people.csv -t colour --hidden 1 --emissions height+weight=full -o kinds.eigentree"
    )
    _, _, errors = call("eigentree classify apply kinds.eigentree people.csv -o classified.csv")
    found, rows = pd.read_csv("classified.csv"), pd.read_csv("people.csv")
    right = (found.colour == rows.colour)[rows.colour.notna()].mean()
    assert right > 0.75
    assert f"accuracy {100 * right:.1f} %" in errors


def test_sizes_and_methods_are_compared(here: Path) -> None:
    shown = answer("eigentree select people.csv --structure mixture --hidden 1 2 --emissions visits=poisson --json")
    found = json.loads(shown)
    assert [each["failure"] for each in found["tried"]] == ["", ""]
    assert found["tried"][1]["held_out"] > found["tried"][0]["held_out"]
    shown = answer("eigentree compare people.csv --structure mixture --hidden 2 --json")
    methods = {each["name"]: each for each in json.loads(shown)["methods"]}
    assert set(methods) == {"independent", "one normal distribution", "spectral", "EM"}
    assert not any(each["failure"] for each in methods.values())
    assert methods["EM"]["held_out"] > methods["independent"]["held_out"]


def test_numbers_are_learned_spectrally_and_counted_in_parts(here: Path) -> None:
    fit = "eigentree fit people.csv --structure mixture --hidden 2 --method spectral -o spectral.eigentree"
    code, _, errors = call(f"{fit} --kind visits=continuous --emissions height=semiparametric")
    assert (code, "visits, weight continuous" in errors) == (2, False)
    code, _, errors = call(f"{fit} --emissions height=semiparametric")
    assert code == 0
    assert "height, weight continuous; visits count; joined date" in errors
    rows, model = pd.read_csv("people.csv"), et.load("spectral.eigentree")
    answer("eigentree score spectral.eigentree people.csv -o scores.csv")
    np.testing.assert_allclose(pd.read_csv("scores.csv").iloc[:, -1], model.score_samples(rows))
    answer("eigentree predict spectral.eigentree people.csv -t height -o height.csv")
    known = rows.assign(height=None)
    np.testing.assert_allclose(pd.read_csv("height.csv").height, model.predict(known, "height"))
    answer("eigentree impute spectral.eigentree people.csv --by mean -o filled.csv")
    assert pd.read_csv("filled.csv").notna().all().all()
    answer("eigentree sample spectral.eigentree -n 5 -o sampled.csv")
    assert pd.read_csv("sampled.csv").joined.str.fullmatch(r"\d{4}-\d\d-\d\d").all()
    answer("eigentree inspect spectral.eigentree")
    answer("eigentree report spectral.eigentree --data people.csv -o spectral.html")
    rows[:100].to_csv("first.csv", index=False)
    rows[100:].to_csv("rest.csv", index=False)
    answer("eigentree count first.csv --structure mixture --hidden 2 -o first.eigentree")
    answer("eigentree count rest.csv --like first.eigentree -o rest.eigentree")
    answer("eigentree merge first.eigentree rest.eigentree -o all.eigentree")
    answer("eigentree fit all.eigentree --structure mixture --hidden 2 --method spectral -o merged.eigentree")
    first = et.SpectralJunctionTree(et.zoo.Mixture(2)).fit(rows[:100]).partial_fit(rows[100:])
    np.testing.assert_array_equal(et.load("merged.eigentree").score_samples(rows), first.score_samples(rows))


def test_graphs_of_files_have_numbers(here: Path) -> None:
    Path("graph.toml").write_text(
        'hidden = ["k"]\nedges = [["k", "colour"], ["k", "height"], ["k", "visits"]]\n[states]\nk = 2\n'
    )
    answer("eigentree fit people.csv --structure graph.toml -o graph.eigentree")
    assert et.load("graph.eigentree").columns_.numbers == ("height", "visits")


def test_sequences_of_numbers(here: Path) -> None:
    answer("eigentree predict steps.eigentree steps.csv -t x -o next.csv")
    found = et.load("steps.eigentree")
    next_one = np.asarray(found.predict_next(pd.read_csv("steps.csv")))
    np.testing.assert_allclose(pd.read_csv("next.csv").x, next_one[:, 0])
    answer("eigentree sample steps.eigentree -n 3 --length 4 -o sampled.csv")
    assert pd.read_csv("sampled.csv").x.nunique() == 12
    table = json.loads(answer("eigentree inspect steps.eigentree --table x --json"))["table"]
    np.testing.assert_allclose(np.array(table)[:, 0], found.means_[:, 0])
    answer("eigentree report steps.eigentree --data steps.csv -o steps.html")


@pytest.mark.parametrize(
    ("line", "code", "words"),
    [
        ("--emissions normal", 1, "there is no family of emissions 'normal'; did you mean 'gaussian'?"),
        ("--emissions studnt", 1, "there is no family of emissions 'studnt'; did you mean 'student'?"),
        ("--emissions hight=student", 1, "'hight', which is no column; did you mean 'height'?"),
        ("--emissions height=", 2, "'height=' is not a family, nor columns and their family"),
        ("--emissions height=student --kind height=count", 2, "name 'height' twice; a column has one family"),
        ("--emissions student --kind visits=count", 2, "in place of student"),
        ("--emissions student height=full", 2, "one family of all numbers, such as student"),
        ("--emissions height+weight=student", 1, "family 'student' is of one column"),
        ("--emissions height=lognormal --kind colour=count", 1, "'colour' is no count: it holds 'blue'"),
        ("--kind height=number", 2, "there is no kind of columns 'number'"),
        ("--kind height", 2, "'height' is not a column and its kind, such as age=count"),
        ("--method spectral --emissions student", 2, "not 'student'; --method em has the other families"),
        ("--numeric quantiles --emissions student", 2, "of --numeric emissions, not of quantiles"),
        ("--numeric emission", 2, "did you mean 'emissions'?"),
    ],
)
def test_what_is_mistyped_is_a_sentence(here: Path, line: str, code: int, words: str) -> None:
    found, out, errors = call(f"eigentree fit people.csv --structure mixture {line} -o none.eigentree")
    assert (found, out) == (code, "")
    assert words in errors
    assert errors.count("\n") == 1
    assert not Path("none.eigentree").exists()


def test_cells_that_are_no_numbers_are_sentences(here: Path) -> None:
    rows = pd.read_csv("people.csv", dtype=str)
    rows.loc[3, "height"] = "tall"
    rows.to_csv("bad.csv", index=False)
    for target in ("colour", "height"):
        code, _, errors = call(f"eigentree predict model.eigentree bad.csv -t {target} -o none.csv")
        assert code == 1
        assert "row 3, column 'height' holds 'tall'" in errors
        assert "--unknown missing" in errors
        answer(f"eigentree predict model.eigentree bad.csv -t {target} --unknown missing -o some.csv")
    code, _, errors = call("eigentree sample model.eigentree --given height=tall")
    assert (code, "height is a number, and 'tall' is none" in errors) == (2, True)


def test_options_are_read() -> None:
    assert emission("student") == ((), "student")
    assert emission("a=b=student") == (("a=b",), "student")
    assert emission("height+weight=full") == (("height", "weight"), "full")
    assert kind("a=b=count") == ("a=b", "count")
    for text in ("=student", "+a=student", "a="):
        with pytest.raises(ValueError, match="is not a family"):
            emission(text)
