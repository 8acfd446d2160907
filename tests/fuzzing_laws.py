"""What every answer must be, whatever the question: sums, shapes, permuted rows, parts that add up, pickles."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pandas as pd
import pytest
from counted_arrays import arrays_of

import eigentree as et


@dataclass(frozen=True)
class Question:
    """A call that is to be made.

    Attributes
    ----------
    label : str
        The name of what is called, with its class.
    call : callable
    arguments : dict
    owner : object
        What it is called on.
    table : array or None
        The codes that the data mean, where they are good.
    """

    label: str
    call: Callable[[], Any]
    arguments: dict[str, Any]
    owner: Any = None
    table: np.ndarray | None = None

    @property
    def name(self) -> str:
        return self.label.rpartition(".")[2]

    def state(self) -> dict[str, int]:
        """What an estimator holds, by identity: a refused call leaves it as it was."""
        if not hasattr(self.owner, "get_params"):
            return {}
        return {name: id(value) for name, value in vars(self.owner).items()}

    def again(self, X: Any) -> Any:
        """The same question about other rows; None where it cannot be asked again."""
        return getattr(self.owner, self.name)(**(self.arguments | {"X": X}))


SEQUENCES = (
    "EMHMM.",
    "MixtureHMM.",
    "SpectralHMM.",
    "HiddenMarkovTree.",
    "LatentGrammar.",
    "SpectralLatentGrammar.",
    "SequenceTagger.",
)
"""How the labels of questions to models of sequences, and of trees, begin."""


class Laws:
    """Laws by the name of the method whose answers they are about."""

    def __init__(self) -> None:
        self._laws: dict[str, list[Callable[[Question, Any], None]]] = {}

    def of(self, *names: str) -> Callable[[Callable[[Question, Any], None]], Callable[[Question, Any], None]]:
        def add(law: Callable[[Question, Any], None]) -> Callable[[Question, Any], None]:
            for name in names:
                self._laws.setdefault(name, []).append(law)
            return law

        return add

    def check(self, question: Question, answer: Any) -> None:
        """Raise an `AssertionError` where an answer breaks a law."""
        # What is asked of tables is not asked of sequences, and pictures of answers are no answers.
        by_name = [] if question.label.startswith((*SEQUENCES, "plot.")) else self._laws.get(question.name, [])
        for law in [*by_name, *self._laws.get(question.label, [])]:
            law(question, answer)


LAWS = Laws()


def _adds_up(tables: Any) -> None:
    assert (tables >= 0).all(), "a probability is negative"
    np.testing.assert_allclose(tables.sum(axis=-1), 1, rtol=1e-9)


@LAWS.of("joint", "conditional")
def _is_a_distribution(question: Question, answer: Any) -> None:
    names = question.arguments["names"]
    if hasattr(answer, "pdf"):
        # The density of a number.
        assert answer.cdf(answer.quantile([0.1, 0.9])) == pytest.approx([0.1, 0.9], abs=1e-6)
        return
    if isinstance(names, list | tuple):
        assert answer.ndim == len(names)
    _adds_up(answer.ravel())


@LAWS.of("predict_proba")
def _rows_are_distributions(question: Question, answer: Any) -> None:
    _adds_up(answer)


@LAWS.of("LatentGrammar.predict_proba")
def _nodes_are_distributions(question: Question, answer: Any) -> None:
    for node in (node for tree in answer for node in tree):
        _adds_up(node)


@LAWS.of("LatentGrammar.parse", "SpectralLatentGrammar.parse")
def _trees_have_the_words_of_their_sentences(question: Question, answer: Any) -> None:
    sentences = question.arguments["sentences"]
    if isinstance(sentences, list):
        words = [each.split() if isinstance(each, str) else getattr(each, "words", each) for each in sentences]
        assert [list(tree.words) for tree in answer] == [list(own) for own in words]


@LAWS.of("LatentGrammar.impute")
def _nothing_is_missing_any_more(question: Question, answer: Any) -> None:
    possible = np.isfinite(question.owner.score_samples(answer))
    for tree in np.flatnonzero(possible):
        assert None not in answer[tree].words


@LAWS.of("posterior")
def _posteriors_are_distributions(question: Question, answer: Any) -> None:
    for table in answer.values() if isinstance(answer, dict) else [answer]:
        _adds_up(table.reshape(len(table), -1))


@LAWS.of("score_samples", "log_prob", "predict_proba", "predict_log_proba", "predict_joint_log_proba", "predict")
def _follows_the_rows(question: Question, answer: Any) -> None:
    """Rows in another order have the answers in that order; so have the same cells in another dress."""
    if question.table is None:
        return
    order = np.random.default_rng(0).permutation(len(question.table))
    assert len(answer) == len(order)
    # Of numbers -1 is one, and no mark of a missing cell.
    table, columns = question.table, getattr(question.owner, "columns_", None)
    if columns is not None and (table[:, list(columns.number_places)] < 0).any():
        return
    if answer.dtype.kind == "f":
        assert not np.isnan(answer).any()
        np.testing.assert_allclose(question.again(table[order]), answer[order], rtol=1e-12, atol=1e-12)
    else:
        assert (question.again(table[order]) == answer[order]).all()


@LAWS.of("score_samples", "log_prob", "LatentGrammar.score_samples", "LatentGrammar.score_sentences")
def _log_probabilities(question: Question, answer: Any) -> None:
    columns = getattr(question.owner, "columns_", None)
    if columns is None or not columns.number_places:
        assert (answer <= 1e-12).all(), "a probability is above 1"


@LAWS.of("impute")
def _fills_what_is_missing_only(question: Question, answer: Any) -> None:
    assert len(answer.shape) == 2
    answer = np.asarray(answer, np.float64)
    if not getattr(getattr(question.owner, "columns_", None), "numbers", ()):
        assert (answer >= 0).all()
    if question.table is not None:
        known = question.table >= 0
        assert (answer[known] == question.table[known]).all()


@LAWS.of("sample")
def _draws_what_is_given(question: Question, answer: Any) -> None:
    answer = np.asarray(answer, np.float64)
    graph = getattr(question.owner, "graph_", None) or question.owner.graph
    assert answer.shape == (question.arguments["n"], len(graph.observed))
    columns = question.owner.columns if isinstance(question.owner, et.LatentNetwork) else question.owner.columns_
    numbers = columns.numbers
    coded = [graph.column(name) for name in graph.observed if name not in numbers]
    assert (answer[:, coded] >= 0).all()
    assert (answer[:, coded] < [graph.states[graph.observed[column]] for column in coded]).all()
    for name, state in (question.arguments["given"] or {}).items():
        assert (state == -1 and name not in numbers) or (answer[:, graph.column(name)] == state).all()


@LAWS.of(
    "EMHMM.filter",
    "EMHMM.predict_proba",
    "MixtureHMM.filter",
    "MixtureHMM.predict_proba",
    "SpectralHMM.filter",
    "HiddenMarkovTree.predict_proba",
    "SequenceTagger.predict_proba",
)
def _steps_have_distributions(question: Question, answer: Any) -> None:
    for chain in answer.values() if isinstance(answer, dict) else [answer]:
        for part in chain if isinstance(chain, list) else [chain]:
            inside = ~np.isnan(part).any(axis=-1)
            _adds_up(part[inside])


@LAWS.of("EMHMM.predict_next_proba", "MixtureHMM.predict_next_proba", "SpectralHMM.predict_next_proba")
def _next_cells_have_distributions(question: Question, answer: Any) -> None:
    _adds_up(answer)


@LAWS.of(
    "EMHMM.score_samples", "MixtureHMM.score_samples", "SpectralHMM.score_samples", "SequenceTagger.score_labels"
)
def _sequences_have_log_probabilities(question: Question, answer: Any) -> None:
    assert not (answer > 1e-12).any(), "a probability is above 1"


@LAWS.of("EMHMM.sample", "MixtureHMM.sample", "SpectralHMM.sample")
def _as_many_as_asked_for(question: Question, answer: Any) -> None:
    if question.arguments.get("inputs") is not None:
        return  # they may say how many there are, and how long
    assert len(answer) == question.arguments["n"]
    assert all(len(each) == question.arguments["length"] for each in answer)


@LAWS.of("EMHMM.fit", "MixtureHMM.fit", "HiddenMarkovTree.fit")
def _fitted_sequences_are_saved_whole(question: Question, answer: Any) -> None:
    assert answer is question.owner
    with TemporaryDirectory() as folder:
        answer.save(f"{folder}/model")
        again = et.load(f"{folder}/model")
    for name, table in answer.tables_.items():
        pairs = [(again.tables_[name], table)]
        if isinstance(table, dict):
            pairs = [(again.tables_[name][key], own) for key, own in table.items()]
        assert all((read == own).all() for read, own in pairs)


@LAWS.of("SpectralHMM.fit", "SpectralHMM.partial_fit", "SpectralHMM.fit_statistics")
def _learned_windows_are_saved_whole(question: Question, answer: Any) -> None:
    assert answer is question.owner
    with TemporaryDirectory() as folder:
        answer.save(f"{folder}/model")
        again = et.load(f"{folder}/model")
    assert str(again.report_) == str(answer.report_)
    for one, other in zip(again.model_.operators, answer.model_.operators, strict=True):
        assert np.array_equal(one, other)


@LAWS.of("fit", "partial_fit", "fit_statistics", "fit_moments")
def _fitted_models_are_pickled_whole(question: Question, answer: Any) -> None:
    assert answer is question.owner
    if question.table is not None:
        ask = {et.JunctionTreeClassifier: "predict_proba", et.JunctionTreeImputer: "transform"}
        asked = ask.get(type(answer), "score_samples")
        scores = getattr(answer, asked)(question.table)
        assert not pd.isna(np.asarray(scores)).any()
        with TemporaryDirectory() as folder:
            file = Path(folder) / "model"
            answer.save(file)
            copies = [pickle.loads(pickle.dumps(answer)), et.load(file)]
        for copy in copies:
            np.testing.assert_array_equal(getattr(copy, asked)(question.table), scores)


def _same_statistics(one: et.Statistics, other: et.Statistics) -> None:
    mine, theirs = arrays_of(one), arrays_of(other)
    # What held the rows is kept with the columns, and may differ.
    assert one.columns == other.columns
    mine.pop("columns"), theirs.pop("columns")
    contents = [json.loads(bytes(arrays.pop("content"))) for arrays in (mine, theirs)]
    for name in ("groups", "rows", "sparse", "sample", "known_to"):
        assert contents[0][name] == contents[1][name]
    assert mine.keys() == theirs.keys()
    for name, array in mine.items():
        np.testing.assert_array_equal(array, theirs[name])


@LAWS.of("Statistics.of")
def _parts_add_up(question: Question, answer: Any) -> None:
    if question.table is None or question.arguments["sample_weight"] is not None:
        return
    settings = {name: value for name, value in question.arguments.items() if name != "X"}
    if isinstance(settings["structure"], et.zoo.Template):
        return
    half = len(question.table) // 2
    if half:
        first, rest = (
            et.Statistics.of(part, **settings) for part in (question.table[:half], question.table[half:])
        )
        _same_statistics(first + rest, answer)
        _same_statistics(answer - rest, first)


@LAWS.of("PairCounts.of")
def _pairs_of_parts_add_up(question: Question, answer: Any) -> None:
    columns = answer.columns
    if question.table is None or question.arguments["sample_weight"] is not None or not columns.plain:
        return
    total = et.PairCounts.empty(columns)
    for part in (question.table[::2], question.table[1::2]):
        total = total + et.PairCounts.empty(columns).update(part) if len(part) else total
    assert total.rows == answer.rows
    np.testing.assert_array_equal(total.matrix, answer.matrix)


@LAWS.of("learn_structure()")
def _is_a_tree_over_the_columns(question: Question, answer: Any) -> None:
    assert len(answer.edges) == len(answer.names) - 1
    assert all(len(answer.parents(name)) <= 1 for name in answer.names)
    table = question.table
    if table is not None:
        assert len(answer.observed) == table.shape[1]
        settings = {name: question.arguments[name] for name in ("method", "hidden_states")}
        one, other = (et.learn_structure(X, **settings) for X in (table, table[::-1]))
        assert one == other


@LAWS.of("dependencies()")
def _nobody_tells_more_than_there_is_to_know(question: Question, answer: Any) -> None:
    given = question.arguments["model"]
    network = given if isinstance(given, et.LatentNetwork) else given.network_
    # What a number can show is not limited.
    states = {**network.graph.states, **dict.fromkeys(network.columns.numbers, np.inf)}
    for one, other, nats in (*answer.columns, *answer.edges, *answer.hidden):
        assert 0 <= nats <= np.log(min(states[one], states[other])) + 1e-9


@LAWS.of("profiles()")
def _profiles_are_distributions(question: Question, answer: Any) -> None:
    for profile in answer.values():
        _adds_up(profile.shares)
        for column in set(profile.columns) - set(profile.numbers):
            for share, row in zip(profile.shares, profile.table(column), strict=True):
                assert np.isnan(row).all() if share == 0 else abs(row.sum() - 1) < 1e-9


@LAWS.of("LabeledTensor.transpose")
def _transposed_is_equivalent(question: Question, answer: Any) -> None:
    assert answer.equivalent(question.owner)


@LAWS.of("LatentNetwork.ordered", "LatentNetwork.relabelled")
def _data_look_the_same(question: Question, answer: Any) -> None:
    names = list(answer.graph.observed)
    np.testing.assert_allclose(answer.joint(names), question.owner.joint(names), atol=1e-12)


@LAWS.of("LatentNetwork.random", "new.LatentNetwork")
def _networks_are_distributions(question: Question, answer: Any) -> None:
    _adds_up(answer.joint(list(answer.graph.observed)).ravel())
