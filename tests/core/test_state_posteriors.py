"""Hidden states of the steps of sequences, against a plain reference and in all instruction sets."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from core.mirrors import state_posteriors as mirror
from core.mirrors.forward_backward import expected
from core.sequence_problems import SIZES, SequenceProblem
from numpy.testing import assert_allclose, assert_array_equal

from eigentree.core.sequences.forward_backward import (
    decode_steps,
    filter_steps,
    sample_given_steps,
    sample_steps,
    smooth_steps,
)

if TYPE_CHECKING:
    pass


pytestmark = pytest.mark.usefixtures("instructions")


@pytest.fixture(params=SIZES, ids=str)
def problem(request: pytest.FixtureRequest) -> SequenceProblem:
    """Sequences of many lengths, of which some are empty and some impossible."""
    states, order = request.param
    random = np.random.default_rng(10 * states + order)
    made = SequenceProblem.of(random, random.integers(0, 13, 25), states, order)
    made.emissions[1, 1:] = 0.0
    made.emissions[2, :1] = 0.0
    made.links[-1].reshape(-1, states)[0] = np.eye(states)[0]
    return made


def test_filtered_states(problem: SequenceProblem) -> None:
    proba, ends = filter_steps(*problem)
    known = [mirror.filtered(each, *problem[2:]) for each in problem.sequences]
    assert_allclose(proba, np.concatenate([one for one, _ in known]), rtol=1e-12, atol=1e-300)
    assert_allclose(ends, [end for _, end in known], rtol=1e-12, atol=1e-300)


def test_smoothed_states(problem: SequenceProblem) -> None:
    known = [expected(each, *problem[2:])[2] for each in problem.sequences]
    assert_allclose(smooth_steps(*problem), [line for one in known for line in one], rtol=1e-11, atol=1e-300)


def test_smoothed_states_of_rare_symbols() -> None:
    """What is ahead of 300 steps would underflow."""
    one = SequenceProblem.of(np.random.default_rng(0), [300], 3, 1)
    one.emissions[:5] *= 1e-40
    assert_allclose(smooth_steps(*one), expected(one.symbols, *one[2:])[2], rtol=1e-10)


def test_most_probable_states(problem: SequenceProblem) -> None:
    states, log_prob = decode_steps(*problem)
    known = [mirror.decoded(each, *problem[2:]) for each in problem.sequences]
    assert_array_equal(states, np.concatenate([one for one, _ in known]))
    assert_allclose(log_prob, [score for _, score in known], rtol=1e-13)


def test_of_equally_probable_states_the_first_is_decoded() -> None:
    links, symbols = [np.full(3, 1 / 3), np.full((3, 3), 1 / 3)], np.zeros(5, np.uint8)
    assert_array_equal(decode_steps(symbols, np.array([0, 5]), np.ones((1, 3)), links)[0], 0)


def test_sampled_states(problem: SequenceProblem) -> None:
    uniform = np.random.default_rng(1).random(len(problem.symbols))
    known = [mirror.sampled(problem.links, own) for own in np.split(uniform, problem.starts[1:-1])]
    assert_array_equal(sample_steps(problem.starts, problem.links, uniform), np.concatenate(known))


def test_sampled_states_given_symbols(problem: SequenceProblem) -> None:
    uniform = np.random.default_rng(2).random(len(problem.symbols))
    pairs = zip(problem.sequences, np.split(uniform, problem.starts[1:-1]), strict=True)
    known = [mirror.sampled_given(each, *problem[2:], own) for each, own in pairs]
    assert_array_equal(sample_given_steps(*problem, uniform), np.concatenate(known))


def test_chances_that_rounding_leaves_take_the_last_possible_state() -> None:
    links = [np.array([0.5, 0.5, 0.0]), np.array([[0.3, 0.7, 0.0]] * 3)]
    assert_array_equal(sample_steps(np.array([0, 3]), links, np.full(3, 2.0)), [1, 1, 1])


@pytest.mark.parametrize("symbol", [6, 200])
def test_unknown_symbols_are_an_error(symbol: int) -> None:
    one = SequenceProblem.of(np.random.default_rng(0), [4, 3], 2, 1)
    one.symbols[-1] = symbol
    for function in (filter_steps, smooth_steps, decode_steps):
        with pytest.raises(ValueError, match="a symbol has no emissions"):
            function(*one)
