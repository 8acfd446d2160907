"""Which start a fit by EM kept, and what the others reached."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from eigentree.em.multistart import Multistart, Rung

__all__ = ["StartReport"]

SHOWN = 6
"""How many candidates of a rung are shown."""


@dataclass(frozen=True)
class StartReport:
    """The start of the run that was kept, and the candidates of the multi-start.

    Attributes
    ----------
    name : str
        The initialiser, such as "spectral", "mixture", "copy" or "random"; "given" for a network.
    objective : float
        Where its run ended, per row: the log-likelihood, plus what pseudo-counts add.
    lead : float
        By how much it was ahead of the next candidate when they were last compared, per row; NaN if there was none.
    rungs : tuple of Rung
        For each sample of the data: its rows that differ, the iterations, and each candidate's objective per row.
    absent : tuple of (str, str)
        The initialisers that could not make a start, with the reason.
    unit : {"row", "step"}
        What objectives are divided by the number of: rows, or steps of sequences.

    Examples
    --------
    >>> import eigentree as et
    >>> truth = et.LatentNetwork.random(et.zoo.mixture(columns=6, hidden_states=2, observed_states=3), seed=0)
    >>> model = et.EMJunctionTree(truth.graph, init="mixture", n_init=2, random_state=0)
    >>> model.fit(truth.sample(300, seed=1)).start_.name
    'mixture'
    """

    name: str
    objective: float
    lead: float
    rungs: tuple[Rung, ...] = ()
    absent: tuple[tuple[str, str], ...] = ()
    unit: Literal["row", "step"] = "row"

    @classmethod
    def of(cls, state: Multistart, weight: float, unit: Literal["row", "step"] = "row") -> StartReport:
        """Return the report of a fit, given the weight of all data."""
        (name, best), *others = sorted(state.runs, key=lambda each: -each[1].score)
        lead = math.nan
        if others:
            lead = (best.objective - others[0][1].objective) / weight
        elif compared := [rung for rung in state.rungs if len(rung.objectives) > 1]:
            (_, first), (_, second), *_ = compared[-1].objectives
            lead = first - second
        return cls(name, best.objective / weight, lead, state.rungs, tuple(state.absent.items()), unit)

    def __repr__(self) -> str:
        lines = [f"{self.name} start: {self.objective:.6f} per {self.unit}"]
        if not math.isnan(self.lead):
            lines[0] += f", {self.lead:.2g} ahead of the next"
        for rung in self.rungs:
            shown = ", ".join(f"{name} {objective:.4f}" for name, objective in rung.objectives[:SHOWN])
            more = f" and {len(rung.objectives) - SHOWN} more" if len(rung.objectives) > SHOWN else ""
            lines.append(f"  {rung.rows:,} rows, {rung.iterations} iterations: {shown}{more}")
        lines += [f"  no {name} start: {reason}" for name, reason in self.absent]
        return "\n".join(lines)
