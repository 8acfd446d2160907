"""Real data that stand beside the repository."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

SHARED = Path(__file__).parents[2] / "shared" / "data"


def shared_file(name: str) -> Path:
    """The path of a file of real data; the test is skipped where there is none, and fails in CI."""
    path = SHARED / name
    if not path.exists():
        if os.environ.get("CI"):
            pytest.fail(f"{path} is missing, and CI must not skip what needs it")
        pytest.skip(f"{path} is missing: real data were NOT checked")
    return path
