"""Reports: every figure against what it is made of, whatever the model; nothing of the data can become markup."""

from __future__ import annotations

import dataclasses
import itertools
import math
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from brute_force import observed_table, predictive

import eigentree as et
from eigentree.data.sequences.sequence_codes import Sequences
from eigentree.errors import DataError, FileError, ParameterError
from eigentree.graphs.structure_learning import mixture_of_trees
from eigentree.markup.charts import learning_charts, spectra_chart
from eigentree.markup.figures import chart_svg
from eigentree.markup.html import Html, decimals, element, number, percent, table, with_error
from eigentree.spectral.sequences.window_report import StepBondReport
from eigentree.viz.reports.anomalous_rows import anomalies
from eigentree.viz.reports.evaluation import (
    Baseline,
    CalibrationBin,
    baselines,
    calibration_bins,
    likelihoods_of,
    masked_accuracy,
)
from eigentree.viz.reports.evaluation_data import EvaluationData, adapter_of, evaluation_data
from eigentree.viz.reports.sections import baseline_chart, calibration_chart

HOSTILE = ["<script>alert(1)</script>", "\"><img src=x onerror='alert(2)'>", "a & b"]


def network(seed: int = 0) -> et.LatentNetwork:
    return et.LatentNetwork.random(et.zoo.mixture(columns=4, hidden_states=2, observed_states=3), seed=seed)


def given(model: Any, X: Any, lengths: Any = None) -> EvaluationData:
    return evaluation_data(adapter_of(model), X, lengths)


@pytest.fixture(scope="module")
def labelled() -> pd.DataFrame:
    """Return rows whose labels and names would be markup if anybody let them."""
    random = np.random.default_rng(0)
    kind = random.integers(2, size=120)
    columns = {
        "<b>odd</b>": [HOSTILE[kind[row]] if random.random() < 0.8 else HOSTILE[2] for row in range(120)],
        "plain": ["no" if kind[row] ^ (random.random() < 0.2) else "yes" for row in range(120)],
        "more & more": random.choice(["x", "y", "z"], size=120),
    }
    frame = pd.DataFrame(columns)
    frame.iloc[3, 1] = frame.iloc[7, 0] = None
    return frame


@pytest.fixture(scope="module")
def mixture(labelled: pd.DataFrame) -> et.EMJunctionTree:
    return et.EMJunctionTree(et.zoo.Mixture(2), random_state=0, pseudo_counts=0.1).fit(labelled[:80])


@pytest.fixture(scope="module")
def words() -> list[str]:
    random = np.random.default_rng(1)
    return ["".join(random.choice(list("ab"), p=[p, 1 - p], size=random.integers(2, 9))) for p in [0.9, 0.2] * 20]


@pytest.fixture(scope="module")
def hmm(words: list[str]) -> et.EMHMM:
    return et.EMHMM(2, random_state=0).fit(words)


class Read(HTMLParser):
    """What a page holds: its elements, all closed as they were opened."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str, str | None]] = []
        self.text = ""
        self._open: list[str] = []
        self.feed(page)
        assert not self._open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(tag, name, value) for name, value in attrs]
        if tag not in ("meta", "br"):
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(tag, name, value) for name, value in attrs]

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


# Facts


def test_predictions_of_masked_cells_are_those_of_enumeration() -> None:
    truth = network()
    X = truth.sample(6, seed=1)
    X[0, 1] = X[2, 3] = -1
    cells = given(truth, X).masked_cells(10_000)
    assert len(cells.unit) == 6 * 4 - 2
    joint = observed_table(truth)
    for unit, column, code, predicted, proba, highest in zip(
        cells.unit, cells.column, cells.code, cells.predicted, cells.proba, cells.highest, strict=True
    ):
        exact = predictive(joint, X[unit], column)
        assert code == X[unit, column]
        assert proba == pytest.approx(exact[code])
        assert highest == pytest.approx(exact.max())
        assert exact[predicted] == pytest.approx(exact.max())


def test_predictions_of_masked_cells_of_sequences_are_those_of_their_network(hmm: et.EMHMM) -> None:
    rows = [list("abba"), ["a", None, "b", "b"], list("bbbb")]
    cells = given(hmm, rows).masked_cells(10_000)
    assert len(cells.unit) == 11
    flat = hmm.to_network(4)
    codes = np.array([[{"a": 0, "b": 1, None: -1}[cell] for cell in row] for row in rows])
    for unit, step, code, proba in zip(cells.unit, cells.step, cells.code, cells.proba, strict=True):
        exact = np.asarray(flat.predict_proba(codes[[unit]], f"x{step}"))[0]
        assert code == codes[unit, step]
        assert proba == pytest.approx(exact[code])


def test_many_cells_are_sampled_by_a_fixed_seed(hmm: et.EMHMM, words: list[str]) -> None:
    one, two = (given(hmm, words).masked_cells(20) for _ in range(2))
    assert len(one.unit) == 20
    for first, second in zip(one, two, strict=True):
        np.testing.assert_array_equal(first, second)
    truth = network()
    some = given(truth, truth.sample(50, seed=0)).masked_cells(40)
    assert len(np.unique(some.unit)) == 10


def test_the_likelihood_is_the_score(mixture: et.EMJunctionTree, labelled: pd.DataFrame) -> None:
    held = labelled[80:]
    found = likelihoods_of(given(mixture, held))
    scores = mixture.score_samples(held)
    assert found.mean == pytest.approx(scores.mean())
    assert found.error == pytest.approx(scores.std(ddof=1) / math.sqrt(len(scores)))
    assert (found.count, found.given, found.learned, found.held_out) == (40, 40, 32, False)


@pytest.mark.parametrize("place", [0, 1])
def test_a_model_that_is_the_baseline_is_not_ahead_of_it(place: int) -> None:
    rows = network().sample(4_400, seed=2)
    rows[5, 2] = -1
    training, held = rows[:4_000], rows[4_000:]
    graph = et.zoo.Mixture(1) if place == 0 else et.learn_structure(training, hidden_states=None)
    model = et.EMJunctionTree(graph, random_state=0, pseudo_counts=0.1).fit(training)
    found = likelihoods_of(given(model, held), given(model, training))
    assert found.learned == 4_000
    assert found.held_out
    assert found.in_sample == ()
    assert found.baselines[place].ahead == pytest.approx(0.0, abs=0.02)
    assert found.baselines[place].mean == pytest.approx(model.score(held), abs=0.02)


def test_baselines_are_compared_on_both_footings() -> None:
    # Columns are independent: a tree that was fitted to the rows gives them a higher log-likelihood all the same.
    X = np.random.default_rng(0).integers(0, 5, (60, 6))
    model = et.EMJunctionTree(et.zoo.Mixture(1), random_state=0, pseudo_counts=0.1).fit(X)
    found = likelihoods_of(given(model, X))
    independent, tree = found.baselines
    assert tree.mean < independent.mean + 2 * tree.error
    assert independent.mean < model.score(X)
    fitted, fitted_tree = found.in_sample
    assert fitted_tree.mean > fitted.mean + 0.1
    assert independent.mean < fitted.mean <= model.score(X)
    text = Read(et.report(model, X).html).text
    assert "If it was fitted to these rows, the log probability of a row is " in text
    assert "fitted to them too. If they are held out, the log probability of a row is" in text
    assert "cross-validated on them" in text
    apart = Read(et.report(model, X[:20], training=X[20:]).html).text
    assert "On held-out rows the log probability" in apart
    assert "in-sample" not in apart


def test_differences_are_over_rows_that_are_possible() -> None:
    graph = et.LatentGraph({"a": 2, "b": 2}, [("a", "b")], [])
    sure = et.LatentNetwork(graph, {"a": [0.5, 0.5], "b": [[1.0, 0.0], [0.0, 1.0]]})
    X = np.array([[0, 0], [1, 1], [0, 0], [1, 1], [0, 1]])
    found = likelihoods_of(given(sure, X))
    assert found.impossible == 1
    assert found.mean == -math.inf
    assert all(math.isfinite(one.ahead) for one in (*found.baselines, *found.in_sample))
    assert "impossible" in et.report(sure, X).html


def test_markov_chains_are_what_they_say() -> None:
    random = np.random.default_rng(0)
    codes = [random.integers(0, 3, size=5).tolist() for _ in range(12)]
    model = et.EMHMM(1, random_state=0).fit(codes)
    some = given(model, codes)
    scorers = {name: learn(some) for name, learn in baselines(some)}
    every = given(model, [list(word) for word in itertools.product(range(3), repeat=3)])
    for score in scorers.values():
        assert np.exp(score(every)).sum() == pytest.approx(1.0)
    # A missing cell is marginalised out.
    gap = given(model, [[0, None, 2]])
    filled = given(model, [[0, middle, 2] for middle in range(3)])
    for score in scorers.values():
        assert np.exp(score(gap))[0] == pytest.approx(np.exp(score(filled)).sum())
    chain = scorers["Markov chain"]
    step = {
        (a, b): sum((x, y) == (a, b) for word in codes for x, y in itertools.pairwise(word))
        for a in range(3)
        for b in range(3)
    }
    # What follows more often is more probable, whatever was smoothed.
    first = [float(chain(given(model, [[0, b]]))[0]) for b in range(3)]
    assert int(np.argmax(first)) == max(range(3), key=lambda b: step[0, b])


def test_a_markov_chain_beats_independent_cells_where_there_is_one() -> None:
    random = np.random.default_rng(0)
    sticky = []
    for _ in range(60):
        word = [int(random.integers(2))]
        for _ in range(9):
            word.append(word[-1] if random.random() < 0.9 else 1 - word[-1])
        sticky.append(word)
    model = et.EMHMM(1, random_state=0).fit(sticky)
    alone, chain = likelihoods_of(given(model, sticky)).baselines
    assert chain.mean > alone.mean + 1
    assert abs(alone.ahead) < 3 * alone.error + 0.1
    assert chain.ahead < -2 * chain.error


def test_bins_add_up_and_honest_predictions_are_calibrated() -> None:
    random = np.random.default_rng(0)
    proba = random.random(20_000)
    true = random.random(20_000) < proba
    bins = calibration_bins(proba, true)
    assert sum(one.cells for one in bins) == 20_000
    assert sum(one.cells * one.predicted for one in bins) == pytest.approx(proba.sum())
    assert sum(one.cells * one.correct for one in bins) == pytest.approx(true.sum())
    assert all(abs(one.predicted - one.correct) < 4 * one.error for one in bins)
    assert calibration_bins(np.array([1.0]), np.array([True]))[-1].cells == 1


def test_accuracy_is_that_of_predictions(mixture: et.EMJunctionTree, labelled: pd.DataFrame) -> None:
    held = labelled[80:]
    found = masked_accuracy(given(mixture, held))
    assert found is not None
    assert found.cells == found.known == int(held.notna().sum().sum())
    by_name = {one.column: one for one in found.columns}
    correct = 0
    for name in held:
        proba = mixture.predict_proba(held, name)
        predicted = np.array(proba.states[1], object)[np.asarray(proba).argmax(axis=1)]
        known = held[name].notna()
        hits = int((predicted == held[name])[known].sum())
        correct += hits
        assert by_name[name].accuracy == pytest.approx(hits / known.sum())
        assert by_name[name].usual == pytest.approx(held[name].value_counts(normalize=True).max())
    assert found.accuracy == pytest.approx(correct / found.cells)
    gains = [one.accuracy - one.usual for one in found.columns]
    assert gains == sorted(gains, reverse=True)


def test_cells_that_are_all_missing_are_not_predicted() -> None:
    truth = network()
    assert masked_accuracy(given(truth, np.full((3, 4), -1))) is None
    assert "#masked" not in et.report(truth, np.full((3, 4), -1)).html


def test_anomalies_are_the_rows_of_lowest_probability(mixture: et.EMJunctionTree, labelled: pd.DataFrame) -> None:
    held = labelled[80:]
    scores = pd.Series(mixture.score_samples(held), index=held.index).sort_values(kind="stable")
    found = anomalies(given(mixture, held))
    different = held.loc[scores.index].drop_duplicates().index[:10]
    assert [row.log_prob for row in found] == pytest.approx(scores[different].tolist())
    assert [int(row.name) for row in found] == different.tolist()
    for row in found:
        same = held.fillna("") == held.loc[int(row.name)].fillna("")
        assert row.like == same.all(axis=1).sum() - 1
        for cell in row.cells:
            proba = mixture.predict_proba(held.loc[[int(row.name)]], cell.column)
            known = dict(zip(map(str, proba.states[1]), np.asarray(proba)[0], strict=True))
            assert cell.label == str(held.loc[int(row.name), cell.column])
            assert cell.probability == pytest.approx(known[cell.label])
            assert cell.highest == pytest.approx(max(known.values()))


def test_anomalous_sequences_are_so_by_the_step(hmm: et.EMHMM, words: list[str]) -> None:
    found = anomalies(given(hmm, words))
    scores = np.sort(hmm.score_samples(sorted(set(words)), per_symbol=True))[:10]
    assert [row.log_prob for row in found] == pytest.approx(scores.tolist())
    assert all(row.length == len(words[int(row.name)]) for row in found)


def test_equal_rows_are_shown_once_with_their_number(hmm: et.EMHMM, words: list[str]) -> None:
    lowest = anomalies(given(hmm, words))[0]
    word = words[int(lowest.name)]
    made = et.report(hmm, [*words, *([word] * 11)])
    again = made.facts.anomalies[0]
    assert (again.name, again.like) == (lowest.name, lowest.like + 11)
    assert f"and {again.like} like it" in Read(made.html).text
    assert len({words[int(row.name)] for row in made.facts.anomalies}) == len(made.facts.anomalies)


def test_the_junction_tree_has_its_separators_behind(mixture: et.EMJunctionTree) -> None:
    for model in (mixture, et.LatentNetwork.random(et.zoo.hmm(4), seed=0)):
        text = Read(et.report(model).html).text
        assert "on each edge its separator" in text
        assert "Separators of the junction tree" in text


def test_labels_that_the_model_never_saw_are_listed(mixture: et.EMJunctionTree, labelled: pd.DataFrame) -> None:
    held = labelled[80:].copy()
    held.iloc[0, 1] = held.iloc[1, 1] = "perhaps"
    found = given(mixture, held)
    assert found.unseen == (("plain", "perhaps", 2),)
    data = et.report(mixture, held).facts.data
    assert data is not None
    assert data.missing.sum() == int(held.isna().sum().sum()) + 2
    numbers = et.EMJunctionTree(et.zoo.Mixture(1), random_state=0, pseudo_counts=0.1).fit([[0, 1], [1, 0], [1, 1]])
    unseen = given(numbers, [[0.0, 3.0], [np.nan, 1.0], [-1, 0.5]]).unseen
    assert unseen == (("x1", "0.5", 1), ("x1", "3.0", 1))


@pytest.mark.parametrize(
    "graph",
    [
        et.zoo.hmm(6, order=2, hidden_states=2, observed_states=3),
        et.zoo.mixture(7, 3, 2),
        et.zoo.factorial_hmm(4),
        et.LatentGraph({"h": 2, "a": 2, "b": 2, "c": 2}, [("h", "a"), ("b", "h")], ["h"], directed=False),
    ],
)
def test_cliques_and_separators_are_a_tree(graph: et.LatentGraph) -> None:
    diagram = et.report(et.LatentNetwork.random(graph, seed=0)).facts.tree
    assert diagram.columns == set(graph.observed)
    # One edge leads to every box but the root, and none leads back.
    reached = [edge.other for edge in diagram.edges]
    assert len(set(reached)) == len(reached) == len(diagram.texts) - 1
    separators = {", ".join(node.separator) for node in et.JunctionTree.of(graph).nodes if node.separator}
    assert {str(name) for name, *_ in diagram.numbers.rows} <= separators
    for names, _, states, rank in diagram.numbers.rows:
        assert states == rank == f"{math.prod(graph.states[name] for name in str(names).split(', ')):,}"


def test_edges_are_as_strong_as_dependencies_say() -> None:
    truth = network()
    facts, known = et.report(truth).facts, et.dependencies(truth)
    assert facts.graph.numbers.rows == tuple((link.one, link.other, number(link.nats)) for link in known.edges)
    assert list(facts.pairs) == known.columns[:10]


def test_ranks_are_those_that_were_learned() -> None:
    truth = network()
    model = et.SpectralJunctionTree(truth.graph).fit(truth.sample(500, seed=0))
    ((_, _, _, shown),) = et.report(model).facts.tree.numbers.rows
    ranks = sorted({one.rank for one in model.report_.separators})
    assert shown == "–".join(map(str, ranks[:: max(len(ranks) - 1, 1)]))
    assert [one.smallest for one in model.report_.spectra] == [one.smallest for one in model.report_.separators]


def test_shares_of_hidden_states_are_those_of_the_data(hmm: et.EMHMM, words: list[str]) -> None:
    made = et.report(hmm, words)
    (profile,) = made.facts.profiles
    posterior = np.concatenate([np.asarray(hmm.predict_proba([word])).reshape(-1, 2) for word in words])
    np.testing.assert_allclose(profile.shares.array, posterior.mean(axis=0), atol=1e-12)
    steps = sum(map(len, words))
    assert f"shares of {steps} steps of data" in Read(made.html).text
    bare = et.report(hmm)
    np.testing.assert_allclose(bare.facts.profiles[0].shares.array, et.profiles(hmm)["state"].shares.array)
    assert "shares of the first 100 steps under the model" in Read(bare.html).text


def test_states_of_averaged_fits_are_not_called_classes(labelled: pd.DataFrame) -> None:
    model = et.EMJunctionTree("auto", random_state=0).fit(labelled)
    search = dataclasses.replace(model.search_, shares=(0.5, 0.5))
    model.search_ = search
    text = Read(et.report(model, labelled[:20]).html).text
    assert "Hidden states: the average of 2 fits, each with states of its own: these are no classes" in text
    assert "the average of 2 fits" in et.plot.profiles(model).get_xlabel()


def test_only_spectral_learning_is_free_of_local_optima(mixture: et.EMJunctionTree, hmm: et.EMHMM) -> None:
    for model in (mixture, hmm):
        assert "local" not in Read(et.report(model).html).text
        assert "without local" not in str(type(model).__doc__)


# Reports of fits


def test_a_report_of_em_has_what_was_fitted(mixture: et.EMJunctionTree, hmm: et.EMHMM, tmp_path: Path) -> None:
    report = mixture.report_
    assert report.parameters == mixture.n_parameters_
    assert report.history == tuple(mixture.history_)
    assert report.start == mixture.start_
    assert report.rows == 80
    assert report.warnings == ()
    with pytest.raises(dataclasses.FrozenInstanceError):
        report.steps = 3  # type: ignore[misc]
    mixture.save(tmp_path / "m.eigentree")
    again = et.load(tmp_path / "m.eigentree").report_
    assert (again.history, again.facts(), str(again)) == (report.history, report.facts(), str(report))
    assert hmm.report_.unit == "step"
    with pytest.raises(Exception, match="not fitted"):
        et.EMJunctionTree(et.zoo.Mixture(2)).report_  # noqa: B018


def test_what_did_not_converge_says_so(labelled: pd.DataFrame) -> None:
    model = et.EMJunctionTree(et.zoo.Mixture(2), init="random", max_iter=1, n_init=1, random_state=0).fit(labelled)
    (warning,) = model.report_.warnings
    assert "before it converged" in warning
    assert warning in et.report(model).html


def test_warnings_of_a_spectral_fit_are_data() -> None:
    truth = network()
    with pytest.warns(RuntimeWarning, match="cannot support the rank") as caught:
        model = et.SpectralJunctionTree(truth.graph, shrinkage=0).fit(np.zeros((30, 4), int))
    assert model.report_.warnings == (str(caught[0].message),)
    assert "cannot support the rank" in et.report(model).html


def test_notebooks_show_reports_of_fits(mixture: et.EMJunctionTree, hmm: et.EMHMM, words: list[str]) -> None:
    truth = network()
    spectral = et.SpectralJunctionTree(truth.graph).fit(truth.sample(300, seed=0))
    online = et.OnlineEMJunctionTree(truth.graph, random_state=0).fit(truth.sample(300, seed=0))
    for model in (mixture, hmm, spectral, online, et.SpectralHMM(2).fit(words)):
        read = Read(model.report_._repr_html_())
        assert "svg" in read.tags
        assert "script" not in read.tags
        for name, value in model.report_.facts():
            assert name in read.text
            assert value in read.text


# Pages


def models(words: list[str], labelled: pd.DataFrame) -> dict[str, tuple[Any, Any]]:
    rows = {"n_init": 1, "random_state": 0, "pseudo_counts": 0.1}
    chain = et.LatentNetwork.random(et.zoo.hmm(5, order=2, hidden_states=2, observed_states=3), seed=0)
    undirected = et.LatentGraph(
        {"h": 2, "g": 2, "a": 2, "b": 2, "c": 3},
        [("h", "a"), ("h", "g"), ("g", "b"), ("g", "c")],
        ["h", "g"],
        directed=False,
    )
    loose = et.LatentNetwork.random(undirected, seed=0)
    trees = et.LatentNetwork.random(mixture_of_trees(et.zoo.latent_tree(2), 3), seed=0)
    steps = pd.DataFrame({"id": [1, 1, 2, 2, 2, 3, 3], "job": list("aabbabb"), "town": list("xyxyxyy")})
    many = {f"c{k}": ["n" if (row + k) % (2 + k % 3) else "y" for row in range(40)] for k in range(3)}
    return {
        "order 2": (chain, chain.sample(40, seed=0)),
        "undirected": (
            et.EMJunctionTree(undirected, init="random", **rows).fit(loose.sample(60, seed=0)),
            loose.sample(30, seed=1),
        ),
        "spectral": (et.SpectralJunctionTree(chain.graph).fit(chain.sample(300, seed=0)), chain.sample(30, seed=1)),
        "online": (et.OnlineEMJunctionTree(et.zoo.Mixture(2), random_state=0).fit(labelled), labelled[:20]),
        "auto": (et.EMJunctionTree("auto", random_state=0).fit(pd.DataFrame(many)), pd.DataFrame(many)[:20]),
        "trees": (trees, trees.sample(20, seed=0)),
        "imputer": (
            et.JunctionTreeImputer(et.EMJunctionTree(et.zoo.Mixture(2), **rows)).fit(labelled),
            labelled[:20],
        ),
        "sequences": (et.EMHMM(2, order=2, **rows).fit(words), words[:10]),
        "chains": (et.EMHMM((2, 2), **rows).fit(words), words[:10]),
        "channels": (et.EMHMM(2, sequence="id", **rows).fit(steps), steps),
        "spectral sequences": (et.SpectralHMM(2).fit(words), words[:10]),
        "no hidden": (
            et.LatentNetwork.random(et.LatentGraph({"a": 2, "b": 2, "c": 2}, [("a", "b")], []), seed=0),
            [[0, 1, 1], [1, 0, 0], [1, 1, 0]],
        ),
    }


def test_every_class_of_model_has_a_page(words: list[str], labelled: pd.DataFrame) -> None:
    for name, (model, X) in models(words, labelled).items():
        page = et.report(model, X, date="2026-01-01").html
        read = Read(page)
        assert len(page.encode()) < 500_000, name
        assert read.tags.count("svg") >= 2, name
        assert "script" not in read.tags
        assert not [
            value for _, key, value in read.attributes if key in ("src", "href") and not str(value).startswith("#")
        ]
        ids = [value for _, key, value in read.attributes if key == "id"]
        assert len(ids) == len(set(ids))
        bare = Read(et.report(model, date="2026-01-01").html)
        assert "were given, so likelihoods" in bare.text, name


def test_labels_and_names_never_become_markup(mixture: et.EMJunctionTree, labelled: pd.DataFrame) -> None:
    made = et.report(mixture, labelled[80:], title="<i>t</i>", source="<u>s</u>.csv", names=["<em>"] * 40)
    read = Read(made.html)
    assert not {"script", "img", "b", "i", "u", "em"} & set(read.tags)
    for text in (*HOSTILE, "<b>odd</b>", "more & more", "<i>t</i>", "<u>s</u>.csv", "<em>"):
        assert text in read.text
    assert not {"script", "img", "i", "u", "em"} & set(Read(made._repr_html_()).tags)


def test_the_same_model_and_rows_are_the_same_page(mixture: et.EMJunctionTree, labelled: pd.DataFrame) -> None:
    one, two = (et.report(mixture, labelled[80:], date="2026-01-01").html for _ in range(2))
    assert one == two
    assert "2026-01-01" in one


def test_the_page_has_the_facts(mixture: et.EMJunctionTree, labelled: pd.DataFrame, tmp_path: Path) -> None:
    made = et.report(mixture, labelled[80:], source="rows.csv")
    read = Read(made.html)
    facts = made.facts
    assert facts.likelihoods is not None
    assert facts.masked is not None
    for text in (
        decimals(facts.likelihoods.mean, 3),
        percent(facts.masked.accuracy),
        f"{mixture.n_parameters_:,}",
        "rows.csv",
        et.__version__,
        "independent columns",
        "Chow-Liu tree",
    ):
        assert text in read.text
    made.save(tmp_path / "report.html")
    assert (tmp_path / "report.html").read_text() == made.html
    assert "kB" in repr(made)
    with pytest.raises(FileError, match="name of a file"):
        made.save("")


def test_a_hundred_columns_are_drawn_and_thousands_are_listed() -> None:
    wide = et.LatentNetwork.random(et.zoo.mixture(columns=120, hidden_states=3, observed_states=2), seed=0)
    page = et.report(wide).html
    assert len(page.encode()) < 500_000
    assert "120 columns, 1 hidden variable" in page
    huge = et.LatentNetwork.random(et.zoo.mixture(columns=600, hidden_states=2, observed_states=2), seed=0)
    page = et.report(huge).html
    assert len(page.encode()) < 500_000
    assert "are too many for a picture" in page


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"model": 3}, "a report is about a LatentNetwork or a fitted estimator"),
        ({"title": 3}, "title is a text"),
        ({"date": 3}, "date is a date"),
        ({"names": [1]}, "1 names, but 40 rows"),
        ({"names": 3}, "names are what rows"),
        ({"lengths": [40]}, "lengths are those of sequences"),
        ({"X": None, "training": [[0]]}, "training is about rows"),
        ({"X": "rows.csv"}, "not a stream"),
        ({"X": [[0]]}, "expecting 3 features"),
    ],
)
def test_errors_say_what_was_wrong(
    change: dict[str, Any], message: str, mixture: et.EMJunctionTree, labelled: pd.DataFrame
) -> None:
    with pytest.raises((ParameterError, DataError), match=message):
        et.report(**{"model": mixture, "X": labelled[80:]} | change)


def test_a_classifier_is_several_models(labelled: pd.DataFrame) -> None:
    estimator = et.EMJunctionTree(et.zoo.Mixture(2), n_init=1, random_state=0, pseudo_counts=0.1)
    y = np.array(["one", "other"])[np.arange(120) % 2]
    with pytest.raises(ParameterError, match="one model per class"):
        et.report(et.JunctionTreeClassifier(estimator).fit(labelled, y))
    as_column = et.JunctionTreeClassifier(estimator, class_as="column").fit(labelled, y)
    assert len(et.report(as_column).facts.adapter.columns.names) == 4
    with pytest.raises(Exception, match="not fitted"):
        et.report(estimator)


# Markup


def test_elements_escape_what_is_no_element() -> None:
    assert element("p", "<b>", Html("<i>x</i>"), None, 1.0, title='"') == '<p title="&quot;">&lt;b&gt;<i>x</i>1</p>'
    assert (
        element("path", d="M0 0", stroke_width=1.5, hidden=True, class_=None)
        == '<path d="M0 0" stroke-width="1.5" hidden/>'
    )
    assert "&lt;x&gt;" in table("<x>", ["a"], [["b"]])


def test_numbers_are_written_as_people_write_them() -> None:
    assert [number(value) for value in (0.0, -0.5, 1234.6, 1e-7, math.nan, math.inf)] == [
        "0",
        "−0.5",
        "1,235",
        "1.0e-07",
        "–",
        "∞",
    ]
    assert decimals(-0.0004, 3) == "0.000"
    assert decimals(-1234.5, 1) == "−1,234.5"
    assert with_error(math.inf, 0.1) == "∞"
    assert with_error(1.0, 0.0) == "1.000 ± 0.000"


def test_pictures_have_names_and_stay_inside() -> None:
    spectra = [
        StepBondReport("h", 2, (), (), np.array([1.0, 0.1, 0.0]), 0.05),
        StepBondReport("flat", 1, (), (), np.ones(1), 0.0),
    ]
    ahead = [Baseline("a", -1.0, 1.0, 0.1), Baseline("b", -2.0, -2.0, 0.5), Baseline("c", 0.0, math.inf, math.nan)]
    bins = [
        CalibrationBin(0.5, 0.6, 3, 0.55, 0.6, 0.1),
        CalibrationBin(0.6, 0.7, 0, math.nan, math.nan, math.nan),
    ]
    charts = [
        spectra_chart(spectra),
        *learning_charts([1.0, 2.0, math.nan], [3.0], "row", "iteration"),
        *learning_charts([2.0, 2.0], [], "row", "iteration"),
        baseline_chart(ahead, "row", "held-out"),
        calibration_chart(bins),
    ]
    pictures = [chart_svg(chart) for chart in charts]
    for made in pictures:
        read = Read(made)
        sizes = {key: value for tag, key, value in read.attributes if tag == "svg"}
        assert ("svg", "role", "img") in read.attributes
        assert {"title", "desc"} <= set(read.tags)
        for tag, key, value in read.attributes:
            if key in ("cx", "x", "x1", "x2"):
                assert 0 <= float(str(value)) <= float(str(sizes["width"])), (tag, key)
            if key in ("cy", "y", "y1", "y2"):
                assert 0 <= float(str(value)) <= float(str(sizes["height"])), (tag, key)
        assert "nan" not in made
        assert "inf" not in made.replace("infin", "")


def test_sequences_that_are_read_already_stay_as_they_are(hmm: et.EMHMM, words: list[str]) -> None:
    read = Sequences.of(words, hmm.columns_)
    np.testing.assert_array_equal(given(hmm, read).log_prob(), given(hmm, words).log_prob())
