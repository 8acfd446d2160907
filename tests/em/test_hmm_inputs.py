"""Hidden Markov models with inputs: against enumeration of hidden paths, and the laws of EM."""

from __future__ import annotations

import warnings
from itertools import pairwise, product
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas
import pytest
from numpy.testing import assert_allclose
from scipy.special import softmax
from scipy.stats import norm

import eigentree as et
from eigentree import EMHMM
from eigentree.data.sequences.sequence_codes import Sequences
from eigentree.data.tables.state_rules import ReadOptions
from eigentree.em.chain_fit import ChainLayout
from eigentree.em.inputs.input_objective import InputObjective
from eigentree.em.number_chains import NumberChainLayout, started_emissions
from eigentree.errors import DataError, ParameterError
from eigentree.estimators.fits.chain_inputs import chain_with_inputs
from eigentree.inference.sequences.number_steps import NumberPass

if TYPE_CHECKING:
    from pathlib import Path

ALL = ("start", "transitions", "emissions")
LENGTHS = [4, 1, 3, 4, 2, 4]
STEPS = sum(LENGTHS)
LABELS = np.array(["a", "b", "c"], object)


def outputs(seed: int = 0, missing: float = 0.2) -> list[list[Any]]:
    """Return sequences of labels, some cells missing."""
    random = np.random.default_rng(seed)
    cells = LABELS[random.integers(3, size=STEPS)]
    cells[random.random(STEPS) < missing] = None
    cells[:3] = LABELS
    return [part.tolist() for part in np.split(cells, np.cumsum(LENGTHS)[:-1])]


def inputs_of(kind: str, steps: int = STEPS, seed: int = 1) -> Any:
    """Return the inputs of each step: symbols, or a number and a category."""
    random = np.random.default_rng(seed)
    symbols = np.array(["u", "v"], object)[np.arange(steps) % 2 ^ random.integers(2, size=steps)]
    if kind == "symbols":
        return symbols.tolist()
    return pandas.DataFrame({"dose": random.normal(size=steps).round(1), "group": symbols})


def fitted(kind: str, affect: Any = ALL, states: int = 2, **settings: Any) -> EMHMM:
    """Return a model after a few iterations from random tables."""
    settings = {"init": "random", "n_init": 1, "max_iter": 4, "random_state": 3, **settings}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return EMHMM(states, inputs_affect=affect, **settings).fit(outputs(), inputs=inputs_of(kind))


def tables_at(model: EMHMM, row: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return start, transitions and emissions at one input, worked out from what the model publishes."""
    if isinstance(row, str):
        tables = model.tables_
        found = [np.asarray(tables[name]) for name in ALL]
        own = [
            table["uv".index(row)] if table.ndim == size else table
            for table, size in zip(found, (2, 3, 3), strict=True)
        ]
    else:
        covariates = np.array([1.0, row["dose"], row["group"] == "v"])
        own = []
        for name, key in zip(ALL, ("start", "transitions", "x0"), strict=True):
            if key in model.coefficients_:
                own.append(
                    softmax(np.moveaxis(np.asarray(model.coefficients_[key]), -2, 0).T @ covariates, axis=0).T
                )
            else:
                own.append(np.asarray(model.tables_[name]))
    return own[0], own[1], own[2]


def paths(tables: list[Any], cells: list[Any]) -> dict[tuple[int, ...], float]:
    """Return P(cells, hidden path | inputs) of each path, given the tables of each step."""
    found = {}
    for path in product(range(len(tables[0][0])), repeat=len(cells)):
        proba = 1.0
        for step, (state, cell) in enumerate(zip(path, cells, strict=True)):
            start, moves, shown = tables[step]
            proba *= start[state] if step == 0 else moves[path[step - 1], state]
            proba *= 1.0 if cell is None else shown[state, LABELS.tolist().index(cell)]
        found[path] = proba
    return found


def rows_of(inputs: Any) -> list[Any]:
    return inputs if isinstance(inputs, list) else inputs.to_dict("records")


def split(inputs: Any, lengths: list[int]) -> list[Any]:
    rows = rows_of(inputs)
    return [rows[end - length : end] for end, length in zip(np.cumsum(lengths), lengths, strict=True)]


@pytest.mark.parametrize("kind", ["symbols", "numbers"])
@pytest.mark.parametrize("affect", ["start", "transitions", "emissions", ALL])
def test_queries_equal_enumeration(kind: str, affect: Any) -> None:
    model, X = fitted(kind, affect), outputs()
    inputs = inputs_of(kind)
    scores = model.score_samples(X, inputs=inputs)
    posteriors, filtered = (ask(X, inputs=inputs) for ask in (model.predict_proba, model.filter))
    decoded, filled = model.decode(X, inputs=inputs), model.impute(X, inputs=inputs)
    for place, (cells, rows) in enumerate(zip(X, split(inputs, LENGTHS), strict=True)):
        tables = [tables_at(model, row) for row in rows]
        every = paths(tables, cells)
        assert_allclose(scores[place], np.log(sum(every.values())), atol=1e-10)
        for step in range(len(cells)):
            masses = [sum(own for path, own in every.items() if path[step] == state) for state in range(2)]
            posterior = np.array(masses) / sum(masses)
            assert_allclose(posteriors[place][step], posterior, atol=1e-10)
            so_far = paths(tables[: step + 1], cells[: step + 1])
            masses = [sum(own for path, own in so_far.items() if path[step] == state) for state in range(2)]
            assert_allclose(filtered[place][step], np.array(masses) / sum(masses), atol=1e-10)
            best = LABELS[(posterior @ tables[step][2]).argmax()]
            assert filled[place][step] == (best if cells[step] is None else cells[step])
        path = max(every, key=lambda key: every[key])
        assert tuple(decoded.states[place]) == path
        assert_allclose(decoded.log_prob[place], np.log(every[path]), atol=1e-10)


@pytest.mark.parametrize("kind", ["symbols", "numbers"])
def test_the_next_cells_depend_on_the_inputs_ahead(kind: str) -> None:
    model = fitted(kind)
    X, lengths = [["a", None], [], ["c"]], [2, 0, 1]
    inputs = inputs_of(kind, sum(lengths) + 6, seed=5)
    found = model.predict_next_proba(X, steps=2, inputs=inputs)
    for place, (cells, rows) in enumerate(zip(X, split(inputs, [length + 2 for length in lengths]), strict=True)):
        tables = [tables_at(model, row) for row in rows]
        joint = [sum(paths(tables, [*cells, None, label]).values()) for label in LABELS]
        assert_allclose(found[place], np.array(joint) / sum(joint), atol=1e-10)


@pytest.mark.parametrize("kind", ["symbols", "numbers"])
def test_samples_have_the_probabilities_of_enumeration(kind: str) -> None:
    model, rows = fitted(kind), inputs_of(kind, 2, seed=2)
    many = (rows if isinstance(rows, list) else rows.to_dict("records")) * 4000
    drawn = model.sample(4000, 2, random_state=0, inputs=many if kind == "symbols" else pandas.DataFrame(many))
    tables = [tables_at(model, row) for row in rows_of(rows)]
    words = ["".join(cells) for cells in drawn]
    for cells in product(LABELS, repeat=2):
        expected = sum(paths(tables, list(cells)).values())
        share = words.count("".join(cells)) / len(words)
        assert abs(share - expected) < 4 * np.sqrt(expected * (1 - expected) / len(words)) + 1e-12


def test_numbers_in_states_equal_enumeration() -> None:
    """Gaussian channels beside labels, missing cells of either, transitions by a logit; emissions by symbols."""
    random = np.random.default_rng(0)
    steps = pandas.DataFrame({"y": random.normal(size=STEPS), "x0": LABELS[random.integers(3, size=STEPS)]})
    steps.loc[::5, "y"] = np.nan
    steps.loc[1::4, "x0"] = None
    steps["id"] = np.repeat(range(len(LENGTHS)), LENGTHS)
    settings = {"emissions": {"y": "gaussian"}, "sequence": "id", "max_iter": 3}
    for kind, affect in (("numbers", "transitions"), ("symbols", ALL)):
        inputs = inputs_of(kind)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = EMHMM(2, inputs_affect=affect, init="random", n_init=1, random_state=1, **settings).fit(
                steps, inputs=inputs
            )
        scores = model.score_samples(steps, inputs=inputs)
        parts = [part for _, part in steps.groupby("id")]
        for place, (rows, own) in enumerate(zip(split(inputs, LENGTHS), parts, strict=True)):
            tables, cells = [], []
            for row, (y, label) in zip(rows, own[["y", "x0"]].to_numpy(object), strict=True):
                at = model.at_inputs(row)
                start, moves, shown = (np.asarray(at.tables_[name]) for name in ALL)
                means, deviations = at.means_[:, 0], np.sqrt(at.covars_[:, 0, 0])
                density = np.ones(2) if np.isnan(y) else norm.pdf(y, means, deviations)
                known = np.ones(2) if label is None or label != label else shown[:, LABELS.tolist().index(label)]
                tables.append((start, moves, (density * known)[:, None].repeat(3, axis=1)))
                cells.append("a")
            total = sum(paths(tables, cells).values())
            assert_allclose(scores[place], np.log(total), atol=1e-9)


# The laws of EM ------------------------------------------------------------------------------------------------


def objective_of(kind: Any, affect: Any = ALL, prior: float = 0.3, numbers: bool = False) -> InputObjective:
    """Return the objective of sequences with inputs, with pseudo-counts."""
    X, weights = Sequences.learned(outputs()), np.arange(1.0, 1.0 + len(LENGTHS))
    layout = ChainLayout((2,), 1, X.columns.states, (np.ones((2, 2), np.bool_),))
    if numbers:
        cells = np.random.default_rng(4).normal(size=(STEPS, 1))
        cells[3] = np.nan
        parts = np.split(cells, np.cumsum(LENGTHS)[:-1])
        X = Sequences.learned(parts, options=ReadOptions(numeric="emissions"))
        walk = NumberPass.of_distinct(X, weights, {}, 1)
        layout = ChainLayout((2,), 1, X.columns.states, (np.ones((2, 2), np.bool_),))
        layout = NumberChainLayout.of(layout, started_emissions({(0,): "gaussian"}, walk, 2))
    inputs = inputs_of(kind) if isinstance(kind, str) else kind
    both, _, chain = chain_with_inputs(layout, X, inputs, affect if isinstance(affect, tuple) else (affect,))
    return InputObjective.of(chain, both, weights, layout.prior(prior, 0.0), 1)


def random_parameters(objective: InputObjective, seed: int = 0) -> np.ndarray:
    """Return parameters that depend on inputs."""
    random = np.random.default_rng(seed)
    vector = objective.started("random", random)
    tables, emissions = objective.layout.dependent(vector)
    made = []
    for table in tables:
        array = table.array + random.normal(size=table.array.shape) * (table.kind == "logit")
        if table.kind == "logit":
            array -= array[..., :1]
        else:
            array = array * random.uniform(0.5, 1.5, size=array.shape)
            array /= array.sum(axis=-1, keepdims=True)
        made.append(type(table)(table.kind, array, table.possible))
    return objective.layout.vector_of(made, emissions)


@pytest.mark.parametrize("kind", ["symbols", "numbers"])
@pytest.mark.parametrize("numbers", [False, True])
def test_em_never_lowers_the_objective(kind: str, numbers: bool) -> None:
    affect = ALL[:2] if numbers else ALL
    objective = objective_of(kind, affect, numbers=numbers)
    parameters, values = random_parameters(objective), []
    for _ in range(12):
        here = objective.evaluated(parameters)
        values.append(here.objective)
        parameters = here.update
    assert all(later >= earlier - 1e-10 * abs(earlier) for earlier, later in pairwise(values))
    assert values[-1] > values[0] + 0.1


@pytest.mark.parametrize("kind", ["symbols", "numbers"])
@pytest.mark.parametrize("affect", [ALL, ("start", "emissions")])
def test_the_gradient_equals_numerical_differences(kind: str, affect: Any) -> None:
    objective = objective_of(kind, affect)
    parameters = random_parameters(objective)
    value, gradient = objective.value_and_gradient(parameters)
    assert_allclose(value, objective.evaluated(parameters).objective, rtol=1e-12)
    tables, _ = objective.layout.dependent(parameters)
    start, random = 0, np.random.default_rng(1)
    for table in tables:
        move = random.normal(size=table.array.shape)
        if table.kind == "logit":
            move -= move[..., :1]
        else:
            # Probabilities stay distributions.
            move = table.array * (move - (table.array * move).sum(axis=-1, keepdims=True))
        direction = np.zeros_like(parameters)
        direction[start : start + move.size] = move.ravel()
        start += move.size
        step = 1e-5
        ends = [objective.value_and_gradient(parameters + sign * step * direction)[0] for sign in (1, -1)]
        assert_allclose(gradient @ direction, (ends[0] - ends[1]) / (2 * step), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("constant", ["symbols", "numbers"])
@pytest.mark.parametrize("numbers", [False, True])
def test_inputs_that_are_constant_change_nothing(constant: str, numbers: bool) -> None:
    """An iteration of EM is that of the chain without inputs."""
    inputs = ["u"] * STEPS if constant == "symbols" else np.full(STEPS, 2.5)
    objective = objective_of(inputs, ALL[:2] if numbers else ALL, numbers=numbers)
    plain = objective.plain
    parameters = plain.initialisers["random"](plain, np.random.default_rng(0))
    lifted = objective.layout.lifted(parameters)
    for _ in range(5):
        here, there = objective.evaluated(lifted), plain.evaluated(parameters)
        assert_allclose(here.objective, there.objective, rtol=1e-12)
        lifted, parameters = here.update, there.update
    tables, emissions = objective.layout.dependent(lifted)
    own, theirs = objective.layout.plain.split(parameters)
    (links,), shown = objective.layout.plain.parts(own)
    for table, expected in zip(tables, (links[0][None], links[1], *shown), strict=True):
        assert_allclose(table.proba(objective.walk.design)[0], expected, atol=1e-10)
    assert_allclose([one.vector for one in emissions], [one.vector for one in theirs], atol=1e-10)
    assert objective.layout.free_count == objective.layout.plain.free_count


def test_a_fit_with_constant_inputs_is_that_without() -> None:
    settings = {"pseudo_counts": 0.1, "tol": 1e-12, "random_state": 0, "n_init": 2, "max_iter": 3000}
    plain = EMHMM(2, **settings).fit(outputs())
    model = EMHMM(2, inputs_affect=ALL, **settings).fit(outputs(), inputs=["u"] * STEPS)
    assert_allclose(model.objectives_.max(), plain.objectives_.max(), atol=1e-7)
    assert model.n_parameters_ == plain.n_parameters_


def test_inputs_raise_the_objective_above_that_without() -> None:
    settings = {"random_state": 0, "n_init": 1, "init": "random", "tol": 1e-9, "max_iter": 3000, "pseudo_counts": 0}
    plain = EMHMM(2, **settings).fit(outputs())
    for kind in ("symbols", "numbers"):
        model = EMHMM(2, inputs_affect=ALL, **settings).fit(outputs(), inputs=inputs_of(kind))
        assert model.score(outputs(), inputs=inputs_of(kind)) > plain.score(outputs()) + 0.1


@pytest.mark.parametrize("kind", ["symbols", "numbers"])
def test_nothing_depends_on_the_order_of_sequences_or_on_their_split(kind: str) -> None:
    X, inputs, order = outputs(), inputs_of(kind), [3, 1, 5, 0, 2, 4]
    parts = split(inputs, LENGTHS)
    model = fitted(kind)
    listed = [part if kind == "symbols" else pandas.DataFrame(part) for part in parts]
    moved = [listed[place] for place in order]
    joined = pandas.concat(moved) if kind == "numbers" else moved
    scores = model.score_samples(X, inputs=inputs)
    assert_allclose(model.score_samples([X[place] for place in order], inputs=joined), scores[order], atol=1e-12)
    assert_allclose(
        [model.score_samples([cells], inputs=own)[0] for cells, own in zip(X, listed, strict=True)],
        scores,
        atol=1e-12,
    )
    settings = {"init": "random", "n_init": 1, "max_iter": 4, "random_state": 3}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        again = EMHMM(2, inputs_affect=ALL, **settings).fit([X[place] for place in order], inputs=joined)
        twice = EMHMM(2, inputs_affect=ALL, **settings).fit(X, inputs=inputs, sample_weight=np.ones(len(X)))
    # Sequences are put into an order of their own.
    assert_allclose(again.score_samples(X, inputs=inputs), scores, atol=1e-9)
    assert (twice.score_samples(X, inputs=inputs) == scores).all()


def test_nothing_depends_on_units_and_names() -> None:
    """A dose in other units, groups under other names and in another order, labels under other names."""
    frame = inputs_of("numbers")
    other = pandas.DataFrame({"dose": 1000 * frame["dose"] + 7, "group": frame["group"].map({"u": "z", "v": "a"})})
    names = {"a": "n", "b": "o", "c": "p", None: None}
    renamed = [[names[cell] for cell in part] for part in outputs()]
    settings = {"init": "random", "n_init": 1, "tol": 1e-10, "max_iter": 2000, "random_state": 3}
    model = EMHMM(2, inputs_affect=ALL[:2], **settings).fit(outputs(), inputs=frame)
    same = EMHMM(2, inputs_affect=ALL[:2], **settings).fit(renamed, inputs=other)
    assert_allclose(
        model.score_samples(outputs(), inputs=frame), same.score_samples(renamed, inputs=other), atol=1e-5
    )


def test_states_in_another_order_are_the_same_model() -> None:
    for kind in ("symbols", "numbers"):
        model = fitted(kind, states=3)
        X = model._sequences(outputs(), None, inputs_of(kind))
        order = np.array([2, 0, 1])
        moved = model.model_.permuted([order])
        assert_allclose(moved.log_prob(X), model.model_.log_prob(X), atol=1e-10)
        assert_allclose(moved.smoothed(X), model.model_.smoothed(X)[:, order], atol=1e-10)
        # Coefficients are those relative to the state that is the first now.
        for table in (moved.tables.start, moved.tables.transitions):
            assert table.kind == "tables" or not table.array[..., 0].any()


def test_a_restricted_chain_moves_only_where_it_may() -> None:
    for kind in ("symbols", "numbers"):
        model = fitted(kind, states=3, transitions="left-to-right", start=[1.0, 0.0, 0.0])
        for row in rows_of(inputs_of(kind)):
            at = model.at_inputs(row)
            assert (np.tril(at.transmat_, -1) == 0).all()
            assert at.startprob_.tolist() == [1.0, 0.0, 0.0]


# Forms, files and errors ---------------------------------------------------------------------------------------


def test_inputs_come_in_all_forms() -> None:
    model, X, symbols = fitted("symbols"), outputs(), inputs_of("symbols")
    scores = model.score_samples(X, inputs=symbols)
    flat = np.array([cell for part in X for cell in part], object)
    parts = split(symbols, LENGTHS)
    long = pandas.DataFrame({"x0": flat, "group": symbols, "id": np.repeat(range(len(X)), LENGTHS)})
    wide = pandas.DataFrame([[*part, *[None] * (4 - len(part))] for part in parts])
    for inputs in (np.array(symbols, object), pandas.Series(symbols), pandas.DataFrame({"x0": symbols}), parts):
        assert (model.score_samples(X, inputs=inputs) == scores).all()
    assert (model.score_samples(flat, lengths=LENGTHS, inputs=symbols) == scores).all()
    wide_X = pandas.DataFrame([[*part, *[None] * (4 - len(part))] for part in X])
    kept = [part[-1] is not None for part in X]
    assert (model.score_samples(wide_X, inputs=wide)[kept] == scores[kept]).all()
    each = ["u", "v", "v", "u", "v", "u"]
    of_steps = np.repeat(each, LENGTHS).tolist()
    assert (model.score_samples(X, inputs=each) == model.score_samples(X, inputs=of_steps)).all()
    # Names of the columns of a long frame, whose rows stand in any order.
    shuffled = long.assign(step=np.arange(STEPS)).sample(frac=1.0, random_state=0)
    named = EMHMM(
        2, inputs_affect=ALL, sequence="id", time="step", init="random", n_init=1, max_iter=4, random_state=3
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        named.fit(shuffled, inputs=["group"])
    order = shuffled["id"].unique()
    assert_allclose(named.score_samples(shuffled), scores[order], atol=1e-9)
    assert_allclose(named.score_samples(shuffled, inputs="group"), scores[order], atol=1e-9)
    assert named.predict(shuffled).shape == (STEPS,)
    for mistyped in ("grop", ["grop"], ["group", "grop"]):
        with pytest.raises(DataError, match="inputs name 'grop', which is no column; did you mean 'group'"):
            named.fit(shuffled, inputs=mistyped)


def test_words_with_words_as_inputs() -> None:
    model = EMHMM(2, init="random", n_init=1, max_iter=3, random_state=0, inputs_affect=ALL)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(["ab", "bab", "b"], inputs=["xy", "yxx", "y"])
    listed = model.score_samples([["a", "b"], ["b"]], inputs=["x", "y", "y"])
    assert (model.score_samples(["ab", "b"], inputs=["xy", "y"]) == listed).all()
    drawn = model.sample(inputs=["xyx", "yy"], random_state=0)
    assert [len(word) for word in drawn] == [3, 2]
    assert set("".join(drawn)) <= {"a", "b"}


@pytest.mark.parametrize("kind", ["symbols", "numbers"])
@pytest.mark.parametrize("affect", ["transitions", ALL])
def test_a_saved_model_is_the_same(kind: str, affect: Any, tmp_path: Path) -> None:
    model = fitted(kind, affect, states=3, transitions="left-to-right")
    model.save(tmp_path / "model")
    again = et.load(tmp_path / "model")
    X, inputs = outputs(), inputs_of(kind)
    assert (again.score_samples(X, inputs=inputs) == model.score_samples(X, inputs=inputs)).all()
    assert again.model_.input_columns == model.model_.input_columns
    for name, table in model.coefficients_.items():
        assert (np.asarray(again.coefficients_[name]) == np.asarray(table)).all()


def test_a_saved_model_of_numbers_is_the_same(tmp_path: Path) -> None:
    cells, symbols = np.random.default_rng(0).normal(size=(STEPS, 2)), inputs_of("symbols")
    model = EMHMM(2, inputs_affect=ALL, init="random", n_init=1, max_iter=3, random_state=0, emissions="diagonal")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(cells, lengths=LENGTHS, inputs=symbols)
    model.save(tmp_path / "model")
    scores = model.score_samples(cells, lengths=LENGTHS, inputs=symbols)
    assert (et.load(tmp_path / "model").score_samples(cells, lengths=LENGTHS, inputs=symbols) == scores).all()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: fitted("symbols").score_samples(outputs()), "needs them: give inputs="),
        (lambda: EMHMM(2).fit(outputs()).score_samples(outputs(), inputs=["u"]), "fitted without inputs"),
        (lambda: fitted("symbols").score_samples(outputs(), inputs=["u"] * 5), "inputs have 5 rows, but the data"),
        (lambda: fitted("symbols").score_samples(outputs(), inputs=["w"] * STEPS), "'w'"),
        (lambda: fitted("symbols").score_samples(outputs(), inputs=["u", None] * 9), "row 1 of the inputs"),
        (lambda: fitted("symbols").score_samples([["a"], ["b", "b"]], inputs=[["u"], ["u"] * 3]), "sequence 1"),
        (lambda: fitted("symbols").predict_next_proba([["a"]], inputs=["u", "u", "u"]), "2 steps"),
        (lambda: fitted("symbols").startprob_, "depend on the inputs"),
        (lambda: fitted("symbols").to_network(3), "depend on the inputs"),
        (lambda: fitted("symbols").at_inputs("w"), "'w'"),
        (lambda: fitted("numbers").at_inputs({"dose": 1.0}), "no 'group'"),
        (lambda: EMHMM(2).fit(outputs()).at_inputs("u"), "fitted without inputs"),
        (lambda: EMHMM(2).fit(outputs()).coefficients_, "fitted without"),
        (lambda: fitted("symbols", "transition"), "did you mean 'transitions'"),
        (lambda: EMHMM(2, order=2).fit(outputs(), inputs=["u"] * STEPS), "one hidden chain of order 1"),
        (
            lambda: EMHMM(2, inputs_affect="emissions").fit(
                np.arange(10) / 3, inputs=np.random.default_rng(0).normal(size=10)
            ),
            "emissions of numbers depend on symbols only",
        ),
    ],
)
def test_errors_say_what_is_wrong(call: Any, message: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises((DataError, ParameterError, AttributeError), match=message):
            call()


def test_a_model_at_some_inputs_is_a_plain_one() -> None:
    model, X = fitted("numbers"), outputs()
    row = {"dose": 0.4, "group": "v"}
    at = model.at_inputs(row)
    same = pandas.DataFrame([row] * STEPS)
    assert_allclose(at.score_samples(X), model.score_samples(X, inputs=same), atol=1e-12)
    assert_allclose(at.to_network(2).log_prob([[0, 1]]), at.score_samples([["a", "b"]]), atol=1e-12)
    assert_allclose(at.score_samples(X), model.at_inputs([0.4, "v"]).score_samples(X))


def test_what_needs_plain_tables_asks_for_inputs() -> None:
    model, X = fitted("numbers"), outputs()
    for ask in (
        lambda: et.profiles(model),
        lambda: et.plot.transitions(model),
        lambda: et.plot.decoded(model, X),
        lambda: et.report(model, X),
    ):
        with pytest.raises(
            ParameterError, match=r"of a model with inputs would depend on these; show model.at_inputs"
        ):
            ask()
    at = model.at_inputs([0.0, "u"])
    assert et.profiles(at)
    assert et.report(at, X).html.startswith("<!DOCTYPE html>")


def test_inputs_of_words_are_words_only_if_they_are_letters() -> None:
    words, groups = ["AABB", "ABBB", "AAA", "BA"], ["yes", "yes", "no", "no"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = EMHMM(2, init="random", n_init=1, max_iter=3, random_state=0).fit(words, inputs=groups)
    # "yes" has as many letters as there are steps.
    assert model.predict_next_proba(["AB"], inputs=["yes"]).shape == (1, 2)
    assert_allclose(
        model.score_samples(["ABA"], inputs=["yes"]), model.score_samples([list("ABA")], inputs=[["yes"] * 3])
    )


def test_whole_numbers_among_several_inputs_have_one_coefficient_as_floats_have() -> None:
    """A dose from -1 to 1, which as codes would have a missing cell, and a coefficient for each."""
    random = np.random.default_rng(0)
    inputs = pandas.DataFrame({"dose": random.integers(-1, 2, 40), "group": ["a", "b"] * 20})
    words = ["".join(cells) for cells in random.choice(list("uvw"), (40, 6))]
    whole, floats = (
        EMHMM(2, n_init=1, max_iter=20, random_state=0).fit(words, inputs=each)
        for each in (inputs, inputs.astype({"dose": float}))
    )
    assert whole.coefficients_["transitions"].states[1] == ("intercept", "dose", "group: b")
    assert_allclose(whole.coefficients_["transitions"], floats.coefficients_["transitions"])
    assert_allclose(whole.score_samples(words, inputs=inputs), floats.score_samples(words, inputs=inputs))
