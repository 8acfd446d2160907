"""Streams that come in small batches, so that small files have several."""

from __future__ import annotations

import pytest


def read_in_small_batches(monkeypatch: pytest.MonkeyPatch, rows: int, text_bytes: int = 2**22) -> None:
    """Let batches have so many rows, and blocks of text so many bytes, until the test ends."""
    monkeypatch.setattr("eigentree.data.streams.row_batches.BATCH_ROWS", rows)
    monkeypatch.setattr("eigentree.io.text_files.BLOCK_BYTES", text_bytes)
