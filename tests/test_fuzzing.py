"""The fuzzer: a few thousand random calls of everything public, zero failures, and nothing public left out."""

from __future__ import annotations

import inspect
from operator import attrgetter

import fuzzing
import pytest
from fuzzing_arguments import ESTIMATORS, PARAMETERS

import eigentree as et
from eigentree import zoo

CALLS = 3000


def test_random_calls_end_in_answers_or_in_our_errors() -> None:
    ends, failures = fuzzing.run(range(CALLS), seed=0)
    assert ends["answered"] > CALLS / 6, "most questions are nonsense; then the laws have nothing to look at"
    assert ends["refused"] > CALLS / 6
    assert not failures, "\n".join(
        f"--only {each.number}: {each.label}: {each.place}\n{each.trace}" for each in failures[:5]
    )


def test_a_call_is_the_same_whenever_it_is_made() -> None:
    one, other = (
        [fuzzing.drawn(number, seed=3) for number in numbers] for numbers in (range(40), reversed(range(40)))
    )
    assert [question.label for question in one] == [question.label for question in reversed(other)]


@pytest.mark.parametrize("target", fuzzing.targets(), ids=lambda target: target.label)
def test_everything_public_is_called_with_all_its_arguments(target: fuzzing.Target) -> None:
    if target.name in ("+", "-"):
        return
    if target.name in ESTIMATORS:
        function, drawn = getattr(et, target.name).__init__, PARAMETERS[target.name]
    else:
        drawn = target.arguments
        if target.kind in fuzzing.CLASSES:
            function = getattr(getattr(et, target.kind), target.name)
        elif target.kind == "new":
            function = getattr(et, target.name)
        elif target.kind:
            function = getattr(zoo, target.kind).build
        else:
            home = et if target.name in fuzzing.FUNCTIONS else zoo
            function = attrgetter(target.name.removesuffix("()"))(home)
    parameters = inspect.signature(function).parameters.values()
    named = {each.name for each in parameters if not each.kind.name.startswith("VAR")}
    # Only the package itself says which error is to be raised.
    assert named - {"self", "error"} == set(drawn)


def test_the_fuzzer_notices_what_it_should() -> None:
    """Each type of failure, made on purpose."""
    import numpy as np
    from fuzzing_laws import Question

    model = et.SpectralJunctionTree(zoo.hmm(3))

    def changed() -> None:
        model.views = object()
        raise et.DataError("no")

    def endless() -> None:
        while True:
            pass

    for call, kind in (
        (lambda: 1 / 0, ZeroDivisionError),
        (lambda: np.empty(10**15), MemoryError),
        (lambda: np.log(np.zeros(1)), RuntimeError),
        (changed, AssertionError),
    ):
        end, error = fuzzing.made(Question("test", call, {}, model), strict=False)
        assert end == "failed"
        assert isinstance(error, kind)
    assert isinstance(fuzzing.made(Question("test", endless, {}), strict=False, most_seconds=0.05)[1], TimeoutError)
    wrong = Question("LatentNetwork.joint", lambda: np.array([0.5, 0.6]), {"names": ["x0"]})
    assert isinstance(fuzzing.made(wrong, strict=False)[1], AssertionError)
