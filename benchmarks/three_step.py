"""Bias and coverage of stepwise estimates (naive, BCH, ML, two-step, one-step), beside StepMix on the same rows.

The designs are those of Bakk and Kuha (2018): three classes, six yes-no items that a class answers alike with
probability 0.7, 0.8 or 0.9, and one covariate (1 to 5, slopes 0, -1 and 1), or one outcome (normal, means 0, -1 and
1). Seeds were fixed before the first run: replicate r of a design has the seed [rows, 100 · separation, r].
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy.optimize import linear_sum_assignment

import eigentree as et
from benchmarks.measure import show_note, show_table

if TYPE_CHECKING:
    from numpy.typing import NDArray

DESIGNS = ((0.7, 1000), (0.8, 500), (0.8, 1000), (0.8, 2000), (0.9, 1000))
"""Separation and number of rows."""

REPLICATES = 20
BESIDE = 5
"""Replicates that StepMix is given too, the first ones."""

ITEMS = 6
SLOPES = np.array([0.0, -1.0, 1.0])
INTERCEPTS = np.array([0.0, 2.34459467, -3.65540533])
"""By which the three classes are equally large (Bakk and Kuha)."""

METHODS: dict[str, dict[str, Any]] = {
    "naive": {"correction": None},
    "BCH": {"correction": "BCH"},
    "ML": {"correction": "ML"},
    "two-step": {"n_steps": 2},
}
THEIRS: dict[str, dict[str, Any]] = {name: {"n_steps": 3, **how} for name, how in METHODS.items()}


class Replicate(NamedTuple):
    """Simulated rows: items, a covariate, and an outcome."""

    items: NDArray[Any]
    covariate: NDArray[Any]
    outcome: NDArray[Any]


@dataclass
class Found:
    """What a method found: estimates whose truth is 1, whether their intervals hold it, and StepMix's estimates."""

    estimates: list[float] = field(default_factory=list)
    covered: list[bool] = field(default_factory=list)
    theirs: list[float] = field(default_factory=list)
    apart: list[float] = field(default_factory=list)
    without_end: int = 0


def probabilities(separation: float) -> NDArray[Any]:
    """Return P(yes | class) of each item, shape (classes, items)."""
    high, low = [separation] * (ITEMS // 2), [1 - separation] * (ITEMS // 2)
    return np.array([high + high, high + low, low + low])


def simulated(rows: int, separation: float, replicate: int) -> Replicate:
    """Return a replicate of a design."""
    random = np.random.default_rng([rows, round(100 * separation), replicate])
    covariate = random.integers(1, 6, rows)
    logits = covariate[:, None] * SLOPES + INTERCEPTS
    shares = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    classes = (random.random((rows, 1)) > np.cumsum(shares, axis=1)).sum(axis=1)
    items = (random.random((rows, ITEMS)) < probabilities(separation)[classes]).astype(np.int64)
    return Replicate(items, covariate.astype(float)[:, None], random.normal(SLOPES[classes])[:, None])


def true_classes(tables: NDArray[Any], separation: float) -> NDArray[Any]:
    """Return the fitted class that each true one is most like, given P(yes | class)."""
    apart = np.square(probabilities(separation)[:, None, :] - tables).sum(axis=2)
    return np.asarray(linear_sum_assignment(apart)[1])


def table_of(model: Any) -> NDArray[Any]:
    """Return P(yes | class) of each item, shape (classes, items)."""
    return np.stack([np.asarray(model.tables_[f"x{item}"])[:, 1] for item in range(ITEMS)], axis=1)


def slopes_of(found: Any, order: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return the slopes of the second and third class relative to the first, and their intervals; truths are 1."""
    own = found.relative_to(int(order[0])).coefficients
    places = [own.labels.index((int(order[place]), own.labels[1][1])) for place in (1, 2)]
    signs = np.array([-1.0, 1.0])
    ends = own.confint()[places] * signs[:, None]
    return own.values[places] * signs, np.sort(ends, axis=1)


def means_of(found: Any, order: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return the means of the second and third class, and their intervals; truths are 1."""
    signs, places = np.array([-1.0, 1.0]), order[1:]
    ends = found.estimates.confint()[places] * signs[:, None]
    return found.estimates.values[places] * signs, np.sort(ends, axis=1)


def of_stepmix(rows: Replicate, separation: float, kind: str, how: dict[str, Any]) -> NDArray[Any]:
    """Return StepMix's estimates of the same."""
    from stepmix.stepmix import StepMix

    settings: dict[str, Any] = {"structural": "gaussian_diag"}
    if kind == "covariate":
        newton = {"method": "newton-raphson", "max_iter": 20}
        settings = {"structural": "covariate", "structural_params": newton}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = StepMix(
            3, measurement="bernoulli", n_init=3, max_iter=2000, abs_tol=1e-9, random_state=0, progress_bar=0,
            **settings, **how,
        )  # fmt: skip
        try:
            model.fit(rows.items, rows.covariate if kind == "covariate" else rows.outcome)
        except ValueError:
            # Its variances of an outcome may become negative under BCH weights.
            return np.full(2, np.nan)
    parameters = model.get_parameters()
    order = true_classes(np.asarray(parameters["measurement"]["pis"]), separation)
    signs = np.array([-1.0, 1.0])
    if kind == "covariate":
        slopes = np.asarray(parameters["structural"]["beta"])[order, 1]
        return np.asarray((slopes[1:] - slopes[0]) * signs)
    return np.asarray(np.asarray(parameters["structural"]["means"])[order[1:], 0] * signs)


def note(found: Found, estimates: NDArray[Any], ends: NDArray[Any], endless: bool) -> bool:
    """Add the estimates of a replicate; return whether they are used."""
    if endless or not np.isfinite(ends).all():
        found.without_end += 1
        return False
    found.estimates += estimates.tolist()
    found.covered += ((ends[:, 0] <= 1) & (ends[:, 1] >= 1)).tolist()
    return True


def measured(rows: int, separation: float, kind: str, replicates: int, beside: int) -> dict[str, Found]:
    """Return what each method finds in the replicates of a design."""
    found: dict[str, Found] = {}
    for number in range(replicates):
        data = simulated(rows, separation, number)
        model = et.LatentClassModel(3, n_init=3, random_state=0).fit(data.items)
        order = true_classes(table_of(model), separation)
        for name, how in METHODS.items():
            own = found.setdefault(name, Found())
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                if kind == "covariate":
                    ours = slopes_of(et.class_regression(model, data.items, data.covariate, **how), order)
                else:
                    ours = means_of(et.distal_outcomes(model, data.items, data.outcome, **how), order)
            if note(own, *ours, bool(caught)) and number < beside:
                other = of_stepmix(data, separation, kind, THEIRS[name])
                own.theirs += other.tolist()
                own.apart += np.abs(other - ours[0]).tolist()
        if kind == "covariate":
            own = found.setdefault("one-step", Found())
            together = np.column_stack([data.items, data.covariate])
            whole = et.LatentClassModel(3, n_init=1, random_state=0, covariates=[f"x{ITEMS}"]).fit(together)
            note(
                own,
                *slopes_of(et.class_regression(whole, together), true_classes(table_of(whole), separation)),
                False,
            )
    return found


def shown(separation: float, rows: int, name: str, found: Found) -> list[str]:
    """Return a line of the table."""
    values, near = np.array(found.estimates), np.array(found.estimates[: len(found.theirs)])
    beside = ["–"] * 3
    if found.theirs:
        both = np.isfinite(found.theirs)
        biases = (near[both].mean() - 1, np.array(found.theirs)[both].mean() - 1)
        beside = [*(f"{bias:+.3f}" for bias in biases), f"{np.nanmedian(found.apart):.4f}"]
    errors = (f"{values.mean() - 1:+.3f}", f"{np.sqrt(np.mean(np.square(values - 1))):.3f}")
    covered = f"{100 * np.mean(found.covered):.1f}"
    return [f"{separation:.1f}", f"{rows:,}", name, *errors, covered, str(found.without_end), *beside]


def run(quick: bool = False) -> None:
    """Show the table of each design."""
    beside = BESIDE if find_spec("stepmix") is not None else 0
    designs, replicates = (DESIGNS, REPLICATES) if not quick else (((0.9, 300),), 1)
    for kind, what in (("covariate", "slopes of a covariate"), ("outcome", "means of an outcome")):
        lines = []
        for separation, rows in designs:
            for name, found in measured(rows, separation, kind, replicates, beside).items():
                lines.append(shown(separation, rows, name, found))
        head = [
            "separation",
            "rows",
            "method",
            "bias",
            "RMSE",
            "covered %",
            "no end",
            "ours*",
            "StepMix*",
            "apart*",
        ]
        show_table(f"three steps: {what}, {replicates} replicates of each design; truths are ±1", head, lines)
    show_note("covered: 95 % intervals that hold the truth; no end: replicates without finite estimates, left out")
    show_note(
        f"*: bias of ours and of StepMix in the first {BESIDE} replicates, and how far both are apart (median)"
    )
