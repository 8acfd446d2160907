"""Inside and outside passes, against the equations and against enumeration of hidden states."""

from __future__ import annotations

import numpy as np
import pytest
from core.mirrors.inside_outside import enumerated, passes
from core.tree_problems import random_trees
from numpy.testing import assert_allclose, assert_array_equal

from eigentree.core.trees.inside_outside import (
    TreeArrays,
    decode_trees,
    expected_rules,
    log_probabilities,
    tree_messages,
)

pytestmark = pytest.mark.usefixtures("instructions")


@pytest.mark.parametrize("states", [(1, 1), (2, 3, 1), (17, 4)])
@pytest.mark.parametrize("seed", range(3))
def test_passes_are_those_of_the_equations(seed: int, states: tuple[int, ...]) -> None:
    random = np.random.default_rng(seed)
    sizes = [1, 2, 5, 9]
    grammar, trees = random_trees(random, sizes, states)
    weights = random.random(len(sizes))
    counts, log_prob = expected_rules(grammar, trees, weights)
    plain = [passes(grammar, trees, tree) for tree in range(len(sizes))]
    assert_allclose(np.exp(log_prob), [each.probability for each in plain], rtol=1e-12)
    assert_array_equal(log_probabilities(grammar, trees), log_prob)
    expected = sum(weight * each.counts for weight, each in zip(weights, plain, strict=True))
    assert_allclose(counts, expected, rtol=1e-10, atol=1e-14)
    messages = tree_messages(grammar, trees)
    assert_array_equal(messages.log_prob, log_prob)
    ends = np.cumsum(grammar.states[trees.labels])[:-1]
    inside, outside = np.split(messages.inside, ends), np.split(messages.outside, ends)
    for n, (up, down) in enumerate(
        (u, d) for each in plain for u, d in zip(each.inside, each.outside, strict=True)
    ):
        assert_allclose(inside[n] * 2.0 ** messages.exponent[n], up, rtol=1e-12)
        assert_allclose(outside[n] / outside[n].sum(), down / down.sum(), rtol=1e-10)


@pytest.mark.parametrize("seed", range(3))
def test_hidden_states_are_those_of_enumeration(seed: int) -> None:
    random = np.random.default_rng(seed)
    grammar, trees = random_trees(random, [1, 2, 4], (2, 3))
    states, log_prob = decode_trees(grammar, trees)
    marginal = log_probabilities(grammar, trees)
    for tree in range(3):
        every = enumerated(grammar, trees, tree)
        begin, end = trees.offsets[tree : tree + 2]
        assert_allclose(marginal[tree], np.log(sum(every.values())), rtol=1e-10)
        best = max(every, key=every.__getitem__)
        assert tuple(states[begin:end]) == best
        assert_allclose(log_prob[tree], np.log(every[best]), rtol=1e-10)


def test_parts_of_the_trees_have_the_same_bits() -> None:
    random = np.random.default_rng(0)
    grammar, trees = random_trees(random, [3, 1, 8, 2])
    whole = log_probabilities(grammar, trees)
    for tree in range(4):
        begin, end = trees.offsets[tree : tree + 2]
        left = trees.left[begin:end]
        own = TreeArrays(
            trees.labels[begin:end],
            np.where(left < 0, left, left - np.int32(begin)).astype(np.int32),
            trees.words[begin:end],
            trees.rule[begin:end],
            np.array([0, end - begin]),
        )
        assert log_probabilities(grammar, own)[0] == whole[tree]


def test_deep_trees_do_not_underflow() -> None:
    random = np.random.default_rng(1)
    grammar, _ = random_trees(random, [2])
    depth = 20_000
    # A right-branching tree of the same label: its log probability grows like its length.
    label = np.full(2 * depth + 1, 1, np.int32)
    words = np.zeros(len(label), np.int32)
    left = np.full(len(label), -1, np.int32)
    left[depth + 1 :] = np.arange(depth - 1, -1, -1)
    words[depth + 1 :] = -1
    rules = grammar.rules.tolist()
    own = next((k for k, rule in enumerate(rules) if rule[:3] == [1, 1, 1]), -1)
    rule = np.where(left < 0, 3, own).astype(np.int32)
    trees = TreeArrays(label, left, words, rule, np.array([0, len(label)]))
    counts, log_prob = expected_rules(grammar, trees, np.ones(1))
    assert -1e6 < log_prob[0] < -1e4
    assert np.isfinite(counts).all()
    half = decode_trees(grammar, trees)[1]
    assert half[0] <= log_prob[0]


def test_impossible_trees_have_probability_zero_and_no_counts() -> None:
    random = np.random.default_rng(0)
    grammar, trees = random_trees(random, [2], (2, 2), smooth=False)
    impossible = trees._replace(
        rule=np.full_like(trees.rule, -1), words=np.where(trees.left < 0, 0, -1).astype(np.int32)
    )
    counts, log_prob = expected_rules(grammar, impossible, np.ones(1))
    assert log_prob[0] == -np.inf
    assert not counts.any()
    assert np.isfinite(tree_messages(grammar, impossible).inside).all()
