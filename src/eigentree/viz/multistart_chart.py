"""The candidates of a multi-start, rung by rung."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from eigentree.markup.charts import Axis, Chart, Dots, Line, NumberTable
from eigentree.markup.html import number

if TYPE_CHECKING:
    from eigentree.markup.charts import XY

__all__ = ["multistart_chart"]

NEAR = 1e-4
"""Nats per row, up to which distances from the best are drawn as they are, and beyond by their logarithm."""

LOOKS = (("accent", "o"), ("alert", "s"), ("green", "^"), ("pink", "D"), ("hidden-line", "v"), ("edge", "<"))


def multistart_chart(start: Any) -> Chart:
    """Return how far each candidate was behind the best of its rung (`start_`), by the kind of its start."""
    rungs = start.rungs
    kinds = sorted({name for rung in rungs for name, _ in rung.objectives})
    marks: list[Dots | Line] = []
    furthest = 0.0
    for place, kind in enumerate(kinds):
        points: list[XY] = []
        for at, rung in enumerate(rungs):
            behind = [rung.objectives[0][1] - objective for name, objective in rung.objectives if name == kind]
            furthest = max([furthest, *behind])
            # Candidates that are level stand beside each other.
            beside = [(place + (own + 1.0) / (len(behind) + 1)) / len(kinds) for own in range(len(behind))]
            points += [(at - 0.4 + 0.8 * share, nats) for share, nats in zip(beside, behind, strict=True)]
        role, marker = LOOKS[place % len(LOOKS)]
        marks.append(Dots(tuple(points), role, kind, filled=False, marker=marker))
    low = max(2.0 * furthest, 10 * NEAR)
    ticks = [0.0, *(10.0**power for power in range(-4, 4) if 10.0**power <= low)]
    between = [Line(((at - 0.5, low), (at - 0.5, -NEAR / 2)), "rule", width=0.8) for at in range(1, len(rungs))]
    rows = [
        (name, f"{rung.rows:,}", f"{rung.iterations:,}", number(objective, 6))
        for rung in rungs
        for name, objective in rung.objectives
    ]
    header = ("start", f"{start.unit}s that differ", "iterations", f"objective per {start.unit}")
    heads = [f"{rung.rows:,} rows\n{rung.iterations} iterations" for rung in rungs]
    return Chart(
        title=f"multi-start: the best was a {start.name} start",
        description=f"{len(rungs)} rungs; the best was a {start.name} start.",
        x=Axis("", -0.5, len(rungs) - 0.5, tuple(enumerate(heads)), grid=False),
        y=Axis(
            f"nats per {start.unit} behind the best",
            low,
            -NEAR / 2,
            tuple((tick, f"{tick:g}") for tick in ticks),
            "asinh",
            NEAR,
        ),
        marks=(*marks, *between),
        size=(60.0 + 85.0 * max(len(rungs), 3), 190.0),
        numbers=NumberTable("Candidates of the multi-start", header, tuple(rows)),
    )
