"""Coverage of 95 % intervals after multiple imputation, beside single imputation and complete rows."""

from __future__ import annotations

from statistics import fmean
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pandas as pd
from scipy.stats import t

import eigentree as et
from benchmarks.measure import show_note, show_table

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

ROWS, IMPUTATIONS, LEVEL, REPLICATES = 500, 20, 0.95, 300
SHARES = np.array([0.5, 0.3, 0.2])
YES = np.array([[0.9, 0.8, 0.8, 0.7, 0.9], [0.2, 0.3, 0.7, 0.2, 0.1], [0.6, 0.1, 0.2, 0.8, 0.3]])
"""P(yes) of five items in each class; the first has cells missing."""
MEANS = np.array([[0.0, 0.0], [1.5, 1.0], [-1.0, 2.0]])
WITHIN = 0.5
"""The slope of y on x within each class, both with variance 1."""
MISSING = 0.3
SEED = 20_261_119
"""Of all data; set before any was looked at."""


class Estimate(NamedTuple):
    """An estimate of complete data, its standard error and degrees of freedom."""

    value: float
    error: float
    df: float


def sampled(random: np.random.Generator, rows: int) -> pd.DataFrame:
    """Return complete rows: three classes, five items, and two numbers that depend on each other in each class."""
    classes = random.choice(3, size=rows, p=SHARES)
    items = np.where(random.random((rows, 5)) < YES[classes], "yes", "no")
    x, noise = random.normal(size=(2, rows))
    y = WITHIN * x + np.sqrt(1.0 - WITHIN**2) * noise
    return pd.DataFrame(items, columns=list("abcde")).assign(x=x + MEANS[classes, 0], y=y + MEANS[classes, 1])


def amputed(table: pd.DataFrame, random: np.random.Generator) -> pd.DataFrame:
    """Return rows of which 30 % miss item a and 30 % miss y, the more likely the larger x, and if b is yes."""
    found = table.copy()
    for name in ("a", "y"):
        lean = np.where(table.b == "yes", 0.8, -0.8) + (table.x - table.x.mean()) / table.x.std()
        rank = (lean + random.logistic(size=len(table))).rank(pct=True)
        found.loc[rank > 1.0 - MISSING, name] = None if name == "a" else np.nan
    return found


def estimated(table: pd.DataFrame) -> dict[str, Estimate]:
    """Return mean, proportion and slope of complete rows, with the standard errors of textbooks."""
    rows = len(table)
    share, y, x = float((table.a == "yes").mean()), table.y.to_numpy(), table.x.to_numpy()
    away = x - x.mean()
    slope = float(away @ y / (away @ away))
    residuals = y - y.mean() - slope * away
    # The linear model does not hold for a mixture, so the error of the slope is robust (HC1).
    robust = np.sqrt(float((away**2) @ (residuals**2)) * rows / (rows - 2)) / float(away @ away)
    return {
        "mean of y": Estimate(float(y.mean()), float(y.std(ddof=1) / np.sqrt(rows)), rows - 1),
        "proportion of a": Estimate(share, float(np.sqrt(share * (1.0 - share) / (rows - 1))), rows - 1),
        "slope of y on x": Estimate(slope, float(robust), rows - 2),
    }


def truth() -> dict[str, float]:
    """Return the same of the population."""
    mean = SHARES @ MEANS
    spread = (MEANS - mean).T @ (SHARES[:, None] * (MEANS - mean)) + np.array([[1.0, WITHIN], [WITHIN, 1.0]])
    return {
        "mean of y": float(mean[1]),
        "proportion of a": float(SHARES @ YES[:, 0]),
        "slope of y on x": float(spread[0, 1] / spread[0, 0]),
    }


def latent_classes() -> et.LatentClassModel:
    """Return the model that the rows come from."""
    together = {("x", "y"): "full"}
    return et.LatentClassModel(3, init="mixture", n_init=3, tol=1e-6, emissions=together, random_state=0)


Intervals = dict[str, tuple[float, float, float]]
"""The estimate of each quantity, and both ends of its interval."""


def intervals(estimates: dict[str, Estimate]) -> Intervals:
    """Return what complete data would give."""
    made = {}
    for name, (value, error, df) in estimates.items():
        half = float(t.ppf((1.0 + LEVEL) / 2.0, df)) * error
        made[name] = (value, value - half, value + half)
    return made


def pooled(tables: Sequence[pd.DataFrame]) -> Intervals:
    """Return what Rubin's rules make of the estimates of several tables."""
    each = [estimated(table) for table in tables]
    values, errors = ([[one[name][at] for name in one] for one in each] for at in (0, 1))
    found = et.pool(values, errors, df=[one.df for one in each[0].values()])
    ends = found.confint(LEVEL)
    return {name: (float(found.values[k]), *map(float, ends[k])) for k, name in enumerate(each[0])}


def one_replicate(seed: int, make: Callable[[], et.LatentClassModel], rows: int, m: int) -> dict[str, Intervals]:
    """Return the intervals of each method for one sample."""
    random = np.random.default_rng([SEED, seed])
    complete = sampled(random, rows)
    table = amputed(complete, random)
    model = make().fit(table)
    tables = et.multiple_imputation(model, table, m=m, random_state=seed)
    same = [model.impute(table, "sample", random_state=1000 * seed + k) for k in range(m)]
    return {
        "no cells missing": intervals(estimated(complete)),
        "rows that are complete": intervals(estimated(table.dropna())),
        "filled by mode and mean": intervals(estimated(model.impute(table))),
        "one sample": intervals(estimated(same[0])),
        f"{m} samples, parameters as fitted": pooled(same),
        f"{m} imputations": pooled(tables),
    }


def coverage(
    make: Callable[[], et.LatentClassModel], replicates: int, rows: int, m: int
) -> dict[str, dict[str, tuple[float, float, float]]]:
    """Return, by method and quantity, coverage, bias, and mean length of intervals."""
    runs = [one_replicate(seed, make, rows, m) for seed in range(replicates)]
    made: dict[str, dict[str, tuple[float, float, float]]] = {}
    for method in runs[0]:
        for name, right in truth().items():
            own = [run[method][name] for run in runs]
            made.setdefault(method, {})[name] = (
                fmean(low <= right <= high for _, low, high in own),
                fmean(value - right for value, _, _ in own),
                fmean(high - low for _, low, high in own),
            )
    return made


def run(quick: bool = False) -> None:
    """Print coverage, bias and the length of intervals by method."""
    rows, m, replicates = (200, 3, 4) if quick else (ROWS, IMPUTATIONS, REPLICATES)
    found = coverage(latent_classes, replicates, rows, m)
    lines = [
        [method, name, f"{covered:.3f}", f"{bias:.3f}", f"{length:.3f}"]
        for method, each in found.items()
        for name, (covered, bias, length) in each.items()
    ]
    show_table(
        f"multiple_imputation: 95 % intervals; {rows} rows of three classes, {MISSING:.0%} of y and of a missing "
        f"at random, {replicates} samples",
        ["method", "quantity", "coverage", "bias", "length"],
        lines,
    )
    error = np.sqrt(LEVEL * (1.0 - LEVEL) / replicates)
    show_note(f"a coverage of {LEVEL:.0%} has a standard error of {error:.3f} in so many samples")
