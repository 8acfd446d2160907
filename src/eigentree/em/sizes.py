"""What a search over the sizes of a learned tree has tried, and what it chose."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["Kind", "Size", "SizeSearch", "Trial"]

Kind: TypeAlias = Literal["mixture", "random", "spectral"]
"""Where a model starts: with classes around rows that are far from each other, or at random. A spectral fit has no
start."""


class Size(NamedTuple):
    """How large a model is.

    Attributes
    ----------
    hidden_states : int
        Of each hidden variable of a tree.
    trees : int
        How many trees are mixed.
    """

    hidden_states: int
    trees: int

    @property
    def work(self) -> int:
        """What a pass costs, but for a factor that all sizes share."""
        return self.trees * self.hidden_states**2

    def __str__(self) -> str:
        more = f", {self.trees} trees" if self.trees > 1 else ""
        return f"{self.hidden_states} states{more}"


class Trial(NamedTuple):
    """One model that was tried.

    Attributes
    ----------
    size : Size
    start : {"mixture", "random", "spectral"}
    passes : int
        How often it went through the rows.
    parameters : int
        How many entries its tables have.
    log_likelihood : float
        Mean log probability of a row that it learned from; NaN where that was not asked for.
    validation : float
        Mean log probability of a validation row, where that was highest.
    seconds : float
        Processor time.
    """

    size: Size
    start: Kind
    passes: int
    parameters: int
    log_likelihood: float
    validation: float
    seconds: float


@dataclass(frozen=True)
class SizeSearch:
    """What was tried until validation rows did not become likelier, and what was kept.

    Attributes
    ----------
    trials : tuple of Trial
        In the order in which they were tried.
    size : Size
        That of the models that were kept.
    shares : tuple of float
        Those of the models that were averaged, the best first.
    validation : float
        Mean log probability of a validation row under their average.
    rows, validation_rows : float
        How many rows were learned from, and how many chose.

    Examples
    --------
    >>> import eigentree as et
    >>> votes = et.datasets.load_votes(as_frame=True).data
    >>> search = et.EMJunctionTree("auto", random_state=0).fit(votes).search_
    >>> search.size.hidden_states in {trial.size.hidden_states for trial in search.trials}
    True
    """

    trials: tuple[Trial, ...]
    size: Size
    shares: tuple[float, ...]
    validation: float
    rows: float
    validation_rows: float

    def table(self) -> list[dict[str, Any]]:
        """Return one dictionary per trial, as a frame of any library takes them."""
        return [
            {**size._asdict(), **dict(zip(Trial._fields[1:], figures, strict=True))}
            for size, *figures in self.trials
        ]

    def plot(self, ax: Any = None) -> Any:
        """Return matplotlib's axes with the log probability of validation rows at each size that was tried.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw; by default a figure of its own.
        """
        if ax is None:
            from matplotlib.figure import Figure

            ax = Figure(figsize=(6.0, 3.8), layout="constrained").subplots()
        for trees in sorted({trial.size.trees for trial in self.trials}):
            best = _best_by_states([trial for trial in self.trials if trial.size.trees == trees])
            label = f"mixture of {trees} trees" if trees > 1 else "one tree"
            ax.plot(list(best), list(best.values()), "o-", label=label)
        several = f"average of {len(self.shares)}" if len(self.shares) > 1 else "kept"
        ax.plot([self.size.hidden_states], [self.validation], "k*", markersize=12, label=several)
        ax.set_xscale("log", base=2)
        states = sorted({trial.size.hidden_states for trial in self.trials})
        ax.set_xticks(states, [str(count) for count in states])
        ax.set_xlabel("states of each hidden variable")
        ax.set_ylabel("log probability of a validation row")
        ax.legend()
        return ax

    def __repr__(self) -> str:
        several = f"the average of {len(self.shares)} fits" if len(self.shares) > 1 else "one fit"
        lines = [
            f"{self.size}: {self.validation:.4f} per validation row, {several}",
            f"  learned from {self.rows:,g} rows, chosen by {self.validation_rows:,g}",
            "  states  trees  start    passes  parameters  learned from  validation  seconds",
        ]
        lines += [
            f"  {size.hidden_states:6d}  {size.trees:5d}  {start:7s}  {passes:6d}  {parameters:10,d}  "
            f"{_shown(log_likelihood):>12s}  {validation:10.4f}  {seconds:7.2f}"
            for size, start, passes, parameters, log_likelihood, validation, seconds in self.trials
        ]
        return "\n".join(lines)


def _shown(figure: float) -> str:
    return "-" if math.isnan(figure) else f"{figure:.4f}"


def _best_by_states(trials: Sequence[Trial]) -> dict[int, float]:
    """Return the best validation of each number of states, in their order."""
    best: dict[int, float] = {}
    for trial in sorted(trials, key=lambda trial: trial.size.hidden_states):
        count = trial.size.hidden_states
        best[count] = max(best.get(count, trial.validation), trial.validation)
    return best
