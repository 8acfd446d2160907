"""Families of distributions of durations: their parameters, and those of highest expected log-likelihood.

Each is one of durations 1 … longest, of which the last stands for longer ones too. What is expected of segments are
two tables: how many were seen to end after so many steps, and how many were cut by the end of a sequence after so
many steps.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np
from scipy.optimize import least_squares, minimize
from scipy.special import betainc, gammaln

from eigentree.inference.threads import one_thread

if TYPE_CHECKING:
    from collections.abc import Mapping

    from eigentree.arrays import Floats

__all__ = ["DURATIONS", "DurationFamily", "DurationName"]

DurationName = Literal["explicit", "negative_binomial", "geometric"]
"""The names of the families."""

LOG_SIZES = (-4.0, 10.0)
"""Bounds of the log size of a negative binomial distribution. Below, nearly all durations are 1; above, it is a
Poisson distribution to four digits."""

LOG_MEANS = (-20.0, 20.0)
"""Bounds of the log mean of further steps: below, no segment has two steps; above, none ends."""


LEAST_KNOWN = 0.01
"""What fewer segments than that are expected to show is at the boundary."""

LITTLE = 1e-6
"""The share of a uniform distribution in a start: what is possible may turn out to be."""

STEPS = 5
"""Steps of L-BFGS in one M-step: EM needs a higher likelihood, and what is expected of segments will change."""

MOST_STEPS = 200
"""Steps of L-BFGS where there is one fit: two parameters take some ten."""


class DurationFamily(ABC):
    """A family of distributions of durations, one for each state.

    Its parameters are an array of shape (states, `width`).
    """

    name: ClassVar[DurationName]

    @abstractmethod
    def width(self, longest: int) -> int:
        """Return the number of parameters of a state."""

    @abstractmethod
    def free(self, longest: int) -> int:
        """Return the number of free parameters of a state."""

    @abstractmethod
    def table(self, parameters: Floats, longest: int) -> Floats:
        """Return P(duration | state), shape (states, longest)."""

    @abstractmethod
    def started(self, stay: Floats, longest: int) -> Floats:
        """Return parameters of durations that are geometric, or nearly so, given the chance of one more step."""

    @abstractmethod
    def nearest(self, table: Floats) -> Floats:
        """Return the parameters under which durations that are distributed as a table says are most probable."""

    @abstractmethod
    def maximised(self, parameters: Floats, ended: Floats, censored: Floats, pseudo_counts: float) -> Floats:
        """Return parameters of higher, or highest, expected log-likelihood plus log prior."""

    def log_prior(self, parameters: Floats, pseudo_counts: float) -> float:
        """Return the log density of the prior: 0 for families of few parameters, which have none."""
        return 0.0

    @abstractmethod
    def moved(self, parameters: Floats, by: Floats) -> Floats:
        """Return parameters at some free coordinates, shape (states, coordinates), which are 0 at these."""

    @abstractmethod
    def known(self, parameters: Floats, ended: Floats, censored: Floats) -> Floats:
        """Return about the information of each coordinate if no state were hidden; 0 for those that do not move."""

    def expected_log(self, parameters: Floats, ended: Floats, censored: Floats, pseudo_counts: float) -> float:
        """Return the expected log-likelihood of durations plus the log prior."""
        tiny, table = np.finfo(np.float64).tiny, self.table(parameters, ended.shape[1])
        found = ended * np.log(np.maximum(table, tiny)) + censored * np.log(np.maximum(_at_least(table), tiny))
        return float(found.sum()) + self.log_prior(parameters, pseudo_counts)


class ExplicitDurations(DurationFamily):
    """Durations that have a probability each."""

    name = "explicit"

    def width(self, longest: int) -> int:
        """Return the number of durations."""
        return longest

    def free(self, longest: int) -> int:
        """Return the number of durations but one."""
        return longest - 1

    def table(self, parameters: Floats, longest: int) -> Floats:
        """Return the parameters, which are the table."""
        return parameters

    def started(self, stay: Floats, longest: int) -> Floats:
        """Return geometric durations, with a little of every duration."""
        geometric = DURATIONS["geometric"]
        table = geometric.table(geometric.started(stay, longest), longest)
        return (1.0 - LITTLE) * table + LITTLE / longest

    def nearest(self, table: Floats) -> Floats:
        """Return the table."""
        return table

    def maximised(self, parameters: Floats, ended: Floats, censored: Floats, pseudo_counts: float) -> Floats:
        """Return the table of highest expected log-likelihood, as Kaplan and Meier (1958) have it.

        Pseudo-counts are of leaving and of staying after each duration, as those of a Markov chain: a Dirichlet
        prior would make all durations longer.
        """
        more = censored.sum(axis=1, keepdims=True) - np.cumsum(censored, axis=1)
        left = _at_least(ended) + more + 2.0 * pseudo_counts
        leave = np.divide(ended + pseudo_counts, left, out=_leave(parameters), where=left > 0)
        leave[:, -1] = 1.0
        return _of_leave(leave)

    def moved(self, parameters: Floats, by: Floats) -> Floats:
        """Return the table in which the odds to leave after each duration but the last have other logs."""
        leave = _leave(parameters)
        odds = leave[:, :-1] * np.exp(by)
        leave[:, :-1] = odds / (odds + 1.0 - leave[:, :-1])
        return _of_leave(leave)

    def known(self, parameters: Floats, ended: Floats, censored: Floats) -> Floats:
        """Return the information of the chance to leave after each duration but the last."""
        leave = _leave(parameters)[:, :-1]
        risk = (_at_least(ended) + _at_least(censored) - censored)[:, :-1]
        found: Floats = risk * leave * (1.0 - leave)
        return np.where(found > LEAST_KNOWN, found, 0.0)

    def log_prior(self, parameters: Floats, pseudo_counts: float) -> float:
        """Return the pseudo-counts times the log chances to leave and to stay after each duration."""
        tiny = np.finfo(np.float64).tiny
        at_least = np.log(np.maximum(_at_least(parameters), tiny))
        ends = np.log(np.maximum(parameters[:, :-1], tiny))
        return pseudo_counts * float((ends + at_least[:, 1:] - 2.0 * at_least[:, :-1]).sum())


class NegativeBinomialDurations(DurationFamily):
    """One step and a negative binomial number of further ones.

    The parameters are the log of the size, and the log of the mean number of further steps.
    """

    name: ClassVar[DurationName] = "negative_binomial"

    def width(self, longest: int) -> int:
        """Return 2."""
        return 2

    def free(self, longest: int) -> int:
        """Return 2."""
        return 2

    def table(self, parameters: Floats, longest: int) -> Floats:
        """Return the distributions that parameters stand for; the longest duration has what longer ones have."""
        size, mean = np.exp(parameters[:, :1]), np.exp(parameters[:, 1:])
        further = np.arange(longest - 1.0)
        logs = gammaln(size + further) - gammaln(size) - gammaln(further + 1.0)
        logs -= size * np.log1p(mean / size) + further * np.log1p(size / mean)
        longer = betainc(longest - 1.0, size, mean / (size + mean)) if longest > 1 else np.ones_like(size)
        return np.concatenate([np.exp(logs), longer], axis=1)

    def started(self, stay: Floats, longest: int) -> Floats:
        """Return geometric durations, whose size is 1."""
        return np.stack([np.zeros(len(stay)), _log_odds(stay)], axis=1)

    def maximised(self, parameters: Floats, ended: Floats, censored: Floats, pseudo_counts: float) -> Floats:
        """Return parameters of higher expected log-likelihood, by L-BFGS from the present ones."""
        made = parameters.copy()
        with one_thread():
            for state, (counts, least) in enumerate(zip(ended, censored, strict=True)):
                if (weight := float(counts.sum() + least.sum())) > 0:
                    made[state] = _of_state(self, parameters[state], counts / weight, least / weight, STEPS)
        return made

    def moved(self, parameters: Floats, by: Floats) -> Floats:
        """Return the parameters at some free coordinates, which are added to them."""
        return parameters + by

    def known(self, parameters: Floats, ended: Floats, censored: Floats) -> Floats:
        """Return the expected number of segments of each state, unless parameters are at their bounds."""
        segments = (ended + censored).sum(axis=1)[:, None]
        low, high = np.array([LOG_SIZES, LOG_MEANS]).T
        inside = (parameters > low) & (parameters < high) & (segments > LEAST_KNOWN)
        return np.where(inside & (self.free(2) > np.arange(1, -1, -1)), segments, 0.0)

    def nearest(self, table: Floats) -> Floats:
        """Return the parameters under which durations that are distributed as a table says are most probable."""
        start = self.started(_stay(table), table.shape[1])
        with one_thread():
            pairs = zip(start, table, strict=True)
            found = [_of_state(self, own, shares, 0.0 * shares, MOST_STEPS) for own, shares in pairs]
            return np.array([self._polished(own, shares) for own, shares in zip(found, table, strict=True)])

    def _polished(self, found: Floats, shares: Floats) -> Floats:
        """Return parameters to the last digits, if the distribution is one of this family; else those found."""

        def apart(parameters: Floats) -> Floats:
            difference: Floats = self.table(parameters[None], len(shares))[0] - shares
            return difference

        near: Floats = least_squares(apart, found, bounds=np.array([LOG_SIZES, LOG_MEANS]).T, xtol=1e-15).x
        return near if np.abs(apart(near)).max() < np.sqrt(np.finfo(np.float64).eps) else found


class GeometricDurations(NegativeBinomialDurations):
    """Geometric durations, as those of a hidden Markov model: negative binomial ones of size 1."""

    name = "geometric"

    def free(self, longest: int) -> int:
        """Return 1."""
        return 1

    def nearest(self, table: Floats) -> Floats:
        """Return the parameters under which durations that are distributed as a table says are most probable."""
        return self.maximised(self.started(_stay(table), table.shape[1]), table, np.zeros_like(table), 0.0)

    def maximised(self, parameters: Floats, ended: Floats, censored: Floats, pseudo_counts: float) -> Floats:
        """Return the parameters of highest expected log-likelihood: the odds of one more step."""
        steps = np.arange(1.0, ended.shape[1] + 1)
        # Whether a segment of the longest duration would have had one more step is not known.
        left = ended[:, :-1].sum(axis=1)
        stayed = (ended + censored) @ (steps - 1.0)
        known = left + stayed > 0
        stay = np.divide(stayed, left + stayed, out=np.zeros_like(left), where=known)
        made: Floats = np.where(known[:, None], self.started(stay, ended.shape[1]), parameters)
        return made


DURATIONS: Mapping[DurationName, DurationFamily] = {
    family.name: family for family in (ExplicitDurations(), NegativeBinomialDurations(), GeometricDurations())
}
"""All families by name."""


def _log_odds(shares: Floats) -> Floats:
    """Return the log odds of shares, which are the log means of geometric distributions."""
    with np.errstate(divide="ignore"):
        odds: Floats = np.log(shares) - np.log1p(-shares)
    return np.clip(odds, *LOG_MEANS)


def _stay(table: Floats) -> Floats:
    """Return the chance of one more step of geometric durations whose means are those of a table."""
    mean: Floats = table @ np.arange(1.0, table.shape[1] + 1)
    return np.maximum(1.0 - 1.0 / mean, 0.0)


def _of_state(family: DurationFamily, start: Floats, ended: Floats, censored: Floats, steps: int) -> Floats:
    """Return parameters of a state after so many steps of L-BFGS."""
    tiny = np.finfo(np.float64).tiny

    def loss(parameters: Floats) -> float:
        table = np.maximum(family.table(parameters[None], len(ended))[0], tiny)
        return -float(ended @ np.log(table) + censored @ np.log(_at_least(table)))

    how = {"maxiter": steps, "ftol": 1e-13}
    found = minimize(loss, start, method="L-BFGS-B", bounds=(LOG_SIZES, LOG_MEANS), options=how)
    made: Floats = found.x if found.fun <= loss(start) else start
    return made


def _leave(table: Floats) -> Floats:
    """Return P(a segment ends after so many steps | it has so many or more), 1 where it never has."""
    at_least = _at_least(table)
    return np.divide(table, at_least, out=np.ones_like(at_least), where=at_least > 0)


def _of_leave(leave: Floats) -> Floats:
    """Return the durations of such chances."""
    stay = np.cumprod(1.0 - leave[:, :-1], axis=1)
    table: Floats = leave * np.concatenate([np.ones((len(leave), 1)), stay], axis=1)
    return table


def _at_least(counts: Floats) -> Floats:
    """Return, for each duration, how many last so long or longer."""
    return np.cumsum(counts[..., ::-1], axis=-1)[..., ::-1]
