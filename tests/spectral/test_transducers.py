"""Spectral transducers: exact on exact moments, normalised for every input, the same for any split of the data."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import eigentree as et

LETTERS = "xyz"


class Machine:
    """A transducer of known tables: P(output, next state | state, input), and P(first state)."""

    def __init__(self, hidden: int, inputs: int, outputs: int, seed: int, concentration: float = 1.0) -> None:
        random = np.random.default_rng(seed)
        joint = random.dirichlet(np.full(hidden * outputs, concentration), (inputs, hidden))
        # Axes: input, output, state, next state.
        self.tables = joint.reshape(inputs, hidden, outputs, hidden).transpose(0, 2, 1, 3)
        self.start = random.dirichlet(np.ones(hidden))

    def proba(self, inputs, outputs) -> float:
        """Return P(outputs | inputs); an output of -1 is missing."""
        message = self.start
        for x, y in zip(inputs, outputs, strict=True):
            message = message @ (self.tables[x].sum(axis=0) if y < 0 else self.tables[x, y])
        return float(message.sum())

    def population(self, length: int, shares: np.ndarray):
        """Return all outputs and inputs of a length, and their probabilities if inputs are independent."""
        count, shown = self.tables.shape[:2]
        pairs = list(itertools.product(itertools.product(range(count), repeat=length), repeat=1))
        found = [
            (x, y, np.prod(shares[list(x)]) * self.proba(x, y))
            for (x,) in pairs
            for y in itertools.product(range(shown), repeat=length)
        ]
        X, Y, weights = zip(*found, strict=True)
        return [list(y) for y in Y], [list(x) for x in X], np.array(weights)

    def drawn(self, count: int, length: int, seed: int):
        """Return sampled outputs and inputs, the inputs uniform, shapes (sequences, length)."""
        random = np.random.default_rng(seed)
        inputs, hidden, shown = self.tables.shape[0], len(self.start), self.tables.shape[1]
        X = random.integers(inputs, size=(count, length))
        Y = np.empty_like(X)
        state = (random.random((count, 1)) > self.start.cumsum()[:-1]).sum(axis=1)
        ends = self.tables.transpose(0, 2, 1, 3).reshape(inputs, hidden, -1).cumsum(axis=-1)[..., :-1]
        for t in range(length):
            pair = (random.random((count, 1)) > ends[X[:, t], state]).sum(axis=1)
            Y[:, t], state = pair // hidden, pair % hidden
        assert Y.max() < shown
        return list(Y), list(X)


@pytest.mark.parametrize(("hidden", "inputs", "outputs", "length"), [(2, 2, 3, 4), (3, 2, 2, 5), (2, 3, 2, 4)])
def test_with_exact_moments_outputs_have_their_exact_probabilities(hidden, inputs, outputs, length) -> None:
    machine = Machine(hidden, inputs, outputs, seed=hidden + inputs)
    shares = np.arange(1.0, inputs + 1) / np.arange(1.0, inputs + 1).sum()
    Y, X, weights = machine.population(length, shares)
    model = et.SpectralHMM(hidden, shrinkage=0).fit(Y, inputs=X, sample_weight=1e9 * weights)
    assert model.columns_.states == (outputs,)
    random = np.random.default_rng(0)
    for other in (1, 2, 3, 7, 40):
        own = [(random.integers(outputs, size=other), random.integers(inputs, size=other)) for _ in range(8)]
        for cells, _ in own:
            cells[random.random(other) < 0.2] = -1
        if other > 1:
            own[0][0][0] = 0
        truth = [machine.proba(x, y) for y, x in own]
        found = model.score_samples([y for y, _ in own], inputs=[x for _, x in own])
        np.testing.assert_allclose(found, np.log(truth), atol=1e-8)


@pytest.mark.parametrize("settings", [{}, {"shrinkage": 0, "floor": 1e-3}, {"shrinkage": 0.5, "floor": 0}])
@pytest.mark.filterwarnings("ignore:the data cannot support")
def test_outputs_are_normalised_for_every_input(settings) -> None:
    machine = Machine(3, 3, 2, seed=1, concentration=0.3)
    Y, X = machine.drawn(40, 6, seed=0)
    # The last input is rare.
    X = [np.where((x == 2) & (np.arange(6) > 0), 0, x) for x in X]
    model = et.SpectralHMM(3, **settings).fit(Y, inputs=X)
    every = [list(cells) for cells in itertools.product(range(2), repeat=4)]
    for x in itertools.product(range(3), repeat=4):
        total = np.exp(model.score_samples(every, inputs=[list(x)] * len(every))).sum()
        np.testing.assert_allclose(total, 1.0, atol=1e-10)


def test_predictions_are_ratios_of_scores() -> None:
    machine = Machine(2, 2, 3, seed=3)
    Y, X = machine.drawn(300, 8, seed=0)
    model = et.SpectralHMM(2).fit(Y, inputs=X)
    short, about = [y[:5] for y in Y[:20]], [x[:5] for x in X[:20]]
    longer = [x[:6] for x in X[:20]]
    base, table = model.score_samples(short, inputs=about), model.predict_next_proba(short, inputs=longer)
    for state in range(3):
        scores = model.score_samples([[*y, state] for y in short], inputs=longer)
        np.testing.assert_allclose(np.log(table[:, state]), scores - base, atol=1e-9)
    # Outputs between are marginalised out, and a step's own input is known to it.
    two = model.predict_next_proba(short, steps=2, inputs=[x[:7] for x in X[:20]])
    gaps = model.filter([[*y, -1, 0] for y in short], inputs=[x[:7] for x in X[:20]])
    np.testing.assert_allclose(two, [each[6] for each in gaps], atol=1e-12)
    np.testing.assert_allclose(two.sum(axis=1), 1.0, atol=1e-12)
    assert model.predict_next_proba([[]], inputs=[[1]]).shape == (1, 3)


def test_samples_have_the_probabilities_of_scores() -> None:
    machine = Machine(2, 2, 2, seed=4)
    Y, X = machine.drawn(200, 6, seed=0)
    model = et.SpectralHMM(2).fit(Y, inputs=X)
    drawn = np.array(model.sample(inputs=[[1, 0, 1]] * 4000, random_state=0))
    assert drawn.shape == (4000, 3)
    for cells in itertools.product(range(2), repeat=3):
        expected = np.exp(model.score_samples([list(cells)], inputs=[[1, 0, 1]]))[0]
        share = (drawn == cells).all(axis=1).mean()
        assert abs(share - expected) < 4 * np.sqrt(expected * (1 - expected) / 4000)
    filled = model.impute(
        [[0, -1, 1], [-1, -1, -1]], inputs=[[1, 0, 1], [0, 0, 1]], method="sample", random_state=1
    )
    assert [len(each) for each in filled] == [3, 3]
    assert filled[0][0] == 0
    assert filled[0][2] == 1
    assert min(map(min, filled)) >= 0


def test_batches_files_and_forms_are_one_fit(tmp_path) -> None:
    machine = Machine(2, 3, 2, seed=5)
    Y, X = machine.drawn(90, 7, seed=0)
    whole = et.SpectralHMM(2).fit(Y, inputs=X)
    scores = whole.score_samples(Y, inputs=X)
    parts = et.SpectralHMM(2)
    for start in range(0, 90, 30):
        parts.partial_fit(Y[start : start + 30], inputs=X[start : start + 30])
    np.testing.assert_array_equal(parts.score_samples(Y, inputs=X), scores)
    whole.save(tmp_path / "model")
    again = et.load(tmp_path / "model")
    np.testing.assert_array_equal(again.score_samples(Y, inputs=X), scores)
    again.partial_fit(Y[:30], inputs=X[:30])
    words = ["".join("pq"[cell] for cell in y) for y in Y]
    letters = ["".join(LETTERS[cell] for cell in x) for x in X]
    worded = et.SpectralHMM(2).fit(words, inputs=letters)
    np.testing.assert_array_equal(worded.score_samples(words, inputs=letters), scores)
    np.testing.assert_array_equal(worded.set_params(n_jobs=2).score_samples(words, inputs=letters), scores)
    assert set("".join(worded.sample(inputs=["xyz"], random_state=0))) <= {"p", "q"}
    flat = et.SpectralHMM(2).fit(np.concatenate(Y), lengths=[7] * 90, inputs=np.concatenate(X))
    np.testing.assert_array_equal(
        flat.score_samples(np.concatenate(Y), lengths=[7] * 90, inputs=np.concatenate(X)), scores
    )


def test_more_rows_are_nearer_to_the_truth() -> None:
    machine = Machine(2, 2, 3, seed=6, concentration=0.5)
    Y, X = machine.drawn(3000, 10, seed=0)
    test_Y, test_X = machine.drawn(200, 10, seed=1)
    truth = np.mean([np.log(machine.proba(x, y)) for y, x in zip(test_Y, test_X, strict=True)])
    losses = []
    for count in (30, 300, 3000):
        model = et.SpectralHMM(2).fit(Y[:count], inputs=X[:count])
        losses.append(truth - model.score(test_Y, inputs=test_X))
    assert losses[0] > losses[1] > losses[2]
    assert losses[2] < 0.05
    without = et.SpectralHMM(2).fit(Y).score(test_Y)
    assert truth - without > 5 * losses[2]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: et.SpectralHMM(2).fit(["ab"] * 9, inputs=np.ones((9, 2))), "are symbols: one column"),
        (lambda: et.SpectralHMM(2).fit(["ab"] * 9, inputs=np.ones(9)), "are symbols: one column"),
        (lambda: et.SpectralHMM(2).fit(np.arange(40) / 3, inputs=["u", "v"] * 20), "'x0' is of numbers"),
        (
            lambda: et.SpectralHMM(2).fit(
                [[f"s{k}" for k in range(70)] * 3], inputs=[[f"s{k}" for k in range(70)] * 3]
            ),
            "4,900 pairs of symbols",
        ),
        (lambda: fitted().score_samples(["ab"]), "needs them: give inputs="),
        (lambda: et.SpectralHMM(2).fit(["abab"] * 9).score_samples(["ab"], inputs=["xy"]), "without inputs"),
        (lambda: et.SpectralHMM(2).fit_statistics(fitted().statistics_), "pairs with inputs"),
        (lambda: fitted().score_samples(["ab"], inputs=["xw"]), "'w'"),
    ],
)
def test_errors_say_what_is_wrong(call, message) -> None:
    with pytest.raises((et.DataError, et.ParameterError), match=message):
        call()


def fitted() -> et.SpectralHMM:
    return et.SpectralHMM(2).fit(["abab", "baba"] * 9, inputs=["xyxx", "yyxy"] * 9)


def test_the_benchmark_of_transducers_runs() -> None:
    from benchmarks import transducers

    machine = transducers.Machine.random(2, 2, 3, 0)
    Y, X = machine.sample(400, 1)
    every = np.array(list(itertools.product(range(3), repeat=4)))
    totals = np.exp(machine.log_prob(every, np.broadcast_to([0, 1, 1, 0], every.shape))).sum()
    np.testing.assert_allclose(totals, 1.0)
    model = et.SpectralHMM(2).fit(list(Y), inputs=list(X))
    assert abs(model.score(list(Y), inputs=list(X)) - machine.log_prob(Y, X).mean()) < 0.2
    # Silent letters have no phoneme, vowels have vowels.
    assert transducers.aligned("knee", ["N", "IY"]) == ["-", "N", "-", "IY"]
    assert transducers.aligned("ax", ["AE", "K", "S"]) is None
    # Of order 1, the share of an output among those of its input, with two pseudo-counts.
    found = transducers.order_n([["p", "q"]], ["aa"], [["p"]], ["a"], 1)
    np.testing.assert_allclose(np.exp(found), (1 + 2 * 0.5) / (2 + 2))
