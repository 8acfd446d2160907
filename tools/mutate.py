"""Faults put into the code on purpose, one at a time, to see whether the tests notice.

Usage::

    python tools/mutate.py [--only PATTERN] [--jobs 2]

`tools/mutations.toml` lists the faults. Each names the function that holds it and the code to replace there,
compared as syntax: formatting and comments play no part. Faults of the compiled core, `native/…`, name their exact
text; the core is built again for each. A fault is put into a copy of the project in a temporary
folder, never the checkout, and the tests that should notice are run there. A fault is

killed
    when these tests fail, crash or do not end,
survived
    when they pass, which is an error,
gone
    when the code to replace is not found, or not once, which is an error: the list must not rot.

First the tests are run once without any fault: a test that fails anyway kills nothing. The exit code is 1 when
anything is wrong.
"""

from __future__ import annotations

import argparse
import ast
import importlib.util
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import textwrap
import threading
import time
import tomllib
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

PROJECT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(PROJECT))

from tools.core_build import build_core, environment_of  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from importlib.machinery import ModuleSpec

LIST = PROJECT / "tools" / "mutations.toml"
LEFT_OUT = (".git", ".venv", "build", ".hypothesis", ".pytest_cache", ".mypy_cache", ".ruff_cache", "results")

NATIVE = "native/"
"""Where the files of the compiled core are."""

PATIENCE = 4.0
"""How many times as long as without a fault tests may take."""

START_UP = 30.0
"""How many seconds more, for what a process does before its first test."""

CORE = threading.Lock()
"""Held while the one copy of the compiled core has a fault."""

PASSED, FAILED, BROKEN = 0, 1, 2
"""Exit codes of pytest: all passed, some failed, some could not be imported. Others are errors in the list."""


DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


@dataclass(frozen=True)
class Mutation:
    """A fault: the code to replace in a function, the tests that should notice, and why nothing can, if so.

    `function` is a qualified name, empty for what stands outside of functions and classes. `occurrence` counts from
    1 and is 0 where the code stands there once.
    """

    fault: str
    file: str
    function: str
    old: str
    new: str
    tests: tuple[str, ...]
    occurrence: int = 0

    @property
    def place(self) -> str:
        """The file and the function of the fault."""
        return f"{self.file} {self.function}".rstrip()


def same(one: object, other: object) -> bool:
    """Return whether two pieces of syntax are the same; whether a name is read or assigned to plays no part."""
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same, one, other))
    if type(one) is not type(other) or not isinstance(one, ast.AST):
        return type(one) is type(other) and one == other
    fields = (name for name in one._fields if name not in ("ctx", "kind", "type_comment"))
    return all(same(getattr(one, name, None), getattr(other, name, None)) for name in fields)


def held(definition: ast.AST) -> Iterator[ast.AST]:
    """Yield the syntax that a definition holds; definitions within it as a whole, not what they hold."""
    for child in ast.iter_child_nodes(definition):
        yield child
        if not isinstance(child, DEFINITIONS):
            yield from held(child)


def definitions(tree: ast.Module, qualified: str) -> list[ast.AST]:
    """Return the definitions of a qualified name: several for a property with a setter, the module for none."""
    found: list[ast.AST] = [tree]
    for name in qualified.split(".") if qualified else ():
        inner = [node for outer in found for node in held(outer)]
        found = [node for node in inner if isinstance(node, DEFINITIONS) and node.name == name]
    return found


def patterns(old: str, new: str) -> tuple[list[ast.AST], list[ast.AST]]:
    """Return the syntax to replace and what replaces it: one expression each, else statements."""
    if new.strip():
        try:
            return [ast.parse(f"({old}\n)", mode="eval").body], [ast.parse(f"({new}\n)", mode="eval").body]
        except SyntaxError:
            pass
    return list(ast.parse(textwrap.dedent(old)).body), list(ast.parse(textwrap.dedent(new) or "pass").body)


def occurrences(tree: ast.Module, function: str, old: list[ast.AST]) -> list[tuple[ast.AST, str, int]]:
    """Return where syntax stands in a function: its parent, the field of the parent, the position in that field."""
    return [
        (node, field, at)
        for definition in definitions(tree, function)
        for node in (definition, *(each for each in held(definition) if not isinstance(each, DEFINITIONS)))
        for field, value in ast.iter_fields(node)
        for siblings in [value if isinstance(value, list) else [value]]
        for at in range(len(siblings) - len(old) + 1)
        if same(siblings[at : at + len(old)], old)
    ]


def mutated(source: str, mutation: Mutation) -> str:
    """Return the source with the fault, formatted anew; a LookupError says how often the code is found instead."""
    if mutation.file.startswith(NATIVE):
        if (times := source.count(mutation.old)) != 1:
            raise LookupError(f"the code to replace is found {times} times in {mutation.file}")
        return source.replace(mutation.old, mutation.new)
    tree = ast.parse(source)
    old, new = patterns(mutation.old, mutation.new)
    found = occurrences(tree, mutation.function, old)
    if not max(1, mutation.occurrence) <= len(found) or (len(found) > 1) != bool(mutation.occurrence):
        raise LookupError(f"the code to replace is found {len(found)} times in {mutation.place}")
    parent, field, at = found[mutation.occurrence - 1]
    value = getattr(parent, field)
    setattr(parent, field, [*value[:at], *new, *value[at + len(old) :]] if isinstance(value, list) else new[0])
    return ast.unparse(tree)


@dataclass(frozen=True)
class Verdict:
    """What became of a fault, and whether that is as it should be."""

    word: str
    good: bool
    seconds: float = 0.0
    detail: str = ""


def mutations(pattern: str) -> list[Mutation]:
    """Return the listed faults whose file or description matches a regular expression."""
    entries = tomllib.loads(LIST.read_text("utf-8"))["mutation"]
    found = [
        Mutation(
            entry["fault"],
            entry["file"] if entry["file"].startswith(NATIVE) else f"src/eigentree/{entry['file']}",
            entry.get("function", ""),
            entry["from"],
            entry["to"],
            tuple(f"tests/{name}" for name in entry["tests"]),
            entry.get("occurrence", 0),
        )
        for entry in entries
    ]
    return [each for each in found if re.search(pattern, f"{each.file} {each.fault}")]


def copied(source: Path, target: Path) -> Path:
    """Return the copy of a project, with the core that was built for it."""
    copy = Path(shutil.copytree(source, target, ignore=lambda _, names: {n for n in names if n in LEFT_OUT}))
    shutil.copy(find_core().origin, copy / "src" / "eigentree" / "core")
    return copy


def find_core() -> ModuleSpec:
    """Return where the installed core is."""
    found = importlib.util.find_spec("eigentree.core._native")
    if found is None or found.origin is None:
        raise SystemExit("the core is not built: make test installs it")
    return found


def run_tests(project: Path, tests: Sequence[str], limit: float | None = None) -> tuple[int | None, str]:
    """Return pytest's exit code, None if it did not end in time, and what it printed."""
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "--hypothesis-seed=0", *tests]
    process = subprocess.Popen(
        command,
        cwd=project,
        env=environment_of(project / "src"),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        printed, _ = process.communicate(timeout=limit)
    except subprocess.TimeoutExpired:
        # Tests may have started processes of their own, which share the session.
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        return None, ""
    return process.returncode, printed


def without_fault(base: Path, tests: Iterable[str], jobs: int) -> dict[str, float]:
    """Return the seconds that each file of tests takes without a fault; those that fail are left out."""

    def timed(name: str) -> tuple[str, float | None]:
        start = time.monotonic()
        code, printed = run_tests(base, [name])
        seconds = time.monotonic() - start
        if code != PASSED:
            print(f"fails without a fault: {name}\n{printed[-2000:]}", flush=True)
        return name, seconds if code == PASSED else None

    with ThreadPoolExecutor(jobs) as pool:
        return {name: seconds for name, seconds in pool.map(timed, tests) if seconds is not None}


def run_with_core(base: Path, mutation: Mutation, source: str, limit: float) -> tuple[int | None, str]:
    """Return what the tests say of a core with a fault, one after the other in one copy: most of it stays built."""
    project = base.parent / "native"
    with CORE:
        if not project.exists():
            copied(base, project)
        shutil.copytree(base / NATIVE, project / NATIVE, dirs_exist_ok=True, copy_function=_copy_changed)
        (project / mutation.file).write_text(source, "utf-8")
        try:
            build_core(project, project / "build", project / "src")
        except RuntimeError as error:
            return -1, str(error)
        return run_tests(project, mutation.tests, limit)


def _copy_changed(source: str, target: str) -> str:
    """Copy a file unless its content is there already: what has an old time is not compiled again."""
    if not Path(target).exists() or Path(source).read_bytes() != Path(target).read_bytes():
        shutil.copyfile(source, target)
    return target


def judged(mutation: Mutation, base: Path, usual: dict[str, float]) -> Verdict:
    """Return what the tests say of a fault."""
    try:
        source = mutated((base / mutation.file).read_text("utf-8"), mutation)
    except (LookupError, OSError) as error:
        return Verdict("GONE", False, detail=str(error))
    if failing := [name for name in mutation.tests if name not in usual]:
        return Verdict("UNKNOWN", False, detail=f"fails without a fault: {', '.join(failing)}")
    start = time.monotonic()
    limit = PATIENCE * sum(usual[name] for name in mutation.tests) + START_UP
    if mutation.file.startswith(NATIVE):
        code, printed = run_with_core(base, mutation, source, limit)
    else:
        with tempfile.TemporaryDirectory(prefix="mutant-") as folder:
            project = copied(base, Path(folder) / "project")
            (project / mutation.file).write_text(source, "utf-8")
            code, printed = run_tests(project, mutation.tests, limit)
    seconds = time.monotonic() - start
    if code == PASSED:
        return Verdict("SURVIVED", False, seconds)
    # A signal ends pytest where a fault of compiled code writes beyond its arrays.
    if code is not None and code >= 0 and code not in (FAILED, BROKEN):
        return Verdict("UNKNOWN", False, seconds, f"pytest ended with {code}: {printed[-500:]}")
    failed = re.search(r"^(?:FAILED|ERROR) (\S+)", printed, re.MULTILINE)
    why = "in time" if code is None else f"signal {-code}" if code < 0 else failed.group(1) if failed else ""
    return Verdict("killed", True, seconds, why)


def verdicts(chosen: Sequence[Mutation], jobs: int) -> Iterator[tuple[Mutation, Verdict]]:
    """Yield what became of each fault."""
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        base = copied(PROJECT, Path(folder) / "project")
        tests = sorted({name for mutation in chosen for name in mutation.tests})
        usual = without_fault(base, tests, jobs)
        with ThreadPoolExecutor(jobs) as pool:
            yield from zip(chosen, pool.map(lambda each: judged(each, base, usual), chosen), strict=True)


def main() -> int:
    """Return 0 when all faults were killed."""
    parser = argparse.ArgumentParser(description="Put faults into a copy of the code; see whether tests notice.")
    parser.add_argument("--only", default="", metavar="PATTERN", help="faults whose file or description matches")
    parser.add_argument("--jobs", type=int, default=1, metavar="COUNT", help="faults that are tried at a time")
    asked = parser.parse_args()
    chosen = mutations(asked.only)
    wrong: list[str] = []
    words: dict[str, int] = {}
    for mutation, verdict in verdicts(chosen, asked.jobs):
        line = f"{verdict.word:<11}{verdict.seconds:6.1f} s  {mutation.place}  {mutation.fault}"
        print(f"{line}  [{verdict.detail}]" if verdict.detail else line, flush=True)
        words[verdict.word] = words.get(verdict.word, 0) + 1
        if not verdict.good:
            wrong.append(line)
    print(f"\n{len(chosen)} faults: " + ", ".join(f"{count} {word}" for word, count in sorted(words.items())))
    print("\n".join(wrong))
    return 1 if wrong or not chosen else 0


if __name__ == "__main__":
    sys.exit(main())
