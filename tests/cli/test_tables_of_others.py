"""Tables as other programs write them, and results that can be joined with them again."""

from __future__ import annotations

import io
import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from command_line import answer, call, in_shell

import eigentree as et


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a table of people, and a model of it."""
    made = tmp_path_factory.mktemp("others")
    random = np.random.default_rng(0)
    kind = random.integers(0, 2, 90)
    cities = np.array(["Köln", "Nîmes", "Łódź"])
    people = pd.DataFrame(
        {
            "name": [f"p{number:03d}" for number in range(90)],
            "city": cities[np.where(random.random(90) < 0.8, kind, 2)],
            "size": np.where(random.random(90) < 0.9, kind, 1 - kind),
            "party": np.array(["left", "right"])[kind],
        }
    )
    people.to_csv(made / "people.csv", index=False)
    line = f"eigentree fit {made}/people.csv --drop name --structure mixture --hidden 2 -o {made}/model.eigentree"
    assert call(line)[0] == 0
    return made


@pytest.fixture
def people(folder: Path) -> pd.DataFrame:
    return pd.read_csv(folder / "people.csv")


def lines(read: str) -> dict[str, str]:
    """Return a line of each command that reads a table."""
    return {
        "score": f"eigentree score model.eigentree {read}",
        "predict": f"eigentree predict model.eigentree {read} --target party",
        "decode": f"eigentree decode model.eigentree {read}",
        "impute": f"eigentree impute model.eigentree {read}",
        "report": f"eigentree report model.eigentree --data {read} -o r.html",
        "fit": f"eigentree fit {read} --drop name --structure mixture -o m.eigentree",
        "count": f"eigentree count {read} --drop name --structure mixture -o m.eigentree",
        "select": f"eigentree select {read} --drop name --structure mixture --hidden 2 --json",
        "compare": f"eigentree compare {read} --drop name --structure mixture --json",
        "classify": f"eigentree classify train {read} --drop name --target party -o m.eigentree",
    }


def without_times(text: str) -> str:
    return "\n".join(line for line in text.splitlines() if '"seconds"' not in line)


@pytest.mark.parametrize("command", list(lines("")))
def test_every_command_reads_another_delimiter_and_encoding(command: str, here: Path, people: pd.DataFrame) -> None:
    people.to_csv("bars.csv", index=False, sep="|", encoding="utf-16")
    expected = answer(lines("people.csv")[command])
    found = answer(lines("bars.csv")[command] + " --delimiter '|' --encoding utf-16")
    assert without_times(found) == without_times(expected)


@pytest.mark.parametrize("delimiter", [";", "\t", "|"])
def test_the_usual_delimiters_are_found(delimiter: str, here: Path, people: pd.DataFrame) -> None:
    people.to_csv("other.csv", index=False, sep=delimiter)
    assert answer(lines("other.csv")["score"]) == answer(lines("people.csv")["score"])


def test_an_encoding_that_does_not_fit_is_named_with_the_option(here: Path, people: pd.DataFrame) -> None:
    people.replace("Łódź", "Lyon").to_csv("latin.csv", index=False, encoding="latin-1")
    code, out, errors = call(lines("latin.csv")["score"])
    assert (code, out, errors.count("\n")) == (1, "", 1)
    assert "--encoding cp1252" in errors
    assert "Köln" in answer("eigentree impute model.eigentree latin.csv --encoding latin-1 --unknown missing")


def test_the_index_that_pandas_writes_is_left_out_with_a_note(here: Path, people: pd.DataFrame) -> None:
    people.to_csv("indexed.csv")
    code, _, errors = call(lines("indexed.csv")["fit"])
    assert code == 0
    assert "note:" in errors
    assert et.load("m.eigentree").columns_.names == ("city", "size", "party")
    assert answer(lines("indexed.csv")["score"]) == answer(lines("people.csv")["score"])


def test_numbers_of_other_countries_are_read(here: Path) -> None:
    Path("plain.csv").write_text("pay,kind\n" + "125000,a\n1500.5,b\n" * 90)
    Path("german.csv").write_text("pay;kind\n" + "125.000;a\n1.500,5;b\n" * 90)
    for name, options in (("plain", ""), ("german", " --decimal , --thousands .")):
        answer(f"eigentree fit {name}.csv{options} --numeric quantiles --structure mixture -o {name}.eigentree")
    assert et.load("german.eigentree").columns_ == et.load("plain.eigentree").columns_
    Path("english.csv").write_text('pay,kind\n"125,000",a\n"1,500",b\n' * 1 + '"125,000",a\n' * 30)
    errors = call("eigentree fit english.csv --structure mixture -o m.eigentree")[2]
    assert "with --thousands ',', or make" in errors


def test_score_writes_rows_into_a_pipe_as_predict_does(here: Path) -> None:
    done = in_shell("eigentree score model.eigentree people.csv | head -2")
    assert done.stdout.splitlines()[0] == b"row,log_probability"
    assert done.stdout.splitlines()[1].startswith(b"0,-")
    rows = pd.read_csv(io.StringIO(answer(lines("people.csv")["score"])))
    assert len(rows) == len(pd.read_csv(io.StringIO(answer(lines("people.csv")["predict"])))) == 90
    assert (
        f"mean log-likelihood {rows['log_probability'].mean():.4f} of 90 rows"
        in call(lines("people.csv")["score"])[2]
    )
    assert answer(lines("people.csv")["score"] + " --summary").startswith("mean log-likelihood ")


@pytest.mark.parametrize("command", ["score", "predict", "decode"])
def test_results_are_joined_by_the_id_of_their_row(command: str, here: Path, people: pd.DataFrame) -> None:
    line = lines("people.csv")[command]
    numbered = pd.read_csv(io.StringIO(answer(line)))
    assert numbered.columns[0] == "row"
    assert numbered["row"].tolist() == list(range(90))
    shuffled = people.sample(frac=1, random_state=0)
    shuffled.to_csv("shuffled.csv", index=False)
    named = pd.read_csv(io.StringIO(answer(line.replace("people.csv", "shuffled.csv") + " --id name")))
    assert named.columns[0] == "name"
    joined = people[["name"]].merge(named, on="name").drop(columns="name")
    pd.testing.assert_frame_equal(joined, numbered.drop(columns="row"))


def test_an_id_that_is_not_there_or_taken_is_named(here: Path) -> None:
    assert "has no column 'nmae'; did you mean 'name'?" in call(lines("people.csv")["score"] + " --id nmae")[2]
    code, _, errors = call(lines("people.csv")["predict"] + " --id party")
    assert code == 1
    assert "'party' would stand in the output twice" in errors


def test_classify_reports_accuracy_and_calls_columns_by_the_target(here: Path, people: pd.DataFrame) -> None:
    answer("eigentree classify train people.csv --drop name --target party -o c.eigentree")
    code, out, errors = call("eigentree classify apply c.eigentree people.csv --id name")
    found = pd.read_csv(io.StringIO(out))
    assert code == 0
    assert list(found.columns) == ["name", "party", "P(party=left)", "P(party=right)"]
    accuracy = (found["party"] == people["party"]).mean()
    assert f"party of 90 rows, accuracy {100 * accuracy:.1f} % on 90 with a known label" in errors
    facts = json.loads(answer("eigentree classify apply c.eigentree people.csv -o c.csv --json"))
    assert facts["accuracy"] == pytest.approx(accuracy)
    people.drop(columns="party").to_csv("unlabelled.csv", index=False)
    assert "accuracy" not in call("eigentree classify apply c.eigentree unlabelled.csv")[2]
    people.rename(columns={"party": "truth"}).to_csv("renamed.csv", index=False)
    assert (
        f"accuracy {100 * accuracy:.1f} %" in call("eigentree classify apply c.eigentree renamed.csv -t truth")[2]
    )


def test_cells_that_spreadsheets_would_run_are_escaped_and_read_again(here: Path) -> None:
    cells = ["=1+1", "@sum", "safe", "+x"] * 10
    pd.DataFrame({"a": cells, "b": ["u", "v", "u", None] * 10}).to_csv("formulas.csv", index=False)
    answer("eigentree fit formulas.csv --structure mixture -o f.eigentree")
    code, _, errors = call("eigentree impute f.eigentree formulas.csv -o filled.csv")
    assert code == 0
    assert "apostrophe" in errors
    written = Path("filled.csv").read_text()
    assert "\n'=1+1,u" in written
    assert "\nsafe,u" in written
    assert answer("eigentree score f.eigentree filled.csv") != ""
    assert answer("eigentree impute f.eigentree filled.csv -o again.csv") == ""
    assert Path("again.csv").read_text() == written
    assert json.loads(answer("eigentree impute f.eigentree formulas.csv --json").splitlines()[0])["a"] == "=1+1"


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ("--delimiter ab", "'ab' is not one character"),
        ("--delimiter ''", "'' is not one character"),
        ("--encoding utf9", "there is no encoding 'utf9'; did you mean 'utf-8'?"),
        ("--encoding klingon", "there is no encoding 'klingon', such as utf-8"),
        ("--decimal x", "--decimal"),
        ("--thousands ab", "'ab' is not one character"),
    ],
)
def test_a_wrong_way_to_read_is_an_error_of_usage(options: str, sentence: str, here: Path) -> None:
    code, out, errors = call(f"eigentree fit people.csv {options} -o m.eigentree")
    assert (code, out, errors.count("\n")) == (2, "", 1)
    assert sentence in errors


def test_a_delimiter_that_is_not_there_is_an_error(here: Path) -> None:
    code, _, errors = call("eigentree fit people.csv --delimiter ';' -o m.eigentree")
    assert code == 1
    assert "has no ';', and is one name, 'name,city,size,party'; the delimiter may be ','" in errors


def test_each_column_that_cannot_be_read_comes_with_advice_in_options(here: Path, people: pd.DataFrame) -> None:
    people.assign(number=range(1001, 1091), weight=np.arange(90) * 1.1).to_csv("numbers.csv", index=False)
    code, _, errors = call("eigentree fit numbers.csv --drop name --numeric error -o m.eigentree")
    assert code == 1
    assert "column 'number' holds 90 different whole numbers" in errors
    assert "as an identifier does; leave it out with --drop" in errors
    assert "column 'weight' looks continuous" in errors
    assert errors.count("--numeric quantiles") == 2
    assert "pandas" not in errors
    code, _, errors = call("eigentree fit numbers.csv --drop name --structure mixture -o m.eigentree")
    assert (code, "give its density as with --emissions number=gaussian" in errors) == (0, True)
    answer("eigentree fit numbers.csv --drop name --emissions number=gaussian --structure mixture -o m.eigentree")
