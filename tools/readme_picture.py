"""Draws the picture of the README: two models of a table of votes.

python tools/readme_picture.py    # writes docs/readme.png
"""

from __future__ import annotations

from pathlib import Path

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

import eigentree as et

FILE = Path(__file__).parents[1] / "docs" / "readme.png"

SHORT = {
    "party": "party",
    "crime": "crime",
    "mx-missile": "missile",
    "immigration": "immigration",
    "education-spending": "education",
    "el-salvador-aid": "el-salvador",
    "duty-free-exports": "exports",
    "handicapped-infants": "infants",
    "physician-fee-freeze": "fees",
    "superfund-right-to-sue": "superfund",
}
"""Columns of the tree: all of them, by their whole names, would be too small to read."""


def main() -> None:
    """Draw a hidden tree over some columns, and the classes of the README's first lines."""
    votes, party = et.datasets.load_votes(return_X_y=True, as_frame=True)
    table = votes.assign(party=party)
    few = table[[*SHORT]].rename(columns=SHORT)
    tree = et.EMJunctionTree(et.zoo.HiddenChowLiu(hidden_states=3), random_state=0).fit(few)
    classes = et.LatentClassModel(n_classes=3, random_state=0).fit(table)
    figure = Figure(figsize=(11.0, 4.2), layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=[3.0, 1.0])
    et.plot.profiles(classes, most=10, ax=right).set_xlabel("class, and its share", fontsize=8)
    et.plot.graph(tree, ax=left)
    FigureCanvasAgg(figure).print_figure(FILE, dpi=100, metadata={"Software": None})
    print(f"{FILE.name}: {FILE.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
