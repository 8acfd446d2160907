"""The E-step's pass against a plain mirror and against enumeration, with every instruction set."""

from __future__ import annotations

import os
import subprocess
import sys
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import pytest
from core.estep_problems import random_problem
from core.mirrors import estep as mirror
from em_problems import brute_counts, by_table, counted, is_learned
from numpy.testing import assert_allclose

import eigentree as et
from eigentree.core import _native
from eigentree.core.trees.estep import BlockEdge, BlockNode, BlockSection, BlockTree, expected
from eigentree.em.estep import row_passes as passing
from eigentree.em.estep.expectation import Expectation

if TYPE_CHECKING:
    pass

PRIOR = np.array([0.3, 0.7])
COLUMN = {"x": np.array([[0.2, 0.5, 0.3], [0.6, 0.1, 0.3]]), "y": np.array([[0.9, 0.1], [0.4, 0.6]])}

NOTHING = BlockNode(**dict.fromkeys(BlockNode._fields, 0))._replace(section=-1)
ROOT = NOTHING._replace(bond=1, leaf=-1, message=0, outside=7, factor=8, product=5, terms=2, before=-1, down=10)
LEAF = NOTHING._replace(bond=2)

MIXTURE = BlockTree(
    nodes=np.array(
        [
            ROOT._replace(last_edge=2, blocks=1, rows=1, columns=2, row=0, column=1),
            LEAF._replace(leaf=0, value=2, message=1),
            LEAF._replace(leaf=1, value=8, message=3),
        ]
    ),
    edges=np.array([BlockEdge(1, 3), BlockEdge(2, 3)]),
    # The row of the root, its columns, then the index on a leaf's bond of each product, and the products by it.
    places=np.array([0, 0, 1, 0, 1, 0, 1]),
    ones=9,
    down=10,
    share=12,
)
"""Two columns that depend on one hidden variable of two states, by hand: a root and two leaves."""

VALUES = np.concatenate([PRIOR, COLUMN["x"].T.ravel(), COLUMN["y"].T.ravel()])


def mixture_pass(
    codes: np.ndarray, weights: np.ndarray, block: int, values: np.ndarray = VALUES
) -> tuple[np.ndarray, float, int]:
    """Sums, log-likelihood and impossible row of the mixture, some rows at a time."""
    sums = np.full(len(values), np.nan)
    sections = np.array([BlockSection(0, 3, 0, len(weights))])
    return sums, *expected(MIXTURE, sections, values, codes.ravel(), weights, sums, 1, block)


@pytest.mark.parametrize("block", [0, 64, 5, 1])
def test_a_tree_by_hand_counts_what_it_should(block: int) -> None:
    codes = np.array([[0, 1, 2, 0, 1, 2, 2, 2, 0, 1, 1], [0, 0, 0, 1, 1, 1, 0, 1, 1, 1, 0]], np.uint16)
    weights = np.array([1.0, 2.0, 0.5, 1.0, 1.0, 3.0, 1.0, 0.0, 1.0, 1.0, 0.25])
    sums, log_likelihood, impossible = mixture_pass(codes, weights, block)
    joint = PRIOR * COLUMN["x"].T[codes[0]] * COLUMN["y"].T[codes[1]]
    posterior = joint / joint.sum(axis=1, keepdims=True) * weights[:, None]
    assert impossible == -1
    assert_allclose(log_likelihood, weights @ np.log(joint.sum(axis=1)), rtol=1e-14)
    assert_allclose(sums[:2] * PRIOR, posterior.sum(axis=0), rtol=1e-14)
    for start, line, states in ((2, codes[0], 3), (8, codes[1], 2)):
        table = [posterior[line == code].sum(axis=0) for code in range(states)]
        assert_allclose(sums[start : start + 2 * states].reshape(states, 2), table, rtol=1e-14)


def test_cutting_rows_into_blocks_changes_no_bit_of_the_likelihood() -> None:
    random = np.random.default_rng(0)
    codes = np.stack([random.integers(0, 3, 50), random.integers(0, 2, 50)]).astype(np.uint16)
    weights = random.random(50)
    assert len({mixture_pass(codes, weights, block)[1] for block in (1, 3, 16, 50, 80)}) == 1


def test_an_impossible_row_is_named_unless_it_weighs_nothing() -> None:
    table = COLUMN["x"].copy()
    table[:, 1] = 0.0
    values = VALUES.copy()
    values[2:8] = table.T.ravel()
    codes = np.array([[0, 1, 2], [0, 1, 1]], np.uint16)
    for weight, found in ((1.0, 1), (0.0, -1)):
        sums, _, impossible = mixture_pass(codes, np.array([1.0, weight, 1.0]), 2, values)
        assert impossible == found
        # It counts for nothing, so that the other rows' counts are finite.
        assert_allclose((sums[:2] * PRIOR).sum(), 2.0)


@pytest.mark.usefixtures("instructions")
@pytest.mark.parametrize("unscaled", [1, 8])
@pytest.mark.parametrize("number", [np.float64, np.float32])
def test_every_number_of_rows_has_the_counts_of_the_mirror(number: type, unscaled: int) -> None:
    random = np.random.default_rng(unscaled)
    cut = 0
    for rows in range(71):
        passage, values = random_problem(random, rows, unscaled)
        cut += len(passage.sections) > 1
        reference, log_likelihood = mirror.expected(passage.layout.tree, *passage[1:2], values, *passage[2:])
        precise = {"rtol": 1e-11, "atol": 1e-13} if number is np.float64 else {"rtol": 2e-4, "atol": 1e-5}
        code = random.choice([np.uint16, np.uint32])
        for block in (0, 1, 7, 25):
            sums = np.full(len(values), np.nan)
            arguments = (passage.sections, values.astype(number), passage.codes.astype(code), passage.weights)
            found, impossible = expected(passage.layout.tree, *arguments, sums, 1 + block % 3, block)
            assert impossible == -1
            assert_allclose(found, log_likelihood, **precise)
            assert_allclose(sums, reference, **precise)
            # Counts change no bit of the likelihood.
            assert expected(passage.layout.tree, *arguments, np.empty(0), 1, block)[0] == found
    assert cut > 10


@pytest.mark.usefixtures("instructions")
@pytest.mark.parametrize("states", [1, 2, 3, 4, 5, 7, 8, 9, 11, 12, 13, 16, 17])
def test_every_number_of_states_has_the_counts_of_the_mirror(states: int) -> None:
    random = np.random.default_rng(states)
    graph = et.LatentGraph(
        {"a": states, "b": states + 1, "c": max(1, states - 1), "x": 3, "y": 2, "z": 4},
        [("a", "b"), ("b", "c"), ("a", "x"), ("b", "y"), ("c", "z")],
        [*"abc"],
    )
    for rows in (5, 101):
        passage, values = random_problem(random, rows, graph=graph)
        reference, log_likelihood = mirror.expected(passage.layout.tree, *passage[1:2], values, *passage[2:])
        sums = np.full(len(values), np.nan)
        found, _ = expected(passage.layout.tree, passage.sections, values, *passage[2:], sums)
        assert_allclose(found, log_likelihood, rtol=1e-12)
        assert_allclose(sums, reference, rtol=1e-11, atol=1e-13)


@pytest.mark.usefixtures("instructions")
@pytest.mark.parametrize("states", [5, 6, 8])
def test_several_blocks_of_many_states_have_the_counts_of_the_mirror(states: int) -> None:
    """Of two chains in parallel, one moves at a time: a block for each state of the other."""
    random = np.random.default_rng(states)
    passage, values = random_problem(random, 37, graph=et.zoo.factorial_hmm(3, 2, states, 2))
    nodes = [BlockNode(*node) for node in passage.layout.tree.nodes.tolist()]
    assert any(node.blocks > 1 and node.rows > 4 for node in nodes)
    reference, log_likelihood = mirror.expected(passage.layout.tree, *passage[1:2], values, *passage[2:])
    sums = np.full(len(values), np.nan)
    found, _ = expected(passage.layout.tree, passage.sections, values, *passage[2:], sums)
    assert_allclose(found, log_likelihood, rtol=1e-12)
    assert_allclose(sums, reference, rtol=1e-11, atol=1e-13)


@pytest.mark.usefixtures("instructions")
def test_single_precision_calls_rows_impossible_that_lost_digits() -> None:
    """The caller passes them in double precision, where they are possible."""
    graph = et.LatentGraph({"a": 3, "b": 3, "x": 2}, [("a", "b"), ("b", "x")], ["a", "b"])
    passage, values = random_problem(np.random.default_rng(0), 5, 1, graph, sections=False)
    passage = passage._replace(weights=np.ones(5))
    values = values * 2.0**-52
    for number, lost in ((np.float64, False), (np.float32, True)):
        sums = np.empty(len(values))
        _, impossible = expected(passage.layout.tree, passage.sections, values.astype(number), *passage[2:], sums)
        assert (impossible >= 0) == lost


@pytest.mark.usefixtures("instructions")
def test_messages_that_are_brought_into_range_have_the_counts_of_the_mirror() -> None:
    random = np.random.default_rng(4)
    cut = 0
    for rows in range(1, 60):
        passage, values = random_problem(random, rows, 1 if rows % 2 else 3)
        cut += len(passage.sections) > 1
        # A product of all of these is in the range of doubles, but not of messages.
        values = values * 2.0 ** random.integers(-30, -20, len(values))
        reference, log_likelihood = mirror.expected(passage.layout.tree, *passage[1:2], values, *passage[2:])
        sums = np.full(len(values), np.nan)
        found, impossible = expected(passage.layout.tree, passage.sections, values, *passage[2:], sums, 1, 16)
        assert impossible == -1
        assert_allclose(found, log_likelihood, rtol=1e-12)
        assert_allclose(sums, reference, rtol=1e-11, atol=1e-13)
    assert cut > 10


def test_rows_in_stretches_have_the_bits_of_one_thread_and_the_counts_of_the_mirror() -> None:
    random = np.random.default_rng(0)
    # So much work that it is cut into stretches, with sections and without.
    for sections in (False, True):
        passage, values = random_problem(random, 20_000, graph=et.zoo.hmm(8, 1, 9, 5), sections=sections)
        assert (len(passage.sections) > 1) == sections
        reference, log_likelihood = mirror.expected(passage.layout.tree, *passage[1:2], values, *passage[2:])
        results = []
        for threads in (1, 2, 3, 16, 1000):
            sums = np.empty(len(values))
            found = expected(passage.layout.tree, passage.sections, values, *passage[2:], sums, threads)
            results.append((*found, sums.tobytes()))
        assert len(set(results)) == 1
        assert_allclose(results[0][0], log_likelihood, rtol=1e-11)
        assert_allclose(sums, reference, rtol=1e-10, atol=1e-10)


GARBAGE = """
import hashlib
import numpy as np
from core.estep_problems import random_problem
from eigentree.core.trees.estep import expected
random = np.random.default_rng(5)
bits = hashlib.sha256()
for rows in range(1, 40):
    passage, values = random_problem(random, rows)
    for number in (np.float64, np.float32):
        sums = np.empty(len(values))
        given = (passage.sections, values.astype(number), passage.codes, passage.weights)
        bits.update(repr(expected(passage.layout.tree, *given, sums)).encode() + sums.tobytes())
print(bits.hexdigest())
"""


def test_what_memory_held_before_does_not_matter() -> None:
    found = {
        subprocess.run(
            [sys.executable, "-c", GARBAGE],
            env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path), "MALLOC_PERTURB_": str(byte)},
            capture_output=True,
            check=True,
            text=True,
        ).stdout
        for byte in (0, 1, 129)
    }
    assert len(found) == 1


def wrong_calls() -> dict[str, dict[str, object]]:
    """What leads outside an array, by the name of the argument of a valid call that it replaces."""
    nodes, edges, places = MIXTURE.nodes, MIXTURE.edges, MIXTURE.places

    def changed(array: np.ndarray, line: int, field: int, number: int) -> np.ndarray:
        other = array.copy()
        other[line, field] = number
        return other

    field = {name: place for place, name in enumerate(BlockNode._fields)}
    root = ("bond", "message", "outside", "product", "terms", "down", "blocks", "rows", "columns", "row", "column")
    wrong: dict[str, dict[str, object]] = {}
    for name in (*root, "first_leaf", "last_edge", "value"):
        for number in (-7, 10**6, 2**62):
            wrong[f"root {name} {number}"] = {"nodes": changed(nodes, 0, field[name], number)}
    for name in ("bond", "leaf", "value", "message"):
        for number in (10**6, 2**62):
            wrong[f"leaf {name} {number}"] = {"nodes": changed(nodes, 1, field[name], number)}
    wrong |= {
        f"section {number}": {"nodes": changed(nodes, 1, field["section"], number)} for number in (0, 1, 2**62)
    }
    wrong |= {f"child {number}": {"edges": changed(edges, 0, 0, number)} for number in (-1, 0, 99, 2**62)}
    wrong |= {f"pick {number}": {"edges": changed(edges, 0, 1, number)} for number in (-1, 5, 99, 2**62)}
    wrong |= {f"place {k}": {"places": np.where(np.arange(7) == k, 2, places)} for k in range(7)}
    wrong |= {f"{name} {k}": {name: k} for name in ("ones", "share") for k in (-1, 10**6, 2**62)}
    wrong |= {f"rows {k}": {"sections": np.array([[0, 3, 0, k]])} for k in (-1, 4, 2**62)}
    wrong |= {f"codes {k}": {"sections": np.array([[0, 3, k, 3]])} for k in (-1, 1, 2**62)}
    wrong |= {f"end {k}": {"sections": np.array([[0, k, 0, 3]])} for k in (0, 2, 4)}
    wrong |= {
        "no section": {"sections": np.zeros((0, 4), int)},
        "unread section": {"sections": np.array([[0, 3, 0, 3], [3, 3, 0, 0]])},
        "code": {"codes": np.array([0, 1, 5, 0, 1, 1], np.uint16)},
        "large code": {"codes": np.array([0, 1, 2, 0, 1, 2**32 - 1], np.uint32)},
        "weights": {"weights": np.ones(2)},
        "values": {"values": VALUES[:-1], "sums": np.empty(len(VALUES) - 1)},
        "sums": {"sums": np.empty(3)},
        "threads": {"threads": 0},
        "block": {"block": -1},
    }
    return wrong


@pytest.mark.parametrize("name", wrong_calls())
def test_what_leads_outside_an_array_is_refused(name: str) -> None:
    given = MIXTURE._asdict() | {
        "sections": np.array([[0, 3, 0, 3]]),
        "values": VALUES,
        "codes": np.array([0, 1, 2, 0, 1, 1], np.uint16),
        "weights": np.ones(3),
        "sums": np.empty(len(VALUES)),
        "threads": 1,
        "block": 0,
    }
    assert _native.expected_counts(**given)[1] == -1
    with pytest.raises((ValueError, TypeError)):
        _native.expected_counts(**given | wrong_calls()[name])


def hub(hidden: int, branches: int, columns: int) -> et.LatentGraph:
    """A hidden root with hidden children, each with columns, and one column of the root's own."""
    states, edges, concealed = {"r": 2, "x": 3}, [("r", "x")], ["r"]
    for i in range(branches):
        states[f"h{i}"] = hidden
        concealed.append(f"h{i}")
        edges.append(("r", f"h{i}"))
        for j in range(columns):
            states[f"x{i}{j}"] = 2
            edges.append((f"h{i}", f"x{i}{j}"))
    return et.LatentGraph(states, edges, concealed)


def ladder() -> et.LatentGraph:
    """Cliques of three hidden variables that share two, with columns on one and on two of them."""
    states = {"a": 2, "b": 3, "c": 2, "d": 2, "x": 2, "y": 3, "z": 2}
    edges = [
        ("a", "b"),
        ("a", "c"),
        ("b", "c"),
        ("b", "d"),
        ("c", "d"),
        ("a", "x"),
        ("b", "y"),
        ("c", "y"),
        ("d", "z"),
    ]
    return et.LatentGraph(states, edges, [*"abcd"])


def crossing() -> et.LatentGraph:
    """A clique of three hidden variables with inner children on parts of it."""
    states = {"a": 2, "b": 2, "c": 2, "p": 4, "q": 4, "s": 5, "t": 3, "u": 2, "v": 2, "w": 2, "x": 2}
    edges = [("a", "b"), ("a", "c"), ("b", "c"), ("a", "p"), ("b", "p"), ("b", "q"), ("c", "q"), ("c", "s")]
    edges += [("a", "t"), ("p", "u"), ("q", "v"), ("s", "w"), ("t", "x")]
    return et.LatentGraph(states, edges, [*"abcpqst"])


GRAPHS = {
    "mixture": et.zoo.mixture(4, 3, 3),
    "chain": et.zoo.hmm(5, 1, 3, 2),
    "2nd order": et.zoo.hmm(5, 2, 2, 2),
    "factorial": et.zoo.factorial_hmm(3, 2, 2, 3),
    "two branches": hub(4, 2, 2),
    "odd branches": hub(5, 3, 1),
    "five branches": hub(4, 5, 1),
    "ladder": ladder(),
    "crossing": crossing(),
    "bare chain": et.LatentGraph(
        {"a": 3, "b": 3, "c": 3, "d": 3, "x": 2, "y": 2},
        [("a", "b"), ("b", "c"), ("c", "d"), ("a", "x"), ("d", "y")],
        [*"abcd"],
    ),
    "no hidden": et.LatentGraph({"a": 2, "b": 3}, [("a", "b")]),
    "undirected": et.LatentGraph(
        {"a": 3, "b": 2, "c": 3, "x": 3, "y": 2},
        [("a", "b"), ("b", "c"), ("a", "c"), ("a", "x"), ("c", "y")],
        [*"abc"],
        False,
    ),
    "apart": et.LatentGraph({"h": 3, "x": 2, "g": 2, "y": 3}, [("h", "x"), ("g", "y")], [*"hg"]),
    "autoregressive": et.zoo.dynamic_bayes_net(
        3, {"h": 2, "x": 2}, within=[("h", "x")], between=[("h", "h"), ("x", "x")], hidden=["h"]
    ),
}


@pytest.mark.parametrize("many", [1, 1_000_000], ids=["apart", "joined"])
@pytest.mark.parametrize("name", GRAPHS)
def test_counts_agree_with_enumeration(name: str, many: int) -> None:
    graph = GRAPHS[name]
    network = et.LatentNetwork.random(graph, seed=3)
    random = np.random.default_rng(5)
    rows = np.stack([random.integers(0, graph.states[column], 7) for column in graph.observed], axis=1)
    weights = random.choice([0.5, 1.0, 2.0], 7)
    for missing in (0.0, 0.3):
        rows[random.random(rows.shape) < missing] = -1
        reference, log_likelihood = brute_counts(network, rows, weights)
        found = counted(network, rows, weights, many)
        assert found.impossible == -1
        assert_allclose(found.log_likelihood, log_likelihood, rtol=1e-12)
        for key, table in by_table(graph, found.counts).items():
            assert_allclose(table, reference[key] if is_learned(graph, key) else 0.0, rtol=1e-11, atol=1e-14)


def many_states() -> dict[str, et.LatentGraph]:
    """Graphs whose hidden variables have so many states that matrices are multiplied in tiles."""
    star = {"r": 8, "a": 9, "b": 10, "c": 11}
    columns = {"u": 2, "v": 3, "w": 2, "x": 2}
    edges = [("r", "a"), ("r", "b"), ("a", "u"), ("b", "v"), ("r", "x")]
    return {
        "chain": et.LatentGraph(
            {"a": 8, "b": 12, "c": 9, "u": 2, "v": 3, "w": 2},
            [("a", "b"), ("b", "c"), ("a", "u"), ("b", "v"), ("c", "w")],
            [*"abc"],
        ),
        "star": et.LatentGraph(star | columns, [*edges, ("r", "c"), ("c", "w")], [*star]),
        # Two columns on one variable are two leaves there where rows are few, and one where they are many.
        "two leaves": et.LatentGraph(
            {"a": 11, "b": 10, "u": 2, "v": 3, "w": 2},
            [("a", "b"), ("b", "u"), ("b", "v"), ("a", "w")],
            [*"ab"],
        ),
        "blocks": et.LatentGraph(
            {"a": 2, "b": 8, "c": 9, "u": 2, "v": 2, "w": 2},
            [("a", "b"), ("a", "c"), ("b", "c"), ("a", "u"), ("b", "v"), ("c", "w")],
            [*"abc"],
        ),
        "bare": et.LatentGraph({"a": 9, "b": 8, "u": 3}, [("a", "b"), ("a", "u")], [*"ab"]),
        # A leaf that is stored, of a clique's part, and one that is not stand at one node with an inner child.
        "both kinds": et.LatentGraph(
            {"a": 2, "b": 4, "c": 9, "u": 2, "v": 2, "w": 2},
            [("a", "b"), ("a", "c"), ("b", "c"), ("a", "u"), ("b", "u"), ("b", "v"), ("c", "w")],
            [*"abc"],
        ),
    }


@pytest.mark.parametrize("count", [3, 16, 29])
@pytest.mark.parametrize("name", many_states())
def test_counts_of_many_states_agree_with_enumeration(name: str, count: int) -> None:
    graph = many_states()[name]
    network = et.LatentNetwork.random(graph, seed=3)
    random = np.random.default_rng(count)
    rows = np.stack([random.integers(0, graph.states[column], count) for column in graph.observed], axis=1)
    rows[random.random(rows.shape) < 0.1] = -1
    weights = random.choice([0.5, 1.0, 2.0], count)
    reference, log_likelihood = brute_counts(network, rows, weights)
    for many in (1, 1_000_000):
        found = counted(network, rows, weights, many)
        assert_allclose(found.log_likelihood, log_likelihood, rtol=1e-12)
        for key, table in by_table(graph, found.counts).items():
            assert_allclose(table, reference[key] if is_learned(graph, key) else 0.0, rtol=1e-11, atol=1e-14)


@pytest.mark.parametrize("count", [3, 29])
@pytest.mark.parametrize("name", many_states())
def test_single_precision_is_right_to_six_digits(name: str, count: int) -> None:
    network = et.LatentNetwork.random(many_states()[name], seed=3)
    rows = network.sample(count, seed=count)
    weights = np.random.default_rng(count).choice([0.5, 1.0, 2.0], count)
    double, single = (counted(network, rows, weights, 1, single=single) for single in (False, True))
    assert single.impossible == -1
    assert_allclose(single.log_likelihood, double.log_likelihood, rtol=1e-6)
    assert_allclose(single.counts, double.counts, rtol=2e-5, atol=1e-6 * count)
    # It was asked for, and is no double precision that says so.
    assert single.log_likelihood != double.log_likelihood


def test_rows_that_single_precision_would_lose_are_passed_in_double() -> None:
    # Columns contradict each other at odds that no single number holds, in hidden variables of many states.
    names = [f"h{t}" for t in range(12)]
    graph = et.LatentGraph(
        dict.fromkeys(names, 8) | {f"x{t}": 2 for t in range(12)},
        [*pairwise(names), *((f"h{t}", f"x{t}") for t in range(12))],
        names,
    )
    odds = np.where(np.arange(8) % 2 == 0, 1e-30, 1.0)
    tables: dict[str, object] = {f"x{t}": np.stack([odds, 1.0 - odds], axis=1) for t in range(12)}
    tables |= {name: np.eye(8) for name in names[1:]} | {"h0": np.ones(8) / 8}
    network = et.LatentNetwork(graph, tables)
    rows = np.array([[t % 2 for t in range(12)]])
    double, single = (counted(network, rows, many=1, single=single) for single in (False, True))
    assert single.log_likelihood == double.log_likelihood
    np.testing.assert_array_equal(single.counts, double.counts)


@pytest.mark.parametrize("single", [False, True])
@pytest.mark.parametrize("name", ["chain", "star"])
def test_a_likelihood_alone_has_the_bits_of_one_with_counts(name: str, single: bool) -> None:
    network = et.LatentNetwork.random(many_states()[name], seed=3)
    expectation = Expectation.of(network.graph, (), 100)
    rows = expectation.coded(network.sample(100, seed=1), np.ones(100))
    parameters = expectation.layout.vector(network)
    alone = expectation.log_likelihood(parameters, rows, 1, single)
    assert alone == expectation(parameters, rows, 1, single).log_likelihood
    assert_allclose(alone, network.log_prob(network.sample(100, seed=1)).sum(), rtol=1e-6 if single else 1e-12)


@pytest.mark.parametrize("name", many_states())
def test_a_row_has_the_same_bits_alone_and_in_a_tile(name: str) -> None:
    graph = many_states()[name]
    network = et.LatentNetwork.random(graph, seed=1)
    rows = network.sample(19, seed=2)
    for i in range(len(rows)):
        alone = counted(network, rows[i : i + 1], many=1)
        assert counted(network, rows, np.eye(len(rows))[i], many=1).log_likelihood == alone.log_likelihood


@pytest.mark.parametrize("name", many_states())
def test_what_earlier_rows_left_behind_the_last_one_counts_for_nothing(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = many_states()[name]
    network = et.LatentNetwork.random(graph, seed=1)
    rows = network.sample(333, seed=2)
    whole = counted(network, rows)
    monkeypatch.setattr(passing, "expected", lambda *given: expected(*given, block=100))
    parts = counted(network, rows)
    # The order of the sums is all that may differ.
    assert parts.log_likelihood == whole.log_likelihood
    assert_allclose(parts.counts, whole.counts, rtol=1e-12)
    assert_allclose(parts.counts[: graph.states[graph.hidden[0]]].sum(), len(rows), rtol=1e-12)


def sticky(length: int, odds: float, certain: tuple[int, ...] = ()) -> et.LatentNetwork:
    """A chain whose hidden state never changes; each column says which it is, at some odds or for certain."""
    graph = et.zoo.hmm(length, 1, 2, 2)
    unsure, sure = [[1.0 - odds, odds], [odds, 1.0 - odds]], [[1.0, 0.0], [0.0, 1.0]]
    tables = {f"h{t}": np.eye(2) for t in range(1, length)} | {"h0": [0.5, 0.5]}
    tables |= {f"x{t}": sure if t in certain else unsure for t in range(length)}
    return et.LatentNetwork(graph, tables)


def test_columns_that_contradict_each_other_do_not_underflow() -> None:
    # Either state explains half the columns and is ruled out by the other half, at odds of 1e-90 for each.
    length, odds = 24, 1e-90
    network = sticky(length, odds)
    rows = np.array([[t % 2 for t in range(length)], [1 - t % 2 for t in range(length)], [0] * length])
    found = counted(network, rows)
    assert found.impossible == -1
    assert_allclose(found.log_likelihood, 2 * (length / 2) * np.log(odds) + np.log(0.5), rtol=1e-12)
    tables = by_table(network.graph, found.counts)
    # The first two rows say nothing about the state, the last one says all.
    assert_allclose(tables["h0"], [2.0, 1.0], rtol=1e-12)
    for t in range(length):
        assert_allclose(tables[f"x{t}"].sum(axis=1), [2.0, 1.0], rtol=1e-12)
        assert_allclose(tables[f"x{t}"].sum(axis=0), np.bincount(rows[:, t], minlength=2), rtol=1e-12)


def test_only_rows_that_underflow_pass_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    trees: list[BlockTree] = []
    original = passing.expected
    monkeypatch.setattr(passing, "expected", lambda tree, *rest: trees.append(tree) or original(tree, *rest))
    network = sticky(24, 1e-90)
    counted(network, np.array([[t % 2 for t in range(24)]]))
    usual, careful = ([BlockNode(*node).factor >= 0 for node in tree.nodes] for tree in trees)
    # The second time every inner node brings its message into range.
    assert sum(usual) < sum(careful) == sum(BlockNode(*node).leaf < 0 for node in trees[1].nodes)
    counted(network, np.zeros((1, 24), int))
    assert len(trees) == 3


@pytest.mark.parametrize(("sure", "odds"), [(0, 1e-11), (39, 1e-11)], ids=["first", "last"])
def test_what_is_likely_from_above_and_ruled_out_below_counts_nothing(sure: int, odds: float) -> None:
    # All columns but one favour state 1 beyond the range of doubles; that one is only possible in state 0.
    length = 40
    network = sticky(length, odds, (sure,))
    rows = np.ones((2, length), int)
    rows[0, sure] = 0
    with np.errstate(over="ignore"):
        found = counted(network, rows)
    assert found.impossible == -1
    log_odds = np.log(odds) + np.log1p(-odds)
    assert_allclose(found.log_likelihood, 2 * np.log(0.5) + (length - 1) * log_odds, rtol=1e-12)
    for name, table in by_table(network.graph, found.counts).items():
        states = table.sum(axis=1) if name in network.graph.observed else np.atleast_2d(table).sum(axis=0)
        assert_allclose(states, [1.0, 1.0], rtol=1e-9)


def test_a_table_may_hold_subnormal_numbers() -> None:
    graph = et.LatentGraph({"h": 2, "x": 2}, [("h", "x")], ["h"])
    network = et.LatentNetwork(graph, {"h": [1.0, 1e-310], "x": [[1.0, 0.0], [0.5, 0.5]]})
    with np.errstate(over="ignore"):
        found = counted(network, np.array([[1], [0]]))
    assert_allclose(found.log_likelihood, np.log(1e-310) + np.log(0.5), rtol=1e-12)
    assert np.isfinite(found.counts).all()
