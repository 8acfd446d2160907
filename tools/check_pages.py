"""Checks built pages: ``python tools/check_pages.py docs/_build/html``.

Every link within them leads to a page and a place that exists, every picture and script is there and has words for
those who do not see it, and nothing is fetched from elsewhere. Links that leave are listed, not followed.
"""

from __future__ import annotations

import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

FETCHED = {"img": "src", "script": "src", "link": "href", "source": "src", "iframe": "src"}
"""What a browser fetches by itself, and which attribute says from where."""


class Page(HTMLParser):
    """What a page links to, fetches, and can be linked at."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.places: set[str] = set()
        self.links: list[str] = []
        self.fetched: list[str] = []
        self.unnamed: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Take note of one tag."""
        given = {name: value or "" for name, value in attrs}
        self.places.update(given[name] for name in ("id", "name") if name in given)
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        # Relations such as "next" are links, which nobody fetches.
        if given.get(FETCHED.get(tag, "")) and (tag != "link" or given.get("rel") in ("stylesheet", "icon")):
            self.fetched.append(given[FETCHED[tag]])
        if tag == "img" and not given.get("alt"):
            self.unnamed.append(given.get("src", ""))


def faults(folder: Path) -> tuple[list[str], set[str]]:
    """Return what is wrong with the pages of a folder, and where they lead outside of it."""
    pages = {path.resolve(): Page(path.read_text()) for path in sorted(folder.rglob("*.html"))}
    wrong, outside = [], set()
    for path, page in pages.items():
        shown = path.relative_to(folder.resolve())
        wrong += [f"{shown}: picture without words: {name}" for name in page.unnamed]
        for target in [*page.links, *page.fetched]:
            parts = urlsplit(target)
            if parts.scheme or parts.netloc:
                if parts.scheme != "data" and target in page.fetched:
                    wrong.append(f"{shown}: fetched from elsewhere: {target}")
                outside.add(target)
                continue
            there = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            if not there.is_file():
                wrong.append(f"{shown}: leads nowhere: {target}")
            elif parts.fragment and there in pages and unquote(parts.fragment) not in pages[there].places:
                wrong.append(f"{shown}: no such place: {target}")
    return wrong, {target for target in outside if not target.startswith("data:")}


def main() -> int:
    """Print what is wrong, and return how the process ends."""
    folder = Path(sys.argv[1])
    wrong, outside = faults(folder)
    for fault in wrong:
        print(fault, file=sys.stderr)
    for target in sorted(outside):
        print(f"not followed: {target}")
    print(f"{folder / 'index.html'}: {len(wrong)} faults")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
