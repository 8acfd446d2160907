"""What may be given as structure: templates, and graphs of other libraries, made whole by the data's columns."""

from __future__ import annotations

import pickle
import warnings
from typing import Any

import networkx as nx
import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal
from pgmpy.base import DAG
from pgmpy.factors.discrete import DiscreteFactor, TabularCPD
from pgmpy.models import DiscreteBayesianNetwork, DiscreteMarkovNetwork
from sklearn.base import clone

import eigentree as et
from eigentree import zoo
from eigentree.errors import GraphError
from eigentree.graphs.coercion import as_structure

with warnings.catch_warnings():
    # SWIG's builtin types warn while pyagrum loads; as an error that would crash the interpreter.
    warnings.simplefilter("ignore")
    import pyagrum

EDGES = [("mood", "sleep"), ("mood", "appetite"), ("mood", "energy")]
GRAPH = et.LatentGraph({"mood": 2, "sleep": 4, "appetite": 3, "energy": 2}, EDGES, ["mood"])
ROWS = et.LatentNetwork.random(GRAPH, seed=0).sample(300, seed=1)
FRAME = pd.DataFrame(ROWS, columns=GRAPH.observed)
COLUMNS = ([3, 2, 4], ["appetite", "energy", "sleep"])  # in another order than the nodes'


def of_networkx(**hidden: Any) -> nx.DiGraph:
    graph = nx.DiGraph(EDGES)
    graph.add_node("mood", **hidden)
    return graph


def of_pgmpy() -> DiscreteBayesianNetwork:
    model = DiscreteBayesianNetwork(EDGES, latents={"mood"})
    model.add_cpds(TabularCPD("mood", 2, [[0.5], [0.5]]))
    return model


def of_pyagrum(names: str = "mood[2]->sleep[4];mood->appetite[3];mood->energy[2]") -> Any:
    return pyagrum.fastBN(names)


FOREIGN = {"networkx": lambda: of_networkx(hidden=True, states=2), "pgmpy": of_pgmpy, "pyagrum": of_pyagrum}
each_library = pytest.mark.parametrize("make", FOREIGN.values(), ids=FOREIGN.keys())


@each_library
def test_columns_found_by_name_make_a_graph_whole(make: Any) -> None:
    assert as_structure(make(), *COLUMNS) == GRAPH


@pytest.mark.parametrize("make", [FOREIGN["networkx"], FOREIGN["pgmpy"]], ids=["networkx", "pgmpy"])
def test_columns_without_names_are_the_observed_nodes_in_turn(make: Any) -> None:
    assert as_structure(make(), [4, 3, 2]) == GRAPH


def test_columns_of_pyagrum_without_names_are_called_as_those_of_templates() -> None:
    graph = as_structure(of_pyagrum("h[2]->x1[3];h->x0[4]"), [4, 3])
    assert graph.hidden == ("h",)
    assert graph.observed == ("x0", "x1"), "the order of the data, which is not that of the network"
    assert [graph.states[name] for name in graph.observed] == [4, 3]
    assert set(graph.edges) == {("h", "x0"), ("h", "x1")}


def test_what_a_node_says_goes_before_the_data() -> None:
    graph = of_networkx(hidden=True, states=2)
    graph.nodes["sleep"]["states"] = 9
    assert as_structure(graph, *COLUMNS).states["sleep"] == 9
    model = of_pgmpy()
    model.add_cpds(TabularCPD("sleep", 9, np.full((9, 2), 1 / 9), ["mood"], [2]))
    assert as_structure(model, *COLUMNS).states["sleep"] == 9


def test_a_graph_that_says_everything_needs_no_data() -> None:
    graph = of_networkx(hidden=True, states=2)
    for name in ("sleep", "appetite", "energy"):
        graph.nodes[name]["states"] = GRAPH.states[name]
    assert as_structure(graph) == GRAPH
    truth = et.LatentNetwork.random(GRAPH, seed=0)
    given, own = (et.SpectralJunctionTree(each).fit_moments(truth) for each in (graph, GRAPH))
    assert_array_equal(given.score_samples(ROWS), own.score_samples(ROWS))
    undirected = nx.Graph(EDGES)
    undirected.add_nodes_from((name, {"states": GRAPH.states[name]}) for name in GRAPH.names)
    undirected.nodes["mood"]["hidden"] = True
    assert as_structure(undirected) == et.LatentGraph(dict(GRAPH.states), EDGES, ["mood"], directed=False)


def test_other_models_of_pgmpy() -> None:
    plan = DAG(EDGES, latents={"mood"})
    plan.nodes["mood"]["states"] = 2
    assert as_structure(plan, *COLUMNS) == GRAPH
    field = DiscreteMarkovNetwork(EDGES, latents={"mood"})
    field.add_factors(DiscreteFactor(["mood", "sleep"], [2, 4], np.ones(8)))
    assert not (graph := as_structure(field, *COLUMNS)).directed
    assert (graph.hidden, dict(graph.states)) == (("mood",), dict(GRAPH.states))


def test_graphs_and_templates_are_what_they_were() -> None:
    assert as_structure(GRAPH) is GRAPH
    assert as_structure(GRAPH, [2], ["other"]) is GRAPH
    assert as_structure(zoo.HMM(2), [3, 4], ["a", "b"]) == zoo.HMM(2).build([3, 4], ["a", "b"])
    assert as_structure(zoo.HMM(2), [3, 4]).observed == ("x0", "x1")


# What is refused.


@pytest.mark.parametrize(
    ("structure", "columns", "message"),
    [
        (zoo.HMM, COLUMNS, r"the structure is HMM, which is a class; add \(\): HMM\(\) or HMM\(hidden_states=3\)"),
        (zoo.Mixture, (), r"add \(\): Mixture\(\)"),
        ("chains", COLUMNS, "or a graph of networkx, pgmpy or pyagrum, not 'chains'"),
        (None, COLUMNS, "not NoneType"),
        (nx.DiGraph, COLUMNS, "not type"),
        (zoo.hmm, COLUMNS, "not function"),
        (zoo.HMM(), (), r"HMM\(order=1, hidden_states=2\) is built for the columns of some data"),
        (of_networkx(hidden=True), COLUMNS, "'mood' has no number of states, and it is hidden.*attribute 'states'"),
        (of_networkx(), COLUMNS, "node 'mood' is neither hidden nor a column of the data; .*'hidden' to True"),
        (of_networkx(hidden=True, states=2), ([3], ["sleeps"]), r"node 'sleep' .* did you mean 'sleeps'\?"),
        (
            of_networkx(hidden=True, states=2),
            (),
            "'sleep' has no number of states, and there are no data that show it",
        ),
        (of_networkx(hidden=True, states=2), ([2, 2],), "3 observed nodes, but the data 2 columns; .*'hidden'"),
        (
            of_networkx(hidden=True, states=0),
            COLUMNS,
            "the number of states of 'mood' is a whole number of at least 1, not 0",
        ),
        (nx.MultiDiGraph([("energy", "sleep")]), COLUMNS, "a networkx multigraph has parallel edges"),
        (nx.DiGraph([(0, 1)]), ([2, 2],), "variable names are non-empty strings, not 0"),
        (nx.DiGraph(), ([2, 2],), "0 observed nodes, but the data 2 columns"),
        (DiscreteBayesianNetwork(EDGES), COLUMNS, "node 'mood' .* name it among the model's latents"),
        (DiscreteBayesianNetwork(EDGES, latents={"mood"}), COLUMNS, "it is hidden, .*; add its CPD"),
        (of_pyagrum(), (), r"does not say which .* are hidden; give LatentGraph.from_pyagrum\(net, hidden="),
        (of_pyagrum(), ([2, 2], ["sleep", "moods"]), r"a column 'moods', but .* did you mean 'mood'\?"),
        (of_pyagrum(), ([2, 2],), "a column 'x0', but the network of pyagrum no such variable; name the columns"),
    ],
)
def test_what_cannot_be_a_structure_is_refused_with_what_to_do(structure: Any, columns: Any, message: str) -> None:
    with pytest.raises(GraphError, match=message):
        as_structure(structure, *columns)


@pytest.mark.parametrize("name", ["mixture", "HMM", "tree", "factorial"])
def test_names_of_the_command_line_are_refused_with_their_templates(name: str) -> None:
    with pytest.raises(
        et.GraphError, match=rf"'{name}' is a name on the command line only; in Python it is et\.zoo"
    ) as told:
        et.EMJunctionTree(name).fit([[0, 1], [1, 0]])
    advised = (
        str(told.value)
        .rpartition(" ")[2]
        .replace("hidden_states=…", "hidden_states=3")
        .replace("(hidden_states)", "(3)")
    )
    assert eval(advised, {"et": et}).hidden_states == 3


def test_a_class_is_refused_before_any_data_are_read() -> None:
    with pytest.raises(GraphError, match=r"add \(\): HMM\(\)"):
        et.SpectralJunctionTree(zoo.HMM).fit("no data")
    with pytest.raises(GraphError, match=r"add \(\): HMM\(\)"):
        et.JunctionTreeClassifier(et.EMJunctionTree(zoo.HMM)).fit(ROWS, ROWS[:, 0])


# The same model, whatever its graph was built with.


@each_library
def test_estimators_learn_the_same_from_any_library(make: Any) -> None:
    turned = FRAME[["energy", "sleep", "appetite"]]
    for kind, settings in ((et.SpectralJunctionTree, {}), (et.EMJunctionTree, {"max_iter": 5, "random_state": 0})):
        own = kind(GRAPH, **settings).fit(FRAME)
        given = clone(kind(make(), **settings)).fit(turned)
        assert given.graph_ == GRAPH
        assert_array_equal(given.score_samples(turned), own.score_samples(FRAME))
        assert_array_equal(pickle.loads(pickle.dumps(given)).score_samples(FRAME), own.score_samples(FRAME))


@each_library
def test_labels_are_those_of_the_columns(make: Any) -> None:
    """Whatever the cells are called, and in whatever order the columns stand."""
    turned = FRAME[["energy", "sleep", "appetite"]].copy()
    turned["sleep"] = turned["sleep"].map({0: "bad", 1: "fair", 2: "good", 3: "great"})
    turned["appetite"] = turned["appetite"].map({0: 1, 1: 5, 2: 9})
    if make is of_pyagrum:  # whose variables have numbers of states of their own, so that numbers are codes
        turned["appetite"] = turned["appetite"].astype(str)
    given = et.SpectralJunctionTree(make()).fit(turned)
    assert_array_equal(given.score_samples(turned), et.SpectralJunctionTree(GRAPH).fit(ROWS).score_samples(ROWS))
    assert set(given.sample(50, seed=0)["sleep"]) <= {"bad", "fair", "good", "great"}


@each_library
def test_statistics_and_classifiers_take_any_library(make: Any) -> None:
    counted = et.Statistics.of(FRAME, make())
    model = et.SpectralJunctionTree(make()).fit_statistics(counted)
    assert_array_equal(model.score_samples(ROWS), et.SpectralJunctionTree(GRAPH).fit(ROWS).score_samples(ROWS))
    labels = np.arange(len(ROWS)) % 2
    given, own = (
        et.JunctionTreeClassifier(et.SpectralJunctionTree(structure, shrinkage=1.0)).fit(FRAME, labels)
        for structure in (make(), GRAPH)
    )
    assert_array_equal(given.predict_proba(FRAME), own.predict_proba(FRAME))
