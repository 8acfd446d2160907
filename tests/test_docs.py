"""The pages: links lead somewhere, everything public is in the reference, and what pages name exists."""

from __future__ import annotations

import importlib
import inspect
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import eigentree as et

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
sys.path.insert(0, str(ROOT / "tools"))

WRITTEN = [
    *sorted(ROOT.glob("*.md")),
    *(page for page in sorted(DOCS.rglob("*.md")) if not {"_build", "api"} & set(page.relative_to(DOCS).parts)),
]
"""All pages that people write, those that are built left out; `test_readme` runs their lines."""


def named(page: Path) -> str:
    return str(page.relative_to(ROOT))


def prose(page: Path) -> str:
    """The text of a page without its blocks of code, in which brackets mean other things."""
    return re.sub(r"^```.*?^```", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)


def places(page: Path) -> set[str]:
    """The anchors of a page: its headings, as both GitHub and the built pages name them."""
    headings = re.findall(r"^#+ (.*)$", prose(page), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def links(page: Path) -> Iterator[str]:
    yield from re.findall(r"\]\(([^)\s]+)\)", prose(page))


@pytest.mark.parametrize("page", WRITTEN, ids=named)
def test_links_and_pictures_lead_somewhere(page: Path) -> None:
    for link in links(page):
        if re.match(r"[a-z]+:", link):
            assert link.startswith("https://"), link
            continue
        path, _, place = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), link
        assert target.is_relative_to(ROOT), link
        assert not place or place in places(target), link


@pytest.mark.parametrize("page", WRITTEN, ids=named)
def test_code_fits_into_88_columns(page: Path) -> None:
    blocks = re.findall(r"^```(?:python|sh)\n(.*?)^```", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    assert [line for block in blocks for line in block.splitlines() if len(line) > 88] == []


@pytest.mark.parametrize("page", WRITTEN, ids=named)
def test_every_picture_has_words(page: Path) -> None:
    assert all(re.findall(r"!\[(.*?)\]\(", prose(page)))


def listed() -> set[str]:
    """What the reference lists, below eigentree; of `offered` modules all that they offer."""
    found = set()
    for page in (DOCS / "reference").glob("*.md"):
        for block in re.findall(r"^```\{eval-rst\}\n(.*?)^```", page.read_text(), flags=re.MULTILINE | re.DOTALL):
            found |= set(re.findall(r"^   ([\w.]+)$", block, flags=re.MULTILINE))
            found |= set(
                re.findall(r"^\.\. auto(?!summary)\w+:: (?:eigentree\.)?([\w.]+)$", block, flags=re.MULTILINE)
            )
            for module in re.findall(r"^\.\. offered:: (\w+)$", block, flags=re.MULTILINE):
                found |= {f"{module}.{name}" for name in getattr(et, module).__all__}
    return found


def test_everything_public_is_in_the_reference() -> None:
    modules = ("zoo", "plot", "datasets")
    public = {name for name in et.__all__ if name not in modules}
    for module in modules:
        public |= {f"{module}.{name}" for name in getattr(et, module).__all__}
    assert public - listed() == set()


def described(docstring: str) -> Iterator[tuple[str, str]]:
    """The parameters and attributes of a docstring (numpydoc), and what it says of each."""
    of_each = r"^(?:Parameters|Attributes)\n-+\n(.*?)(?=^\w[\w ]*\n-+$|\Z)"
    for section in re.findall(of_each, docstring, flags=re.MULTILINE | re.DOTALL):
        for entry in re.split(r"\n(?=\S)", section.strip()):
            name, _, words = entry.partition("\n")
            yield name, " ".join(words.split())


def documented() -> Iterator[tuple[str, str]]:
    """Public classes and functions, and their public methods, with their docstrings."""
    for home in (et, et.zoo, et.plot, et.datasets):
        for name, own in ((name, getattr(home, name)) for name in home.__all__):
            if callable(own):
                yield name, inspect.getdoc(own) or ""
            for each in (each for each in dir(own) if inspect.isclass(own) and not each.startswith("_")):
                method = getattr(own, each)
                if (getattr(method, "__module__", None) or "").startswith("eigentree"):
                    yield f"{name}.{each}", inspect.getdoc(method) or ""


def test_each_parameter_and_attribute_has_one_short_sentence() -> None:
    found = [(name, *each) for name, docstring in documented() for each in described(docstring)]
    assert len(found) > 800
    assert [each for each in found if re.search(r"\.\s", each[2]) or len(each[2]) > 200] == []


def exists(dotted: str) -> bool:
    """Whether a module or one of its names is there, below eigentree or in the benchmarks."""
    parts = dotted.split(".")
    for known in range(len(parts), -1, -1):
        try:
            home = [] if parts[0] == "benchmarks" and known else ["eigentree"]
            found = importlib.import_module(".".join([*home, *parts[:known]]))
        except ModuleNotFoundError:
            continue
        for part in parts[known:]:
            if not hasattr(found, part):
                return False
            found = getattr(found, part)
        return True
    return False


def test_the_reference_lists_nothing_that_is_not_there() -> None:
    assert not exists("zoo.nothing")
    assert [name for name in sorted(listed()) if not exists(name)] == []


def test_what_the_paper_is_matched_with_exists() -> None:
    page = (DOCS / "explanation" / "paper_and_code.md").read_text()
    cells = [row.split("|")[-2] for row in page.splitlines() if row.startswith("|") and row.count("|") == 4]
    names = {name for cell in cells for name in re.findall(r"`([a-z_]+(?:\.\w+)+)`", cell)}
    assert len(names) > 40
    assert [name for name in sorted(names) if not exists(name)] == []


def test_the_citation_is_of_this_version() -> None:
    citation = (ROOT / "CITATION.cff").read_text()
    assert re.search(r"^version: (.*)$", citation, flags=re.MULTILINE)[1] == et.__version__
    assert "A Spectral Algorithm for Latent Junction Trees" in citation


def test_faults_of_built_pages_are_found(tmp_path: Path) -> None:
    from check_pages import faults

    (tmp_path / "other.html").write_text('<h1 id="here">Other</h1>')
    (tmp_path / "picture.svg").write_text("<svg/>")
    good = '<a href="other.html#here">x</a><img src="picture.svg" alt="x"><a href="https://a.org">x</a>'
    (tmp_path / "page.html").write_text(good)
    assert faults(tmp_path) == ([], {"https://a.org"})
    for bad in (
        '<a href="none.html">x</a>',
        '<a href="other.html#there">x</a>',
        '<img src="picture.svg">',
        '<script src="https://a.org/x.js"></script>',
        '<link rel="stylesheet" href="https://a.org/x.css">',
    ):
        (tmp_path / "page.html").write_text(good + bad)
        assert len(faults(tmp_path)[0]) == 1, bad
