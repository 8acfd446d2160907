"""Names and labels come from files of anybody: no command prints what a terminal would obey."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import pytest
from command_line import call

import eigentree as et

if TYPE_CHECKING:
    from pathlib import Path

HOSTILE = ["\x1b[2J\x1b[31m", "\u202egpj.exe", "\x9b31m", "\x07", "\U000e0041"]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    random = np.random.default_rng(0)
    frame = pd.DataFrame({f"{name}{k}": random.choice(HOSTILE, 60) for k, name in enumerate(HOSTILE)})
    folder = tmp_path_factory.mktemp("hostile")
    frame.to_csv(folder / "rows.csv", index=False)
    et.LatentClassModel(2, n_init=1, random_state=0, max_iter=200).fit(frame).save(folder / "model")
    return folder


@pytest.mark.parametrize(
    "line",
    [
        "inspect {0}/model",
        "inspect {0}/model --json",
        "inspect {0}/model --table h",
        "inspect {0}/model --table \x1b",
        "estimates {0}/model {0}/rows.csv",
        "estimates {0}/model {0}/rows.csv --json",
        "estimates {0}/model {0}/rows.csv --format latex",
        "goodness {0}/model {0}/rows.csv",
        "predict {0}/model {0}/rows.csv --target \x1b",
        "inspect {0}/\x1b",
        "\x1b",
    ],
)
def test_nothing_that_terminals_obey_is_printed(model: Path, line: str) -> None:
    code, out, errors = call(f"eigentree {line.format(model)}")
    for text in (out, errors):
        assert all(letter.isprintable() or letter == "\n" for letter in text), text
    if code == 0 and "--json" in line:
        assert json.dumps(HOSTILE[0])[1:-1] in out
