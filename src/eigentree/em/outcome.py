"""Which start won, and by how much: what a fit by EM tells of its beginning."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from eigentree.em.standing import Heat, Standing

__all__ = ["StartOutcome"]

SHOWN = 6
"""How many starts of a heat are shown."""


@dataclass(frozen=True)
class StartOutcome:
    """The start of the climb that was kept.

    Attributes
    ----------
    name : str
        "spectral", "mixture", "copy", "random", or "given" for a network.
    objective : float
        Where its climb ended, per row: the log-likelihood, plus what pseudo-counts add.
    lead : float
        By how much it was ahead of the next start when they were last compared, per row; NaN if there was no other.
    heats : tuple of Heat
        What was raced: the rows that differ, the steps so far, and each start's kind and objective per row.
    absent : tuple of (str, str)
        The kinds of which there could be no start, with the reason.
    unit : {"row", "step"}
        What objectives are divided by the number of: rows, or steps of sequences.

    Examples
    --------
    >>> import eigentree as et
    >>> truth = et.LatentNetwork.random(et.zoo.mixture(columns=6, hidden_states=2, observed_states=3), seed=0)
    >>> model = et.EMJunctionTree(truth.graph, init="mixture", restarts=2, random_state=0)
    >>> model.fit(truth.sample(300, seed=1)).start_.name
    'mixture'
    """

    name: str
    objective: float
    lead: float
    heats: tuple[Heat, ...] = ()
    absent: tuple[tuple[str, str], ...] = ()
    unit: Literal["row", "step"] = "row"

    @classmethod
    def of(cls, standing: Standing, weight: float) -> StartOutcome:
        """Return the outcome of a fit, given the weight of all rows; the best climb is kept."""
        (name, best), *others = sorted(standing.climbs, key=lambda end: -end[1].score)
        lead = math.nan
        if others:
            lead = (best.history[-1] - others[0][1].history[-1]) / weight
        elif compared := [heat for heat in standing.heats if len(heat.standings) > 1]:
            (_, first), (_, second), *_ = compared[-1].standings
            lead = first - second
        return cls(name, best.history[-1] / weight, lead, standing.heats, tuple(standing.absent.items()))

    def __repr__(self) -> str:
        lines = [f"{self.name} start: {self.objective:.6f} per {self.unit}"]
        if not math.isnan(self.lead):
            lines[0] += f", {self.lead:.2g} ahead of the next"
        for heat in self.heats:
            shown = ", ".join(f"{name} {objective:.4f}" for name, objective in heat.standings[:SHOWN])
            more = f" and {len(heat.standings) - SHOWN} more" if len(heat.standings) > SHOWN else ""
            lines.append(f"  {heat.rows:,} rows, {heat.steps} steps: {shown}{more}")
        lines += [f"  no {name} start: {reason}" for name, reason in self.absent]
        return "\n".join(lines)
