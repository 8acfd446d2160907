"""Hidden states that are known at some steps: against enumeration, supervised estimates, and the plain fit."""

from __future__ import annotations

import warnings
from itertools import product
from typing import Any

import numpy as np
import pandas
import pytest
from numpy.testing import assert_allclose

import eigentree as et
from eigentree import EMHMM
from eigentree.errors import DataError, ParameterError

LENGTHS = (7, 1, 5, 9, 6, 8)


def drawn(seed: int = 0, known: float = 0.3) -> tuple[list[list[str]], list[list[int | None]], list[np.ndarray]]:
    """Return sequences of labels that show states with errors, the states where they are known, and all states."""
    random = np.random.default_rng(seed)
    X, given, truth = [], [], []
    for length in LENGTHS * 3:
        states = np.cumsum(random.random(length) < 0.35) % 2
        shown = np.where(random.random(length) < 0.1, 1 - states, states)
        X.append(["xy"[cell] for cell in shown])
        truth.append(1 - states)  # The state that shows x is 1.
        given.append([int(own) if random.random() < known else None for own in truth[-1]])
    return X, given, truth


def fitted(X: Any, states: Any, hidden: int = 2, **settings: Any) -> EMHMM:
    settings = {"n_init": 2, "random_state": 0, "pseudo_counts": 0.0, **settings}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return EMHMM(hidden, **settings).fit(X, states=states)


def test_the_objective_is_that_of_all_paths_through_the_known_states() -> None:
    X, given, _ = drawn()
    model = fitted(X, given, max_iter=6, init="random", n_init=1)
    start, moves, shown = (np.asarray(model.tables_[name]) for name in ("start", "transitions", "emissions"))
    total = 0.0
    for word, known in zip(X, given, strict=True):
        chance = 0.0
        for path in product(*((0, 1) if own is None else (own,) for own in known)):
            here = start[path[0]] * shown[path[0], "xy".index(word[0])]
            for step in range(1, len(word)):
                here *= moves[path[step - 1], path[step]] * shown[path[step], "xy".index(word[step])]
            chance += here
        total += np.log(chance)
    assert_allclose(model.history_[-1], total, rtol=1e-10)
    assert (np.diff(model.history_) > -1e-9).all()


@pytest.mark.parametrize("durations", [None, "explicit"])
def test_known_everywhere_they_are_counted(durations: Any) -> None:
    X, _, truth = drawn()
    model = fitted(X, truth, durations=durations)
    shown = np.zeros((2, 2))
    np.add.at(shown, (np.concatenate(truth), [("xy").index(cell) for word in X for cell in word]), 1)
    assert_allclose(model.tables_["emissions"], shown / shown.sum(axis=1, keepdims=True), atol=1e-9)
    assert_allclose(model.startprob_[0], np.mean([states[0] == 0 for states in truth]), atol=1e-9)
    if durations is None:
        moves = np.zeros((2, 2))
        for states in truth:
            np.add.at(moves, (states[:-1], states[1:]), 1)
        assert_allclose(model.transmat_, moves / moves.sum(axis=1, keepdims=True), atol=1e-9)
    else:
        once = at_risk = 0
        for states in truth:
            ends = np.flatnonzero(np.diff(states)) + 1
            begins = [0, *ends.tolist()]
            for begin, end in zip(begins, [*ends.tolist(), None], strict=True):
                if states[begin] == 0 and (end is not None or len(states) - begin > 1):
                    at_risk += 1
                    once += end is not None and end - begin == 1
        assert_allclose(np.asarray(model.tables_["durations"])[0, 0], once / at_risk, atol=1e-9)


def test_known_nowhere_they_change_nothing() -> None:
    X, given, _ = drawn()
    nothing = [[None] * len(own) for own in given]
    free, none = fitted(X, None, tol=1e-9), fitted(X, nothing, tol=1e-9)
    assert_allclose(none.score(X), free.score(X), atol=1e-4)
    assert none.n_parameters_ == free.n_parameters_
    assert none.columns_.names == free.columns_.names


def test_known_states_say_which_is_which() -> None:
    """Even a few, whatever the states show; all queries are those of the model without them."""
    X, given, truth = drawn(known=0.15)
    for settings in ({}, {"durations": "negative_binomial"}, {"order": 2}):
        model = fitted(X, given, pseudo_counts=0.1, **settings)
        assert (np.concatenate(model.predict(X)) == np.concatenate(truth)).mean() > 0.8
        assert np.isfinite(model.score_samples(["xyxy", ""])).all()
        assert len(model.sample(2, 5, random_state=0)) == 2


def test_of_numbers_too() -> None:
    random = np.random.default_rng(1)
    _, given, truth = drawn(known=0.1)
    X = [random.normal(3.0 * own, 1.0) for own in truth]
    model = fitted(X, given, emissions="gaussian")
    assert_allclose(model.means_[:, 0], [0.0, 3.0], atol=0.5)


def test_all_forms_of_states_are_read() -> None:
    X, given, _ = drawn()
    wide = max(map(len, X))
    padded = [[*word, *[None] * (wide - len(word))] for word in X]
    states = [[np.nan if own is None else own for own in known] + [np.nan] * (wide - len(known)) for known in given]
    who = np.repeat(np.arange(len(X)), [len(word) for word in X])
    long = pandas.DataFrame({"who": who, "x0": [cell for word in X for cell in word]})
    flat = [np.nan if own is None else own for known in given for own in known]
    settings = {"max_iter": 3, "init": "random", "n_init": 1}
    found = [
        fitted(X, given, **settings),
        fitted(pandas.DataFrame(padded), pandas.DataFrame(states), **settings),
        fitted(long, flat, sequence="who", **settings),
    ]
    for model in found[1:]:
        assert_allclose(model.history_, found[0].history_, rtol=1e-9)


def test_transitions_that_forbid_known_states_are_named() -> None:
    with pytest.raises(DataError, match="cannot have its known states"):
        fitted(["xyx", "xxy"], [[0, 1, 0], [0, None, 1]], transitions="left-to-right")


@pytest.mark.parametrize(
    ("states", "settings", "words"),
    [
        ([[0, 1], [1]], {}, "states"),
        ([[0, 2, 0], [1, 0]], {}, "states"),
        ([[0, 1, 0], [1, 0]], {"hidden_states": (2, 2)}, "one hidden chain"),
        (
            [[0, 1, 0], [1, 0]],
            {"init": {"start": [1, 0], "transitions": np.eye(2), "emissions": np.eye(2)}},
            "leave states= or init= out",
        ),
    ],
)
def test_states_that_cannot_be_are_named(states: Any, settings: dict[str, Any], words: str) -> None:
    with pytest.raises((DataError, ParameterError), match=words):
        EMHMM(**settings).fit(["xyx", "yx"], states=states)


def test_standard_errors_and_replicates_do_not_leave_known_states_out() -> None:
    X, given, _ = drawn()
    model = fitted(X, given, max_iter=3)
    for call in (model.estimates, lambda: et.bootstrap(model, X, n_replicates=2)):
        with pytest.raises(DataError, match="fits with known states"):
            call()


def test_states_are_not_for_inputs() -> None:
    with pytest.raises(ParameterError, match="without inputs"):
        EMHMM(2).fit(["xyx", "yx"], inputs=list("uvuvu"), states=[[0, 1, 0], [1, 0]])
