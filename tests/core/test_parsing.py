"""Charts of sentences, against a plain reference and in all instruction sets."""

from __future__ import annotations

import numpy as np
import pytest
from core.chart_problems import ChartProblem
from core.mirrors import parsing as mirror
from numpy.testing import assert_allclose

from eigentree.core.trees.sentence_charts import ChartGrammar, filled_chart

pytestmark = pytest.mark.usefixtures("instructions")

SIZES = [(1, 1, 1), (2, 3, 1), (8, 4, 9), (5,)]


@pytest.mark.parametrize("smooth", [False, True])
@pytest.mark.parametrize("states", SIZES, ids=str)
def test_posteriors_of_cells(states: tuple[int, ...], smooth: bool) -> None:
    random = np.random.default_rng([len(states), smooth])
    for words in (1, 2, 3, 5, 7):
        problem = ChartProblem.of(random, states, words, share=1.0 if words < 3 else 0.8, smooth=smooth)
        log_prob, posteriors = filled_chart(ChartGrammar(*problem.grammar), problem.emissions, problem.cells)
        known, expected = mirror.filled(problem)
        assert_allclose(log_prob, known, rtol=1e-12)
        assert_allclose(posteriors, expected[problem.allowed], rtol=1e-10, atol=1e-300)


def test_long_sentences_with_rare_words() -> None:
    """More ends of spans than one number has bits, and probabilities beyond the range of doubles."""
    random = np.random.default_rng(0)
    problem = ChartProblem.of(random, (1, 2), 70, share=1.0)
    grammar = ChartGrammar(*problem.grammar)
    log_prob, posteriors = filled_chart(grammar, problem.emissions, problem.cells)
    rare, same = filled_chart(grammar, problem.emissions * 2.0**-100, problem.cells)
    assert_allclose(rare, log_prob - 7000 * np.log(2), rtol=1e-13)
    assert_allclose(same, posteriors, rtol=1e-12)
    # A tree over n words has 2 n - 1 nodes.
    assert_allclose(posteriors.sum(), 139, rtol=1e-10)


def test_operators_may_be_negative() -> None:
    """In another basis of each label's states, all operators together say the same."""
    random = np.random.default_rng(2)
    problem = ChartProblem.of(random, (2, 3), 5, share=1.0)
    states, rules, values, root, pair, children = problem.grammar
    bases = [random.normal(size=(count, count)) for count in states]
    back = [np.linalg.inv(basis) for basis in bases]
    turned, at = [], 0
    for b, c, a in rules:
        size = states[[a, b, c]].prod()
        table = values[at : at + size].reshape(states[[a, b, c]])
        turned.append(np.einsum("stu,rs,tv,uw->rvw", table, bases[a], back[b], back[c]).ravel())
        at += size

    def parts(line: np.ndarray, matrices: list[np.ndarray]) -> np.ndarray:
        return np.concatenate([own @ each for own, each in zip(np.split(line, [2]), matrices, strict=True)])

    other = (
        *(states, rules, np.concatenate(turned), parts(root, back)),
        *(parts(pair, [each.T for each in bases]), parts(children, back)),
    )
    emissions = np.array([parts(line, [each.T for each in bases]) for line in problem.emissions])
    known = filled_chart(ChartGrammar(*problem.grammar), problem.emissions, problem.cells)
    found = filled_chart(ChartGrammar(*other), emissions, problem.cells)
    assert_allclose(found[0], known[0], rtol=1e-9)
    assert_allclose(found[1], known[1], atol=1e-8)


def test_words_that_are_impossible() -> None:
    problem = ChartProblem.of(np.random.default_rng(1), (2, 1), 4)
    problem.emissions[2] = 0.0
    log_prob, posteriors = filled_chart(ChartGrammar(*problem.grammar), problem.emissions, problem.cells)
    assert log_prob == -np.inf
    assert not posteriors.any()


def test_rules_out_of_order_are_an_error() -> None:
    states, rules, *rest = ChartProblem.of(np.random.default_rng(0), (1, 1), 1, share=1.0).grammar
    with pytest.raises(ValueError, match="rules in order"):
        ChartGrammar(states, np.ascontiguousarray(rules[::-1]), *rest)
