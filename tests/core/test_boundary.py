"""The boundary of the compiled core: damaged arguments end in an error or a result, never outside an array.

`boundary_examples` has valid calls of every function; here one argument at a time is damaged, or several. Under
`make sanitize` every reading or writing outside an array ends the run, and so does every overflow.
"""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import eigentree
from eigentree.core import _native
from tools.core_build import environment_of

FOLDER = Path(__file__).parent / "boundary_examples"
PHASES = sorted(path.stem for path in FOLDER.glob("[a-z]*.py"))
ROUNDS = 60
"""Damaged calls of each example."""

NUMBERS = (-1, 0, 1, 2, 7, 255, 256, 65_535, 2**31, 2**32, 2**62, 2**63 - 1, -(2**63))
FLOATS = (0.0, -1.0, 1e308, -1e308, 5e-324, float("nan"), float("inf"))

Call = tuple[Callable[..., object], tuple[object, ...]]


def examples_of(phase: str) -> ModuleType:
    specification = importlib.util.spec_from_file_location(f"boundary_examples_{phase}", FOLDER / f"{phase}.py")
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


def calls(phase: str, seed: int) -> Iterator[Call]:
    yield from examples_of(phase).examples(np.random.default_rng(seed))


def damaged_array(array: np.ndarray, random: np.random.Generator) -> Any:
    """Another array in place of a valid one: other values, shape, order, type, or memory."""
    way = random.integers(8)
    if way < 3 and array.size:
        # A number within the range of its type that may lead anywhere.
        wrong = array.copy()
        for _ in range(random.integers(1, 4)):
            place = tuple(random.integers(size) for size in array.shape)
            if array.dtype.kind == "f":
                wrong[place] = random.choice(FLOATS)
            elif array.dtype.kind in "iu":
                bounds = np.iinfo(array.dtype)
                wrong[place] = np.clip(
                    int(wrong[place]) + int(random.choice([-1, 1, 2, 100])), bounds.min, bounds.max
                )
                if random.random() < 0.5:
                    # Python's numbers: numpy's own would be rounded.
                    wrong[place] = max(bounds.min, min(bounds.max, NUMBERS[random.integers(len(NUMBERS))]))
            else:
                wrong[place] = not wrong[place]
        return wrong
    if way == 3 and array.ndim:
        axis = random.integers(array.ndim)
        return np.ascontiguousarray(np.take(array, range(random.integers(array.shape[axis] + 1)), axis))
    if way == 4 and array.ndim:
        return np.concatenate([array, array])
    if way == 5:
        return array.astype(random.choice(["f4", "f8", "i8", "u1", "u2", "u4", "i4", "?"]))
    if way == 6 and array.ndim:
        return np.asfortranarray(array)[::-1] if array.size else array.reshape(-1)
    if way == 7 and random.random() < 0.5:
        return np.empty((0,) * array.ndim, array.dtype)
    return array[..., None]


def damaged(argument: object, random: np.random.Generator) -> object:
    if isinstance(argument, np.ndarray):
        with np.errstate(all="ignore"):
            return damaged_array(argument, random)
    if isinstance(argument, bool):
        return not argument
    if isinstance(argument, int):
        return NUMBERS[random.integers(len(NUMBERS))]
    if isinstance(argument, float):
        return FLOATS[random.integers(len(FLOATS))]
    return None


@pytest.mark.parametrize("phase", PHASES)
def test_examples_are_valid(phase: str) -> None:
    done = 0
    for function, arguments in calls(phase, 0):
        function(*arguments)
        done += 1
    assert done


@pytest.mark.usefixtures("instructions")
@pytest.mark.parametrize("phase", PHASES)
def test_damaged_arguments_end_in_an_error_or_a_result(phase: str) -> None:
    refused = done = 0
    for number in range(ROUNDS):
        random = np.random.default_rng([number, len(phase)])
        for function, arguments in calls(phase, number):
            wrong = list(arguments)
            for _ in range(random.integers(1, 3)):
                place = random.integers(len(wrong))
                wrong[place] = damaged(wrong[place], random)
            done += 1
            try:
                function(*wrong)
            except (TypeError, ValueError, MemoryError):
                refused += 1
    assert 0 < refused < done


def test_every_function_of_the_core_has_an_example() -> None:
    called = {function for phase in PHASES for function, _ in calls(phase, 0)}
    names = {getattr(function, "__name__", "") for function in called}
    about = {"instructions", "all_instructions", "use_instructions"}
    functions = {name for name in dir(_native) if callable(getattr(_native, name)) and not name.startswith("_")}
    assert functions - about <= names


def test_a_package_without_its_core_says_how_to_build_it(tmp_path: Path) -> None:
    shutil.copytree(
        Path(eigentree.__file__).parent,
        tmp_path / "eigentree",
        ignore=lambda _, names: [name for name in names if name.startswith("_native.") or name == "__pycache__"],
    )
    command = [sys.executable, "-c", "import eigentree; eigentree.HMM"]
    done = subprocess.run(command, env=environment_of(tmp_path), capture_output=True, text=True, check=False)
    assert "eigentree's compiled core is not here" in done.stderr.splitlines()[-1]
    assert "pip install ." in done.stderr
