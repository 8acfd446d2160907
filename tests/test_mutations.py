"""The list of faults for tools/mutate.py: each still applies to the code, and names tests that are there."""

from __future__ import annotations

import tomllib
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parents[1]
FAULTS = tomllib.loads((ROOT / "tools" / "mutations.toml").read_text("utf-8"))["mutation"]


def test_every_fault_is_found_exactly_once() -> None:
    """Where code has moved or changed, move or change its fault, or leave it out with the code."""
    gone = [
        f"{each['file']}: {each['fault']}"
        for each in FAULTS
        if not (file := ROOT / "src" / "eigentree" / each["file"]).exists()
        or file.read_text("utf-8").count(each["from"]) != 1
        or each["from"] == each["to"]
    ]
    assert not gone, "\n".join(gone)


def test_every_fault_has_a_name_of_its_own_and_tests_that_exist() -> None:
    assert not [name for name, times in Counter(each["fault"] for each in FAULTS).items() if times > 1]
    for each in FAULTS:
        assert each["tests"], each["fault"]
        assert all((ROOT / "tests" / name).exists() for name in each["tests"]), each["fault"]


def test_every_package_has_faults() -> None:
    packages = {path.parent.name for path in (ROOT / "src" / "eigentree").glob("*/__init__.py")}
    assert packages <= {each["file"].split("/")[0] for each in FAULTS}
