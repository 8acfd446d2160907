"""The compiled core of a copy of the project, built beside the installation: for mutations and for sanitizers."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def build_core(project: Path, folder: Path, package: Path, *options: str) -> None:
    """Build the core of a project in a folder, where an earlier build is used again, and put it into its package.

    Parameters
    ----------
    project : Path
        The copy whose ``native`` is compiled.
    folder : Path
        Where CMake keeps what it compiles.
    package : Path
        The directory that holds ``eigentree``.
    options : str
        What else CMake is given.
    """
    configure = ["cmake", "-S", project / "native", "-B", folder, f"-DPython_EXECUTABLE={sys.executable}", *options]
    install = ["cmake", "--install", folder, "--prefix", package, "--component", "core"]
    for command in (configure, ["cmake", "--build", folder, "--parallel", "2"], install):
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"{command[1]}: {(done.stdout + done.stderr)[-3000:]}")


def environment_of(package: Path) -> dict[str, str]:
    """Return the environment of a process that imports the package of that directory."""
    return dict(os.environ) | {"PYTHONPATH": os.pathsep.join([str(ROOT / "tools" / "other_copy"), str(package)])}
