"""What the fuzzer makes calls on and with: a pool of good objects, and how each argument is sampled."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import date
from functools import cached_property
from typing import Any

import hostile_values
import networkx as nx
import numpy as np
import pandas
from sklearn.base import clone

import eigentree as et
from eigentree import zoo

ESTIMATORS = ("SpectralJunctionTree", "EMJunctionTree", "LatentClassModel", "OnlineEMJunctionTree")


WRAPPERS = ("JunctionTreeClassifier", "JunctionTreeImputer")


class Pool:
    """Good objects to make calls on and to give as arguments; made once."""

    @cached_property
    def graphs(self) -> list[et.LatentGraph]:
        undirected = et.LatentGraph(
            {"x0": 2, "h0": 2, "x1": 3, "x2": 2},
            [("x0", "h0"), ("h0", "x1"), ("h0", "x2")],
            ["h0"],
            directed=False,
        )
        return [zoo.hmm(3, observed_states=3), zoo.mixture(4, 2, (2, 3, 2, 2)), undirected, zoo.latent_tree(2)]

    @cached_property
    def networks(self) -> list[et.LatentNetwork]:
        sure = {"h": [1.0, 0.0], **{f"x{k}": np.eye(2, n) for k, n in enumerate((2, 3, 2, 2))}}
        return [
            *(et.LatentNetwork.random(graph, seed=0) for graph in self.graphs),
            et.LatentNetwork(self.graphs[1], sure),
        ]

    @cached_property
    def fitted(self) -> dict[str, list[Any]]:
        """Estimators by the name of their class: fitted on each graph, and one that is not."""
        made: dict[str, list[Any]] = {}
        for name, settings in (
            ("SpectralJunctionTree", {}),
            ("EMJunctionTree", {"init": "random", "n_init": 1, "max_iter": 3, "random_state": 0}),
            ("OnlineEMJunctionTree", {"batch_size": 10, "passes": 2, "random_state": 0}),
        ):
            kind = getattr(et, name)
            made[name] = [kind(n.graph, **settings).fit(n.sample(30, seed=1)) for n in self.networks[:4]]
            made[name].append(kind(self.graphs[0], **settings))
        mixed = self.graphs[1].with_states({"x0": 1, "x3": 1})
        made["SpectralJunctionTree"].append(et.SpectralJunctionTree(mixed).fit(self.numbers))
        classes = et.LatentClassModel(2, init="random", n_init=1, max_iter=3, random_state=0)
        made["LatentClassModel"] = [clone(classes).fit(n.sample(30, seed=1)) for n in self.networks[:4]]
        numbers = np.random.default_rng(0).normal(size=(30, 3))
        made["LatentClassModel"].append(clone(classes).fit(numbers))
        made["LatentClassModel"].append(clone(classes).set_params(covariates=["x0"]).fit(numbers))
        made["LatentClassModel"].append(classes)
        rows = self.networks[0].sample(30, seed=1)
        made["JunctionTreeClassifier"] = [
            et.JunctionTreeClassifier(made[name][0]).fit(rows, np.arange(30) % 2) for name in ESTIMATORS
        ]
        words = ["abab", "aab", "bb", "b"]
        made["EMHMM"] = [
            et.EMHMM(2, init="random", n_init=1, max_iter=3, random_state=0).fit(words),
            et.EMHMM(3, 2, init="random", n_init=1, max_iter=3, random_state=0).fit([list(word) for word in words]),
            et.EMHMM((2, 3), init="random", n_init=1, max_iter=3, random_state=0).fit(words),
            et.EMHMM(2, emissions="gaussian", init="random", n_init=1, max_iter=3, random_state=0).fit(
                np.random.default_rng(0).normal(size=(30, 2)), lengths=[20, 10]
            ),
            et.EMHMM(2, init="random", n_init=1, max_iter=3, random_state=0).fit(
                words, inputs=["u", "v", "u", "v"]
            ),
            et.EMHMM(
                2,
                inputs_affect=("start", "transitions", "emissions"),
                init="random",
                n_init=1,
                max_iter=3,
                random_state=0,
            ).fit(words, inputs=pandas.DataFrame({"dose": np.arange(10) / 5.0, "group": ["u", "v"] * 5})),
            et.EMHMM(2, durations="explicit", init="random", n_init=1, max_iter=3, random_state=0).fit(words),
            et.EMHMM(2),
        ]
        clusters = et.MixtureHMM(2, [2, 1], init="random", n_init=1, max_iter=3, random_state=0)
        made["MixtureHMM"] = [
            clone(clusters).fit(words),
            clone(clusters).fit(words, inputs=["u", "v", "u", "v"]),
            clone(clusters).fit(
                words, inputs=pandas.DataFrame({"dose": np.arange(4) / 5.0, "group": ["u", "v"] * 2})
            ),
            clusters,
        ]
        made["SequenceTagger"] = [
            et.SequenceTagger().fit(words, ["uvuv", "uuv", "vv", "v"]),
            et.SequenceTagger(et.EMHMM(2, init="random", n_init=1, max_iter=3, random_state=0), 0.9, 1.0).fit(
                [list(word) for word in words], [[0, 1, None, 1], [0, 0, 1], [1, 1], [1]]
            ),
            et.SequenceTagger(),
        ]
        trees = et.HiddenMarkovTree(2, init="random", n_init=1, max_iter=3, random_state=0)
        made["HiddenMarkovTree"] = [
            clone(trees).fit(["a", "b", "a", "b"], [-1, 0, 0, -1]),
            clone(trees).fit(["(a b)", "(a (a b) b)"]),
            clone(trees).fit(numbers[:, :2], np.where(np.arange(30) % 3, np.arange(30) // 3 * 3, -1)),
            trees,
        ]
        grammar = et.LatentGrammar(2, max_iter=3, random_state=0)
        made["LatentGrammar"] = [
            clone(grammar).fit(TREES * 5),
            clone(grammar).set_params(unseen="impossible", handle_unknown="missing").fit(TREES * 5),
            grammar,
        ]
        made["SpectralLatentGrammar"] = [
            et.SpectralLatentGrammar(2).fit(TREES * 5),
            et.SpectralLatentGrammar(3, 0.0, "impossible", handle_unknown="missing").fit(TREES),
            et.SpectralLatentGrammar(2).fit_moments(made["LatentGrammar"][0].grammar_),
            et.SpectralLatentGrammar(),
        ]
        made["SpectralHMM"] = [
            et.SpectralHMM(2).fit(words * 3),
            et.SpectralHMM(2, shrinkage=0.4).fit([[[0, 1], [1, 2], [0, 0], [1, 1]], [[1, 0], [0, 2]]] * 4),
            et.SpectralHMM(2).fit(words * 3, inputs=["u", "v", "u", "v"] * 3),
            et.SpectralHMM(2),
        ]
        made["JunctionTreeImputer"] = [et.JunctionTreeImputer(made[name][0]).fit(rows) for name in ESTIMATORS]
        return made

    @cached_property
    def tensors(self) -> list[et.LabeledTensor]:
        random = np.random.default_rng(0)
        shapes = {"AB": (2, 3), "AAB": (2, 2, 3), "B": (3,), "": (), "ABC": (2, 3, 2)}
        return [et.LabeledTensor(random.random(shape), list(labels)) for labels, shape in shapes.items()]

    @cached_property
    def numbers(self) -> np.ndarray:
        """Rows whose first and last columns are numbers, of the second graph."""
        rows = self.networks[1].sample(60, seed=1).astype(float)
        rows[:, [0, 3]] += np.random.default_rng(0).normal(size=(60, 2))
        return rows

    @cached_property
    def statistics(self) -> list[et.Statistics]:
        made = [et.Statistics.of(n.sample(20, seed=2), n.graph) for n in self.networks[:4]]
        return [*made, et.Statistics.of(self.numbers, self.graphs[1].with_states({"x0": 1, "x3": 1}))]

    @cached_property
    def counts(self) -> list[et.Counts]:
        return [one.counts for one in self.statistics[:4]]

    @cached_property
    def pair_counts(self) -> list[et.PairCounts]:
        return [et.PairCounts.of(n.sample(20, seed=2)) for n in self.networks[:4]]

    @cached_property
    def foreign(self) -> list[Any]:
        """Graphs of other libraries."""
        with warnings.catch_warnings():
            # SWIG's builtin types warn while pyagrum loads; as an error that would crash the interpreter.
            warnings.simplefilter("ignore")
            from pgmpy.models import DiscreteBayesianNetwork
            from pyagrum import fastBN

        good = nx.DiGraph([("h", "x0"), ("h", "x1")])
        nx.set_node_attributes(good, {"h": True}, "hidden")
        nx.set_node_attributes(good, 2, "states")
        odd = nx.Graph([(1, 2)])
        nx.set_node_attributes(odd, "many", "states")
        bare = DiscreteBayesianNetwork([("h", "x0")])
        return [
            good,
            odd,
            nx.MultiGraph([("a", "b")]),
            nx.DiGraph(),
            bare,
            fastBN("h->x0;h->x1"),
            fastBN("a->b->c"),
        ]

    @cached_property
    def objects(self) -> dict[str, list[Any]]:
        """What methods are called on, by the name of the class."""
        return {
            "Counts": self.counts,
            "JunctionTree": [et.JunctionTree.of(graph) for graph in self.graphs],
            "LabeledTable": [table for n in self.networks[:2] for table in n.labeled_tables.values()],
            "LabeledTensor": self.tensors,
            "LatentGraph": self.graphs,
            "LatentNetwork": self.networks,
            "PairCounts": self.pair_counts,
            "Statistics": self.statistics,
            **self.fitted,
        }


POOL = Pool()

Kind = Callable[["Draw"], Any]


@dataclass
class Draw:
    """One call while its arguments are sampled.

    Attributes
    ----------
    random : Generator
    graph : LatentGraph
        The graph that the call is about.
    table : array or None
        The codes of the data that were sampled last, if their meaning is that of plain codes.
    """

    random: np.random.Generator
    graph: et.LatentGraph
    table: np.ndarray | None = None
    rows: int = field(default=0)

    def choice(self, *options: Any) -> Any:
        return options[self.random.integers(len(options))]

    def some(self, names: tuple[str, ...], most: int = 3) -> list[str]:
        count = int(self.random.integers(1, min(most, len(names)) + 1))
        return [names[k] for k in self.random.permutation(len(names))[:count]]


def data(draw: Draw) -> Any:
    states = tuple(draw.graph.states[name] for name in draw.graph.observed)
    draw.rows = int(draw.random.integers(1, 25))
    draw.table = hostile_values.codes(draw.random, states, draw.rows)
    if draw.random.random() < 0.7:
        return draw.choice(*hostile_values.DRESSES)(draw.random, draw.table)
    spoiled = draw.choice(*hostile_values.SPOILED)(draw.random, draw.table)
    draw.table = None
    return spoiled


def sequences(draw: Draw) -> Any:
    """Sequences of the letters a and b in some form, or rows that may be none."""
    if draw.random.random() < 0.1:
        return data(draw)
    draw.rows = int(draw.random.integers(1, 8))
    words = ["".join(draw.random.choice(["a", "b"], draw.random.integers(0, 6))) for _ in range(draw.rows)]
    wide = [[*word, *[None] * (6 - len(word))] for word in words]
    long = [(number, cell) for number, word in enumerate(words) for cell in word]
    return draw.choice(
        words,
        [list(word) for word in words],
        [np.array(list(word), object) for word in words],
        pandas.DataFrame(wide),
        pandas.DataFrame(long, columns=["id", "x0"]),
        np.array(wide, object),
        {"x0": pandas.DataFrame(wide)},
        [*words, "abz"],
        [[["a", "b"]], [["b", None]]],
    )


def inputs(draw: Draw) -> Any:
    """Return inputs of sequences, or none: a row for each step or sequence, of symbols or numbers."""
    if draw.random.random() < 0.4:
        return None
    # Most often one row for each sequence.
    rows = max(draw.rows, 1) if draw.random.random() < 0.8 else int(draw.random.integers(1, 20))
    groups = (["u", "v", "w"] * rows)[:rows]
    return draw.choice(
        ["uv"[k % 2] for k in range(rows)],
        draw.random.normal(size=rows),
        draw.random.normal(size=(rows, 2)),
        np.ones(rows),
        pandas.DataFrame({"dose": draw.random.normal(size=rows), "group": groups}),
        pandas.DataFrame({"dose": np.arange(rows) / 2, "group": ["uv"[k % 2] for k in range(rows)]}),
        "x0",
        ["x0"],
        [["u"], ["v", "u"]],
        [None] * rows,
    )


TREES = ["(S (NP she) (VP (V sees) (NP stars)))", ("S", ("NP", "stars"), ("VP", "shine"), ("PP", "here"))]


def treebank(draw: Draw) -> Any:
    """Labelled trees, some with what is missing or unknown, or what is none."""
    if draw.random.random() < 0.1:
        return data(draw)
    return draw.choice(
        TREES * 3,
        iter(TREES * 2),
        "(S (NP ()) (VP shine))",
        [("S", ("NP", None), ("VP", "shine")), (None, ("NP", "she"), ("VP", ("V", "sees"), (None, "stars")))],
        ["(S (NP walking) (VP (V sees) (NP stars) (NP she)))", "(XX she)"],
        [],
        ["(S (NP she)", 3, {"label": "S"}],
        ["(@S (NP she))", "(S+NP she)"],
        "no file",
    )


def sentences(draw: Draw) -> Any:
    """Sentences, or what are none."""
    return draw.choice(
        ["she sees stars", "stars shine here"], [["she", None, "stars"]], TREES, "she sees stars", [], [""], [[]], 3
    )


def nodes(draw: Draw) -> Any:
    """Nodes of trees, cells of the letters a and b or numbers, or a list of trees, or neither."""
    if draw.random.random() < 0.1:
        return data(draw)
    draw.rows = 4
    cells = list(draw.random.choice(["a", "b"], 4))
    return draw.choice(
        cells,
        np.array(cells)[:, None],
        pandas.DataFrame({"x0": cells, "above": [-1, 0, 1, 1]}),
        ["(a b)", ("a", ("b", None), "a"), "(a (b b))", "(b () b)"],
        draw.random.normal(size=(4, 2)),
        [],
        "(a b)",
        ["(a", "b)"],
    )


def parents(draw: Draw) -> Any:
    """Return the rows of parents of four nodes, or none, or such that are no trees."""
    return draw.choice(
        [-1, 0, 0, 1],
        [3, 3, -1, -1],
        [np.nan, 0.0, 1.0, 2.0],
        None,
        None,
        "above",
        "below",
        [1, 2, 0, -1],
        [-1, 0, 9, 0],
        [-1, 0],
        ["a"] * 4,
    )


def known_states(draw: Draw) -> Any:
    """Return known states of sequences, mostly none: a cell for each step or sequence."""
    rows = max(draw.rows, 1)
    numbers = draw.random.integers(0, 3, size=rows)
    return draw.choice(
        None, None, None, numbers, [None] * rows, np.where(numbers < 2, numbers, np.nan), "x0", [[9]]
    )


def step_labels(draw: Draw) -> Any:
    """Return labels of sequences, which hold at all steps of one, or what does not fit."""
    rows = max(draw.rows, 1)
    codes = draw.random.integers(0, 2, size=rows)
    letters = np.array(["u", "v"])[codes]
    return draw.choice(codes, letters, np.where(codes > 0, 1.0, np.nan), letters.tolist(), "x0", None, [[9]])


def sequence_table(draw: Draw) -> Any:
    good = {"start": [0.5, 0.5], "transitions": [[0.9, 0.1], [0.2, 0.8]], "emissions": [[0.3, 0.7], [1.0, 0.0]]}
    return draw.choice(good, good | {"start": [1, 1]}, good | {"emissions": {"x0": good["emissions"]}}, {})


def data_or_pairs(draw: Draw) -> Any:
    rows = data(draw)
    if draw.random.random() < 0.8:
        return rows
    draw.table = None
    return draw.choice(*POOL.pair_counts)


def other_data(draw: Draw) -> Any:
    return data(replace(draw)) if draw.random.random() < 0.3 else None


def weights(draw: Draw) -> Any:
    return hostile_values.weights(draw.random, draw.rows) if draw.random.random() < 0.6 else None


def labels(draw: Draw) -> Any:
    rows = max(draw.rows, 1)
    return draw.choice(
        np.arange(rows) % 2,
        [["a", "b"][k % 2] for k in range(rows)],
        np.zeros(rows),
        [None] * rows,
        [1, "a"] * rows,
    )


def seed(draw: Draw) -> Any:
    return draw.choice(None, 0, 5, np.random.default_rng(0), np.random.RandomState(0), 2**100, 2**200)


def names(draw: Draw) -> Any:
    return draw.choice(
        draw.some(draw.graph.observed), tuple(draw.some(draw.graph.observed)), list(draw.graph.names)
    )


def hidden_names(draw: Draw) -> Any:
    return draw.choice(None, draw.some(draw.graph.hidden), draw.some(draw.graph.names))


def given(draw: Draw) -> Any:
    return {name: int(draw.random.integers(-1, 3)) for name in draw.some(draw.graph.observed, 2)}


def of(*options: Any) -> Kind:
    return lambda draw: draw.choice(*options)


def pooled(find: Callable[[], list[Any]]) -> Kind:
    return lambda draw: draw.choice(*find())


def tables(draw: Draw) -> Any:
    network = next(n for n in POOL.networks if n.graph == draw.graph)
    found: dict[Any, Any] = dict(network.tables)
    spoiled = draw.choice(*found)
    if draw.random.random() < 0.5:
        found[spoiled] = draw.choice(found[spoiled] * 2, found[spoiled].tolist(), hostile_values.junk(draw.random))
    if draw.random.random() < 0.2:
        del found[spoiled]
    return found


def labels_of_tensor(draw: Draw) -> Any:
    return list(draw.choice("A", "B", "AB", "BA", "AAB", "", "AAA", "C", "ABC"))


def array(draw: Draw) -> Any:
    shape = draw.choice((2, 3), (2,), (), (2, 2, 3), (0,), (1,) * 40)
    scale = draw.choice(1.0, 1e300, 1e-320, np.nan, np.inf)
    return draw.random.random(shape) * scale


def _fitted_here(draw: Draw) -> Any:
    """A model of the columns of the call, or any other."""
    place = POOL.graphs.index(draw.graph)
    own = [*(POOL.fitted[name][place] for name in ESTIMATORS), POOL.networks[place]]
    return draw.choice(*own) if draw.random.random() < 0.8 else draw.choice(*_all_fitted())


_TWO: dict[str, Kind] = {
    "small": _fitted_here,
    "large": _fitted_here,
    "X": data,
    "sample_weight": weights,
    "lengths": of(None),
}
"""Two models of the same rows."""

LABELS: dict[str, Kind] = {
    "categories": of(None, None, None, {"x0": [0, 1, 2]}, {"x0": ["a", "b"]}),
    "handle_unknown": of("error", "missing"),
    "numeric": of("error", "quantiles", "emissions"),
}

EMISSIONS: dict[str, Kind] = {
    "emissions": of(
        "auto", "gaussian", "student", {"x0": "gaussian"}, {("x0", "x1"): "full"}, {"x9": "gamma"}, "normal"
    )
}

CONSTRAINTS: dict[str, Kind] = {
    "fixed": of(
        None, {"x0": [[0.9, np.nan], [np.nan, np.nan]]}, {"x0": {0: 0.5}}, {"h": [0.5, 0.5]}, {"x9": {0: 1.0}}, {}
    ),
    "equal": of(None, [("x0",)], [("x0", "x1")], [(("x0", 0), ("x0", 1))], [("x0", ("x9", {"h": 0}))], []),
}

SHARED: dict[str, Kind] = LABELS | {
    "structure": lambda draw: draw.choice(
        draw.graph, draw.graph, zoo.Mixture(2), zoo.HMM(), zoo.HiddenChowLiu(2), "auto"
    ),
    "random_state": seed,
    "n_jobs": of(1, 2),
    "verbose": of(0, 1),
}

PARAMETERS: dict[str, dict[str, Kind]] = {
    "SpectralJunctionTree": LABELS
    | {
        "structure": SHARED["structure"],
        "views": of(1, 6),
        "scaling": of("variance", None),
        "shrinkage": of("auto", 0, 0.4, np.inf),
        "max_rank": of(None, 1, 2),
        "when_short": of("warn", "raise"),
        "floor": of("auto", 0, 1, 0.5),
        "hats": of("auto", "auto", 5, 33, 7),
        "emissions": of("auto", "semiparametric", {"x0": "categorical"}, {"x0": "semiparametric"}, "gaussian"),
    },
    "EMJunctionTree": SHARED
    | EMISSIONS
    | CONSTRAINTS
    | {
        "n_init": of(1, 2),
        "tol": of(None, 1e-3),
        "max_iter": of(1, 3),
        "stopping": of("gain", "paper"),
        "init": lambda draw: draw.choice("random", "mixture", "copy", "spectral", *POOL.networks),
        "accelerate": of(True, False),
        "validation_fraction": of(0.0, 0.3),
        "finish_rows": of("auto", None, 1, 5, 10**6),
        "pseudo_counts": of(0, 0.1, 1e-300, 1e9),
    },
    "LatentClassModel": {name: one for name, one in SHARED.items() if name != "structure"}
    | EMISSIONS
    | CONSTRAINTS
    | {
        "group": of(None, "x0", "x9"),
        "measurement_invariance": of(True, False, ["x1"], ["x9"]),
        "known_class": of(None, "x0", "x1"),
        "n_classes": of(1, 2, 3, 10**9),
        "n_init": of(1, 2),
        "tol": of(1e-3, 1e-8),
        "max_iter": of(1, 3),
        "init": lambda draw: draw.choice("random", "mixture", "spectral", *POOL.networks),
        "pseudo_counts": of(0, 1e-6, 0.1, 1e9),
        "covariates": of(None, None, [], ["x0"], ["x1", "x0"], "x0", ["x9"]),
    },
    "SequenceTagger": {
        "estimator": lambda draw: draw.choice(
            None, *(et.EMHMM(size, init="random", n_init=1, max_iter=3, random_state=0) for size in (1, 2))
        ),
        "training": of("generative", "conditional", 0.5),
        "alpha": of("auto", 0.0, 1.0),
        "random_state": seed,
    },
    "OnlineEMJunctionTree": SHARED
    | {
        "stepsize": of(0.7, 1),
        "batch_size": of(1, 256),
        "passes": of(1, 2),
        "tol": of(0, 0.1),
        "init": lambda draw: draw.choice(None, *POOL.networks),
        "pseudo_counts": of(0, 0.1, 1e9),
    },
    "EMHMM": LABELS
    | EMISSIONS
    | {
        "hidden_states": of(1, 2, 3, 10**6, (2, 2), [2, 3], (2, 1), ()),
        "order": of(1, 2, 40),
        "n_init": of(1, 2),
        "tol": of(None, 1e-3),
        "max_iter": of(1, 3),
        "init": lambda draw: draw.choice(
            "random", "windows", "moments", "merged", "position", sequence_table(draw)
        ),
        "transitions": of("full", "left-to-right", [[1, 1], [0, 1]], np.ones((2, 2)), [[0, 0], [1, 1]]),
        "start": of(None, [1, 0], [0.5, 0.5], [0.5, 0.6]),
        "sticky": of(0.0, 2.0, 1e300),
        "durations": of(None, None, None, "explicit", "negative_binomial", "geometric", "weibull"),
        "max_duration": of(None, None, None, 1, 5, 0, 10**12),
        "stopping": of("gain", "paper"),
        "pseudo_counts": of(0, 0.1, 1e-300, 1e9),
        "accelerate": of(True, False),
        "validation_fraction": of(0.0, 0.3),
        "random_state": seed,
        "n_jobs": of(1, 2),
        "verbose": of(0, False),
        "sequence": of(None, "id"),
        "time": of(None, "x0"),
        "inputs_affect": of(
            "start", "transitions", ("start", "transitions", "emissions"), ["emissions"], (), "all"
        ),
    },
    "HiddenMarkovTree": LABELS
    | EMISSIONS
    | {
        "hidden_states": of(1, 2, 3, 10**6),
        "n_init": of(1, 2),
        "tol": of(None, 1e-3),
        "max_iter": of(1, 3),
        "init": of("random", "clusters", "multistart"),
        "pseudo_counts": of(0, 0.1, 1e9),
        "random_state": seed,
        "n_jobs": of(1, 2),
        "verbose": of(0, False),
    },
    "LatentGrammar": {
        "hidden_states": of(1, 2, 3, {"NP": 2}, {"XX": 2}, 10**6),
        "init": of("split_merge", "random"),
        "n_init": of(1, 2),
        "max_iter": of(1, 3),
        "tol": of(None, 1e-3),
        "stopping": of("gain", "paper"),
        "pseudo_counts": of(0, 0.1, 1.0, 1e9),
        "unseen": of("witten_bell", "impossible"),
        "binarisation": of("right", "left", None),
        "min_word_count": of(1, 2, 10**6),
        "unknown_words": of("signature", "single"),
        "handle_unknown": of("error", "missing"),
        "accelerate": of(True, False),
        "validation_fraction": of(0.0, 0.1, 0.5),
        "random_state": seed,
        "n_jobs": of(1, 2),
        "verbose": of(0, False),
    },
    "SpectralHMM": LABELS
    | {
        "hidden_states": of(1, 2, 3, 10**6),
        "order": of(1, 2, 40),
        "channels": of("independent", "dependent"),
        "shrinkage": of("auto", 0, 0.4, np.inf),
        "max_rank": of(None, 1, 3),
        "floor": of("auto", 0, 0.01, 1),
        "scaling": of("auto", "variance", None),
        "hats": of("auto", 5, 33, 6),
        "emissions": of("auto", "semiparametric", "gaussian", {"x0": "semiparametric"}, {"x9": "categorical"}),
        "n_jobs": of(1, 2),
        "sequence": of(None, "id"),
        "time": of(None, "x0"),
    },
}
"""How the parameters of estimators are sampled: such that a fit is short."""


PARAMETERS["SpectralLatentGrammar"] = {
    name: PARAMETERS["LatentGrammar"][name]
    for name in ("unseen", "binarisation", "min_word_count", "unknown_words", "handle_unknown")
} | {"hidden_states": of(1, 2, 3, 10**6), "shrinkage": of("auto", 0, 0.4, np.inf)}


PARAMETERS["MixtureHMM"] = {
    name: own for name, own in PARAMETERS["EMHMM"].items() if name not in ("start", "inputs_affect")
} | {"n_clusters": of(1, 2, 3, 10**6), "hidden_states": of(1, 2, [2, 1], [1, 2, 3], 10**6, ())}


def settings(draw: Draw, kind: str) -> dict[str, Any]:
    """Return some parameters of an estimator, one of them junk now and then."""
    drawn = {name: one(draw) for name, one in PARAMETERS[kind].items()}
    chosen = {name: value for name, value in drawn.items() if name == "structure" or draw.random.random() < 0.5}
    if kind in ("EMHMM", "MixtureHMM", "HiddenMarkovTree", "LatentGrammar"):
        chosen = {"init": "random", "n_init": 1, "max_iter": 3} | chosen
    if kind in ("EMJunctionTree", "LatentClassModel"):
        # A whole race, and a choice of pseudo-counts, would take a second.
        chosen = {"init": "random", "n_init": 1, "max_iter": 3, "pseudo_counts": 0.1} | chosen
    for name in chosen:
        if draw.random.random() < 0.04:
            chosen[name] = _not_endless(hostile_values.junk(draw.random))
    return chosen


def _not_endless(value: Any) -> Any:
    # A million steps are a good number, but nothing for a fuzzer.
    return 3 if isinstance(value, int | float) and 1000 < value < 2**53 else value


EXTERNAL = pandas.DataFrame({"age": np.arange(30) * 1.5, "region": ["east", "west", None] * 10})
"""External variables of as many rows as the pool's models were fitted to."""

STEPWISE: dict[str, Kind] = {
    "model": pooled(lambda: [*POOL.fitted["LatentClassModel"] * 4, *_all_fitted()]),
    "X": lambda draw: (
        data(draw) if draw.random.random() < 0.3 else draw.choice(*POOL.networks[:4]).sample(30, seed=1)
    ),
    "correction": of("ML", "BCH", None),
    "assignment": of("modal", "soft"),
    "sample_weight": of(None, None, None, np.ones(30), np.arange(30.0), [1.0]),
}

ERRORS: dict[str, Kind] = {
    "lengths": of(None, None, None, [1, 2]),
    "sample_weight": weights,
    "inputs": of(None),
    "kind": of(None, "observed", "empirical", "robust", "sandwich"),
    "clusters": of(None, None, None, [0, 1], "ab", [[1]]),
    "strata": of(None, None, None, [0, 1], "ab", [[1]]),
    "statistic": of(None, None, lambda model: model.n_parameters_, lambda model: "a", 3),
}
"""Arguments of `estimates`."""

ARGUMENTS: dict[str, dict[str, Kind]] = {
    "score_samples": {"X": data},
    "score": {"X": data, "y": of(None)},
    "log_prob": {"X": data},
    "predict": {"X": data, "target": lambda draw: draw.choice(None, *draw.graph.names)},
    "predict_proba": {"X": data, "target": lambda draw: draw.choice(None, *draw.graph.names)},
    "predict_quantiles": {
        "X": data,
        "target": lambda draw: draw.choice(*draw.graph.names),
        "quantiles": of([0.1, 0.9], (0.5,), [0, 2], [], "0.5"),
    },
    "LatentGraph.with_states": {
        "states": lambda draw: {draw.choice(*draw.graph.names, "x9"): draw.choice(1, 3, 0)}
    },
    "impute": {"X": data, "method": of("mode", "mean", "median", "sample"), "random_state": seed},
    "sample": {
        "n": of(1, 5, 20, 10**12),
        "random_state": seed,
        "given": lambda draw: draw.choice(None, given(draw)),
        "partitions": of(None),
    },
    "joint": {"names": names},
    "conditional": {"names": names, "given": given},
    "posterior": {"X": data, "names": hidden_names},
    "decode": {"X": data},
    "sample_hidden": {"X": data, "random_state": seed},
    "expected_counts": {"X": data, "sample_weight": weights},
    "bic": {"X": data, "sample_weight": weights},
    "aic": {"X": data, "sample_weight": weights},
    "criteria": {"X": data, "sample_weight": weights},
    "estimates": {"X": lambda draw: draw.choice(None, None, data(draw))} | ERRORS,
    "vcov": {"X": lambda draw: draw.choice(None, None, data(draw))},
    "confint": {"X": lambda draw: draw.choice(None, None, data(draw)), "level": of(0.95, 0.5, 1, "a")},
    "get_params": {"deep": of(True, False)},
    "set_params": {},
    "fit": {"X": data, "y": of(None), "sample_weight": weights},
    "partial_fit": {"X": data, "y": of(None), "sample_weight": weights},
    "EMJunctionTree.fit": {
        "X": data,
        "y": of(None),
        "sample_weight": weights,
        "validation": other_data,
    },
    "LatentClassModel.fit": {"X": data, "y": of(None), "sample_weight": weights, "validation": other_data},
    "entropy": {"X": data, "sample_weight": weights},
    "arrays": {},
    "as_tree": {},
    "EMHMM": PARAMETERS["EMHMM"],
    **{
        f"EMHMM.{name}": {"X": sequences, "lengths": of(None, None, [1, 2]), "inputs": inputs, **more}
        for name, more in {
            "fit": {"y": of(None), "sample_weight": weights, "states": known_states},
            "score_samples": {"per_symbol": of(True, False)},
            "score": {"y": of(None)},
            "predict_proba": {"target": of("state", "x0")},
            "predict_next_proba": {"target": of(None, "x0", "x9"), "steps": of(1, 3, 0)},
            "predict_next": {"steps": of(1, 3, 0), "quantiles": of(None, [0.1, 0.9], [0, 2], "0.5")},
            "filter": {},
            "predict": {},
            "decode": {},
            "impute": {"method": of("mode", "median", "sample"), "random_state": seed},
            "bic": {"sample_weight": weights},
            "aic": {"sample_weight": weights},
            "criteria": {"sample_weight": weights},
        }.items()
    },
    "SequenceTagger": PARAMETERS["SequenceTagger"],
    **{
        f"SequenceTagger.{name}": {"X": sequences, "lengths": of(None, None, [1, 2]), **more}
        for name, more in {
            "fit": {"y": step_labels, "sample_weight": weights},
            "score": {"y": step_labels, "sample_weight": weights},
            "score_labels": {"y": step_labels},
            "predict_proba": {},
            "predict": {},
            "decode": {},
        }.items()
    },
    "EMHMM.estimates": {"X": lambda draw: draw.choice(None, None, sequences(draw))} | ERRORS | {"inputs": inputs},
    "EMHMM.vcov": {"X": lambda draw: draw.choice(None, None, sequences(draw))},
    "EMHMM.confint": {"X": lambda draw: draw.choice(None, None, sequences(draw)), "level": of(0.9, 0)},
    "EMHMM.sample": {"n": of(0, 1, 5, 10**12), "length": of(1, 4, 10**12), "random_state": seed, "inputs": inputs},
    "EMHMM.odds_ratios": {"X": sequences},
    "EMHMM.at_inputs": {"inputs": of("u", "v", {"dose": 0.5, "group": "u"}, [0.5, "u"], {"dose": 1.0}, 3, [])},
    "EMHMM.to_network": {"length": of(1, 3)},
    "HiddenMarkovTree": PARAMETERS["HiddenMarkovTree"],
    **{
        f"HiddenMarkovTree.{name}": {"X": nodes, "parents": parents, **more}
        for name, more in {
            "fit": {"sample_weight": of(None, None, [1.0], [1, 2], [0, 0])},
            "impute": {"method": of("mode", "mean", "median", "sample"), "random_state": seed},
            "score_samples": {},
            "score": {},
            "predict_proba": {},
            "predict": {},
            "decode": {},
            "bic": {},
            "aic": {},
            "criteria": {},
        }.items()
    },
    "HiddenMarkovTree.sample": {"parents": parents, "random_state": seed},
    "HiddenMarkovTree.estimates": {"X": lambda draw: draw.choice(None, None, nodes(draw))} | ERRORS,
    "HiddenMarkovTree.vcov": {"X": lambda draw: draw.choice(None, None, nodes(draw))},
    "HiddenMarkovTree.confint": {"X": lambda draw: draw.choice(None, None, nodes(draw)), "level": of(0.9, 0)},
    "LatentGrammar": PARAMETERS["LatentGrammar"],
    **{
        f"LatentGrammar.{name}": {"X": treebank, **more}
        for name, more in {
            "fit": {"y": of(None)},
            "score_samples": {},
            "score": {"y": of(None)},
            "normal_form": {},
            "predict_proba": {},
            "decode": {},
            "impute": {},
            "anomalies": {"n": of(1, 3, 10**12)},
            "bic": {},
            "aic": {},
        }.items()
    },
    "LatentGrammar.sample": {"n": of(0, 1, 5), "random_state": seed, "max_nodes": of(1, 100, 10**5)},
    "LatentGrammar.parse": {"sentences": sentences, "pruning": of(0.0, 1e-3, 1.0)},
    "LatentGrammar.score_sentences": {"sentences": sentences},
    "SpectralLatentGrammar": PARAMETERS["SpectralLatentGrammar"],
    **{
        f"SpectralLatentGrammar.{name}": {"X": treebank, **more}
        for name, more in {
            "fit": {"y": of(None)},
            "score_samples": {},
            "score": {"y": of(None)},
            "normal_form": {},
            "impute": {},
            "anomalies": {"n": of(1, 3, 10**12)},
        }.items()
    },
    "SpectralLatentGrammar.parse": {"sentences": sentences, "pruning": of(0.0, 1e-3, 1.0)},
    "SpectralLatentGrammar.fit_moments": {
        "source": pooled(lambda: [one.grammar_ for one in POOL.fitted["LatentGrammar"][:2]])
    },
    "SpectralLatentGrammar.sample": {
        "n": of(0, 1, 5),
        "random_state": seed,
        "max_nodes": of(1, 100, 10**5),
    },
    "SpectralHMM": PARAMETERS["SpectralHMM"],
    **{
        f"SpectralHMM.{name}": {"X": sequences, "lengths": of(None, None, [1, 2]), **more}
        for name, more in {
            "fit": {"y": of(None), "sample_weight": weights, "inputs": inputs},
            "partial_fit": {"y": of(None), "sample_weight": weights, "inputs": inputs},
            "score_samples": {"per_symbol": of(True, False), "inputs": inputs},
            "score": {"y": of(None), "inputs": inputs},
            "predict_next_proba": {"target": of(None, "x0", "x9"), "steps": of(1, 3, 0), "inputs": inputs},
            "predict_next": {
                "steps": of(1, 3, 0),
                "quantiles": of(None, [0.1, 0.9], [0, 2], "0.5"),
                "inputs": inputs,
            },
            "filter": {
                "target": of(None, "x0", "x9", "state"),
                "quantiles": of(None, None, [0.5], []),
                "inputs": inputs,
            },
            "predict_proba": {"target": of("state", "x0"), "inputs": inputs},
            "decode": {"inputs": inputs},
            "impute": {"method": of("mode", "median", "sample"), "random_state": seed, "inputs": inputs},
        }.items()
    },
    "SpectralHMM.sample": {
        "n": of(0, 1, 5, 10**12),
        "length": of(1, 4, 10**12),
        "random_state": seed,
        "inputs": inputs,
    },
    "SpectralHMM.to_network": {"length": of(1, 3)},
    "SpectralHMM.fit_statistics": {
        "statistics": pooled(lambda: [one.statistics_ for one in POOL.fitted["SpectralHMM"][:2]])
    },
    "select()": {
        "X": lambda draw: draw.choice(sequences, data)(draw),
        "sizes": of((1, 2), [1], 3, ()),
        "estimator": lambda draw: draw.choice(
            et.EMHMM(init="random", n_init=1, max_iter=2, random_state=0),
            et.LatentClassModel(init="random", n_init=1, max_iter=2, random_state=0),
            {"one": et.SpectralJunctionTree(zoo.Mixture())},
        ),
        "by": of("bic", "aic", "icl", "held_out"),
        "held_out": of(None, 0, 2, 0.3),
        "blrt": of(False),
        "lengths": of(None),
        "sample_weight": weights,
        "n_jobs": of(1),
        "verbose": of(0),
    },
    "bootstrap()": {"model": _fitted_here, "X": data, "sample_weight": weights, "lengths": of(None)}
    | {
        "inputs": of(None),
        "statistic": of(None, lambda fit: fit.n_iter_, "mean"),
        "n_replicates": of(2, 3, 0),
        "parametric": of(False, True),
        "clusters": lambda draw: labels(draw) if draw.random.random() < 0.3 else None,
        "strata": lambda draw: labels(draw) if draw.random.random() < 0.3 else None,
        "random_state": seed,
        "n_jobs": of(1),
        "verbose": of(0),
    },
    "replicate_variance()": {"model": _fitted_here, "X": data, "statistic": of(None), "lengths": of(None)}
    | {
        "replicate_weights": lambda draw: (
            draw.random.random((draw.rows, draw.choice(1, 3))) * draw.choice(1.0, 0.0, -1.0)
        ),
        "kind": of("jackknife", "brr", "bootstrap"),
        "scale": of(None, 0.5, [1.0, 2.0, 3.0], -1.0),
        "rho": of(0.0, 0.5, 1.0),
        "n_jobs": of(1),
        "verbose": of(0),
    },
    "likelihood_ratio_test()": _TWO,
    "bootstrap_likelihood_ratio_test()": _TWO
    | {
        "n_replicates": of(1, 2, 0),
        "max_exceedances": of(None, 1, 0),
        "random_state": seed,
        "n_jobs": of(1),
        "verbose": of(0),
    },
    **{
        f"{name}()": {"model": _fitted_here, "X": data, "sample_weight": weights}
        for name in ("goodness_of_fit", "bivariate_residuals")
    },
    "classification_table()": {"model": _fitted_here, "X": data, "sample_weight": weights}
    | {"target": of(None, None, "h0", "h", "x0")},
    "labelled_f1()": {
        name: of(
            ["(S (NP she) (VP (V sees) (NP (D the) (N cat))))"],
            ["(S (VP (NP she) (V sees)) (NP (D the) (N cat)))"],
            ["(S she sees the cat)", "(S she)"],
            [("S", "she", None)],
            ["(S"],
            [],
            None,
        )
        for name in ("gold", "parsed")
    }
    | {"ignore": of(("TOP",), ["NP", "D"], (), "S", 3)},
    "fit_statistics": {"statistics": pooled(lambda: POOL.statistics)},
    "fit_moments": {"source": pooled(lambda: [*POOL.networks, *POOL.counts, _Moments()])},
    "plan": {
        "graph": pooled(lambda: POOL.graphs),
        "columns": lambda d: d.choice(None, None, *(each.columns for each in POOL.statistics)),
    },
    "recover": {},
    "to_network": {
        "X": data,
        "steps": of(1, 2),
        "sample_weight": weights,
        "pseudo_counts": of(0, 0.1),
        "random_state": seed,
    },
    "JunctionTreeClassifier": {
        "estimator": pooled(lambda: [POOL.fitted[name][0] for name in ESTIMATORS]),
        "class_as": of("models", "column"),
        "training": of("generative", "conditional", 0.5),
        "alpha": of("auto", 0.0, 1.0),
        "random_state": seed,
    },
    "JunctionTreeImputer": {
        "estimator": pooled(lambda: [None, *(POOL.fitted[name][0] for name in ESTIMATORS)]),
        "method": of("mode", "sample"),
        "random_state": seed,
    },
    "fit_transform": {"X": data, "y": of(None), "sample_weight": weights},
    "transform": {"X": data},
    "set_output": {"transform": of(None, "default", "pandas", "polars")},
    "get_feature_names_out": {"input_features": of(None, ["x0", "x1", "x2"])},
    "labels": {"name": lambda draw: draw.choice(*draw.graph.names)},
    "to_pgmpy": {},
    "to_pyagrum": {},
    "to_polars": {},
    "JunctionTreeClassifier.fit": {"X": data, "y": labels, "sample_weight": weights},
    "JunctionTreeClassifier.score": {"X": data, "y": labels, "sample_weight": weights},
    "JunctionTreeClassifier.predict_proba": {"X": data},
    "JunctionTreeClassifier.predict": {"X": data},
    "predict_log_proba": {"X": data},
    "predict_joint_log_proba": {"X": data},
    "Counts": {"graph": pooled(lambda: POOL.graphs), "groups": lambda draw: [draw.some(draw.graph.observed)]},
    "table": {"names": names},
    "empty": {},
    "update": {"X": data, "sample_weight": weights},
    "Statistics": {
        "counts": pooled(lambda: POOL.counts),
        "sample": lambda d: d.choice(*POOL.statistics).sample,
        "scales": of(()),
        "table": of(None),
    },
    "of": {
        "X": data,
        "structure": lambda draw: draw.choice(draw.graph, zoo.Mixture()),
        "views": of(1, 6),
        "max_rank": of(None, 1),
        "when_short": of("warn", "raise"),
        "sample_weight": weights,
        **LABELS,
    },
    "Statistics.empty": {
        "plan": lambda d: et.SpectralJunctionTree(d.graph).plan(d.graph),
        "columns": lambda d: d.choice(None, None, *(each.columns for each in POOL.statistics)),
        "scales": of((), (), (None,) * 4),
    },
    "PairCounts.of": {"X": data, "sample_weight": weights, **LABELS},
    "PairCounts.table": {name: lambda d: d.choice(*d.graph.names) for name in ("first", "second")},
    "learn_structure()": {
        "X": data_or_pairs,
        "method": of("chow-liu", "neighbour-joining"),
        "hidden_states": of(None, 1, 2, 8, 10**12),
        "sample_weight": weights,
        **LABELS,
    },
    "JunctionTree.build": {
        "graph": pooled(lambda: POOL.graphs),
        "root": lambda d: d.choice(None, *d.graph.names),
        "max_clique_states": of(1, 10**6),
    },
    "JunctionTree.of": {"graph": pooled(lambda: POOL.graphs)},
    **{name: {"node": of(0, 1, 100)} for name in ("inside", "outside", "subtree", "checked_node")},
    "states_of": {"names": names},
    **{
        name: {"name": lambda d: d.choice(*d.graph.names)} for name in ("column", "parents", "neighbors", "require")
    },
    "LatentGraph": {
        "states": lambda d: d.choice(dict(d.graph.states), list(d.graph.states.items()), {"a": 10**400, "b": 2}),
        "edges": lambda d: d.choice(d.graph.edges, [*d.graph.edges, ("x0", "x1")], [("x0",)], [("x0", "x0")]),
        "hidden": lambda d: d.choice(d.graph.hidden, d.graph.names, d.some(d.graph.names)),
        "directed": of(True, False),
    },
    "from_networkx": {
        "graph": pooled(lambda: POOL.foreign),
        "hidden": of(None, ["h"]),
        "states": of(None, {"h": 2, "x0": 2, "x1": 2}, {1: 2, 2: 2}),
    },
    "LatentGraph.from_pgmpy": {
        "model": pooled(lambda: POOL.foreign),
        "hidden": of(None, ["h"]),
        "states": of(None, {"h": 2, "x0": 2}),
    },
    "LatentNetwork.from_pgmpy": {"model": pooled(lambda: POOL.foreign), "hidden": of(None, ["h"])},
    "from_pyagrum": {"net": pooled(lambda: POOL.foreign), "hidden": of(["h"], [], ["b"])},
    "LatentNetwork": {
        "graph": lambda d: d.graph,
        "tables": tables,
        "tree": lambda d: d.choice(None, _tree(d)),
        "columns": of(None),
        "hidden_labels": of(None, None, None, {"h": ["low", "high"]}, {"h": ["a"]}, ["h"]),
    },
    "random": {
        "graph": pooled(lambda: POOL.graphs),
        "concentration": of(1.0, 0.01, 1e-299, 1e300),
        "random_state": seed,
        "tree": lambda d: d.choice(None, _tree(d)),
    },
    "relabelled": {"orders": lambda d: {name: d.choice([1, 0], [0, 1], [0, 0]) for name in d.some(d.graph.names)}},
    "ordered": {},
    "clique_tensor": {"tree": lambda d: _tree(d), "node": of(0, 1, 99)},
    "conditional_table": {"tree": lambda d: _tree(d), "node": of(0, 1, 99)},
    "embed": {"tree": lambda d: _tree(d)},
    "LabeledTensor": {"array": array, "labels": labels_of_tensor},
    "identity": {"labels": labels_of_tensor, "sizes": lambda d: [d.choice(1, 2, 3, 10**6)] * d.choice(0, 1, 2)},
    "size_of": {"label": of("A", "B")},
    "sum": {"label": of("A", "B", "C")},
    "multiply": {"other": pooled(lambda: POOL.tensors), "over": labels_of_tensor},
    "equivalent": {"other": pooled(lambda: POOL.tensors), "atol": of(1e-10, 0)},
    "transpose": {"labels": labels_of_tensor},
    "matrix": {"rows": labels_of_tensor},
    "inverse": {"over": labels_of_tensor, "tolerance": of(None, 0, 0.5)},
    "diagonal": {"repeats": lambda d: {d.choice("A", "B", "C"): d.choice(0, 1, 2, 40, 10**12)}},
    "select": {"assignments": lambda d: {d.choice("A", "B", "C"): d.choice(0, 1, 5)}},
    "LabeledTable": {"array": array, "names": labels_of_tensor, "states": of(None, [["a", "b"], [1, 2, 3]])},
    "at": {"given": of(None, {"h": 0}, {"x0": 1})},
    "to_pandas": {},
    "dependencies()": {"model": pooled(lambda: [*POOL.networks, *POOL.graphs, *_all_fitted()])},
    "plot.graph()": {"model": pooled(lambda: [*POOL.networks, *POOL.graphs, *_all_fitted()]), "ax": of(None)},
    "report()": {
        "model": pooled(lambda: [*POOL.networks, *POOL.graphs, *_all_fitted()]),
        "X": lambda draw: data(draw) if draw.random.random() < 0.3 else None,
        "training": of(None),
        "lengths": of(None, None, None, [1, 2]),
        "training_lengths": of(None),
        "names": of(None, None, None, ["a"], [None, 1]),
        "title": of(None, "a title", ""),
        "source": of(None, "rows.csv"),
        "date": of(None, "today", date(2026, 1, 1)),
    },
    **{
        f"plot.{name}()": {
            "model": pooled(lambda: [*POOL.networks, *POOL.graphs, *_all_fitted()]),
            "ax": of(None),
            **more,
        }
        for name, more in {
            "decoded": {
                "X": of(["abab", "b"], [["a"], ["b", "a"]], [], [""]),
                "lengths": of(None),
                "chain": of(None, "chain 1"),
            },
            "learning_curve": {},
            "profiles": {
                "hidden": of(None, None, "h0", "state"),
                "most": of(1, 10, 0, 10**12),
                "intervals": of(False, False, True),
                "level": of(0.95, 0.5, 1.0),
            },
            "multistart": {},
            "spectra": {"most": of(1, 24, 0, 10**12)},
            "transitions": {"chain": of(None, "chain 1")},
            "tree": {},
        }.items()
    },
    "plot.intervals()": {
        "found": pooled(lambda: _all_fitted()),
        "level": of(0.95, 0.5, 0, "a"),
        "most": of(1, 40, 0),
        "ax": of(None),
    },
    "profiles()": {
        "model": pooled(lambda: [*POOL.networks, *POOL.graphs, *_all_fitted()]),
        "hidden": of(None, None, None, None, ["h0"], ["h"], ["state"], []),
        "length": of(None, None, None, None, 7, 10**12),
        "X": of(None, None, None, ["abab", "b"], [["a"], ["b", "a"]], []),
        "lengths": of(None, None, None, [1, 2]),
    },
    "class_regression()": STEPWISE
    | {"covariates": of(None, ["x0"], EXTERNAL, EXTERNAL, [[1.0]]), "n_steps": of(None, None, 1, 2, 3, 7)},
    "distal_outcomes()": STEPWISE
    | {"outcomes": of(None, ["x0"], EXTERNAL, EXTERNAL, "x0"), "n_steps": of(2, 3, 3, 1)},
    "multiple_imputation()": {
        "model": pooled(lambda: [*POOL.fitted["LatentClassModel"], *POOL.fitted["EMJunctionTree"]]),
        "X": data,
        "m": of(2, 2, 1, 2.0),
        "sample_weight": weights,
        "lengths": of(None),
        "clusters": of(None, None, [0, 0, 1, 1]),
        "strata": of(None),
        "random_state": seed,
        "n_jobs": of(1),
        "verbose": of(0),
    },
    "pool()": {
        "estimates": of([1.0, 2.0], [[1.0, 2.0], [3.0, 4.0]], np.ones((3, 2)), [], ["a"]),
        "standard_errors": of([0.1, 0.2], [[0.1, 0.2], [0.1, 0.2]], np.ones((3, 2)), None),
        "df": of(None, 10, [3, 4], 0),
    },
    "expected_counts()": {
        "network": pooled(lambda: POOL.networks),
        "X": data,
        "sample_weight": weights,
        "n_jobs": of(1, 2),
    },
    **{f"{name}()": {} for name in ("+", "-")},
    "hmm": {"length": of(1, 3, 10**12), "order": of(1, 2, 10**9), "hidden_states": of(2), "observed_states": of(2)},
    "factorial_hmm": {
        "length": of(1, 3),
        "levels": of(1, 2, 10**12),
        "hidden_states": of(2, [2, 3]),
        "observed_states": of(2),
    },
    "mixture": {"columns": of(1, 3, 10**12), "hidden_states": of(1, 2), "observed_states": of(2, [2, 2, 3])},
    "semi_hidden_markov": {
        "length": of(2, 10**12),
        "hidden_states": of(2),
        "max_duration": of(3),
        "observed_states": of(2),
    },
    "latent_tree": {
        "depth": of(1, 2, 40, 10**12, None),
        "branching": of(2, 3),
        "hidden_states": of(2),
        "observed_states": of(2, [2, 3]),
        "edges": of(None, None, [("a", "b")], [("a", "b"), ("c", "b")]),
    },
    "dynamic_bayes_net": {
        "length": of(2, 10**12),
        "states": of({"h": 2, "x": 2}),
        "within": of([("h", "x")]),
        "between": of([("h", "h")], [("x", "y")]),
        "hidden": of(["h"]),
    },
    "paper_junction_tree": {"hidden_states": of(2), "observed_states": of(2, 16)},
    "HMM": {"order": of(1, 10**12), "hidden_states": of(2)},
    "FactorialHMM": {"levels": of(1, 2, 10**12), "hidden_states": of(2, [2, 3])},
    "Mixture": {"hidden_states": of(2)},
    "MultiGroupMixture": {
        "hidden_states": of(2),
        "group": of("x0", "group"),
        "invariant": of(True, False, ["x1"], ["x9"], "x1"),
    },
    "SemiHiddenMarkov": {"hidden_states": of(2), "max_duration": of(3)},
    "LatentTree": {"hidden_states": of(2), "branching": of(2, 10**12)},
    "HiddenChowLiu": {
        "hidden_states": of(2, 10**12, "auto"),
        "method": of("chow-liu", "neighbour-joining", "star"),
        "trees": of(1, 3, "auto", 10**12),
        "most_states": of(2, 10**12),
    },
    "build": {"states": of([2, 3, 2]), "names": of(None, ["a", "b", "c"], ["a", "a", "b"])},
}

ARGUMENTS |= {
    name.replace("EMHMM", "MixtureHMM"): own for name, own in ARGUMENTS.items() if name.startswith("EMHMM.")
} | {"MixtureHMM": PARAMETERS["MixtureHMM"]}
ARGUMENTS["MixtureHMM.predict_proba"] = ARGUMENTS["MixtureHMM.predict_proba"] | {
    "target": of("cluster", "state", "x0")
}
ARGUMENTS["MixtureHMM.entropy"] = ARGUMENTS["MixtureHMM.criteria"]
"""How arguments of functions and methods are sampled, by their names, or by those with the class before a dot."""


class _Moments:
    """A source of moments that lies."""

    def joint(self, names: Any) -> Any:
        shapes = {1: [2.0], 2: [[0.1, -5.0]], 3: "x"}
        return shapes.get(len(names))


def _all_fitted() -> list[Any]:
    return [model for models in POOL.fitted.values() for model in models]


def _tree(draw: Draw) -> et.JunctionTree:
    return et.JunctionTree.of(draw.choice(*POOL.graphs))
