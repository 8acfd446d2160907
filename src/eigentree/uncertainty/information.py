"""Information matrices of a fitted model, and from them estimates with standard errors.

What it needs to know of a model is a `FreeModel`: free coordinates, which are 0 at the estimate, the log-likelihood
of each row at other ones, and the gradient of the objective there.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol, get_args

import numpy as np

from eigentree.errors import DataError, ParameterError, quoted
from eigentree.uncertainty.estimates import Estimates
from eigentree.uncertainty.quantities import Quantities
from eigentree.validation import an_array, check_cells, one_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import ArrayLike

    from eigentree.arrays import Booleans, Floats, Integers
    from eigentree.emissions.base import Emission

__all__ = [
    "FreeModel",
    "FreePart",
    "Information",
    "Kind",
    "SurveyDesign",
    "central_differences",
    "group_numbers",
]

Kind = Literal["observed", "empirical", "robust"]

STEP = 1e-4
"""The step of central differences, along coordinates in which 1 is far: their error, in proportion, is about
STEP² / 6, and rounding adds about 1e-16 / STEP of what is differenced; gamma functions of large numbers, which are
rounded most, still change by more than their last digits."""

UNKNOWN = 1e-6
"""A direction of which rows have less than this share of the information that they would have if no state were
hidden: differences do not distinguish that from none, and EM would take as many iterations as its inverse."""

MIXED = 1e-3
"""A quantity depends on a direction if so much of its slope, in proportion, is along it."""

NEAR = 0.2
"""Estimates so many standard errors away from the optimum have intervals of 95 % that cover 94.5 %."""

MOST_NAMED = 5
"""Most quantities that a note names."""


def central_differences(function: Callable[[Floats], Any], count: int) -> Floats:
    """Return the derivatives of a function of so many numbers where all are 0, shape (…, numbers)."""
    if not count:
        return np.zeros((*np.shape(function(np.zeros(0))), 0))
    pairs = ((function(step), function(-step)) for step in STEP * np.eye(count))
    return np.stack([(beyond - before) / (2.0 * STEP) for beyond, before in pairs], axis=-1)


class FreePart(Protocol):
    """Some parameters of a model along free coordinates of their own, which are 0 at the estimate."""

    @property
    def count(self) -> int:
        """The number of coordinates."""

    def moved(self, by: Floats) -> Floats:
        """Return the parameters at some coordinates."""

    def gradient(self, values: Floats, counts: Any) -> Floats:
        """Return the gradient of the objective, given the parameters there and what is expected under them."""

    def complete_information(self, counts: Any) -> Floats:
        """Return about the information of each coordinate by itself, given what is expected at the estimate."""


@dataclass(frozen=True, eq=False)
class CountedStates:
    """An emission whose statistics are the counts of its states, for an E-step.

    Attributes
    ----------
    emission : Emission
    """

    emission: Emission

    @property
    def states(self) -> int:
        """Number of states."""
        return self.emission.states

    def lines(self, features: Any) -> Floats:
        """Return the log density of each row in each state."""
        return self.emission.lines(features)

    def statistics(self, features: Any, counts: Floats) -> Floats:
        """Return the counts of the states, whatever cells rows lack."""
        return np.asarray(counts.sum(axis=0))

    def complete_information(self, totals: Floats) -> Floats:
        """Return about how much rows say of each coordinate: one row one unit, given the count of each state."""
        count = self.emission.n_coordinates
        if self.emission.is_tied or self.emission.conditions:
            return np.full(count, totals.sum())
        return np.repeat(totals, count // len(totals))


@dataclass(frozen=True, eq=False)
class FreeModel(ABC):
    """A fitted estimator along free coordinates, which are 0 at the estimate: those of parts, then of emissions.

    Attributes
    ----------
    model : EMJunctionTree, LatentClassModel or EMHMM
    data : Rows or Sequences
        Those that differ and count.
    weights : array, shape (units,)
        How often each row or sequence of the user counts.
    places : array of int, shape (units,)
        Which of the data each of them is like; -1 where it does not count.
    objective : Objective
        Of the data, with the prior of the fit.
    estimates : list of array
        The parameters of each part.
    emissions : sequence of Emission
    unit : str
        What rows or sequences are called.
    """

    model: Any
    data: Any
    weights: Floats
    places: Integers
    objective: Any
    estimates: list[Floats]
    emissions: Sequence[Emission]
    unit: str = "row"

    @property
    @abstractmethod
    def parts(self) -> Sequence[FreePart]:
        """The parts, which may depend on what is expected at the estimate."""

    @abstractmethod
    def expected(self, values: list[Floats], emissions: Sequence[Any]) -> tuple[list[Any], list[Floats]]:
        """Return what is expected under the parameters of each part, without a prior, and emissions' statistics."""

    @abstractmethod
    def moved(self, values: list[Floats], emissions: list[Emission]) -> Any:
        """Return the fitted estimator with other parameters and emissions."""

    @cached_property
    def here(self) -> tuple[list[Any], list[Floats]]:
        """What is expected at the estimate; of emissions counts of states."""
        return self.expected(self.estimates, [CountedStates(own) for own in self.emissions])

    @cached_property
    def _ends(self) -> Integers:
        """Where the coordinates of each part end, and those of each emission."""
        return np.cumsum([*(part.count for part in self.parts), *(own.n_coordinates for own in self.emissions)])

    @property
    def count(self) -> int:
        """The number of coordinates."""
        return int(self._ends[-1])

    def at(self, by: Floats) -> tuple[list[Floats], list[Emission]]:
        """Return the parameters of each part, and emissions, at some coordinates."""
        own = np.split(by, self._ends[:-1])
        values = [part.moved(each) for part, each in zip(self.parts, own, strict=False)]
        pairs = zip(self.emissions, own[len(values) :], strict=True)
        return values, [emission.moved(each) for emission, each in pairs]

    def gradient(self, by: Floats) -> Floats:
        """Return the gradient of the objective at some coordinates (Fisher's identity)."""
        values, emissions = self.at(by)
        counts, statistics = self.expected(values, emissions)
        found = [part.gradient(*own) for part, *own in zip(self.parts, values, counts, strict=True)]
        others = np.split(by, self._ends[:-1])[len(values) :]
        shown = [emission.gradient(*own) for emission, *own in zip(self.emissions, others, statistics, strict=True)]
        return np.concatenate([*found, *shown])

    @cached_property
    def complete_information(self) -> Floats:
        """About the information of each coordinate by itself, if no state were hidden."""
        counts, totals = self.here
        found = [part.complete_information(own) for part, own in zip(self.parts, counts, strict=True)]
        pairs = zip(self.emissions, totals, strict=True)
        shown = [CountedStates(emission).complete_information(own) for emission, own in pairs]
        return np.concatenate([*found, *shown])

    def estimator(self, by: Floats) -> Any:
        """Return the fitted estimator at some coordinates."""
        return self.moved(*self.at(by))

    def log_prob(self, by: Floats) -> Floats:
        """Return the log-likelihood of each of the data at some coordinates."""
        return np.asarray(self.estimator(by).score_samples(self.data), np.float64)

    @cached_property
    def totals(self) -> Floats:
        """How often each of the data counts."""
        used = self.places >= 0
        return np.bincount(self.places[used], self.weights[used]).astype(np.float64)

    def differences(self, function: Callable[[Floats], Floats]) -> Floats:
        """Return the derivatives of a function of the coordinates at the estimate, shape (…, coordinates)."""
        return central_differences(function, self.count)


class _Inverse(NamedTuple):
    """The inverse of an information matrix, and the directions that it says nothing of, as columns."""

    matrix: Floats
    scale: Floats
    unknown: Floats
    is_maximum: bool

    @classmethod
    def of(cls, information: Floats, complete: Floats) -> _Inverse:
        """Return the inverse, given the information of each coordinate if nothing were hidden."""
        scale = 1.0 / np.sqrt(np.maximum(complete, np.finfo(np.float64).tiny))
        shares, directions = np.linalg.eigh(information * scale * scale[:, None])
        known = shares > UNKNOWN
        own = directions[:, known] * scale[:, None]
        return cls((own / shares[known]) @ own.T, scale, directions[:, ~known], bool((shares > -UNKNOWN).all()))

    def depends(self, slopes: Floats) -> Booleans:
        """Return which quantities depend on directions that nothing is known of, given their slopes."""
        scaled = slopes * self.scale
        lengths = np.linalg.norm(scaled, axis=1)
        along = np.linalg.norm(scaled @ self.unknown, axis=1)
        return np.asarray(along > MIXED * lengths)


class SurveyDesign(NamedTuple):
    """The design of a survey: the number of the cluster and of the stratum of each row, where there are some."""

    clusters: Integers | None
    strata: Integers | None

    def units(self, used: Integers, unit: str) -> tuple[Integers, Integers]:
        """Return the cluster of each row that is used, and the stratum of each cluster, as numbers from 0.

        Without clusters each row is one. A cluster belongs to one stratum, whatever it is called in others.
        """
        inside = used if self.clusters is None else self.clusters[used]
        within = np.zeros(len(used), np.int64) if self.strata is None else self.strata[used]
        names, own = np.unique(np.stack([within, inside]), axis=1, return_inverse=True)
        stratum = np.unique(names[0], return_inverse=True)[1]
        own = own.ravel()
        alone = np.flatnonzero(np.bincount(stratum)[stratum[own]] < 2)
        if len(alone) and self.strata is None:
            raise DataError(f"robust standard errors need two clusters or {unit}s at least, not 1")
        if len(alone):
            what = unit if self.clusters is None else "cluster"
            raise DataError(
                f"the stratum of {unit} {used[alone[0]]} has one {what}, which shows no variance; join it with "
                f"another stratum"
            )
        return own, stratum


@dataclass(frozen=True, eq=False)
class Information:
    """The information matrices of a model, along its free coordinates."""

    model: FreeModel

    @cached_property
    def observed(self) -> Floats:
        """Minus the Hessian of the objective, by central differences of its gradient."""
        check_cells("the information matrix", self.model.count**2, "fit fewer states or columns")
        found = -self.model.differences(self.model.gradient)
        return (found + found.T) / 2.0

    @cached_property
    def scores(self) -> Floats:
        """The gradient of the log-likelihood of each of the data, shape (data, coordinates)."""
        model = self.model
        check_cells("the scores of all rows", model.count * len(model.totals), "give a sample of the rows")
        return model.differences(model.log_prob)

    @cached_property
    def empirical(self) -> Floats:
        """The outer products of the scores of rows, each as often as it counts."""
        return (self.scores * self.model.totals[:, None]).T @ self.scores

    def _between(self, design: SurveyDesign) -> Floats:
        """Return the outer products of the weighted scores of clusters, or of rows, times n / (n - 1) for n.

        With strata it is the sum of these over strata, scores being those around the mean of their stratum: the
        linearised variance of a survey (Binder, 1983).
        """
        model = self.model
        used = np.flatnonzero(model.places >= 0)
        places, weights = model.places[used], model.weights[used]
        if design.clusters is None and design.strata is None:
            if len(used) < 2:
                raise DataError(f"robust standard errors need two {model.unit}s at least, not {len(used)}")
            squares = np.bincount(places, weights**2, len(self.scores))
            between = (self.scores * squares[:, None]).T @ self.scores
            return np.asarray(between * (len(used) / (len(used) - 1.0)))
        from scipy.sparse import coo_array

        unit, stratum = design.units(used, model.unit)
        check_cells("the scores of all clusters", model.count * len(stratum), "give a sample of the rows")
        sums = coo_array((weights, (unit, places)), (len(stratum), len(self.scores))).tocsr() @ self.scores
        counts = np.bincount(stratum).astype(np.float64)
        if design.strata is not None:
            sums = sums - (coo_array((1.0 / counts[stratum], (stratum, np.arange(len(stratum))))) @ sums)[stratum]
        return np.asarray((sums * (counts / (counts - 1.0))[stratum, None]).T @ sums)

    def covariance(self, kind: Kind, design: SurveyDesign) -> tuple[Floats, _Inverse]:
        """Return the covariance of the coordinates, and the inverse of the information that it comes from."""
        complete = self.model.complete_information
        inverse = _Inverse.of(self.empirical if kind == "empirical" else self.observed, complete)
        if kind == "robust":
            return inverse.matrix @ self._between(design) @ inverse.matrix, inverse
        return inverse.matrix, inverse

    def estimates(
        self,
        statistic: Callable[[Any], Any] | None,
        kind: Kind | None = None,
        clusters: ArrayLike | None = None,
        strata: ArrayLike | None = None,
    ) -> Estimates:
        """Return estimates of all parameters, or of what a statistic gives, by the delta method."""
        model = self.model
        one_of("kind", kind, (*get_args(Kind), None))
        count, unit = len(model.weights), model.unit
        design = SurveyDesign(
            None if clusters is None else group_numbers("clusters", clusters, count, unit),
            None if strata is None else group_numbers("strata", strata, count, unit),
        )
        has_design = clusters is not None or strata is not None
        if has_design and kind not in (None, "robust"):
            raise ParameterError(f"clusters and strata are for kind='robust', not {kind!r}; leave kind out")
        if statistic is not None and not callable(statistic):
            raise ParameterError(f"statistic is a function of an estimator, not {quoted(statistic)}")
        chosen: Kind = kind or ("robust" if has_design else "observed")
        found = Quantities.of(model.estimator(np.zeros(model.count)), statistic)
        check_cells("the covariance of all estimates", len(found.values) ** 2, "give a statistic of some of them")
        slopes = model.differences(lambda by: Quantities.of(model.estimator(by), statistic).values)
        covariance, inverse = self.covariance(chosen, design)
        moves: Booleans = np.asarray(slopes.any(axis=1))
        unknown: Booleans = np.asarray(moves & inverse.depends(slopes))
        between = slopes @ covariance @ slopes.T
        between[~moves | unknown] = np.nan
        between[:, ~moves | unknown] = np.nan
        notes = [*self._notes(found, moves, unknown, inverse.is_maximum), *self._optimum(inverse)]
        return Estimates(found.labels, found.values, between, found.header, found.scales, notes=notes)

    def _notes(self, found: Quantities, moves: Booleans, unknown: Booleans, is_maximum: bool) -> list[str]:
        """Return which quantities have no standard error, and why."""
        why = "do not identify it" if is_maximum else "have no maximum there in its direction"
        notes = []
        # The coefficients of a reference are zero by definition.
        still = [place for place in np.flatnonzero(~moves).tolist() if found.scales[place] != "identity"]
        if still:
            notes.append(
                f"Without a standard error, since fixed or on the boundary (hardly any {self.model.unit} is "
                f"expected to show it): {_named(found, still)}."
            )
        if unknown.any():
            notes.append(
                f"Without a standard error, since these {self.model.unit}s {why}: "
                f"{_named(found, np.flatnonzero(unknown).tolist())}."
            )
        return notes

    def _optimum(self, inverse: _Inverse) -> list[str]:
        """Return what is to say where the estimates are not at the optimum of these data."""
        gradient = self.model.gradient(np.zeros(self.model.count))
        errors = np.sqrt(np.maximum(np.diagonal(inverse.matrix), 0.0))
        known = errors > 0
        apart = float(np.max(np.abs(inverse.matrix @ gradient)[known] / errors[known], initial=0.0))
        if inverse.is_maximum and apart <= NEAR:
            return []
        how = f"up to {apart:.1f} standard errors away from" if inverse.is_maximum else "not at"
        return [
            f"The estimates are {how} the optimum of these {self.model.unit}s: they are those of other "
            f"{self.model.unit}s or weights, or EM ended early (lower tol, raise max_iter)."
        ]


def _named(found: Quantities, places: Sequence[int]) -> str:
    """Return the names of some quantities."""
    names = []
    for place in places[:MOST_NAMED]:
        *what, last = map(str, found.labels[place])
        names.append(" | ".join(filter(None, ["=".join(what), last])))
    more = len(places) - MOST_NAMED
    return "; ".join(names) + (f" and {more} more" if more > 0 else "")


def group_numbers(argument: str, given: Any, count: int, unit: str = "row") -> Integers:
    """Return the number of the cluster, or of the stratum, of each row or sequence, from 0."""
    labels = an_array(argument, given, DataError)
    if labels.shape != (count,):
        raise DataError(f"{argument} has the shape {labels.shape}, but needs one label for each of {count} {unit}s")
    known: dict[Any, int] = {}
    numbers = np.empty(count, np.int64)
    for place, label in enumerate(labels.tolist()):
        if label is None or label != label:
            raise DataError(f"{argument} has no label for {unit} {place}; every {unit} needs one")
        numbers[place] = known.setdefault(label, len(known))
    return numbers
