"""Hidden semi-Markov models: EM against derivatives and known durations, censoring, and what estimators offer."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import eigentree as et
from benchmarks import durations
from eigentree import EMHMM
from eigentree.data.sequences.sequence_codes import Sequences
from eigentree.data.tables.state_rules import ReadOptions
from eigentree.em.chain_fit import ChainLayout
from eigentree.em.durations.duration_families import DURATIONS
from eigentree.em.durations.duration_objective import DurationLayout, DurationObjective
from eigentree.errors import DataError, ParameterError

if TYPE_CHECKING:
    from pathlib import Path

FAMILIES = ("explicit", "negative_binomial", "geometric")
LENGTHS = (9, 14, 1, 20, 6, 9, 11, 3)


def alternating(seed: int = 0, lengths: Any = LENGTHS, missing: float = 0.1) -> list[list[Any]]:
    """Sequences of stays of three and of two to eight steps in turn, which labels and a number show with errors."""
    random = np.random.default_rng(seed)
    made = []
    for length in lengths:
        states: list[int] = []
        state = int(random.integers(2))
        while len(states) < length:
            states += [state] * (3 if state else int(random.integers(2, 9)))
            state = 1 - state
        labels = np.where(random.random(length) < 0.15, 1 - np.array(states[:length]), states[:length])
        numbers = random.normal(3 * np.array(states[:length]), 1).round(2)
        rows = [["ab"[label], number] for label, number in zip(labels, numbers.tolist(), strict=True)]
        made.append([[None if random.random() < missing else cell for cell in row] for row in rows])
    return made


def fitted(family: Any, X: Any = None, **settings: Any) -> EMHMM:
    settings = {
        "n_init": 1,
        "init": "random",
        "max_iter": 5,
        "random_state": 1,
        "emissions": "gaussian",
        **settings,
    }
    model = EMHMM(2, durations=family, **settings)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return model.fit(alternating() if X is None else X)


def objective_of(family: Any, pseudo_counts: float = 0.0, states: int = 3, longest: int = 5) -> DurationObjective:
    words = ["abcaab", "ccbbb", "a", "aaaabbbbcc", "cba"]
    data = Sequences.learned(words, None, None, None, ReadOptions())
    plain = ChainLayout((states,), 1, data.columns.states, (np.ones((states, states), bool),))
    layout = DurationLayout.of_segments(plain, family, longest)
    weights = np.array([1.0, 2.0, 1.0, 0.5, 1.0])
    return DurationObjective.of(layout, data, weights, layout.prior(pseudo_counts, 0.0), 1)


def random_parameters(layout: DurationLayout, seed: int = 0) -> np.ndarray:
    random = np.random.default_rng(seed)
    tables = layout.normalised(np.where(layout.possible, random.random(len(layout.possible)), 0.0), layout.uniform)
    durations = DURATIONS["explicit"].table(
        random.dirichlet(np.ones(layout.longest), layout.states), layout.longest
    )
    own = DURATIONS[layout.family]
    if layout.family != "explicit":
        durations = own.started(random.random(layout.states), layout.longest)
    return layout.with_durations(tables, durations)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("pseudo_counts", [0.0, 0.3])
def test_no_iteration_lowers_the_objective(family: Any, pseudo_counts: float) -> None:
    objective = objective_of(family, pseudo_counts)
    here, history = random_parameters(objective.layout), []
    for _ in range(15):
        found = objective.evaluated(here)
        history.append(found.objective)
        here = found.update
    assert (np.diff(history) > -1e-9 * abs(history[0])).all()
    assert history[-1] > history[0] + 1.0
    prior = objective.log_likelihood(here)
    assert_allclose(objective.counted(here).log_likelihood, prior)


def test_expected_counts_are_derivatives_of_the_log_likelihood() -> None:
    """By Fisher's identity, along directions in which distributions stay normalised."""
    objective = objective_of("explicit")
    layout = objective.layout
    here, random = random_parameters(layout), np.random.default_rng(1)
    table, (_, _, ended, censored, _) = layout.durations(here), objective.found(*objective.parted(here)).links
    change = random.normal(size=table.shape)
    change -= change.mean(axis=1, keepdims=True)
    step = 1e-6 * layout.with_durations(np.zeros(len(layout.learned)), change)
    found = (objective.log_likelihood(here + step) - objective.log_likelihood(here - step)) / 2e-6
    at_least, more = (np.cumsum(each[:, ::-1], axis=1)[:, ::-1] for each in (table, change))
    expected = (ended / table * change).sum() + (censored / at_least * more).sum()
    assert_allclose(found, expected, rtol=1e-6)
    tables = here[: len(layout.learned)]
    change = random.normal(size=tables.shape) * (tables > 0)
    change -= tables * layout.totals(change)
    step = 1e-6 * layout.with_durations(change, np.zeros_like(table))
    found = (objective.log_likelihood(here + step) - objective.log_likelihood(here - step)) / 2e-6
    used = np.divide(objective.counted(here).counts, tables, out=np.zeros_like(tables), where=tables > 0)
    assert_allclose(found, used @ change, rtol=1e-6)


def test_all_segments_and_steps_are_counted() -> None:
    objective = objective_of("explicit")
    start, moves, ended, censored, states = objective.found(
        *objective.parted(random_parameters(objective.layout))
    ).links
    weights, lengths = objective.walk.weights, np.diff(objective.walk.starts)
    assert_allclose(start.sum(), weights.sum())
    assert_allclose(censored.sum(), weights.sum())  # Each sequence ends in one segment.
    assert_allclose(ended.sum(axis=1), moves.sum(axis=1))
    assert_allclose(start + moves.sum(axis=0), ended.sum(axis=1) + censored.sum(axis=1))
    assert_allclose(states, (ended + censored) @ np.arange(1, 6))
    assert_allclose(states.sum(), weights @ lengths)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("pseudo_counts", [0.0, 0.5])
def test_durations_of_highest_likelihood_cannot_be_improved(family: Any, pseudo_counts: float) -> None:
    random = np.random.default_rng(0)
    ended, censored = random.gamma(0.5, 4.0, (2, 3, 12))
    own = DURATIONS[family]
    here = own.started(np.array([0.5, 0.7, 0.9]), 12)
    for _ in range(20):
        here = own.maximised(here, ended, censored, pseudo_counts)

    def value(parameters: np.ndarray) -> float:
        table = own.table(parameters, 12)
        at_least = np.log(table[:, ::-1].cumsum(1)[:, ::-1])
        log_likelihood = float((ended * np.log(table)).sum() + (censored * at_least).sum())
        return log_likelihood + own.log_prior(parameters, pseudo_counts)

    assert_allclose(own.table(here, 12).sum(axis=1), 1.0)
    for _ in range(20):
        if family == "explicit":
            other = here * random.uniform(0.97, 1.03, here.shape)
            other /= other.sum(axis=1, keepdims=True)
        else:
            other = here + 0.02 * random.normal(size=here.shape) * (1 if family != "geometric" else [0, 1])
        assert value(other) <= value(here) + 1e-6


def test_durations_cut_by_the_end_are_at_least_so_long() -> None:
    """Durations of 8 on average: those of which the end was seen, within 1 to 19 steps, are shorter."""
    random = np.random.default_rng(0)
    lasts = random.negative_binomial(3, 3 / 10, 50_000) + 1
    seen = random.integers(1, 20, len(lasts))
    cut = seen <= lasts
    ended = np.bincount(lasts[~cut], minlength=61)[None, 1:61].astype(float)
    censored = np.bincount(seen[cut], minlength=61)[None, 1:61].astype(float)
    steps = np.arange(1.0, 61.0)
    assert ended[0] @ steps / ended.sum() < 7.0
    own = DURATIONS["negative_binomial"]
    here = own.started(np.array([0.5]), 60)
    for _ in range(5):
        here = own.maximised(here, ended, censored, 0.0)
    assert_allclose(own.table(here, 60)[0] @ steps, 8.0, atol=0.1)
    table = DURATIONS["explicit"].maximised(np.full((1, 60), 1 / 60), ended, censored, 0.0)
    chance = own.table(np.log([[3.0, 7.0]]), 60)
    assert_allclose(table[0, :12], chance[0, :12], atol=0.01)


@pytest.mark.parametrize("family", FAMILIES)
def test_a_family_starts_as_the_plain_chain(family: Any) -> None:
    """From the tables of a hidden Markov model, whose durations are geometric, scores are its own."""
    plain = fitted(None, max_iter=3)
    longest = max(LENGTHS)
    layout = DurationLayout.of_segments(
        ChainLayout((2,), 1, plain.columns_.states, (np.ones((2, 2), bool),)), family, longest
    )
    below = ChainLayout((2,), 1, plain.columns_.states, (np.ones((2, 2), bool),))
    vector = below.vector(list(plain.model_.links), list(plain.model_.emissions))
    chain = replace(layout.chain_of(plain.columns_, layout.lifted(below, vector)), numbers=plain.model_.numbers)
    data = Sequences.of(alternating(3), plain.columns_, None, None, None)
    little = 1e-4 if family == "explicit" else 1e-10
    assert_allclose(chain.log_prob(data), plain.score_samples(data), rtol=little)
    assert_allclose(chain.mean_durations, plain.durations_, rtol=0.5)


def test_geometric_durations_reach_the_likelihood_of_the_plain_model() -> None:
    X = alternating(2)
    settings = {"max_iter": 60, "pseudo_counts": 0.0, "tol": 1e-9}
    plain, geometric = (fitted(family, X, **settings) for family in (None, "geometric"))
    assert_allclose(geometric.score(X), plain.score(X), atol=1e-4)
    assert geometric.n_parameters_ == plain.n_parameters_


@pytest.mark.parametrize("family", FAMILIES)
def test_estimators_answer_all_queries(family: Any) -> None:
    X = alternating()
    model = fitted(family, X, pseudo_counts=1e-6)
    assert (np.diff(model.history_) > -1e-9).all()
    tables = model.tables_
    assert_allclose(np.diag(tables["transitions"]), 0.0)
    assert tables["durations"].shape == (2, max(LENGTHS))
    assert_allclose(np.asarray(tables["durations"]).sum(axis=1), 1.0)
    assert_allclose(model.durations_, np.asarray(tables["durations"]) @ np.arange(1, max(LENGTHS) + 1))
    assert [len(own) for own in model.predict(X)] == list(LENGTHS)
    assert_allclose(model.predict_proba(X)[3].sum(axis=1), 1.0)
    assert_allclose(model.filter(X)[1][-1], model.predict_proba(X)[1][-1])
    assert_allclose(np.asarray(model.predict_next_proba([[], *X], target="x0", steps=2)).sum(axis=1), 1.0)
    assert np.isfinite(model.predict_next(X)).all()
    assert all(cell is not None for row in model.impute(X, method="sample", random_state=0)[3] for cell in row)
    assert np.shape(model.sample(3, 7, random_state=0))[:2] == (3, 7)
    assert model.bic(X) > 0
    names = ["x0_0", "x1_0", "x0_1", "x1_1"]
    row = pandas.DataFrame([[0, 0.1, 1, 2.0]], columns=names)
    expected = model.score_samples([[["a", 0.1], ["b", 2.0]]])
    assert_allclose(model.to_network(2).log_prob(row), expected, rtol=1e-10)


def test_weights_are_repetitions_and_order_does_not_matter() -> None:
    X = alternating()
    counts = np.array([1, 2, 1, 1, 3, 1, 1, 2])
    init = fitted("explicit").tables_
    model = fitted("explicit")
    start = {**init, "emissions": {"x0": init["emissions"], **model.emissions_}}
    settings: dict[str, Any] = {"durations": "explicit", "init": start, "max_iter": 4, "tol": 0.0}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        weighted = EMHMM(2, **settings).fit(X, sample_weight=counts)
        repeated = EMHMM(2, n_jobs=2, **settings).fit([X[i] for i in np.repeat(np.arange(8), counts)[::-1]])
    assert_allclose(weighted.tables_["durations"], repeated.tables_["durations"], rtol=1e-10)
    assert_allclose(weighted.means_, repeated.means_, rtol=1e-10)


@pytest.mark.parametrize("emissions", ["full", "diagonal", "student"])
@pytest.mark.parametrize("family", FAMILIES)
def test_emissions_of_any_size_stand_beside_durations(family: Any, emissions: str) -> None:
    numbers = [[[cell[1], 0.5 * place] for place, cell in enumerate(own)] for own in alternating(2, missing=0.0)]
    model = fitted(family, numbers, emissions=emissions, max_iter=15)
    assert len(model.history_) > 2
    assert (np.diff(model.history_) > -1e-9 * abs(model.history_[0])).all()


def test_a_fit_goes_on_from_its_own_tables() -> None:
    words = ["aaabbaaabb", "bbaaabba", "aaabb"]
    for family in FAMILIES:
        model = fitted(family, words, emissions="auto", max_iter=30)
        again = fitted(family, words, emissions="auto", init=model.tables_, max_iter=1)
        assert again.history_[0] == pytest.approx(model.history_[-1], abs=0.02)  # Large sizes are alike.


def test_held_out_sequences_choose_when_to_stop() -> None:
    model = fitted("explicit", alternating(5, LENGTHS * 4), validation_fraction=0.25, max_iter=20)
    assert len(model.validation_history_) == model.n_iter_ + 1


@pytest.mark.parametrize("family", FAMILIES)
def test_a_saved_model_is_the_same(family: Any, tmp_path: Path) -> None:
    X = alternating()
    model = fitted(family, X)
    model.save(tmp_path / "model.eigentree")
    found = et.load(tmp_path / "model.eigentree")
    assert_array_equal(found.score_samples(X), model.score_samples(X))
    assert_array_equal(found.tables_["durations"], model.tables_["durations"])
    assert found.get_params()["durations"] == family


def test_states_that_may_not_be_left_last() -> None:
    """From the last state of a left-to-right chain no other follows."""
    words = ["aaabbc", "aabbcccc", "aaaabbcc", "abbc"]
    model = EMHMM(3, transitions="left-to-right", durations="explicit", random_state=0, max_iter=50).fit(words)
    moves = np.asarray(model.tables_["transitions"])
    assert_allclose(np.diag(moves), [0, 0, 1])
    assert_array_equal(np.tril(moves, -1), 0.0)
    assert np.isfinite(model.score_samples(["abbccccccccccccccccc"])).all()


def test_known_durations_are_found() -> None:
    """Stays of exactly three steps, and uniform ones of two to eight."""
    X = alternating(7, (60,) * 15, 0.0)
    settings: dict[str, Any] = {"emissions": "gaussian", "init": "clusters", "n_init": 1, "random_state": 0}
    model = EMHMM(2, durations="explicit", max_duration=12, **settings).fit(X)
    fixed = int(np.argmin(abs(model.durations_ - 3.0)))
    table = np.asarray(model.tables_["durations"])
    assert table[fixed, 2] > 0.85
    assert_allclose(model.durations_[1 - fixed], 5.0, atol=0.5)
    plain = EMHMM(2, **settings).fit(X)
    assert model.score(X) > plain.score(X) + 1.0


def test_the_benchmark_fits_what_it_samples() -> None:
    X = durations.sampled(15, 0)
    assert [len(own) for own in X] == [durations.LENGTH] * 15
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = durations.one_fit(X, 20, 3)
    assert (np.diff(model.history_) > 0).all()
    assert len(durations.folds({"x0": pandas.DataFrame(np.zeros((10, 2)))}, 0)) == durations.FOLDS


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"durations": "poisson"}, "durations"),
        ({"max_duration": 5}, "max_duration is of durations"),
        ({"durations": "explicit", "max_duration": 0}, "max_duration"),
        ({"durations": "explicit", "sticky": 1.0}, "sticky"),
        ({"durations": "explicit", "order": 2}, "one hidden chain of order 1"),
        ({"durations": "explicit", "hidden_states": (2, 2)}, "one hidden chain of order 1"),
    ],
)
def test_arguments_that_cannot_be_are_named(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(ParameterError, match=words):
        EMHMM(**settings).fit(["abab", "aab"])


def test_durations_are_not_for_inputs() -> None:
    with pytest.raises(ParameterError, match="without inputs"):
        EMHMM(durations="explicit").fit(["abab", "aab"], inputs=list("xyxyxxy"))


def test_a_start_in_which_a_sequence_is_impossible_is_an_error() -> None:
    tables = {
        "start": [0.5, 0.5],
        "transitions": [[0.0, 1.0], [1.0, 0.0]],
        "emissions": np.eye(2),
        "durations": [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]],
    }
    with pytest.raises(DataError, match="probability zero at the start"):
        EMHMM(2, durations="explicit", max_duration=3, init=tables).fit(["aab", "abb"])
