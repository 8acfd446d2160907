"""Networks: validation of tables, and agreement with pgmpy and pyagrum."""

from __future__ import annotations

import copy
import pickle
import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose

import eigentree as et

with warnings.catch_warnings():
    # SWIG's builtin types warn while pyagrum loads; as an error that would crash the interpreter.
    warnings.simplefilter("ignore")
    import pyagrum
    from pgmpy.factors.discrete import DiscreteFactor, TabularCPD
    from pgmpy.inference import VariableElimination
    from pgmpy.models import DiscreteBayesianNetwork, DiscreteMarkovNetwork


def fill(net: pyagrum.BayesNet, row: np.ndarray, names: tuple[str, ...]) -> pyagrum.LazyPropagation:
    engine = pyagrum.LazyPropagation(net)
    engine.setEvidence({name: int(cell) for name, cell in zip(names, row, strict=True) if cell >= 0})
    engine.makeInference()
    return engine


LARGE = {
    "3rd-order HMM of 40 steps": et.zoo.hmm(40, 3, 2, 4),
    "two-level factorial HMM of 15 steps": et.zoo.factorial_hmm(15, 2, 2, 16),
    "semi-hidden Markov model of 12 steps": et.zoo.semi_hidden_markov(12, 2, 3, 4),
    "the paper's junction tree": et.zoo.paper_junction_tree(),
}


@pytest.mark.parametrize("graph", LARGE.values(), ids=LARGE.keys())
def test_large_networks_agree_with_pyagrum(graph: et.LatentGraph) -> None:
    network = et.LatentNetwork.random(graph, seed=5)
    net = network.to_pyagrum()
    rows = network.sample(6, seed=1)
    rows[3:][np.random.default_rng(0).random(rows[3:].shape) < 0.4] = -1
    target = len(graph.observed) // 2
    for row in rows:
        engine = fill(net, row, graph.observed)
        assert_allclose(network.log_prob([row])[0], np.log(engine.evidenceProbability()), rtol=1e-9, atol=1e-9)
        hidden_cell = row.copy()
        hidden_cell[target] = -1
        expected = fill(net, hidden_cell, graph.observed).posterior(graph.observed[target]).toarray()
        assert_allclose(network.predict_proba([row], graph.observed[target])[0], expected, atol=1e-9)
    pair = (graph.observed[0], graph.observed[-1])
    engine = pyagrum.LazyPropagation(net)
    engine.addJointTarget(set(pair))
    engine.makeInference()
    joint = engine.jointPosterior(set(pair))
    expected = joint.toarray() if tuple(joint.names) == pair[::-1] else joint.toarray().T
    assert_allclose(network.joint(pair), expected, atol=1e-9)


def test_a_pyagrum_network_comes_over_with_its_tables() -> None:
    original = et.LatentNetwork.random(et.zoo.hmm(5, 2, 2, 3), seed=1)
    back = et.LatentNetwork.from_pyagrum(original.to_pyagrum(), hidden=original.graph.hidden)
    assert back.graph.observed == original.graph.observed
    rows = original.sample(50, seed=0)
    assert_allclose(back.log_prob(rows), original.log_prob(rows), atol=1e-9)


@pytest.fixture(scope="module")
def pgmpy_model() -> DiscreteBayesianNetwork:
    model = DiscreteBayesianNetwork([("A", "C"), ("B", "C"), ("C", "D")], latents={"C"})
    random = np.random.default_rng(0)

    def cpd(name: str, states: int, evidence: list[str], sizes: list[int]) -> TabularCPD:
        values = random.dirichlet(np.ones(states), int(np.prod(sizes))).T
        return TabularCPD(name, states, values, evidence=evidence or None, evidence_card=sizes or None)

    model.add_cpds(
        cpd("A", 2, [], []), cpd("B", 3, [], []), cpd("C", 2, ["B", "A"], [3, 2]), cpd("D", 4, ["C"], [2])
    )
    return model


def test_a_pgmpy_network_comes_over_with_its_tables_and_latents(pgmpy_model: DiscreteBayesianNetwork) -> None:
    network = et.LatentNetwork.from_pgmpy(pgmpy_model)
    assert network.graph.hidden == ("C",)
    expected = VariableElimination(pgmpy_model).query(["A", "B", "D"], show_progress=False)
    values = np.transpose(expected.values, [expected.variables.index(name) for name in ("A", "B", "D")])
    assert_allclose(network.joint(["A", "B", "D"]), values, atol=1e-12)


def test_pgmpy_models_without_a_cpd_are_refused() -> None:
    with pytest.raises(et.GraphError, match="no CPD or factor for 'A'"):
        et.LatentNetwork.from_pgmpy(DiscreteBayesianNetwork([("A", "B")]))


def test_inconsistent_pgmpy_models_are_refused() -> None:
    model = DiscreteBayesianNetwork([("a", "b")])
    names = {"a": ["no", "yes"], "b": ["no", "yes"]}
    swapped = names | {"a": ["yes", "no"]}
    model.add_cpds(
        TabularCPD("a", 2, [[0.9], [0.1]], state_names={"a": names["a"]}),
        TabularCPD("b", 2, [[1, 0], [0, 1]], evidence=["a"], evidence_card=[2], state_names=swapped),
    )
    with pytest.raises(et.NetworkError, match="pgmpy calls the model inconsistent: The state names of a"):
        et.LatentNetwork.from_pgmpy(model)


def test_a_pgmpy_markov_network_has_no_cpds() -> None:
    model = DiscreteMarkovNetwork([("a", "b")])
    model.add_factors(DiscreteFactor(["a", "b"], [2, 2], [1, 2, 3, 4]))
    with pytest.raises(et.NetworkError, match="a DiscreteMarkovNetwork has no CPDs"):
        et.LatentNetwork.from_pgmpy(model)
    assert not et.LatentGraph.from_pgmpy(model).directed


GRAPH = et.LatentGraph({"h": 2, "x": 3}, [("h", "x")], ["h"])
GOOD = {"h": [0.4, 0.6], "x": [[0.2, 0.3, 0.5], [1, 0, 0]]}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"x": None}, r"there is no table for 'x'; it needs the axes \('h', 'x'\)"),
        ({"y": [1.0]}, "a table is given for 'y', which the graph does not have"),
        ({"x": np.ones((3, 2)) / 2}, r"table of 'x' needs the shape \(2, 3\), one axis for each of \('h', 'x'\)"),
        ({"x": [[0.2, 0.3, 0.5], [1.5, -0.5, 0]]}, "table of 'x' holds negative"),
        ({"x": [[0.2, 0.3, np.nan], [1, 0, 0]]}, "table of 'x' holds negative, infinite or missing"),
        ({"x": [[0.2, 0.3, 0.5], [1, 0.5, 0]]}, r"'x' must sum to 1 .* sums to 1.5 where \{'h': 1\}"),
        ({"h": ["a", "b"]}, "table of 'h' is not an array of numbers"),
        ({"h": [[0.4, 0.6], [1]]}, "table of 'h' is not an array of numbers"),
        ({"h": np.array([0.4 + 1j, 0.6])}, "table of 'h' is not an array of numbers"),
        ({1: [1.0]}, "a table is given for 1; tables go by names"),
    ],
)
def test_tables_are_checked(change: dict, message: str) -> None:
    tables = {name: table for name, table in (GOOD | change).items() if table is not None}
    with pytest.raises(et.NetworkError, match=message):
        et.LatentNetwork(GRAPH, tables)


@pytest.mark.parametrize("tables", [None, [1], "x"])
def test_tables_are_a_mapping(tables: object) -> None:
    with pytest.raises(et.NetworkError, match=r"tables is a mapping of names to arrays, such as \{'h': "):
        et.LatentNetwork(GRAPH, tables)


def test_a_network_needs_a_graph() -> None:
    for make in (et.LatentNetwork.random, lambda graph: et.LatentNetwork(graph, {})):
        with pytest.raises(et.NetworkError, match="a LatentGraph is needed, not None"):
            make(None)


def test_rows_that_nearly_sum_to_one_are_made_to() -> None:
    """Else a thousand columns, each a little off, would add up to another mixture."""
    off = 5e-7
    graph = et.zoo.mixture(1_000, 2, 2)
    emission = [[0.5 + off, 0.5], [0.5 - off, 0.5]]
    network = et.LatentNetwork(graph, {"h": [0.5, 0.5]} | dict.fromkeys(graph.observed, emission))
    assert_allclose(network.joint(["x0"]), [0.5, 0.5], rtol=1e-9)
    assert_allclose(network.tables["x3"].sum(axis=1), 1, rtol=1e-15)


@pytest.mark.parametrize("again", [copy.copy, copy.deepcopy, lambda one: pickle.loads(pickle.dumps(one))])
@pytest.mark.parametrize("directed", [True, False])
def test_copies_are_equal_and_as_protected(again, directed: bool) -> None:
    graph = et.LatentGraph({"h": 2, "x": 3, "y": 2}, [("h", "x"), ("h", "y")], ["h"], directed)
    network = et.LatentNetwork.random(graph, seed=0)
    twin = again(network)
    for key, table in network.tables.items():
        assert (twin.tables[key] == table).all()
        assert not twin.tables[key].flags.writeable
    rows = network.sample(10, seed=0)
    assert (twin.log_prob(rows) == network.log_prob(rows)).all()


@pytest.mark.parametrize("directed", [True, False])
def test_a_tree_may_be_given(directed: bool) -> None:
    graph = et.LatentGraph({"h": 2, "x": 3, "y": 2}, [("h", "x"), ("h", "y")], ["h"], directed)
    tree = et.JunctionTree.build(graph, root="y", max_clique_states=2**25)
    network = et.LatentNetwork.random(graph, seed=0, tree=tree)
    assert network.tree is tree
    again = et.LatentNetwork(graph, network.tables, tree=tree)
    rows = network.sample(10, seed=0)
    assert (again.log_prob(rows) == network.log_prob(rows)).all()
    assert_allclose(np.exp(network.log_prob(np.indices((3, 2)).reshape(2, -1).T)).sum(), 1)


def test_the_tree_of_an_undirected_graph_is_built_once() -> None:
    graph = et.LatentGraph({"a": 2, "x": 2, "y": 2}, [("a", "x"), ("a", "y")], ["a"], directed=False)
    network = et.LatentNetwork.random(graph, seed=0)
    network.log_prob([[0, 1]])
    assert network.tree is et.LatentNetwork.random(graph, seed=1).tree
    assert network.tree is et.JunctionTree.of(graph)


def test_tables_cannot_be_changed_from_outside() -> None:
    mine = np.array([0.4, 0.6])
    network = et.LatentNetwork(GRAPH, GOOD | {"h": mine})
    mine[0] = 9
    assert network.tables["h"][0] == 0.4
    with pytest.raises(ValueError, match="read-only"):
        network.tables["h"][0] = 9


@pytest.mark.parametrize("concentration", [0, -1.0, np.nan, np.inf, 1e-320, "a", np.ones(2)])
def test_the_concentration_is_positive(concentration: object) -> None:
    with pytest.raises(et.NetworkError, match="concentration must be a positive, finite number"):
        et.LatentNetwork.random(GRAPH, concentration=concentration)


def test_a_tiny_concentration_still_gives_distributions() -> None:
    network = et.LatentNetwork.random(GRAPH, concentration=1e-3, seed=0)
    assert_allclose(network.tables["x"].sum(axis=1), 1)


def test_dirichlet_rows_have_the_right_mean_and_spread() -> None:
    graph = et.LatentGraph({"h": 20_000, "x": 3}, [("h", "x")], ["h"])
    for concentration in (0.3, 1.0, 4.0):
        table = et.LatentNetwork.random(graph, concentration, seed=0).tables["x"]
        assert_allclose(table.mean(axis=0), 1 / 3, atol=0.01)
        assert_allclose(table.var(axis=0), (2 / 9) / (3 * concentration + 1), rtol=0.05)


def test_undirected_networks_name_their_cliques() -> None:
    graph = et.LatentGraph({"a": 2, "x": 2, "y": 2}, [("a", "x"), ("a", "y")], ["a"], directed=False)
    tables = et.LatentNetwork.random(graph, seed=0).tables
    again = et.LatentNetwork(graph, tables)
    rows = again.sample(20, seed=0)
    assert_allclose(again.log_prob(rows), et.LatentNetwork.random(graph, seed=0).log_prob(rows))
    short = dict(list(tables.items())[1:])
    with pytest.raises(et.NetworkError, match="there is no table for"):
        et.LatentNetwork(graph, short)


def test_conditionals_of_nodes_are_distributions_or_zero_where_their_separator_is_impossible() -> None:
    graph = et.zoo.hmm(5, 1, 2, 2)
    # The chain is never in the second state at its third step.
    tables = et.LatentNetwork.random(graph, seed=0).tables | {"h2": [[1.0, 0.0], [1.0, 0.0]]}
    network = et.LatentNetwork(graph, tables)
    for number, node in enumerate(network.tree.nodes):
        table = network.conditional_table(network.tree, number)
        sums = table.sum(axis=tuple(range(len(node.separator), table.ndim)))
        expected = np.ones_like(sums)
        if "h2" in node.separator:
            np.moveaxis(expected, node.separator.index("h2"), 0)[1] = 0.0
        assert_allclose(sums, expected)
    assert any("h2" in node.separator for node in network.tree.nodes)


def test_a_tree_of_another_graph_is_refused() -> None:
    network = et.LatentNetwork.random(GRAPH, seed=0)
    with pytest.raises(et.NetworkError, match="belongs to another graph"):
        network.embed(et.JunctionTree.build(et.zoo.hmm(3)))
    other = et.JunctionTree.build(et.zoo.hmm(3))
    with pytest.raises(et.NetworkError, match="belongs to another graph"):
        network.clique_tensor(other, 0)
    with pytest.raises(et.NetworkError, match="belongs to another graph"):
        et.LatentNetwork(GRAPH, GOOD, tree=other)
    with pytest.raises(et.NetworkError, match="a tree is a JunctionTree"):
        network.embed(None)
    with pytest.raises(et.NetworkError, match="the number of a node is a whole number of at most"):
        network.conditional_table(network.tree, 99)
