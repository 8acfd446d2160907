"""Each page's first sentences as its description, which search engines show."""

from __future__ import annotations

from html import escape
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx

LONGEST = 160
"""Characters that search engines show."""


def description(page: nodes.document) -> str:
    """Return the first paragraph of a page, cut between two words where it is long."""
    for paragraph in page.findall(nodes.paragraph):
        words = paragraph.astext().split()
        if len(words) < 4:
            continue
        text = " ".join(words)
        return (
            text
            if len(text) <= LONGEST
            else text[: LONGEST - 1].rsplit(" ", 1)[0] + "…"
        )
    return ""


def describe(
    app: Sphinx,
    name: str,
    template: str,
    context: dict[str, Any],
    page: nodes.document | None,
) -> None:
    if page is not None and (text := description(page)):
        context["metatags"] = (
            context.get("metatags", "")
            + f'<meta name="description" content="{escape(text)}">'
        )


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("html-page-context", describe)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
