"""What a fit by EM reports: how it went, and which start it kept."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeAlias

from eigentree.markup.figures import learning_figure
from eigentree.markup.fit_report import FitReport
from eigentree.markup.html import behind, element, number, scrolling

if TYPE_CHECKING:
    from collections.abc import Iterator

    from eigentree.em.multistart import Multistart, Rung
    from eigentree.em.sizes import SizeSearch
    from eigentree.markup.html import Html

__all__ = ["EMReport", "StartReport", "Unit"]

Unit: TypeAlias = Literal["row", "step", "node"]
"""By what gains and objectives are judged."""


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
    unit : {"row", "step", "node"}
        What objectives are divided by the number of: rows, steps of sequences, or nodes of trees.

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
    unit: Unit = "row"

    @classmethod
    def of(cls, state: Multistart, weight: float, unit: Unit = "row") -> StartReport:
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
            shown = ", ".join(f"{name} {objective:.4f}" for name, objective in rung.objectives)
            lines.append(f"  {rung.rows:,} rows, {rung.iterations} iterations: {shown}")
        lines += [f"  no {name} start: {reason}" for name, reason in self.absent]
        return "\n".join(lines)


@dataclass(frozen=True)
class EMReport(FitReport):
    """The report of a fit by EM; notebooks show it with its learning curve.

    Attributes
    ----------
    parameters : int
        The number of free parameters.
    steps : int
        Iterations of the EM run that was kept.
    converged : bool
        Whether it had converged when it ended.
    history : tuple of float
        Its objective after each iteration.
    validation_history : tuple of float
        The mean log probability of validation rows after each iteration; empty if there were none.
    unit : {"row", "step", "node"}
        The training data: rows, steps of sequences, or nodes of trees.
    start : StartReport or None
        Which start was kept; online EM has one only.
    search : SizeSearch or None
        Which sizes were tried, where one was chosen on held-out rows.
    pseudo_counts : float or None
        Those that were used, where they are one number.
    rows : int or None
        The number of rows of the last run, where that is known.

    Examples
    --------
    >>> import eigentree as et
    >>> truth = et.LatentNetwork.random(et.zoo.mixture(columns=6, hidden_states=2, observed_states=3), seed=0)
    >>> model = et.EMJunctionTree(truth.graph, random_state=0).fit(truth.sample(300, seed=1))
    >>> model.report_.parameters, model.report_.converged
    (25, True)
    """

    title: ClassVar[str] = "Report of a fit by EM"

    parameters: int
    steps: int
    converged: bool
    history: tuple[float, ...]
    validation_history: tuple[float, ...] = ()
    unit: Unit = "row"
    start: StartReport | None = None
    search: SizeSearch | None = None
    pseudo_counts: float | None = None
    rows: int | None = None

    @classmethod
    def of(cls, model: Any, unit: Unit = "row") -> EMReport:
        """Return the report of a fitted estimator."""
        known = vars(model)
        return cls(
            parameters=model.n_parameters_,
            steps=model.n_iter_,
            converged=model.converged_,
            history=tuple(map(float, model.history_)),
            validation_history=tuple(map(float, known.get("validation_history_", ()))),
            unit=unit,
            start=known.get("start_"),
            search=known.get("search_"),
            pseudo_counts=known.get("pseudo_counts_"),
            rows=known.get("finish_rows_"),
        )

    @property
    def warnings(self) -> tuple[str, ...]:
        """What a user should know before trusting the fit."""
        notes = []
        if not self.converged:
            notes.append(
                f"EM ended after {self.steps:,} iterations before it converged; more (max_iter) may raise the "
                f"likelihood"
            )
        if self.search is not None and len(self.search.shares) > 1:
            notes.append(
                f"the model is the average of {len(self.search.shares)} fits, each with states of its own: hidden "
                f"states are no classes"
            )
        return tuple(notes)

    def facts(self) -> list[tuple[str, str]]:
        """Return what is known of the fit by name, in words."""
        facts = [("free parameters", f"{self.parameters:,}")]
        if self.rows is not None:
            facts.append(("training data", f"{self.rows:,} {self.unit}s"))
        ended = "converged" if self.converged else "did not converge"
        facts.append(("EM iterations", f"{self.steps:,}, {ended}"))
        if self.start is not None:
            start = f"{self.start.name}, {number(self.start.objective, 5)} nats per {self.unit}"
            if not math.isnan(self.start.lead):
                # What differs by rounding is the same optimum.
                is_level = math.isclose(self.start.lead, 0.0, abs_tol=1e-9)
                start += ", equal to the next" if is_level else f", {number(self.start.lead, 2)} ahead of the next"
            facts.append(("start", start))
        if self.search is not None:
            facts.append(("size by validation rows", str(self.search.size)))
        if self.pseudo_counts is not None:
            facts.append(("pseudo-counts", number(self.pseudo_counts)))
        return facts

    def figures(self) -> Iterator[Html]:
        """Yield the learning curve, and what was tried."""
        if self.history:
            yield learning_figure(self.history, self.validation_history, self.unit)
        if tried := [repr(one) for one in (self.start, self.search) if one is not None]:
            yield behind("What was tried", scrolling(element("pre", "\n\n".join(tried)), "What was tried"))
