"""Run the tests of the compiled core under the address and undefined-behaviour sanitizers.

    make sanitize                          # or: python tools/sanitize.py [pytest's arguments]

The core is built once more, into build/sanitize, and imported from a copy of the package there; the installation
stays as it is. The first reading or writing outside an array, or the first overflow, ends the run with its place.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
BUILD = ROOT / "build" / "sanitize"


def main() -> int:
    """Return pytest's exit code."""
    import nanobind  # noqa: F401  what CMake looks for

    package = BUILD / "package"
    shutil.rmtree(package, ignore_errors=True)
    shutil.copytree(ROOT / "src" / "eigentree", package / "eigentree", ignore=shutil.ignore_patterns("*.so"))
    configure = ["cmake", "-S", ROOT / "native", "-B", BUILD, "-DEIGENTREE_SANITIZE=ON"]
    subprocess.run([*configure, f"-DPython_EXECUTABLE={sys.executable}"], check=True)
    subprocess.run(["cmake", "--build", BUILD, "--parallel", "2"], check=True)
    subprocess.run(["cmake", "--install", BUILD, "--prefix", package, "--component", "core"], check=True)
    libraries = [
        subprocess.run(
            ["g++", f"-print-file-name={name}"], capture_output=True, text=True, check=True
        ).stdout.strip()
        for name in ("libasan.so", "libubsan.so", "libstdc++.so")
    ]
    surroundings = os.environ | {
        "LD_PRELOAD": " ".join(libraries),
        # Python keeps its interned objects to the end.
        "ASAN_OPTIONS": "detect_leaks=0",
        "UBSAN_OPTIONS": "print_stacktrace=1",
        "PYTHONPATH": str(package),
    }
    tests = sys.argv[1:] or ["tests/core"]
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *tests]
    return subprocess.run(command, cwd=ROOT, env=surroundings, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
