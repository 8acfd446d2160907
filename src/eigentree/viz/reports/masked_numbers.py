"""How a model predicts known numbers that are masked: error, explained variance, and coverage of intervals."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from eigentree.counting.levels.number_scales import level_rows
from eigentree.inference.mixed.density import mixture_moments
from eigentree.inference.mixed.mixed_model import MixedModel
from eigentree.inference.sequences.hmm_chain import Chain
from eigentree.spectral.learn.number_model import SpectralNumberModel
from eigentree.viz.reports.evaluation_data import sampled

if TYPE_CHECKING:
    from collections.abc import Sequence

    from eigentree.arrays import Booleans, Floats, Integers
    from eigentree.emissions.base import Emission
    from eigentree.viz.reports.evaluation_data import EvaluationData

__all__ = ["MaskedNumbers", "NumberAccuracy", "averages", "masked_numbers", "number_accuracies"]

OUTSIDE = 0.1
"""The share of numbers that is outside the intervals between the quantiles 0.05 and 0.95."""

MOST_CELLS = 4_000
"""Most numbers that are masked, each in turn, as whole rows: conditional covariances take a while."""

MOST_STEPS = 1_000
"""Most steps of sequences whose numbers are masked, each a pass over its sequence."""

SEED = 0


class MaskedNumbers(NamedTuple):
    """Known cells of a number, each masked in turn, with the model's prediction from the other cells.

    Arrays of one length: `unit` (row or sequence), `step` (0 in rows), the cell's own `value`, `mean` and standard
    deviation `std` given the other cells, and `tail`, twice the smaller of the probabilities of numbers up to the
    cell's own and from there on.
    """

    column: str
    unit: Integers
    step: Integers
    value: Floats
    mean: Floats
    std: Floats
    tail: Floats

    def beyond(self, share: float) -> Booleans:
        """Return which cells are among the outer ones, half of the share at either end."""
        outer: Booleans = self.tail < share
        return outer


class NumberAccuracy(NamedTuple):
    """How well a number is predicted from the other columns.

    `rmse` is the root of the mean squared error, `std` that of the mean of the same cells, `r2` the share of the
    variance that predictions explain, and `covered` the share of cells inside the 90 % interval.
    """

    column: str
    cells: int
    rmse: float
    std: float
    r2: float
    covered: float


def number_accuracies(data: EvaluationData) -> tuple[NumberAccuracy, ...]:
    """Return how well the model predicts masked numbers, those first where it explains most."""
    most = MOST_STEPS
    if data.starts is None:
        most = MOST_CELLS // max(1, len(data.adapter.numbers)) + 1
    found = []
    for one in masked_numbers(data, most):
        if not len(one.value):
            continue
        error, std = float(np.mean((one.value - one.mean) ** 2)), float(one.value.std())
        inside = 1.0 - float(one.beyond(OUTSIDE).mean())
        explained = 1 - error / std**2 if std > 0 else np.nan
        found.append(NumberAccuracy(one.column, len(one.value), float(np.sqrt(error)), std, explained, inside))
    return tuple(sorted(found, key=lambda one: (-np.nan_to_num(one.r2), one.column)))


def averages(found: Sequence[NumberAccuracy]) -> tuple[float, float]:
    """Return the explained share of the variance and the coverage of some numbers, on the average.

    Numbers that are all equal have no variance, and count as explained.
    """
    explained = [one.r2 if one.r2 == one.r2 else 1.0 for one in found]
    return float(np.mean(explained)), float(np.mean([one.covered for one in found]))


def masked_numbers(data: EvaluationData, most: int) -> list[MaskedNumbers]:
    """Return predictions of the known numbers of at most so many rows, or steps of sequences, sampled."""
    if not isinstance(data.model, Chain | MixedModel | SpectralNumberModel):
        # Spectral models of sequences have no distributions of a number given both sides.
        return []
    if data.starts is not None:
        return [_of_steps(data, name, most) for name in data.adapter.numbers]
    units = sampled(data.count, most, SEED)
    if isinstance(data.model, SpectralNumberModel):
        return [_of_levels(data, data.model, name, units) for name in data.adapter.numbers]
    return [_of_rows(data, name, units) for name in data.adapter.numbers]


def _of_rows(data: EvaluationData, name: str, units: Integers) -> MaskedNumbers:
    """Return predictions of a number from the other cells of some rows."""
    place = data.columns.numbers.index(name)
    units = units[~np.isnan(data.values[units, place])]
    some = data.chosen(units)
    value = some.values[:, place]
    parts = [(value, value, value)]
    if len(units):
        known = data.model.conditionals(some.rows, name)
        parts = [_prediction(emission, at, cells, proba, value[part]) for part, emission, at, cells, proba in known]
    columns = map(np.concatenate, zip(*parts, strict=True))
    return MaskedNumbers(name, units, np.zeros(len(units), np.int64), value, *columns)


def _of_levels(data: EvaluationData, model: SpectralNumberModel, name: str, units: Integers) -> MaskedNumbers:
    """Return predictions of a number by a spectral model from the other cells of some rows."""
    place, column = data.columns.numbers.index(name), data.columns.position(name)
    units = units[~np.isnan(data.values[units, place])]
    value, scale = data.values[units, place], model.numbers[column]
    codes = level_rows(data.chosen(units).rows, model.scales).encode()
    ((tables, _),) = model.distributions(codes, [column])
    mean = tables @ scale.means
    spread = np.sqrt(np.maximum(tables @ scale.squares - mean**2, 0.0))
    level = scale.levels(value).astype(np.int64)[:, None]
    # Half of a number's own level is on either side.
    below = (np.take_along_axis(tables.cumsum(axis=1) - tables / 2, level, axis=1))[:, 0]
    tail = (2 * np.minimum(below, 1 - below)).clip(0.0, 1.0)
    return MaskedNumbers(name, units, np.zeros(len(units), np.int64), value, mean, spread, tail)


def _of_steps(data: EvaluationData, name: str, most: int) -> MaskedNumbers:
    """Return predictions of numbers of a channel from the rest of their sequences."""
    sequences, chain, numbers = data.sequences, data.model, data.columns.numbers
    channel, place = data.columns.position(name), numbers.index(name)
    known = np.flatnonzero(~np.isnan(sequences.values[:, place]))
    steps = known[sampled(len(known), most, SEED)]
    units = np.repeat(np.arange(data.count), sequences.lengths)[steps]
    own, value = steps - sequences.starts[units], sequences.values[steps, place]
    if not len(steps):
        return MaskedNumbers(name, units, own, value, value, value, value)
    trial = sequences.chosen(units)
    at = trial.starts[:-1] + own
    codes, values = trial.codes.copy(order="F"), trial.values.copy()
    codes[at, channel], values[at, place] = 1, np.nan
    proba = chain.smoothed(replace(trial, codes=codes, values=values))[at]
    proba[proba.sum(axis=1) == 0] = 1.0 / proba.shape[1]
    group = next(group for group in chain.numbers if channel in group)
    cells = values[at][:, [numbers.index(data.columns.names[each]) for each in group]]
    return MaskedNumbers(
        name, units, own, value, *_prediction(chain.numbers[group], group.index(channel), cells, proba, value)
    )


def _prediction(
    emission: Emission, place: int, cells: Floats, proba: Floats, value: Floats
) -> tuple[Floats, Floats, Floats]:
    """Return mean and standard deviation of a missing cell of each row, and the tail of its value.

    `proba` has the probabilities of the states of the emission, given all other cells.
    """
    mean, variance = (own[:, place] for own in mixture_moments(emission, cells, proba))
    below = emission.cdf_of(cells, place)
    # Of counts, a number has a probability of its own, which belongs to both ends.
    upper, lower = ((proba * below(at)).sum(axis=1) for at in (value, np.nextafter(value, -np.inf)))
    tail = 2 * np.minimum(upper, 1 - lower)
    return mean, np.sqrt(variance), tail.clip(0.0, 1.0)
