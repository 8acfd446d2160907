"""What tests of commands share."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture
def here(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a file of tests, as the folder in which commands run."""
    monkeypatch.chdir(folder)
    return folder
