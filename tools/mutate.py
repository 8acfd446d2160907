"""Faults put into the code on purpose, one at a time, to see whether the tests notice.

Usage::

    python tools/mutate.py [--only PATTERN] [--jobs 2]

`tools/mutations.toml` lists the faults. Each is put into a copy of the project in a temporary folder, never the
checkout, and the tests that should notice are run there. A fault is

killed
    when these tests fail or do not end,
survived
    when they pass, which is an error unless the fault says why nothing could notice (`equivalent`),
gone
    when the text to replace is not found exactly once, which is an error: the list must not rot.

First the tests are run once without any fault: a test that fails anyway kills nothing, and all copies find what was
compiled then. The exit code is 1 when anything is wrong.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import tomllib
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

PROJECT = Path(__file__).resolve().parent.parent
LIST = PROJECT / "tools" / "mutations.toml"
LEFT_OUT = (".git", ".venv", ".hypothesis", ".pytest_cache", ".mypy_cache", ".ruff_cache", "results")

PATIENCE = 4.0
"""How many times as long as without a fault tests may take."""

COMPILING = 120.0
"""How many seconds more, for what has to be compiled anew."""

PASSED, FAILED, BROKEN = 0, 1, 2
"""Exit codes of pytest: all passed, some failed, some could not be imported. Others are mistakes in the list."""


@dataclass(frozen=True)
class Mutation:
    """A fault: what to replace by what in a file, the tests that should notice, and why nothing can, if so."""

    fault: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]
    equivalent: str = ""

    @property
    def place(self) -> str:
        """The file and the line of the fault, as an editor finds it; no line where the text is gone."""
        text = (PROJECT / self.file).read_text("utf-8")
        line = f":{text[: text.index(self.old)].count(chr(10)) + 1}" if self.old in text else ""
        return f"{self.file}{line}"


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
            f"src/eigentree/{entry['file']}",
            entry["from"],
            entry["to"],
            tuple(f"tests/{name}" for name in entry["tests"]),
            entry.get("equivalent", ""),
        )
        for entry in entries
    ]
    return [each for each in found if re.search(pattern, f"{each.file} {each.fault}")]


def copied(source: Path, target: Path) -> Path:
    """Return the copy of a project; times are kept, so that what was compiled is still found valid."""
    return Path(shutil.copytree(source, target, ignore=lambda _, names: {n for n in names if n in LEFT_OUT}))


def run_tests(project: Path, tests: Sequence[str], limit: float | None = None) -> tuple[int | None, str]:
    """Return pytest's exit code, None if it did not end in time, and what it printed."""
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "--hypothesis-seed=0", *tests]
    process = subprocess.Popen(
        command,
        cwd=project,
        env=os.environ | {"PYTHONPATH": str(project / "src")},
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


def forget_compiled(project: Path, file: str) -> None:
    """Remove what numba compiled of a kernel and its callers: of these it looks at their own file only."""
    kernels = project / "src" / "eigentree" / "kernels"
    sources = {path.stem: path.read_text("utf-8") for path in kernels.glob("*.py")}
    stale = [Path(file).stem]
    for stem in stale:
        stale += [other for other, text in sources.items() if f"kernels.{stem} " in text and other not in stale]
        for kept in (kernels / "__pycache__").glob(f"{stem}.*.nb[ic]"):
            kept.unlink()


def judged(mutation: Mutation, base: Path, usual: dict[str, float]) -> Verdict:
    """Return what the tests say of a fault."""
    text = (base / mutation.file).read_text("utf-8")
    if text.count(mutation.old) != 1 or mutation.old == mutation.new:
        return Verdict("GONE", False, detail=f"the text to replace is found {text.count(mutation.old)} times")
    if failing := [name for name in mutation.tests if name not in usual]:
        return Verdict("UNKNOWN", False, detail=f"fails without a fault: {', '.join(failing)}")
    with tempfile.TemporaryDirectory(prefix="mutant-") as folder:
        project = copied(base, Path(folder) / "project")
        (project / mutation.file).write_text(text.replace(mutation.old, mutation.new), "utf-8")
        if "/kernels/" in mutation.file:
            forget_compiled(project, mutation.file)
        start = time.monotonic()
        limit = PATIENCE * sum(usual[name] for name in mutation.tests) + COMPILING
        code, printed = run_tests(project, mutation.tests, limit)
        seconds = time.monotonic() - start
    if code == PASSED:
        return Verdict("equivalent" if mutation.equivalent else "SURVIVED", bool(mutation.equivalent), seconds)
    if code not in (None, FAILED, BROKEN):
        return Verdict("UNKNOWN", False, seconds, f"pytest ended with {code}: {printed[-500:]}")
    if mutation.equivalent:
        return Verdict("KILLED", False, seconds, "but it is marked as equivalent; remove the mark")
    failed = re.search(r"^(?:FAILED|ERROR) (\S+)", printed, re.MULTILINE)
    return Verdict("killed", True, seconds, "in time" if code is None else failed.group(1) if failed else "")


def verdicts(chosen: Sequence[Mutation], jobs: int) -> Iterator[tuple[Mutation, Verdict]]:
    """Yield what became of each fault."""
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        base = copied(PROJECT, Path(folder) / "project")
        tests = sorted({name for mutation in chosen for name in mutation.tests})
        usual = without_fault(base, tests, jobs)
        with ThreadPoolExecutor(jobs) as pool:
            yield from zip(chosen, pool.map(lambda each: judged(each, base, usual), chosen), strict=True)


def main() -> int:
    """Return 0 when all faults were killed, or nothing could notice them."""
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
