"""Every compiled loop called once, through ordinary fits and queries of small models."""

from __future__ import annotations

import warnings
from itertools import product
from typing import TYPE_CHECKING

import numpy as np

from eigentree.core.trees.matrix_tiles import MANY
from eigentree.core.vectors import LANES
from eigentree.counting.counts import Counts
from eigentree.counting.pair_counts import PairCounts
from eigentree.data.tables.columns import Columns
from eigentree.estimators.em_hmm import EMHMM
from eigentree.estimators.em_junction_tree import EMJunctionTree
from eigentree.estimators.online_em import OnlineEMJunctionTree
from eigentree.estimators.spectral_hmm import SpectralHMM
from eigentree.estimators.spectral_junction_tree import SpectralJunctionTree
from eigentree.graphs.learned_templates import HiddenChowLiu
from eigentree.graphs.zoo import hmm
from eigentree.inference.networks.network import LatentNetwork

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["STEPS", "warm_up"]

MANY_ROWS = 40_000

ALPHABETS = (3, 300)
"""Numbers of states whose codes take one byte, and two."""

STEPS = 6 * len(ALPHABETS) + 2
"""How many times `warm_up` yields."""


def warm_up() -> Iterator[str]:
    """Yield what was just compiled, until all is."""
    with warnings.catch_warnings():
        # A handful of rows supports no rank.
        warnings.simplefilter("ignore", RuntimeWarning)
        for states in ALPHABETS:
            size = "small" if states < 256 else "large"
            network = LatentNetwork.random(hmm(4, 1, 2, states), random_state=0)
            rows = network.sample(40, random_state=0)
            yield f"{size} alphabets: sampling"
            partial = rows.copy()
            partial[:20, 1] = -1
            codes = np.asfortranarray(rows.astype(np.min_scalar_type(states)))
            model = SpectralJunctionTree(network.graph).fit(codes)
            # Many rows are counted in larger groups than few.
            many = np.asfortranarray(np.tile(codes, (MANY_ROWS // len(codes), 1)))
            Counts(network.graph, [("x0", "x1"), ("x1", "x2")]).update(many)
            yield f"{size} alphabets: learning"
            # Pairs of columns with few states are counted as bits, or with weights as products of matrices.
            pairs = PairCounts.empty(Columns(("x0", "x1"), (max(states, 8),) * 2))
            pairs.update(rows[:, :2])
            for weights in (np.ones(40, int), np.full(40, 0.5)):
                model.fit(partial.astype(float), sample_weight=weights)
                pairs.update(rows[:, :2], weights)
            model.score(partial[:1])
            yield f"{size} alphabets: scoring"
            model.predict_proba(partial, "x1")
            model.impute(partial)
            model.sample(2, random_state=0)
            _underflow(states)
            yield f"{size} alphabets: queries"
            EMJunctionTree(network.graph, n_init=1, max_iter=2).fit(partial)
            OnlineEMJunctionTree(network.graph, passes=1).fit(partial)
            yield f"{size} alphabets: EM"
            _sequences(states)
            yield f"{size} alphabets: sequences"
        network = LatentNetwork.random(hmm(3, 1, MANY, 3), random_state=0)
        EMJunctionTree(network.graph, init=network, max_iter=1).fit(network.sample(40, random_state=0))
        yield "many hidden states: EM"
        tree = HiddenChowLiu(MANY, trees="auto", most_states=MANY)
        EMJunctionTree(tree, n_init=1, validation_fraction=0.25).fit(network.sample(40, random_state=0))
        yield "many hidden states: searches, in single precision"


def _sequences(states: int) -> None:
    """Fit models to several sequences and to one, of few states and of many, and query them."""
    # Different ones, since equal sequences are passed once.
    words = [[0, 1, states - 1, -1, *digits] for digits in product((0, 1), repeat=3)]
    # Else these three numbers would be all that there are.
    symbols = range(states)
    for hidden in (2, LANES + 1):
        for X in (words, words[:1]):
            model = EMHMM(hidden, init="random", n_init=1, max_iter=1, categories=symbols).fit(X)
            model.score_samples(X)
    model.decode(words)
    model.filter(words)
    model.predict_proba(words)
    model.impute(words, method="sample", random_state=0)
    model.sample(2, length=3, random_state=0)
    # Weights may be fractions.
    for more in ({}, {"sample_weight": [0.5] * len(words)}):
        learned = SpectralHMM(2, categories=symbols).fit(words, **more)
    learned.impute(words, method="sample", random_state=0)
    learned.sample(2, length=3, random_state=0)


def _underflow(states: int) -> None:
    """Query a chain that never changes its state about rows that contradict it: these need the extended range."""
    sure = np.zeros((2, states))
    sure[:, :2] = [[1.0, 1e-200], [1e-200, 1.0]]
    tables = {f"x{t}": sure for t in range(8)} | {f"h{t}": np.eye(2) for t in range(1, 8)} | {"h0": [0.5, 0.5]}
    network = LatentNetwork(hmm(8, 1, 2, states), tables)
    torn = np.repeat([[0, 1]], 4, axis=1).reshape(1, 8)
    network.log_prob(torn)
    torn[0, 7] = -1
    network.predict_proba(torn, "x7")
    network.impute(torn, "sample", random_state=0)
    network.decode(torn)
    # An impossible row: its missing cell is sampled from the marginal distribution of its column.
    torn[0, 0] = 2
    network.impute(torn, "sample", random_state=0)
    network.decode(torn)
