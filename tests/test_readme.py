"""The README's lines run as they stand, one block after the other."""

from __future__ import annotations

import re
import warnings
from pathlib import Path

import pytest

README = (Path(__file__).parents[1] / "README.md").read_text()
BLOCKS = re.findall(r"^```python\n(.*?)^```", README, flags=re.MULTILINE | re.DOTALL)


def test_every_block_runs() -> None:
    space: dict[str, object] = {}
    assert len(BLOCKS) >= 4
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # rows without a positive probability
        for block in BLOCKS:
            exec(block, space)


@pytest.mark.parametrize("target", re.findall(r"^make (\w+)", README, flags=re.MULTILINE))
def test_make_knows_its_targets(target: str) -> None:
    makefile = (Path(__file__).parents[1] / "Makefile").read_text()
    assert re.search(rf"^{target}:", makefile, flags=re.MULTILINE)
