"""Nothing hostile gets through: what nobody should give meets one of our errors, before memory is asked for."""

from __future__ import annotations

import itertools
import json
import math
import time
import tracemalloc
import warnings
from collections.abc import Callable
from typing import Any

import networkx as nx
import numpy as np
import pandas as pd
import pytest
from counted_arrays import arrays_of, of_arrays
from numpy.testing import assert_allclose, assert_array_equal

import eigentree as et
from eigentree import zoo
from eigentree.errors import quoted

GRAPH = zoo.hmm(3, observed_states=3)
NETWORK = et.LatentNetwork.random(GRAPH, seed=0)
ROWS = NETWORK.sample(60, seed=1)
SPECTRAL = et.SpectralJunctionTree(GRAPH).fit(ROWS)
TENSOR = et.LabeledTensor(np.eye(2), ["A", "B"])
HUGE = 10**5000

QUICK = {"init": "random", "n_init": 1, "max_iter": 2, "pseudo_counts": 0.1, "random_state": 0}


def estimators() -> list[Any]:
    return [
        et.SpectralJunctionTree(GRAPH),
        et.EMJunctionTree(GRAPH, **QUICK),
        et.OnlineEMJunctionTree(GRAPH, batch_size=20, passes=2, random_state=0),
    ]


@pytest.mark.parametrize(
    "seed", ["x", -1, 1.5, True, np.True_, 10**400, HUGE, [1, 2], np.array([1, 2]), pd.NA], ids=quoted
)
@pytest.mark.parametrize(
    "ask",
    [
        lambda seed: NETWORK.sample(2, seed=seed),
        lambda seed: NETWORK.sample(2, seed=seed, given={"x0": 0}),
        lambda seed: NETWORK.sample_hidden(ROWS, seed=seed),
        lambda seed: NETWORK.impute(ROWS, seed=seed),
        lambda seed: SPECTRAL.sample(2, seed=seed),
        lambda seed: SPECTRAL.to_network(ROWS, random_state=seed),
        lambda seed: et.LatentNetwork.random(GRAPH, seed=seed),
        lambda seed: et.EMJunctionTree(GRAPH, random_state=seed).fit(ROWS),
        lambda seed: et.OnlineEMJunctionTree(GRAPH, random_state=seed).fit(ROWS),
    ],
)
def test_what_is_no_seed_is_named(ask: Callable[[Any], object], seed: Any) -> None:
    with pytest.raises(
        et.ParameterError, match="a seed is a whole number of at least 0, a Generator or None, not "
    ):
        ask(seed)


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda: zoo.hmm(10**12), r"this graph would take 1e\+12 variables \(the limit is 1.31e\+05\)"),
        (lambda: zoo.hmm(1000, order=1000), r"the edges of this graph would take 1e\+06"),
        (lambda: zoo.mixture(10**12), "this graph would take"),
        (lambda: zoo.factorial_hmm(3, levels=10**12), "this graph would take"),
        (lambda: zoo.factorial_hmm(2000, levels=2000), "this graph would take"),
        (lambda: zoo.semi_hidden_markov(10**12), "this graph would take"),
        (lambda: zoo.latent_tree(24), "depth is a whole number of at most 18, not 24"),
        (lambda: zoo.latent_tree(40), "depth is a whole number of at most 18, not 40"),
        (lambda: zoo.latent_tree(2, branching=10**9), r"this graph would take 1e\+18 variables"),
        (lambda: zoo.dynamic_bayes_net(10**12, {"x": 2}), "this graph would take"),
        (
            lambda: NETWORK.sample(10**12),
            r"a sample of 1,000,000,000,000 rows of 3 columns would be 3e\+12 numbers",
        ),
        (lambda: NETWORK.sample(10**12, given={"x0": 1}), r"2.24e\+04 GiB \(the limit is 1.07e\+09, 8 GiB\)"),
        (lambda: SPECTRAL.sample(10**12), "draw fewer rows at a time"),
        (lambda: NETWORK.sample(HUGE), "the number of rows to sample is a whole number of at most 9.01e"),
        (lambda: et.LabeledTensor.identity(["A", "B"], [10**6, 10**6]), r"this identity would be 1e\+24 numbers"),
        (lambda: TENSOR.diagonal({"A": 10**12}), "the number of repeats of 'A' is a whole number of at most 32"),
        (lambda: TENSOR.diagonal({"A": 32}), r"this embedding would have 33 modes"),
        (lambda: et.EMJunctionTree(GRAPH, n_jobs=10**9).fit(ROWS), "n_jobs is a whole number of at most 1.02e"),
    ],
)
def test_what_is_too_large_is_refused_before_memory_is_asked_for(ask: Callable[[], object], message: str) -> None:
    tracemalloc.start()
    try:
        with pytest.raises(et.EigentreeError, match=message):
            ask()
        # A list of the variables that a graph may have is the most that it takes to find out.
        assert tracemalloc.get_traced_memory()[1] < 100 * 2**20
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda: zoo.HMM().build(itertools.repeat(2)), "this graph would take"),
        (lambda: et.LatentGraph((f"x{k}", 2) for k in itertools.count()), "this graph would take"),
        (lambda: et.LatentGraph({"x": 10**400}), "the number of states of 'x' is a whole number of at most"),
        (lambda: et.SpectralJunctionTree(GRAPH, shrinkage=-(10**400)).fit(ROWS), "shrinkage is 'auto' or a number"),
        (
            lambda: et.SpectralJunctionTree(GRAPH, floor=10**400).fit(ROWS),
            "floor is 'auto' or a number from 0 to 1",
        ),
        (
            lambda: et.SpectralJunctionTree(GRAPH, views=True).fit(ROWS),
            "views is a whole number of at least 1, not T",
        ),
        (lambda: et.EMJunctionTree(GRAPH, max_iter=HUGE).fit(ROWS), "max_iter is a whole number of at most"),
        (
            lambda: et.EMJunctionTree(GRAPH, tol=10**400).fit(ROWS),
            "tol is a finite number of at least 0, not a whole",
        ),
        (lambda: et.EMJunctionTree(GRAPH, accelerate=np.array([True])).fit(ROWS), "accelerate is True or False"),
        (lambda: et.EMJunctionTree(GRAPH, verbose="loud").fit(ROWS), "verbose is a whole number of at least 0"),
        (lambda: et.EMJunctionTree(GRAPH, stopping=pd.NA).fit(ROWS), "stopping is 'gain' or 'paper', not <NA>"),
        (lambda: et.OnlineEMJunctionTree(GRAPH, stepsize=True).fit(ROWS), "stepsize is a finite number"),
        (lambda: NETWORK.impute(ROWS, method=np.array(["mode"])), "method is 'mode', .* or 'sample', not array"),
        (lambda: NETWORK.impute(ROWS, method=pd.NA), "method is 'mode', 'mean', 'median' or 'sample', not <NA>"),
        (lambda: SPECTRAL.predict_proba(ROWS, target=np.array(["x0"])), "the graph has no variable array"),
        (lambda: NETWORK.predict_proba(ROWS, target=pd.DataFrame()), "the graph has no variable Empty DataFrame"),
        (lambda: NETWORK.predict_proba(ROWS, target=HUGE), "no variable a whole number of about 5000 digits"),
        (lambda: NETWORK.joint(["x0", "x0"]), "names names 'x0' twice; each variable may be named once"),
        (lambda: NETWORK.joint("x0"), r"names is a list of names; write names=\['x0'\]"),
        (lambda: NETWORK.joint(3), "names is a list of names, not 3"),
        (lambda: NETWORK.joint(np.array("x0")), "names is a list of names, not array"),
        (lambda: NETWORK.joint(itertools.count()), "names is a list of names, and 0 is no string"),
        (lambda: NETWORK.conditional(itertools.repeat("x0"), {}), "names names 'x0' twice"),
        (lambda: NETWORK.posterior(ROWS, names=7), "names is a list of names, not 7"),
        (lambda: NETWORK.posterior(ROWS, names=["h0", "h0"]), "names names 'h0' twice"),
        (lambda: NETWORK.relabelled(5), "orders is a mapping, such as"),
        (lambda: et.LatentNetwork(GRAPH, {"h0": [10**400, 1]}), "the table of 'h0' is not an array of numbers"),
        (lambda: et.LatentNetwork(object(), {}), "a LatentGraph is needed, not <object"),
        (lambda: et.LatentNetwork.random(GRAPH, concentration=10**400), "concentration must be a positive, finite"),
        (lambda: et.JunctionTree.build(GRAPH, max_clique_states="x"), "max_clique_states is a whole number"),
        (lambda: et.JunctionTree.of(3), "a LatentGraph is needed, not 3"),
        (lambda: et.JunctionTree.of(GRAPH).subtree(99), "the number of a node is a whole number of at most"),
        (lambda: et.Counts(3, []), "a LatentGraph is needed, not 3"),
        (lambda: et.Counts(GRAPH, 3), "groups is a list of groups of names, not 3"),
        (lambda: et.Statistics.of(ROWS, GRAPH, views="x"), "views is a whole number"),
        (lambda: et.Statistics.empty(3), "a plan is a ViewPlan, as the plan method of an estimator"),
        (lambda: et.expected_counts(3, ROWS), "expected counts are those of a LatentNetwork, not of 3"),
        (lambda: et.SpectralJunctionTree(GRAPH).fit_moments(3), "moments come from a LatentNetwork, Counts or any"),
        (lambda: et.LatentGraph.from_networkx({}), "a networkx Graph or DiGraph is expected, not {}"),
        (lambda: et.LatentGraph.from_networkx(nx.Graph([("a", "b")]), states=3), "states is a mapping"),
        (lambda: et.LatentGraph.from_pgmpy(nx.DiGraph()), "a pgmpy model is expected, not <networkx"),
        (lambda: et.LatentGraph.from_pyagrum("x", []), "a pyagrum BayesNet is expected, not 'x'"),
        (lambda: et.LabeledTensor(10**400, []), "must hold real numbers"),
        (lambda: TENSOR.select({"A": HUGE}), "the value of 'A' is a whole number of at most"),
        (lambda: TENSOR.multiply(TENSOR, 3), "labels is a list of strings, not 3"),
        (lambda: TENSOR.equivalent(TENSOR, "x"), "atol is a finite number of at least 0, not 'x'"),
        (lambda: TENSOR.sum(["A"]), "labels are non-empty strings, not"),
        (lambda: TENSOR.inverse("A", tolerance=HUGE), "tolerance is a finite number of at least 0, not a whole"),
        (lambda: et.LabeledTensor([[1e-320]], ["A", "B"]).inverse("A"), "its entries are too small"),
    ],
)
def test_junk_is_named(ask: Callable[[], object], message: str) -> None:
    with pytest.raises(et.EigentreeError, match=message):
        ask()


def test_names_with_thousands_of_digits_are_names() -> None:
    """Python reads and writes no number of more than 4,300 digits, but a name is no number."""
    many = [f"x{'9' * 5000}", f"x{'1' * 5001}", "x2", "x10"]
    graph = et.LatentGraph({"h": 2, **dict.fromkeys(many, 2)}, [("h", name) for name in many], ["h"])
    network = et.LatentNetwork.random(graph, seed=0)
    assert_allclose(network.joint(many).sum(), 1)
    with pytest.raises(et.GraphError, match="the graph has no variable 'x99"):
        network.joint([f"x{'9' * 4999}"])


class Lying:
    """A source of moments whose tables are none."""

    def __init__(self, table: Callable[[tuple[int, ...]], Any]) -> None:
        self.table = table

    def joint(self, names: Any) -> Any:
        return self.table((3,) * len(names))


def negative(shape: tuple[int, ...]) -> Any:
    table = np.zeros(shape)
    table.flat[[0, -1]] = 2, -1
    return table


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (lambda _: "x", "is no array of numbers"),
        (lambda _: [1, [2]], "is no array of numbers"),
        (lambda _: [10**400], "is no array of numbers"),
        (lambda _: None, r"has the shape \(\)"),
        (lambda shape: np.full(shape, math.nan), "adds up to nan"),
        (negative, "probabilities are not negative"),
    ],
)
def test_moments_that_are_none_are_refused(table: Callable[[Any], Any], message: str) -> None:
    with pytest.raises(et.DataError, match=message):
        et.SpectralJunctionTree(GRAPH).fit_moments(Lying(table))


# Weights.


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        (np.full(60, 1e-320), "sample_weight holds 1e-320, too small to count; multiply it by a constant"),
        (np.full(60, 1e300), r"sample_weight adds up to 6e\+301, too much to count by ones"),
        (np.full(60, 1e308), "sample_weight adds up to inf, too much to count by ones"),
        (np.full(60, 2**62), "too much to count by ones"),
        (np.ma.masked_array(np.ones(60), np.arange(60) == 3), "negative, infinite or missing"),
        (range(10**12), "one number per row"),
        (itertools.repeat(1.0), r"one number per row, shape \(60,\), not repeat"),
        ([10**400] * 60, "one number per row"),
        (3, r"one number per row, shape \(60,\), not 3"),
    ],
)
@pytest.mark.parametrize("model", estimators(), ids=lambda model: type(model).__name__)
def test_weights_that_cannot_be_counted_are_refused(model: Any, weights: Any, message: str) -> None:
    with pytest.raises(et.DataError, match=message):
        model.fit(ROWS, sample_weight=weights)


@pytest.mark.parametrize("model", estimators(), ids=lambda model: type(model).__name__)
def test_weights_that_add_up_to_next_to_nothing_are_warned_of_once(model: Any) -> None:
    message = r"adds up to 1 for 60 rows: the model would believe that it saw hardly any row; multiply the weights"
    with pytest.warns(RuntimeWarning, match=message) as caught:
        model.fit(ROWS, sample_weight=np.full(60, 1 / 60))
    assert len([one for one in caught if "hardly any row" in str(one.message)]) == 1
    # Rows that are left out do not count.
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "the data cannot support the rank")
        model.fit(ROWS, sample_weight=(np.arange(60) < 3).astype(float))


@pytest.mark.parametrize("model", estimators(), ids=lambda model: type(model).__name__)
def test_a_classifier_warns_of_light_weights_once_too(model: Any) -> None:
    with pytest.warns(RuntimeWarning) as caught:
        et.JunctionTreeClassifier(model).fit(ROWS, np.arange(60) % 2, sample_weight=np.full(60, 1 / 60))
    assert len([one for one in caught if "hardly any row" in str(one.message)]) == 1


def test_all_faces_say_the_same_of_weights_that_are_zero() -> None:
    for model in estimators()[1:]:
        with pytest.raises(et.DataError, match="the weight of all rows is zero; there is nothing to learn from"):
            model.fit(ROWS, sample_weight=np.zeros(60))
    with pytest.raises(et.DataError, match="the weight of all rows is zero; there is nothing to learn from"):
        SPECTRAL.to_network(ROWS, sample_weight=np.zeros(60))


# Sums.


@pytest.mark.parametrize("other", [3, 0, None, "x", HUGE, np.ones(3)], ids=quoted)
def test_counts_and_statistics_add_up_with_their_like_only(other: Any) -> None:
    statistics = et.Statistics.of(ROWS, GRAPH)
    for mine, kind in ((statistics, "Statistics"), (statistics.counts, "Counts")):
        with pytest.raises(et.DataError, match=f"{kind} add up with {kind}, not with"):
            mine + other
        with pytest.raises(et.DataError, match=f"{kind} add up with {kind}, not with"):
            mine - other


def test_a_sum_of_statistics_begins_with_the_first() -> None:
    statistics = et.Statistics.of(ROWS, GRAPH)
    with pytest.raises(et.DataError, match="Statistics add up with Statistics, not with 0"):
        sum([statistics, statistics])
    assert sum([statistics], start=statistics).rows == 120


def test_counts_never_wrap_around() -> None:
    heavy = et.Statistics.of(ROWS, GRAPH, sample_weight=np.full(60, 2**47))
    assert heavy.rows == 60 * 2**47
    with pytest.raises(et.DataError, match=r"these counts add up to 1.69e\+16 rows, more than the 9.01e\+15"):
        heavy + heavy
    with pytest.raises(et.DataError, match="more than the"):
        heavy.counts + heavy.counts


def changed(content: Any, **entries: Any) -> Any:
    """The document of statistics with some entries changed, in an array of bytes."""
    return np.frombuffer(json.dumps(json.loads(bytes(content)) | entries).encode(), np.uint8)


@pytest.mark.parametrize(
    ("name", "spoil"),
    [
        ("dense", lambda array: array + 2**62),
        ("dense", lambda array: -1 - array),
        ("dense", lambda array: array * math.nan),
        ("content", lambda array: changed(array, rows=2**60)),
        ("content", lambda array: changed(array, rows={"float": "nan"})),
        ("sample_codes", lambda array: array + np.uint8(100)),
        ("sample_weights", lambda array: array * 1000),
        ("sample_hashes", lambda array: array[::-1]),
        ("content", lambda array: changed(array, known_to=0)),
        ("columns", lambda array: array[:-1]),
        ("columns", lambda array: array[::-1]),
        ("content", lambda array: array[:-1]),
        ("content", lambda array: changed(array, groups=[[1, 0]])),
        ("content", lambda array: changed(array, groups=[[]])),
    ],
)
def test_arrays_that_no_rows_leave_are_no_statistics(name: str, spoil: Callable[[Any], Any]) -> None:
    arrays: dict[str, Any] = arrays_of(et.Statistics.of(ROWS, GRAPH))
    with pytest.raises(et.FileError):
        of_arrays(et.Statistics, arrays | {name: spoil(arrays[name])})


# Whatever the caller has set.


def test_arithmetic_is_ours_whatever_the_caller_has_set() -> None:
    """Under ``np.errstate(all="raise")`` every result is bit-identical to that without."""
    long = et.LatentNetwork.random(zoo.hmm(30, observed_states=3), concentration=0.01, seed=0)
    rows = long.sample(40, seed=0)
    given = {"x0": int(rows[0, 0])}

    def answers() -> list[Any]:
        network = et.LatentNetwork(long.graph, long.tables)
        found: list[Any] = [network.log_prob(rows), network.joint(["x0", "x20"]), network.decode(rows).states]
        found += [network.posterior(rows, ["h3"]), network.sample(5, seed=0), network.ordered().tables["h0"]]
        for model in (
            et.SpectralJunctionTree(long.graph, max_rank=2),
            et.EMJunctionTree(long.graph, init="random", n_init=1, max_iter=3, pseudo_counts=0, random_state=0),
            et.OnlineEMJunctionTree(long.graph, passes=1, random_state=0),
        ):
            model.fit(rows)
            found += [
                model.score_samples(rows),
                model.predict_proba(rows, "x3"),
                model.conditional(["x1"], given),
            ]
        classifier = et.JunctionTreeClassifier(et.SpectralJunctionTree(long.graph)).fit(rows, np.arange(40) % 2)
        return [*found, classifier.predict_proba(rows)]

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        plain = answers()
        with np.errstate(all="raise"):
            strict = answers()
    for one, other in zip(plain, strict, strict=True):
        assert_array_equal(one, other)


# Work is bounded.


def grid(side: int) -> et.LatentGraph:
    """A grid with a third of its variables observed."""
    cells = [(i, j) for i in range(side) for j in range(side)]
    edges = [(f"v{i}_{j}", f"v{i + 1}_{j}") for i, j in cells if i + 1 < side]
    edges += [(f"v{i}_{j}", f"v{i}_{j + 1}") for i, j in cells if j + 1 < side]
    hidden = [f"v{i}_{j}" for k, (i, j) in enumerate(cells) if k % 3]
    return et.LatentGraph({f"v{i}_{j}": 2 for i, j in cells}, edges, hidden, directed=False)


@pytest.mark.parametrize("make", [lambda: zoo.hmm(40, order=10), lambda: grid(10), lambda: zoo.hmm(40, 1, 512, 9)])
def test_what_would_take_long_to_plan_is_refused_at_once_with_the_reason(
    make: Callable[[], et.LatentGraph],
) -> None:
    """Their exact models are there all the same, and a cap on ranks makes a plan."""
    wide = make()
    started = time.process_time()
    with pytest.raises(
        et.RankError, match=r"joint states, and finding its rank and its views would take too long; set"
    ):
        et.SpectralJunctionTree(wide).plan(wide)
    with pytest.raises(et.RankError, match="would take too long"):
        et.Statistics.of(np.zeros((2, len(wide.observed)), int), wide)
    assert et.JunctionTree.of(wide).width >= 1
    # By the processor's clock, and generously: it takes a hundredth of this.
    assert time.process_time() - started < 10
