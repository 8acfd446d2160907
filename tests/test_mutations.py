"""The list of faults for tools/mutate.py: each still applies to the code, and names tests that are there."""

from __future__ import annotations

import ast
from collections import Counter
from pathlib import Path

import pytest

from tools.mutate import NATIVE, Mutation, mutated, mutations

ROOT = Path(__file__).parents[1]
FAULTS = mutations("")


def test_every_fault_is_found_exactly_once() -> None:
    """Where code has moved or changed, move or change its fault, or leave it out with the code."""
    gone = []
    for each in FAULTS:
        try:
            source = (ROOT / each.file).read_text("utf-8")
            if each.file.startswith(NATIVE):
                if mutated(source, each) == source:
                    gone.append(f"{each.fault}: nothing is replaced")
            elif ast.dump(ast.parse(mutated(source, each))) == ast.dump(ast.parse(source)):
                gone.append(f"{each.fault}: nothing is replaced")
        except (LookupError, OSError, SyntaxError) as error:
            gone.append(f"{each.fault}: {error}")
    assert not gone, "\n".join(gone)


def test_every_fault_has_a_name_of_its_own_and_tests_that_exist() -> None:
    assert not [name for name, times in Counter(each.fault for each in FAULTS).items() if times > 1]
    for each in FAULTS:
        assert each.tests, each.fault
        assert all((ROOT / name).exists() for name in each.tests), each.fault


def test_every_package_has_faults() -> None:
    packages = {path.parent.name for path in (ROOT / "src" / "eigentree").glob("*/__init__.py")} - {"core"}
    assert packages <= {each.file.split("/")[2] for each in FAULTS if not each.file.startswith(NATIVE)}


def test_every_loop_of_the_core_has_faults() -> None:
    loops = {f"{NATIVE}{path.name}" for path in (ROOT / NATIVE).glob("*_loops.cpp")}
    assert loops <= {each.file for each in FAULTS}


SOURCE = """
limit = min(1, 2)

class Table:
    @property
    def size(self):
        return min( self.a ,
                    1)  # a comment

    @size.setter
    def size(self, value):
        def inner(): return min(self.a, 1)
        if value: self.a = value
        elif limit: self.a = min(limit, 2); self.b = f"{min(limit, 2)}"
"""


def changed(function: str, old: str, new: str, occurrence: int = 0) -> list[str]:
    """The lines that a fault leaves in place of others."""
    before = ast.unparse(ast.parse(SOURCE)).splitlines()
    after = mutated(SOURCE, Mutation("", "file", function, old, new, (), occurrence)).splitlines()
    return [line.strip() for line in after if line not in before]


def test_code_is_found_by_its_function_and_syntax() -> None:
    assert changed("", "min(1, 2)", "3") == ["limit = 3"]
    assert changed("Table.size", "min(self.a,1)", "self.a or 1") == ["return self.a or 1"]
    assert changed("Table.size.inner", "min(self.a, 1)", "2") == ["return 2"]
    assert changed("Table.size", "limit", "not limit", 1) == ["elif not limit:"]
    assert changed("Table.size", "min(limit, 2)", "2", 2) == ["self.b = f'{2}'"]
    assert changed("Table.size", "self.a = value", "") == ["pass"]
    assert changed("Table.size", "self.a = min(limit, 2)\nself.b = f'{min(limit, 2)}'", "return") == ["return"]


@pytest.mark.parametrize(
    ("function", "old", "occurrence"), [("", "self.a", 0), ("Table.size", "limit", 0), ("size", "limit", 1)]
)
def test_code_that_is_not_found_once_is_reported(function: str, old: str, occurrence: int) -> None:
    with pytest.raises(LookupError, match=r"is found \d+ times in file"):
        changed(function, old, "3", occurrence)
