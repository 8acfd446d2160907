"""What a stranger gets: the wheel in a fresh environment, and there every page as printed and every command.

    make wheel-test                                   # builds the wheel, installs it with pip, a few minutes
    python tools/wheel_test.py --pages README.md      # some pages only; --keep keeps the folder

Pages that read data which are not part of the package are run where these lie beside the repository, and named
where they do not.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]

PAGES = ["README.md", *(f"docs/{page.name}" for page in sorted((ROOT / "docs").glob("*.md")))]

EXTRAS = "plots,streams,dask"

BESIDE = ("pandas", "polars", "networkx", "duckdb")
"""What pages import beside the package and its extras."""

DATA = {"docs/sequences.md": ("mvad.csv", *(f"biofam-{name}.csv" for name in ("child", "left", "married")))}
"""Data that pages read and the package does not hold; test_readme.py knows the same."""

COMMANDS = """\
eigentree dataset mushrooms --missing '?' -o mushrooms.csv
head -400 mushrooms.csv > some.csv
eigentree fit some.csv --missing '?' --structure mixture --hidden 3 -o model.eigentree
eigentree inspect model.eigentree
eigentree score model.eigentree some.csv --missing '?' -o scores.csv
eigentree predict model.eigentree some.csv --missing '?' --target class -o told.csv
eigentree decode model.eigentree some.csv --missing '?' -o decoded.csv
eigentree impute model.eigentree some.csv --missing '?' -o filled.csv
eigentree sample model.eigentree -n 5 --given class=edible
cat some.csv | eigentree impute model.eigentree - --missing '?' | eigentree score model.eigentree -
eigentree predict model.eigentree some.csv --missing '?' --target class --json | head -3
eigentree compare some.csv --missing '?' --structure mixture --hidden 2
eigentree select some.csv --missing '?' --structure mixture --hidden 2 3 -o best.eigentree
eigentree classify train some.csv --missing '?' --target class --hidden 2 -o classes.eigentree
eigentree classify apply classes.eigentree some.csv --missing '?' -o classes.csv
eigentree count some.csv --missing '?' --structure mixture --hidden 2 -o first.eigentree
eigentree count some.csv --missing '?' --like first.eigentree -o second.eigentree
eigentree merge first.eigentree second.eigentree -o all.eigentree
eigentree fit all.eigentree --structure mixture --hidden 2 --method spectral -o twice.eigentree
eigentree completion bash > completion.bash
eigentree --help
"""
"""Every command but `warm-up` and `reproduce`, which other tests run, on a file with ``?`` for missing cells."""


def main() -> None:
    """Build, install, run; end with 1 where anything failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pages", nargs="*", default=PAGES)
    parser.add_argument("--keep", action="store_true")
    asked = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="eigentree-wheel-"))
    failed: list[str] = []
    try:
        environment = installed(folder)
        for page in asked.pages:
            failed += run_page(page, folder, environment)
        failed += run_commands(folder, environment)
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
    surroundings = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "NUMBA"))}
    return surroundings | {"PATH": f"{python.parent}:{os.environ['PATH']}", "VIRTUAL_ENV": str(folder / "venv")}


def run_page(page: str, folder: Path, environment: dict[str, str]) -> list[str]:
    """Run the blocks of a page one after the other in one process; return its name if it failed."""
    blocks = re.findall(r"^```python\n(.*?)^```", (ROOT / page).read_text(), flags=re.MULTILINE | re.DOTALL)
    if not blocks:
        return []
    place = folder / page.replace("/", "-")
    place.mkdir()
    for name in DATA.get(page, ()):
        there = sorted((ROOT.parent / "shared" / "data").rglob(name))
        if not there:
            print(f"{page}: not run, {name} is not there", flush=True)
            return []
        shutil.copy(there[0], place)
    # A process of a cluster imports the page again, and must not run it then.
    body = "".join(f"    {line}\n" if line else "\n" for line in "\n".join(blocks).splitlines())
    (place / "page.py").write_text(f"if __name__ == '__main__':\n{body}")
    return timed(page, ["python", "page.py"], place, environment)


def run_commands(folder: Path, environment: dict[str, str]) -> list[str]:
    """Run the commands by a shell, each by itself; return those that failed."""
    place = folder / "commands"
    place.mkdir()
    failed = []
    for line in COMMANDS.splitlines():
        failed += timed(line, ["bash", "-c", f"set -o pipefail; {line}"], place, environment)
    return failed


def timed(name: str, command: list[str], place: Path, environment: dict[str, str]) -> list[str]:
    """Run a process; say how long it took, and what it said if it failed."""
    begun = time.monotonic()
    done = subprocess.run(command, cwd=place, env=environment, capture_output=True, text=True, check=False)
    print(f"{'ran' if done.returncode == 0 else 'FAILED'} {time.monotonic() - begun:6.1f} s  {name}", flush=True)
    # A reader that has seen enough, such as head, ends the writer.
    if done.returncode in (0, 141):
        return []
    print(done.stdout[-500:], done.stderr[-3000:], sep="\n", flush=True)
    return [name]


if __name__ == "__main__":
    main()
