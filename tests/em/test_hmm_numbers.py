"""Hidden Markov models with channels that are numbers: against hmmlearn, enumeration, and the laws of EM."""

from __future__ import annotations

import warnings
from itertools import pairwise, product
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas
import pytest
from numpy.testing import assert_allclose
from scipy.special import logsumexp
from scipy.stats import multivariate_normal, norm

import eigentree as et
from eigentree import EMHMM
from eigentree.data.sequences.sequence_codes import Sequences
from eigentree.em.chain_fit import ChainFit, fit_chain
from eigentree.em.number_chains import NumberChainLayout, NumberChainObjective
from eigentree.em.optimize.stopping import Stopping
from eigentree.emissions.families import FAMILIES
from eigentree.errors import DataError, ParameterError
from eigentree.inference.sequences.number_steps import NumberPass

if TYPE_CHECKING:
    from pathlib import Path

CHANNELS = ("x", "word", "y")
"""Two numbers and a category between them."""

PLAIN: dict[str, Any] = {"pseudo_counts": 0.0, "tol": 0.0, "stopping": "paper"}


def numbers_of(lengths: list[int], states: int, channels: int, seed: int) -> np.ndarray:
    """Return the steps of Gaussian sequences end to end."""
    random = np.random.default_rng(seed)
    moves = 0.8 * np.eye(states) + 0.2 * random.dirichlet(np.ones(states), states)
    means = 2.0 * random.normal(size=(states, channels))
    steps = []
    for length in lengths:
        state = random.integers(states)
        for _ in range(length):
            steps.append(means[state] + random.normal(size=channels))
            state = random.choice(states, p=moves[state])
    return np.array(steps)


def start_of(states: int, channels: int, family: str, seed: int) -> dict[str, Any]:
    """Return parameters to start from: those of a chain, means, and covariances or variances."""
    random = np.random.default_rng(seed)
    covariances = random.uniform(1.0, 3.0, size=(states, channels))
    if family == "full":
        factors = random.normal(size=(states, channels, channels))
        covariances = factors @ factors.transpose(0, 2, 1) + np.eye(channels)
    return {
        "start": random.dirichlet(np.ones(states)),
        "transitions": random.dirichlet(np.ones(states), states),
        "mean": random.normal(size=(states, channels)),
        "covariance" if family == "full" else "variance": covariances,
    }


def ours_from(start: dict[str, Any], family: str, X: np.ndarray, lengths: list[int], steps: int) -> EMHMM:
    """Return our model of maximum likelihood after some iterations."""
    channels = tuple(f"x{place}" for place in range(X.shape[1]))
    emissions = {name: own for name, own in start.items() if name not in ("start", "transitions")}
    tables = {"start": start["start"], "transitions": start["transitions"], "emissions": emissions}
    family_of = {channels: {"family": family, "prior_rows": 0.0}}
    model = EMHMM(len(start["start"]), init=tables, max_iter=steps, emissions=family_of, **PLAIN)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return model.fit(X, lengths=lengths)


def theirs_from(start: dict[str, Any], family: str, X: np.ndarray, lengths: list[int], steps: int) -> Any:
    """Return hmmlearn's model of maximum likelihood after some iterations."""
    from hmmlearn.hmm import GaussianHMM

    flat = {"startprob_prior": 1.0, "transmat_prior": 1.0, "means_weight": 0.0, "covars_weight": 0.0}
    model = GaussianHMM(
        len(start["start"]),
        covariance_type="full" if family == "full" else "diag",
        n_iter=steps,
        tol=-np.inf,
        init_params="",
        min_covar=0.0,
        covars_prior=0.0,
        **flat,
    )
    model.startprob_, model.transmat_ = start["start"], start["transitions"]
    model.means_, model.covars_ = start["mean"], start["covariance" if family == "full" else "variance"]
    return model.fit(X, lengths) if steps else model


@pytest.mark.parametrize("family", ["diagonal", "full"])
@pytest.mark.parametrize("steps", [1, 2, 7])
def test_em_steps_and_answers_are_those_of_hmmlearn(family: str, steps: int) -> None:
    lengths = [30, 1, 17, 40]
    X = numbers_of(lengths, 3, 2, seed=1)
    start = start_of(3, 2, family, seed=2)
    ours, theirs = (fit(start, family, X, lengths, steps) for fit in (ours_from, theirs_from))
    for name in ("startprob_", "transmat_", "means_", "covars_"):
        assert_allclose(getattr(ours, name), getattr(theirs, name), atol=1e-10, err_msg=name)
    assert_allclose(ours.score_samples(X, lengths).sum(), theirs.score(X, lengths), rtol=1e-12)
    assert_allclose(ours.predict_proba(X, lengths), theirs.predict_proba(X, lengths), atol=1e-10)
    log_prob, states = theirs.decode(X, lengths)
    assert_allclose(ours.decode(X, lengths).log_prob.sum(), log_prob, rtol=1e-12)
    assert (ours.predict(X, lengths) == states).all()


def mixed_frame(lengths: list[int], seed: int, missing: float = 0.0) -> pandas.DataFrame:
    """Return a long frame with two numbers that go together, a category, and missing cells."""
    random = np.random.default_rng(seed)
    rows = []
    for number, length in enumerate(lengths):
        state = random.integers(2)
        for step in range(length):
            x = (-2.0, 2.0)[state] + random.normal()
            y = 0.5 * x + random.normal()
            word = "ab"[int(random.random() < (0.2, 0.7)[state])]
            rows.append((number, step, x, word, y))
            state = state if random.random() < 0.8 else 1 - state
    frame = pandas.DataFrame(rows, columns=["who", "when", *CHANNELS])
    for name in CHANNELS:
        frame.loc[random.random(len(frame)) < missing, name] = None
    return frame


def mixed_model(frame: pandas.DataFrame, **settings: Any) -> EMHMM:
    return EMHMM(2, sequence="who", time="when", emissions={("x", "y"): "full"}, random_state=0, **settings).fit(
        frame
    )


def step_logs(model: EMHMM, step: Any) -> np.ndarray:
    """Return the log density of a step in each state, its known cells only."""
    names = [name for name in ("x", "y") if not pandas.isna(step[name])]
    places = [("x", "y").index(name) for name in names]
    total = np.zeros(2)
    for state in range(2):
        if places:
            covariance = model.covars_[state][np.ix_(places, places)]
            total[state] += multivariate_normal.logpdf(
                [step[name] for name in names], model.means_[state, places], covariance
            )
        if not pandas.isna(step["word"]):
            total[state] += np.log(model.tables_["emissions"].at(state=state, word=step["word"]))
    return total


def test_mixed_channels_with_missing_cells_are_those_of_enumeration() -> None:
    model = mixed_model(mixed_frame([12] * 30, seed=3))
    asked = mixed_frame([4, 5, 1], seed=4, missing=0.4)
    scores, proba, best = model.score_samples(asked), model.predict_proba(asked), model.decode(asked)
    filled = model.impute(asked)
    for number, rows in asked.groupby("who"):
        steps = [row for _, row in rows.iterrows()]
        logs = np.array([step_logs(model, step) for step in steps])
        paths = list(product(range(2), repeat=len(steps)))
        of_paths = np.array(
            [
                np.log(model.startprob_[path[0]])
                + sum(np.log(model.transmat_[a, b]) for a, b in pairwise(path))
                + sum(logs[step, state] for step, state in enumerate(path))
                for path in paths
            ]
        )
        assert_allclose(scores[number], logsumexp(of_paths), atol=1e-10)
        assert_allclose(best.log_prob[number], of_paths.max(), atol=1e-10)
        assert best.states[rows.index].tolist() == list(paths[int(of_paths.argmax())])
        weights = np.exp(of_paths - logsumexp(of_paths))
        own = np.array([[weights[[p[t] == s for p in paths]].sum() for s in range(2)] for t in range(len(steps))])
        assert_allclose(proba[rows.index], own, atol=1e-10)
        for step, (at, row) in enumerate(rows.iterrows()):
            for a, b in (("x", "y"), ("y", "x")):
                if pandas.isna(row[a]):
                    i, j = ("x", "y").index(a), ("x", "y").index(b)
                    expected = model.means_[:, i].copy()
                    if not pandas.isna(row[b]):
                        slope = model.covars_[:, i, j] / model.covars_[:, j, j]
                        expected += slope * (row[b] - model.means_[:, j])
                    assert_allclose(filled.loc[at, a], own[step] @ expected, atol=1e-10)
                else:
                    assert filled.loc[at, a] == row[a]
            if pandas.isna(row["word"]):
                table = np.asarray(model.tables_["emissions"])
                assert filled.loc[at, "word"] == "ab"[int((own[step] @ table).argmax())]


def test_a_channel_that_is_never_known_is_as_none() -> None:
    frame = mixed_frame([10] * 20, seed=5)
    model = EMHMM(2, sequence="who", time="when", emissions="gaussian", random_state=0).fit(frame)
    hidden = frame.assign(y=np.nan)
    numbers = model.emissions_
    lengths = [10] * 20
    alone = EMHMM(
        2,
        init={
            "start": model.startprob_,
            "transitions": model.transmat_,
            "emissions": {"x": numbers[("x",)], "word": model.tables_["emissions"]},
        },
        max_iter=1,
        emissions="gaussian",
        tol=1e9,
        sequence="who",
        time="when",
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        alone.fit(frame.drop(columns="y"))
    start = alone.history_[0] - alone_prior(alone, numbers, model)
    assert_allclose(start, model.score_samples(hidden).sum(), rtol=1e-10)
    assert len(lengths) == len(model.score_samples(hidden))


def alone_prior(alone: EMHMM, numbers: Any, model: EMHMM) -> float:
    """Return what the priors add to the first objective of a fit."""
    template = alone.emissions_[("x",)]
    tables = [model.startprob_, model.transmat_, np.asarray(model.tables_["emissions"])]
    dirichlet = 0.1 * sum(float(np.log(table).sum()) for table in tables)
    return dirichlet + float(template.of_vector(numbers[("x",)].vector).log_prior())


def objective_of(frame: pandas.DataFrame) -> tuple[NumberChainObjective, np.ndarray]:
    """Return an objective of all sequences of a long frame, and the parameters of a random start."""
    model = mixed_model(frame, max_iter=50)
    sequences = Sequences.of(frame, model.columns_, None, "who", "when")
    numbers = model.model_.numbers
    every = np.ones((2, 2), np.bool_)
    layout = NumberChainLayout((2,), 1, model.columns_.states, (every,), (), numbers)
    walk = NumberPass.of_distinct(sequences, np.ones(sequences.count), numbers, 1)
    problem = NumberChainObjective(layout, walk, layout.prior(0.1, 0.0))
    return problem, problem.initialisers["random"](problem, np.random.default_rng(1))


def test_the_objective_never_falls() -> None:
    problem, start = objective_of(mixed_frame([9, 4, 20, 1] * 5, seed=6, missing=0.3))
    fit = ChainFit(problem, Stopping("gain", 0.0), 60)
    *_, state = fit_chain(fit, start, 1, np.random.default_rng(0))
    history = np.array(state.best[1].history)
    assert len(history) > 10
    assert (np.diff(history) > 0).all()


def test_the_em_update_is_no_worse_in_any_direction() -> None:
    """At the end of a run the gradient by finite differences is zero: EM maximises what it says."""
    problem, start = objective_of(mixed_frame([9, 4, 20, 1] * 5, seed=6, missing=0.3))
    fit = ChainFit(problem, Stopping("gain", 1e-13), 5000)
    *_, state = fit_chain(fit, start, 1, np.random.default_rng(0))
    best = state.best[1].parameters
    tables = len(problem.layout.learned)
    for place in range(tables, len(best)):
        # A covariance has each entry of its triangle twice.
        size = 1e-4
        values = []
        for side in (-1.0, 1.0):
            moved = best.copy()
            moved[place] += side * size
            _, emissions = problem.layout.split(moved)
            if any(np.abs(own.covariance - own.covariance.transpose(0, 2, 1)).max() > 0 for own in emissions):
                break
            values.append(problem.log_likelihood(moved) + sum(own.log_prior() for own in emissions))
        if values:
            assert abs(values[1] - values[0]) / (2 * size) < 1e-2


def test_the_fit_does_not_depend_on_the_order_the_copies_or_the_threads() -> None:
    frame = mixed_frame([9, 4, 20, 1] * 10, seed=7, missing=0.1)
    lengths, first = frame.groupby("who").size(), mixed_model(frame)
    shuffled = np.random.default_rng(0).permutation(len(lengths))
    other = pandas.concat([frame[frame.who == number] for number in shuffled])
    again = mixed_model(other, n_jobs=2)
    assert np.array_equal(first.means_, again.means_)
    assert np.array_equal(first.transmat_, again.transmat_)
    assert_allclose(again.score_samples(other), first.score_samples(frame)[shuffled], rtol=1e-14)
    start = {
        "start": first.startprob_,
        "transitions": first.transmat_,
        "emissions": {("x", "y"): first.emissions_[("x", "y")], "word": first.tables_["emissions"]},
    }
    twice = pandas.concat([frame, frame.assign(who=frame.who + 1000)])
    weights = np.full(len(lengths), 2.0)
    settings: dict[str, Any] = {"init": start, "max_iter": 3, "tol": 0.0}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        copied = EMHMM(2, sequence="who", time="when", emissions={("x", "y"): "full"}, **settings).fit(twice)
        weighed = EMHMM(2, sequence="who", time="when", emissions={("x", "y"): "full"}, **settings)
        weighed.fit(frame, sample_weight=weights)
    assert_allclose(copied.means_, weighed.means_, rtol=1e-10)
    assert_allclose(copied.transmat_, weighed.transmat_, rtol=1e-10)


def test_long_sequences_are_the_same_in_parts() -> None:
    """Beyond the steps of a part, alone and side by side."""
    X = numbers_of([70_000, 50, 3], 2, 1, seed=8)
    lengths = [70_000, 50, 3]
    model = EMHMM(2, random_state=0, max_iter=5, init="clusters", n_init=1, tol=1.0).fit(X, lengths=lengths)
    together = model.score_samples(X, lengths)
    ends = np.cumsum([0, *lengths])
    for number in range(3):
        own = X[ends[number] : ends[number + 1]]
        assert_allclose(model.score_samples(own, [len(own)])[0], together[number], rtol=1e-12)


def test_sampled_sequences_recover_the_parameters() -> None:
    X = numbers_of([50] * 200, 2, 2, seed=9)
    truth = EMHMM(2, random_state=0).fit(X, lengths=[50] * 200)
    drawn = truth.sample(300, 100, random_state=1)
    assert len(drawn) == 300
    assert drawn[0].shape == (100, 2)
    assert drawn[0].dtype == np.float64
    again = EMHMM(2, random_state=0).fit(drawn)
    order = np.argsort(again.means_[:, 0])[np.argsort(np.argsort(truth.means_[:, 0]))]
    # Four standard errors of 15,000 steps a state.
    assert_allclose(again.means_[order], truth.means_, atol=0.035)
    assert_allclose(again.covars_[order], truth.covars_, atol=0.05)
    assert_allclose(again.transmat_[np.ix_(order, order)], truth.transmat_, atol=0.02)


def test_samples_of_missing_cells_have_the_moments_of_the_model() -> None:
    frame = mixed_frame([6] * 100, seed=10)
    model = mixed_model(frame)
    asked = mixed_frame([6], seed=11, missing=0.5)
    many = pandas.concat([asked.assign(who=number) for number in range(4000)], ignore_index=True)
    samples = model.impute(many, method="sample", random_state=0)
    means, medians = model.impute(asked), model.impute(asked, method="median")
    for name in ("x", "y"):
        drawn = samples[name].to_numpy().reshape(4000, 6)
        error = drawn.std(axis=0) / np.sqrt(4000)
        assert (np.abs(drawn.mean(axis=0) - means[name]) <= 4.5 * error + 1e-12).all()
        below = (drawn <= medians[name].to_numpy()).mean(axis=0)[asked[name].isna()]
        assert (np.abs(below - 0.5) < 0.04).all()


def test_what_comes_next_is_the_mixture_of_the_next_state() -> None:
    lengths = [20, 31, 5]
    X = numbers_of(lengths, 3, 2, seed=12)
    model = EMHMM(3, emissions="gaussian", random_state=0).fit(X, lengths=lengths)
    last = model.filter(X, lengths)[np.cumsum(lengths) - 1]
    for steps in (1, 3):
        state = last @ np.linalg.matrix_power(model.transmat_, steps)
        assert_allclose(model.predict_next(X, lengths, steps), state @ model.means_, atol=1e-12)
    low, middle, high = np.moveaxis(np.asarray(model.predict_next(X, lengths, quantiles=[0.1, 0.5, 0.9])), 2, 0)
    state = last @ model.transmat_
    for shares, value in ((0.1, low), (0.5, middle), (0.9, high)):
        below = norm.cdf(value[:, None, :], model.means_, np.sqrt(np.diagonal(model.covars_, axis1=1, axis2=2)))
        assert_allclose((state[:, :, None] * below).sum(axis=1), shares, atol=1e-9)
    assert_allclose(model.predict_next([np.empty((0, 2))]), (model.startprob_ @ model.means_)[None], atol=1e-12)


def test_nothing_underflows_where_states_are_far_apart() -> None:
    """Steps a thousand standard deviations from a state, also where no other may follow."""
    random = np.random.default_rng(13)
    X = np.concatenate([random.normal(size=40), 1e5 + random.normal(size=40)])[:, None]
    settings = {"emissions": "gaussian", "random_state": 0}
    model = EMHMM(2, transitions="left-to-right", n_init=1, **settings).fit(X, lengths=[80])
    assert_allclose(np.sort(model.means_[:, 0]), [X[:40].mean(), X[40:].mean()], rtol=1e-6)
    assert np.isfinite(model.score_samples(X[::-1], [80])).all()
    free = EMHMM(2, **settings).fit(X, lengths=[80])
    assert (free.predict(X, [80])[:40] != free.predict(X, [80])[40:]).all()


def test_forms_of_sequences_lead_to_the_same_model() -> None:
    lengths = [12] * 15
    X = numbers_of(lengths, 2, 2, seed=14)
    start = start_of(2, 2, "diagonal", seed=15)
    init = {
        "start": start["start"],
        "transitions": start["transitions"],
        "emissions": {"mean": start["mean"], "variance": start["variance"]},
    }

    def fitted(data: Any, **more: Any) -> EMHMM:
        model = EMHMM(2, init=init, max_iter=4, tol=0.0, emissions="diagonal", **more.pop("settings", {}))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return model.fit(data, **more)

    parts = np.split(X, 15)
    first = fitted(X, lengths=lengths)
    frame = pandas.DataFrame(X, columns=["x0", "x1"]).assign(who=np.repeat(np.arange(15), 12))
    forms = (
        fitted(parts),
        fitted(X.reshape(15, 12, 2)),
        fitted(frame, settings={"sequence": "who"}),
        fitted({name: pandas.DataFrame(X[:, place].reshape(15, 12)) for place, name in enumerate(("x0", "x1"))}),
    )
    for other in forms:
        assert_allclose(other.means_, first.means_, rtol=1e-12)
        assert_allclose(other.transmat_, first.transmat_, rtol=1e-12)
        drawn = other.sample(3, 12, random_state=0)
        assert_allclose(other.score_samples(drawn).shape, 3)
    assert forms[1].sample(3, 12, random_state=0).shape == (3, 12, 2)
    assert set(forms[2].sample(3, 12, random_state=0).columns) == {"who", "x0", "x1"}
    hole = X.reshape(15, 12, 2).copy()
    hole[2, 3, 1] = np.nan
    filled = forms[1].impute(hole)
    assert filled.shape == hole.shape
    assert np.isfinite(filled).all()
    assert (filled[~np.isnan(hole)] == hole[~np.isnan(hole)]).all()


def test_scores_and_posteriors_are_those_of_the_unrolled_network() -> None:
    frame = mixed_frame([12] * 30, seed=24)
    asked = mixed_frame([4] * 6, seed=25, missing=0.3)
    wide = asked.pivot(index="who", columns="when", values=list(CHANNELS))
    codes = {"a": 0.0, "b": 1.0}
    cells = pandas.DataFrame(
        {
            f"{name}_{step}": wide[name][step].map(codes) if name == "word" else wide[name][step].astype(float)
            for step in range(4)
            for name in CHANNELS
        }
    )
    for size in (2, [2, 2]):
        model = EMHMM(
            size, sequence="who", time="when", emissions={("x", "y"): "full"}, random_state=0, max_iter=20, tol=1.0
        ).fit(frame)
        network = model.to_network(4)
        assert_allclose(network.log_prob(cells), model.score_samples(asked), atol=1e-10)
        factorial = isinstance(size, list)
        proba = model.predict_proba(asked)
        own = (proba["chain 1"] if factorial else proba).reshape(6, 4, 2)
        for step in range(4):
            found = network.predict_proba(cells, f"h1_{step}" if factorial else f"h{step}")
            assert_allclose(found, own[:, step], atol=1e-10)


COUNTS = ("poisson", "negative_binomial")


@pytest.mark.parametrize("family", [name for name in FAMILIES if name != "ordinal"])
def test_every_family_learns_states_and_has_all_answers(family: str) -> None:
    random = np.random.default_rng(26)
    states = np.repeat(random.integers(2, size=120), 5)
    lengths = [60] * 10
    X = np.stack([np.where(states, 4.0, 1.0) + random.gamma(2.0, 0.5, size=600), 10 + 2 * states], axis=1)
    X[:, 1] += random.normal(size=600)
    emissions: Any = family
    if family in COUNTS:
        X = random.poisson(np.where(states, 30, 8)).astype(float)[:, None]
        emissions = {"x0": family}
    model = EMHMM(2, emissions=emissions, random_state=0).fit(X, lengths=lengths)
    assert {own.family for own in model.emissions_.values()} == {family}
    assert (np.diff(model.history_) > 0).all()
    found = model.predict(X, lengths)
    assert max((found == states).mean(), (found != states).mean()) > 0.9
    holes = X.copy()
    holes[2::5] = np.nan
    assert np.isfinite(model.score_samples(holes, lengths)).all()
    scale = X.std(axis=0)
    for method in ("mode", "median", "sample"):
        filled = np.asarray(model.impute(holes, lengths, method=method, random_state=0))
        error = np.sqrt(((filled[2::5] - X[2::5]) ** 2).mean(axis=0)) / scale
        # The mean of a column has the error 1, and a sample around it the square root of 2.
        assert (error < (1.25 if method == "sample" else 1.0)).all()
    low, high = np.moveaxis(np.asarray(model.predict_next(X, lengths, quantiles=[0.05, 0.95])), 2, 0)
    mean = np.asarray(model.predict_next(X, lengths))
    assert (low < mean).all()
    assert (mean < high).all()


def test_classes_of_sequences_are_distinguished_by_their_dynamics() -> None:
    random = np.random.default_rng(27)
    X, y = [], []
    for number in range(120):
        state, steps = 0, []
        for _ in range(random.integers(5, 20)):
            steps.append(random.normal([0.0, 2.0 * state]))
            state = 1 - state if random.random() < (0.1, 0.6)[number % 2] else state
        X.append(np.array(steps))
        y.append("slow" if number % 2 == 0 else "fast")
    model = et.JunctionTreeClassifier(EMHMM(2, random_state=0)).fit(X[:80], y[:80])
    # The truth itself is right about 37 of 40 times.
    assert model.score(X[80:], y[80:]) > 0.8


def test_the_family_of_several_channels_is_chosen() -> None:
    random = np.random.default_rng(16)
    states = np.repeat(random.integers(2, size=300), 5)
    apart = 3.0 * states[:, None] + random.normal(size=(1500, 2))
    together = np.stack([apart[:, 0], apart[:, 0] + 0.3 * random.normal(size=1500)], axis=1)
    for X, family in ((apart, "diagonal"), (together, "full")):
        model = EMHMM(2, random_state=0).fit(X, lengths=[100] * 15)
        assert [own.family for own in model.emissions_.values()] == [family]
    single = EMHMM(2, random_state=0).fit(apart[:, :1], lengths=[100] * 15)
    assert [own.family for own in single.emissions_.values()] == ["gaussian"]
    assert single.n_parameters_ == 1 + 2 + 4


@pytest.mark.parametrize("init", ["clusters", "windows", "moments", "merged", "position", "random"])
def test_every_initialiser_leads_to_a_model(init: Any) -> None:
    frame = mixed_frame([30] * 20, seed=17, missing=0.05)
    model = mixed_model(frame, init=init, n_init=2)
    assert model.start_.initialiser == init if hasattr(model.start_, "initialiser") else True
    best = mixed_model(frame)
    assert model.history_[-1] <= best.history_[-1] + 1.0
    again = mixed_model(frame, init=init, n_init=2)
    assert np.array_equal(model.means_, again.means_)


@pytest.mark.parametrize("init", ["moments", "merged"])
def test_counts_of_few_different_values_are_symbols(init: Any) -> None:
    random = np.random.default_rng(0)
    states = np.cumsum(random.random((40, 50)) < 0.1, axis=1) % 3
    counts = random.poisson(np.array([1.0, 6.0, 14.0])[states])[..., None].astype(float)
    settings: dict[str, Any] = {"emissions": "poisson", "n_init": 1, "random_state": 0}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        start = EMHMM(3, init=init, max_iter=1, **settings).fit(list(counts)).score(list(counts))
        end = EMHMM(3, **settings).fit(list(counts)).score(list(counts))
    # By 80 and 90 nats where symbols have nothing to do with counts.
    assert end - start < 10.0


@pytest.mark.parametrize("seed", range(4))
def test_samples_of_few_long_sequences_have_steps(seed: int) -> None:
    X = numbers_of([3000, 3000], 2, 1, 0)
    sequences = [X[:3000], X[3000:]]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert np.isfinite(EMHMM(2, n_init=1, max_iter=2, random_state=seed).fit(sequences).score(sequences))


def test_states_are_numbered_by_size_and_sizes_are_chosen() -> None:
    X = numbers_of([60] * 20, 3, 2, seed=18)
    model = EMHMM(3, random_state=0).fit(X, lengths=[60] * 20)
    shares = model.predict_proba(X, [60] * 20).sum(axis=0)
    assert (np.diff(shares) < 0).all()
    selected = et.select(X, (1, 2, 3, 4), EMHMM(random_state=0), lengths=[60] * 20)
    assert selected.best().hidden_states == 3


def test_factorial_chains_add_up_to_one_chain_of_products() -> None:
    random = np.random.default_rng(19)
    first, second = (np.repeat(random.integers(2, size=200), 5) for _ in range(2))
    X = (4.0 * first + 2.0 * np.roll(second, 2) + 0.5 * random.normal(size=1000))[:, None]
    model = EMHMM([2, 2], random_state=0).fit(X, lengths=[100] * 10)
    assert model.means_.shape == (4, 1)
    assert_allclose(np.sort(model.means_[:, 0]), [0, 2, 4, 6], atol=0.15)
    product_model = EMHMM(
        4,
        init={
            "start": model.model_.links[0],
            "transitions": model.model_.links[1],
            "emissions": model.emissions_[("x0",)],
        },
        max_iter=1,
        pseudo_counts=0.0,
        emissions={"x0": {"family": "gaussian", "prior_rows": 0.0}},
        tol=1e9,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        product_model.fit(X, lengths=[100] * 10)
    assert_allclose(product_model.history_[0], model.score_samples(X, [100] * 10).sum(), rtol=1e-12)


def test_validation_sequences_and_criteria() -> None:
    X = numbers_of([40] * 30, 2, 1, seed=20)
    model = EMHMM(2, validation_fraction=0.3, random_state=0, pseudo_counts=0.0).fit(X, lengths=[40] * 30)
    assert len(model.validation_history_) == len(model.history_)
    assert model.score_samples(X, [40] * 30, per_symbol=True).mean() == pytest.approx(
        model.validation_history_.max(), abs=0.1
    )
    total = model.score_samples(X, [40] * 30).sum()
    assert model.bic(X, [40] * 30) == pytest.approx(-2 * total + model.n_parameters_ * np.log(1200))


def test_a_saved_model_gives_the_same_answers(tmp_path: Path) -> None:
    frame = mixed_frame([10] * 20, seed=21, missing=0.1)
    model = mixed_model(frame)
    model.save(tmp_path / "model")
    loaded = et.load(tmp_path / "model")
    assert np.array_equal(loaded.score_samples(frame), model.score_samples(frame))
    assert loaded.impute(frame).equals(model.impute(frame))
    assert loaded.sample(2, 3, random_state=0).equals(model.sample(2, 3, random_state=0))
    assert loaded.get_params()["emissions"] == model.emissions


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"emissions": "gausian"}, "no family of emissions 'gausian'"),
        ({"emissions": {"z": "gaussian"}}, "'z'"),
        ({"emissions": {"word": "gaussian"}}, "word"),
        ({"emissions": {("x", "y"): "gaussian"}}, "of one column"),
        ({"init": {"start": [0.5, 0.5], "transitions": np.full((2, 2), 0.5), "emissions": {}}}, "'x'"),
    ],
)
def test_bad_parameters_are_reported(settings: dict[str, Any], message: str) -> None:
    with pytest.raises((ParameterError, DataError), match=message):
        EMHMM(2, sequence="who", time="when", **settings).fit(mixed_frame([5] * 5, seed=22))


def test_what_numbers_have_not_is_reported() -> None:
    frame = mixed_frame([10] * 10, seed=23)
    model = mixed_model(frame)
    with pytest.raises(DataError, match="predict_next"):
        model.predict_next_proba(frame, target="x")
    with pytest.raises(AttributeError, match="emissionprob_"):
        _ = model.emissionprob_
    words = EMHMM(2, random_state=0).fit(["ABAB", "BBAA"])
    with pytest.raises(DataError, match="predict_next_proba"):
        words.predict_next(["AB"])
    with pytest.raises(AttributeError, match="means_"):
        _ = words.means_
    with pytest.raises(ParameterError, match="clusters"):
        EMHMM(2, init="clusters").fit(["ABAB", "BBAA"])
