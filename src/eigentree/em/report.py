"""`EMReport`: what a fit by EM tells of itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from eigentree.markup.figures import learning_figure, note_list
from eigentree.markup.html import behind, element, facts_list, number, scrolling
from eigentree.markup.style import fragment

if TYPE_CHECKING:
    from eigentree.em.sizes import SizeSearch
    from eigentree.em.start_report import StartReport

__all__ = ["EMReport"]

NO_LEAD = 1e-9
"""Nats per row, or step, below which two starts have come as far."""


@dataclass(frozen=True)
class EMReport:
    """The report of a fit by EM; notebooks show it with its learning curve.

    Attributes
    ----------
    parameters : int
        How many free parameters were learned.
    steps : int
        Steps of the climb that was kept.
    converged : bool
        Whether it had converged when it ended.
    history : tuple of float
        Its objective after each step.
    validation_history : tuple of float
        The mean log probability of validation rows after each step; empty if there were none.
    unit : {"row", "step"}
        What was learned from: rows, or steps of sequences.
    start : StartReport or None
        Which start won; online EM has one only.
    search : SizeSearch or None
        Which sizes were tried, where the data chose one.
    pseudo_counts : float or None
        Those that were used, where they are one number.
    rows : int or None
        How many rows the last climb ran on, where that is known.

    Examples
    --------
    >>> import eigentree as et
    >>> truth = et.LatentNetwork.random(et.zoo.mixture(columns=6, hidden_states=2, observed_states=3), seed=0)
    >>> model = et.EMJunctionTree(truth.graph, random_state=0).fit(truth.sample(300, seed=1))
    >>> model.report_.parameters, model.report_.converged
    (25, True)
    """

    parameters: int
    steps: int
    converged: bool
    history: tuple[float, ...]
    validation_history: tuple[float, ...] = ()
    unit: Literal["row", "step"] = "row"
    start: StartReport | None = None
    search: SizeSearch | None = None
    pseudo_counts: float | None = None
    rows: int | None = None

    @property
    def warnings(self) -> tuple[str, ...]:
        """What a user should know before trusting the fit."""
        if self.converged:
            return ()
        return (
            f"the climb ended after {self.steps:,} steps before it had converged; more steps (max_iter) may make "
            f"the model better",
        )

    def facts(self) -> list[tuple[str, str]]:
        """Return what is known of the fit by name, in words."""
        facts = [("free parameters", f"{self.parameters:,}")]
        if self.rows is not None:
            facts.append(("learned from", f"{self.rows:,} {self.unit}s"))
        ended = "converged" if self.converged else "did not converge"
        facts.append(("steps of EM", f"{self.steps:,}, {ended}"))
        if self.start is not None:
            told = f"{self.start.name}, {number(self.start.objective, 5)} nats per {self.unit}"
            if self.start.lead == self.start.lead:
                # What differs by rounding has come to the same end.
                ahead = self.start.lead > NO_LEAD
                told += f", {number(self.start.lead, 2)} ahead of the next" if ahead else ", as far as the next"
            facts.append(("start", told))
        if self.search is not None:
            several = f", the average of {len(self.search.shares)} fits" if len(self.search.shares) > 1 else ""
            facts.append(("size by validation rows", f"{self.search.size}{several}"))
        if self.pseudo_counts is not None:
            facts.append(("pseudo-counts", number(self.pseudo_counts)))
        return facts

    def __str__(self) -> str:
        width = max(len(name) for name, _ in self.facts())
        lines = [f"{name:<{width}}  {told}" for name, told in self.facts()]
        return "\n".join([*lines, *(f"! {note}" for note in self.warnings)])

    def _repr_html_(self) -> str:
        more = [one for one in (self.start, self.search) if one is not None]
        return fragment(
            "Report of a fit by EM",
            facts_list(self.facts()),
            note_list(self.warnings),
            learning_figure(self.history, self.validation_history, self.unit) if self.history else None,
            behind("What was tried", scrolling(element("pre", "\n\n".join(map(repr, more))), "What was tried"))
            if more
            else None,
        )
