"""Sequences through arbitrary signed operators of a step, against matrices of numpy."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest
from core.mirrors import operator_steps as mirror
from core.random_operators import random_steps
from numpy.testing import assert_allclose, assert_array_equal

from eigentree.core import _native
from eigentree.core.sequences.operator_steps import (
    StepOperators,
    sample_sequences,
    sample_unknown,
    score_sequences,
    smooth_sequences,
)
from eigentree.core.trees.chain_rule import Floor
from eigentree.inference.operators.normalised_scoring import floor_of

SHAPES = [
    ((3,), (2,)),
    ((4, 2), (3, 4)),
    ((2, 1, 5), (1, 3, 7)),
    ((9,), (13,)),
    ((17, 3), (8, 6)),
]
"""States of the channels, and ranks of the bonds before them."""

Problem = tuple[StepOperators, Floor, np.ndarray, np.ndarray]


def problem(shape: int, seed: int, share: float = 0.05, dtype: type = np.uint8) -> Problem:
    """Operators, a floor, codes with cells that are missing or known in part, and starts: one is of no steps."""
    states, ranks = SHAPES[shape]
    random = np.random.default_rng(seed)
    marginals = [random.dirichlet(np.ones(count)) for count in states]
    steps = random_steps(random, states, ranks, marginals)
    lengths = [7, 0, 1, 12, 3]
    codes = np.array([random.integers(0, count + 2, sum(lengths)) for count in states], dtype)
    known = random.random(codes.shape) < 0.6
    codes = np.where(known, codes % np.array(states)[:, None], codes).astype(dtype)
    return steps, floor_of(share, marginals), codes, np.cumsum([0, *lengths])


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.uint32])
@pytest.mark.parametrize("share", [0.0, 0.05])
@pytest.mark.parametrize("shape", range(len(SHAPES)))
def test_sequences_have_the_product_of_their_cells(
    shape: int, share: float, dtype: type, instructions: str
) -> None:
    steps, floor, codes, starts = problem(shape, shape, share, dtype)
    begins = np.arange(len(starts) - 1) != 3
    found, each, messages, last = score_sequences(steps, floor, codes, starts, begins, True, True, True)
    for i, (first, stop) in enumerate(pairwise(starts)):
        expected = mirror.walk(steps, floor, codes[:, first:stop], bool(begins[i]))
        assert_allclose(found[:, i], expected[0], rtol=1e-10, atol=1e-10)
        assert_allclose(each[first:stop], expected[1], rtol=1e-10, atol=1e-10)
        assert_allclose(messages[first:stop], expected[2], rtol=1e-10, atol=1e-10)
        assert_allclose(last[i], expected[3], rtol=1e-10, atol=1e-10)
    alone = score_sequences(steps, floor, codes, starts, begins)
    assert_array_equal(alone[0], found)
    assert [part.shape for part in alone[1:]] == [(0,), (0, len(steps.start)), (0, len(steps.start))]


def test_cells_are_clipped_and_refused_where_sequences_are_tested() -> None:
    """Else the law above would not cover them."""
    found = sum(
        score_sequences(*problem(shape, shape, 0.0), np.ones(5, bool))[0].sum(axis=1)
        for shape in range(len(SHAPES))
    )
    assert (found[1:] > 0).all()


@pytest.mark.parametrize("scale", [1.0, 1e307, 1e308, 1e-308, 5e-324])
def test_all_sequences_of_a_length_have_the_probability_one(scale: float, instructions: str) -> None:
    """Also where the sums of tables, or what they are divided by, are beyond all numbers."""
    steps, floor, _, _ = problem(1, 3)
    steps = steps._replace(heads=steps.heads * scale, values=steps.values * scale)
    every = np.array(np.meshgrid(*[range(4), range(2)] * 3, indexing="ij")).reshape(6, -1)
    codes = np.ascontiguousarray(every.reshape(3, 2, -1).transpose(1, 2, 0).reshape(2, -1), np.uint8)
    starts = np.arange(0, codes.shape[1] + 1, 3)
    log_prob = score_sequences(steps, floor, codes, starts, np.ones(len(starts) - 1, bool))[0][0]
    assert_allclose(np.exp(log_prob).sum(), 1.0)


@pytest.mark.parametrize("shape", range(len(SHAPES)))
def test_samples_are_where_the_uniform_number_falls(shape: int, instructions: str) -> None:
    steps, floor, codes, starts = problem(shape, shape + 10)
    uniform = np.random.default_rng(0).random(codes.shape)
    made = codes.copy()
    sample_sequences(steps, floor, made, starts, uniform)
    for first, stop in pairwise(starts):
        own = slice(first, stop)
        assert_array_equal(made[:, own], mirror.walk(steps, floor, codes[:, own], True, uniform[:, own])[4])


@pytest.mark.parametrize("share", [0.0, 0.05])
@pytest.mark.parametrize("shape", range(len(SHAPES)))
def test_cells_that_are_not_known_have_their_smoothed_distribution(
    shape: int, share: float, instructions: str
) -> None:
    steps, floor, codes, starts = problem(shape, shape + 20, share)
    parts = [codes[:, first:stop] for first, stop in pairwise(starts)]
    expected = [line for part in parts for line in mirror.smooth(steps, floor, part)[0]]
    found = smooth_sequences(steps, floor, codes, starts, len(expected))
    for own, line in zip(found, expected, strict=True):
        assert_allclose(own[: len(line)], line, rtol=1e-9, atol=1e-10)
        assert not own[len(line) :].any()


@pytest.mark.parametrize("shape", range(len(SHAPES)))
def test_cells_that_are_not_known_are_sampled_together(shape: int, instructions: str) -> None:
    steps, floor, codes, starts = problem(shape, shape + 30)
    codes[:, 7:8] = 0  # a sequence of which all is known
    uniform = np.random.default_rng(1).random(codes.shape)
    made = codes.copy()
    sample_unknown(steps, floor, made, starts, uniform)
    for first, stop in pairwise(starts):
        own = slice(first, stop)
        assert_array_equal(made[:, own], mirror.smooth(steps, floor, codes[:, own], uniform[:, own])[1])


def test_a_missing_cell_with_one_state_gets_it() -> None:
    steps, floor, codes, starts = problem(2, 0)
    codes[:], codes[1] = 0, 2
    sample_unknown(steps, floor, codes, starts, np.zeros(codes.shape))
    assert not codes.any()


def test_no_sequence_depends_on_those_beside_it(instructions: str) -> None:
    steps, floor, _, _ = problem(4, 5)
    random = np.random.default_rng(5)
    codes = random.integers(0, 3, (2, 2_000)).astype(np.uint8)
    starts = np.array([0, *np.cumsum(random.integers(0, 70, 40))])
    whole, each, _, _ = score_sequences(steps, floor, codes, starts, np.ones(40, bool), each=True)
    for i, (first, stop) in enumerate(pairwise(starts)):
        own = np.ascontiguousarray(codes[:, first:stop])
        alone = score_sequences(steps, floor, own, np.array([0, stop - first]), np.ones(1, bool), each=True)
        assert_array_equal(alone[0][:, 0], whole[:, i])
        assert_array_equal(alone[1], each[first:stop])


def test_long_sequences_have_a_logarithm_and_impossible_ones_that_of_zero() -> None:
    steps, floor, _, _ = problem(3, 1)
    codes = np.random.default_rng(0).integers(0, 9, (1, 3_000)).astype(np.uint8)
    found, each, _, _ = score_sequences(steps, floor, codes, np.array([0, 3_000]), np.ones(1, bool), each=True)
    assert found[0, 0] < -800
    assert_allclose(found[0, 0], each.sum())
    nothing = floor._replace(share=0.0, marginals=np.where(np.arange(9) == 2, 0.0, floor.marginals))
    heads = steps.heads.copy()
    heads.reshape(-1, 9)[:, 2] = 0.0
    codes[0, 1] = 2
    found = score_sequences(steps._replace(heads=heads), nothing, codes, np.array([0, 4]), np.ones(1, bool))[0]
    assert found[0, 0] == -math.inf


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_operators_that_are_no_numbers_leave_the_marginals(value: float) -> None:
    steps, floor, codes, starts = problem(0, 1)
    codes %= 3
    steps.heads[0] = value
    found = score_sequences(steps, floor, codes, starts, np.ones(5, bool))[0]
    if value != -math.inf:
        expected = [np.log(floor.marginals[codes[0, a:b]]).sum() for a, b in pairwise(starts)]
        assert_allclose(found[0], expected)


@pytest.mark.parametrize(
    ("name", "index", "value", "why"),
    [
        ("first_value", 0, -1, "values of a channel"),
        ("first_value", 1, 2**62, "values of a channel"),
        ("first_head", 0, -1, "heads of a channel"),
        ("first_head", 1, 2**62, "heads of a channel"),
        ("ranks", 1, 0, "values of a channel"),
        ("ranks", 1, 2**62, "values of a channel"),
        ("ranks", 0, 1, "the bond before a step"),
        ("states", 0, 0, "heads of a channel"),
        ("states", 1, 2**62, "heads of a channel"),
        ("first_pattern", 0, 1, "patterns begin at 0"),
        ("first_pattern", 1, 2**62, "patterns of each channel"),
        ("first_pattern", 2, 11, "one first match more"),
        ("first_match", 0, -1, "matches inside the array"),
        ("first_match", 3, 2**62, "at least one state"),
        ("first_match", 3, 2, "at least one state"),
        ("first_match", -1, 2**62, "matches inside the array"),
        ("matches", 0, -1, "states of a pattern"),
        ("matches", 0, 4, "states of a pattern"),
        ("patterns", 0, -1, "the pattern of a state"),
        ("patterns", 0, 6, "the pattern of a state"),
    ],
)
def test_operators_that_lead_outside_their_arrays_are_refused(name: str, index: int, value: int, why: str) -> None:
    steps, floor, codes, starts = problem(1, 0)
    array = getattr(steps, name)
    array[index] = value
    with pytest.raises(ValueError, match=why):
        score_sequences(steps, floor, codes, starts, np.ones(5, bool))


def test_there_is_one_weight_of_what_is_clipped_for_each_channel() -> None:
    steps, floor, codes, starts = problem(1, 0)
    with pytest.raises(ValueError, match="a weight of what is clipped for each channel"):
        score_sequences(steps._replace(clipping=steps.clipping[:1]), floor, codes, starts, np.ones(5, bool))


def test_codes_starts_and_results_are_checked() -> None:
    steps, floor, codes, starts = problem(1, 0)
    begins = np.ones(5, bool)
    wrong = codes.copy()
    wrong[0, 3] = 6
    with pytest.raises(ValueError, match="a code is beyond those of its column"):
        score_sequences(steps, floor, wrong, starts, begins)
    for bad, why in (
        ([0, 9, 8], "in order"),
        ([0, 24], "among the steps"),
        ([-1, 3], "among the steps"),
        ([], "among"),
    ):
        with pytest.raises(ValueError, match=why):
            _native.sample_unknown(*steps, *floor, codes, np.array(bad, np.int64), np.zeros(codes.shape))
    with pytest.raises(ValueError, match="whether each sequence begins"):
        score_sequences(steps, floor, codes, starts, begins[:-1])
    with pytest.raises(ValueError, match="a line per cell that is not known"):
        smooth_sequences(steps, floor, codes, starts, 3)
    with pytest.raises(ValueError, match="a random number per cell"):
        sample_sequences(steps, floor, codes, starts, np.zeros((2, 5)))
    with pytest.raises(ValueError, match="bounds of every feature"):
        score_sequences(steps._replace(low=steps.low[:, :-1].copy()), floor, codes, starts, begins)
    with pytest.raises(ValueError, match="marginals of a column"):
        score_sequences(steps, floor._replace(marginals=floor.marginals[:-1]), codes, starts, begins)


def test_codes_are_large_enough_for_the_patterns_that_are_sampled() -> None:
    random = np.random.default_rng(0)
    marginals = [random.dirichlet(np.ones(300))]
    steps, floor = random_steps(random, (300,), (2,), marginals), floor_of(0.1, marginals)
    starts = np.array([0, 4])
    with pytest.raises(ValueError, match="codes too small for patterns"):
        sample_sequences(steps, floor, np.zeros((1, 4), np.uint8), starts, np.zeros((1, 4)))
    made = np.full((1, 4), 301, np.uint16)
    sample_sequences(steps, floor, made, starts, np.full((1, 4), 0.999))
    assert (made > 255).any()
    assert (made < 300).all()
