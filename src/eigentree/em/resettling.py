"""Another start near where a climb has come to: one hidden state is given up, and another becomes two.

A climb that has ended too low mostly has two states for what one could tell, and one for what needs two. Steps do
not lead out of that, because on the way the rows would be less likely.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from eigentree.arrays import Floats
    from eigentree.em.optimize.objective import Evaluation
    from eigentree.em.parameters import ParameterLayout

__all__ = ["can_resettle", "resettled"]

APART = 0.3
"""How much of what depends on the two halves of a state is drawn at random, so that they can part."""

HALVES = (0.3, 0.7)
"""Bounds of the share of a state that one of its halves has."""

FLOOR = 1e-4
"""The share of every distribution that is made uniform: nothing is ruled out."""


def can_resettle(layout: ParameterLayout) -> bool:
    """Return whether rows say anything about a hidden variable of two states or more."""
    return bool(_names(layout))


def _names(layout: ParameterLayout) -> list[str]:
    """Return the hidden variables of two states or more that rows say anything about."""
    learnable = {name for key in layout.learnable for name in key}
    return [name for name in layout.graph.hidden if layout.graph.states[name] > 1 and name in learnable]


def resettled(layout: ParameterLayout, here: Evaluation, random: np.random.Generator) -> Floats:
    """Return parameters in which a state of one hidden variable has joined another, and a third has become two.

    The variable and the states are drawn; a state becomes two the likelier, the more rows are in it.

    Parameters
    ----------
    layout : ParameterLayout
        For which `can_resettle`.
    here : Evaluation
        Where the climb has come to.
    random : Generator
    """
    name = str(random.choice(_names(layout)))
    sizes = _sizes(layout, here, name)
    gone, host = (int(state) for state in random.choice(len(sizes), 2, replace=False))
    left = np.delete(np.arange(len(sizes)), gone)
    odds = sizes.copy()
    odds[host] += odds[gone]
    parted = int(random.choice(left, p=odds[left] / odds[left].sum()))
    moved = here.parameters.copy()
    for key, axes in layout.axes.items():
        if name in axes:
            place = slice(layout.starts[key], layout.starts[key] + math.prod(layout.shapes[key]))
            table = np.moveaxis(moved[place].reshape(layout.shapes[key]), axes.index(name), 0)
            if name in key:
                _share(table, gone, host, parted, random)
            else:
                drawn = random.dirichlet(np.ones(_length(layout, key)), (2, table[0].size // _length(layout, key)))
                _inherit(table, gone, host, parted, sizes, drawn)
    return layout.mixed(moved, FLOOR)


def _length(layout: ParameterLayout, key: tuple[str, ...]) -> int:
    """Return how many parameters a distribution of a table has."""
    return math.prod(layout.graph.states[name] for name in key)


def _sizes(layout: ParameterLayout, here: Evaluation, name: str) -> Floats:
    """Return the share of the rows that is in each state of a hidden variable."""
    key = next(key for key in layout.axes if name in key)
    place = slice(layout.starts[key], layout.starts[key] + math.prod(layout.shapes[key]))
    counts = (here.update * here.totals)[place].reshape(layout.shapes[key])
    others = tuple(axis for axis, each in enumerate(layout.axes[key]) if each != name)
    shares: Floats = counts.sum(axis=others) / counts.sum()
    return shares


def _share(table: Floats, gone: int, host: int, parted: int, random: np.random.Generator) -> None:
    """Let one state have another's probability too, and two states a third one's; in place, states first."""
    table[host] += table[gone]
    table[gone] = table[parted] * random.uniform(*HALVES, table[parted].shape)
    table[parted] -= table[gone]


def _inherit(table: Floats, gone: int, host: int, parted: int, sizes: Floats, drawn: Floats) -> None:
    """Let what depends on the states follow; in place, states first."""
    both = sizes[host] + sizes[gone]
    if both > 0:
        table[host] = (sizes[host] * table[host] + sizes[gone] * table[gone]) / both
    halves = (1.0 - APART) * table[parted] + APART * drawn.reshape(2, *table[parted].shape)
    table[gone], table[parted] = halves
