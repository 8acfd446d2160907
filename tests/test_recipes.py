"""The recipes for other engines learn a bit-identical model; `make recipes` installs these engines."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from counted_arrays import arrays_of

import eigentree as et

RECIPES = Path(__file__).parents[1] / "docs" / "how_to" / "recipes"
LEARN = """
import sys
sys.path.insert(0, {recipes!r})
import {recipe}
{recipe}.main({folder!r}).statistics_.save({saved!r})
"""


@pytest.mark.parametrize(("recipe", "package"), [("spark", "pyspark"), ("ray_data", "ray")])
def test_a_recipe_counts_as_one_table(recipe: str, package: str, tmp_path: Path) -> None:
    if find_spec(package) is None:
        pytest.skip(f"{package} is not installed: `make recipes` runs this")
    graph = et.zoo.hmm(length=6, order=1, hidden_states=2, observed_states=3)
    rows = et.LatentNetwork.random(graph, seed=0).sample(4_000, seed=1)
    table = pd.DataFrame(rows, columns=[f"month {t}" for t in range(6)])
    folder, saved = tmp_path / "rows", tmp_path / "statistics"
    folder.mkdir()
    for number in range(4):
        table[number * 1000 : (number + 1) * 1000].to_parquet(folder / f"{number}.parquet")
    code = LEARN.format(recipes=str(RECIPES), recipe=recipe, folder=str(folder), saved=str(saved))
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable}
    subprocess.run([sys.executable, "-c", code], check=True, env=environment, timeout=600)
    found, wanted = et.Statistics.load(saved), et.Statistics.of(table, et.zoo.HMM(order=1, hidden_states=2))
    assert found.columns == wanted.columns
    for name, array in arrays_of(wanted).items():
        if name != "columns":  # which shows what the rows came in
            np.testing.assert_array_equal(arrays_of(found)[name], array, err_msg=name)
