"""The levels of channels of numbers in files: read back only if their marginal densities are such."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from eigentree.counting.levels.hats import HatScale
from eigentree.errors import FileError
from eigentree.io.documents import Section, plain

if TYPE_CHECKING:
    from collections.abc import Sequence

    from eigentree.io.stores import Reader, Writer

__all__ = ["read_scales", "scales_content"]

NUMBERS = ("power", "unit", "start", "stop", "middle", "width", "tail")
"""Of a marginal density, beside its grid."""

MOST_POINTS = 2**20

UNEVEN = 1e-6
"""By how much a density on a grid may integrate to more or less than 1."""


def scales_content(writer: Writer, scales: Sequence[HatScale | None]) -> list[Any]:
    """Return the document of the levels of channels, null for others, after putting densities into the file."""
    made: list[Any] = []
    for channel, scale in enumerate(scales):
        if scale is None:
            made.append(None)
            continue
        writer.array(f"density.{channel}", scale.marginal.density)
        numbers = {name: plain(float(getattr(scale.marginal, name)), name) for name in NUMBERS}
        step = {"step": plain(float(scale.step), "step")} if scale.step else {}
        made.append({**numbers, **step, "points": len(scale.marginal.density)})
    return made


def read_scales(reader: Reader, content: Any, numbers: Sequence[int], channels: int) -> tuple[HatScale | None, ...]:
    """Return the levels of channels, once exactly the channels of numbers have such."""
    if type(content) is not list or [channel for channel, each in enumerate(content) if each is not None] != list(
        numbers
    ):
        raise FileError("the channels of numbers, and they alone, have levels")
    if content and len(content) != channels:
        raise FileError("there are levels, or none, for each channel")
    return tuple(None if each is None else _scale(reader, channel, each) for channel, each in enumerate(content))


def _scale(reader: Reader, channel: int, content: Any) -> HatScale:
    from eigentree.emissions.marginal import POWERS, Marginal

    entry = Section(content, "the levels of a channel", (*NUMBERS, "points"), ("step",))
    values = {name: entry.number(name) for name in NUMBERS}
    multiple = entry.number("step") if entry.has("step") else 0.0
    density = reader.floats(f"density.{channel}", entry.whole("points", 2, MOST_POINTS)).copy()
    step = (values["stop"] - values["start"]) / (len(density) - 1)
    proper = (
        all(map(math.isfinite, values.values()))
        and values["stop"] > values["start"]
        and min(values["unit"], values["width"], values["tail"]) > 0
        and values["tail"] <= 1
        and 0 <= multiple < math.inf
        and POWERS[0] <= values["power"] <= POWERS[-1]
        and float(density.min()) >= 0
        and abs(float(np.trapezoid(density, dx=step)) - 1) < UNEVEN
    )
    if not proper:
        raise FileError("the marginal density of a channel is none")
    return HatScale(Marginal(density=density, **values), multiple)
