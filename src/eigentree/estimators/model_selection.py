"""How many classes, or hidden states: models of several sizes, compared by criteria and on held-out data."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import islice, pairwise
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias, get_args

import numpy as np

from eigentree.data.sequences.sequence_codes import Sequences
from eigentree.data.streams.encoded_stream import any_rows_and_columns
from eigentree.data.streams.sources import is_stream
from eigentree.data.tables.state_rules import ReadOptions
from eigentree.data.tables.weights import positive_weights
from eigentree.errors import DataError, EigentreeError, ParameterError, quoted
from eigentree.estimators.latent_class import LatentClassModel
from eigentree.estimators.mixins.constructor_parameters import Parameters, cloned
from eigentree.estimators.mixins.information_criteria import MAXIMUM_LIKELIHOOD, NEGLIGIBLE, Criteria
from eigentree.estimators.mixins.sequence_mixin import SequenceMixin
from eigentree.messages import kept_notices, renamed_arguments
from eigentree.uncertainty.likelihood_ratio import bootstrap_likelihood_ratio_test
from eigentree.uncertainty.result_tables import Labelled, ResultTable
from eigentree.validation import finite_number, flag, generator, one_by_one, one_of, our_arithmetic, whole_number

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from numpy.typing import ArrayLike

    from eigentree.arrays import Integers

__all__ = ["By", "Selection", "SelectionTrial", "select"]

By: TypeAlias = Literal["bic", "aic", "sabic", "caic", "icl", "held_out"]
"""What a size can be chosen by."""

HEADINGS = {
    "log_likelihood": "log-likelihood",
    "parameters": "parameters",
    "bic": "BIC",
    "aic": "AIC",
    "sabic": "SABIC",
    "caic": "CAIC",
    "icl": "ICL",
    "entropy_r2": "entropy R²",
    "smallest_class": "smallest class",
    "held_out": "held out",
    "p_value": "BLRT p",
}
"""What the columns of the table are called."""

DIGITS = {"parameters": 0} | dict.fromkeys(("log_likelihood", "bic", "aic", "sabic", "caic", "icl"), 2)
"""Digits after the point of what is far from 0, whatever the digits of the rest."""

UNKNOWN: dict[str, Any] = dict.fromkeys(get_args(By)[:-1], math.nan)
"""The criteria of fits that are not by maximum likelihood."""

SIZES = ("n_classes", "n_clusters", "hidden_states", "structure__hidden_states")
"""The parameters of estimators that are sizes."""

MOST_SIZES = 1000

SHARE = 0.2
"""What is held out unless the user says more: a fifth, once."""

LEVEL = 0.05
"""Of tests, as everywhere."""

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
"""Of Okabe and Ito."""


class SelectionTrial(NamedTuple):
    """One model that was tried.

    Attributes
    ----------
    name : str
        Such as ``"3 classes"``.
    family : str
        The name of the estimator that was given; empty where there is one only.
    size : int
    model : estimator or None
        Fitted to all rows; None where the fit failed.
    criteria : Criteria
        NaN where it is not known: there are no criteria of spectral models, nor of fits with pseudo-counts.
    held_out : float
        Mean log probability of a held-out row; NaN where none was held out.
    p_value : float
        Of the bootstrap likelihood-ratio test (BLRT) of the next smaller size that was tried against this one; a
        small one means that this size is needed. NaN without a test.
    seconds : float
        Processor time of all of its fits.
    failure : str
        Why it could not be fitted; empty where it was.
    """

    name: str
    family: str
    size: int
    model: Any
    criteria: Criteria
    held_out: float
    p_value: float
    seconds: float
    failure: str

    def values(self) -> dict[str, float]:
        """Return all figures by name."""
        own = {"held_out": self.held_out, "p_value": self.p_value, "seconds": self.seconds}
        return self.criteria._asdict() | own


@dataclass(frozen=True, eq=False, repr=False)
class Selection(ResultTable):
    """The models that were tried, with their criteria.

    It prints a table of those figures that are known; log-likelihoods and criteria have two digits there.

    Attributes
    ----------
    trials : tuple of SelectionTrial
    by : str
        What the best was chosen by.
    """

    trials: tuple[SelectionTrial, ...]
    by: By

    def best(self, by: By | None = None) -> Any:
        """Return the best model, fitted to all rows.

        Parameters
        ----------
        by : {"bic", "aic", "sabic", "caic", "icl", "held_out"}, optional
            By default as was said when the models were fitted.
        """
        return self.best_trial(by).model

    def best_trial(self, by: By | None = None) -> SelectionTrial:
        """Return the trial of the best model; the argument is that of `best`."""
        wanted = self.by if by is None else by
        one_of("by", wanted, get_args(By))
        sign = -1 if wanted == "held_out" else 1
        known = [trial for trial in self.trials if not math.isnan(trial.values()[wanted])]
        if not known:
            if why := next((trial.failure for trial in self.trials if trial.failure), ""):
                raise DataError(f"none of these could be fitted: {why}")
            how = "give held_out=5 or by='held_out'" if wanted == "held_out" else f"give by={wanted!r}"
            raise ParameterError(f"{HEADINGS[wanted]} of these fits is not known; {how} when you select")
        return min(known, key=lambda trial: sign * trial.values()[wanted])

    @property
    def notes(self) -> Sequence[str]:  # type: ignore[override]
        """Which is the best, whether larger or smaller ones remain to be tried, and which could not be fitted."""
        best = self.best_trial()
        found = [f"best by {HEADINGS[self.by].replace('held out', 'held-out log-likelihood')}: {best.name}"]
        own = [trial for trial in self.trials if trial.family == best.family]
        sizes = [trial.size for trial in own]
        if len(sizes) > 1 and best.size == max(sizes):
            found.append(f"{best.size} is the largest size tried; try larger ones")
        elif len(sizes) > 1 and best.size == min(sizes) > 1:
            found.append(f"{best.size} is the smallest size tried; try smaller ones")
        if needless := next((trial for trial in own if trial.p_value > LEVEL), None):
            found.append(f"{needless.name} are no better than a size less (BLRT, p = {needless.p_value:.2f})")
        return [*found, *(f"{trial.name} failed: {trial.failure}" for trial in self.trials if trial.failure)]

    def _table(self) -> Labelled:
        every = [trial.values() for trial in self.trials]
        numbers = {name: [values[name] for values in every] for name in every[0]}
        return ["name", "family", "size"], [trial[:3] for trial in self.trials], numbers

    def plot(self, ax: Any = None) -> Any:
        """Return matplotlib's axes with the criteria of each size; of several estimators, what was chosen by.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw; by default a figure of its own.
        """
        if ax is None:
            from matplotlib.figure import Figure

            ax = Figure(figsize=(6.0, 3.8), layout="constrained").subplots()
        families = list(dict.fromkeys(trial.family for trial in self.trials))
        shown = [name for name in ("bic", "aic", "sabic", "caic", "icl") if name in self._known]
        alone = len(families) > 1 or self.by == "held_out"
        lines = [(each, self.by) for each in families] if alone else [(families[0], name) for name in shown]
        for place, (family, name) in enumerate(lines):
            own = sorted((trial.size, trial.values()[name]) for trial in self.trials if trial.family == family)
            style = {"color": COLOURS[place % len(COLOURS)], "marker": "os^Dv<"[place % 6], "markersize": 5}
            ax.plot(*zip(*own, strict=True), label=family if len(families) > 1 else HEADINGS[name], **style)
        ax.set_xticks(sorted({trial.size for trial in self.trials}))
        ax.set_xlabel("size")
        ax.set_ylabel("log probability of a held-out row" if self.by == "held_out" else "criterion")
        ax.grid(color="#dddddd", linewidth=0.6)
        ax.set_axisbelow(True)
        ax.legend(frameon=False)
        return ax

    @property
    def _words(self) -> int:
        return 1

    @property
    def _known(self) -> list[str]:
        """The figures that some model has, in the order of the table."""
        every = [trial.values() for trial in self.trials]
        return [name for name in HEADINGS if any(not math.isnan(values[name]) for values in every)]

    def _cells(self, digits: int) -> tuple[list[str], list[list[str]]]:
        names = self._known
        lines = []
        for trial in self.trials:
            values = trial.values()
            shown = [f"{values[name]:.{DIGITS.get(name, digits)}f}" for name in names]
            lines.append([trial.name, *("" if cell == "nan" else cell for cell in shown)])
        return ["model", *(HEADINGS[name] for name in names)], lines


@renamed_arguments()
@our_arithmetic
def select(
    X: ArrayLike | Any,
    sizes: Iterable[int] = (1, 2, 3, 4, 5, 6),
    estimator: Any = None,
    *,
    by: By = "bic",
    held_out: float | None = None,
    blrt: bool = False,
    lengths: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
    n_jobs: int = 1,
    verbose: int = 0,
) -> Selection:
    """Return models of several numbers of classes or hidden states, with criteria by which to choose one.

    Each is fitted to all rows, by maximum likelihood unless `by` is "held_out", since criteria compare such fits.

    Parameters
    ----------
    X : array-like of shape (rows, columns), a data frame, or sequences in any form that the estimator takes
    sizes : iterable of int
        ``n_classes`` of a `LatentClassModel`, ``n_clusters`` of a `MixtureHMM`, ``hidden_states`` of an `HMM` or of
        the structure of a junction tree.
    estimator : estimator, or mapping of str to estimator, optional
        What is fitted, with its other settings, or several by name, each tried in all sizes; by default
        ``LatentClassModel(random_state=0)``.
    by : {"bic", "aic", "sabic", "caic", "icl", "held_out"}
        What the best is chosen by: a criterion of `Criteria`, or the log-likelihood of held-out rows.
    held_out : int or float, optional
        A share of the rows or sequences that is held out, or how many parts are held out in turn, 0 for none; by
        default 0.2 where `by` is "held_out", else none.
    blrt : bool
        Test each size against the next smaller one by `bootstrap_likelihood_ratio_test`, which fits both to up to
        199 samples of the smaller model.
    lengths : array-like of int, shape (sequences,), optional
        As for the estimator, where it is one of sequences.
    sample_weight : array-like of shape (rows,) or (sequences,), optional
        How often each row counts.
    n_jobs : int
        Processes that share the replicates of `blrt`.
    verbose : int
        Show the progress of `blrt` if positive, where stderr is a terminal.

    Examples
    --------
    >>> import eigentree as et
    >>> votes = et.datasets.load_votes().data
    >>> chosen = et.select(votes, sizes=(1, 2, 3), by="icl")
    >>> chosen.best().n_classes
    3
    >>> words = ["AAAABBBB", "AAABBB", "BBBAAAA"] * 20
    >>> et.select(words, (1, 2), et.HMM(random_state=0)).best().hidden_states
    2
    """
    one_of("by", by, get_args(By))
    numbers = _wholes("sizes", sizes)
    given = LatentClassModel(random_state=0) if estimator is None else estimator
    families: Mapping[str, Any] = given if isinstance(given, Mapping) else {"": given}
    if not families:
        raise ParameterError("estimator is an estimator or several by name, and there are none")
    for each in families.values():
        _check_estimator(each, by, flag("blrt", blrt))
    parts = (SHARE if by == "held_out" else 0) if held_out is None else _parts(held_out)
    if by == "held_out" and not parts:
        raise ParameterError("by='held_out' needs rows that are held out; leave held_out=0 out, or give 5 or 0.2")
    trials: list[SelectionTrial] = []
    for family, one in families.items():
        data, taken = _read(one, X, lengths, sample_weight)
        splits = _splits(data.count, parts)
        likelihood = {} if by == "held_out" else _of_maximum_likelihood(one)
        size_of = next(name for name in SIZES if name in one.get_params())
        for size in numbers:
            model = cloned(one, **likelihood).set_params(**{size_of: size})
            unit = {"n_classes": "class", "n_clusters": "cluster"}.get(size_of, "state")
            name = f"{family}{', ' if family else ''}{size} {unit}"
            plural = "" if size == 1 else "es" if unit == "class" else "s"
            trial = SelectionTrial(
                f"{name}{plural}", family, size, *_tried(model, data, taken, sample_weight, splits)
            )
            smaller = trials[-1].model if trials and trials[-1].family == family else None
            if blrt and smaller is not None and trial.model is not None:
                test = bootstrap_likelihood_ratio_test(
                    smaller,
                    trial.model,
                    data,
                    sample_weight=sample_weight,
                    random_state=0,
                    n_jobs=n_jobs,
                    verbose=verbose,
                )
                trial = trial._replace(p_value=test.p_value)
            trials.append(trial)
    selection = Selection(tuple(trials), by)
    # Where none could be fitted, this says why.
    selection.best_trial()
    return selection


def _tried(
    estimator: Any,
    data: Any,
    taken: Callable[[Integers], Any],
    sample_weight: ArrayLike | None,
    splits: Sequence[tuple[Integers, Integers]],
) -> tuple[Any, Criteria, float, float, float, str]:
    """Return the fitted model and its figures, in the order of `SelectionTrial`."""
    unknown = Criteria(*[math.nan] * len(Criteria._fields))  # type: ignore[arg-type]
    begin = time.process_time()
    try:
        model = cloned(estimator).fit(data, sample_weight=sample_weight)
        criteria = _criteria(model, data, sample_weight)
        held_out = _held_out(estimator, data.count, taken, sample_weight, splits)
    except EigentreeError as error:
        return None, unknown, math.nan, math.nan, time.process_time() - begin, str(error)
    return model, criteria, held_out, math.nan, time.process_time() - begin, ""


def _criteria(model: Any, data: Any, sample_weight: ArrayLike | None) -> Criteria:
    """Return the figures of a fit; those that compare fits of maximum likelihood only are NaN for others."""
    if not hasattr(model, "criteria"):
        log_prob = model.score_samples(data)
        weights = positive_weights(sample_weight, len(log_prob))
        alone = Criteria.of(float(weights @ log_prob), 0, float(weights.sum()))
        return alone._replace(**UNKNOWN | {"parameters": math.nan})
    with kept_notices():
        found: Criteria = model.criteria(data, sample_weight=sample_weight)
    # That of an HMM is a parameter, and not learned.
    prior = max(float(vars(model).get("pseudo_counts_", model.pseudo_counts)), getattr(model, "sticky", 0.0))
    return found if prior <= NEGLIGIBLE else found._replace(**UNKNOWN)


def _held_out(
    estimator: Any,
    count: int,
    taken: Callable[[Integers], Any],
    sample_weight: ArrayLike | None,
    splits: Sequence[tuple[Integers, Integers]],
) -> float:
    """Return the mean log probability of a row of the parts that are held out, each under a fit to the others."""
    weights = positive_weights(sample_weight, count)
    total = weight = 0.0
    for others, part in splits:
        own = None if sample_weight is None else weights[others]
        # What does not count may be impossible.
        judged = part[weights[part] > 0]
        learned = cloned(estimator).fit(taken(others), sample_weight=own)
        total += float(weights[judged] @ learned.score_samples(taken(judged)))
        weight += float(weights[judged].sum())
    return total / weight if weight else math.nan


def _read(
    estimator: Any, X: Any, lengths: ArrayLike | None, sample_weight: Any
) -> tuple[Any, Callable[[Integers], Any]]:
    """Return the rows or sequences, read once, so that all parts have the labels of all; and what takes some."""
    if isinstance(estimator, SequenceMixin):
        options = ReadOptions.of(estimator)
        sequences = Sequences.learned(X, lengths, estimator.sequence, estimator.time, options)
        return sequences, sequences.chosen
    if lengths is not None:
        raise ParameterError(f"lengths are of sequences, and {type(estimator).__name__} learns from rows")
    if is_stream(X):
        raise DataError(f"sizes are compared on rows in memory, and these come in batches ({quoted(X)})")
    rows: Any = any_rows_and_columns(X, ReadOptions.of(estimator, sample_weight))[0]
    return rows, rows.taken


def _splits(count: int, parts: float) -> list[tuple[Integers, Integers]]:
    """Return training rows and held-out rows, in their order: of each fold, or of one share."""
    if not parts:
        return []
    share = parts if parts < 1 else 1 / parts
    if not 0 < round(share * count) < count or parts > count:
        what = f"{parts} parts" if parts >= 1 else f"a share of {parts:g}"
        raise DataError(f"there are {count} rows or sequences; {what} cannot be held out")
    order = generator(0).permutation(count)
    bounds = np.linspace(0, count, int(parts) + 1).astype(np.int64) if parts >= 1 else [0, round(parts * count)]
    return [
        (np.sort(np.delete(order, np.s_[start:stop])), np.sort(order[start:stop]))
        for start, stop in pairwise(bounds)
    ]


def _parts(held_out: Any) -> float:
    """Return a number of parts or a share, checked."""
    if isinstance(held_out, float | np.floating) and 0 < held_out < 1:
        return float(held_out)
    number = finite_number("held_out", held_out, 0.0)
    if isinstance(held_out, bool) or number == 1 or number != int(number):
        raise ParameterError(
            f"held_out is a number of parts such as 5, a share such as 0.2, or 0, not {quoted(held_out)}"
        )
    return int(number)


def _check_estimator(estimator: Any, by: By, blrt: bool) -> None:
    """Raise `ParameterError` unless an estimator has a size, and what it is chosen by."""
    if not isinstance(estimator, Parameters) or isinstance(estimator, type):
        raise ParameterError(
            f"estimator is a LatentClassModel, an HMM, or a junction tree with a template, not {quoted(estimator)}"
        )
    if not any(name in estimator.get_params() for name in SIZES):
        structure = quoted(getattr(estimator, "structure", None))
        raise ParameterError(
            f"{type(estimator).__name__} with structure={structure} has no size to choose; give a template such as "
            f"zoo.Mixture() or zoo.HMM()"
        )
    if by != "held_out" and not hasattr(estimator, "criteria"):
        raise ParameterError(
            f"by={by!r} needs the number of free parameters, which {type(estimator).__name__} does not have; "
            f"choose by='held_out'"
        )
    if blrt and not (hasattr(estimator, "init") and hasattr(estimator, "emissions")):
        raise ParameterError(f"blrt=True needs models fitted by EM, which {type(estimator).__name__} is not")


def _of_maximum_likelihood(estimator: Any) -> dict[str, float]:
    """Return the settings by which an estimator fits by maximum likelihood, unless it does anyway."""
    prior, found = estimator.pseudo_counts, {}
    if isinstance(prior, str) or prior > NEGLIGIBLE:
        found["pseudo_counts"] = MAXIMUM_LIKELIHOOD
    return found | ({"sticky": 0.0} if hasattr(estimator, "sticky") else {})


def _wholes(argument: str, numbers: Any) -> list[int]:
    given = islice(one_by_one(argument, numbers, "whole numbers", ParameterError), MOST_SIZES + 1)
    found = [whole_number(argument, number) for number in given]
    if not 0 < len(found) <= MOST_SIZES:
        raise ParameterError(f"{argument} are 1 to {MOST_SIZES} numbers, not {len(found) or 'none'}")
    return sorted(set(found))
