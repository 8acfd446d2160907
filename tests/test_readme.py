"""The lines of the README and of all pages run as they stand, block after block, and print what the page says."""

from __future__ import annotations

import ast
import contextlib
import io
import re
import warnings
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()
DOCS = sorted(
    str(page.relative_to(ROOT))
    for page in (ROOT / "docs").rglob("*.md")
    if ROOT / "docs/results" not in page.parents
)
PAGES = ["README.md", *DOCS]
TAUGHT = [page for page in DOCS if page.startswith(("docs/tutorials/", "docs/how_to/"))]


class Block(NamedTuple):
    """Lines of Python, the line of the page that they begin at, and what the page says that they print."""

    code: str
    line: int
    said: str | None


def blocks(page: str) -> list[Block]:
    """The Python of a page; a block of `text` that follows directly is what the lines above it print."""
    text = (ROOT / page).read_text()
    found = re.finditer(r"^```python\n(.*?)^```\n(?:\n*```text\n(.*?)^```)?", text, flags=re.MULTILINE | re.DOTALL)
    return [Block(match[1], text.count("\n", 0, match.start(1)), match[2]) for match in found]


def run(block: Block, page: str, space: dict[str, object]) -> str:
    """Run a block line by line, hold each value against the arrow behind it, and return what was printed."""
    printed, lines = io.StringIO(), block.code.splitlines()
    for node in ast.increment_lineno(ast.parse(block.code), block.line).body:
        assert node.end_lineno is not None
        arrow = re.search(r"  # .*?→ (.+)$", lines[node.end_lineno - block.line - 1])
        with contextlib.redirect_stdout(printed):
            if isinstance(node, ast.Expr):
                value = eval(compile(ast.Expression(node.value), page, "eval"), space)
                assert arrow is None or alike(value, arrow[1]), (
                    f"{page}:{node.end_lineno}: {value} is not {arrow[1]}"
                )
            else:
                assert arrow is None, f"{page}:{node.end_lineno}: an arrow tells the value of an expression"
                exec(compile(ast.Module([node], []), page, "exec"), space)
    return printed.getvalue()


def alike(value: object, said: str) -> bool:
    """Whether a value is what a page says, numbers to a tenth."""
    value = value.tolist() if isinstance(value, np.ndarray | np.generic) else value
    try:
        wanted = ast.literal_eval(said)
    except (SyntaxError, ValueError):
        return same_text(str(value), said)
    if isinstance(wanted, list | tuple) and isinstance(value, list | tuple):
        return len(value) == len(wanted) and all(map(alike, value, map(repr, wanted)))
    if isinstance(wanted, int | float) and not isinstance(wanted, bool):
        # Other processors round otherwise, and a search may then take another turn.
        return bool(value == pytest.approx(wanted, rel=0.1, abs=1e-9 if isinstance(wanted, int) else 0.005))
    return bool(value == wanted)


def same_text(printed: str, said: str) -> bool:
    """Whether lines are those of a page: words to the letter, numbers to a tenth, and … for what is left out."""
    rest = [line.split() for line in printed.splitlines() if line.strip()]
    skipping = False
    for line in said.splitlines():
        words = line.split()
        if words == ["…"]:
            skipping = True
            continue
        if not words:
            continue
        while skipping and rest and not same_words(rest[0], words):
            rest.pop(0)
        if not rest or not same_words(rest.pop(0), words):
            return False
        skipping = False
    return skipping or not rest


def same_words(printed: list[str], said: list[str]) -> bool:
    if said[-1] == "…":
        said = said[:-1]
        printed = printed[: len(said)]
    return len(printed) == len(said) and all(map(same_word, printed, said))


def same_word(printed: str, said: str) -> bool:
    """Whether two words differ in the last digits of their numbers at most."""
    number = r"-?\d[\d,]*(?:\.\d+)?(?:e[-+]\d+)?"
    if re.sub(number, "#", printed) != re.sub(number, "#", said):
        return False
    pairs = zip(re.findall(number, printed), re.findall(number, said), strict=True)
    # Shares near 0 are as far off as others are.
    return all(
        float(one.replace(",", "")) == pytest.approx(float(other.replace(",", "")), rel=0.1, abs=0.02)
        for one, other in pairs
    )


@pytest.mark.parametrize("page", PAGES)
def test_every_block_runs(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    space: dict[str, object] = {}
    found = blocks(page)
    # Those of the command line are run with it (test_commands).
    assert found or page not in TAUGHT or page.endswith(("/command_line.md", "/index.md"))
    assert len(found) == (ROOT / page).read_text().count("```python")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # rows without a positive probability
        # What other packages do with those that they use themselves is theirs.
        warnings.filterwarnings("ignore", module=r"pgmpy|dask|distributed")
        for block in found:
            printed = run(block, page, space)
            said = f"{page}:{block.line}: this was printed:\n{printed}"
            assert block.said is None or same_text(printed, block.said), said


def test_what_pages_say_is_held_against_what_is_printed() -> None:
    assert same_text("state  0    0.612\n  1  12,345", "state 0 0.61\n1 12,300")
    assert same_text("a\nb\nc\nd", "a\n…\nd")
    assert same_text("a\nb", "a\n…")
    assert same_text("rows 3 of many", "rows 3 …")
    for printed, said in [
        ("a 0.61", "b 0.61"),
        ("0.61", "0.71"),
        ("a\nb", "a"),
        ("a", "a\nb"),
        ("a", "a\n…\nb"),
        ("12", "15"),
    ]:
        assert not same_text(printed, said)
    assert alike(np.float64(-9.52), "-9.5")
    assert alike((2, np.float64(0.5)), "(2, 0.51)")
    assert alike(["a"], "['a']")
    assert not alike(-9.52, "-11.0")
    assert not alike(True, "False")
    assert not alike("a", "'b'")


@pytest.mark.parametrize("target", re.findall(r"^make (\w+)", README, flags=re.MULTILINE))
def test_make_knows_its_targets(target: str) -> None:
    makefile = (Path(__file__).parents[1] / "Makefile").read_text()
    assert re.search(rf"^{target}:", makefile, flags=re.MULTILINE)


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere(page: str) -> None:
    for target in re.findall(r"\]\((?!https?:)([^)#]+)", (ROOT / page).read_text()):
        assert ((ROOT / page).parent / target).exists(), target


@pytest.mark.parametrize("page", TAUGHT)
def test_pages_are_found_from_the_first_one(page: str) -> None:
    folder, _, name = page.rpartition("/")
    listed = README if name == "index.md" else (ROOT / folder / "index.md").read_text()
    assert f"({page if name == 'index.md' else name})" in listed


def test_the_first_screen_has_its_picture_and_what_its_lines_print() -> None:
    first = README[: README.index("\n## ")]
    (picture,) = re.findall(r"^!\[(?:[^\]]+)\]\(([^)]+)\)", first, flags=re.MULTILINE)
    assert (ROOT / picture).stat().st_size < 150_000
    assert first.count("```python") == first.count("```text") == 1
    assert len(first.splitlines()) < 45
