"""Parts of files that were made up: each rule of a tree, a plan or statistics broken in turn, the digest right."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from corruptions import header_of, resealed

import eigentree as et

LOOP = et.LatentGraph(
    {"h": 2, "x": 2, "y": 2, "z": 2}, [("h", "x"), ("h", "y"), ("x", "z"), ("y", "z")], ["h"], directed=False
)
ROWS = et.LatentNetwork.random(et.zoo.mixture(6, 2, 3), seed=0).sample(300, seed=1)


def refusal(thing: Any, change: Callable[[dict[str, Any]], None], path: Path) -> str:
    """Why a file is refused whose document was changed."""
    thing.save(path)
    header, data = header_of(path.read_bytes())
    document = json.loads(header["__metadata__"]["eigentree"])
    change(document)
    header["__metadata__"]["eigentree"] = json.dumps(document, separators=(",", ":"))
    path.write_bytes(resealed(header, data))
    with pytest.raises(et.FileError) as caught:
        et.load(path)
    return str(caught.value).split("cannot be loaded: it is damaged: ")[1]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda tree: tree["nodes"].clear(), "a node of a junction tree has five entries"),
        (lambda tree: tree["nodes"][0].__setitem__(0, 1), "a tree begins with its root"),
        (
            lambda tree: tree["nodes"][-1].__setitem__(0, len(tree["nodes"]) - 1),
            "the nodes of a tree stand in preorder",
        ),
        (lambda tree: tree["nodes"][1].__setitem__(1, 99), "the origin of a node is a whole number"),
        (lambda tree: tree["nodes"][-1].__setitem__(2, 5), "the observed variable of a node is a name or null"),
        (lambda tree: tree["nodes"][-1].__setitem__(2, None), "leaves, and they alone, hold a column"),
        (lambda tree: tree["nodes"][-1].__setitem__(2, "h"), "a leaf distributes its own column"),
        (lambda tree: tree["nodes"][0][4].pop(), "a separator is not held above, or a node by no clique"),
        (lambda tree: tree["cliques"][0].__setitem__(0, "nobody"), "a clique holds variables of its graph"),
        (lambda tree: tree["cliques"].append(["x"]), "the parents of cliques stand before them"),
        (
            lambda tree: tree["clique_parents"].__setitem__(-1, -1),
            "cliques that share a variable are not connected",
        ),
        (lambda tree: tree["clique_parents"].__setitem__(0, 0), "the parents of cliques stand before them"),
    ],
)
def test_trees(change: Callable[[Any], None], message: str, tmp_path: Path) -> None:
    network = et.LatentNetwork.random(LOOP, seed=0)
    assert refusal(network, lambda d: change(d["content"]["tree"]), tmp_path / "f").startswith(message)


def test_a_tree_that_lacks_a_family(tmp_path: Path) -> None:
    """A tree of a graph without one of the edges is a junction tree, but not of this graph."""
    network = et.LatentNetwork.random(et.LatentGraph(LOOP.states, LOOP.edges[:3], ["h"], directed=False), seed=0)
    told = refusal(network, lambda d: d["graphs"][0]["edges"].append(["y", "z"]), tmp_path / "f")
    assert told == "a family of the graph stands in no clique"


def test_a_tree_that_is_too_large(tmp_path: Path) -> None:
    network = et.LatentNetwork.random(LOOP, seed=0)

    def change(document: dict[str, Any]) -> None:
        document["graphs"][0]["states"][0][1] = 2**30

    assert "has 1.07e+09 joint states" in refusal(network, change, tmp_path / "f")


def set_all(content: Any, name: str, value: Any) -> None:
    for each in content:
        each[name] = value


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda plan: set_all(plan["nodes"], "parent", -1), "the nodes of a tree stand in preorder"),
        (lambda plan: plan["nodes"][-1].update(observed="x0"), "each column has one leaf in a plan"),
        (lambda plan: plan["nodes"][1].update(rank=3), "the rank of a node is more than its separator allows"),
        (lambda plan: plan["nodes"][0].update(rank=0), "a node of a plan: rank is a whole number from 1"),
        (lambda plan: plan["nodes"][1].update(passed=[]), "an edge of a plan passes its own separator first"),
        (lambda plan: plan["nodes"][0].update(inside=["x0"]), "the root of a plan has no views"),
        (lambda plan: plan["nodes"][-1].update(inside=[]), "an edge has no view"),
        (lambda plan: plan["nodes"][-1].update(outside=[[]]), "an edge has no view"),
        (lambda plan: plan["nodes"][-1].update(inside=["x0"]), "a view looks at the wrong side of its edge"),
        (lambda plan: plan["nodes"][-1].update(outside=[["x5"]]), "a view looks at the wrong side of its edge"),
        (lambda plan: plan["nodes"][-1].update(inside=["x5", "x5"]), "a plan names a variable twice"),
        (lambda plan: plan["nodes"][-1].update(separator=["nobody"]), "a plan names a variable twice, or one that"),
        (lambda plan: plan["hubs"][0]["nodes"].pop(), "a hub is not made of nodes of its plan"),
        (lambda plan: plan["hubs"][0]["nodes"].append(0), "a hub is not made of nodes of its plan"),
        (lambda plan: plan["hubs"][0].update(rooted=False), "a hub is not made of nodes of its plan"),
        (lambda plan: plan["hubs"][0].update(circles=[]), "a hub is not made of nodes of its plan"),
        (lambda plan: plan["hubs"][0]["branches"].pop(), "a branch of a circle is a whole number"),
        (lambda plan: plan["hubs"][0]["branches"][0].__setitem__(1, []), "no column represents a branch of a hub"),
        (lambda plan: plan.update(hubs=[]), "a fit has no hubs to be learned together"),
    ],
)
def test_plans(change: Callable[[Any], None], message: str, tmp_path: Path) -> None:
    model = et.SpectralJunctionTree(et.zoo.Mixture(), shrinkage=0.4).fit(ROWS)
    assert refusal(model, lambda d: change(d["plans"][0]), tmp_path / "f").startswith(message)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda content: max(content["groups"], key=len).reverse(), "a group of columns has each once, in order"),
        (lambda content: content["groups"].append(content["groups"][0]), "groups of columns are at least one"),
        (lambda content: content["groups"].clear(), "groups of columns are at least one"),
        (lambda content: content["groups"].pop(0), "the array 'dense' is I64 or F64 of shape"),
        (lambda content: content.update(rows=-1), "the number of rows is no number of at least 0"),
        (lambda content: content.update(rows="many"), "the number of rows is no number of at least 0"),
        (lambda content: content.update(sample=5000), "statistics: sample is a whole number from 0 to 2000"),
        (lambda content: content.update(known_to=0), "the hashes of the row sample are not in order"),
        (lambda content: content.update(sparse=[1]), "there is not one sparse table per large group"),
        (
            lambda content: content["columns"]["states"].__setitem__(0, 2),
            "the array 'dense' is I64 or F64 of shape",
        ),
        (
            lambda content: content["columns"].update(more=1),
            "a description of columns has an entry 'more', which is not known",
        ),
    ],
)
def test_statistics(change: Callable[[Any], None], message: str, tmp_path: Path) -> None:
    statistics = et.Statistics.of(ROWS, et.zoo.HMM())
    assert refusal(statistics, lambda d: change(d["content"]), tmp_path / "f").startswith(message)


def test_statistics_of_another_plan_are_not_gone_on_with(tmp_path: Path) -> None:
    """Counts that lack a group of the plan could not be learned from."""
    model = et.SpectralJunctionTree(et.zoo.HMM(), views=1, shrinkage=0.4).fit(ROWS)
    other = et.SpectralJunctionTree(et.zoo.HMM(), views=6, shrinkage=0.4).fit(ROWS)
    vars(other)["statistics_"] = model.statistics_
    assert "were not counted together" in refusal(other, lambda document: None, tmp_path / "f")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda fitted: fitted["classes"].update(labels=["b", "a"]),
            "labels of classes are at least two, in order",
        ),
        (lambda fitted: fitted["classes"].update(labels=["a", 1]), "labels of classes are not of the type"),
        (lambda fitted: fitted["classes"].update(type="|S3"), "labels of classes are a list, and of a type"),
        (lambda fitted: fitted["classes"].update(labels=["a", "bbbb"]), "labels of classes are not of the type"),
        (
            lambda fitted: fitted["estimators"][0]["content"].update(fitted=None),
            "the models are fitted, and are of the same columns",
        ),
    ],
)
def test_classes(change: Callable[[Any], None], message: str, tmp_path: Path) -> None:
    model = et.JunctionTreeClassifier(et.SpectralJunctionTree(et.zoo.HMM(), shrinkage=0.4))
    model.fit(ROWS, np.repeat(["a", "b"], 150))
    told = refusal(model, lambda d: change(d["content"]["fitted"]), tmp_path / "f")
    assert told.startswith(message)


@pytest.mark.parametrize("entry", [5e-324, 0.0, 0.5, 1e308])
def test_operators_are_normalised(entry: float, tmp_path: Path) -> None:
    """The first entry of the root is that of the constant features: the sum over all rows."""
    path = tmp_path / "f"
    et.SpectralJunctionTree(et.zoo.Mixture(2)).fit(ROWS).save(path)
    header, data = header_of(path.read_bytes())
    (place,) = (header[name]["data_offsets"][0] for name in header if name.endswith("model.fit.cores"))
    assert np.frombuffer(data[place : place + 8])[0] == pytest.approx(1.0)
    path.write_bytes(resealed(header, data[:place] + np.float64(entry).tobytes() + data[place + 8 :]))
    with pytest.raises(et.FileError, match=r"the operators of a model sum to .* over all rows, not to 1"):
        et.load(path)


def test_classifiers_of_sequences(tmp_path: Path) -> None:
    """Steps are encoded by the columns of the classifier, and looked up in the tables of its models."""
    rows = np.random.default_rng(0).integers(0, 3, (20, 5))
    hmm = et.EMHMM(2, max_iter=2, n_init=1, init="random", random_state=0)
    tagger = et.SequenceTagger(hmm).fit(rows, rows > 1)
    classifier = et.JunctionTreeClassifier(hmm).fit(rows, np.arange(20) % 2)

    def more_states(document: dict[str, Any]) -> None:
        document["content"]["fitted"]["columns"]["states"][0] += 1

    for thing in (tagger, classifier):
        told = refusal(thing, more_states, tmp_path / "f")
        assert told.startswith("the columns of a classifier of sequences are those of its models")


def test_of_format_1_0_only_its_own_arrays_are_left_out(tmp_path: Path) -> None:
    header, data = header_of((Path(__file__).parents[1] / "stored/format-1.0/hub.eigentree").read_bytes())
    (name,) = (each for each in header if each.endswith("apart.noise"))
    changed = {f"{each}s" if each == name else each: place for each, place in header.items()}
    (tmp_path / "f").write_bytes(resealed(changed, data))
    with pytest.raises(et.FileError, match=r"apart\.noises' that belongs to nothing"):
        et.load(tmp_path / "f")


def test_hidden_markov_trees_have_chains_of_trees(tmp_path: Path) -> None:
    settings: dict[str, Any] = {"init": "random", "n_init": 1, "max_iter": 1, "random_state": 0}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tree = et.HiddenMarkovTree(2, **settings).fit(["(a (b c))", "(b c)"])
        chain = et.EMHMM(2, **settings).fit([list("abcab")] * 3)

    for thing, of_trees in ((tree, None), (chain, True)):

        def change(whole: dict[str, Any], given: bool | None = of_trees) -> None:
            whole["content"]["fitted"]["chain"]["of_trees"] = given

        assert "it alone, has a chain of trees" in refusal(thing, change, tmp_path / "f")
