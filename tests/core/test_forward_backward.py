"""Forward and backward passes over sequences, against unrolled networks and a plain reference."""

from __future__ import annotations

import warnings
from itertools import product
from typing import TYPE_CHECKING

import numpy as np
import pytest
from core.mirrors.forward_backward import expected
from core.sequence_problems import SIZES, SequenceProblem
from numpy.testing import assert_allclose, assert_array_equal

import eigentree as et
from eigentree.core import _native
from eigentree.core.sequences.forward_backward import (
    expected_sequences,
    flat_links,
    log_prob_sequences,
    split_links,
)
from eigentree.inference.sequences.sequence_passes import SequencePass, Symbols

if TYPE_CHECKING:
    pass

WORDS = ["ABCA", "AB", "C", "BBAC", "CABA", "A", "ACCB", "BAB", "CC", "AAB", "BCA", "ABCB"]
WITH_MISSING = [[*word[:1], None, *word[1:]] for word in WORDS]


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("hidden", [2, 5])
@pytest.mark.parametrize(
    "data", [WORDS, WITH_MISSING, ["ABCABBACCABACAB" * 5]], ids=["words", "missing", "one long"]
)
def test_a_chain_is_its_unrolled_network(data: list, hidden: int, order: int) -> None:
    model = et.EMHMM(hidden, order=order, init="random", n_init=1, max_iter=1, random_state=0).fit(data)
    short = [sequence[:3] for sequence in data if len(sequence) >= 3]
    network = model.to_network(3)
    codes = np.array([[-1 if cell is None else "ABC".index(cell) for cell in sequence] for sequence in short])
    assert_allclose(model.score_samples(short), network.log_prob(codes), atol=1e-10)
    last = model.predict_proba(short)
    assert_allclose(np.asarray(last).sum(axis=-1), 1.0, atol=1e-10)
    assert_allclose(np.asarray(model.filter(short))[:, 2], np.asarray(last)[:, 2], atol=1e-10)
    assert_allclose(model.decode(short).log_prob, network.decode(codes).log_prob, atol=1e-10)
    assert all(None not in sequence for sequence in map(list, model.impute(short, method="sample", seed=0)))
    assert len(model.sample(3, length=4, seed=0)) == 3


@pytest.mark.parametrize("weights", [None, [0.5] * len(WORDS), [2] * len(WORDS)])
def test_window_models_are_normalised(weights: list | None) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # a handful of words supports no rank
        model = et.SpectralHMM(2).fit(WORDS, sample_weight=weights)
    scores = model.score_samples(["".join(letters) for letters in product("ABC", repeat=3)])
    assert_allclose(np.exp(scores).sum(), 1.0, atol=1e-9)
    assert_allclose(np.asarray(model.predict_next_proba(WORDS)).sum(axis=1), 1.0, atol=1e-9)
    assert all(None not in sequence for sequence in map(list, model.impute(WITH_MISSING, method="sample", seed=0)))
    assert all(None not in sequence for sequence in map(list, model.impute(WITH_MISSING)))
    assert len(model.sample(3, length=4, seed=0)) == 3


def assert_mirrored(one: SequenceProblem, rtol: float = 1e-11) -> None:
    """Assert that sequences in any order count as the reference says, each by its weight."""
    random = np.random.default_rng(0)
    count = len(one.starts) - 1
    numbers, weights = random.permutation(count), 0.5 + random.random(count)
    known = (one.symbols, one.starts, numbers, weights, one.emissions, one.links)
    log_prob, scores = np.full((2, count), np.nan)
    used, shown = expected_sequences(*known, log_prob)
    log_prob_sequences(*known, scores)
    parts = [expected(each, one.emissions, one.links) for each in one.sequences]
    for k, table in enumerate(split_links(used, one.links)):
        total = sum(weight * part[0][k] for weight, part in zip(weights, parts, strict=True))
        assert_allclose(table, total, rtol=rtol, atol=1e-100)
    total = sum(weight * part[1] for weight, part in zip(weights, parts, strict=True))
    assert_allclose(shown, total, rtol=rtol, atol=1e-100)
    assert_allclose(log_prob, [part[3] for part in parts], rtol=1e-12)
    assert_allclose(scores, log_prob, rtol=1e-12)


@pytest.mark.usefixtures("instructions")
@pytest.mark.parametrize(("states", "order"), SIZES, ids=str)
class TestPasses:
    """For all numbers of states and orders."""

    @pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.uint32])
    def test_sequences_of_many_lengths(self, states: int, order: int, dtype: type) -> None:
        """Empty ones among them."""
        random = np.random.default_rng(states)
        assert_mirrored(SequenceProblem.of(random, random.integers(0, 45, 19), states, order, dtype=dtype))

    def test_many_symbols(self, states: int, order: int) -> None:
        """So many that lanes do not count by themselves."""
        random = np.random.default_rng(states)
        one = SequenceProblem.of(random, [30, 20, 30], states, order, 3000, np.uint16)
        one.symbols[::2] //= 1000
        assert_mirrored(one)

    def test_impossible_sequences(self, states: int, order: int) -> None:
        """They count nothing, and the others beside them do not change."""
        random = np.random.default_rng(states)
        one = SequenceProblem.of(random, random.integers(1, 20, 20), states, order)
        one.emissions[1] = 0.0
        one.emissions[2, 1:] = 0.0
        one.links[-1].reshape(-1, states)[0] = np.eye(states)[-1]
        assert_mirrored(one)

    @pytest.mark.parametrize("rare", [1e-3, 1e-70, 1e-200])
    def test_rare_symbols(self, states: int, order: int, rare: float) -> None:
        """Messages have to be scaled, at every step or after a few."""
        random = np.random.default_rng(states)
        one = SequenceProblem.of(random, [70, 3, 90, 40, 1], states, order)
        one.emissions[:3] *= rare
        assert_mirrored(one, 1e-10)


@pytest.mark.usefixtures("instructions")
@pytest.mark.parametrize("order", [1, 2])
def test_every_length_and_number_of_sequences(order: int) -> None:
    random = np.random.default_rng(0)
    for length in range(1, 71):
        assert_mirrored(SequenceProblem.of(random, [length] * (1 + length % 9), 3, order))


@pytest.mark.usefixtures("instructions")
@pytest.mark.parametrize(
    ("states", "order", "lengths"),
    [(64, 1, [260]), (24, 1, [130] * 8), (2, 1, [1500, 1100, 1024, 1025]), (6, 2, [100, 97, 65, 64])],
)
def test_blocks_of_steps_change_nothing(states: int, order: int, lengths: list[int]) -> None:
    """More steps than there is room for messages."""
    assert_mirrored(SequenceProblem.of(np.random.default_rng(1), lengths, states, order))


@pytest.mark.usefixtures("instructions")
@pytest.mark.parametrize("rare", [1.0, 1e-70, 1e-200])
@pytest.mark.parametrize(
    ("states", "order", "lengths"),
    [
        *(((states, 1, [length])) for states, length in [(2, 1000), (2, 9001), (3, 1001), (5, 1013), (8, 1007)]),
        (20, 1, [1003]),
        (1, 1, [1000]),
        *((states, order, [1009]) for states, order in [(2, 2), (3, 2), (4, 2), (2, 3)]),
        (3, 1, [1000, 4, 1100, 2, 0, 1, 1]),
        (4, 2, [5, 1002, 999]),
    ],
)
def test_pieces_of_a_long_sequence_change_nothing(states: int, order: int, lengths: list[int], rare: float) -> None:
    one = SequenceProblem.of(np.random.default_rng(2), lengths, states, order)
    one.emissions[:2] *= rare
    assert_mirrored(one, 1e-9)


def test_an_impossible_long_sequence_counts_nothing() -> None:
    one = SequenceProblem.of(np.random.default_rng(3), [1500, 7], 3, 1)
    one.emissions[0] = 0.0
    one.symbols[700] = 0
    assert_mirrored(one)


@pytest.mark.usefixtures("instructions")
@pytest.mark.parametrize(("steps", "order"), [(5000, 3000), (2048, 1500)], ids=["block", "piece"])
def test_an_order_beyond_a_block_or_a_piece(steps: int, order: int) -> None:
    counts, symbols, log_prob = np.empty(order + 1), np.empty((1, 1)), np.empty(1)
    known = (np.zeros(steps, np.uint8), np.array([0, steps]), np.zeros(1, np.int64), np.ones(1))
    _native.sequence_counts(*known, np.ones((1, 1)), np.ones(order + 1), order, log_prob, counts, symbols)
    assert_array_equal(log_prob, 0.0)
    assert_allclose(counts, [1.0] * order + [steps - order])
    assert_allclose(symbols, steps)


@pytest.mark.parametrize(("states", "order"), [(2, 1), (5, 1), (3, 2)])
def test_neighbours_and_threads_change_no_bit(states: int, order: int) -> None:
    random = np.random.default_rng(4)
    one = SequenceProblem.of(random, random.integers(1, 400, 400), states, order)
    symbols = Symbols(one.symbols, np.arange(6)[:, None], (5,))
    emissions = [np.ascontiguousarray(one.emissions[:-1].T)]
    weights = random.random(400)
    first, *others = (
        SequencePass(symbols, one.starts, weights, threads).counts(one.links, emissions) for threads in (1, 2, 3)
    )
    for other in others:
        for a, b in zip((*first.links, *first.emissions), (*other.links, *other.emissions), strict=True):
            assert_array_equal(a, b)
    for numbers in (np.arange(400), random.permutation(400), np.array([7, 9])):
        scores = np.zeros(400)
        log_prob_sequences(one.symbols, one.starts, numbers, weights, one.emissions, one.links, scores)
        assert_array_equal(scores[numbers], first.log_prob[numbers])


def test_weights_of_zero_are_left_out_by_passes() -> None:
    one = SequenceProblem.of(np.random.default_rng(5), [4, 0, 6], 2, 1)
    symbols, emissions = Symbols(one.symbols, np.arange(6)[:, None], (5,)), [one.emissions[:-1].T]
    found = SequencePass(symbols, one.starts, np.array([1.0, 1.0, 0.0])).counts(one.links, emissions)
    assert_allclose(found.links[0].sum(), 1.0)
    assert_allclose(found.links[1].sum(), 3.0)
    assert_array_equal(found.log_prob[1:], 0.0)


@pytest.mark.parametrize("symbol", [6, 255])
@pytest.mark.parametrize("length", [3, 1200])
def test_unknown_symbols_are_an_error(length: int, symbol: int) -> None:
    one = SequenceProblem.of(np.random.default_rng(0), [length, 4], 2, 1)
    one.symbols[1] = symbol
    known = (one.symbols, one.starts, np.arange(2), np.ones(2), one.emissions, one.links, np.zeros(2))
    for function in (expected_sequences, log_prob_sequences):
        with pytest.raises(ValueError, match="a symbol has no emissions"):
            function(*known)


def test_arguments_that_do_not_fit_are_an_error() -> None:
    one = SequenceProblem.of(np.random.default_rng(0), [3, 4], 2, 1)
    flat = flat_links(one.links)

    def score(starts: list[int], numbers: list[int], links: np.ndarray, order: int) -> None:
        known = (one.symbols, np.array(starts), np.array(numbers), np.ones(2), one.emissions)
        _native.sequence_log_prob(*known, links, order, np.zeros(2))

    score([0, 3, 7], [0, 1], flat, 1)
    for wrong in (
        ([0, 3, 8], [1], flat, 1),
        ([-1, 3, 7], [0], flat, 1),
        ([0, 5, 4], [1], flat, 1),
        ([0, 3, 7], [2], flat, 1),
        ([0, 3, 7], [-1], flat, 1),
        ([0, 3], [0], flat, 1),
        ([0, 3, 7], [0], flat[:-1], 1),
        ([0, 3, 7], [0], np.append(flat, 1.0), 1),
        ([0, 3, 7], [0], flat, 0),
        ([0, 3, 7], [0], flat, 2**62),
    ):
        with pytest.raises(ValueError, match=r"eigentree\.core"):
            score(*wrong)
