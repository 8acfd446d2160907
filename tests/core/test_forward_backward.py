"""The loops over sequences, small enough to run without compiling too: against unrolled networks and sums."""

from __future__ import annotations

import warnings
from itertools import product
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

import eigentree as et
from eigentree.inference.sequences.sequence_passes import SequencePass, Symbols

# Fingerprints wrap around, of which numpy warns where nothing is compiled.
pytestmark = pytest.mark.filterwarnings("ignore:overflow encountered in scalar:RuntimeWarning")

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


def by_hand(codes: np.ndarray, links: list[np.ndarray], emissions: list[np.ndarray]) -> list[np.ndarray]:
    """Expected uses of the first link, the links between steps and the emissions, and the log probability."""
    (initial, move), (shown,) = links, emissions
    seen = np.column_stack([shown, np.ones(len(shown))])[:, codes].T
    forward, scale = np.empty(seen.shape), np.empty(len(seen))
    for step, line in enumerate(seen):
        forward[step] = (forward[step - 1] @ move if step else initial) * line
        scale[step] = forward[step].sum()
        forward[step] /= scale[step]
    backward = np.ones(seen.shape)
    for step in range(len(seen) - 1, 0, -1):
        backward[step - 1] = move @ (seen[step] * backward[step]) / scale[step]
    posterior = forward * backward
    between = forward[:-1].T @ (seen * backward / scale[:, None])[1:] * move
    used = np.stack([posterior[codes == code].sum(axis=0) for code in range(shown.shape[1])], axis=1)
    return [posterior[0], between, used, np.log(scale).sum()]


def assert_by_hand(passes: SequencePass, codes: list[np.ndarray], links: Any, emissions: Any) -> None:
    parts = [by_hand(each, links, emissions) for each in codes]
    found = passes.counts(links, emissions)
    for one, known in zip((*found.links, *found.emissions), zip(*parts, strict=True), strict=False):
        expected = sum(weight * each for weight, each in zip(passes.weights, known, strict=True))
        assert_allclose(one, expected, rtol=1e-10, atol=1e-12)
    for scores in (found.log_prob, passes.log_prob(links, emissions)):
        assert_allclose(scores, [part[-1] for part in parts], rtol=1e-12)


@pytest.mark.parametrize(("count", "hidden", "steps"), [(1, 64, 260), (8, 24, 130)], ids=["one lane", "all lanes"])
def test_blocks_of_steps_change_nothing(count: int, hidden: int, steps: int) -> None:
    """More steps than there is room for messages."""
    random = np.random.default_rng(0)
    codes = random.integers(0, 4, (count, steps)).astype(np.uint8)
    symbols = Symbols.of(codes.reshape(-1, 1), (3,))
    passes = SequencePass(symbols, np.arange(count + 1) * steps, 0.5 + random.random(count))
    links = [random.dirichlet(np.ones(hidden)), random.dirichlet(np.ones(hidden), hidden)]
    assert_by_hand(passes, list(codes), links, [random.dirichlet(np.ones(3), hidden)])


@pytest.mark.parametrize(("hidden", "steps"), [(2, 1_000), (2, 1_400), (2, 4_200), (5, 1_013), (20, 1_001)])
@pytest.mark.parametrize("rare", [1e-70, 1e-80])
def test_pieces_of_a_long_sequence_change_nothing(hidden: int, steps: int, rare: float) -> None:
    """With words of one to four symbols."""
    random = np.random.default_rng(steps)
    codes = random.integers(0, 4, steps).astype(np.uint8)
    passes = SequencePass(Symbols.of(codes[:, None], (3,)), np.array([0, steps]), np.array([1.5]))
    links = [random.dirichlet(np.ones(hidden)), random.dirichlet(np.ones(hidden), hidden)]
    # Nearly impossible symbols: messages have to be scaled on the way.
    assert_by_hand(passes, [codes], links, [random.dirichlet(np.ones(3), hidden) * np.array([1.0, rare, 1e-30])])


def test_sequences_together_are_those_alone() -> None:
    """Of different lengths, some impossible, at orders that make links of different sizes."""
    random = np.random.default_rng(1)
    lengths = random.integers(1, 40, 19)
    symbols = Symbols.of(random.integers(0, 4, (lengths.sum(), 1)).astype(np.uint8), (3,))
    starts = np.concatenate([[0], np.cumsum(lengths)])
    passes = SequencePass(symbols, starts, random.random(19))
    for order, hidden in [(1, 3), (1, 6), (2, 3), (3, 2)]:
        links = [random.dirichlet(np.ones(hidden), (hidden,) * earlier) for earlier in range(order + 1)]
        emissions = [random.dirichlet(np.ones(3), hidden)]
        together = passes.counts(links, emissions)
        alone = [
            SequencePass(symbols, starts[k : k + 2], passes.weights[k : k + 1]).counts(links, emissions)
            for k in range(len(lengths))
        ]
        for known in ("links", "emissions"):
            for one, *others in zip(*(getattr(each, known) for each in (together, *alone)), strict=True):
                assert_allclose(one, sum(others), rtol=1e-10, atol=1e-12)
        assert_allclose(together.log_prob, np.concatenate([each.log_prob for each in alone]), rtol=1e-10)


def test_short_sequences_beside_long_ones_are_not_cut() -> None:
    random = np.random.default_rng(2)
    lengths = np.array([1_000, 1, 1_100, 2, 1_000])
    starts = np.concatenate([[0], np.cumsum(lengths)])
    codes = random.integers(0, 4, starts[-1]).astype(np.uint8)
    passes = SequencePass(Symbols.of(codes[:, None], (3,)), starts, random.random(len(lengths)))
    links = [random.dirichlet(np.ones(3)), random.dirichlet(np.ones(3), 3)]
    assert_by_hand(passes, np.split(codes, starts[1:-1]), links, [random.dirichlet(np.ones(3), 3)])
