"""What a stranger gets: the wheel in a fresh environment, and there every page as printed and every command.

    make wheel-test                                   # builds the wheel, installs it with pip, ten minutes
    python tools/wheel_test.py -k tutorials           # some pages only; --keep keeps the folder

The tests of the pages and of the command line run beside a copy of the pages, where there is no source of the
package: they hold what a page prints against what it says, and mistype commands. Then every command runs as a
process of its own on the mushrooms of the package, with ``?`` for a missing cell.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]

COPIED = ("README.md", "Makefile", "docs", "benchmarks/RESULTS.md", "CHANGELOG.md", "CONTRIBUTING.md")
COPIED += ("ARCHITECTURE.md", "CITATION.cff", "LICENSE")
"""The pages, and what they have links to."""

TESTS = ("test_readme.py", "cli/test_commands.py", "command_line.py", "shared_files.py")

EXTRAS = "plots,streams,dask"

BESIDE = ("pandas", "polars", "networkx", "duckdb", "pgmpy", "hmmlearn", "stepmix", "pytest")
"""What pages import beside the package and its extras, and what runs them."""

COMMANDS = """\
eigentree dataset mushrooms --missing '?' -o mushrooms.csv
eigentree fit mushrooms.csv --missing '?' --structure mixture --hidden 3 -o model.eigentree
eigentree fit mushrooms.csv --missing '?' --structure tree --method spectral -o spectral.eigentree
eigentree inspect model.eigentree
eigentree score model.eigentree mushrooms.csv --missing '?' -o scores.csv
eigentree predict model.eigentree mushrooms.csv --missing '?' --target class -o predicted.csv
eigentree decode model.eigentree mushrooms.csv --missing '?' -o decoded.csv
eigentree impute model.eigentree mushrooms.csv --missing '?' -o filled.csv
eigentree report model.eigentree --data mushrooms.csv --missing '?' -o report.html
eigentree sample model.eigentree -n 5 --given class=e
cat mushrooms.csv | eigentree impute model.eigentree - --missing '?' | eigentree score model.eigentree -
eigentree predict model.eigentree mushrooms.csv --missing '?' --target class --json | head -3
eigentree compare mushrooms.csv --missing '?' --structure mixture --hidden 2
eigentree select mushrooms.csv --missing '?' --structure mixture --hidden 2 3 -o best.eigentree
eigentree classify train mushrooms.csv --missing '?' --target class --hidden 2 -o classes.eigentree
eigentree classify apply classes.eigentree mushrooms.csv --missing '?' -o classes.csv
eigentree count mushrooms.csv --missing '?' --structure mixture --hidden 2 -o first.eigentree
eigentree count mushrooms.csv --missing '?' --like first.eigentree -o second.eigentree
eigentree merge first.eigentree second.eigentree -o all.eigentree
eigentree fit all.eigentree --structure mixture --hidden 2 --method spectral -o twice.eigentree
eigentree completion bash > completion.bash
eigentree --help
"""
"""Every command."""


def main() -> None:
    """Build, install, run; end with 1 where anything failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "-k", dest="chosen", default="", help="the tests of pages and commands to run, as of pytest"
    )
    parser.add_argument("--keep", action="store_true", help="leave the folder where it is")
    asked = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="eigentree-wheel-"))
    try:
        environment = installed(folder)
        failed = run_tests(folder, environment, asked.chosen) + run_commands(folder, environment)
    finally:
        if asked.keep:
            print(f"kept: {folder}")
        else:
            shutil.rmtree(folder, ignore_errors=True)
    if failed:
        sys.exit("failed: " + ", ".join(failed))
    print("all ran as printed")


def installed(folder: Path) -> dict[str, str]:
    """Return the surroundings of a process in a fresh environment with the wheel, and nothing of the repository."""
    run = [sys.executable, "-m"]
    subprocess.run([*run, "pip", "wheel", "--quiet", "--no-deps", "-w", folder, ROOT], check=True)
    (wheel,) = folder.glob("*.whl")
    print(f"{wheel.name}: {wheel.stat().st_size:,} bytes", flush=True)
    subprocess.run([*run, "venv", folder / "venv"], check=True)
    python = folder / "venv" / "bin" / "python"
    what = [f"{wheel}[{EXTRAS}]", *BESIDE]
    subprocess.run([python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *what], check=True)
    surroundings = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    return surroundings | {"PATH": f"{python.parent}:{os.environ['PATH']}", "VIRTUAL_ENV": str(folder / "venv")}


def run_tests(folder: Path, environment: dict[str, str], chosen: str) -> list[str]:
    """Run the tests of pages and commands on copies of the pages; return their name if any failed."""
    place = folder / "project"
    (place / "tests" / "cli").mkdir(parents=True)
    for name in COPIED:
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
        (place / name).parent.mkdir(exist_ok=True)
        copy(ROOT / name, place / name)
    for name in TESTS:
        shutil.copy(ROOT / "tests" / name, place / "tests" / name)
    if (ROOT.parent / "shared").exists():
        (folder / "shared").symlink_to(ROOT.parent / "shared")
    pytest = ["python", "-m", "pytest", "-q", "-ra", "-W", "error", "-p", "no:cacheprovider"]
    pytest += ["-o", "pythonpath=tests", "tests", "-k", chosen]
    return timed("the tests of pages and commands", pytest, place, environment, shown=True)


def run_commands(folder: Path, environment: dict[str, str]) -> list[str]:
    """Run the commands by a shell, each by itself; return those that failed."""
    place = folder / "commands"
    place.mkdir()
    failed = []
    for line in COMMANDS.splitlines():
        failed += timed(line, ["bash", "-c", f"set -o pipefail; {line}"], place, environment)
    return failed


def timed(
    name: str, command: list[str], place: Path, environment: dict[str, str], *, shown: bool = False
) -> list[str]:
    """Run a process; say how long it took, and what it said if it failed or is to be shown."""
    begun = time.monotonic()
    done = subprocess.run(command, cwd=place, env=environment, capture_output=not shown, text=True, check=False)
    # A reader that has seen enough, such as head, ends the writer.
    well = done.returncode in (0, 141)
    print(f"{'ran' if well else 'FAILED'} {time.monotonic() - begun:6.1f} s  {name}", flush=True)
    if well:
        return []
    if not shown:
        print(done.stdout[-500:], done.stderr[-3000:], sep="\n", flush=True)
    return [name]


if __name__ == "__main__":
    main()
