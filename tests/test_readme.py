"""The lines of the README and of the pages beside it run as they stand, one block after the other."""

from __future__ import annotations

import re
import shutil
import warnings
from pathlib import Path

import pytest
from shared_files import shared_file

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()
TAUGHT = [f"docs/{page.name}" for page in sorted((ROOT / "docs").glob("*.md")) if page.name != "index.md"]
EXPLAINED = [f"docs/explanation/{page.name}" for page in sorted((ROOT / "docs/explanation").glob("*.md"))]
PAGES = ["README.md", *TAUGHT, "docs/index.md", *EXPLAINED]


FILES = {"docs/sequences.md": ("mvad.csv", *(f"biofam-{name}.csv" for name in ("child", "left", "married")))}
"""Data that pages read and the package does not hold."""


@pytest.mark.parametrize("page", PAGES)
def test_every_block_runs(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in FILES.get(page, ()):
        shutil.copy(shared_file(name), tmp_path)
    space: dict[str, object] = {}
    blocks = re.findall(r"^```python\n(.*?)^```", (ROOT / page).read_text(), flags=re.MULTILINE | re.DOTALL)
    # Those of the command line are run with it (test_commands).
    assert len(blocks) >= 4 or page not in TAUGHT or page == "docs/command_line.md"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # rows without a positive probability
        for block in blocks:
            exec(block, space)
            for expression, said in re.findall(r"^(\S.*?)  # .*?→ (\S+)$", block, flags=re.MULTILINE):
                # Other processors round otherwise, and a search may then take another turn.
                assert eval(expression, space) == pytest.approx(float(said), rel=0.1), expression


@pytest.mark.parametrize("target", re.findall(r"^make (\w+)", README, flags=re.MULTILINE))
def test_make_knows_its_targets(target: str) -> None:
    makefile = (Path(__file__).parents[1] / "Makefile").read_text()
    assert re.search(rf"^{target}:", makefile, flags=re.MULTILINE)


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere(page: str) -> None:
    for target in re.findall(r"\]\((?!https?:)([^)#]+)", (ROOT / page).read_text()):
        assert ((ROOT / page).parent / target).exists(), target
    assert page in README or page not in TAUGHT
