"""Commands about the nodes of trees: their results are those of the library; every saved model can be inspected."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from command_line import answer, call

import eigentree as et

ABOUT = "family.csv --node name --parents mother"


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> pd.DataFrame:
    """People with their mothers by name, in no order, some of whose cells are missing."""
    monkeypatch.chdir(tmp_path)
    random = np.random.default_rng(0)
    mothers = [None if person < 3 else f"p{random.integers(person)}" for person in range(40)]
    frame = pd.DataFrame({"name": [f"p{person}" for person in range(40)], "mother": mothers})
    frame["eyes"] = random.choice(["blue", "brown"], 40)
    frame["height"] = random.normal(165, 9, 40).round(1)
    frame.loc[::7, "eyes"] = None
    frame = frame.sample(frac=1, random_state=1, ignore_index=True)
    frame.to_csv("family.csv", index=False)
    return frame


@pytest.fixture
def own(table: pd.DataFrame) -> tuple[pd.DataFrame, list[int], et.HiddenMarkovTree]:
    """The cells, the row of each node's parent, and the model of the library."""
    answer(f"eigentree hidden-tree fit {ABOUT} --seed 3 -o tree.eigentree")
    row = {name: place for place, name in enumerate(table["name"])}
    parents = [-1 if pd.isna(mother) else row[mother] for mother in table["mother"]]
    cells = table[["eyes", "height"]]
    return cells, parents, et.HiddenMarkovTree(2, random_state=3).fit(cells, parents)


def read(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


def test_results_are_those_of_the_library(table: pd.DataFrame, own: tuple) -> None:
    cells, parents, model = own
    lines = read(answer(f"eigentree hidden-tree decode tree.eigentree {ABOUT}"))
    assert [line["name"] for line in lines] == table["name"].tolist()
    assert [int(line["state"]) for line in lines] == model.predict(cells, parents).tolist()
    scores = read(answer(f"eigentree hidden-tree score tree.eigentree {ABOUT}"))
    assert [line["name"] for line in scores] == table["name"][table["mother"].isna()].tolist()
    assert np.allclose([float(line["log_probability"]) for line in scores], model.score_samples(cells, parents))
    filled = read(answer(f"eigentree hidden-tree impute tree.eigentree {ABOUT}"))
    assert [line["eyes"] for line in filled] == model.impute(cells, parents)["eyes"].tolist()
    assert [line["mother"] for line in filled] == table["mother"].fillna("").tolist()


def test_parents_may_be_rows(own: tuple) -> None:
    cells, parents, model = own
    cells.assign(above=parents).to_csv("rows.csv", index=False)
    facts = json.loads(
        answer("eigentree hidden-tree fit rows.csv --parents above --seed 3 -o rows.eigentree --json")
    )
    assert (facts["trees"], facts["nodes"]) == (3, 40)
    assert facts["mean_log_probability"] == pytest.approx(model.score(cells, parents))


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (
            "family.csv --parents mother",
            "which is no node; rows are numbered from 0",
        ),
        ("family.csv --node eyes --parents mother", "two nodes of 'family.csv' have one name in 'eyes'"),
        ("family.csv --parents mothr", "has no column 'mothr'; did you mean 'mother'?"),
        ("family.csv --parents mother --sequence name", "--sequence is of sequences"),
    ],
)
def test_errors_are_sentences(table: pd.DataFrame, line: str, message: str) -> None:
    code, out, errors = call(f"eigentree hidden-tree fit {line} -o tree.eigentree")
    assert code in (1, 2)
    assert out == ""
    assert message in errors
    assert not Path("tree.eigentree").exists()


def test_models_of_trees_and_labels_are_inspected(own: tuple) -> None:
    assert "eyes" in answer("eigentree inspect tree.eigentree")
    assert "state=1" in answer("eigentree inspect tree.eigentree --table transitions")
    et.LatentGrammar(1, random_state=0).fit(["(S (A a) (B b))"] * 20).save("grammar.eigentree")
    assert "A (1 state)" in answer("eigentree inspect grammar.eigentree")
    et.SequenceTagger(random_state=0).fit(["ab", "ba"] * 3, ["xy", "yx"] * 3).save("tagger.eigentree")
    assert "x, y" in answer("eigentree inspect tagger.eigentree")
    for name, command in (("tree", "hidden-tree"), ("grammar", "grammar")):
        code, _, errors = call(f"eigentree score {name}.eigentree family.csv")
        assert code == 1
        assert f"eigentree {command} uses it" in errors
