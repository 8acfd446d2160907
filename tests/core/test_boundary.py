"""The boundary of the compiled core: damaged arguments end in an error or a result, never outside an array.

`boundary_examples` has valid calls of every function; here one argument at a time is damaged, or several. Under
`make sanitize` every reading or writing outside an array ends the run, and so does every overflow.
"""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys
import threading
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
    way = random.integers(9)
    if way < 3 and array.size:
        # A number within the range of its type that may lead anywhere.
        wrong = array.copy()
        for _ in range(random.integers(1, 4)):
            place = tuple(random.integers(size) for size in array.shape)
            if array.dtype.kind == "f":
                wrong[place] = random.choice(FLOATS)
            elif array.dtype.kind in "iu":
                bounds = np.iinfo(array.dtype)
                moved = int(wrong[place]) + int(random.choice([-1, 1, 2, 100]))
                wrong[place] = max(bounds.min, min(bounds.max, moved))
                if random.random() < 0.5:
                    # Python's numbers: numpy's own would be rounded.
                    wrong[place] = max(bounds.min, min(bounds.max, NUMBERS[random.integers(len(NUMBERS))]))
            else:
                wrong[place] = not wrong[place]
                if random.random() < 0.5:
                    # Flags are bytes, which need not be 0 or 1.
                    wrong.view(np.uint8)[place] = 2
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
    if way == 8:
        return unaligned(array)
    return array[..., None]


def unaligned(array: np.ndarray) -> np.ndarray:
    """The same numbers, none of which stands at a multiple of its size."""
    copy = np.zeros(array.nbytes + 1, np.uint8)[1:].view(array.dtype).reshape(array.shape)
    copy[...] = array
    return copy


def share_memory(arguments: list[Any], random: np.random.Generator) -> None:
    """Let two arrays begin at the same place or near it, so that what is written can change what was checked."""
    places = [k for k, argument in enumerate(arguments) if isinstance(argument, np.ndarray) and argument.size]
    if len(places) < 2:
        return
    chosen = random.choice(places, 2, replace=False)
    memory = np.zeros(sum(arguments[k].nbytes for k in chosen) + 64, np.uint8)
    for k in chosen:
        array, start = arguments[k], 8 * int(random.integers(3))
        arguments[k] = memory[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
        arguments[k][...] = array


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
            if random.random() < 0.3:
                share_memory(wrong, random)
            done += 1
            try:
                function(*wrong)
            except (TypeError, ValueError, MemoryError):
                refused += 1
    assert 0 < refused < done


def test_what_is_written_shares_no_memory_with_what_leads_to_places() -> None:
    numbers = np.arange(5)
    with pytest.raises(ValueError, match="share memory"):
        _native.fingerprints(np.zeros(9, np.uint8), numbers, numbers[1:].view(np.uint64))
    matrix = np.zeros((7, 7), np.int64)
    with pytest.raises(ValueError, match="share memory"):
        _native.add_common_bits(np.ones((5, 9), np.uint64), matrix[0, :5], matrix)


def test_numbers_that_are_not_aligned_are_refused() -> None:
    with pytest.raises(TypeError):
        _native.hash_rows(np.zeros((1, 9), np.uint8), unaligned(np.zeros(9, np.uint64)))
    with pytest.raises(TypeError):
        _native.encode_column(unaligned(np.zeros(9, np.int64)), 1, np.empty(9, np.uint8))


def test_any_byte_but_0_is_a_flag() -> None:
    found = []
    for flags in (np.array([True, False]), np.array([2, 0], np.uint8).view(np.bool_)):
        matrix, states = np.zeros((4, 4), np.int64), np.array([2, 2])
        codes = np.array([[0, 1, 1], [1, 0, 1]], np.uint8)
        _native.count_pairs(codes, np.ones(3, np.int64), flags, states, np.array([0, 2]), states, matrix)
        found.append(matrix)
    assert (found[0] == found[1]).all()


def test_rows_without_columns_take_no_time_and_no_memory() -> None:
    many, none = 2**60, np.empty(0, np.int64)
    empty, flags = np.empty((0, many), np.uint8), np.empty(0, np.bool_)
    _native.encode_rows(empty.T, 0, none, empty, flags)
    tree = _native.OperatorTree(none, np.array([[1, 0, 0, 1]]), none, none, np.zeros((1, 4), np.int64), np.ones(1))
    rows = 2**50
    _native.tree_draw(tree, empty[:, :rows].copy(), np.empty((rows, 0)))
    _native.tree_tables(tree, empty[:, :rows].copy(), none, np.empty((rows, 0)))
    counter = _native.GroupCounter(np.zeros(1, np.int64), none, none, np.zeros(1, np.int64))
    for _ in range(9):
        counter.add(empty)


def test_another_instruction_set_may_be_chosen_during_a_call() -> None:
    random, sets, best = np.random.default_rng(0), _native.all_instructions(), _native.instructions()
    done = threading.Event()

    def choose() -> None:
        while not done.is_set():
            for name in sets:
                _native.use_instructions(name)

    other = threading.Thread(target=choose)
    other.start()
    try:
        for _ in range(20):
            for function, arguments in examples_of("message_passing").examples(random):
                function(*arguments)
    finally:
        done.set()
        other.join()
        _native.use_instructions(best)


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
