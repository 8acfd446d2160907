"""Diagrams on a page: SVG as large as they need, with a caption, and the numbers behind them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from eigentree.markup.figures import figure
from eigentree.markup.html import Html, scrolling
from eigentree.markup.svg import FONT, scene_svg, text_width
from eigentree.viz.diagrams import laid_out_diagram, placed_scene

if TYPE_CHECKING:
    from eigentree.viz.diagrams import Diagram

__all__ = ["MOST_DRAWN", "diagram_figure", "is_narrow"]

MOST_DRAWN = 400
"""Most boxes of a diagram; beyond, the table behind it has to do."""

NARROW = 38.0
"""How wide a diagram is at most that has room beside another (em)."""


def is_narrow(diagram: Diagram) -> bool:
    """Return whether a diagram can be drawn and has room beside another."""
    if len(diagram.texts) > MOST_DRAWN:
        return False
    boxes = laid_out_diagram(diagram, text_width).boxes.values()
    return max(box.right for box in boxes) - min(box.left for box in boxes) <= NARROW


def diagram_figure(caption: str, diagram: Diagram) -> Html:
    """Return a diagram with a caption, and the numbers behind it; these alone where it is too large."""
    if len(diagram.texts) > MOST_DRAWN:
        many = f"{len(diagram.texts):,} boxes are too many for a picture (the limit is {MOST_DRAWN})"
        return figure(f"{many}; the table has the first numbers.", numbers=[diagram.numbers])
    layout = laid_out_diagram(diagram, text_width)
    scene = placed_scene(diagram, layout, text_width, (FONT, FONT), FONT)
    picture = scrolling(scene_svg(diagram.title, diagram.description, scene), diagram.title)
    # Transitions have a table of their own beside them.
    return figure(caption, picture, numbers=[] if diagram.ring else [diagram.numbers])
