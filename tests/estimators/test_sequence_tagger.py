"""Sequences trained to predict: labels of their steps, and their classes.

Against enumeration, numerical differences, a conditional random field of its own, and supervised counts.
"""

from __future__ import annotations

import pickle
from dataclasses import replace
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pytest
from em_problems import numerical_slope
from numpy.testing import assert_allclose, assert_array_equal
from scipy.optimize import minimize
from sklearn.base import clone
from sklearn.model_selection import cross_val_score

import eigentree as et
from eigentree.em.conditional.labelled_sequences import LabelledSequences, WeighedSequences, joined_chains
from eigentree.em.number_chains import layout_of_chain
from eigentree.errors import DataError, FileError, ParameterError
from eigentree.estimators.classification import conditional_training
from eigentree.estimators.fits.known_states import StepLabels, with_labels

if TYPE_CHECKING:
    from pathlib import Path

    from eigentree.em.conditional.conditional_fit import ConditionalObjective

FAST: dict[str, Any] = {"init": "random", "n_init": 1, "random_state": 0, "max_iter": 200, "tol": 1e-4}


def drawn(
    count: int = 40, numbers: bool = False, holes: float = 0.0, seed: int = 0, longest: int = 9
) -> tuple[list[Any], list[Any]]:
    """Sequences whose symbols repeat the one before, which an HMM takes for two witnesses, and labels of steps."""
    random = np.random.default_rng(seed)
    X, y = [], []
    for _ in range(count):
        length = random.integers(2, longest)
        hidden = np.cumsum(random.random(length) < 0.4) % 4
        first = np.where(random.random(length) < 0.7, hidden, random.integers(0, 4, length))
        again = np.where(random.random(length) < 0.8, first, random.integers(0, 4, length))
        cells = np.column_stack([first, again]).astype(object)
        if numbers:
            cells = np.column_stack([first + random.normal(size=length), again + random.normal(size=length)])
        cells[random.random(cells.shape) < holes] = np.nan if numbers else None
        X.append(cells)
        y.append(np.array(["ash", "birch"])[hidden // 2].tolist())
    return X, y


def tagger(size: int = 1, training: Any = "conditional", alpha: Any = 1.0, **how: Any) -> et.SequenceTagger:
    return et.SequenceTagger(et.HMM(size, **(FAST | how)), training=training, alpha=alpha, random_state=0)


def tables(model: et.HMM) -> tuple[np.ndarray, np.ndarray, list[np.ndarray]]:
    shown = model.tables_["emissions"]
    each = shown.values() if isinstance(shown, dict) else [shown]
    return np.asarray(model.startprob_), np.asarray(model.transmat_), [np.asarray(own) for own in each]


def paths(model: et.HMM, cells: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """All paths of hidden states of a sequence of codes, and their joint probabilities with it."""
    start, moves, shown = tables(model)
    every = np.array(list(product(range(len(start)), repeat=len(cells))))
    chances = start[every[:, 0]].copy()
    for step, row in enumerate(cells):
        chances *= moves[every[:, step - 1], every[:, step]] if step else 1.0
        for own, cell in zip(shown, row, strict=True):
            chances *= own[every[:, step], cell] if cell is not None else 1.0
    return every, chances


# Answers


@pytest.mark.parametrize("size", [1, 2])
def test_answers_are_those_of_all_paths(size: int) -> None:
    X, y = drawn(holes=0.1, longest=6)
    model = tagger(size, max_iter=5 if size > 1 else 200).fit(X, y)
    proba, scores, decoded = model.predict_proba(X), model.score_labels(X, y), model.decode(X)
    for place in range(6):
        every, chances = paths(model.estimator_, X[place])
        labels = every // size
        for step in range(len(X[place])):
            own = [chances[labels[:, step] == label].sum() for label in (0, 1)]
            assert_allclose(proba[place][step], np.array(own) / chances.sum(), rtol=1e-9)
        codes = np.searchsorted(model.classes_, y[place])
        right = chances[(labels == codes).all(axis=1)].sum() / chances.sum()
        assert_allclose(scores[place], np.log(right), rtol=1e-9)
        assert_array_equal(decoded.states[place], model.classes_[labels[chances.argmax()]])
        assert_allclose(decoded.log_prob[place], np.log(chances.max()), rtol=1e-9)
        assert_array_equal(model.predict(X)[place], model.classes_[proba[place].argmax(axis=1)])
        some = [label if step % 2 else None for step, label in enumerate(y[place])]
        given = chances[(labels == codes)[:, 1::2].all(axis=1)].sum() / chances.sum()
        assert_allclose(model.score_labels([X[place]], [some]), [np.log(given)], rtol=1e-9, atol=1e-12)


def test_known_labels_of_one_state_each_are_counted() -> None:
    X, y = drawn()
    model = tagger(training="generative", pseudo_counts=0.0).fit(X, y)
    start, moves, (first, _) = tables(model.estimator_)
    codes = [np.searchsorted(model.classes_, own) for own in y]
    counts, shown = np.zeros((2, 2)), np.zeros((2, 4))
    for own, cells in zip(codes, X, strict=True):
        np.add.at(counts, (own[:-1], own[1:]), 1)
        np.add.at(shown, (own, cells[:, 0].astype(int)), 1)
    assert_allclose(moves, counts / counts.sum(axis=1, keepdims=True), atol=1e-9)
    assert_allclose(first, shown / shown.sum(axis=1, keepdims=True), atol=1e-9)
    assert_allclose(start[1], np.mean([own[0] for own in codes]), atol=1e-9)
    flat = np.concatenate(codes)
    assert_allclose(model.class_prior_, np.bincount(flat) / len(flat))


# The objective


def objective_of(chain: Any, sequences: Any, labels: StepLabels, size: int) -> ConditionalObjective:
    wide = with_labels(sequences, labels)
    shown = np.repeat(np.eye(labels.labels), chain.states // labels.labels, axis=0)
    allowed = np.kron(np.eye(chain.states // size), np.ones((size, size))) > 0
    labelled = replace(chain, columns=wide.columns, emissions=(*chain.emissions, shown))
    layout, start = layout_of_chain(labelled, (allowed,), known_states=True)
    rows = WeighedSequences(wide, np.ones(wide.count))
    return LabelledSequences(rows, 0.1, layout, 0.0, 1).conditional(rows, start)


@pytest.mark.parametrize("emissions", [None, "gaussian", "full", "tied", "student"], ids=str)
@pytest.mark.parametrize("of_steps", [True, False], ids=["steps", "sequences"])
def test_the_gradient_equals_numerical_differences(emissions: Any, of_steps: bool) -> None:
    X, y = drawn(20, emissions is not None, holes=0.1)
    how = {"emissions": emissions or "auto", "max_iter": 3, "tol": 1.0, "order": 1 if emissions else 2}
    if of_steps:
        model = tagger(2, "generative", **how).fit(X, y)
        sequences = model._read(X, None)
        codes = np.searchsorted(model.classes_, np.concatenate(y))
        codes[::5] = 2
        objective = objective_of(model.estimator_.model_, sequences, StepLabels(codes, 2), 4)
    else:
        classes = (np.arange(len(X)) % 3 > 0).astype(int)
        each = et.JunctionTreeClassifier(et.HMM(2, **(FAST | how))).fit(X, classes)
        sequences = each.estimators_[0]._sequences(X, None)
        codes = np.full(sequences.steps, 2)
        codes[sequences.starts[:-1]] = classes
        whole = joined_chains([own.model_ for own in each.estimators_], each.class_prior_)
        objective = objective_of(whole, sequences, StepLabels(codes, 2), 2)
        known = each.predict_log_proba(X)[np.arange(len(X)), classes].sum()
        assert_allclose(objective.log_likelihood(np.zeros(objective.coordinates.size)), known, rtol=1e-9)
    objective = replace(objective, conditional_weight=0.7, alpha=0.3)
    random = np.random.default_rng(1)
    at = 0.2 * random.normal(size=objective.coordinates.size)
    _, gradient = objective.value_and_gradient(at)
    for _ in range(2):
        along = random.normal(size=len(at))
        along *= 1e-3 / np.linalg.norm(along)
        slope = numerical_slope(lambda here: objective.value_and_gradient(here)[0], at, along)
        assert_allclose(gradient @ along, slope, rtol=1e-6, atol=1e-9)


def random_field(X: list[list[int]], y: list[list[int]], labels: int, symbols: int) -> float:
    """The highest log P(labels | symbols) of a linear-chain conditional random field, by enumeration."""
    every = [np.array(list(product(range(labels), repeat=len(word)))) for word in X]
    features = []
    for word, path in zip(X, every, strict=True):
        counts = np.zeros((len(path), labels + labels * labels + labels * symbols + labels))
        rows = np.arange(len(path))
        np.add.at(counts, (rows, path[:, 0]), 1)
        for step, symbol in enumerate(word):
            if step:
                np.add.at(counts, (rows, labels + path[:, step - 1] * labels + path[:, step]), 1)
            np.add.at(counts, (rows, labels + labels * labels + path[:, step] * symbols + symbol), 1)
        np.add.at(counts, (rows, counts.shape[1] - labels + path[:, -1]), 1)
        features.append(counts)
    own = [int(np.flatnonzero((path == right).all(axis=1))[0]) for path, right in zip(every, y, strict=True)]

    def loss(weights: np.ndarray) -> tuple[float, np.ndarray]:
        total, slope = 0.0, np.zeros_like(weights)
        for counts, place in zip(features, own, strict=True):
            scores = counts @ weights
            shares = np.exp(scores - np.logaddexp.reduce(scores))
            total += np.logaddexp.reduce(scores) - scores[place]
            slope += shares @ counts - counts[place]
        return total, slope

    start = np.zeros(features[0].shape[1])
    return -float(minimize(loss, start, jac=True, method="L-BFGS-B", options={"ftol": 1e-14, "maxiter": 2000}).fun)


def test_one_state_per_label_is_a_linear_chain_random_field() -> None:
    """Once the ends of sequences are marked: a random field has weights of last labels, tables have none."""
    X, y = drawn(60, longest=6)
    symbols = [own[:, 0].astype(int).tolist() for own in X]
    codes = [[int(label == "birch") for label in own] for own in y]
    marked = [[*map(str, own), "$"] for own in symbols]
    ends = [[*own, "end"] for own in y]
    model = tagger(alpha=0.0, pseudo_counts=0.0).fit(marked, ends)
    assert_allclose(model.score_labels(marked, ends).sum(), random_field(symbols, codes, 2, 4), atol=0.02)


# Training


@pytest.mark.parametrize("numbers", [False, True], ids=["symbols", "numbers"])
@pytest.mark.parametrize("size", [1, 2])
def test_labels_of_training_steps_are_never_less_likely_than_generatively(numbers: bool, size: int) -> None:
    X, y = drawn(numbers=numbers, holes=0.1)
    fits = [tagger(size, training, emissions="gaussian" if numbers else "auto") for training in ("generative", 1.0)]
    generative, model = (float(each.fit(X, y).score_labels(X, y).sum()) for each in fits)
    assert model > generative + 0.5
    assert fits[1].alpha_ == 1.0
    assert fits[1].tried_ == {}


@pytest.mark.parametrize("numbers", [False, True], ids=["symbols", "numbers"])
def test_classes_of_training_sequences_are_never_less_likely_than_generatively(numbers: bool) -> None:
    X, y = drawn(60, numbers, holes=0.1)
    classes = np.array([own[-1] for own in y])
    codes = (classes == "birch").astype(int)
    pattern = et.HMM(2, emissions="gaussian" if numbers else "auto", **FAST)
    fits = [et.JunctionTreeClassifier(pattern).fit(X, classes)]
    fits.append(et.JunctionTreeClassifier(pattern, training="conditional", alpha=1.0).fit(X, classes))
    generative, model = (each.predict_log_proba(X)[np.arange(60), codes].sum() for each in fits)
    assert model > generative + 0.5
    assert_allclose(fits[1].class_prior_.sum(), 1.0)
    for own in fits[1].estimators_:
        assert_allclose(own.transmat_.sum(axis=1), 1.0)
        assert np.isfinite(own.score_samples(X)).all()


def test_an_infinite_penalty_is_generative_training() -> None:
    X, y = drawn()
    plain, model = (tagger(2, *how).fit(X, y) for how in (("generative",), ("conditional", np.inf)))
    for one, other in zip(plain.predict_proba(X), model.predict_proba(X), strict=True):
        assert_allclose(one, other, rtol=1e-9)


def test_the_penalty_is_chosen_on_held_out_sequences_or_pieces() -> None:
    X, y = drawn(60)
    tests, truth = drawn(400, seed=1)
    model = tagger(alpha="auto").fit(X, y)
    assert model.tried_[model.alpha_] == max(model.tried_.values()) > model.tried_[np.inf]
    steps = sum(map(len, truth))
    assert abs(model.score_labels(tests, truth).sum() / steps - model.tried_[model.alpha_]) < 0.1
    generative = tagger(training="generative").fit(X, y)
    assert model.score_labels(tests, truth).sum() > generative.score_labels(tests, truth).sum()
    one = tagger(alpha="auto").fit([np.concatenate(X)], [np.concatenate(y)])
    assert abs(one.tried_[np.inf] - model.tried_[np.inf]) < 0.2


def test_hidden_states_find_what_labels_do_not_say() -> None:
    X, y = drawn(100, longest=25)
    tests, truth = drawn(200, seed=1, longest=25)
    scores = [tagger(size, alpha=0.3).fit(X, y).score(tests, truth) for size in (1, 2)]
    assert scores[1] > scores[0] + 0.02


def test_some_labels_may_be_missing() -> None:
    X, y = drawn(60)
    random = np.random.default_rng(0)
    some = [[label if random.random() < 0.5 else None for label in own] for own in y]
    model = tagger(training=0.9, alpha="auto").fit(X, some)
    assert model.score(X, y) > 0.75
    assert model.score(X, some) > 0.75
    # Held-out labels are about as probable as those learned from, one by one.
    plain = tagger(training="generative").fit(X, some)
    known = sum(label is not None for own in some for label in own)
    assert model.tried_[np.inf] == pytest.approx(plain.score_labels(X, some).sum() / known, rel=0.4)


# What must not matter


def test_order_of_sequences_names_of_labels_and_threads_do_not_matter() -> None:
    X, y = drawn(30, holes=0.1)
    order = np.random.default_rng(1).permutation(30)
    one = tagger().fit(X, y).predict_proba(X)
    named = [["z " + label for label in y[place]] for place in order]
    other = tagger(n_jobs=2).fit([X[place] for place in order], named).predict_proba(X)
    for a, b in zip(one, other, strict=True):
        assert_allclose(a, b, atol=1e-6)


def test_a_weight_is_so_many_equal_sequences() -> None:
    X, y = drawn(20)
    weights = np.arange(20) % 3
    again = [place for place in range(20) for _ in range(weights[place])]
    one = tagger().fit(X, y, sample_weight=weights)
    other = tagger().fit([X[place] for place in again], [y[place] for place in again])
    for a, b in zip(one.predict_proba(X), other.predict_proba(X), strict=True):
        assert_allclose(a, b, atol=1e-4)
    assert_allclose(one.class_prior_, other.class_prior_)


def test_all_forms_of_labels_are_read_and_come_back() -> None:
    words = ["abba", "ab", "babab"]
    y = [[letter == "a" for letter in word] for word in words]
    wide = [[*word, *[None] * (5 - len(word))] for word in words]
    labels = [[*own, *[None] * (5 - len(own))] for own in y]
    who = np.repeat([0, 1, 2], [4, 2, 5])
    long = pd.DataFrame({"who": who, "letter": list("".join(words)), "vowel": np.concatenate(y)})
    lists = tagger().fit(words, y)
    rows = tagger().fit(np.array(wide, object), np.array(labels, object))
    frame = tagger(sequence="who").fit(long, "vowel")
    letters = tagger().fit(words, ["".join("vk"[letter != "a"] for letter in word) for word in words])
    flat = np.concatenate(lists.predict(words))
    assert_array_equal(flat, np.concatenate(y))
    assert_array_equal(frame.predict(long), flat)
    assert_array_equal(frame.predict(long.drop(columns="vowel")), flat)
    assert frame.score(long, "vowel") == 1.0
    mixed = long.iloc[np.argsort(np.arange(11) % 4, kind="stable")]
    assert_array_equal(tagger(sequence="who").fit(mixed, "vowel").predict(mixed), mixed["vowel"])
    assert rows.predict(np.array(wide, object)).tolist() == [[*own, *[None] * (5 - len(own))] for own in y]
    assert [own.tolist() for own in letters.predict(["ab"])] == [["v", "k"]]
    assert lists.classes_.tolist() == [False, True]
    assert tagger().fit(words, ["u", "v", "u"]).predict(["abb"])[0].tolist() == ["u", "u", "u"]


def test_semi_markov_taggers_are_trained_generatively() -> None:
    X, y = drawn()
    model = tagger(1, "generative", durations="negative_binomial").fit(X, y)
    assert model.score(X, y) > 0.75
    assert (model.score_labels(X, y) <= 1e-12).all()


# The estimator


@pytest.mark.parametrize("numbers", [False, True], ids=["symbols", "numbers"])
def test_a_tagger_is_saved_cloned_and_pickled(numbers: bool, tmp_path: Path) -> None:
    X, y = drawn(20, numbers)
    model = tagger(2, alpha=1.0 if numbers else "auto", emissions="gaussian" if numbers else "auto").fit(X, y)
    model.save(tmp_path / "tagger.eigentree")
    for other in (et.load(tmp_path / "tagger.eigentree"), pickle.loads(pickle.dumps(model))):
        for one, two in zip(other.predict_proba(X), model.predict_proba(X), strict=True):
            assert_array_equal(one, two)
        assert (other.alpha_, other.tried_) == (model.alpha_, model.tried_)
    assert clone(model).get_params()["alpha"] == model.alpha
    model.classes_ = np.array(["a", "b", "c"])
    model.class_prior_ = np.full(3, 1 / 3)
    model.save(tmp_path / "broken.eigentree")
    with pytest.raises(FileError, match="equally many states"):
        et.load(tmp_path / "broken.eigentree")


def test_trained_classifiers_of_sequences_are_saved(tmp_path: Path) -> None:
    X, _ = drawn(30, numbers=True)
    pattern = et.HMM(2, emissions="gaussian", **FAST)
    model = et.JunctionTreeClassifier(pattern, training="conditional", alpha=1.0).fit(X, np.arange(30) % 2)
    model.save(tmp_path / "classes.eigentree")
    assert_array_equal(et.load(tmp_path / "classes.eigentree").predict_proba(X), model.predict_proba(X))


def test_it_is_cross_validated_by_sequences() -> None:
    X, y = drawn(30)
    assert cross_val_score(tagger(), X, y, cv=3).mean() > 0.6


@pytest.mark.parametrize(
    ("how", "y", "error", "message"),
    [
        ({}, None, DataError, "y is None"),
        ({}, [["u", "v"], ["u"]], DataError, "labels of sequence 1 have 1 steps, but need 2"),
        ({}, [["u", "u"], ["u", "u"]], DataError, "one class only"),
        ({}, "kind", DataError, "y names 'kind', which is no column"),
        ({"hidden_states": (2, 2)}, [["u", "v"], ["u", "v"]], ParameterError, "one hidden chain"),
        ({"durations": "explicit"}, [["u", "v"], ["u", "v"]], ParameterError, "leave start and durations"),
        ({"start": [0.5, 0.5]}, [["u", "v"], ["u", "v"]], ParameterError, "leave start and durations"),
    ],
    ids=str,
)
def test_what_cannot_be_learned_is_named(how: dict[str, Any], y: Any, error: Any, message: str) -> None:
    how = {"hidden_states": 1} | how
    model = et.SequenceTagger(et.HMM(**how), training="conditional")
    with pytest.raises(error, match=message):
        model.fit(["ab", "ba"], y)


def test_other_estimators_and_unknown_labels_are_named() -> None:
    with pytest.raises(ParameterError, match="has an EMHMM as its estimator"):
        et.SequenceTagger(et.SpectralHMM(2)).fit(["ab"], ["uv"])
    with pytest.raises(ParameterError, match="has an EMHMM as its estimator"):
        et.SequenceTagger(et.MixtureHMM(2, 1)).fit(["ab"], ["uv"])
    with pytest.raises(ParameterError, match="MixtureHMM is trained with training='generative' only"):
        et.JunctionTreeClassifier(et.MixtureHMM(2, 1), training="conditional").fit(["ab", "ba"], [0, 1])
    model = tagger().fit(["ab", "ba"], ["uv", "vu"])
    with pytest.warns(UserWarning, match="1 of 2 steps have a label that the tagger was not fitted with"):
        assert model.score(["ab"], [["u", "w"]]) == 0.5
    with pytest.raises(DataError, match="nothing to score"):
        model.score(["ab"], [[None, None]])


def test_classes_whose_numbers_are_grouped_differently_are_named() -> None:
    chains = [et.HMM(2, emissions=family, **FAST).fit(drawn(10, True)[0]).model_ for family in ("full", "gaussian")]
    with pytest.raises(ParameterError, match="grouped differently"):
        joined_chains(chains, np.array([0.5, 0.5]))


def test_classes_stay_apart_where_penalties_are_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    """Refits to some of the sequences have pseudo-counts, but none for states of another class."""
    seen: list[Any] = []
    fit = conditional_training.fit_conditional
    monkeypatch.setattr(conditional_training, "fit_conditional", lambda *given: seen.append(given) or fit(*given))
    X, _ = drawn(20)
    classes = np.arange(20) % 2
    et.JunctionTreeClassifier(et.HMM(2, **FAST), training="conditional", alpha=1.0).fit(X, classes)
    data, start, *_ = seen[0]
    assert (start == 0).sum() > 8
    assert (data.refitted(data.rows, start, 3)[start == 0] == 0).all()
