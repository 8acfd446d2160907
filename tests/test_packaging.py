"""What is said in two places of the packaging is the same."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())


def test_the_conda_recipe_has_the_same_requirements() -> None:
    recipe = (ROOT / "recipe/meta.yaml").read_text()
    run = recipe.split("\n  run:\n")[1].split("\n\n")[0]
    stated = {line.removeprefix("    - ").replace(" ", "") for line in run.splitlines()}
    assert stated == {*PROJECT["project"]["dependencies"], f"python{PROJECT['project']['requires-python']}"}


def test_versions_of_python_that_are_named_have_wheels() -> None:
    named = re.findall(r"Python :: (3\.\d+)", " ".join(PROJECT["project"]["classifiers"]))
    built = [f"3.{tag.removeprefix('cp3').removesuffix('-*')}" for tag in PROJECT["tool"]["cibuildwheel"]["build"]]
    assert named[: len(built)] == built
    assert PROJECT["project"]["requires-python"] == f">={built[0]}"
    # The last wheel is for all versions after its own.
    (override,) = PROJECT["tool"]["scikit-build"]["overrides"]
    assert override["if"]["python-version"] == f">={built[-1]}"
