"""Just a table: the structure "auto", whose tree is learned and whose size validation rows choose."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV

import eigentree as et
from benchmarks.planted import planted_network, random_tree
from eigentree.em import holdout, size_search
from eigentree.em.size_search import FittedSize, SearchState
from eigentree.em.sizes import Size, SizeSearch, SizeTrial
from eigentree.em.stepwise import stepwise_passes

NETWORK = planted_network(random_tree(8, 3, 3, seed=3), seed=3)
ROWS, HELD, TEST = (NETWORK.sample(count, seed=seed) for seed, count in enumerate((2_500, 500, 2_000)))
LABELS = np.array(["no", "perhaps", "yes"])
FRAME = pd.DataFrame(LABELS[ROWS], columns=[f"q{place}" for place in range(8)])
auto = partial(et.EMJunctionTree, "auto", n_init=2, random_state=0)


@pytest.fixture(scope="module")
def model() -> et.EMJunctionTree:
    return auto().fit(ROWS, validation=HELD)


def holed(rows: np.ndarray, seed: int = 0) -> np.ndarray:
    holed = rows.copy()
    holed[np.random.default_rng(seed).random(rows.shape) < 0.1] = -1
    return holed


def test_a_table_is_learned_nearly_as_well_as_with_the_true_tables(model: et.EMJunctionTree) -> None:
    independent = et.EMJunctionTree(et.zoo.Mixture(1)).fit(ROWS).score(TEST)
    truth = NETWORK.log_prob(TEST).mean()
    assert model.score(TEST) > truth - 0.1 * (truth - independent)


def test_the_score_of_validation_rows_is_that_of_the_model(model: et.EMJunctionTree) -> None:
    assert model.search_.validation == pytest.approx(model.score(HELD), abs=1e-9)
    assert model.search_.validation >= max(trial.validation for trial in model.search_.trials)
    assert (model.search_.rows, model.search_.validation_rows) == (2_500, 500)


def test_sizes_grow_while_validation_rises(model: et.EMJunctionTree) -> None:
    search = model.search_
    best: dict[Size, float] = {}
    for trial in search.trials:
        best[trial.size] = max(best.get(trial.size, -math.inf), trial.validation)
    assert search.size == max(best, key=best.__getitem__)
    for states, trees in best:
        before = {Size(states // 2, trees), Size(states, trees // size_search.MORE_TREES)} & set(best)
        # Trees of hidden variables, the tree of the columns themselves, and classes begin there.
        assert before or (states, trees) in {(2, 1), (0, 1), (1, 4)}
    kept = [trial for trial in search.trials if trial.size == search.size]
    assert len(search.shares) <= len(kept)
    assert sum(search.shares) == pytest.approx(1.0)
    trees = len(search.shares) * search.size.trees
    hidden = dict(model.graph_.states)
    assert hidden.get("tree", 1) == trees
    assert {hidden[name] for name in model.graph_.hidden if name != "tree"} == {search.size.hidden_states}


def test_the_same_seed_gives_the_same_model(model: et.EMJunctionTree) -> None:
    again = clone(model).fit(ROWS, validation=HELD)
    np.testing.assert_array_equal(again.score_samples(TEST), model.score_samples(TEST))
    assert again.search_ == model.search_


def test_the_same_rows_seed_and_version_give_the_same_file(model: et.EMJunctionTree, tmp_path: Path) -> None:
    for name, fitted in {"one": model, "other": clone(model).fit(ROWS, validation=HELD)}.items():
        fitted.save(tmp_path / name)
    assert (tmp_path / "one").read_bytes() == (tmp_path / "other").read_bytes()
    assert et.load(tmp_path / "one").search_ == model.search_
    assert all(math.isnan(trial.seconds) for trial in et.load(tmp_path / "one").search_.trials)
    assert model.search_.trials[0] != replace(model.search_.trials[0], validation=0.0)


def test_labels_are_learned_as_codes_are(model: et.EMJunctionTree) -> None:
    held = pd.DataFrame(LABELS[HELD], columns=FRAME.columns)
    named = auto().fit(
        FRAME.rename(columns=lambda name: name.replace("q", "x")),
        validation=held.set_axis(model.graph_.observed, axis=1),
    )
    test = pd.DataFrame(LABELS[TEST], columns=list(model.graph_.observed))
    np.testing.assert_array_equal(named.score_samples(test), model.score_samples(TEST))


def test_few_rows_choose_in_turn() -> None:
    model = auto().fit(ROWS[:200])
    search = model.search_
    assert search.validation_rows == 200
    assert search.rows == pytest.approx(160)
    assert len(search.shares) == holdout.FOLDS
    assert model.score(TEST) > et.EMJunctionTree(et.zoo.Mixture(1)).fit(ROWS[:200]).score(TEST)


def test_a_share_of_many_rows_chooses() -> None:
    search = auto(n_init=1).fit(ROWS).search_
    assert search.validation_rows == pytest.approx(250, abs=75)
    assert search.rows + search.validation_rows == 2_500
    assert auto(n_init=1, validation_fraction=0.4).fit(ROWS).search_.validation_rows == pytest.approx(
        1_000, abs=125
    )


def test_neither_the_order_of_rows_nor_copies_of_them_matter() -> None:
    rows, weights = ROWS[:200], np.random.default_rng(0).integers(0, 3, 200)
    once = auto().fit(rows, sample_weight=weights)
    copied = np.random.default_rng(1).permutation(np.repeat(rows, weights, axis=0))
    np.testing.assert_allclose(auto().fit(copied).score_samples(TEST), once.score_samples(TEST), rtol=1e-9)


def test_sizes_that_are_given_stay() -> None:
    one = et.EMJunctionTree(et.zoo.HiddenChowLiu("auto", trees=1), n_init=2, random_state=0).fit(ROWS)
    assert "tree" not in one.graph_.hidden
    assert len(one.search_.shares) == 1
    four = et.EMJunctionTree(et.zoo.HiddenChowLiu(3, trees="auto"), n_init=2, random_state=0).fit(ROWS)
    assert {trial.size.hidden_states for trial in four.search_.trials} == {3}
    capped = et.EMJunctionTree(et.zoo.HiddenChowLiu("auto", most_states=2), n_init=1, random_state=0).fit(ROWS)
    assert {trial.size for trial in capped.search_.trials} == {Size(2, 1)}
    fixed = et.EMJunctionTree(et.zoo.HiddenChowLiu(2, trees=3), n_init=1, max_iter=3, random_state=0).fit(ROWS)
    assert fixed.graph_.states["tree"] == 3
    assert not hasattr(fixed, "search_")


def test_missing_cells_and_odd_columns_are_no_trouble() -> None:
    odd = FRAME.head(400).assign(constant="a", copy=FRAME["q0"], rare=["b"] + ["a"] * 399)
    odd = odd.mask(np.random.default_rng(0).random(odd.shape) < 0.1)
    model = auto(n_init=1).fit(odd)
    filled = model.impute(odd)
    assert not filled.isna().any().any()
    both = odd["q0"].isna() & odd["copy"].notna()
    assert (filled["q0"] == odd["copy"])[both].mean() > 0.95
    assert np.isfinite(model.score_samples(odd)).all()
    assert set(model.sample(5, seed=0).columns) == set(odd.columns)


@pytest.mark.parametrize("width", [1, 2, 3])
def test_a_table_may_be_narrow(width: int) -> None:
    model = auto(n_init=1).fit(ROWS[:, :width], validation=HELD[:, :width])
    cells = np.stack(np.meshgrid(*[range(3)] * width), axis=-1).reshape(-1, width)
    assert np.exp(model.score_samples(cells)).sum() == pytest.approx(1.0, abs=1e-9)


@pytest.mark.parametrize("rows", [np.zeros((64, 4), int), np.ones((3_000, 2), int)])
def test_a_table_that_tells_nothing_is_learned_at_once(rows: np.ndarray) -> None:
    model = auto().fit(rows)
    assert model.search_.size.work <= 64
    assert np.exp(model.score_samples(rows[:1])) > 0.99
    nothing = auto().fit(ROWS[:50], validation=np.full((5, 8), -1))
    assert nothing.search_.validation == pytest.approx(0.0, abs=1e-12)


def test_a_search_builds_a_handful_of_networks(monkeypatch: pytest.MonkeyPatch) -> None:
    built = []
    made = et.LatentNetwork.__init__
    monkeypatch.setattr(
        et.LatentNetwork, "__init__", lambda self, *given, **named: built.append(1) or made(self, *given, **named)
    )
    auto().fit(ROWS[:300])
    assert len(built) <= 5


def test_the_report_of_an_average_says_that_its_states_are_no_classes(model: et.EMJunctionTree) -> None:
    count = len(model.search_.shares)
    assert count > 1
    assert f"the average of {count} fits, each with states of its own: hidden states are no classes" in str(
        model.report_
    )
    one = auto(n_init=1).fit(ROWS[:400], validation=HELD)
    assert "no classes" not in str(one.report_)


def test_as_many_fits_are_averaged_as_were_asked_for() -> None:
    assert len(auto(n_init=1).fit(ROWS[:400], validation=HELD).search_.shares) == 1


def test_the_history_is_that_of_the_likelihood_alone() -> None:
    model = auto(n_init=1, pseudo_counts=20.0).fit(ROWS[:500], validation=HELD)
    assert np.abs(np.diff(model.history_[5:])).max() < 0.1 * abs(model.history_[-1])


def test_a_spectral_model_goes_on_with_the_size_of_its_first_rows() -> None:
    first = et.SpectralJunctionTree("auto").partial_fit(ROWS[:1_000])
    search = first.search_
    both = first.partial_fit(ROWS[1_000:])
    assert both.search_ is search
    assert both.statistics_.rows == len(ROWS)


def test_light_weights_are_warned_of_once() -> None:
    with pytest.warns(RuntimeWarning, match="sample_weight adds up to") as caught:
        et.SpectralJunctionTree("auto").fit(ROWS, sample_weight=np.full(len(ROWS), 1e-3))
    assert len(caught) == 1


def test_hidden_variables_speak(model: et.EMJunctionTree) -> None:
    name = next(name for name in model.graph_.hidden if name != "tree")
    posterior = model.predict_proba(holed(TEST[:50]), target=name)
    np.testing.assert_allclose(np.asarray(posterior).sum(axis=1), 1.0, atol=1e-9)
    assert model.decode(TEST[:5]).states.shape == (5, len(model.graph_.hidden))


@pytest.mark.parametrize("class_as", ["models", "column"])
@pytest.mark.parametrize("kind", ["em", "spectral"])
def test_classes_are_told_apart(class_as: Any, kind: str, tmp_path: Path) -> None:
    estimator = auto(n_init=1) if kind == "em" else et.SpectralJunctionTree("auto")
    classifier = et.JunctionTreeClassifier(estimator, class_as=class_as)
    others, classes = FRAME.drop(columns="q0"), FRAME["q0"]
    test, expected = others.tail(800), classes.tail(800)
    with pytest.MonkeyPatch.context() as patch:
        # The ranks that few rows of one class support are not at issue here.
        patch.setattr("eigentree.spectral.learn.diagnostics.SpectralReport.warn", lambda report: None)
        classifier.fit(others.head(600), classes.head(600))
    assert classifier.score(test, expected) > expected.value_counts().max() / len(expected) + 0.05
    classifier.save(tmp_path / "classes.eigentree")
    again = et.load(tmp_path / "classes.eigentree")
    np.testing.assert_array_equal(again.predict_proba(test), classifier.predict_proba(test))
    assert again.estimator.structure == "auto"


def test_a_spectral_model_is_as_large_as_held_out_rows_ask_for() -> None:
    spectral = et.SpectralJunctionTree("auto").fit(ROWS)
    tried = {trial.size.hidden_states: trial.validation for trial in spectral.search_.trials}
    assert list(tried) == [2**power for power in range(1, len(tried) + 1)]
    best = max(tried, key=tried.__getitem__)
    assert spectral.search_.size == Size(best, 1)
    fixed = et.SpectralJunctionTree(et.zoo.HiddenChowLiu(best)).fit(ROWS)
    np.testing.assert_array_equal(spectral.score_samples(TEST), fixed.score_samples(TEST))
    shuffled = np.random.default_rng(0).permutation(ROWS)
    np.testing.assert_array_equal(
        et.SpectralJunctionTree("auto").fit(shuffled).score_samples(TEST), spectral.score_samples(TEST)
    )


def test_the_imputer_learns_all_by_itself() -> None:
    frame = FRAME.head(300).mask(np.random.default_rng(0).random((300, 8)) < 0.1)
    filled = et.JunctionTreeImputer(auto(n_init=1)).fit_transform(frame)
    assert not pd.DataFrame(filled).isna().any().any()


def test_what_was_searched_for_is_kept_in_files(model: et.EMJunctionTree, tmp_path: Path) -> None:
    for name, fitted in {"em": model, "spectral": et.SpectralJunctionTree("auto").fit(ROWS)}.items():
        fitted.save(tmp_path / name)
        again = et.load(tmp_path / name)
        assert repr(again.search_) == repr(fitted.search_)
        assert again.structure == "auto"
        np.testing.assert_array_equal(again.score_samples(TEST), fitted.score_samples(TEST))


def test_the_structure_is_a_parameter_as_any_other() -> None:
    search = GridSearchCV(auto(n_init=1), {"structure": ["auto", et.zoo.Mixture(1)]}, cv=2).fit(ROWS[:120])
    assert search.best_params_["structure"] == "auto"
    template = et.zoo.HiddenChowLiu("auto", trees=1)
    assert template.changed(hidden_states=4) == et.zoo.HiddenChowLiu(4, trees=1)


@pytest.mark.parametrize("passes", [5, 60])
def test_an_interrupted_search_keeps_the_best_so_far(passes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    left = iter(range(passes))

    def interrupted(*arguments: Any) -> Any:
        for each in stepwise_passes(*arguments):
            if next(left, None) is None:
                raise KeyboardInterrupt
            yield each

    monkeypatch.setattr(size_search, "stepwise_passes", interrupted)
    model = auto()
    if passes == 5:
        with pytest.raises(KeyboardInterrupt):
            model.fit(ROWS, validation=HELD)
        assert not hasattr(model, "network_")
        return
    with pytest.warns(RuntimeWarning, match="interrupted in the search over sizes, at"):
        model.fit(ROWS, validation=HELD)
    assert not model.converged_
    assert model.search_.validation == pytest.approx(model.score(HELD), abs=1e-9)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: et.EMJunctionTree("automatic").fit(ROWS), "'auto', or a graph of .*, not 'automatic'"),
        (lambda: et.OnlineEMJunctionTree("auto").fit(ROWS), "HiddenChowLiu\\(hidden_states=8\\)"),
        (lambda: et.Statistics.of(ROWS, "auto"), "has a size that held-out rows choose"),
        (lambda: et.EMJunctionTree("auto", init="random").fit(ROWS), "leave init out"),
        (lambda: et.SpectralJunctionTree("auto", shrinkage=0.1).fit(ROWS), "leave shrinkage 'auto'"),
        (lambda: et.EMJunctionTree("auto").fit(ROWS[:1]), "n_samples=1 rows leaves .* give more rows"),
        (
            lambda: et.EMJunctionTree("auto", validation_fraction=1e-9).fit(ROWS),
            "validation_fraction=1e-09 of n_samp",
        ),
        (
            lambda: et.SpectralJunctionTree(et.zoo.HiddenChowLiu("auto", trees=3)).fit(ROWS),
            "one tree, not the 3 of",
        ),
        (lambda: et.SpectralJunctionTree("auto").fit_moments(NETWORK), "fit_moments needs a LatentGraph"),
        (lambda: et.learn_structure(ROWS, hidden_states="auto"), "hidden_states is a whole number"),
        (lambda: et.zoo.HiddenChowLiu("many"), "hidden_states is a whole number"),
        (lambda: et.zoo.HiddenChowLiu(trees=0), "trees is a whole number"),
    ],
)
def test_what_cannot_be_searched_for_is_named(call: Any, message: str) -> None:
    with pytest.raises(et.EigentreeError, match=message):
        call()


def test_columns_that_depend_on_each_other_alone_are_their_own_tree(tmp_path: Path) -> None:
    # What comes next depends on five states of the last column, which few hidden states cannot represent.
    graph = et.LatentGraph({f"x{t}": 5 for t in range(4)}, [(f"x{t}", f"x{t + 1}") for t in range(3)])
    truth = et.LatentNetwork.random(graph, seed=1, concentration=0.3)
    model = auto(n_init=4).fit(truth.sample(3_000, seed=2))
    assert model.search_.size == Size(0, 1)
    assert (str(model.search_.size), model.search_.shares, model.graph_.hidden) == ("Chow-Liu tree", (1.0,), ())
    assert {frozenset(edge) for edge in model.graph_.edges} == {frozenset(edge) for edge in graph.edges}
    # It has one best fit, which is not looked for again.
    assert sum(trial.size == Size(0, 1) for trial in model.search_.trials) == 1
    test = truth.sample(2_000, seed=3)
    assert model.score(test) == pytest.approx(truth.log_prob(test).mean(), abs=0.05)
    model.save(tmp_path / "model")
    again = et.load(tmp_path / "model")
    assert again.search_ == model.search_
    (star,) = [line for line in model.search_.plot().lines if line.get_marker() == "*"]
    assert star.get_xydata().tolist() == [[0.5, model.search_.validation]]


def test_columns_of_classes_are_told_as_classes() -> None:
    truth = et.LatentNetwork.random(et.zoo.mixture(10, 16, 4), seed=0, concentration=0.2)
    small = et.zoo.HiddenChowLiu("auto", trees="auto", most_states=4)
    model = et.EMJunctionTree(small, n_init=1, random_state=0)
    model.fit(truth.sample(2_500, seed=1), validation=truth.sample(500, seed=2))
    assert model.search_.size.hidden_states == 1
    assert str(model.search_.size) == f"{model.search_.size.trees} classes"
    assert model.graph_.hidden == ("tree",)
    assert model.graph_.states["tree"] == model.search_.size.trees
    test = truth.sample(2_000, seed=3)
    assert model.score(test) > truth.log_prob(test).mean() - 0.2


def test_sizes_that_are_given_leave_no_other_kind_of_model() -> None:
    for template in (et.zoo.HiddenChowLiu("auto", trees=1), et.zoo.HiddenChowLiu(2, trees="auto")):
        search = et.EMJunctionTree(template, n_init=1, random_state=0).fit(ROWS[:300]).search_
        assert min(trial.size.hidden_states for trial in search.trials) == 2


def test_classes_that_are_hardly_better_are_no_reason_to_leave_a_tree() -> None:
    tree, few, many = (
        FittedSize(SizeTrial(size, "mixture", 1, 5, -1.0, score, 0.1), (), ())
        for size, score in ((Size(4, 1), -1.0), (Size(1, 16), -0.9995), (Size(1, 64), -0.99))
    )
    state = SearchState((), Size(4, 1)).joined(tree, 1, 0).joined(few, 1, 0)
    assert state.best is tree
    assert state.joined(many, 1, 0).best is many


def test_no_more_fits_are_averaged_than_add_anything(monkeypatch: pytest.MonkeyPatch) -> None:
    found = {}
    for enough in (0.0, 1e9):
        monkeypatch.setattr(size_search, "LITTLE", enough)
        search = auto(n_init=4, random_state=2).fit(ROWS, validation=HELD).search_
        found[enough] = [trial for trial in search.trials if trial.size == search.size]
    # One of each kind of start, and one more that shows what another fit adds.
    assert (len(found[0.0]), len(found[1e9])) == (4, 3)


def test_a_search_is_shown_as_text_as_rows_and_as_a_plot(model: et.EMJunctionTree) -> None:
    search = model.search_
    lines = repr(search).splitlines()
    assert len(lines) == 3 + len(search.trials)
    assert str(search.size) in lines[0]
    frame = pd.DataFrame(search.table())
    assert frame["hidden_states"].tolist() == [trial.size.hidden_states for trial in search.trials]
    ax = search.plot()
    (star,) = [line for line in ax.lines if line.get_marker() == "*"]
    assert star.get_xydata().tolist() == [[search.size.hidden_states, search.validation]]
    assert search.plot(ax) is ax


def test_an_unfinished_figure_is_a_dash() -> None:
    trial = SizeTrial(Size(2, 1), "spectral", 1, 5, math.nan, -1.0, 0.1)
    assert "  -  " in repr(SizeSearch((trial,), trial.size, (1.0,), -1.0, 10, 10)).splitlines()[-1]
