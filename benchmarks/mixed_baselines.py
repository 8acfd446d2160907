"""Methods of other packages on tables of numbers beside categories: densities, and masked cells filled in.

Each learns from training rows; its size and settings are chosen on validation rows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from benchmarks.mixed_data import MixedSplit

    Cells = NDArray[np.float64]

COMPONENTS = (1, 2, 4, 8, 16, 32, 64, 128)
RIDGES = (1e-4, 1e-2)
"""What is added to the variances of mixtures: little, and enough that no component is of a few rows."""

BANDWIDTHS = tuple(np.geomspace(0.03, 1.2, 14))
"""Of kernels on standardised columns."""

PATIENCE = 2
"""How many larger mixtures may be worse on validation rows before no larger one is tried."""

MOST_CLASSES = 12
"""Joint states of the categories up to which each has a density of its own."""

FEWEST_ROWS = 20
"""Training rows of a joint state below which its density is that of all rows."""

CORRELATIONS_SHRUNK = (0.0, 0.02, 0.05, 0.1, 0.2)
FOLDS = 5
ROUGHNESS = (0.25, 0.4, 0.6, 0.8, 1.0, 1.3)
"""Bandwidths of a copula's marginals, in those of Silverman's rule."""

GRID = 4096
"""Points at which a marginal is kept; its bandwidth is at least one and a half steps between them."""

TAIL = 0.01
"""Weight of a wide Student's t in every marginal, without which far rows would have density zero."""


class Density(Protocol):
    """Anything that gives the log densities of rows of numbers."""

    def score_samples(self, X: Cells) -> Cells: ...


FitDensity = Callable[["Cells", "Cells"], Density]
"""From training and validation rows."""


class Scored(NamedTuple):
    """Mean log density of validation and of test rows, and what was chosen."""

    validation: float
    test: float
    size: str


def gaussian_mixture(covariance: str, train: Cells, validation: Cells) -> Density:
    """Return a Gaussian mixture of scikit-learn, of as many components as validation rows choose."""
    from sklearn.mixture import GaussianMixture

    best: Density | None = None
    highest, worse = -np.inf, 0
    for components in COMPONENTS:
        # A component needs rows: of one, the variance would be the ridge.
        if components > 1 and 3 * components > len(train):
            break
        models = [
            GaussianMixture(components, covariance_type=covariance, reg_covar=ridge, n_init=2, random_state=0)
            for ridge in RIDGES
        ]
        model = max(models, key=lambda model: model.fit(train).score(validation))
        score = model.score(validation)
        best, highest, worse = (model, score, 0) if score > highest else (best, highest, worse + 1)
        if worse == PATIENCE:
            break
    assert best is not None
    return best


def kernels(train: Cells, validation: Cells) -> Density:
    """Return a kernel density estimate, of the bandwidth that validation rows choose."""
    from sklearn.neighbors import KernelDensity

    models = [KernelDensity(bandwidth=width).fit(train) for width in BANDWIDTHS]
    best: Density = max(models, key=lambda model: model.score(validation))
    return best


class Marginal:
    """The smooth density of one column: kernels on it or on its Yeo-Johnson transform, as five folds choose."""

    def __init__(self, values: Cells) -> None:
        from scipy.stats import yeojohnson_normmax

        self.centre, self.scale = float(np.median(values)), 2 * max(float(values.std()), 1e-9)
        # Powers beyond these make numbers of tails that no float holds.
        power = float(np.clip(yeojohnson_normmax(values), -3, 5))
        fold = np.random.default_rng(0).permutation(len(values)) % FOLDS
        best = -np.inf
        for exponent, roughness in product((None, power), ROUGHNESS):
            y, log_slope = _transformed(values, exponent)
            width = roughness * 1.06 * _spread(y) * len(y) ** -0.2
            ends = (y.min() - 5 * _spread(y), y.max() + 5 * _spread(y))
            score = float(np.sum(log_slope))
            for out in range(FOLDS):
                grid, density = _kernel_grid(y[fold != out], width, *ends)
                score += np.log((1 - TAIL) * np.interp(y[fold == out], grid, density) + 1e-6).sum()
            if score > best:
                best, self.power = score, exponent
                self.grid, self.density = _kernel_grid(y, width, *ends)
        mass = np.cumsum(self.density)
        self.mass = (mass - self.density / 2) / mass[-1]

    def log_density(self, values: Cells) -> Cells:
        """Return the log density of values."""
        from scipy.stats import t

        y, log_slope = _transformed(values, self.power)
        smooth = np.interp(y, self.grid, self.density, left=0.0, right=0.0) * np.exp(log_slope)
        logs: Cells = np.log((1 - TAIL) * smooth + TAIL * t.pdf(values, 3, self.centre, self.scale))
        return logs

    def normal_scores(self, values: Cells) -> Cells:
        """Return the standard normal quantiles of the distribution function at values."""
        from scipy.stats import norm, t

        y, _ = _transformed(values, self.power)
        below = (1 - TAIL) * np.interp(y, self.grid, self.mass) + TAIL * t.cdf(values, 3, self.centre, self.scale)
        scores: Cells = norm.ppf(np.clip(below, 1e-9, 1 - 1e-9))
        return scores


def _transformed(values: Cells, power: float | None) -> tuple[Cells, Cells | float]:
    """Return the Yeo-Johnson transform of values and its log slope; None leaves values as they are."""
    if power is None:
        return values, 0.0
    from scipy.stats import yeojohnson

    return yeojohnson(values, power), np.sign(values) * np.log1p(np.abs(values)) * (power - 1)


def _spread(values: Cells) -> float:
    """Return Silverman's robust standard deviation."""
    low, high = np.quantile(values, [0.25, 0.75])
    deviation = float(values.std()) or 1e-9
    return min(deviation, (high - low) / 1.34) or deviation


def _kernel_grid(values: Cells, width: float, low: float, high: float) -> tuple[Cells, Cells]:
    """Return a grid and the kernel density estimate on it."""
    from scipy.ndimage import gaussian_filter1d

    grid, step = np.linspace(low, high, GRID, retstep=True)
    place = (values - low) / step
    left = np.clip(place.astype(np.int64), 0, GRID - 2)
    counts = np.bincount(left, 1 - (place - left), GRID) + np.bincount(left + 1, place - left, GRID)
    smooth = gaussian_filter1d(counts, max(width / step, 1.5), mode="constant", truncate=6.0)
    return grid, smooth / (smooth.sum() * step)


class GaussianCopula:
    """Smooth marginals whose normal scores are jointly normal; validation rows choose the shrinkage."""

    def __init__(self, train: Cells, validation: Cells) -> None:
        self.marginals = [Marginal(column) for column in train.T]
        columns = train.shape[1]
        correlations = np.corrcoef(self._scores(train).T).reshape(columns, columns)
        shrunk = [(1 - share) * correlations + share * np.eye(columns) for share in CORRELATIONS_SHRUNK]
        self.correlations = max(shrunk, key=lambda matrix: self._log_densities(validation, matrix).mean())

    def score_samples(self, X: Cells) -> Cells:
        """Return the log densities of rows."""
        return self._log_densities(X, self.correlations)

    def _scores(self, values: Cells) -> Cells:
        return np.stack(
            [one.normal_scores(column) for one, column in zip(self.marginals, values.T, strict=True)], 1
        )

    def _log_densities(self, values: Cells, correlations: Cells) -> Cells:
        scores = self._scores(values)
        excess = np.linalg.inv(correlations) - np.eye(len(correlations))
        logs: Cells = -0.5 * (np.einsum("ni,ij,nj->n", scores, excess, scores) + np.linalg.slogdet(correlations)[1])
        for one, column in zip(self.marginals, values.T, strict=True):
            logs += one.log_density(column)
        return logs


def per_class(fit: FitDensity, split: MixedSplit) -> Scored | None:
    """Return what a density of numbers for each joint state of the categories reaches; None of many states."""
    classes = int(np.prod(split.states, dtype=np.int64))
    if classes > MOST_CLASSES:
        return None
    codes = [
        np.ravel_multi_index(split.codes(frame).T, split.states) if split.states else np.zeros(len(frame), np.int64)
        for frame in split[:3]
    ]
    train, validation, test = (split.values(frame) for frame in split[:3])
    counts = np.bincount(codes[0], minlength=classes)
    shares = (counts + 0.5) / (counts + 0.5).sum() if classes > 1 else np.ones(1)
    logs = [np.empty(len(validation)), np.empty(len(test))]
    for state in range(classes):
        enough = counts[state] >= FEWEST_ROWS
        chosen = validation[codes[1] == state]
        # A few validation rows choose nothing; all of them choose a smoothness that suits most classes.
        model = fit(train[codes[0] == state] if enough else train, chosen if len(chosen) > 3 else validation)
        for log, values, code in zip(logs, (validation, test), codes[1:], strict=True):
            if (code == state).any():
                log[code == state] = model.score_samples(values[code == state]) + np.log(shares[state])
    return Scored(float(logs[0].mean()), float(logs[1].mean()), "")


def stepmix(split: MixedSplit) -> Scored:
    """Return what StepMix's mixture of Gaussian and categorical columns reaches."""
    from stepmix.stepmix import StepMix

    parts = [cells(split, frame) for frame in split[:3]]
    measurement = {
        name: {"model": model, "n_columns": columns}
        for name, model, columns in (
            ("numbers", "gaussian_diag", len(split.numbers)),
            ("categories", "categorical", len(split.categories)),
        )
        if columns
    }
    best, highest, size, worse = None, -np.inf, 0, 0
    for components in COMPONENTS:
        if components > 1 and 3 * components > len(parts[0]):
            break
        model = StepMix(
            components, measurement=measurement, n_init=2, max_iter=300, random_state=0, verbose=0, progress_bar=0
        )
        score = model.fit(parts[0]).score(parts[1])
        best, highest, size, worse = (
            (model, score, components, 0) if score > highest else (best, highest, size, worse + 1)
        )
        if worse == PATIENCE:
            break
    assert best is not None
    return Scored(float(highest), float(best.score(parts[2])), f"{size} classes")


DENSITIES: dict[str, Callable[[MixedSplit], Scored | None]] = {
    "StepMix": stepmix,
    "GMM full": partial(per_class, partial(gaussian_mixture, "full")),
    "GMM diag": partial(per_class, partial(gaussian_mixture, "diag")),
    "KDE": partial(per_class, kernels),
    "copula": partial(per_class, GaussianCopula),
}


# Masked cells


def cells(split: MixedSplit, frame: Any) -> Cells:
    """Return rows as floats: the numbers, then the codes of categories; NaN is missing."""
    codes = split.codes(frame).astype(np.float64)
    codes[codes < 0] = np.nan
    return np.concatenate([split.values(frame), codes], axis=1)


@dataclass(frozen=True, eq=False)
class Task:
    """Training rows, whole and with masked cells, and rows to fill in; `states` has 0 for a number."""

    train: Cells
    masked: Cells
    missing: Cells
    states: tuple[int, ...]

    def one_hot(self, values: Cells) -> Cells:
        """Return the rows with a column of zeros and ones for each state of a category."""
        blocks = []
        for column, states in zip(values.T, self.states, strict=True):
            block = column[:, None] if states == 0 else (column[:, None] == np.arange(states)).astype(np.float64)
            block[np.isnan(column)] = np.nan
            blocks.append(block)
        return np.concatenate(blocks, axis=1)

    def from_one_hot(self, values: Cells) -> Cells:
        """Return the rows of which `one_hot` has these columns; the largest of a category's columns counts."""
        columns, start = [], 0
        for states in self.states:
            stop = start + max(states, 1)
            columns.append(values[:, start] if states == 0 else values[:, start:stop].argmax(axis=1))
            start = stop
        return np.stack(columns, axis=1).astype(np.float64)

    def usual(self) -> Cells:
        """Return the mean of each number and the commonest state of each category."""
        return np.array(
            [
                np.bincount(column.astype(np.int64)).argmax() if states else column.mean()
                for column, states in zip(self.train.T, self.states, strict=True)
            ],
            np.float64,
        )


Fill = Callable[[Task], "Cells"]
"""Returns the rows to fill in, filled in."""


def column_means(task: Task) -> Cells:
    """Return the rows filled with means and commonest states."""
    return np.where(np.isnan(task.missing), task.usual(), task.missing)


def nearest(count: int, task: Task) -> Cells:
    """Return the rows filled by the nearest training rows."""
    from sklearn.impute import KNNImputer

    imputer = KNNImputer(n_neighbors=count, weights="distance").fit(task.one_hot(task.train))
    return task.from_one_hot(imputer.transform(task.one_hot(task.missing)))


def iterative(whole: bool, task: Task) -> Cells:
    """Return the rows filled by scikit-learn's chained Bayesian ridges, of categories as indicators."""
    from sklearn.experimental import enable_iterative_imputer  # noqa: F401
    from sklearn.impute import IterativeImputer

    # It learns nothing of columns that miss no cell, so masked rows are always among its rows.
    rows = np.concatenate([task.masked, task.train]) if whole else task.masked
    imputer = IterativeImputer(random_state=0, max_iter=10, keep_empty_features=True).fit(task.one_hot(rows))
    return task.from_one_hot(imputer.transform(task.one_hot(task.missing)))


ROUNDS = 3
MOST_FOREST_ROWS = 2_000
TREES = 50


def chained(forest: bool, whole: bool, task: Task) -> Cells:
    """Return the rows filled by a model for each column given all others, in rounds.

    Indicators of a category predict each other perfectly, so `iterative` learns to copy its first guess of them;
    here a category has a classifier.
    """
    known = task.train if whole else task.masked
    if forest:
        known = known[:MOST_FOREST_ROWS]
    usual = task.usual()
    learning, filled = (np.where(np.isnan(rows), usual, rows) for rows in (known, task.missing))
    for _ in range(ROUNDS):
        for j, states in enumerate(task.states):
            unknown, asked = np.isnan(known[:, j]), np.isnan(task.missing[:, j])
            target = known[~unknown, j]
            if not asked.any() or (states and len(np.unique(target)) < 2):
                continue
            model = _column_model(forest, bool(states))
            model.fit(_features(task, learning, j, forest)[~unknown], target)
            for rows, missing in ((learning, unknown), (filled, asked)):
                if missing.any():
                    rows[missing, j] = model.predict(_features(task, rows[missing], j, forest))
    return filled


def _column_model(forest: bool, category: bool) -> Any:
    """Return the model of one column."""
    from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
    from sklearn.linear_model import BayesianRidge, LogisticRegression

    if forest:
        kind = RandomForestClassifier if category else RandomForestRegressor
        return kind(TREES, min_samples_leaf=2, max_features=0.5, random_state=0, n_jobs=1)
    return LogisticRegression(max_iter=300) if category else BayesianRidge()


def _features(task: Task, rows: Cells, target: int, forest: bool) -> Cells:
    """Return what predicts a column: codes of the others to a forest, indicators to a linear model."""
    if forest:
        return np.delete(rows, target, axis=1)
    others = [j for j in range(len(task.states)) if j != target]
    if not others:
        return np.empty((len(rows), 0))
    part = Task(task.train, task.masked, task.missing, tuple(task.states[j] for j in others))
    return part.one_hot(rows[:, others].copy())


FILLS: dict[str, tuple[Fill, ...]] = {
    "column mean": (column_means,),
    "IterativeImputer": tuple(partial(iterative, whole) for whole in (True, False)),
    "KNNImputer": tuple(partial(nearest, count) for count in (5, 10, 20, 40)),
    "chained linear": tuple(partial(chained, False, whole) for whole in (True, False)),
    "chained forests": tuple(partial(chained, True, whole) for whole in (True, False)),
}
"""Each method with its settings, of which validation rows choose: also whether it learns from whole training rows,
or from rows with as many masked cells as those to be filled in have."""
