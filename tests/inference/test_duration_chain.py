"""Hidden semi-Markov chains: against their expanded chains, enumeration of segments, and the plain chain."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import logsumexp

from eigentree.data.sequences.sequence_codes import Sequences
from eigentree.data.tables.state_rules import ReadOptions
from eigentree.em.durations.duration_families import DURATIONS
from eigentree.emissions.families import make
from eigentree.inference.sequences.duration_chain import DurationChain
from eigentree.inference.sequences.hmm_chain import Chain

LABELS = "abc"
OPTIONS = ReadOptions(numeric="emissions")
LENGTHS = (7, 1, 0, 4, 7, 12, 3)


def sequences_of(seed: int = 0, lengths: tuple[int, ...] = LENGTHS, missing: float = 0.2) -> Sequences:
    """Sequences of a channel of labels and two of numbers, some cells missing."""
    random = np.random.default_rng(seed)
    made = []
    for length in lengths:
        labels = np.array(list(LABELS), object)[random.integers(3, size=length)]
        numbers = random.normal(size=(length, 2)).round(2).astype(object)
        rows = np.column_stack([labels, numbers])
        rows[random.random(rows.shape) < missing] = None
        made.append(rows.tolist())
    made.append([[label, 0.5, 0.5] for label in LABELS])
    return Sequences.learned(made, None, None, None, OPTIONS)


def chain_of(
    data: Sequences, states: int = 3, longest: int = 4, seed: int = 1, zeros: bool = False
) -> DurationChain:
    """A random chain on the channels of some sequences, without self-transitions."""
    random = np.random.default_rng(seed)
    moves = random.dirichlet(np.ones(states), states) * ~np.eye(states, dtype=bool)
    if states == 1:
        moves = np.ones((1, 1))
    moves /= moves.sum(axis=1, keepdims=True)
    durations = random.dirichlet(np.ones(longest), states)
    if zeros:
        durations[:, ::2] = 0.0
        durations[0] = np.eye(longest)[1]
        durations /= durations.sum(axis=1, keepdims=True)
    numbers = {}
    if data.columns.number_places:
        emission = make("full", data.values, np.ones(data.steps), states)
        numbers[data.columns.number_places] = replace(emission, mean=random.normal(size=(states, 2)))
    tables = [random.dirichlet(np.ones(count), states) for count in data.columns.states]
    links = (random.dirichlet(np.ones(states)), moves)
    return DurationChain(data.columns, links, tuple(tables), (), numbers, durations=durations)


def remaining_time(chain: DurationChain) -> Chain:
    """The hidden Markov model whose states are a state and how many steps it has left, this one included."""
    states, longest = chain.durations.shape
    start = chain.links[0][:, None] * chain.durations
    moves = np.zeros((states, longest, states, longest))
    moves[:, 0] = chain.links[1][:, :, None] * chain.durations
    for left in range(1, longest):
        moves[range(states), left, range(states), left - 1] = 1.0
    size = states * longest
    whole = np.arange(size) // longest
    numbers = {group: own.permuted(whole) for group, own in chain.numbers.items()}
    links = [start.ravel(), moves.reshape(size, size)]
    return Chain.of(chain.columns, [links], [table[whole] for table in chain.emissions], numbers)


def by_state(chain: DurationChain, proba: np.ndarray) -> np.ndarray:
    return proba.reshape(len(proba), chain.states, -1).sum(axis=2)


@pytest.mark.parametrize(
    ("states", "longest", "zeros"), [(3, 4, False), (2, 6, True), (1, 3, False), (3, 1, False)]
)
@pytest.mark.parametrize("expand", [remaining_time, DurationChain.expanded])
def test_a_semi_markov_chain_equals_its_expanded_chain(states: int, longest: int, zeros: bool, expand: Any) -> None:
    data = sequences_of()
    chain = chain_of(data, states, longest, zeros=zeros)
    plain = expand(chain)
    assert_allclose(chain.log_prob(data), plain.log_prob(data), rtol=1e-10)
    assert_allclose(chain.smoothed(data), by_state(chain, plain.smoothed(data)), atol=1e-10)
    assert_allclose(chain.filtered(data)[0], by_state(chain, plain.filtered(data)[0]), atol=1e-10)
    for steps in (1, 3):
        assert_allclose(
            chain.states_ahead(data, steps), by_state(chain, plain.states_ahead(data, steps)), atol=1e-10
        )
    assert_allclose(chain.shares(9), by_state(chain, plain.shares(9)[None])[0], atol=1e-10)


@pytest.mark.parametrize("zeros", [False, True])
def test_decoding_equals_that_of_the_expanded_chain(zeros: bool) -> None:
    """How long a state has lasted follows from the states, so both decode the same."""
    data = sequences_of(missing=0.1)
    chain = chain_of(data, 3, 5, zeros=zeros)
    states, log_prob = chain.decoded(data)
    expanded, expected = chain.expanded().decoded(data)
    assert_allclose(log_prob, expected, rtol=1e-10)
    assert_array_equal(states, expanded // 5)


def segmentations(steps: int, states: int, longest: int) -> list[tuple[list[tuple[int, int]], bool]]:
    """All lists of (state, duration) that fill some steps; the last is one that goes on, or may."""
    if steps == 0:
        return [([], True)]
    found = []
    for state, lasts in product(range(states), range(1, min(steps, longest) + 1)):
        found += [([(state, lasts), *rest], last) for rest, last in segmentations(steps - lasts, states, longest)]
    return found


def test_scores_posteriors_and_decoding_are_those_of_all_segmentations() -> None:
    data = sequences_of(3, (5, 2, 4))
    chain = chain_of(data, 2, 3, seed=5)
    start, moves = chain.links
    at_least = np.cumsum(chain.durations[:, ::-1], axis=1)[:, ::-1]
    lines, highest = chain._lines(data)
    likelihoods = lines * np.exp(highest)[:, None]
    smoothed, (decoded, best) = chain.smoothed(data), chain.decoded(data)
    for number in range(data.count):
        own = slice(data.starts[number], data.starts[number + 1])
        total, posterior, paths = 0.0, np.zeros((own.stop - own.start, 2)), {}
        for segments, _ in segmentations(own.stop - own.start, 2, 3):
            weight, states, before = 1.0, [], None
            for place, (state, lasts) in enumerate(segments):
                weight *= start[state] if before is None else moves[before, state]
                last = place == len(segments) - 1
                weight *= (at_least if last else chain.durations)[state, lasts - 1]
                states += [state] * lasts
                before = state
            weight *= likelihoods[own][range(len(states)), states].prod()
            total += weight
            posterior[range(len(states)), states] += weight
            paths[tuple(states)] = paths.get(tuple(states), 0.0) + weight
        assert_allclose(chain.log_prob(data)[number], np.log(total))
        assert_allclose(smoothed[own], posterior / total, atol=1e-12)
        assert_array_equal(decoded[own], max(paths, key=lambda path: paths[path]))
        assert_allclose(best[number], np.log(max(paths.values())))


def test_geometric_durations_are_those_of_the_plain_chain() -> None:
    data = sequences_of()
    longest = int(data.lengths.max())
    chain = chain_of(data, 3, longest)
    stay = np.array([0.3, 0.9, 0.0])
    family = DURATIONS["geometric"]
    chain = replace(chain, durations=family.table(family.started(stay, longest), longest))
    moves = np.diag(stay) + (1 - stay)[:, None] * chain.links[1]
    plain = Chain.of(data.columns, [[chain.links[0], moves]], chain.emissions, chain.numbers)
    assert_allclose(chain.log_prob(data), plain.log_prob(data), rtol=1e-8)  # A chance of exp(-20) for zero.
    assert_allclose(chain.smoothed(data), plain.smoothed(data), atol=1e-7)
    stay[2] = 0.2
    chain = replace(chain, durations=family.table(family.started(stay, longest), longest))
    moves = np.diag(stay) + (1 - stay)[:, None] * chain.links[1]
    plain = Chain.of(data.columns, [[chain.links[0], moves]], chain.emissions, chain.numbers)
    assert_allclose(chain.log_prob(data), plain.log_prob(data), rtol=1e-10)
    assert_allclose(chain.smoothed(data), plain.smoothed(data), atol=1e-10)
    assert_array_equal(chain.decoded(data)[0], plain.decoded(data)[0])


def test_many_sequences_are_worked_on_part_by_part() -> None:
    """With 3,000 durations 21 sequences fill the messages of a part; none changes by those beside it."""
    data = sequences_of(4, tuple(range(9)) * 6)
    chain = chain_of(data, 2, 3000)
    chain = replace(chain, durations=np.hstack([chain.durations[:, :4] * 50, np.zeros((2, 2996))]))
    chain = replace(chain, durations=chain.durations / chain.durations.sum(axis=1, keepdims=True))
    short = replace(chain, durations=chain.durations[:, :4])
    for threads in (1, 2):
        assert_allclose(chain.log_prob(data, threads), short.log_prob(data), rtol=1e-12)
    assert_allclose(chain.smoothed(data), short.smoothed(data), atol=1e-12)
    assert_array_equal(chain.decoded(data)[0], short.decoded(data)[0])
    assert_allclose(chain.states_ahead(data, 2), short.states_ahead(data, 2), atol=1e-12)


def test_what_is_impossible_is_zero() -> None:
    data = Sequences.learned(["aab", "bb", "a"], None, None, None, OPTIONS)
    tables = (np.eye(2),)
    links = (np.array([1.0, 0.0]), np.array([[0.0, 1.0], [1.0, 0.0]]))
    chain = DurationChain(data.columns, links, tables, durations=np.array([[0.0, 1.0], [0.5, 0.5]]))
    assert_array_equal(chain.log_prob(data), [0.0, -np.inf, 0.0])
    states, log_prob = chain.decoded(data)
    assert_array_equal(states, [0, 0, 1, -1, -1, 0])
    assert_array_equal(log_prob, [0.0, -np.inf, 0.0])
    assert_array_equal(chain.smoothed(data)[3:5], np.zeros((2, 2)))
    assert_array_equal(chain.sampled_states(data, np.random.default_rng(0)), [0, 0, 1, -1, -1, 0])


def test_numbers_far_from_all_states_leave_finite_answers() -> None:
    numbers = np.tile([0.0, 1e4, 0.0, -1e4, 0.0], 8) + np.random.default_rng(0).normal(size=40)
    data = Sequences.learned([numbers], None, None, None, OPTIONS)
    emission = make("gaussian", data.values, np.ones(data.steps), 2)
    parameters = np.concatenate([np.array([0.0, 1e4]), np.ones(2)])
    shown = {(0,): emission.of_vector(parameters)}
    links = (np.array([1.0, 0.0]), np.array([[0.0, 1.0], [1.0, 0.0]]))
    durations = np.array([[0.0, 0.0, 1.0], [0.5, 0.5, 0.0]])
    chain = DurationChain(data.columns, links, (np.ones((2, 1)),), (), shown, durations=durations)
    lines, highest = chain._lines(data)
    total, posteriors = log_forward_backward(chain.expanded(), lines)
    assert_allclose(chain.log_prob(data), total + highest.sum(), rtol=1e-10)
    assert_allclose(chain.smoothed(data), by_state(chain, posteriors), atol=1e-8)


def log_forward_backward(plain: Chain, lines: np.ndarray) -> tuple[float, np.ndarray]:
    """The log probability of steps under an expanded chain, and posteriors of states, by logs alone."""
    with np.errstate(divide="ignore"):
        start, moves = (np.log(table) for table in plain.links)
        logs = np.log(np.repeat(lines, plain.states // lines.shape[1], axis=1))
    alpha, beta = [start + logs[0]], [np.zeros(plain.states)]
    for own in logs[1:]:
        alpha.append(logsumexp(alpha[-1][:, None] + moves, axis=0) + own)
    for own in logs[:0:-1]:
        beta.append(logsumexp(moves + own + beta[-1], axis=1))
    total = float(logsumexp(alpha[-1]))
    return total, np.exp(np.array(alpha) + np.array(beta[::-1]) - total)


def test_states_are_sampled_from_their_posterior() -> None:
    data = sequences_of(2, (6, 3))
    chain, random = chain_of(data, 3, 4), np.random.default_rng(0)
    many = data.chosen(np.tile(np.arange(data.count), 2000))
    draws = chain.sampled_states(many, random).reshape(2000, -1)
    shares = (draws[:, :, None] == np.arange(3)).mean(axis=0)
    assert_allclose(shares, chain.smoothed(data), atol=5 * 0.5 / 2000**0.5)
    pairs = (draws[:, 1] == draws[:, 2]).mean()
    drawn = by_pair(chain, data)
    assert abs(pairs - drawn) < 5 * 0.5 / 2000**0.5


def by_pair(chain: DurationChain, data: Sequences) -> float:
    """P(steps 1 and 2 of the first sequence have the same state | sequence), from the expanded chain's links."""
    plain = remaining_time(chain)
    first = data.chosen([0])
    logs = plain.filtered(first)[0][1]
    beta = np.ones(plain.states)
    lines = chain._lines(first)[0][:, np.arange(plain.states) // chain.durations.shape[1]]
    for step in range(len(lines) - 1, 2, -1):
        beta = plain.links[1] @ (lines[step] * beta)
    joint = logs[:, None] * plain.links[1] * (lines[2] * beta)
    joint /= joint.sum()
    own = np.arange(plain.states) // chain.durations.shape[1]
    return float(joint[own[:, None] == own].sum())


def test_sampled_durations_follow_their_distribution() -> None:
    data = sequences_of()
    chain = chain_of(data, 3, 5, zeros=True)
    states = chain.drawn_states(np.array([0, 30_000]), np.random.default_rng(0))
    ends = np.flatnonzero(np.diff(states) != 0) + 1
    own, lasts = states[ends[:-1]], np.diff(ends)
    for state in range(3):
        shares = np.bincount(lasts[own == state], minlength=6)[1:] / (own == state).sum()
        assert_allclose(shares, chain.durations[state], atol=5 * 0.5 / (own == state).sum() ** 0.5)
    assert len(chain.drawn_states(np.array([0, 0, 2, 2]), np.random.default_rng(0))) == 2


def test_a_network_of_few_steps_has_the_same_distribution() -> None:
    data = Sequences.learned(["abca", "ccab", "abbb"], None, None, None, OPTIONS)
    chain = chain_of(data, 2, 3)
    rows = data.codes[:, 0].reshape(3, 4)
    assert_allclose(chain.network(4).log_prob(rows), chain.log_prob(data), rtol=1e-10)


def test_states_in_another_order_are_the_same_chain() -> None:
    data = sequences_of()
    chain = chain_of(data)
    order = np.array([2, 0, 1])
    other = chain.permuted([order])
    assert_allclose(other.log_prob(data), chain.log_prob(data), rtol=1e-12)
    assert_allclose(other.smoothed(data), chain.smoothed(data)[:, order], atol=1e-12)
    assert_allclose(other.mean_durations, chain.mean_durations[order])
