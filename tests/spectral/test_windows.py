"""Operators of one step from pooled windows: exact on exact moments, one distribution on any."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from known_chains import Chain

from eigentree.counting.holdout_sample import EVERY_HASH
from eigentree.counting.window_counts import SequenceStatistics
from eigentree.errors import DataError, ParameterError
from eigentree.planning.window_plan import Cell, ChannelBlocks, WindowPlan
from eigentree.spectral.sequences.sequence_model import choose_windows
from eigentree.spectral.sequences.window_operators import cell_marginals, learn_windows

MANY = 1e9
"""Weights that stand for a population: variance scaling sees no noise."""


def counted(chain, hidden, order, parts, weights=None, channels="independent", most_steps=None, **planned):
    plan = WindowPlan.of(chain.states, hidden, order, channels, **planned)
    return SequenceStatistics.empty(plan, chain.columns()).update(chain.sequences(parts), weights, most_steps)


def population(chain, hidden, order, lengths, channels="independent", **planned):
    """Return the exact model of a chain: all sequences of some lengths, as often as they are likely."""
    parts, weights = [], []
    for length in lengths:
        every, likely = chain.every(length)
        parts += list(every)
        weights.append(MANY * likely)
    statistics = counted(chain, hidden, order, parts, np.concatenate(weights), channels, **planned)
    return choose_windows(statistics, shrinkage=0.0)[0]


CASES = [
    (1, 1, (3,), (4,), "independent"),
    (2, 1, (3,), (7,), "independent"),
    (3, 1, (4,), (6, 3, 1), "independent"),
    (2, 2, (3,), (8,), "independent"),
    (2, 3, (2,), (11, 2), "independent"),
    (4, 1, (2,), (9,), "independent"),
    (2, 1, (2, 2), (6,), "independent"),
    (3, 1, (2, 3), (5,), "independent"),
    (2, 2, (2, 2), (7,), "independent"),
    (2, 1, (2, 2), (6,), "dependent"),
    (2, 1, (3, 1, 2), (5,), "dependent"),
]


@pytest.mark.parametrize(("hidden", "order", "states", "lengths", "channels"), CASES)
def test_with_exact_pooled_moments_every_sequence_has_its_exact_probability(
    hidden, order, states, lengths, channels
):
    chain = Chain.random(hidden, order, states, 5, dependent=channels == "dependent")
    model = population(chain, hidden, order, lengths, channels)
    for length in (1, 2, 3, 17, 200):
        drawn = chain.sample(8, length, length)
        sequences = chain.sequences(drawn)
        truth = [chain.log_prob(each) for each in drawn]
        np.testing.assert_allclose(model.log_prob(sequences), truth, rtol=0, atol=1e-8)


def test_channels_in_blocks_of_their_own_depend_on_each_other_within_a_step():
    # Bonds between the channels of a step, whose rank is larger where channels depend on each other.
    chain = Chain.random(2, 1, (2, 2), 3, dependent=True)
    plan = WindowPlan.of((2, 2), 2, 1, "dependent", most_joint=1)
    assert [bond.rank for bond in plan.bonds] == [2, 4]
    model = population(chain, 2, 1, (8,), "dependent", most_joint=1)
    drawn = chain.sample(5, 40, 1)
    sequences = chain.sequences(drawn)
    truth = [chain.log_prob(each) for each in drawn]
    np.testing.assert_allclose(model.log_prob(sequences), truth, rtol=0, atol=1e-8)


@pytest.mark.parametrize(("hidden", "states", "length"), [(2, (3,), 7), (3, (2, 3), 5), (2, (2, 2), 6)])
def test_missing_cells_are_summed_out(hidden, states, length):
    chain = Chain.random(hidden, 1, states, 8)
    model = population(chain, hidden, 1, (length,))
    random = np.random.default_rng(0)
    parts = chain.sample(20, 12, 4)
    parts[random.random(parts.shape) < 0.4] = -1
    sequences = chain.sequences(parts)
    truth = [math.log(chain.probability(masks(chain, part))) for part in parts]
    np.testing.assert_allclose(model.log_prob(sequences), truth, rtol=0, atol=1e-8)


def masks(chain, part):
    """Return which joint states each step can be."""
    every = np.array(list(itertools.product(*map(range, chain.states))))
    return [((step < 0) | (every == step)).all(axis=1).astype(float) for step in part]


def noisy(hidden, states, count=60, length=9, seed=0, shrinkage=None, floor=None, channels="independent", order=1):
    chain = Chain.random(hidden, order, states, seed, concentration=0.4)
    statistics = counted(chain, hidden, order, list(chain.sample(count, length, seed)), channels=channels)
    return chain, choose_windows(statistics, shrinkage, floor)[0]


@pytest.mark.parametrize("shrinkage", [0.0, 0.1, None])
@pytest.mark.parametrize(("hidden", "states"), [(3, (3,)), (3, (2, 2)), (2, (2, 2))])
def test_all_sequences_of_a_length_add_up_to_1(hidden, states, shrinkage):
    chain, model = noisy(hidden, states, shrinkage=shrinkage)
    every, _ = chain.every(5)
    sequences = chain.sequences(every)
    assert np.exp(model.log_prob(sequences)).sum() == pytest.approx(1, abs=1e-9)
    # And so do those whose cells are missing alike.
    hidden_cells = every.copy()
    hidden_cells[:, 1, 0] = hidden_cells[:, 3, :] = -1
    some = np.unique(hidden_cells, axis=0)
    sequences = chain.sequences(some)
    assert np.exp(model.log_prob(sequences)).sum() == pytest.approx(1, abs=1e-9)


def test_something_is_clipped_where_data_are_few():
    _, model = noisy(3, (3,), shrinkage=0.0)
    chain = Chain.random(3, 1, (3,), 0, concentration=0.4)
    sequences = chain.sequences(chain.every(5)[0])
    scores = model.scored(sequences.codes, sequences.starts)
    assert scores.clipped.max() > 0
    assert scores.refused.max() > 0


@pytest.mark.parametrize(("hidden", "states"), [(3, (3,)), (3, (2, 2))])
def test_samples_are_from_the_distribution_of_the_scores(hidden, states):
    chain, model = noisy(hidden, states, shrinkage=0.1)
    every, _ = chain.every(3)
    sequences = chain.sequences(every)
    likely = np.exp(model.log_prob(sequences))
    count = 100_000
    drawn = model.drawn(np.arange(count + 1) * 3, np.random.default_rng(1)).reshape(count, 3, -1)
    base = [math.prod(states) ** power for power in (2, 1, 0)]
    seen = np.bincount(chain.joint_codes(drawn) @ base, minlength=len(every)) / count
    # Within 5 standard errors, everywhere.
    assert (np.abs(seen - likely) <= 5 * np.sqrt(likely * (1 - likely) / count) + 1e-12).all()


def test_the_next_steps_are_predicted_exactly():
    chain = Chain.random(3, 1, (2, 3), 5)
    model = population(chain, 3, 1, (5,))
    prefixes = chain.sample(6, 9, 3)
    sequences = chain.sequences(prefixes)
    for ahead in (1, 2, 5):
        tables = model.ahead(sequences, ahead)
        for number, prefix in enumerate(prefixes):
            joint = chain.next_step(prefix, ahead)
            np.testing.assert_allclose(tables[0][number], joint.sum(axis=1), atol=1e-9)
            np.testing.assert_allclose(tables[1][number], joint.sum(axis=0), atol=1e-9)
    filtered = model.filtered(sequences)
    for number, prefix in enumerate(prefixes):
        for step in range(9):
            joint = chain.next_step(prefix[:step])
            np.testing.assert_allclose(filtered[1][sequences.starts[number] + step], joint.sum(axis=0), atol=1e-9)


@pytest.mark.parametrize(("hidden", "states"), [(2, (3,)), (3, (2, 3)), (2, (2, 2))])
def test_missing_cells_are_filled_from_both_sides(hidden, states):
    chain = Chain.random(hidden, 1, states, 8, concentration=0.5)
    model = population(chain, hidden, 1, (5,))
    random = np.random.default_rng(2)
    parts = chain.sample(12, 8, 4)
    parts[random.random(parts.shape) < 0.3] = -1
    sequences = chain.sequences(parts)
    filled = model.filled(sequences, "mode", random)[0].reshape(parts.shape)
    np.testing.assert_array_equal(filled[parts >= 0], parts[parts >= 0])
    for part, whole in zip(parts, filled, strict=True):
        for step, channel in zip(*np.nonzero(part < 0), strict=True):
            likely = []
            for state in range(states[channel]):
                trial = part.copy()
                trial[step, channel] = state
                likely.append(chain.probability(masks(chain, trial)))
            assert likely[whole[step, channel]] >= max(likely) * (1 - 1e-9)


def test_missing_cells_are_sampled_together():
    chain = Chain.random(2, 1, (2, 2), 8, concentration=0.5)
    model = population(chain, 2, 1, (6,))
    part = chain.sample(1, 5, 0)[0]
    part[1, 0] = part[2] = part[3, 1] = -1
    count = 40_000
    sequences = chain.sequences([part] * count)
    drawn = model.filled(sequences, "sample", np.random.default_rng(0))[0].reshape(count, 5, 2)
    free = np.argwhere(part < 0)
    for states in itertools.product(range(2), repeat=len(free)):
        trial = part.copy()
        trial[tuple(free.T)] = states
        truth = math.exp(chain.log_prob(trial)) / chain.probability(masks(chain, part))
        seen = (drawn == trial).all(axis=(1, 2)).mean()
        assert abs(seen - truth) <= 5 * math.sqrt(truth * (1 - truth) / count) + 1e-12


def ragged(chain, seed, missing=0.1):
    random = np.random.default_rng(seed)
    parts = []
    for number, length in enumerate([1, 2, 3, 5, 300, 40, 7, 129, 128, 4] * 3):
        part = chain.sample(1, length, seed + number)[0]
        part[random.random(part.shape) < missing] = -1
        parts.append(part)
    return parts


@pytest.mark.parametrize("states", [(3,), (2, 2)])
def test_windows_are_counted_where_their_cells_are_there(states):
    chain = Chain.random(3, 1, states, 1)
    parts = ragged(chain, 7)
    statistics = counted(chain, 3, 1, parts)
    plan = statistics.plan
    place = {cell: k for k, cell in enumerate(plan.cells)}
    for group in plan.groups:
        columns = sorted(place[cell] for cell in group)
        seen = np.zeros([plan.states[plan.cells[column].channel] for column in columns], int)
        for part in parts:
            known = (part >= 0).all(axis=1)
            symbols = np.where(known, chain.joint_codes(np.maximum(part, 0)), -1)
            for t in range(len(part) - plan.reach):
                at = [t + plan.cells[column].lag for column in columns]
                if min(at) >= 0 and (symbols[at] >= 0).all():
                    seen[tuple(symbols[at])] += 1
        table = statistics.windows.find(columns).array()
        np.testing.assert_array_equal(table, seen)
    assert statistics.sequences == len(parts)
    assert statistics.steps == sum(map(len, parts))


def same_statistics(one, other):
    for name in ("windows", "firsts", "cells"):
        a, b = getattr(one, name), getattr(other, name)
        np.testing.assert_array_equal(a.dense, b.dense)
        assert a.rows == b.rows
        assert all(np.array_equal(a.find(group).array(), b.find(group).array()) for group in a.groups)
    for name in ("hashes", "codes", "weights"):
        np.testing.assert_array_equal(getattr(one.sample, name), getattr(other.sample, name))
    assert one.sample.known_to == other.sample.known_to


@pytest.mark.parametrize("short", [0, 3_000])
def test_statistics_do_not_depend_on_order_or_batches(short):
    """Of few sequences, all of which are in the sample, and of many, whose windows come in several blocks."""
    chain = Chain.random(3, 1, (2, 3), 1)
    parts = [*ragged(chain, 3), *chain.sample(short, 9, 4)]
    whole = counted(chain, 3, 1, parts)
    assert (whole.sample.known_to < EVERY_HASH) == (short > 0)
    random = np.random.default_rng(0)
    mixed = [parts[k] for k in random.permutation(len(parts))]
    same_statistics(whole, counted(chain, 3, 1, mixed))
    same_statistics(whole, counted(chain, 3, 1, mixed, most_steps=100))
    third = len(mixed) // 3 + 1
    batches = [counted(chain, 3, 1, mixed[a : a + third]) for a in range(0, len(mixed), third)]
    total = batches[0] + batches[1] + batches[2]
    same_statistics(whole, total)
    if not short:
        same_statistics(batches[0] + batches[2], total - batches[1])
    one, other = choose_windows(whole)[0], choose_windows(total)[0]
    sequences = chain.sequences(parts)
    np.testing.assert_array_equal(one.log_prob(sequences), other.log_prob(sequences))


def test_weights_count_sequences_several_times():
    chain = Chain.random(2, 1, (3,), 1)
    parts = ragged(chain, 3)
    weights = np.arange(len(parts)) % 3
    repeated = [part for part, weight in zip(parts, weights, strict=True) for _ in range(weight)]
    same_statistics(counted(chain, 2, 1, parts, weights), counted(chain, 2, 1, repeated))


def test_statistics_of_other_windows_do_not_add_up():
    chain = Chain.random(2, 1, (3,), 1)
    parts = ragged(chain, 3)
    one = counted(chain, 2, 1, parts)
    with pytest.raises(DataError, match="other windows"):
        one + counted(chain, 3, 2, parts)
    with pytest.raises(DataError, match="add up with SequenceStatistics"):
        one + 1
    with pytest.raises(DataError, match="same names and labels"):
        one + counted(Chain.random(2, 1, (4,), 1), 2, 1, parts)


def test_pieces_hold_all_that_their_windows_need():
    chain = Chain.random(3, 1, (2, 3), 1)
    statistics = counted(chain, 3, 1, ragged(chain, 3))
    codes, weights = statistics.sample.fold(0, 1)
    pieces = statistics.pieces(codes)
    rest = statistics.without(pieces, weights)
    # All pieces together are all windows, so nothing is left.
    assert rest.windows.rows == rest.firsts.rows == rest.cells.rows == 0
    assert not rest.windows.dense.any()
    assert all((part >= 0).all() for part in rest.windows.arrays())
    assert int(np.diff(pieces.own, axis=1).sum()) == statistics.steps


def test_errors_fall_as_sequences_grow_in_number():
    chain = Chain.random(3, 1, (4,), 5, concentration=0.3, sticky=0.5)
    test = chain.sample(300, 30, 99)
    truth = np.array([chain.log_prob(each) for each in test])
    sequences = chain.sequences(test)
    losses = []
    for count in (30, 300, 3_000):
        model = choose_windows(counted(chain, 3, 1, list(chain.sample(count, 30, count))))[0]
        losses.append(float((truth - model.log_prob(sequences)).mean()) / 30)
    assert losses[2] < losses[1] < losses[0]
    assert losses[2] < losses[0] / 10
    alone = choose_windows(counted(chain, 3, 1, list(chain.sample(3_000, 30, 1))), math.inf)[0]
    independent = float((truth - alone.log_prob(sequences)).mean()) / 30
    assert losses[0] < independent / 3


def test_infinite_shrinkage_is_independent_steps():
    chain, model = noisy(3, (3,), shrinkage=math.inf, floor=0.0)
    every, _ = chain.every(4)
    sequences = chain.sequences(every)
    alone = np.log(model.marginals[0])[every[:, :, 0]].sum(axis=1)
    np.testing.assert_allclose(model.log_prob(sequences), alone, atol=1e-12)


def test_messages_stay_within_bounds_on_long_sequences():
    # Unshrunk operators of few data may grow without end; what they say never does.
    chain, model = noisy(4, (5,), count=12, shrinkage=0.0, floor=0.0)
    sequences = chain.sequences([chain.sample(1, 20_000, 3)[0]])
    scores = model.scored(sequences.codes, sequences.starts, messages=True)
    assert np.isfinite(scores.messages).all()
    assert (scores.messages >= model.operators.low[0]).all()
    assert (scores.messages <= model.operators.high[0]).all()
    assert scores.refused[0] > 0


def test_short_sequences_are_learned_from_cell_by_cell():
    chain = Chain.random(2, 1, (3,), 1)
    parts = [part[: 1 + k % 2] for k, part in enumerate(chain.sample(50, 2, 0))]
    statistics = counted(chain, 2, 1, parts)
    assert statistics.windows.rows == 0
    model = choose_windows(statistics)[0]
    every, _ = chain.every(3)
    sequences = chain.sequences(every)
    likely = np.exp(model.log_prob(sequences))
    assert likely.sum() == pytest.approx(1, abs=1e-12)
    marginal = cell_marginals(statistics, 1.5)[0]
    np.testing.assert_allclose(likely[0], marginal[0] ** 3, rtol=1e-9)


def test_learning_is_a_function_of_the_statistics():
    chain = Chain.random(2, 1, (3,), 1)
    statistics = counted(chain, 2, 1, ragged(chain, 5))
    marginals = cell_marginals(statistics, 1.0)
    one, other = (learn_windows(statistics, 1.0, marginals) for _ in range(2))
    for a, b in zip(one.cores, other.cores, strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize(
    ("states", "hidden", "order", "rank"),
    [((4,), 2, 1, 2), ((4,), 2, 2, 4), ((4,), 2, 3, 8), ((2,), 8, 1, 8), ((1,), 3, 1, 1), ((2, 2, 2), 4, 1, 4)],
)
def test_plans_reach_the_rank_of_composite_states(states, hidden, order, rank):
    plan = WindowPlan.of(states, hidden, order)
    assert {bond.rank for bond in plan.bonds} == {rank}
    for channel, bond in enumerate(plan.bonds):
        assert all(cell >= Cell(0, channel) for group in bond.inside for cell in group)
        assert all(cell < Cell(0, channel) for group in bond.outside for cell in group)


def test_plans_that_are_too_large_are_refused():
    with pytest.raises(ParameterError, match="lower hidden_states or order"):
        WindowPlan.of([4], 10, 6)
    assert WindowPlan.of([4], 6, 1, max_rank=3).bonds[0].rank == 3
    assert len(WindowPlan.of([300], 4, 1).groups) < len(WindowPlan.of([30], 4, 1).groups)


def test_blocks_encode_and_decode():
    blocks = ChannelBlocks.of((2, 2, 3, 7, 2), 4, dependent=False)
    assert blocks.sizes == (3, 2)
    random = np.random.default_rng(0)
    codes = np.asfortranarray(random.integers(0, np.array(blocks.states) + 1, (200, 5)).astype(np.uint8))
    patterns = blocks.encoded(codes)
    np.testing.assert_array_equal(blocks.decoded(patterns, codes.dtype), codes)
    known = codes < np.array(blocks.states)
    for block, channels in enumerate(blocks.channels):
        symbols = blocks.symbol_of[block][patterns[:, block]]
        whole = known[:, list(channels)].all(axis=1)
        np.testing.assert_array_equal(symbols < blocks.symbols[block], whole)
        np.testing.assert_array_equal(blocks.pattern(block, symbols[whole]), patterns[whole, block])
