"""The loops over sequences, small enough to run without compiling too: against unrolled networks and sums."""

from __future__ import annotations

import warnings
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from numpy.testing import assert_allclose

import eigentree as et
from eigentree.engine import sequence_passes
from eigentree.engine.sequence_passes import SequencePass
from eigentree.engine.symbols import Symbols

# Fingerprints wrap around, of which numpy warns where nothing is compiled.
pytestmark = pytest.mark.filterwarnings("ignore:overflow encountered in scalar:RuntimeWarning")

WORDS = ["ABCA", "AB", "C", "BBAC", "CABA", "A", "ACCB", "BAB", "CC", "AAB", "BCA", "ABCB"]
HOLED = [[*word[:1], None, *word[1:]] for word in WORDS]


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("hidden", [2, 5])
@pytest.mark.parametrize("data", [WORDS, HOLED, ["ABCABBACCABACAB" * 5]], ids=["words", "holes", "one long"])
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
def test_what_windows_tell_adds_up(weights: list | None) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # a handful of words supports no rank
        model = et.SpectralHMM(2).fit(WORDS, sample_weight=weights)
    scores = model.score_samples(["".join(letters) for letters in product("ABC", repeat=3)])
    assert_allclose(np.exp(scores).sum(), 1.0, atol=1e-9)
    assert_allclose(np.asarray(model.predict_next_proba(WORDS)).sum(axis=1), 1.0, atol=1e-9)
    assert all(None not in sequence for sequence in map(list, model.impute(HOLED, method="sample", seed=0)))
    assert all(None not in sequence for sequence in map(list, model.impute(HOLED)))
    assert len(model.sample(3, length=4, seed=0)) == 3


@pytest.mark.parametrize("count", [1, 8], ids=["alone", "side by side"])
def test_blocks_of_steps_change_nothing(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    random = np.random.default_rng(0)
    long = ["".join(random.choice(list("ABC"), 90)) for _ in range(count)]

    def fitted() -> et.EMHMM:
        return et.EMHMM(5, init="random", n_init=1, max_iter=1, random_state=0).fit(long)

    whole = fitted()
    monkeypatch.setattr(sequence_passes, "PIECE", 1)
    monkeypatch.setattr(sequence_passes, "BLOCK_NUMBERS", 1)
    cut = fitted()
    assert_allclose(cut.history_, whole.history_, rtol=1e-12)
    assert_allclose(cut.score_samples(long), whole.score_samples(long), rtol=1e-12)


@pytest.mark.parametrize(
    ("hidden", "steps", "most"), [(2, 37, 1), (2, 48, 64), (5, 49, 4096), (5, 37, 64), (5, 25, 1)]
)
def test_pieces_of_a_long_sequence_change_nothing(
    hidden: int, steps: int, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    random = np.random.default_rng(steps)
    symbols = Symbols.of(random.integers(0, 4, (steps, 1)).astype(np.uint8), (3,))
    walk = SequencePass(symbols, np.array([0, steps]), np.array([1.5]))
    links = [random.dirichlet(np.ones(hidden)), random.dirichlet(np.ones(hidden), hidden)]
    # Nearly impossible symbols: messages have to be scaled on the way.
    emissions = [random.dirichlet(np.ones(3), hidden) * np.array([1.0, 1e-70, 1e-30])]
    whole, score = walk.counts(links, emissions), walk.log_prob(links, emissions)
    for name, value in {"LONG": 10, "PIECE": 12, "WORD_NUMBERS": 16 * most, "STEPS_PER_WORD": 1}.items():
        monkeypatch.setattr(sequence_passes, name, value)
    cut = replace(walk)
    for found, known in zip(cut.counts(links, emissions), whole, strict=True):
        for one, other in zip(found, known, strict=True):
            assert_allclose(one, other, rtol=1e-10, atol=1e-12)
    assert_allclose(cut.log_prob(links, emissions), score, rtol=1e-12)


def test_sequences_side_by_side_are_those_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of different lengths, some impossible, at orders that make links of different sizes."""
    random = np.random.default_rng(1)
    lengths = random.integers(1, 40, 19)
    symbols = Symbols.of(random.integers(0, 4, (lengths.sum(), 1)).astype(np.uint8), (3,))
    starts = np.concatenate([[0], np.cumsum(lengths)])
    walk = SequencePass(symbols, starts, random.random(19))
    for order, hidden in [(1, 3), (1, 6), (2, 3), (3, 2)]:
        links = [random.dirichlet(np.ones(hidden), (hidden,) * earlier) for earlier in range(order + 1)]
        emissions = [random.dirichlet(np.ones(3), hidden)]
        together = walk.counts(links, emissions)
        with monkeypatch.context() as patched:
            patched.setattr(sequence_passes, "FEWEST_TOGETHER", 9)
            alone = replace(walk).counts(links, emissions)
        for found, known in zip(together, alone, strict=True):
            for one, other in zip(found, known, strict=True):
                assert_allclose(one, other, rtol=1e-10, atol=1e-12)
