"""Draws the pictures of docs/gallery.md by the lines that stand above them: ``python tools/draw_gallery.py``."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from matplotlib.backends.backend_agg import FigureCanvasAgg

DOCS = Path(__file__).parents[1] / "docs"


def main() -> None:
    """Run block after block, and print what the last line of each draws into the picture below it."""
    page = (DOCS / "gallery.md").read_text()
    space: dict[str, object] = {}
    for code, picture in re.findall(r"^```python\n(.*?)^```\n\n!\[[^\]]*\]\((.*?)\)", page, flags=re.M | re.S):
        *lines, last = ast.parse(code).body
        exec(compile(ast.Module(lines, []), picture, "exec"), space)
        assert isinstance(last, ast.Expr), f"the lines above {picture} end with what is drawn"
        axes = eval(compile(ast.Expression(last.value), picture, "eval"), space)
        file = DOCS / picture
        file.parent.mkdir(exist_ok=True)
        figure = axes.figure
        FigureCanvasAgg(figure).print_figure(file, dpi=110, metadata={"Software": None}, bbox_inches="tight")
        print(f"{picture}: {file.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
