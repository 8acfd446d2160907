"""How a fit by EM came about, as pictures: its steps, and the race of its starts."""

from __future__ import annotations

from typing import Any

import numpy as np

from eigentree.errors import ParameterError, quoted
from eigentree.models.em import EMJunctionTree
from eigentree.models.em_hmm import EMHMM
from eigentree.models.online_em import OnlineEMJunctionTree
from eigentree.plots.axes import COLOURS, FONT, GRID, MARKERS, axes_of, checked_axes

__all__ = ["learning_curve", "race"]

NEAR = 1e-4
"""Nats per row, up to which distances from the leader are drawn as they are, and beyond by their logarithm."""


def learning_curve(model: EMJunctionTree | OnlineEMJunctionTree | EMHMM, ax: Any = None) -> Any:
    """Return matplotlib's axes with the objective of a fit by EM, step by step (`history_`).

    Where validation rows said when to stop, their mean log probability is drawn on an axis of its own at the right,
    with a line where it was highest.

    Parameters
    ----------
    model : a fitted EMJunctionTree, OnlineEMJunctionTree or EMHMM
    ax : matplotlib Axes, optional
        Where to draw; by default a figure of its own.

    Raises
    ------
    ParameterError
        When there is nothing to draw, or nothing to draw on.
    """
    history = np.asarray(_fitted(model).history_)
    checked_axes(ax)
    ax = axes_of(ax, 6.0, 3.6)
    what = "pass" if isinstance(model, OnlineEMJunctionTree) else "step"
    steps = np.arange(len(history))
    lines = ax.plot(
        steps, history, color=COLOURS[0], marker="o", markersize=3, linewidth=1.2, label="rows learned from"
    )
    # The first steps gain most; so that later ones are seen too, steps are shown by their logarithm.
    ax.set_xscale("symlog", linthresh=1.0, linscale=0.5)
    ax.set_xlim(-0.1, max(len(history) - 1, 1) * 1.1)
    ticks = [0, *(tick for power in range(9) for tick in (10**power, 3 * 10**power) if tick < len(history))]
    ax.set_xticks(ticks, map(str, ticks))
    ax.minorticks_off()
    ax.set_xlabel(what, fontsize=FONT)
    ax.set_ylabel("log-likelihood of all rows", fontsize=FONT)
    ax.tick_params(labelsize=FONT)
    ax.grid(**GRID)
    ax.set_axisbelow(True)
    validation = np.asarray(getattr(model, "validation_history_", []))
    if len(validation):
        lines += _draw_validation(ax, validation)
    ax.legend(handles=lines, fontsize=FONT, loc="lower right", frameon=False)
    ended = "converged" if model.converged_ else "ended before it converged"
    count = len(history) - 1 if what == "step" else len(history)
    ax.set_title(
        f"{count} {what}{'' if count == 1 else 'es' if what == 'pass' else 's'}; {ended}", fontsize=FONT + 1
    )
    return ax


def _draw_validation(ax: Any, validation: Any) -> list[Any]:
    beside = ax.twinx()
    best = int(validation.argmax())
    lines = beside.plot(
        np.arange(len(validation)),
        validation,
        color=COLOURS[1],
        marker="s",
        markersize=3,
        linewidth=1.2,
        linestyle="--",
        label="validation rows (right)",
    )
    beside.axvline(best, color="#888888", linewidth=0.8, linestyle=":")
    beside.set_ylabel("mean log probability of validation rows", fontsize=FONT)
    beside.tick_params(labelsize=FONT)
    return lines  # type: ignore[no-any-return]


def race(model: EMJunctionTree | EMHMM, ax: Any = None) -> Any:
    """Return matplotlib's axes with the race of starts before a fit by EM (`start_`), heat by heat.

    Each mark is a start, by its kind; how far it stands below the leader of its heat is how much less likely it
    made the rows of that heat.

    Parameters
    ----------
    model : a fitted EMJunctionTree or EMHMM
    ax : matplotlib Axes, optional
        Where to draw; by default a figure of its own.

    Raises
    ------
    ParameterError
        When nothing was raced, or there is nothing to draw on.
    """
    outcome: Any = getattr(_fitted(model), "start_", None)
    heats = outcome.rungs if outcome is not None else ()
    checked_axes(ax)
    if not heats:
        raise ParameterError(
            "no starts were raced in this fit; init='multistart' compares them, where there are enough rows"
        )
    ax = axes_of(ax, 1.8 + 1.1 * max(len(heats), 3), 3.6)
    kinds = sorted({name for heat in heats for name, _ in heat.objectives})
    for place, kind in enumerate(kinds):
        points: list[tuple[float, float]] = []
        for number, heat in enumerate(heats):
            behind = [heat.objectives[0][1] - objective for name, objective in heat.objectives if name == kind]
            # Starts that are level stand beside each other.
            aside = (place + (np.arange(len(behind)) + 1.0) / (len(behind) + 1)) / len(kinds)
            points += zip(number - 0.4 + 0.8 * aside, behind, strict=True)
        ax.plot(
            *zip(*points, strict=True),
            MARKERS[place % len(MARKERS)],
            color=COLOURS[place % len(COLOURS)],
            markerfacecolor="none",
            markersize=6,
            label=kind,
        )
    ax.set_yscale("symlog", linthresh=NEAR)
    furthest = max(line.get_ydata().max() for line in ax.lines)
    ax.set_ylim(max(2.0 * furthest, 10 * NEAR), -NEAR / 2)
    ax.vlines(
        np.arange(1, len(heats)) - 0.5, 0, 1, transform=ax.get_xaxis_transform(), color="#dddddd", linewidth=0.8
    )
    ax.set_xlim(-0.5, len(heats) - 0.5)
    ax.set_xticks(range(len(heats)), [f"{heat.rows:,} rows\n{heat.iterations} steps" for heat in heats], fontsize=FONT)
    ax.set_ylabel(f"nats per {outcome.unit} behind the leader", fontsize=FONT)
    ax.tick_params(axis="y", labelsize=FONT)
    ax.grid(axis="y", **GRID)
    ax.set_axisbelow(True)
    ax.legend(fontsize=FONT, frameon=False, loc="upper left", bbox_to_anchor=(1.0, 1.0))
    ax.set_title(f"the race was won by a {outcome.name} start", fontsize=FONT + 1)
    return ax


def _fitted(model: Any) -> Any:
    """Return the model, once it was fitted by EM; else raise."""
    if not isinstance(model, EMJunctionTree | OnlineEMJunctionTree | EMHMM):
        raise ParameterError(
            f"a fitted EMJunctionTree, OnlineEMJunctionTree or EMHMM has a history to draw, not {quoted(model)}"
        )
    # Where it was not fitted, this says so.
    assert model.tables_
    return model
