"""The words of the field: source, help and pages do not use the private words of earlier versions."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

WORDS = {
    r"climb\w*": "iteration, EM run, optimisation",
    r"summits?": "local optimum",
    r"rac(?:e|es|ed|ing)|heats?|runners?|entrants?": "multi-start, successive halving, rung, candidate",
    r"resettl\w*": "split-merge move",
    r"likelie(?:r|st)": "higher log-likelihood, most probable",
    r"tells?|told|telling|speaks?|spoke": "is informative about, shows, reports, is known from",
    r"ask(?:s|ed|ing)? for|rows ask": "needs, wants, is chosen on held-out data",
    r"help(?:s|ed)? itself|made up for": "fell back to, renormalised",
    r"summed out": "marginalised out",
    r"adds? up to 1": "is normalised",
    r"hidden cells": "masked cells",
    r"odd(?:est)?": "anomalous, unexpected; anomalies",
    r"columns? alone": "independence model",
    r"peaked": "of low Dirichlet concentration",
    r"to the last bit": "bit-identical",
    r"side by side": "factorial, in parallel",
    r"measurements": "continuous columns",
    r"mistakes?": "error",
    r"gaps|holes|holed": "missing cells",
    r"soften\w*": "mixed with the uniform distribution",
    r"rivals?": "baseline",
}
"""What is not said, as whole words, and what the field says."""

ALLOWED = (
    "et.plot.race",  # an old name that goes on working
    "def race(",
    'OLD_MULTISTART = "race"',  # likewise
    "an odd number",
    '"heats"',  # the key of rungs in files
    "the name of this entry in files",  # of stored statistics
)
"""Parts of lines in which such a word is right."""

CEILINGS: dict[str, int] = {}
"""Packages in which that many are left; none may be added, and the number is lowered as they go."""

PATTERN = re.compile("|".join(rf"(?P<w{place}>\b(?:{word})\b)" for place, word in enumerate(WORDS)), re.IGNORECASE)


def package(path: Path) -> str:
    """The package of a source file, "native" or "pages"."""
    parts = path.relative_to(ROOT).parts
    if parts[0] == "native":
        return "native"
    return parts[2].removesuffix(".py") if parts[0] == "src" else "pages"


def files() -> Iterator[Path]:
    yield from sorted((ROOT / "src" / "eigentree").rglob("*.py"))
    yield from sorted((ROOT / "native").glob("*.?pp"))
    yield from (ROOT / name for name in ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md"))
    built = {"_build", "api", "figure3", "figure4"}
    yield from (page for page in sorted((ROOT / "docs").rglob("*.md")) if not built & set(page.parts))


def private_words(path: Path, text: str) -> Iterator[str]:
    """Yield each private word of a text with its place, and what to say instead."""
    for number, line in enumerate(text.splitlines(), 1):
        if any(part in line for part in ALLOWED):
            continue
        for found in PATTERN.finditer(re.sub(r"(?<=[a-z])_|_(?=[a-z])", " ", line)):
            if package(path) == "native" and found[0] == "odd":
                # Lanes and places in the core are even or odd.
                continue
            instead = list(WORDS.values())[int(str(found.lastgroup)[1:])]
            yield f"{path.relative_to(ROOT)}:{number}: {found[0]!r}; say {instead}"


@pytest.mark.parametrize("where", sorted({package(path) for path in files()}))
def test_the_words_are_those_of_the_field(where: str) -> None:
    found = [word for path in files() if package(path) == where for word in private_words(path, path.read_text())]
    assert len(found) <= CEILINGS.get(where, 0), f"{len(found)} private words:\n" + "\n".join(found)


def test_private_words_are_found_in_names_too() -> None:
    path = ROOT / "README.md"
    lines = "likeliest_states = told(rows)\nThe forest holds old embraces.\net.plot.race(model)"
    assert [word.split("; ")[0] for word in private_words(path, lines)] == [
        "README.md:1: 'likeliest'",
        "README.md:1: 'told'",
    ]
