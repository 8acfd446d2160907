"""Run the tests of the compiled core under the address and undefined-behaviour sanitizers.

    make sanitize                          # or: python tools/sanitize.py [pytest's arguments]

The core is built once more, into build/sanitize, and imported from a copy of the package there; the installation
stays as it is. The first reading or writing outside an array, or the first overflow, ends the run with its place.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from tools.core_build import build_core, environment_of  # noqa: E402

BUILD = ROOT / "build" / "sanitize"


def main() -> int:
    """Return pytest's exit code."""
    package = BUILD / "package"
    shutil.rmtree(package, ignore_errors=True)
    shutil.copytree(ROOT / "src" / "eigentree", package / "eigentree", ignore=shutil.ignore_patterns("*.so"))
    build_core(ROOT, BUILD, package, "-DEIGENTREE_SANITIZE=ON")
    libraries = [
        subprocess.run(
            ["g++", f"-print-file-name={name}"], capture_output=True, text=True, check=True
        ).stdout.strip()
        for name in ("libasan.so", "libubsan.so", "libstdc++.so")
    ]
    environment = environment_of(package) | {
        "LD_PRELOAD": " ".join(libraries),
        # Python keeps its interned objects to the end.
        "ASAN_OPTIONS": "detect_leaks=0",
        "UBSAN_OPTIONS": "print_stacktrace=1",
    }
    tests = sys.argv[1:] or ["tests/core"]
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *tests]
    return subprocess.run(command, cwd=ROOT, env=environment, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
