"""Sizes of a learned tree that a search has tried, and the one it chose."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, fields
from itertools import cycle
from typing import Any, Literal, NamedTuple, TypeAlias

__all__ = ["CLASSES", "COLUMNS", "SearchStart", "Size", "SizeSearch", "SizeTrial"]

SearchStart: TypeAlias = Literal["mixture", "random", "spectral"]
"""Where a fit starts: with classes around rows far from each other, or at random; a spectral fit has no start."""

COLUMNS, CLASSES = 0, 1
"""Numbers of hidden states of what is no tree of hidden variables: the Chow-Liu tree of the columns themselves has
none; with one state hidden variables are left out, and a mixture of such trees are latent classes."""

STYLES: tuple[dict[str, Any], ...] = (
    {"color": "#0072B2", "marker": "o", "linestyle": "-"},
    {"color": "#D55E00", "marker": "s", "linestyle": (0, (5, 1.5))},
    {"color": "#009E73", "marker": "^", "linestyle": (0, (1, 1.2))},
)
"""Lines in colours of Okabe and Ito, with marks and dashes of their own."""


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


@dataclass(frozen=True)
class SizeTrial:
    """One fit of some size.

    Attributes
    ----------
    size : Size
    start : {"mixture", "random", "spectral"}
    passes : int
        Passes over the rows.
    parameters : int
        The number of entries of its tables.
    log_likelihood : float
        Mean log probability of a training row; NaN where it is not known.
    validation : float
        Mean log probability of a held-out row, where that was highest.
    seconds : float
        Processor time; NaN where it was read from a file. Trials are compared without it.
    emissions : str
        How numbers were fitted; empty where there are none.
    """

    size: Size
    start: SearchStart
    passes: int
    parameters: int
    log_likelihood: float
    validation: float
    seconds: float = field(default=math.nan, compare=False)
    emissions: str = ""

    def values(self) -> list[Any]:
        """Return all but the size, in the order of the attributes."""
        return [getattr(self, each.name) for each in fields(self)[1:]]


@dataclass(frozen=True)
class SizeSearch:
    """The sizes that were tried until the held-out log-likelihood did not rise, and what was kept.

    Attributes
    ----------
    trials : tuple of SizeTrial
        In the order in which they were tried.
    size : Size
        The chosen one.
    shares : tuple of float
        Those of the fits that were averaged, the best first.
    validation : float
        Mean log probability of a held-out row under their average.
    rows, validation_rows : float
        The numbers of training rows and of held-out rows.

    Examples
    --------
    >>> import eigentree as et
    >>> votes = et.datasets.load_votes(as_frame=True).data
    >>> search = et.EMJunctionTree("auto", random_state=0).fit(votes).search_
    >>> search.size.hidden_states in {trial.size.hidden_states for trial in search.trials}
    True
    """

    trials: tuple[SizeTrial, ...]
    size: Size
    shares: tuple[float, ...]
    validation: float
    rows: float
    validation_rows: float

    def table(self) -> list[dict[str, Any]]:
        """Return one dictionary per trial, as a frame of any library takes them."""
        names = [each.name for each in fields(SizeTrial)[1:]]
        return [{**trial.size._asdict(), **dict(zip(names, trial.values(), strict=True))} for trial in self.trials]

    def plot(self, ax: Any = None) -> Any:
        """Return matplotlib's axes with the held-out log-likelihood of each size that was tried.

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
            ranked = sorted(trials, key=lambda trial: (trial.size.hidden_states, trial.validation))
            best = {_place(trial.size): trial.validation for trial in ranked}
            label = f"mixture of {trees} trees" if trees > 1 else "one tree"
            ax.plot(list(best), list(best.values()), label=label, markersize=6, **style)
            # The best of each size is on the line, other starts are below it.
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
            f"  {self.rows:,g} training rows, {self.validation_rows:,g} validation rows",
            "  states  trees  start    passes  parameters    training  validation",
        ]
        lines += [
            f"  {trial.size.hidden_states:6d}  {trial.size.trees:5d}  {trial.start:7s}  {trial.passes:6d}  "
            f"{trial.parameters:10,d}  {_shown(trial.log_likelihood):>10s}  {trial.validation:10.4f}"
            f"{'  ' + trial.emissions if trial.emissions else ''}"
            for trial in self.trials
        ]
        return "\n".join(lines)


def _shown(figure: float) -> str:
    return "-" if math.isnan(figure) else f"{figure:.4f}"


def _place(size: Size) -> float:
    """Return the place of a size on an axis whose steps double: none beside one, as one beside two."""
    return size.hidden_states or 0.5
