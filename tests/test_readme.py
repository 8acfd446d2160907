"""The lines of the README and of the pages beside it run as they stand, one block after the other."""

from __future__ import annotations

import re
import shutil
import warnings
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path

import pytest
from shared_files import shared_file

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()
PAGES = ["README.md", *(f"docs/{page.name}" for page in sorted((ROOT / "docs").glob("*.md")))]


NUMBER = r"(\d+(?:\.\d+)?)"

FILES = {"docs/sequences.md": ("mvad.csv", *(f"biofam-{name}.csv" for name in ("child", "left", "married")))}
"""Data that pages read and the package does not hold."""


def check_output(printed: str, said: str) -> None:
    """What a page says that its lines print is what they print: word for word, numbers but for their rounding."""
    found, wanted = (re.split(NUMBER, text.strip()) for text in (printed, said))
    assert found[::2] == wanted[::2]
    for one, other in zip(found[1::2], wanted[1::2], strict=True):
        # Other processors round otherwise, and a last digit may then be another one.
        assert float(one) == pytest.approx(float(other), rel=0.02, abs=0.011)


@pytest.mark.parametrize("page", PAGES)
def test_every_block_runs(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in FILES.get(page, ()):
        shutil.copy(shared_file(name), tmp_path)
    space: dict[str, object] = {}
    blocks = re.findall(
        r"^```python\n(.*?)^```\n(?:\n```text\n(.*?)^```)?",
        (ROOT / page).read_text(),
        flags=re.MULTILINE | re.DOTALL,
    )
    # Those of the command line are run with it (test_commands).
    assert len(blocks) >= 4 or page == "docs/command_line.md"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # rows without a positive probability
        for block, output in blocks:
            with redirect_stdout(StringIO()) as printed:
                exec(block, space)
            if output:
                check_output(printed.getvalue(), output)
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
    assert page in README or page == "README.md"


def test_what_lines_print_is_compared_number_by_number() -> None:
    check_output("a 0.52 (3%)\n", "a 0.521 (3%)")
    for other in ("b 0.52 (3%)", "a 0.62 (3%)", "a 0.52", "a 0.52 (3%)\nmore"):
        with pytest.raises(AssertionError):
            check_output("a 0.52 (3%)", other)


def test_the_first_screen_has_its_picture_and_what_its_lines_print() -> None:
    first = README[: README.index("\n## ")]
    (picture,) = re.findall(r"^!\[(?:[^\]]+)\]\(([^)]+)\)", first, flags=re.MULTILINE)
    assert (ROOT / picture).stat().st_size < 150_000
    assert first.count("```python") == first.count("```text") == 1
    assert len(first.splitlines()) < 45
