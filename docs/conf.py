"""How the pages are built: `make docs`, or `sphinx-build -W --keep-going -n docs docs/_build/html`.

Built pages need no network: formulas become MathML, and no fonts or scripts come from elsewhere.
"""

from __future__ import annotations

import logging
import sys
from pathlib import Path

import numpy as np

import eigentree
from eigentree.markup.style import PALETTE

sys.path.insert(0, str(Path(__file__).parent / "_extensions"))

project = "eigentree"
author = "The eigentree maintainers"
copyright = "2026, the eigentree maintainers; MIT licence"
release = eigentree.__version__
version = release

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "numpydoc",
    "descriptions",
    "mathml",
    "offered",
]
templates_path = ["_templates"]
exclude_patterns = ["_build"]
nitpicky = True
nitpick_ignore_regex = [
    # The default role, `so`, names parameters and cells as often as it names something that has a page.
    ("py:obj", ".*"),
]
default_role = "py:obj"
suppress_warnings = [
    "misc.highlighting_failure",  # rows of CSV are shown as they are
]

myst_enable_extensions = ["dollarmath", "deflist"]
myst_heading_anchors = 4

autosummary_generate = True
# What our classes inherit from arrays and tuples has its pages elsewhere.
autosummary_context = {"borrowed": {*dir(np.ndarray), *dir(tuple)}}
autodoc_typehints = "none"  # docstrings have types in words
autodoc_member_order = "groupwise"
numpydoc_show_class_members = False  # the template has them, each with its whole text

html_theme = "furo"
html_title = f"eigentree {release}"
html_static_path = ["_static"]
html_css_files = ["eigentree.css"]
html_js_files = ["copy.js"]
html_copy_source = False
html_math_renderer = "mathml"
# The colours of reports and plots.
html_theme_options = {
    f"{name}_css_variables": dict.fromkeys(
        ("color-brand-primary", "color-brand-content"), PALETTE["accent"][shade]
    )
    for shade, name in enumerate(("light", "dark"))
}
highlight_language = "none"  # blocks without a language are tables and shell lines
# Comments have a contrast of 4.5:1 and more in both.
pygments_style = "a11y-light"
pygments_dark_style = "a11y-dark"

# Patterns of pages may match none. Sphinx gives that warning no type by which it could be left out above.
logging.getLogger("sphinx.sphinx.directives.other").addFilter(
    lambda record: "didn't match any documents" not in str(record.msg)
)
