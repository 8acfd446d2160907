"""Formulas as MathML, which browsers draw by themselves: no script, no fonts, no network."""

from __future__ import annotations

from typing import Any
from xml.sax.saxutils import escape

from docutils import nodes
from latex2mathml.converter import convert
from sphinx.application import Sphinx
from sphinx.errors import ExtensionError


def formula(latex: str, display: str) -> str:
    """Return a formula as MathML, its source kept as a text for those who copy it or cannot see it."""
    try:
        drawn = convert(latex, display=display)
    except Exception as error:  # latex2mathml has many classes of its own
        raise ExtensionError(
            f"this formula cannot be turned into MathML: {latex}"
        ) from error
    body = drawn.removesuffix("</math>").split(">", 1)
    source = f'<annotation encoding="application/x-tex">{escape(latex)}</annotation>'
    return f"{body[0]}><semantics>{body[1]}{source}</semantics></math>"


def inline(writer: Any, node: nodes.math) -> None:
    writer.body.append(formula(node.astext(), "inline"))
    raise nodes.SkipNode


def block(writer: Any, node: nodes.math_block) -> None:
    writer.body.append(f'<div class="formula">{formula(node.astext(), "block")}</div>')
    raise nodes.SkipNode


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_html_math_renderer(
        "mathml", inline_renderers=(inline, None), block_renderers=(block, None)
    )
    return {"parallel_read_safe": True, "parallel_write_safe": True}
