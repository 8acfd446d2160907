"""The checks that all faces share: what passes comes back as a plain number, what does not is named."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

import eigentree as et
from eigentree import validation as checks

ROWS = [[0, 1, 0], [1, 1, 0], [0, 0, 1], [1, 0, 1]]


@pytest.mark.parametrize("value", [2, np.int8(2), np.uint64(2)])
def test_whole_numbers_come_back_as_plain_ones(value: object) -> None:
    assert type(checks.whole_number("views", value)) is int
    assert checks.whole_number("views", value, least=2) == 2


@pytest.mark.parametrize("value", [1, 0, -3, 2.0, "2", None, True, np.bool_(True), math.nan])
def test_what_is_no_whole_number_of_that_size_is_named(value: object) -> None:
    with pytest.raises(et.ParameterError, match="views is a whole number of at least 2, not"):
        checks.whole_number("views", value, least=2)


@pytest.mark.parametrize("value", [2**53 + 1, 10**400])
def test_a_whole_number_that_floats_do_not_tell_from_the_next_is_named(value: int) -> None:
    with pytest.raises(et.ParameterError, match=r"views is a whole number of at most .*, not"):
        checks.whole_number("views", value)


@pytest.mark.parametrize("twice", ["a", "b"])
def test_a_name_may_be_given_once(twice: str) -> None:
    assert checks.different_names("hidden", iter(["a", "b"])) == ("a", "b")
    with pytest.raises(et.GraphError, match=f"hidden names '{twice}' twice"):
        checks.different_names("hidden", ["a", "b", twice])


@pytest.mark.parametrize("value", [True, np.bool_(True)])
def test_a_truth_value_is_no_number_though_python_calls_it_one(value: object) -> None:
    with pytest.raises(et.ParameterError, match="views is a whole number of at least 1, not"):
        checks.whole_number("views", value)


@pytest.mark.parametrize("value", [0, 0.0, 1e300, np.float32(0.5)])
def test_finite_numbers_come_back_as_plain_ones(value: float) -> None:
    assert type(checks.finite_number("tol", value, 0.0)) is float
    assert checks.finite_number("tol", value, 0.0) == value


@pytest.mark.parametrize("value", [-1e-300, math.inf, math.nan, "0", None, True, np.bool_(False)])
def test_what_is_no_finite_number_of_that_size_is_named(value: object) -> None:
    with pytest.raises(et.ParameterError, match="tol is a finite number of at least 0, not"):
        checks.finite_number("tol", value, 0.0)


def test_a_choice_is_one_of_those_listed() -> None:
    checks.one_of("scaling", None, ("variance", None))
    for value in ("Variance", 1, np.array(["variance"]), ("variance",)):
        with pytest.raises(et.ParameterError, match="scaling is 'variance' or None, not"):
            checks.one_of("scaling", value, ("variance", None))


def test_seeds_repeat_and_generators_go_on() -> None:
    assert checks.generator(3).random() == checks.generator(3).random()
    given = np.random.default_rng(3)
    assert checks.generator(given) is given
    state = np.random.RandomState(3)
    first, second = checks.generator(state).random(), checks.generator(state).random()
    assert first != second, "each use takes a number from the state, as in scikit-learn"
    assert first == checks.generator(np.random.RandomState(3)).random()


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda: et.EMJunctionTree(et.zoo.Mixture(2), init="rnadom").fit(ROWS), "init .*; did you mean 'random'"),
        (lambda: et.EMJunctionTree(et.zoo.Mixture(2), stopping="gains").fit(ROWS), "stopping .* mean 'gain'"),
        (lambda: et.EMJunctionTree(et.zoo.Mixture(2)).fit(ROWS).impute(ROWS, "modes"), "method .* mean 'mode'"),
        (lambda: et.learn_structure(ROWS, "chowliu"), "method is 'chow-liu' or .*, not .* mean 'chow-liu'"),
        (lambda: et.zoo.HiddenChowLiu(method="chowliu"), "method is 'chow-liu' or .*, not .* mean 'chow-liu'"),
        (lambda: et.EMHMM(2, init="kmeans").fit([[0, 1]]), "init is 'multistart', .* or 'clusters', not 'kmeans'$"),
    ],
)
def test_a_wrong_choice_is_one_kind_of_error(wrong: Callable[[], object], message: str) -> None:
    with pytest.raises(et.ParameterError, match=message):
        wrong()
