"""Shrinkage: a sample of rows that knows no order, folds that add up, and a choice that follows the data."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest
from brute_force import all_rows
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

import eigentree as et
from eigentree.counting.holdout_sample import SAMPLE_ROWS, RowSample, held_share
from eigentree.counting.statistics import Statistics
from eigentree.data.tables.columns import Columns
from eigentree.data.tables.rows import Rows
from eigentree.planning.view_plan import ViewPlan
from eigentree.spectral.learn.moments import CountedTables
from eigentree.spectral.learn.operator_learning import learn
from eigentree.spectral.learn.shrinkage import FLOORS, FOLDS, GRID, USUAL, choose, usual_floor
from eigentree.spectral.learn.spectral_fit import SpectralModel, counted_marginals, exact_marginals, pseudo_rows

GRAPH = et.zoo.hmm(6, 1, 2, 3)
NETWORK = et.LatentNetwork.random(GRAPH, seed=0)
LARGER = et.zoo.hmm(6, 1, 2, 5)
"""It has many more different rows than a sample holds."""


def codes_of(rows: np.ndarray, graph: et.LatentGraph = GRAPH) -> np.ndarray:
    return Rows.of(rows, Columns.of(graph)).encode(0, len(rows))


def sampled(codes: np.ndarray, weights: np.ndarray | None = None, cuts: tuple[int, ...] = ()) -> RowSample:
    sample = RowSample.empty(codes.shape[1])
    parts = np.split(np.arange(len(codes)), cuts)
    for part in parts:
        sample = sample.update(np.asfortranarray(codes[part]), None if weights is None else weights[part])
    return sample


def tally(codes: np.ndarray, weights: np.ndarray) -> dict[tuple[int, ...], float]:
    return {tuple(row): weight for row, weight in zip(codes.tolist(), weights.tolist(), strict=True)}


def assert_same_sample(one: RowSample, other: RowSample) -> None:
    assert_array_equal(one.hashes, other.hashes)
    assert_array_equal(one.codes, other.codes)
    assert_array_equal(one.weights, other.weights)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 999), st.sets(st.integers(1, 299), max_size=5), st.sampled_from([1, 20]))
def test_order_and_batches_change_no_bit(seed: int, cuts: set[int], times: int) -> None:
    """Of a few rows, which are all kept, and of many."""
    codes = codes_of(np.random.default_rng(seed).integers(0, 5, (300 * times, 6)), LARGER)
    weights = np.random.default_rng(seed).integers(0, 5, len(codes))
    order = np.random.default_rng(seed + 1).permutation(len(codes))
    whole = sampled(codes, weights)
    assert_same_sample(sampled(codes[order], weights[order], tuple(times * cut for cut in sorted(cuts))), whole)
    assert_same_sample(sampled(np.repeat(codes, weights, axis=0)), whole)
    assert (len(whole.hashes) == SAMPLE_ROWS) == (times == 20)
    assert len(whole.hashes) <= SAMPLE_ROWS


def test_multiplicities_are_exact_also_of_rows_that_come_late() -> None:
    rows = all_rows(LARGER)
    codes = codes_of(rows[np.random.default_rng(0).integers(0, len(rows), 100_000)], LARGER)
    sample = sampled(codes, cuts=tuple(range(1_000, 100_000, 1_000)))
    everything = Counter(map(tuple, codes.tolist()))
    assert len(everything) > 2 * SAMPLE_ROWS, "the limit must bite"
    assert len(sample.hashes) == SAMPLE_ROWS
    kept = tally(sample.codes, sample.weights)
    assert len(kept) == SAMPLE_ROWS, "rows are distinct"
    assert kept == {row: everything[row] for row in kept}


def test_the_sample_favours_no_rows() -> None:
    """Which rows are kept depends on hashes, not on codes: frequent rows are not over-represented."""
    kept = sampled(codes_of(all_rows(LARGER), LARGER)).codes
    assert len(kept) == SAMPLE_ROWS
    # Uniform over 5 states: mean 2, standard deviation sqrt(2 / rows).
    assert_allclose(kept.mean(axis=0), 2.0, atol=5 * math.sqrt(2 / SAMPLE_ROWS))


def test_few_rows_are_all_kept() -> None:
    codes = codes_of(NETWORK.sample(200, seed=2))
    sample = sampled(codes)
    assert tally(sample.codes, sample.weights) == Counter(map(tuple, codes.tolist()))


def test_rows_of_weight_zero_are_not_seen() -> None:
    codes = codes_of(all_rows(GRAPH)[:100])
    weights = np.arange(100) % 2
    assert_same_sample(sampled(codes, weights), sampled(codes[1::2]))
    empty = RowSample.empty(6)
    assert empty.update(codes, np.zeros(100)) is empty


def test_missing_cells_make_other_rows() -> None:
    rows = NETWORK.sample(1, seed=0)
    holed = rows.copy()
    holed[0, 2] = -1
    sample = sampled(codes_of(np.concatenate([rows, holed, rows])))
    assert sorted(sample.weights) == [1, 2]


def test_folds_are_even_among_rows_that_occur_once_and_fractions_are_held_out_too() -> None:
    hashes = np.arange(100, dtype=np.uint64) * 7919
    codes = np.arange(600).reshape(100, 6).astype(np.uint16)
    sample = RowSample(hashes, codes, np.tile([1, 2], 50))
    for number in range(2):
        held, dealt = sample.fold(number, 2)
        assert (np.isin(held[:, 0], codes[::2, 0])).sum() == 25
        assert 60 < dealt.sum() < 90
    fractions = RowSample(hashes, codes, np.tile([0.5, 3.25], 50))
    held = [fractions.fold(number, 2, share=0.5)[1].sum() for number in range(2)]
    assert_allclose(sum(held), 0.5 * fractions.weights.sum(), rtol=0.2)
    light = sum(np.isin(fractions.fold(number, 2, share=0.5)[0][:, 0], codes[::2, 0]).sum() for number in range(2))
    assert light == 50


@pytest.mark.parametrize("kind", ["ones", "whole", "fractional", "tiny"])
def test_folds_share_out_the_weights_exactly(kind: str) -> None:
    codes = codes_of(NETWORK.sample(500, seed=3))
    random = np.random.default_rng(0)
    weights = {
        "ones": None,
        "whole": random.integers(0, 9, 500),
        "fractional": random.integers(0, 64, 500) / 8,  # exact in binary
        "tiny": random.random(500) / 500,
    }[kind]
    sample = sampled(codes, weights)
    total: Counter[tuple[int, ...]] = Counter()
    for number in range(FOLDS):
        held, dealt = sample.fold(number, FOLDS)
        assert held.flags.f_contiguous
        assert (dealt > 0).all()
        for row, weight in tally(held, dealt).items():
            total[row] += weight
    assert dict(total) == tally(sample.codes, sample.weights)


def test_folds_of_rows_that_occur_once_are_of_equal_size() -> None:
    sample = sampled(codes_of(NETWORK.sample(5_000, seed=4)))
    ones = RowSample(sample.hashes, sample.codes, np.ones(len(sample.hashes), int))
    for folds in (1, 2, 3):
        sizes = [len(ones.fold(number, folds)[0]) for number in range(folds)]
        assert sum(sizes) == len(ones.hashes)
        assert max(sizes) - min(sizes) <= 1


def test_copies_of_a_row_are_dealt_out_as_if_each_were_a_row() -> None:
    """Folds differ as random halves do; halves that were alike would hide overfitting."""
    copies = 400
    sample = RowSample(np.arange(300, dtype=np.uint64) * 7919, np.zeros((300, 6), np.uint8), np.full(300, copies))
    _, dealt = sample.fold(0, 2)
    assert_allclose(dealt.mean(), copies / 2, rtol=0.02)
    assert_allclose(dealt.var(), copies / 4, rtol=0.3)


@pytest.mark.parametrize("holes", [0.0, 0.2])
def test_what_is_left_of_the_counts_is_the_rows_that_are_left(holes: float) -> None:
    rows = NETWORK.sample(700, seed=5)
    rows[np.random.default_rng(0).random(rows.shape) < holes] = -1
    codes = codes_of(rows)
    groups = ViewPlan.build(GRAPH).groups()
    counts = et.Counts(GRAPH, groups).update(rows)
    sample = sampled(codes)
    assert sample.weights.sum() == 700
    for number in range(FOLDS):
        held, dealt = sample.fold(number, FOLDS)
        rest = counts - counts.empty().count(iter([(held, dealt)]))
        others = [sample.fold(k, FOLDS) for k in range(FOLDS) if k != number]
        direct = counts.empty().count(iter(others))
        assert rest.rows == direct.rows == 700 - dealt.sum()
        for group in groups:
            assert rest.table(group).dtype.kind == "i"
            assert_array_equal(rest.table(group), direct.table(group))


Chosen = tuple[SpectralModel, dict[tuple[float, float], float]]


def chosen(rows: np.ndarray, graph: et.LatentGraph, weights: np.ndarray | None = None) -> Chosen:
    plan = ViewPlan.build(graph)
    return choose(plan, Statistics.empty(plan).update(rows, weights), "variance")


@pytest.mark.parametrize("count", [3, 60, 4_000])
def test_the_choice_is_the_same_in_any_order(count: int) -> None:
    rows = NETWORK.sample(count, seed=6)
    model, tried = chosen(rows, GRAPH)
    for seed in range(3):
        again, again_tried = chosen(np.random.default_rng(seed).permutation(rows), GRAPH)
        assert (again.shrinkage, again.floor, again_tried) == (model.shrinkage, model.floor, tried)
        for one, two in zip(model.fit.cores, again.fit.cores, strict=True):
            assert_array_equal(one, two)


def test_the_choice_stays_where_it_began_unless_another_is_surely_better() -> None:
    moved = []
    graph = et.zoo.hmm(20, 2, 2, 4)
    for seed in range(6):
        network = et.LatentNetwork.random(graph, concentration=0.2, seed=seed)
        model, tried = chosen(network.sample(150, seed=seed), graph)
        usual, found = (USUAL, usual_floor(150)), (model.shrinkage, model.floor)
        assert set(tried) <= {(kappa, usual_floor(150) * more) for kappa in GRID for more in FLOORS}
        assert len(tried) >= 4
        if found == usual:
            continue
        assert tried[found] > tried[usual]
        assert tried[found] == max(tried.values()), "the search goes on to the best"
        moved.append(found)
    assert moved, "some data must want another shrinkage"


@pytest.mark.parametrize(("shrinkage", "floor"), [(0.7, None), (0.7, 0.2), (0.0, None), (0.0, 0.2)])
def test_what_is_given_is_taken(shrinkage: float, floor: float | None) -> None:
    plan = ViewPlan.build(GRAPH)
    statistics = Statistics.empty(plan).update(NETWORK.sample(300, seed=0))
    model, tried = choose(plan, statistics, "variance", shrinkage, floor)
    assert (model.shrinkage, tried) == (shrinkage, {})
    assert model.floor == (floor if floor is not None else 1e-3 if shrinkage else 0.0)
    added = pseudo_rows(GRAPH) if model.floor else 0.0
    for found, expected in zip(model.marginals, counted_marginals(statistics.counts, added), strict=True):
        assert_array_equal(found, expected)


def test_a_given_floor_is_kept_while_the_shrinkage_is_chosen() -> None:
    model = et.SpectralJunctionTree(GRAPH, floor=0.05).fit(NETWORK.sample(300, seed=0))
    assert model.floor_ == 0.05
    assert {floor for _, floor in model.report_.tried} == {0.05}
    assert len(model.report_.tried) > 1


def test_the_usual_floor_goes_away_as_rows_grow_in_number() -> None:
    assert [usual_floor(rows) for rows in (0, 0.5, 100, 10_000, 10**6)] == [1e-3, 1e-3, 1e-3, 1e-3, 1e-5]


def test_marginals_are_those_of_the_source() -> None:
    for found, name in zip(exact_marginals(NETWORK, GRAPH), GRAPH.observed, strict=True):
        assert_allclose(found, NETWORK.joint([name]), atol=1e-15)


def test_many_rows_hold_out_the_whole_sample_at_once() -> None:
    graph = et.zoo.hmm(20, 2, 2, 4)
    rows = et.LatentNetwork.random(graph, seed=0).sample(50_000, seed=7)
    held, dealt = sampled(codes_of(rows, graph)).fold(0, 1)
    assert dealt.tolist() == [1] * SAMPLE_ROWS
    _, tried = chosen(rows, graph)
    out = set(map(tuple, held.tolist()))
    left = [row for row in rows.tolist() if tuple(row) not in out]
    floor = usual_floor(len(rows))
    model = et.SpectralJunctionTree(graph, shrinkage=USUAL, floor=floor).fit(left)
    assert_allclose(tried[USUAL, floor], model.score(held.astype(int)), atol=1e-9)


def test_only_some_copies_of_frequent_rows_are_held_out() -> None:
    """Else a model of few configurations would be learned from data in which the held-out ones are rare."""
    sample = RowSample(np.arange(100, dtype=np.uint64) * 7919, np.zeros((100, 6), np.uint8), np.full(100, 1_000))
    share = held_share([sample])
    assert share == SAMPLE_ROWS / 100_000
    dealt = [sample.fold(number, 2, share)[1].sum() for number in range(2)]
    assert_allclose(dealt, SAMPLE_ROWS / 2, rtol=0.1)
    assert held_share([sampled(codes_of(NETWORK.sample(500, seed=0)))]) == 1.0


def test_many_rows_of_few_configurations_are_not_shrunk_too_much() -> None:
    """Each of 81 configurations occurs hundreds of times, so all are in the sample of rows to hold out."""
    graph = et.zoo.hmm(4, 1, 2, 3)
    kappas = []
    for seed in range(5):
        network = et.LatentNetwork.random(graph, concentration=0.3, seed=seed)
        kappas.append(chosen(network.sample(40_000, seed=seed), graph)[0].shrinkage)
    assert max(kappas) <= 2 * USUAL


def test_held_out_likelihood_is_that_of_a_model_fitted_without_the_fold() -> None:
    """The law of cross-validation, with each fold's model fitted afresh from rows."""
    rows = NETWORK.sample(800, seed=7)
    _, tried = chosen(rows, GRAPH)
    sample = sampled(codes_of(rows))
    totals = dict.fromkeys(tried, 0.0)
    for number in range(FOLDS):
        held, dealt = sample.fold(number, FOLDS)
        others = [sample.fold(k, FOLDS) for k in range(FOLDS) if k != number]
        for kappa, floor in tried:
            model = et.SpectralJunctionTree(GRAPH, shrinkage=kappa, floor=floor).fit(
                np.concatenate([codes for codes, _ in others]).astype(int),
                sample_weight=np.concatenate([weights for _, weights in others]),
            )
            log_prob, replaced = model.model_.log_prob(held.astype(int))
            totals[kappa, floor] += float(dealt @ log_prob)
            assert replaced == 0
    assert max(tried)[0] > USUAL > min(tried)[0]
    assert_allclose(list(tried.values()), [total / 800 for total in totals.values()], atol=1e-9)


def test_shrinkage_helps_little_data_and_hardly_touches_much() -> None:
    """Kappa is in units of the noise, so the same one shrinks few rows a lot and many hardly at all."""
    graph = et.zoo.hmm(20, 2, 2, 4)
    network = et.LatentNetwork.random(graph, seed=0)
    factors = []
    for rows in (200, 20_000, 1_000_000):
        plan = ViewPlan.build(graph)
        counts = et.Counts(graph, plan.groups()).update(network.sample(rows, seed=1))
        (fit,) = learn(plan, [CountedTables(counts, pseudo_rows(graph))], "variance")
        factors.append(np.mean([edge.factors(USUAL)[1:].mean() for edge in fit.edges if edge is not None]))
    assert factors == sorted(factors)
    assert factors[0] < 0.75
    assert factors[2] > 0.85


def test_independent_columns_want_more_shrinkage() -> None:
    graph = et.zoo.hmm(20, 2, 2, 4)
    rows = [np.random.default_rng(seed).integers(0, 4, (3_000, 20)) for seed in range(5)]
    kappas = [chosen(each, graph)[0].shrinkage for each in rows]
    assert np.median(kappas) > USUAL


def test_with_one_row_there_is_nothing_to_hold_out() -> None:
    model, tried = chosen(NETWORK.sample(1, seed=0), GRAPH)
    assert (model.shrinkage, tried) == (math.inf, {})
    log_size, _ = model.fit.operators(model.shrinkage).log_prob(codes_of(all_rows(GRAPH)))
    assert_allclose(np.exp(log_size).sum(), 1.0)


def test_weights_in_fractions_choose_like_their_rows() -> None:
    rows = NETWORK.sample(600, seed=8)
    weights = np.random.default_rng(1).integers(1, 4, 600)
    (repeated, tried), (weighted, weighted_tried) = (
        chosen(np.repeat(rows, weights, axis=0), GRAPH),
        chosen(rows, GRAPH, weights.astype(float)),
    )
    assert (weighted.shrinkage, weighted.floor) == (repeated.shrinkage, repeated.floor)
    assert weighted_tried == tried


@pytest.mark.parametrize("symbols", [2, 5, [2, 6, 4]])
def test_pseudo_rows_add_one_half_to_each_count_on_average(symbols: int | list[int]) -> None:
    graph = et.zoo.mixture(3, 2, symbols)
    assert pseudo_rows(graph) == np.mean([graph.states[name] for name in graph.observed]) / 2
