"""Results that are written batch by batch: rows keep their numbers, and identifying a row changes no result."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import eigentree as et

CODES = et.LatentNetwork.random(et.zoo.mixture(4, 2, 3), seed=0).sample(230, seed=1)
TABLE = pd.DataFrame(np.array(list("abc"))[CODES], columns=list("wxyz"))


@pytest.fixture(scope="module")
def model() -> et.EMJunctionTree:
    return et.EMJunctionTree(et.zoo.Mixture(2), random_state=0).fit(TABLE)


def test_rows_are_numbered_through_all_batches(model: et.EMJunctionTree, tmp_path: Path) -> None:
    batches = (TABLE[start : start + 60] for start in range(0, len(TABLE), 60))
    model.score_samples_to(batches, tmp_path / "scores.csv", id="row")
    assert pd.read_csv(tmp_path / "scores.csv")["row"].tolist() == list(range(len(TABLE)))


def test_a_column_of_the_model_may_identify_rows(model: et.EMJunctionTree, tmp_path: Path) -> None:
    model.score_samples_to(TABLE, tmp_path / "scores.csv", id="x")
    found = pd.read_csv(tmp_path / "scores.csv")
    assert found["x"].tolist() == TABLE["x"].tolist()
    np.testing.assert_allclose(found["log_probability"], model.score_samples(TABLE), rtol=1e-12)
