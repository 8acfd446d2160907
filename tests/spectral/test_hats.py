"""Sequences of numbers by hat functions: exact on exact moments, densities on any, counts alike for any split."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import norm

import eigentree as et
from eigentree import SpectralHMM
from eigentree.counting.counts import Counts
from eigentree.counting.holdout_sample import RowSample
from eigentree.counting.levels.hats import HATS, LEVELS, MOST_HATS, HatScale, coarse_hats, hat_values, level_tables
from eigentree.counting.window_counts import SequenceStatistics, sample_width
from eigentree.data.sequences.sequence_codes import Sequences
from eigentree.data.tables.state_rules import ReadOptions
from eigentree.emissions.marginal import Marginal
from eigentree.errors import DataError, ParameterError
from eigentree.planning.window_plan import WindowPlan
from eigentree.spectral.sequences.sequence_model import SpectralSequenceModel, choose_windows

if TYPE_CHECKING:
    from pathlib import Path

MANY = 1e9
"""Windows that stand for a population: variance scaling sees no noise."""

MOVES = np.array([[0.8, 0.15, 0.05], [0.1, 0.75, 0.15], [0.1, 0.2, 0.7]])
MEANS, WIDTHS = np.array([-1.2, 0.0, 1.5]), np.array([0.9, 1.1, 0.8])
STATIONARY = np.linalg.matrix_power(MOVES.T, 200)[:, 0]


def drawn(count: int, length: int, seed: int) -> np.ndarray:
    """Return sequences of a Gaussian hidden Markov model, shape (count, length)."""
    random = np.random.default_rng(seed)
    state = random.choice(3, count, p=STATIONARY)
    made = np.empty((count, length))
    for step in range(length):
        made[:, step] = random.normal(MEANS[state], WIDTHS[state])
        state = (random.random(count)[:, None] > np.cumsum(MOVES, axis=1)[state]).sum(axis=1).clip(0, 2)
    return made


def as_lists(rows: np.ndarray) -> list[np.ndarray]:
    return [row[:, None] for row in rows]


def exact_scale() -> HatScale:
    """Return the levels of the stationary distribution of the Gaussian model."""
    points = np.linspace(-9.0, 9.0, 8193)
    density = norm.pdf(points[:, None], MEANS, WIDTHS) @ STATIONARY
    density /= np.trapezoid(density, points)
    return HatScale(Marginal(1.0, 1.0, -9.0, 9.0, density, 0.0, 1.0, 1e-12))


class Truth:
    """A stationary chain whose channels are numbers, given P(level | state), or categories, given their tables."""

    def __init__(self, tables: list[np.ndarray], scales: list[HatScale | None]) -> None:
        self.tables, self.scales = tables, scales
        example: dict[str, Any] = {
            f"c{channel}": np.linspace(0.05, 3.01, 50) if scale else np.arange(50) % table.shape[1]
            for channel, (table, scale) in enumerate(zip(tables, scales, strict=True))
        }
        import pandas

        self.columns = Sequences.learned(pandas.DataFrame(example), [50], options=READ).columns

    def model(self, hats: int) -> SpectralSequenceModel:
        """Return the model that is learned from exact moments of hats."""
        states = [table.shape[1] for table in self.tables]
        numbers = {channel: MOST_HATS for channel, scale in enumerate(self.scales) if scale}
        plan = WindowPlan.of(states, 3, 1, hats=numbers)
        counted = [
            table @ hat_values(MOST_HATS) if scale else table
            for table, scale in zip(self.tables, self.scales, strict=True)
        ]
        empty = SequenceStatistics.empty(plan, self.columns, tuple(self.scales))
        own = [cell for cell in plan.cells if cell.lag == 0]
        parts = {}
        for name, cells in (("windows", plan.cells), ("firsts", plan.first_cells), ("cells", own)):
            counts = getattr(empty, name)
            dense = np.zeros(len(counts.dense))
            for g in counts.layout.dense:
                group = [cells[place] for place in counts.groups[g]]
                dense[counts.layout.part(g)] = MANY * self._joint(group, counted).ravel()
            assert not counts.sparse
            parts[name] = Counts.laid_out(counts.columns, counts.layout, dense, {}, MANY)
        sample = RowSample.empty(sample_width(plan))
        statistics = SequenceStatistics(self.columns, plan, **parts, sample=sample, scales=tuple(self.scales))
        return choose_windows(statistics, shrinkage=0.0, hats=hats)[0]

    @staticmethod
    def _joint(group: list[Any], counted: list[np.ndarray]) -> np.ndarray:
        message = STATIONARY[None]
        lag = group[0].lag
        for cell in group:
            message = message @ np.linalg.matrix_power(MOVES, cell.lag - lag)
            message = (message[:, None, :] * counted[cell.channel].T).reshape(-1, 3)
            lag = cell.lag
        return np.asarray(message.sum(axis=1))

    def log_density(self, cells: np.ndarray, tables: list[np.ndarray] | None = None) -> float:
        """Return the log density of one sequence, shape (steps, channels), by the forward recursion."""
        message, found = STATIONARY, 0.0
        for step, row in enumerate(cells):
            message = message @ MOVES if step else message
            for value, table, scale in zip(row, tables or self.tables, self.scales, strict=True):
                if not np.isnan(value):
                    level = int(scale.levels(np.array([value]))[0]) if scale else int(value)
                    message = message * table[:, level]
                    found += float(scale.log_density(np.array([value]))[0]) if scale else 0.0
            found += float(np.log(message.sum()))
            message = message / message.sum()
        return found

    def sequences(self, parts: np.ndarray) -> Sequences:
        """Return sequences, shape (count, steps, channels), as they are read."""
        flat = parts.reshape(-1, parts.shape[2])
        starts = np.arange(len(parts) + 1) * parts.shape[1]
        numbers = [channel for channel, scale in enumerate(self.scales) if scale]
        states = np.array(self.columns.states)
        codes = np.where(np.isnan(flat), states, np.where(np.isin(np.arange(len(states)), numbers), 0, flat))
        return Sequences(self.columns, np.asfortranarray(codes.astype(np.uint8)), starts, values=flat[:, numbers])


READ = ReadOptions(numeric="emissions")


def in_the_span(hats: int, seed: int) -> np.ndarray:
    """Return P(level | state), shape (3, levels), of mixtures of hats."""
    values = hat_values(hats)
    weights = np.random.default_rng(seed).dirichlet(np.ones(hats), 3)
    return np.asarray(weights @ (values / values.sum(axis=0)).T)


def cells_of(scales: list[HatScale | None], count: int, steps: int, missing: float = 0.0) -> np.ndarray:
    random = np.random.default_rng(5)
    parts = [random.normal(size=(count, steps)) if s else random.integers(2, size=(count, steps)) for s in scales]
    made = np.stack(parts, axis=2).astype(float)
    made[random.random(made.shape) < missing] = np.nan
    return made


@pytest.mark.parametrize("hats", HATS)
def test_hats_are_a_partition_of_unity_and_coarse_ones_follow_from_the_finest(hats):
    assert_array_equal(hat_values(hats).sum(axis=1), 1.0)
    assert_array_equal(hat_values(MOST_HATS) @ coarse_hats(hats).T, hat_values(hats))
    # Moments of a mixture of hats give the mixture back.
    table = in_the_span(hats, 3)
    assert_allclose(table @ hat_values(hats) @ level_tables(hats).T, table, rtol=0, atol=1e-14)


@pytest.mark.parametrize(("channels", "hats"), [("n", 5), ("n", 9), ("n", 33), ("nn", 9), ("nc", 17), ("cn", 5)])
@pytest.mark.parametrize("missing", [0.0, 0.3])
def test_densities_in_the_span_of_hats_are_exact_on_exact_moments(channels, hats, missing):
    scales = [exact_scale() if each == "n" else None for each in channels]
    binary = np.array([[0.9, 0.1], [0.4, 0.6], [0.2, 0.8]])
    tables = [in_the_span(hats, 3 + place) if scale else binary for place, scale in enumerate(scales)]
    truth = Truth(tables, scales)
    model = truth.model(hats)
    for steps in (1, 2, 30):
        cells = cells_of(scales, 10, steps, missing)
        wanted = [truth.log_density(each) for each in cells]
        assert_allclose(model.log_prob(truth.sequences(cells)), wanted, rtol=0, atol=1e-8)


def gaussian_levels(scale: HatScale) -> np.ndarray:
    """Return P(level | state) of Gaussian states: the cdf between the ends of each level."""
    ends = scale.at(np.arange(1, LEVELS) / LEVELS)
    below = norm.cdf(ends[:, None], MEANS, WIDTHS)
    return np.asarray(np.diff(np.concatenate([np.zeros((1, 3)), below, np.ones((1, 3))]), axis=0).T)


def test_a_gaussian_model_is_learned_up_to_what_hats_cannot_represent():
    scale = exact_scale()
    truth = Truth([gaussian_levels(scale)], [scale])
    rows = drawn(400, 4, 3)
    cells = rows[:, :, None]
    sequences = truth.sequences(cells)
    message = STATIONARY * norm.pdf(rows[:, :1], MEANS, WIDTHS)
    for step in range(1, 4):
        message = (message @ MOVES) * norm.pdf(rows[:, step : step + 1], MEANS, WIDTHS)
    density = message.sum(axis=1)
    errors = []
    for hats in HATS:
        model = truth.model(hats)
        scores = model.log_prob(sequences)
        errors.append(float(np.mean(np.abs(np.exp(scores) / density - 1))))
        # It is the chain whose states have the projections of the Gaussians, wherever those are densities.
        projected = [truth.tables[0] @ hat_values(hats) @ level_tables(hats).T]
        codes, starts = model._patterns(sequences, 0, sequences.count)
        unclipped = model.scored(codes, starts).clipped == 0
        assert unclipped.sum() >= 50
        wanted = [truth.log_density(each, projected) for each in cells[unclipped]]
        assert_allclose(scores[unclipped], wanted, rtol=0, atol=1e-7)
    assert all(finer < coarser for coarser, finer in pairwise(errors))
    assert errors[-1] < 0.02


@pytest.mark.parametrize("count", [30, 300])
def test_densities_are_normalised_over_one_and_two_steps(count):
    model = SpectralHMM(3).fit(as_lists(drawn(count, 6, 1)))
    points = np.linspace(-60.0, 60.0, 60_001)
    single = np.exp(model.score_samples(points[:, None, None]))
    assert np.trapezoid(single, points) == pytest.approx(1, abs=1e-3)
    scale = model.model_.scales[0]
    assert scale is not None
    # Of two steps at all pairs of levels, each of which has 1 / LEVELS of the marginal density.
    middles = scale.at((np.arange(LEVELS) + 0.5) / LEVELS)
    pairs = np.stack(np.meshgrid(middles, middles), axis=2).reshape(-1, 2)
    marginal = scale.marginal.log_density(pairs).sum(axis=1)
    levels = np.exp(model.score_samples(pairs[:, :, None]) - marginal) / LEVELS**2
    assert levels.sum() == pytest.approx(1, abs=1e-9)
    points = np.linspace(-9.0, 9.0, 401)
    pairs = np.stack(np.meshgrid(points, points), axis=2).reshape(-1, 2)
    square = np.exp(model.score_samples(pairs[:, :, None])).reshape(401, 401)
    inside = scale.marginal.cdf(np.array([-9.0, 9.0]))
    assert np.trapezoid(np.trapezoid(square, points), points) == pytest.approx(
        1, abs=3e-3 + 2 * (1 - np.ptp(inside))
    )


def test_a_missing_cell_is_integrated_out():
    scale = exact_scale()
    truth = Truth([in_the_span(9, 1)], [scale])
    model = truth.model(9)
    cells = cells_of([scale], 1, 5)[0]
    # At the middles of all levels, each of which has 1 / LEVELS of the marginal density.
    middles = scale.at((np.arange(LEVELS) + 0.5) / LEVELS)
    every = np.repeat(cells[None], LEVELS, axis=0)
    every[:, 2, 0] = middles
    scores = model.log_prob(truth.sequences(every)) - scale.log_density(middles)
    cells[2] = np.nan
    assert_allclose(model.log_prob(truth.sequences(cells[None])), np.logaddexp.reduce(scores), atol=1e-9)


def test_counts_are_the_same_whatever_the_split_and_the_order():
    random = np.random.default_rng(0)
    parts = [drawn(1, int(length), seed)[0][:, None] for seed, length in enumerate(random.integers(1, 40, 60))]
    for part in parts:
        part[random.random(part.shape) < 0.1] = np.nan
    whole = SpectralHMM(3).fit(parts)
    columns, plan, scales = whole.columns_, whole.statistics_.plan, whole.statistics_.scales
    empty = SequenceStatistics.empty(plan, columns, scales)
    read = Sequences.of(parts, columns)
    shuffled = random.permutation(60)
    first, second = (empty.update(read.chosen(half)) for half in (shuffled[:23], shuffled[23:]))
    for found in (first + second, empty.update(read, most_steps=7), (whole.statistics_ + first) - first):
        for name in ("windows", "firsts", "cells"):
            one, other = getattr(found, name), getattr(whole.statistics_, name)
            for here, there in zip(one.arrays(), other.arrays(), strict=True):
                assert_array_equal(here, there)
    one = SpectralHMM(3).fit(parts[:30]).partial_fit(parts[30:])
    two = SpectralHMM(3).fit(parts[:30]).partial_fit(parts[30:41]).partial_fit(parts[41:])
    assert_array_equal(one.score_samples(parts), two.score_samples(parts))
    with pytest.raises(DataError, match="cut into the same levels"):
        _ = one.statistics_ + whole.statistics_


def test_tables_are_sums_of_products_of_hats_over_the_windows_that_have_their_cells():
    random = np.random.default_rng(3)
    parts = [drawn(1, int(length), seed)[0][:, None] for seed, length in enumerate(random.integers(1, 20, 12))]
    for part in parts:
        part[random.random(part.shape) < 0.2] = np.nan
    statistics = SpectralHMM(3).fit(parts).statistics_
    plan, (scale,) = statistics.plan, statistics.scales
    assert scale is not None
    values = np.vstack([hat_values(MOST_HATS), np.full(MOST_HATS, np.nan)])
    hats = [values[scale.levels(part[:, 0])] for part in parts]
    place = {cell: k for k, cell in enumerate(plan.cells)}
    # Of three cells, and of two of these, which more windows have.
    assert {len(group) for group in plan.groups} == {2, 3}
    for group in plan.groups:
        wanted = np.zeros((MOST_HATS,) * len(group))
        for own in hats:
            for step in range(len(own) - plan.reach):
                at = [step + cell.lag for cell in group]
                if min(at) >= 0 and not np.isnan(own[at]).any():
                    product = own[at[0]]
                    for other in at[1:]:
                        product = product[..., None] * own[other]
                    wanted += product
        assert_array_equal(statistics.windows.find([place[cell] for cell in group]).array(), wanted)


def test_weights_count_as_copies_do():
    parts = as_lists(drawn(40, 8, 2))
    often = np.arange(40) % 3
    copies = [part for part, count in zip(parts, often, strict=True) for _ in range(count)]
    scales = (HatScale.of(np.concatenate(parts)[:, 0], np.ones(320)),)
    columns = Sequences.learned(parts, options=READ).columns
    empty = SequenceStatistics.empty(WindowPlan.of([LEVELS], 3, 1, hats={0: MOST_HATS}), columns, scales)
    weighted = empty.update(Sequences.of(parts, columns), often)
    copied = empty.update(Sequences.of(copies, columns))
    assert_array_equal(weighted.windows.dense, copied.windows.dense)
    assert weighted.windows.rows == copied.windows.rows


def test_samples_are_from_the_density_of_the_scores():
    model = SpectralHMM(3).fit(as_lists(drawn(60, 8, 4)))
    made = np.array([each[:, 0] for each in model.sample(40_000, length=2, random_state=0)])
    scale = model.model_.scales[0]
    assert scale is not None
    middles = scale.at((np.arange(LEVELS) + 0.5) / LEVELS)
    pairs = np.stack(np.meshgrid(middles, middles, indexing="ij"), axis=2).reshape(-1, 2)
    marginal = scale.marginal.log_density(pairs).sum(axis=1)
    likely = np.exp(model.score_samples(pairs[:, :, None]) - marginal).reshape(LEVELS, LEVELS) / LEVELS**2
    # In 8 x 8 parts of equal marginal mass.
    likely = likely.reshape(8, LEVELS // 8, 8, LEVELS // 8).sum(axis=(1, 3))
    levels = scale.levels(made.ravel()).reshape(-1, 2).astype(int) // (LEVELS // 8)
    seen = np.bincount(levels[:, 0] * 8 + levels[:, 1], minlength=64).reshape(8, 8) / len(made)
    assert (np.abs(seen - likely) <= 5 * np.sqrt(likely * (1 - likely) / len(made)) + 1e-9).all()


def test_means_and_quantiles_of_the_next_step_are_those_of_its_density():
    model = SpectralHMM(3).fit(as_lists(drawn(200, 8, 6)))
    prefix = drawn(1, 7, 7)[0]
    points = np.linspace(-40.0, 40.0, 40_001)
    longer = np.concatenate([np.repeat(prefix[None], len(points), axis=0), points[:, None]], axis=1)
    density = np.exp(model.score_samples(as_lists(longer)) - model.score_samples(as_lists(prefix[None])))
    assert np.trapezoid(density, points) == pytest.approx(1, abs=1e-3)
    mean = model.predict_next(as_lists(prefix[None]))
    assert float(mean[0, 0]) == pytest.approx(np.trapezoid(points * density, points), abs=5e-3)
    below = np.cumsum((density[1:] + density[:-1]) / 2) * (points[1] - points[0])
    found = np.asarray(model.predict_next(as_lists(prefix[None]), quantiles=[0.1, 0.5, 0.9]))[0, 0]
    assert_allclose(np.interp(found, points[1:], below), [0.1, 0.5, 0.9], atol=2e-3)
    # The filter of the step after the prefix is the same, as is the mean of a missing last cell.
    whole = np.append(prefix, 0.3)
    assert model.filter(as_lists(whole[None]))[0][7] == pytest.approx(float(mean[0, 0]), abs=1e-12)
    assert model.filter(as_lists(whole[None]), quantiles=[0.5])[0][7, 0] == pytest.approx(found[1], abs=1e-12)


def test_missing_numbers_are_imputed_by_both_sides_and_known_ones_stay():
    model = SpectralHMM(3).fit(as_lists(drawn(2000, 8, 8)))
    rows = drawn(300, 5, 9)
    masked = rows.copy()
    masked[:, 2] = np.nan
    for method in ("mode", "median"):
        filled = np.array([each[:, 0] for each in model.impute(as_lists(masked), method=method)])
        assert_array_equal(np.delete(filled, 2, axis=1), np.delete(rows, 2, axis=1))
        assert np.mean((filled[:, 2] - rows[:, 2]) ** 2) < 0.85 * np.var(rows[:, 2])
    sampled = np.array([each[:, 0] for each in model.impute(as_lists(masked), method="sample", random_state=0)])
    assert np.std(sampled[:, 2]) == pytest.approx(np.std(rows[:, 2]), rel=0.15)


def test_errors_shrink_with_more_sequences():
    rows = drawn(1000, 5, 10)
    message = STATIONARY * norm.pdf(rows[:, :1], MEANS, WIDTHS)
    for step in range(1, 5):
        message = (message @ MOVES) * norm.pdf(rows[:, step : step + 1], MEANS, WIDTHS)
    truth = np.log(message.sum(axis=1))
    behind = []
    for count in (300, 3000, 30_000):
        model = SpectralHMM(3).fit(as_lists(drawn(count, 5, 11)))
        behind.append(float(np.mean(truth - model.score_samples(as_lists(rows)))))
    assert behind[0] > 2 * behind[1] > 4 * behind[2] > 0


def test_files_give_the_same_answers(tmp_path: Path):
    rows = as_lists(drawn(80, 8, 12))
    model = SpectralHMM(3).fit(rows)
    model.save(tmp_path / "numbers.eigentree")
    again = et.load(tmp_path / "numbers.eigentree")
    assert_array_equal(again.score_samples(rows), model.score_samples(rows))
    assert again.hats_ == model.hats_
    assert_array_equal(again.partial_fit(rows).score_samples(rows), model.partial_fit(rows).score_samples(rows))


def test_numbers_and_categories_are_learned_together():
    import pandas

    random = np.random.default_rng(1)
    rows = drawn(400, 6, 13)
    flat = rows.ravel()
    words = np.where(random.random(flat.size) < 1 / (1 + np.exp(-3 * flat)), "up", "down")
    frame = pandas.DataFrame({"x": flat, "word": words, "id": np.repeat(np.arange(400), 6)})
    model = SpectralHMM(3, sequence="id").fit(frame)
    assert model.columns_.number_places == (0,)
    proba = model.predict_next_proba(frame, target="word")
    assert_allclose(np.asarray(proba).sum(axis=1), 1.0)
    alone = SpectralHMM(3, sequence="id").fit(frame[["x", "id"]])
    both = model.score_samples(frame) - alone.score_samples(frame[["x", "id"]])
    # A word costs less than log 2 where the number beside it is known.
    assert both.mean() / 6 > -0.6
    with pytest.raises(DataError, match="quantiles are of numbers"):
        model.filter(frame, target="word", quantiles=[0.5])


def test_what_cannot_be_is_refused():
    rows = as_lists(drawn(30, 6, 14))
    with pytest.raises(ParameterError, match="order=1"):
        SpectralHMM(2, order=2).fit(rows)
    with pytest.raises(ParameterError, match="at most 33 hidden states"):
        SpectralHMM(34).fit(rows)
    with pytest.raises(ParameterError, match="one of 5, 9, 17, 33"):
        SpectralHMM(2, hats=16).fit(rows)
    with pytest.raises(ParameterError, match="EMHMM has the other families"):
        SpectralHMM(2, emissions="gaussian").fit(rows)
    with pytest.raises(ParameterError, match="between 0 and 1"):
        SpectralHMM(2).fit(rows).predict_next(rows, quantiles=[1.5])
    with pytest.raises(DataError, match="continuous"):
        SpectralHMM(2, numeric="error").fit(rows)
    with pytest.raises(DataError, match="predict_next_proba"):
        SpectralHMM(2).fit(["ABAB", "BABA"]).predict_next(["AB"])
