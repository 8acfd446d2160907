"""What is loaded is what was saved: class, parameters, fitted attributes and results, bit-identical."""

from __future__ import annotations

import json
import subprocess
import sys
import warnings
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import networkx
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import stored_formats
from counted_arrays import arrays_of
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from random_graphs import latent_graphs
from safetensors import safe_open
from stored_formats import STORED

import eigentree as et
from eigentree.graphs.junction_tree import JunctionTree
from eigentree.graphs.templates import Template
from eigentree.io.stores import FORMAT, Writer

CHAIN = et.zoo.hmm(6, 2, 2, 3)
LOOP = et.LatentGraph(
    {"h": 2, "x": 3, "y": 2, "z": 3, "w": 2},
    [("h", "x"), ("h", "y"), ("x", "z"), ("y", "w"), ("z", "w")],
    ["h"],
    directed=False,
)
GRAPHS = {
    "chain": CHAIN,
    "loop": LOOP,
    "hub": et.zoo.mixture(6, 3, 3),
    "tree": et.zoo.latent_tree(depth=2, branching=3, hidden_states=2, observed_states=3),
    "column": et.LatentGraph({"x": 3}),
    "independent": et.LatentGraph({"x": 2, "y": 3}),
    "odd names": et.LatentGraph({"é \n": 2, '"': 2, "\ud800": 2}, [("é \n", '"'), ("é \n", "\ud800")], ["é \n"]),
}


def rows_of(graph: et.LatentGraph, count: int = 200) -> np.ndarray:
    """Rows with missing cells."""
    rows = et.LatentNetwork.random(graph, seed=0).sample(count, seed=1).astype(float)
    rows[::5, 0] = np.nan
    rows[1::7, -1] = -1
    return rows


def reloaded(thing: Any, folder: Path) -> Any:
    path = folder / "thing.eigentree"
    thing.save(path)
    found = et.load(path)
    assert type(found) is type(thing)
    return found


def fitted(estimator: Any, rows: np.ndarray, **more: Any) -> Any:
    with warnings.catch_warnings():
        # A few rows support no rank; that is not what is asked here.
        warnings.simplefilter("ignore")
        return estimator.fit(rows, **more)


def assert_same(one: Any, other: Any) -> None:
    """Whatever two values are made of is the same, arrays bit-identical and of the same types."""
    assert type(one) is type(other)
    if isinstance(one, np.ndarray):
        assert one.dtype == other.dtype
        assert_array_equal(one, other)
    elif isinstance(one, dict):
        assert list(one) == list(other)
        for key in one:
            assert_same(one[key], other[key])
    elif isinstance(one, list | tuple):
        assert len(one) == len(other)
        for a, b in zip(one, other, strict=True):
            assert_same(a, b)
    elif isinstance(one, float):
        assert one == other or (one != one and other != other)
    elif isinstance(one, et.LatentNetwork):
        assert one.graph == other.graph
        assert one.given_tree == other.given_tree
        assert_same(one.columns, other.columns)
        assert_same(one.tables, other.tables)
    elif isinstance(one, et.Statistics):
        assert_same(arrays_of(one), arrays_of(other))
    elif hasattr(one, "get_params"):
        assert_same(one.get_params(deep=False), other.get_params(deep=False))
    elif hasattr(one, "__dataclass_fields__"):
        for name in one.__dataclass_fields__:
            if name not in ("conditional_of",):
                assert_same(getattr(one, name), getattr(other, name))
    elif not callable(one):
        assert one == other


def assert_same_estimator(one: Any, other: Any) -> None:
    assert repr(one) == repr(other)
    assert_same(one.get_params(deep=False), other.get_params(deep=False))
    # An estimator remembers what it was fitted to, and a loaded one does not.
    kept = set(vars(one)) - {"_training_"}
    assert kept == set(vars(other))
    for name in kept:
        assert_same(getattr(one, name), getattr(other, name))


def answers(model: Any, rows: np.ndarray) -> list[Any]:
    names = model.graph_.observed
    found = [
        model.score_samples(rows),
        model.sample(20, seed=3),
        model.predict_proba(rows, target=names[0]),
        model.impute(rows),
        model.impute(rows, "sample", seed=4),
        model.joint(list(names[:2])),
    ]
    if len(names) > 1:
        found.append(model.conditional([names[1]], given={names[0]: 0}))
    if not isinstance(model, et.SpectralJunctionTree) and model.graph_.hidden:
        found += [*model.decode(rows), model.bic(rows), model.sample_hidden(rows, seed=5)]
    return found


ESTIMATORS = {
    "spectral": lambda graph: et.SpectralJunctionTree(graph, when_short="warn"),
    "published": lambda graph: et.SpectralJunctionTree(
        graph, views=1, scaling=None, shrinkage=0, when_short="warn", floor=0.01
    ),
    "EM": lambda graph: et.EMJunctionTree(
        graph, init="random", n_init=2, random_state=0, max_iter=4, pseudo_counts=0.1, validation_fraction=0.2
    ),
    "EM from a network": lambda graph: et.EMJunctionTree(
        graph, init=et.LatentNetwork.random(graph, seed=7), max_iter=4, pseudo_counts=0.1
    ),
    "online": lambda graph: et.OnlineEMJunctionTree(graph, random_state=0, passes=2, batch_size=64),
}


@pytest.mark.parametrize("graph", GRAPHS.values(), ids=GRAPHS)
@pytest.mark.parametrize("make", ESTIMATORS.values(), ids=ESTIMATORS)
def test_a_loaded_estimator_is_the_estimator(make: Any, graph: et.LatentGraph, tmp_path: Path) -> None:
    rows = rows_of(graph)
    for weights in (None, np.linspace(0.3, 2.0, len(rows))):
        model = fitted(make(graph), rows, sample_weight=weights)
        again = reloaded(model, tmp_path)
        assert_same_estimator(model, again)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            assert_same(answers(model, rows), answers(again, rows))
            if hasattr(model, "partial_fit"):
                assert_same(
                    answers(model.partial_fit(rows[:90]), rows), answers(again.partial_fit(rows[:90]), rows)
                )
                assert_same_estimator(model, again)
        if isinstance(model, et.SpectralJunctionTree):
            assert str(model.report_) == str(again.report_)


@pytest.mark.parametrize("graph", [CHAIN, GRAPHS["hub"]])
def test_a_loaded_spectral_model_becomes_the_same_network(graph: et.LatentGraph, tmp_path: Path) -> None:
    rows = et.LatentNetwork.random(graph, seed=0).sample(2_000, seed=1)
    model = fitted(et.SpectralJunctionTree(graph), rows)
    again = reloaded(model, tmp_path)
    assert_same(model.to_network(rows), again.to_network(rows))
    assert model.recover().resolved == again.recover().resolved


def test_the_start_report_is_kept(tmp_path: Path) -> None:
    graph = et.zoo.mixture(4, 2, 2)
    model = fitted(et.EMJunctionTree(graph, random_state=0, max_iter=5, pseudo_counts=0.1), rows_of(graph))
    assert model.start_.rungs
    assert repr(reloaded(model, tmp_path).start_) == repr(model.start_)


def test_a_model_of_population_moments_has_no_statistics(tmp_path: Path) -> None:
    model = et.SpectralJunctionTree(CHAIN).fit_moments(et.LatentNetwork.random(CHAIN, seed=0))
    again = reloaded(model, tmp_path)
    assert_same_estimator(model, again)
    assert "statistics_" not in vars(again)


TABLE = {
    "answer": ["yes", "no", None, "yes", "no", "perhaps"] * 30,
    "sure": [True, False, True, None, True, False] * 30,
    "size": [1, 5, 9, 5, 1, 1] * 30,
    "level": [0, 1, 2, 2, 1, 0] * 30,
    "weight": np.round(np.random.default_rng(0).random(180) * 100, 3).tolist(),
}


ANSWERS = ["perhaps", "no", "yes", "never"]


@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow"])
def test_labels_bins_and_frames_are_saved_with_the_model(library: str, tmp_path: Path) -> None:
    frames = {
        "pandas": lambda: pd.DataFrame(TABLE).astype(
            {"answer": pd.CategoricalDtype(["perhaps", "no", "yes", "x"])}
        ),
        "polars": lambda: pl.DataFrame(TABLE),
        "pyarrow": lambda: pa.table(TABLE),
    }
    frame = frames[library]()
    settings = {"numeric": "quantiles", "handle_unknown": "missing", "categories": {"size": np.array([9, 5, 1, 7])}}
    for estimator in (
        et.SpectralJunctionTree(et.zoo.Mixture(), **settings),
        et.OnlineEMJunctionTree(et.zoo.Mixture(), passes=1, random_state=0, **settings),
    ):
        model = fitted(estimator, frame)
        again = reloaded(model, tmp_path)
        assert_same(model.columns_, again.columns_)
        assert again.columns_.labels("size") == (9, 5, 1, 7)
        assert_same(model.score_samples(frame), again.score_samples(frame))
        for asked in ("impute", "sample"):
            arguments = (frame,) if asked == "impute" else (7, 1)
            one, other = (getattr(each, asked)(*arguments) for each in (model, again))
            assert type(one) is type(other) is type(frame)
            assert one.equals(other)
        assert list(again.feature_names_in_) == list(TABLE)
        assert_same(model.columns_, reloaded(reloaded(model, tmp_path), tmp_path).columns_)
    network = model.network_
    assert_same(network, reloaded(network, tmp_path))
    assert_same(model.conditional(["answer"], given={"size": 5}), again.conditional(["answer"], given={"size": 5}))
    classifier = fitted(
        et.JunctionTreeClassifier(et.SpectralJunctionTree(et.zoo.Mixture(), **settings)),
        frame,
        y=["a", "b", "b"] * 60,
    )
    assert_same(classifier.predict_proba(frame), reloaded(classifier, tmp_path).predict_proba(frame))


def test_rows_of_letters_come_back_as_letters(tmp_path: Path) -> None:
    words = ["ACGT", "ACGA", "TTGA", "TCGT"] * 20
    model = fitted(et.SpectralJunctionTree(et.zoo.HMM(), categories="ACGT"), words)
    again = reloaded(model, tmp_path)
    assert again.sample(5, seed=0) == model.sample(5, seed=0)
    assert set("".join(again.sample(5, seed=0))) <= set("ACGT")
    parts = [et.Statistics.of(part, et.zoo.HMM(), categories="ACGT") for part in (words[:30], words[30:])]
    whole = reloaded(parts[0], tmp_path) + reloaded(parts[1], tmp_path)
    assert_same(whole, et.Statistics.of(words, et.zoo.HMM(), categories="ACGT"))
    assert_same(whole, model.statistics_)


def test_a_label_can_be_infinite(tmp_path: Path) -> None:
    rows = np.array([[0.5, np.inf], [np.inf, 0.5], [-np.inf, np.inf]] * 30)
    labels = [-np.inf, 0.5, np.inf, 10**18]
    model = fitted(et.SpectralJunctionTree(et.zoo.Mixture(), categories=labels), rows.astype(object))
    again = reloaded(model, tmp_path)
    assert again.columns_.labels("x0") == tuple(labels)
    assert_same(model.score_samples(rows.astype(object)), again.score_samples(rows.astype(object)))


@given(graph=latent_graphs(), seed=st.integers(0, 100))
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_networks_on_any_graph(graph: et.LatentGraph, seed: int, tmp_path: Path) -> None:
    network = et.LatentNetwork.random(graph, seed=seed)
    again = reloaded(network, tmp_path)
    assert_same(network, again)
    rows = network.sample(10, seed=1)
    rows[::2, 0] = -1
    assert_same(network.log_prob(rows), again.log_prob(rows))
    if graph.hidden:
        assert_same(network.decode(rows), again.decode(rows))
    assert_same(network.sample(5, seed=2), again.sample(5, seed=2))


@pytest.mark.parametrize("graph", [CHAIN, LOOP])
def test_a_network_keeps_the_tree_that_it_was_given(graph: et.LatentGraph, tmp_path: Path) -> None:
    tree = JunctionTree.build(graph, root=graph.observed[-1])
    network = et.LatentNetwork.random(graph, seed=0, tree=tree)
    again = reloaded(network, tmp_path)
    assert again.tree == tree
    rows = rows_of(graph)
    assert_same(network.log_prob(rows), again.log_prob(rows))


@pytest.mark.parametrize(
    "labels",
    [
        ["yes", "no", "perhaps"],
        [3, 1, 2],
        [True, False, True],
        [0.5, -1.5, np.inf],
        np.array(["b", "a", "cc"], object),
        np.array([5, 250, 7], np.uint8),
        np.array(["2020-01-01", "2021-05-05", "2019-01-01"], "datetime64[D]"),
    ],
    ids=lambda labels: str(np.asarray(labels).dtype),
)
def test_classes_keep_their_labels(labels: Any, tmp_path: Path) -> None:
    rows = rows_of(CHAIN, 180)
    y = np.repeat(np.asarray(labels), 60)
    model = fitted(et.JunctionTreeClassifier(et.SpectralJunctionTree(CHAIN)), rows, y=y)
    again = reloaded(model, tmp_path)
    assert_same(model.classes_, again.classes_)
    assert_same(model.predict(rows), again.predict(rows))
    assert_same(model.predict_proba(rows), again.predict_proba(rows))
    assert_same(model.tried_, again.tried_)
    assert_same(model.class_prior_, again.class_prior_)
    assert (model.shrinkage_, model.n_features_in_) == (again.shrinkage_, again.n_features_in_)
    for one, other in zip(model.estimators_, again.estimators_, strict=True):
        assert_same_estimator(one, other)
    # All classes were planned once, and are so again.
    assert len({id(each.plan_) for each in again.estimators_}) == 1


@pytest.mark.parametrize(
    "estimator",
    [
        et.EMJunctionTree(et.zoo.HMM(), init="random", n_init=1, max_iter=3, pseudo_counts=1, random_state=0),
        et.OnlineEMJunctionTree(CHAIN, passes=1, random_state=0),
    ],
    ids=lambda each: type(each).__name__,
)
def test_classifiers_of_other_estimators(estimator: Any, tmp_path: Path) -> None:
    rows = rows_of(CHAIN)
    model = fitted(et.JunctionTreeClassifier(estimator), rows, y=np.arange(200) % 2)
    again = reloaded(model, tmp_path)
    assert "shrinkage_" not in vars(again)
    assert_same(model.predict_proba(rows), again.predict_proba(rows))
    assert repr(model) == repr(again)


@pytest.mark.parametrize(
    "estimator",
    [
        et.SpectralJunctionTree(et.zoo.HMM()),
        et.EMJunctionTree(CHAIN, init="random", n_init=1, max_iter=3, pseudo_counts=1, random_state=0),
    ],
    ids=lambda each: type(each).__name__,
)
def test_a_class_that_is_a_column_and_an_imputer(estimator: Any, tmp_path: Path) -> None:
    drawn = rows_of(CHAIN)
    rows = drawn[:, :-1]
    labels = np.array(["a", "b", "c"])[np.maximum(drawn[:, -1], 0).astype(int)]
    model = fitted(et.JunctionTreeClassifier(estimator, class_as="column"), rows, y=labels)
    again = reloaded(model, tmp_path)
    assert_same(model.predict_joint_log_proba(rows), again.predict_joint_log_proba(rows))
    assert_same(model.class_prior_, again.class_prior_)
    assert (again.class_column_, again.columns_) == (model.class_column_, model.columns_)
    assert_same_estimator(model.estimator_, again.estimator_)
    assert repr(model) == repr(again)
    imputer = fitted(et.JunctionTreeImputer(estimator, "sample", random_state=3), drawn)
    drawn[::3, 1] = -1
    assert_same(imputer.transform(drawn), reloaded(imputer, tmp_path).transform(drawn))
    assert_same_estimator(imputer.estimator_, reloaded(imputer, tmp_path).estimator_)
    unfitted = reloaded(et.JunctionTreeImputer(), tmp_path)
    assert (unfitted.estimator, unfitted.method) == (None, "mode")


@pytest.mark.parametrize("output", ["default", "pandas", "polars"])
def test_an_imputer_hands_out_what_it_was_told_to(output: Any, tmp_path: Path) -> None:
    imputer = et.JunctionTreeImputer(et.SpectralJunctionTree(CHAIN))
    assert reloaded(imputer, tmp_path).output is None
    assert reloaded(imputer.set_output(transform=output), tmp_path).output == output, "fitted or not"
    frame = pd.DataFrame(rows_of(CHAIN), columns=CHAIN.observed)
    fitted(imputer, frame)
    again = reloaded(imputer, tmp_path)
    assert set(vars(again)) == set(vars(imputer))
    assert type(again.transform(frame)) is (pl.DataFrame if output == "polars" else pd.DataFrame)
    assert type(again.transform(frame)) is type(imputer.transform(frame))


@pytest.mark.parametrize("output", ["dask", 3, ["pandas"], "pandas "])
def test_frames_that_an_imputer_cannot_hand_out_are_no_setting(output: Any, tmp_path: Path) -> None:
    path = tmp_path / "thing.eigentree"
    content = {"parameters": {}, "fitted": None, "output": output}
    Writer().save(path, "JunctionTreeImputer", content)
    with pytest.raises(et.FileError, match="output"):
        et.load(path)
    Writer().save(path, "EMJunctionTree", content | {"output": "pandas"})
    with pytest.raises(et.FileError, match="'output'"):
        et.load(path)


def test_labels_that_no_file_holds_are_refused(tmp_path: Path) -> None:
    model = fitted(
        et.JunctionTreeClassifier(et.SpectralJunctionTree(CHAIN)), rows_of(CHAIN), y=np.array([b"a", b"b"] * 100)
    )
    with pytest.raises(et.FileError, match=r"of the type \|S1, which a file cannot hold; use strings"):
        model.save(tmp_path / "model.eigentree")
    assert not list(tmp_path.iterdir())


def plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value


def test_parameters_come_back_as_they_were(tmp_path: Path) -> None:
    kinds = [
        et.SpectralJunctionTree(et.zoo.HMM(order=2, hidden_states=3), shrinkage=np.inf, max_rank=np.int64(4)),
        et.SpectralJunctionTree(et.zoo.FactorialHMM(levels=2, hidden_states=[2, 3])),
        et.SpectralJunctionTree(et.zoo.LatentTree(branching=3)),
        et.EMJunctionTree(et.zoo.SemiHiddenMarkov(), tol=1e-300, random_state=np.uint8(7)),
        et.EMJunctionTree(LOOP, init=et.LatentNetwork.random(LOOP, seed=0), accelerate=False),
        et.OnlineEMJunctionTree(CHAIN, init=None, stepsize=0.9),
        et.JunctionTreeClassifier(et.SpectralJunctionTree(et.zoo.Mixture())),
    ]
    for estimator in kinds:
        again = reloaded(estimator, tmp_path)
        assert not again.__sklearn_is_fitted__()
        # A number of numpy's comes back as Python's.
        asked = [{name: plain(value) for name, value in each.get_params().items()} for each in (estimator, again)]
        assert_same(*asked)
    assert type(reloaded(kinds[0], tmp_path).max_rank) is int
    fraction = et.SpectralJunctionTree(CHAIN, floor=Fraction(1, 8))
    assert reloaded(fraction, tmp_path).floor == 0.125


def test_a_generator_is_dropped(tmp_path: Path) -> None:
    for source in (np.random.default_rng(0), np.random.RandomState(0)):
        model = et.EMJunctionTree(CHAIN, init="random", n_init=1, random_state=source, max_iter=2, pseudo_counts=0)
        assert reloaded(fitted(model, rows_of(CHAIN)), tmp_path).random_state is None


def test_the_fitted_graph_is_the_structure(tmp_path: Path) -> None:
    """So a loaded estimator that is fitted again plans once."""
    again = reloaded(fitted(et.SpectralJunctionTree(CHAIN), rows_of(CHAIN)), tmp_path)
    assert again.graph_ is again.structure


def test_a_graph_of_another_library_is_saved_as_ours(tmp_path: Path) -> None:
    graph = networkx.DiGraph([("h", "x0"), ("h", "x1"), ("h", "x2")])
    graph.add_node("h", hidden=True, states=2)
    rows = et.LatentNetwork.random(et.zoo.mixture(3, 2, 2), seed=0).sample(200, seed=1)
    model = fitted(et.SpectralJunctionTree(graph), rows)
    again = reloaded(model, tmp_path)
    assert again.structure is again.graph_ == model.graph_
    assert_same(model.score_samples(rows), again.score_samples(rows))
    classifier = fitted(et.JunctionTreeClassifier(et.SpectralJunctionTree(graph)), rows, y=np.arange(200) % 2)
    assert reloaded(classifier, tmp_path).estimator.structure == model.graph_
    with pytest.raises(et.GraphError, match="'x0' has no number of states, and there are no data that show it"):
        et.SpectralJunctionTree(graph).save(tmp_path / "unfitted")
    with pytest.raises(et.GraphError, match="the structure is a LatentGraph, a template"):
        et.SpectralJunctionTree("chains").save(tmp_path / "unfitted")
    with pytest.raises(
        et.GraphError, match=r"'hmm' is a name on the command line only; in Python it is et\.zoo\.HMM"
    ):
        et.SpectralJunctionTree("hmm").save(tmp_path / "unfitted")


@dataclass(frozen=True)
class Own(Template):
    def _over(self, columns: Any) -> et.LatentGraph:
        return et.LatentGraph(columns)


class OwnModel(et.SpectralJunctionTree):
    pass


@pytest.mark.parametrize(
    ("thing", "message"),
    [
        (et.SpectralJunctionTree(Own()), "structure is a template of your own class Own"),
        (et.SpectralJunctionTree(CHAIN, views={1}), "the parameter views is a set, which a file cannot hold"),
        (et.JunctionTreeClassifier(len), "the parameter estimator is a builtin_function_or_method"),
        (OwnModel(CHAIN), "a file holds eigentree's own estimators, not a OwnModel"),
    ],
)
def test_what_a_file_cannot_hold_is_named(thing: Any, message: str, tmp_path: Path) -> None:
    path = tmp_path / "old"
    path.write_text("old")
    with pytest.raises(et.FileError, match=message):
        thing.save(path)
    assert path.read_text() == "old"


def test_statistics_add_up_after_loading(tmp_path: Path) -> None:
    wide = et.zoo.hmm(5, 1, 2, 60)
    for graph in (CHAIN, wide, LOOP):
        rows = rows_of(graph, 300)
        parts = [et.Statistics.of(part, graph, when_short="warn") for part in (rows[:100], rows[100:])]
        loaded = [reloaded(part, tmp_path) for part in parts]
        assert_same(loaded[0] + loaded[1], parts[0] + parts[1])
        assert_same(loaded[0] + parts[1], et.Statistics.of(rows, graph, when_short="warn"))
        parts[0].save(str(tmp_path / "statistics"))
        assert_same(et.Statistics.load(str(tmp_path / "statistics")) - parts[0], parts[0] - parts[0])
    many = et.Statistics.of(
        et.LatentNetwork.random(et.zoo.hmm(8, 1, 2, 4), seed=0).sample(3_000, seed=1), et.zoo.HMM()
    )
    assert len(many.sample.hashes) < 3_000
    assert many.sample.known_to < 2**64 - 1
    assert_same(many, reloaded(many, tmp_path))
    assert et.Statistics.of(rows_of(wide), wide).counts.sparse


def test_statistics_are_no_model(tmp_path: Path) -> None:
    et.LatentNetwork.random(CHAIN, seed=0).save(tmp_path / "network")
    with pytest.raises(et.FileError, match=r"it holds a LatentNetwork, not statistics; eigentree\.load loads it"):
        et.Statistics.load(tmp_path / "network")


def test_other_programs_read_the_file(tmp_path: Path) -> None:
    network = et.LatentNetwork.random(CHAIN, seed=0)
    network.save(tmp_path / "network.safetensors")
    with safe_open(tmp_path / "network.safetensors", "numpy") as file:
        assert set(file.metadata()) == {"eigentree", "sha256"}
        flat = np.concatenate([table.ravel() for table in network.tables.values()])
        assert_array_equal(file.get_tensor("tables"), flat)
    # Every array starts where its type can be read in place.
    fitted(et.SpectralJunctionTree(CHAIN), rows_of(CHAIN)).save(tmp_path / "model.safetensors")
    with safe_open(tmp_path / "model.safetensors", "numpy") as file:
        assert "statistics.sample_codes" in file.keys()  # noqa: SIM118
    raw = (tmp_path / "model.safetensors").read_bytes()
    assert int.from_bytes(raw[:8], "little") % 8 == 0


def test_saving_twice_gives_the_same_bytes(tmp_path: Path) -> None:
    model = fitted(et.SpectralJunctionTree(CHAIN), rows_of(CHAIN))
    model.save(tmp_path / "one")
    et.load(tmp_path / "one").save(tmp_path / "two")
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()


def test_another_process_gives_the_same_bits(tmp_path: Path) -> None:
    rows = rows_of(CHAIN)
    model = fitted(et.SpectralJunctionTree(CHAIN), rows)
    model.save(tmp_path / "model")
    np.save(tmp_path / "rows.npy", rows)
    script = (
        "import sys, numpy as np, eigentree as et; model = et.load(sys.argv[1]); "
        "print(model.score_samples(np.load(sys.argv[2])).tobytes().hex()); assert 'sklearn' not in sys.modules"
    )
    run = [sys.executable, "-c", script, tmp_path / "model", tmp_path / "rows.npy"]
    printed = subprocess.run(run, capture_output=True, text=True, check=True).stdout
    assert bytes.fromhex(printed.strip()) == model.score_samples(rows).tobytes()


def stored_files() -> list[Path]:
    return sorted(STORED.glob("format-*/*.eigentree"))


@pytest.mark.parametrize("path", stored_files(), ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_files_of_every_released_format_are_loaded(path: Path, tmp_path: Path) -> None:
    expected = json.loads((path.parent / "answers.json").read_text())[path.stem]
    thing = et.load(path)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert_allclose(stored_formats.answers(thing), expected, rtol=1e-7)
        if hasattr(thing, "partial_fit"):
            thing.partial_fit(stored_formats.labelled_rows())
    assert_same(thing, reloaded(thing, tmp_path))


def test_a_report_of_format_1_0_is_the_present_one() -> None:
    """It has what operators were learned through, and with hubs also the nodes learned apart."""
    old, new = (et.load(STORED / form / "hub.eigentree").report_ for form in ("format-1.0", "format-1.1"))
    assert (old.hubs, old.parameters) == (new.hubs, new.parameters)
    assert old.hubs == 1


def test_the_present_format_is_stored() -> None:
    assert {path.stem for path in STORED.glob("format-{}.{}/*.eigentree".format(*FORMAT))} == set(
        json.loads((STORED / "format-{}.{}".format(*FORMAT) / "answers.json").read_text())
    )
    assert sum(path.stat().st_size for path in stored_files()) < 200_000
