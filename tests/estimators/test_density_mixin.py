"""Every estimator has the same queries, with the same arguments, and fits all or nothing."""

from __future__ import annotations

import copy
import inspect
import pickle
import subprocess
import sys
import warnings
from functools import partial

import numpy as np
import pytest
from interrupting import ended_at, steps_of
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

import eigentree as et
from eigentree.counting.statistics import Statistics
from eigentree.estimators.mixins.density_mixin import DensityMixin
from eigentree.spectral.learn import shrinkage

GRAPH = et.zoo.hmm(5, 1, 2, 3)
TRUTH = et.LatentNetwork.random(GRAPH, seed=0)
ROWS = TRUTH.sample(400, seed=1)

ESTIMATORS = [
    et.SpectralJunctionTree(GRAPH),
    et.EMJunctionTree(GRAPH, n_init=1, max_iter=5, random_state=0),
    et.OnlineEMJunctionTree(GRAPH, passes=1, random_state=0),
]
# Rows of two networks, and which one each is from.
MIXED = np.concatenate([ROWS[:200], et.LatentNetwork.random(GRAPH, seed=5).sample(200, seed=2)])
LABELS = np.repeat([0, 1], 200)
QUESTIONS = ["score_samples", "score", "predict", "predict_proba", "impute", "sample", "joint", "conditional"]


@pytest.fixture(params=ESTIMATORS, ids=lambda each: type(each).__name__)
def estimator(request: pytest.FixtureRequest) -> DensityMixin:
    return clone(request.param)


@pytest.mark.parametrize("question", QUESTIONS)
def test_all_estimators_take_the_same_arguments(question: str) -> None:
    asked = {str(inspect.signature(getattr(type(each), question))) for each in ESTIMATORS}
    assert len(asked) == 1
    if question in ("predict_proba", "impute", "sample", "joint", "conditional"):
        assert str(inspect.signature(getattr(et.LatentNetwork, question))) in asked


def test_answers_agree_with_each_other(estimator: DensityMixin) -> None:
    model = estimator.fit(ROWS)
    assert_allclose(model.joint(["x0", "x3"]).sum(), 1.0)
    table = model.joint(["x0", "x3"])
    assert_allclose(model.conditional(["x3"], given={"x0": 1}), table[1] / table[1].sum(), atol=1e-10)
    drawn = model.sample(50, seed=2, given={"x0": 1})
    assert (drawn[:, 0] == 1).all()
    assert drawn.shape == (50, 5)
    assert model.sample().shape == (1, 5)
    assert_allclose(model.predict_proba(ROWS[:3], "x2").sum(axis=1), 1.0)
    assert_allclose(model.score(ROWS), model.score_samples(ROWS).mean())
    assert (model.graph_, model.n_features_in_) == (GRAPH, 5)


@pytest.mark.parametrize("question", QUESTIONS)
def test_nothing_is_answered_before_a_fit(estimator: DensityMixin, question: str) -> None:
    arguments = {
        "predict": (ROWS, "x0"),
        "predict_proba": (ROWS, "x0"),
        "sample": (1,),
        "joint": (["x0"],),
        "conditional": (["x0"], {"x1": 0}),
    }.get(question, (ROWS,))
    with pytest.raises(NotFittedError, match="instance is not fitted yet; call fit"):
        getattr(estimator, question)(*arguments)
    with pytest.raises(NotFittedError):
        check_is_fitted(estimator)
    assert not hasattr(estimator, "graph_")
    check_is_fitted(estimator.fit(ROWS))


def test_a_clone_has_the_same_graph(estimator: DensityMixin) -> None:
    assert clone(estimator).structure is GRAPH, "a structure is immutable, and remembers its plan for all clones"


def test_parameters_that_do_not_exist_change_nothing(estimator: DensityMixin) -> None:
    before = estimator.get_params()
    name = "random_stat" if "random_state" in before else "shrinkag"
    with pytest.raises(et.ParameterError, match=f"has no parameter '{name}'; did you mean"):
        estimator.set_params(**{"structure": None, name: 3})
    assert estimator.get_params() == before


def test_parameters_are_set_all_or_none() -> None:
    inner = et.SpectralJunctionTree(GRAPH)
    classifier = et.JunctionTreeClassifier(inner)
    with pytest.raises(et.ParameterError, match="has no parameter 'viewss'; did you mean 'views'"):
        classifier.set_params(estimator=et.SpectralJunctionTree(GRAPH), estimator__viewss=3)
    assert classifier.estimator is inner
    with pytest.raises(et.ParameterError, match="HMM has no parameter 'branching'; there are order, hidden_states"):
        et.SpectralJunctionTree(et.zoo.HMM()).set_params(structure__branching=3)
    with pytest.raises(et.GraphError, match="hidden_states is a whole number of at least 1, not 0"):
        inner.set_params(views=2, structure=et.zoo.HMM(), structure__hidden_states=0)
    assert inner.get_params() == et.SpectralJunctionTree(GRAPH).get_params()
    assert classifier.set_params(estimator__views=3).estimator.views == 3


def test_sizes_of_a_template_are_parameters() -> None:
    """Set on one estimator, they are nobody else's: the template is replaced, never changed."""
    template = et.zoo.HMM(order=2)
    first = et.JunctionTreeClassifier(et.SpectralJunctionTree(template))
    second = clone(first)
    assert first.get_params()["estimator__structure__hidden_states"] == 2
    assert second.get_params()["estimator__structure"] is template
    second.set_params(estimator__structure__hidden_states=3)
    assert second.estimator.structure == et.zoo.HMM(order=2, hidden_states=3)
    assert first.estimator.structure is template
    assert template == et.zoo.HMM(order=2)
    given = et.SpectralJunctionTree(GRAPH).set_params(structure=et.zoo.Mixture(), structure__hidden_states=4)
    assert given.structure == et.zoo.Mixture(4)
    unfinished = et.SpectralJunctionTree(et.zoo.HMM)
    assert clone(unfinished).get_params() == unfinished.get_params()
    with pytest.raises(et.ParameterError, match="has no parameter 'hidden_states'"):
        unfinished.set_params(structure__hidden_states=3)


def test_a_repr_names_what_is_not_default() -> None:
    shown = repr(et.SpectralJunctionTree(GRAPH, shrinkage=0.4, max_rank=2))
    assert shown == f"SpectralJunctionTree(structure={GRAPH!r}, shrinkage=0.4, max_rank=2)"
    assert repr(et.SpectralJunctionTree(GRAPH)) == f"SpectralJunctionTree(structure={GRAPH!r})"


def test_pickles_and_copies_answer_alike(estimator: DensityMixin) -> None:
    model = estimator.fit(ROWS)
    for again in (pickle.loads(pickle.dumps(model)), copy.deepcopy(model)):
        assert_array_equal(again.score_samples(ROWS), model.score_samples(ROWS))
        assert again.graph_ == GRAPH


def test_answering_changes_nothing(estimator: DensityMixin) -> None:
    """A call that answers a question leaves the estimator, its model and its report as they were."""
    model = estimator.fit(ROWS[:30])
    before = pickle.dumps({name: value for name, value in vars(model).items() if name != "model_"})
    report = str(getattr(model, "report_", ""))
    holed = np.where(np.random.default_rng(0).random(ROWS.shape) < 0.3, -1, ROWS)
    with np.errstate(all="raise"), pytest.MonkeyPatch.context() as patch:
        patch.setattr("warnings.warn", lambda *arguments, **named: None)
        model.score(holed)
        model.impute(holed)
        model.sample(20, seed=0)
        model.predict_proba(holed, "x1")
    assert str(getattr(model, "report_", "")) == report
    assert pickle.dumps({name: value for name, value in vars(model).items() if name != "model_"}) == before


# Fits that fail


@pytest.mark.parametrize("how", ["fit_statistics", "fit_moments"])
def test_a_spectral_fit_that_is_interrupted_leaves_the_model_as_it_was(how: str) -> None:
    other = et.zoo.mixture(5, 2, 3)
    model = et.SpectralJunctionTree(GRAPH, shrinkage=0.4).fit(ROWS)
    scores, attributes = model.score_samples(ROWS), dict(vars(model))
    model.set_params(structure=other)
    source = Statistics.of(ROWS, other) if how == "fit_statistics" else et.LatentNetwork.random(other, seed=0)
    # The first makes what the graph keeps, which later fits find there.
    getattr(copy.copy(model), how)(source)
    steps = steps_of(partial(getattr(copy.copy(model), how), source))
    for step in {*steps[::8], *steps[-8:]}:
        assert ended_at(step, partial(getattr(model, how), source), KeyboardInterrupt())
        assert {name: value for name, value in vars(model).items() if name != "structure"} == {
            name: value for name, value in attributes.items() if name != "structure"
        }
    assert_array_equal(model.score_samples(ROWS), scores)


# Mended faults of 0.1.0


def test_counts_whose_rows_are_gone_leave_the_shrinkage_at_its_usual_value() -> None:
    """The shrinkage was once chosen from the new rows alone, as if they were all."""
    model = et.SpectralJunctionTree(GRAPH).fit_moments(et.SpectralJunctionTree(GRAPH).fit(ROWS).counts_)
    assert model.shrinkage_ == shrinkage.USUAL
    noise = np.random.default_rng(0).integers(0, 3, (500, 5))
    assert et.SpectralJunctionTree(GRAPH).fit(noise).shrinkage_ > shrinkage.USUAL
    model.partial_fit(noise)
    assert (model.shrinkage_, model.report_.tried) == (shrinkage.USUAL, {})
    assert model.statistics_.rows == 900


@pytest.mark.parametrize("structure", [GRAPH, et.zoo.mixture(5, 2, 3)], ids=["hmm", "mixture"])
@pytest.mark.parametrize("strength", [0, 1.0, "auto"])
@pytest.mark.parametrize("holes", [0.0, 0.5])
def test_unscaled_tables_add_up_to_one(structure: et.LatentGraph, strength: object, holes: float) -> None:
    rows = np.where(np.random.default_rng(1).random(ROWS.shape) < holes, -1, ROWS)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # weak separators
        model = et.SpectralJunctionTree(structure, views=1, scaling=None, shrinkage=strength).fit(rows)
    for names in (["x0"], ["x1", "x3"], list(GRAPH.observed)):
        assert_allclose(model.joint(names).sum(), 1.0, rtol=1e-9)
    values = model.model_.fit.values(model.shrinkage_)
    assert_allclose(values[0], model.operators_.nodes[0].values.flat[0])
    assert_allclose(model.model_.fit.chain_rule.total(values), 1.0)


def test_moments_with_negative_cells_are_refused() -> None:
    class Source:
        def joint(self, names: list[str]) -> np.ndarray:
            table = TRUTH.joint(names).copy()
            table.flat[:2] += (table.flat[0] + 1e-3) * np.array([-1, 1])
            return table

    with pytest.raises(et.DataError, match=r"of the moments holds -0\.001; probabilities are not negative"):
        et.SpectralJunctionTree(GRAPH).fit_moments(Source())


@pytest.mark.parametrize("rank", [True, np.True_])
def test_a_truth_value_is_no_rank(rank: object) -> None:
    with pytest.raises(et.ParameterError, match="max_rank is a whole number of at least 1, not"):
        et.SpectralJunctionTree(GRAPH, max_rank=rank).fit(ROWS)


def test_a_score_warns_of_impossible_rows_once() -> None:
    model = et.EMJunctionTree(
        et.zoo.mixture(2, 2, 3), init="random", n_init=1, max_iter=3, pseudo_counts=0, random_state=0
    ).fit([[0, 0], [1, 1]] * 20)
    for ask in (model.score, model.score_samples):
        with pytest.warns(RuntimeWarning, match="1 of 2 rows have probability zero") as told:
            found = ask([[2, 2], [0, 0]])
        assert np.min(found) == -np.inf
        assert [each.filename for each in told] == [__file__]


@pytest.mark.parametrize("rule", ["bogus", None, np.array(["error"])], ids=["bogus", "none", "array"])
def test_a_rule_for_unknown_labels_that_is_none_is_refused_after_a_fit_too(
    estimator: DensityMixin, rule: object
) -> None:
    model = estimator.fit(ROWS).set_params(handle_unknown=rule)
    for ask in (model.score, model.score_samples, model.impute):
        with pytest.raises(et.ParameterError, match="handle_unknown is 'error' or 'missing', not"):
            ask(ROWS)
    lenient = model.set_params(handle_unknown="missing").score(ROWS)
    assert lenient == model.set_params(handle_unknown="error").score(ROWS)


def test_what_was_set_on_a_classifier_since_its_fit_is_checked() -> None:
    model = et.JunctionTreeClassifier(et.SpectralJunctionTree(GRAPH)).fit(MIXED, LABELS)
    with pytest.raises(et.ParameterError, match="handle_unknown is 'error' or 'missing', not 'bogus'"):
        model.set_params(estimator__handle_unknown="bogus").predict(MIXED)
    with pytest.raises(et.ParameterError, match=r"estimator is a SpectralJunctionTree, .* not 'bogus'"):
        model.set_params(estimator="bogus").predict(MIXED)


@pytest.mark.parametrize("class_as", ["models", "column"])
def test_a_class_of_thousands_of_digits_is_named_in_short(class_as: str) -> None:
    model = et.JunctionTreeClassifier(et.SpectralJunctionTree(et.zoo.HMM()), class_as)
    huge = 10**5000
    with pytest.raises(et.DataError, match="one class only, a whole number of about 5000 digits; a classifier"):
        model.fit(ROWS, [huge] * 400)
    for other in (1, 1.5):
        if class_as == "column":
            with pytest.raises(et.DataError, match="'class' holds a whole number of about 5000 digits, a number"):
                model.fit(MIXED, [other] * 200 + [huge] * 200)
        else:
            model.fit(MIXED, [other] * 200 + [huge] * 200)
            assert model.classes_.tolist() == [other, huge]
            assert model.score(MIXED, [other] * 200 + [huge] * 200) > 0.5


def test_an_impossible_row_names_a_class_of_thousands_of_digits_in_short() -> None:
    estimator = et.EMJunctionTree(
        et.zoo.mixture(2, 2, 3), init="random", n_init=1, max_iter=3, pseudo_counts=0, random_state=0
    )
    model = et.JunctionTreeClassifier(estimator).fit([[0, 0], [1, 1]] * 20, [1, 10**5000] * 20)
    with pytest.warns(RuntimeWarning, match="class a whole number of about 5000 digits: 1 of 1 rows"):
        model.predict([[0, 0]])


def test_labels_of_several_types_are_not_merged() -> None:
    model = et.JunctionTreeClassifier(et.SpectralJunctionTree(GRAPH))
    with pytest.raises(et.DataError, match="mixes labels that have no common order: int, str"):
        model.fit(ROWS, [1, "1", 2, 2] * 100)
    with pytest.raises(et.DataError, match="mixes labels that have no common order"):
        model.fit(ROWS, (*["a"] * 399, 1.5))
    assert model.fit(ROWS, ["1", "2"] * 200).classes_.tolist() == ["1", "2"]


def test_a_fit_imports_no_scikit_learn() -> None:
    """Importing it takes as long as all the rest of a first fit."""
    script = (
        "import sys, numpy, eigentree as et\n"
        "graph = et.zoo.hmm(4, 1, 2, 3)\n"
        "rows = et.LatentNetwork.random(graph, seed=0).sample(50, seed=1)\n"
        "et.SpectralJunctionTree(graph, shrinkage=1.0).fit(rows)\n"
        "et.EMJunctionTree(graph, n_init=1, tol=1.0).fit(rows).score(rows)\n"
        "et.JunctionTreeClassifier(et.SpectralJunctionTree(graph)).fit(rows, rows[:, 0] > 0).predict(rows)\n"
        "et.JunctionTreeImputer(et.SpectralJunctionTree(graph, shrinkage=1.0)).fit_transform(rows)\n"
        "print([name for name in ('sklearn', 'pandas', 'scipy.stats', 'networkx') if name in sys.modules])"
    )
    found = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", script], capture_output=True, text=True, check=True
    )
    assert found.stdout.strip() == "[]"
