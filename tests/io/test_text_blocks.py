"""Delimited text read block by block: where Arrow fails, Python goes on with the rows that are left."""

from __future__ import annotations

from pathlib import Path

import pytest

from eigentree.io.text_files import TextFile, TextOptions


@pytest.mark.parametrize("long", [0, 3, 150, 299])
def test_each_row_comes_once_where_one_is_longer_than_a_block(
    long: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("eigentree.io.text_files.BLOCK_BYTES", 512)
    cells = [f"row {number}" for number in range(300)]
    cells[long] += "x" * 5_000
    path = tmp_path / "rows.csv"
    path.write_text("a,b\n" + "".join(f"{cell},{number % 3}\n" for number, cell in enumerate(cells)))
    file = TextFile(str(path), TextOptions(), ",")
    found, numbers = [], []
    for block in file.blocks(["a", "b"], rows=40):
        (places, texts), (others, digits) = block.columns
        found += [texts[place] for place in places]
        numbers += [digits[place] for place in others]
    assert found == cells
    assert numbers == [str(number % 3) for number in range(300)]
