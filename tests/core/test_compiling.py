"""How kernels are compiled: once, quickly, anywhere, and not without a word."""

from __future__ import annotations

import ast
import importlib
import io
import pkgutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numba
import numpy as np
import pytest

import eigentree as et
from eigentree import core
from eigentree.cli.model_comparison import tried
from eigentree.core import compiling
from eigentree.counting.counts import Counts
from eigentree.counting.holdout_sample import RowSample
from eigentree.data.tables.columns import Columns
from eigentree.data.tables.rows import Rows

MODULES = [
    importlib.import_module(module.name)
    for module in pkgutil.walk_packages(core.__path__, "eigentree.core.")
    if not module.ispkg
]

needs_compiler = pytest.mark.skipif(bool(numba.config.DISABLE_JIT), reason="nothing is compiled")


def uncached(source: str, module: str = "eigentree.core.made_up") -> Any:
    """The function of some source that lies in no file, so that numba has nowhere to keep what it compiles."""
    space: dict[str, Any] = {"__name__": module}
    exec(source, space)
    return space["function"]


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__name__.rpartition(".")[2])
def test_no_kernel_assigns_to_a_slice_or_from_one(module: Any) -> None:
    """numba compiles seconds of error messages about shapes for that; a loop compiles in no time."""
    tree = ast.parse(Path(module.__file__).read_text("utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign | ast.AugAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            stored = [part for target in targets for part in ast.walk(target) if isinstance(part, ast.Subscript)]
            parts = [*stored, *([node.value] if stored else [])]
            sliced = [part for whole in parts for part in ast.walk(whole) if isinstance(part, ast.Slice)]
            assert not sliced, f"line {node.lineno}: {ast.unparse(node)}"


@needs_compiler
def test_one_row_compiles_nothing_that_many_rows_have_not() -> None:
    network = et.LatentNetwork.random(et.zoo.hmm(4, 1, 2, 3), seed=0)
    graph, operators = network.graph, network.operators
    rows = np.asfortranarray(network.sample(20, seed=0).astype(np.uint8))
    entries = {
        f"{module.__name__}.{name}": kernel
        for module in MODULES
        for name, kernel in vars(module).items()
        if hasattr(kernel, "signatures")
    }

    def everything(X: np.ndarray) -> dict[str, int]:
        codes = Rows.of(X, Columns.of(graph)).encode()
        operators.log_prob(codes)
        operators.tables(codes, [1])
        missing = codes.copy(order="F")
        missing[:, 2] = 3
        operators.draw(missing, np.random.default_rng(0))
        Counts(graph, [("x0", "x1"), ("x2",)]).update(X)
        Counts(graph, [("x0", "x1"), ("x2",)]).update(X, np.full(len(X), 0.5))
        RowSample.empty(4).update(codes, None)
        return {name: len(kernel.signatures) for name, kernel in entries.items()}

    many = everything(rows)
    assert many["eigentree.core.trees.message_passing.upward"] > 0
    assert everything(rows[:1]) == many
    assert everything(np.asfortranarray(rows[:1])) == many


@needs_compiler
@pytest.mark.parametrize("name", ["compiled", "helper", "inlined", "inlined_sum"])
def test_without_a_directory_to_cache_in_all_is_compiled_all_the_same(name: str) -> None:
    part = getattr(compiling, name)(uncached("def function(x): return 2 * x"))
    entry = uncached("def function(x): return part(x) + 1")
    entry.__globals__["part"] = part
    assert compiling.compiled(entry)(3) == 7


@needs_compiler
def test_the_package_works_where_numba_finds_no_cache_directory() -> None:
    script = """
import numba.core.caching as caching
caching.CacheImpl._locator_classes = []
import eigentree as et
import numpy as np
from eigentree.core.counting import encoding as codes
from eigentree.core import compiling
from eigentree.core.counting import group_counting as counting
from eigentree.core.trees import categorical_sampling as drawing
from eigentree.core.trees import estep as expected
from eigentree.core.trees import message_passing as messages
from eigentree.core.trees import extended_range as wide
from numba.core.dispatcher import Dispatcher
found = [kernel for module in (codes, counting, drawing, expected, messages, wide)
         for kernel in vars(module).values() if isinstance(kernel, Dispatcher)]
assert len(found) > 30
assert {type(kernel._cache).__name__ for kernel in found} == {"NullCache"}
assert not compiling.announced.kept
assert drawing.pick(np.array([[0.5], [0.5]]), 0, 2, 0.75) == 1
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def outside_of_tests(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """Standard error as a terminal shows it; pytest itself says anew at each stage of a test that this is one."""
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.delenv("PYTEST_CURRENT_TEST")
    monkeypatch.setattr(compiling.announced, "kept", True)
    return terminal


def fresh_kernel(module: str = "eigentree.core.made_up") -> Any:
    return numba.njit(uncached("def function(x): return 2 * x", module))


START = "eigentree: compiling kernels, once per installation …"


@needs_compiler
def test_a_terminal_is_told_that_kernels_are_compiled_and_for_how_long(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = outside_of_tests(monkeypatch)
    kernel = fresh_kernel()
    kernel(1)
    start, end = stream.getvalue().splitlines()
    assert start == START
    assert end.startswith("eigentree: … done in ")
    assert end.endswith(" s")
    # What is compiled is called without a word.
    kernel(1)
    assert len(stream.getvalue().splitlines()) == 2


@needs_compiler
def test_a_context_makes_one_message_of_all_that_is_compiled_inside(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = outside_of_tests(monkeypatch)

    @compiling.announced
    def work() -> None:
        with compiling.announced:
            fresh_kernel()(1)
        assert stream.getvalue() == START + "\n"
        fresh_kernel()(1)

    work()
    assert len(stream.getvalue().splitlines()) == 2
    with compiling.announced:
        pass
    assert len(stream.getvalue().splitlines()) == 2


@needs_compiler
def test_an_error_while_compiling_ends_the_message(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = outside_of_tests(monkeypatch)
    with pytest.raises(numba.TypingError):
        numba.njit(uncached("def function(x): return x.nothing"))(1)
    fresh_kernel()(1)
    assert [line == START for line in stream.getvalue().splitlines()] == [True, False] * 2


@needs_compiler
def test_others_are_not_told(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = outside_of_tests(monkeypatch)
    fresh_kernel("another_package")(1)
    assert stream.getvalue() == ""
    monkeypatch.setenv("PYTEST_CURRENT_TEST", "this")
    fresh_kernel()(1)
    assert stream.getvalue() == ""
    monkeypatch.delenv("PYTEST_CURRENT_TEST")
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    fresh_kernel()(1)
    assert sys.stderr.getvalue() == ""
    monkeypatch.setattr(sys, "stderr", None)
    fresh_kernel()(1)


@needs_compiler
def test_without_a_cache_the_message_does_not_promise_what_is_not_so(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = outside_of_tests(monkeypatch)
    compiling.compiled(uncached("def function(x): return 2 * x"))(1)
    assert "in each process, as numba finds no cache directory" in stream.getvalue()


@needs_compiler
def test_compiling_is_no_part_of_the_time_of_a_fit() -> None:
    before = compiling.announced.processor_seconds

    class Model:
        def score(self, table: object) -> float:
            return 0.0

    def fit(table: object) -> Model:
        fresh_kernel()(1)
        return Model()

    trial = tried("made up", fit, None, None)
    spent = compiling.announced.processor_seconds - before
    assert 0 <= trial["seconds"] < spent
