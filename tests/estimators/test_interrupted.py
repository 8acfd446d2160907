"""What raises or is interrupted leaves things as they were: estimators, and what graphs remember."""

from __future__ import annotations

import pickle
import signal
import threading
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
from interrupting import ended_at, steps_of
from numpy.testing import assert_array_equal
from sklearn.exceptions import ConvergenceWarning

import eigentree as et
from eigentree import zoo

ROWS = et.LatentNetwork.random(zoo.hmm(3, observed_states=3), seed=0).sample(60, seed=1)
LABELS = np.arange(60) % 2


class InjectedError(Exception):
    """What no code of the package expects."""


def graph() -> et.LatentGraph:
    """A graph that remembers nothing yet."""
    return zoo.hmm(3, observed_states=3)


def em(structure: et.LatentGraph, **settings: Any) -> Any:
    quick = {"init": "random", "n_init": 2, "max_iter": 3, "pseudo_counts": 0.1, "random_state": 0}
    return et.EMJunctionTree(structure, **(quick | settings))


MAKERS: dict[str, Callable[[et.LatentGraph], Any]] = {
    "spectral": et.SpectralJunctionTree,
    "em": em,
    "online": lambda structure: et.OnlineEMJunctionTree(structure, batch_size=20, passes=2, random_state=0),
    "classifier": lambda structure: et.JunctionTreeClassifier(et.SpectralJunctionTree(structure, shrinkage=1.0)),
    "em classifier": lambda structure: et.JunctionTreeClassifier(em(structure, n_init=1)),
}
EVERY = pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)


def learn(model: Any, method: str, rows: Any) -> Any:
    if isinstance(model, et.JunctionTreeClassifier):
        return getattr(model, method)(rows, LABELS[: len(rows)])
    return getattr(model, method)(rows)


def answers(model: Any) -> Any:
    return model.predict_proba(ROWS) if hasattr(model, "classes_") else model.score_samples(ROWS)


def held(model: Any) -> dict[str, int]:
    """What an estimator holds, by identity."""
    return {name: id(value) for name, value in vars(model).items()}


@pytest.fixture(autouse=True)
def _quietly() -> Any:
    # Few rows: a spectral fit says so, at each of hundreds of fits.
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "the data cannot support the rank")
        yield


@EVERY
@pytest.mark.parametrize("fitted", [False, True])
def test_an_error_at_any_step_of_a_fit_leaves_the_estimator_as_it_was(
    make: Callable[[Any], Any], fitted: bool
) -> None:
    """Fitted before it answers as before, unfitted it stays so, and the next fit is that of one like new."""
    kept = vars(learn(make(graph()), "fit", ROWS[:40])) if fitted else {}
    expected = answers(learn(make(graph()), "fit", ROWS))
    steps = steps_of(partial(learn, make(graph()), "fit", ROWS))
    assert len(steps) > 50
    # Half of the steps for those with a fit behind them, the other half for those without. What a classifier adds
    # to the fits of its estimators takes fewer.
    every = 6 if isinstance(make(graph()), et.JunctionTreeClassifier) else 2
    for number, step in enumerate(steps[fitted::every]):
        model = make(graph())
        vars(model).update({name: value for name, value in kept.items() if name.endswith("_")})
        before = held(model)
        assert ended_at(step, partial(learn, model, "fit", ROWS), InjectedError())
        assert held(model) == before
        # What the graph remembers of half a fit must not spoil the next.
        if number % 8 == 0:
            assert_array_equal(answers(learn(model, "fit", ROWS)), expected)


@pytest.mark.parametrize("name", ["spectral", "online"])
def test_an_error_at_any_step_of_a_partial_fit_leaves_the_estimator_as_it_was(name: str) -> None:
    model = MAKERS[name](graph())
    model.partial_fit(ROWS[:40])
    known = answers(model)
    frozen = pickle.dumps(model)
    expected = answers(pickle.loads(frozen).partial_fit(ROWS[40:]))
    for step in steps_of(partial(pickle.loads(frozen).partial_fit, ROWS[40:]))[::2]:
        # What a pickle leaves out is computed again, so that its steps are there to fail.
        model = pickle.loads(frozen)
        before = held(model)
        assert ended_at(step, partial(model.partial_fit, ROWS[40:]), InjectedError())
        assert held(model) == before
    assert_array_equal(answers(model), known)
    assert_array_equal(answers(model.partial_fit(ROWS[40:])), expected)


@EVERY
def test_ctrl_c_at_any_step_leaves_an_estimator_as_it_was_or_whole(make: Callable[[Any], Any]) -> None:
    """EM keeps the best so far and says so; everything else is as before, and `KeyboardInterrupt` comes out."""
    structure = graph()
    learn(make(structure), "fit", ROWS)
    steps = steps_of(partial(learn, make(structure), "fit", ROWS))
    for step in steps[:: max(1, len(steps) // 30)]:
        model = make(structure)
        unfitted = held(model)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            came_out = ended_at(step, partial(learn, model, "fit", ROWS), KeyboardInterrupt())
        if came_out:
            assert held(model) == unfitted
        else:
            assert any("interrupted" in str(one.message) for one in caught)
            assert np.isfinite(answers(model)).all()


def interrupted_after(seconds: float, call: Callable[[], object]) -> bool:
    """Make a call that a real signal interrupts after some time; return whether `KeyboardInterrupt` came out."""
    timer = threading.Timer(seconds, signal.raise_signal, [signal.SIGINT])
    try:
        timer.start()
        call()
        timer.join()
    except KeyboardInterrupt:
        return True
    finally:
        timer.cancel()
    return False


@EVERY
@pytest.mark.parametrize("milliseconds", [0.3, 1, 2, 4, 8, 16])
def test_a_real_signal_leaves_an_estimator_as_it_was_or_whole(
    make: Callable[[Any], Any], milliseconds: float
) -> None:
    structure = graph()
    model = learn(make(structure), "fit", ROWS[:40])
    before, known = held(model), answers(model)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        came_out = interrupted_after(milliseconds / 1000, lambda: learn(model, "fit", ROWS))
    if came_out and held(model) == before:
        assert_array_equal(answers(model), known)
    else:
        # The signal came after the fit, or EM kept the best so far.
        assert np.isfinite(answers(model)).all()


@pytest.mark.parametrize("name", ["spectral", "em", "online"])
def test_a_warning_that_is_an_error_leaves_the_estimator_as_it_was(name: str) -> None:
    model = MAKERS[name](graph()).fit(ROWS)
    before, known = held(model), answers(model)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(RuntimeWarning, match="hardly any row"):
            model.fit(ROWS, sample_weight=np.full(60, 1e-3))
    assert held(model) == before
    assert_array_equal(answers(model), known)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        if name == "spectral":
            with pytest.raises(RuntimeWarning, match="the data cannot support the rank"):
                model.fit(ROWS[:3])
            assert held(model) == before


def test_an_interruption_that_is_an_error_leaves_the_estimator_as_it_was() -> None:
    model = em(graph()).fit(ROWS)
    steps = steps_of(partial(em(model.structure).fit, ROWS))
    ended = 0
    for step in steps[len(steps) // 2 :]:
        model = em(model.structure)
        unfitted = held(model)
        with warnings.catch_warnings():
            warnings.simplefilter("error", RuntimeWarning)
            try:
                ended_at(step, partial(model.fit, ROWS), KeyboardInterrupt())
            except (RuntimeWarning, ConvergenceWarning) as warning:
                ended += "interrupted" in str(warning)
        assert held(model) == unfitted
    assert ended


def test_a_second_ctrl_c_ends_the_rescue_too() -> None:
    """What was put in place and then interrupted is taken back: all or nothing."""
    model = em(graph()).fit(ROWS[:40])
    before = held(model)
    earlier = type(model)._become

    def become(self: Any, fitted: Any) -> Any:
        earlier(self, fitted)
        raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(model), "_become", become)
        with pytest.raises(KeyboardInterrupt):
            model.fit(ROWS)
    assert held(model) == before
