"""What a search over the sizes of a learned tree has tried, and what it chose."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import cycle
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["CLASSES", "COLUMNS", "Kind", "Size", "SizeSearch", "Trial"]

Kind: TypeAlias = Literal["mixture", "random", "spectral"]
"""Where a model starts: with classes around rows that are far from each other, or at random. A spectral fit has no
start."""


COLUMNS, CLASSES = 0, 1
"""Numbers of hidden states of what is no tree of hidden variables: the Chow-Liu tree of the columns themselves has
none. With one state they would say nothing, so they are left out; a mixture of such trees are classes."""

STYLES: tuple[dict[str, Any], ...] = (
    {"color": "#0072B2", "marker": "o", "linestyle": "-"},
    {"color": "#D55E00", "marker": "s", "linestyle": (0, (5, 1.5))},
    {"color": "#009E73", "marker": "^", "linestyle": (0, (1, 1.2))},
)
"""Lines in colours of Okabe and Ito, told apart by marks and dashes as well."""


class Size(NamedTuple):
    """How large a model is.

    Attributes
    ----------
    hidden_states : int
        Of each hidden variable of a tree; 0 for the Chow-Liu tree of the columns themselves.
    trees : int
        How many trees are mixed; with one hidden state, how many classes there are.
    """

    hidden_states: int
    trees: int

    @property
    def work(self) -> int:
        """What a pass costs, but for a factor that all sizes share."""
        return self.trees * max(self.hidden_states, 1) ** 2

    def __str__(self) -> str:
        if self.hidden_states == CLASSES:
            return f"{self.trees} classes" if self.trees > 1 else "independent columns"
        if self.hidden_states == COLUMNS:
            return f"{self.trees} Chow-Liu trees" if self.trees > 1 else "Chow-Liu tree"
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
        Processor time; NaN where it was read from a file, which holds what the rows tell only. Trials are compared
        without it.
    """

    size: Size
    start: Kind
    passes: int
    parameters: int
    log_likelihood: float
    validation: float
    seconds: float

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Trial) and self[:-1] == other[:-1]

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash(self[:-1])


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
        for trees, style in zip(sorted({trial.size.trees for trial in self.trials}), cycle(STYLES)):
            trials = [trial for trial in self.trials if trial.size.trees == trees]
            best = _best_by_states(trials)
            label = f"mixture of {trees} trees" if trees > 1 else "one tree"
            ax.plot(list(best), list(best.values()), label=label, markersize=6, **style)
            # The best of each size is on the line; other starts stand below it.
            places = [_place(trial.size) for trial in trials]
            ax.plot(places, [trial.validation for trial in trials], alpha=0.4, **style | {"linestyle": ""})
        several = f"average of {len(self.shares)} fits" if len(self.shares) > 1 else "kept"
        ax.plot([_place(self.size)], [self.validation], "k*", markersize=13, label=several, zorder=5)
        ax.set_xscale("log", base=2)
        states = sorted({(_place(trial.size), str(trial.size.hidden_states)) for trial in self.trials})
        ax.set_xticks(*zip(*states, strict=True))
        ax.minorticks_off()
        ax.set_xlabel("states of each hidden variable")
        ax.set_ylabel("log probability of a validation row")
        ax.grid(color="#dddddd", linewidth=0.6)
        ax.set_axisbelow(True)
        # Small sizes are the worse ones, so this corner is free.
        ax.legend(loc="lower right", frameon=False)
        return ax

    def __repr__(self) -> str:
        several = f"the average of {len(self.shares)} fits" if len(self.shares) > 1 else "one fit"
        lines = [
            f"{self.size}: {self.validation:.4f} per validation row, {several}",
            f"  learned from {self.rows:,g} rows, chosen by {self.validation_rows:,g}",
            "  states  trees  start    passes  parameters  learned from  validation",
        ]
        lines += [
            f"  {size.hidden_states:6d}  {size.trees:5d}  {start:7s}  {passes:6d}  {parameters:10,d}  "
            f"{_shown(log_likelihood):>12s}  {validation:10.4f}"
            for size, start, passes, parameters, log_likelihood, validation, _ in self.trials
        ]
        return "\n".join(lines)


def _shown(figure: float) -> str:
    return "-" if math.isnan(figure) else f"{figure:.4f}"


def _place(size: Size) -> float:
    """Return where a size stands in a picture whose steps double: none beside one, as one beside two."""
    return size.hidden_states or 0.5


def _best_by_states(trials: Sequence[Trial]) -> dict[float, float]:
    """Return the best validation at each place of a picture, in their order."""
    best: dict[float, float] = {}
    for trial in sorted(trials, key=lambda trial: trial.size.hidden_states):
        count = _place(trial.size)
        best[count] = max(best.get(count, trial.validation), trial.validation)
    return best
