"""Draws the pictures of docs/explanation: ``python tools/draw_explanations.py``.

They are SVG without scripts, wide as a phone, light or dark as the reader's screen is. Diagrams are laid out by
hand; curves are measured here, on data of the package or drawn from a known model.
"""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np

import eigentree as et
from eigentree.markup.style import PALETTE

FOLDER = Path(__file__).parents[1] / "docs" / "explanation" / "pictures"

RULES = """
text { font: 15px system-ui, sans-serif; fill: INK; text-anchor: middle; }
.left { text-anchor: start; } .right { text-anchor: end; }
.small { font-size: 13px; fill: MUTED; }
.card { fill: PAPER; } .line { stroke: EDGE; stroke-width: 1.5; fill: none; }
.hidden { fill: HIDDEN; stroke: HIDDEN-LINE; stroke-width: 1.5; }
.seen { fill: COLUMN; stroke: COLUMN-LINE; stroke-width: 1.5; }
.bond { fill: CARD; stroke: EDGE; stroke-width: 1.5; }
.good { stroke: ACCENT; stroke-width: 2.5; fill: none; } .bad { stroke: ALERT; stroke-width: 1.5; fill: none; }
.goodfill { fill: ACCENT; } .badfill { fill: ALERT; } .faint { stroke: RULE; stroke-width: 1; fill: none; }
.dashed { stroke-dasharray: 5 4; }
"""


def in_colours(shade: int) -> str:
    """Return the rules in the colours of all pages and plots, light (0) or dark (1)."""
    return re.sub(r"[A-Z]{2,}(-LINE)?", lambda role: PALETTE[role[0].lower()][shade], RULES)


STYLE = f"{in_colours(0)}@media (prefers-color-scheme: dark) {{{in_colours(1)}}}"


class Picture:
    """A picture that grows piece by piece."""

    def __init__(self, name: str, title: str, height: int, width: int = 480) -> None:
        self.name, self.width, self.height = name, width, height
        self.pieces = [f"<title>{title}</title>", f"<style>{STYLE}</style>"]
        self.add(f'<rect class="card" width="{width}" height="{height}" rx="10"/>')

    def add(self, piece: str) -> None:
        """Put one more piece on top."""
        self.pieces.append(piece)

    def text(self, x: float, y: float, words: str, kind: str = "") -> None:
        """Write words whose middle is at x."""
        self.add(f'<text x="{x:.0f}" y="{y:.0f}" class="{kind}">{words}</text>')

    def line(self, *points: tuple[float, float], kind: str = "line") -> None:
        """Draw straight from point to point."""
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        self.add(f'<polyline class="{kind}" points="{path}"/>')

    def arrow(self, start: tuple[float, float], end: tuple[float, float]) -> None:
        """Draw an arrow."""
        (x, y), (to_x, to_y) = start, end
        length = np.hypot(to_x - x, to_y - y)
        along = ((to_x - x) / length, (to_y - y) / length)
        self.line(start, end)
        wings = [(to_x - 8 * along[0] - side * along[1], to_y - 8 * along[1] + side * along[0]) for side in (4, -4)]
        self.line(wings[0], end, wings[1])

    def hidden(self, x: float, y: float, name: str) -> None:
        """Draw a hidden variable."""
        self.add(f'<circle class="hidden" cx="{x}" cy="{y}" r="21"/>')
        self.text(x, y + 5, name)

    def seen(self, x: float, y: float, name: str) -> None:
        """Draw an observed variable."""
        self.box(x, y, 42, name, "seen", 38)

    def box(self, x: float, y: float, width: float, words: str, kind: str, height: float = 34) -> None:
        """Draw a box with words in its middle."""
        corner = f'x="{x - width / 2:.1f}" y="{y - height / 2:.1f}" rx="{5 if kind == "seen" else 15}"'
        self.add(f'<rect class="{kind}" {corner} width="{width}" height="{height}"/>')
        self.text(x, y + 5, words)

    def save(self) -> None:
        """Write the file."""
        head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {self.width} {self.height}" role="img">'
        FOLDER.mkdir(exist_ok=True)
        (FOLDER / f"{self.name}.svg").write_text("\n".join([head, *self.pieces, "</svg>", ""]))


class Axes(NamedTuple):
    """Where numbers stand in a picture."""

    x: tuple[float, float]
    y: tuple[float, float]
    left: float = 62
    right: float = 462
    top: float = 24
    bottom: float = 210

    def at(self, x: float, y: float) -> tuple[float, float]:
        """Return where a pair of numbers stands."""
        across = (x - self.x[0]) / (self.x[1] - self.x[0])
        up = (y - self.y[0]) / (self.y[1] - self.y[0])
        return self.left + across * (self.right - self.left), self.bottom - up * (self.bottom - self.top)


def graph() -> None:
    """Draw a hidden Markov model of second order."""
    picture = Picture("graph", "Four hidden variables in a chain, each above one observed variable", 196)
    place = [75 + 110 * step for step in range(4)]
    for here, there in pairwise(place):
        picture.arrow((here + 21, 70), (there - 22, 70))
    for here, there in zip(place, place[2:], strict=False):
        picture.add(f'<path class="line" d="M {here + 10} 51 C {here + 60} 12 {there - 60} 12 {there - 10} 49"/>')
        picture.line((there - 18, 45), (there - 10, 49), (there - 12, 40))
    for step, x in enumerate(place):
        picture.arrow((x, 91), (x, 135))
        picture.hidden(x, 70, f"h{step}")
        picture.seen(x, 155, f"x{step}")
    picture.save()


def junction_tree() -> None:
    """Draw its junction tree."""
    picture = Picture("junction_tree", "The junction tree of that graph: cliques, and separators between them", 236)
    for (x, y), (to_x, to_y) in (((130, 45), (345, 45)), ((130, 45), (65, 190)), ((130, 45), (190, 190))):
        picture.line((x, y), (to_x, to_y))
    picture.line((345, 45), (300, 190))
    picture.line((345, 45), (410, 190))
    picture.box(130, 45, 112, "h0 h1 h2", "hidden")
    picture.box(345, 45, 112, "h1 h2 h3", "hidden")
    for x, y, words in ((238, 45, "h1 h2"), (95, 122, "h0"), (164, 122, "h1"), (320, 122, "h2"), (381, 122, "h3")):
        picture.box(x, y, 50 if " " in words else 34, words, "bond", 26)
    for x, words in ((65, "h0 x0"), (190, "h1 x1"), (300, "h2 x2"), (410, "h3 x3")):
        picture.box(x, 190, 78, words, "seen")
    picture.save()


def views() -> None:
    """Draw what an edge looks at."""
    picture = Picture(
        "views", "A node with two children below it and the rest of the tree above its separator", 330
    )
    picture.line((240, 175), (240, 60))
    picture.line((240, 175), (130, 280))
    picture.line((240, 175), (350, 280))
    picture.box(240, 175, 130, "node i", "hidden", 40)
    picture.box(240, 115, 62, "S", "bond", 28)
    picture.box(183, 230, 52, "S a", "bond", 28)
    picture.box(297, 230, 52, "S b", "bond", 28)
    picture.box(240, 48, 210, "outside view ψ", "seen", 40)
    picture.box(118, 288, 190, "inside view φ of a", "seen", 40)
    picture.box(362, 288, 190, "inside view φ of b", "seen", 40)
    picture.text(290, 105, "pair moment", "small left")
    picture.text(290, 123, "E[φ ψᵀ]: rank,", "small left")
    picture.text(290, 141, "projection, solve", "small left")
    picture.text(155, 165, "triple moment", "small right")
    picture.text(155, 183, "E[φa ⊗ φb ⊗ ψ]", "small right")
    picture.save()


def observable() -> None:
    """Draw how what is hidden cancels."""
    picture = Picture("observable", "Pairs of inverse transformations on each edge, joined to the nodes", 210)
    for y, words in ((52, ("P(C₁)", "P(C₂)", "P(C₃)")), (158, ("P̃(C₁)", "P̃(C₂)", "P̃(C₃)"))):
        picture.line((80, y), (400, y))
        for x, name in zip((80, 240, 400), words, strict=True):
            picture.box(x, y, 92, name, "hidden" if y < 100 else "seen", 38)
    for x in (160, 320):
        picture.box(x, 52, 58, "F F⁻¹", "bond", 26)
        picture.line((x - 14, 68), (x - 56, 130), kind="line dashed")
        picture.line((x + 14, 68), (x + 56, 130), kind="line dashed")
    picture.text(240, 22, "tables, which nobody has seen", "small")
    picture.text(240, 198, "operators: functions of observed moments", "small")
    picture.save()


def shrinkage() -> None:
    """Draw singular values beside the noise, as rows become more."""
    truth = et.LatentNetwork.random(et.zoo.hmm(length=12, order=2, hidden_states=2, observed_states=4), seed=3)
    powers = [power / 2 for power in range(4, 13)]
    found = []
    for power in powers:
        report = et.SpectralJunctionTree(truth.graph).fit(truth.sample(round(10**power), seed=1)).report_
        edge = next(each for each in report.separators if set(each.separator) == {"h5", "h6"})
        found.append((edge.singular_values, edge.noise))
    axes = Axes((2, 6), (-3, 0.3))
    picture = Picture("shrinkage", "Singular values of one separator beside noise, by rows", 262)
    for power in range(2, 7):
        picture.line(axes.at(power, -3), axes.at(power, 0.3), kind="faint")
        picture.text(axes.at(power, 0)[0], 230, f"{10**power:,}" if power < 6 else "10⁶")
    for power, words in ((-3, "0.001"), (-2, "0.01"), (-1, "0.1"), (0, "1")):
        picture.text(55, axes.at(0, power)[1] + 5, words, "right")
    picture.text(262, 252, "rows", "small")
    for direction in range(1, 4):
        points = [axes.at(n, np.log10(values[direction])) for n, (values, _) in zip(powers, found, strict=True)]
        picture.line(*points, kind="good")
        for x, y in points:
            picture.add(f'<circle class="goodfill" cx="{x:.1f}" cy="{y:.1f}" r="3.5"/>')
    noise = [axes.at(n, np.log10(level)) for n, (_, level) in zip(powers, found, strict=True)]
    picture.line(*noise, kind="bad dashed")
    picture.text(noise[3][0] + 8, noise[3][1] - 10, "noise", "small left")
    picture.save()


def chain_rule() -> None:
    """Draw a cell's table before and after it is made a distribution."""
    signed, marginal, floor = np.array([0.62, 0.30, 0.14, -0.06]), np.array([0.4, 0.3, 0.2, 0.1]), 0.03
    below = -signed.clip(max=0).sum()
    kept = signed.clip(min=0) + 4 * below * marginal
    made = (1 - floor) * kept / kept.sum() + floor * marginal
    picture = Picture(
        "chain_rule", "A signed table with one entry below zero, and the distribution made of it", 250
    )
    for left, values, words in ((36, signed, "what the operators say"), (266, made, "what the model answers")):
        picture.line((left, 180), (left + 186, 180))
        for state, value in enumerate(values):
            top, height = 180 - max(value, 0) * 210, abs(value) * 210
            kind = "goodfill" if value >= 0 else "badfill"
            x = left + 10 + 44 * state
            picture.add(f'<rect class="{kind}" x="{x}" y="{top:.1f}" width="32" height="{height:.1f}" rx="2"/>')
            picture.text(x + 16, top - 6 if value >= 0 else 180 + height + 16, f"{value:.2f}".replace("-", "−"))
        picture.text(left + 93, 232, words, "small")
    picture.arrow((228, 120), (258, 120))
    picture.save()


def recovery() -> None:
    """Draw what joint diagonalisation does."""
    picture = Picture("recovery", "Matrices of several sources, dense, become diagonal in one common basis", 236)
    shades = np.random.default_rng(4).uniform(0.25, 1, (3, 3, 3))
    for source in range(3):
        left = 40 + 145 * source
        for row in range(3):
            for column in range(3):
                for top, kept in ((34, True), (140, row == column)):
                    shade = shades[source, row, column] if kept else 0.06
                    corner = f'x="{left + 30 * column}" y="{top + 22 * row}" width="28" height="20"'
                    picture.add(f'<rect class="goodfill" {corner} rx="2" opacity="{shade:.2f}"/>')
        picture.arrow((left + 44, 106), (left + 44, 134))
    picture.text(240, 22, "matrices of three sources on one bond, in the basis of the singular vectors", "small")
    picture.text(240, 226, "the same in the basis of the hidden states", "small")
    picture.save()


def multistart() -> None:
    """Draw EM runs from random starts, and the run of the multi-start, on real data."""
    table = et.datasets.load_mushrooms(as_frame=True).frame
    rows = len(table)
    settings = {"accelerate": False, "pseudo_counts": 0.1, "max_iter": 60}
    axes = Axes((0, 60), (-15, -10.8))
    picture = Picture("multistart", "Log-likelihood of EM runs from six random starts, and of the multi-start", 262)
    for level in range(-15, -10):
        picture.line(axes.at(0, level), axes.at(60, level), kind="faint")
        picture.text(55, axes.at(0, level)[1] + 5, f"−{-level}", "right")
    for step in range(0, 61, 20):
        picture.text(axes.at(step, 0)[0], 230, str(step))
    picture.text(262, 252, "EM iterations", "small")
    classes = et.zoo.Mixture(8)
    for seed in range(6):
        run = et.EMJunctionTree(classes, init="random", n_init=1, random_state=seed, **settings).fit(table)
        picture.line(*_curve(axes, run.history_ / rows), kind="bad")
    best = et.EMJunctionTree(classes, random_state=0, pseudo_counts=0.1).fit(table)
    end = axes.at(0, best.history_[-1] / rows)[1]
    picture.line((axes.left, end), (axes.right, end), kind="good")
    picture.text(axes.right, end - 6, "where the multi-start ends", "small right")
    picture.save()


def _curve(axes: Axes, history: np.ndarray) -> list[tuple[float, float]]:
    """Return the objective after each iteration as points, from where it enters the picture to its right end."""
    steps = [(step, value) for step, value in enumerate(history) if value > axes.y[0]]
    return [axes.at(*step) for step in [*steps, (60, history[-1])]]


if __name__ == "__main__":
    for draw in (graph, junction_tree, views, observable, shrinkage, chain_rule, recovery, multistart):
        draw()
