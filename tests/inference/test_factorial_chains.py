"""Factorial hidden Markov models: one set of tables each, against the unrolled factorial network."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from random_chains import distributions, ragged
from sklearn.base import clone

import eigentree as et
from eigentree.data.sequences.sequence_codes import Sequences
from eigentree.data.tables.columns import Columns
from eigentree.em.chain_fit import ChainLayout, ChainObjective
from eigentree.errors import GraphError, ParameterError
from eigentree.inference.sequences.hmm_chain import Chain
from eigentree.inference.sequences.sequence_passes import SequencePass, Symbols, marginal_chains, product_chain

SIZES = [(1, (2, 3), (4,)), (2, (2, 2), (3, 2)), (1, (2, 2, 2), (3,))]
"""Order, states of the chains, states of the channels."""


def chains_of(order: int, sizes: tuple[int, ...], channels: tuple[int, ...], seed: int) -> Chain:
    random = np.random.default_rng(seed)
    chains = [[distributions(random, *(size,) * (earlier + 1)) for earlier in range(order + 1)] for size in sizes]
    columns = Columns(tuple(f"c{channel}" for channel in range(len(channels))), channels, named=True)
    return Chain.of(columns, chains, [distributions(random, int(np.prod(sizes)), count) for count in channels])


def layout_of(chain: Chain) -> ChainLayout:
    allowed = tuple(np.ones((size, size), bool) for size in chain.sizes)
    return ChainLayout(chain.sizes, chain.order, chain.columns.states, allowed)


def problem_of(chain: Chain, sequences: Sequences, pseudo_counts: float = 0.0) -> ChainObjective:
    symbols = Symbols.of(sequences.codes, chain.columns.states)
    layout = layout_of(chain)
    passes = SequencePass(symbols, sequences.starts, np.ones(sequences.count))
    return ChainObjective(layout, passes, layout.prior(pseudo_counts, 0.0))


def parameters_of(chain: Chain) -> Any:
    tables = [*(table for links in chain.chains for table in links), *chain.emissions]
    return np.concatenate([table.ravel() for table in tables])


def network_row(chain: Chain, network: et.LatentNetwork, codes: Any) -> Any:
    row = np.zeros((1, codes.size), np.int64)
    for step, (channel, count) in product(range(len(codes)), enumerate(chain.columns.states)):
        cell = int(codes[step, channel])
        row[0, network.graph.observed.index(f"c{channel}_{step}")] = -1 if cell == count else cell
    return row


@pytest.mark.parametrize(("order", "sizes", "channels"), SIZES)
def test_answers_and_counts_are_those_of_the_unrolled_network(
    order: int, sizes: tuple[int, ...], channels: tuple[int, ...]
) -> None:
    chain = chains_of(order, sizes, channels, seed=1)
    sequences = ragged(chain, [1, 2, 4, 3], seed=2)
    problem = problem_of(chain, sequences)
    parameters = parameters_of(chain)
    found, log_prob = problem.evaluated(parameters), chain.log_prob(sequences)
    total = np.zeros_like(parameters)
    links, emissions = problem.layout.parts(total)
    smoothed = chain.smoothed(sequences)
    each = chain.of_each(smoothed)
    decoded, joint = chain.decoded(sequences)
    states = chain.states_of_each(decoded)
    for number in range(sequences.count):
        first, end = sequences.starts[number : number + 2].tolist()
        network = chain.network(end - first)
        row = network_row(chain, network, sequences.codes[first:end])
        assert_allclose(log_prob[number], network.log_prob(row)[0], atol=1e-10)
        best, counts = network.decode(row), et.expected_counts(network, row)
        assert_allclose(joint[number], best.log_prob[0], atol=1e-10)
        for step, place in product(range(end - first), range(len(sizes))):
            name = f"h{place}_{step}"
            assert_allclose(each[place][first + step], network.predict_proba(row, target=name)[0], atol=1e-10)
            chosen = np.asarray(best.states)[0, network.graph.hidden.index(name)]
            assert states[place][first + step] == chosen
            links[place][min(step, order)] += np.asarray(counts[name])
        for step, (channel, count) in product(range(end - first), enumerate(channels)):
            emissions[channel] += np.asarray(counts[f"c{channel}_{step}"]).reshape(-1, count)
            if sequences.codes[first + step, channel] == count:
                # The network counts what missing cells may have been, which a chain need not.
                emissions[channel] -= smoothed[first + step][:, None] * chain.emissions[channel]
    assert_allclose(found.update * found.totals, total, atol=1e-10)
    assert_allclose(found.objective, log_prob.sum(), rtol=1e-12)


def test_the_unrolled_network_is_the_factorial_one_of_the_zoo() -> None:
    chain = Chain.of(Columns(("x0",), (4,)), chains_of(1, (2, 3), (4,), 3).chains, [np.full((6, 4), 0.25)])
    found, known = chain.network(5).graph, et.zoo.factorial_hmm(5, 2, (2, 3), 4)
    assert dict(found.states) == dict(known.states)
    assert set(found.edges) == set(known.edges)
    assert set(found.hidden) == set(known.hidden)


@pytest.mark.parametrize(("order", "sizes", "channels"), SIZES)
def test_probabilities_of_all_sequences_of_a_length_add_up_to_one(
    order: int, sizes: tuple[int, ...], channels: tuple[int, ...]
) -> None:
    chain = chains_of(order, sizes, channels, seed=4)
    cells = [range(count) for _ in range(3) for count in channels]
    every = np.array(list(product(*cells)), np.uint8).reshape(-1, len(channels))
    log_prob = chain.log_prob(Sequences(chain.columns, np.asfortranarray(every), np.arange(0, len(every) + 1, 3)))
    assert_allclose(np.exp(log_prob).sum(), 1.0, atol=1e-12)


def test_tables_together_are_told_apart_again() -> None:
    random = np.random.default_rng(5)
    tables = [distributions(random, *(size,) * 3) for size in (2, 3, 2)]
    both = product_chain(tables)
    assert both.shape == (12, 12, 12)
    assert both[7, 4, 9] == pytest.approx(tables[0][1, 0, 1] * tables[1][0, 2, 1] * tables[2][1, 0, 1], rel=1e-14)
    for size, own, table in zip((2, 3, 2), marginal_chains(both, (2, 3, 2)), tables, strict=True):
        assert_allclose(own / (12 / size) ** 2, table, rtol=1e-12)


def test_the_slope_that_accelerated_steps_follow_is_that_of_the_objective() -> None:
    """Of products too, the expected count of a parameter is the slope in its logarithm."""
    chain = chains_of(1, (2, 3), (4,), seed=6)
    problem = problem_of(chain, ragged(chain, [6, 9, 4], seed=7), pseudo_counts=0.3)
    parameters = parameters_of(chain)
    here = problem.evaluated(parameters)
    random = np.random.default_rng(8)
    moves = random.normal(size=len(parameters)) * parameters
    moves -= parameters * problem.layout.totals(moves)
    ahead, behind = (problem.evaluated(parameters + sign * 1e-5 * moves).objective for sign in (1, -1))
    slope = float(here.update * here.totals / parameters @ moves)
    assert (ahead - behind) / 2e-5 == pytest.approx(slope, rel=1e-6)


def test_a_single_chain_in_a_tuple_is_the_plain_model_bit_by_bit() -> None:
    sequences = ragged(chains_of(1, (2, 2), (4,), seed=9), [12] * 25, seed=10)
    settings: dict[str, Any] = {"random_state": 0, "n_init": 2, "max_iter": 30}
    plain, one = (et.EMHMM(states, **settings).fit(sequences) for states in (3, (3,)))
    assert_array_equal(plain.history_, one.history_)
    for name in ("start", "transitions", "emissions"):
        assert_array_equal(plain.tables_[name], one.tables_[name])
        assert plain.tables_[name].names == one.tables_[name].names


@pytest.mark.parametrize("accelerate", [False, True])
@pytest.mark.parametrize("order", [1, 2])
def test_em_runs_never_descend(order: int, accelerate: bool) -> None:
    sequences = ragged(chains_of(1, (2, 3), (4, 2), seed=11), [15] * 20, seed=12)
    settings: dict[str, Any] = {"init": "random", "n_init": 2, "random_state": 0, "sticky": 0.5}
    model = et.EMHMM((2, 3), order, accelerate=accelerate, max_iter=60, **settings).fit(sequences)
    assert (np.diff(model.history_) > 0).all()
    links = (1 + 2 * 1) + (2 + 3 * 2) if order == 1 else (1 + 2 + 4) + (2 + 6 + 18)
    assert model.n_parameters_ == links + 6 * (3 + 1)
    assert_allclose(model.score_samples(sequences), model.model_.log_prob(sequences))


@pytest.fixture(scope="module")
def two_switches() -> tuple[Chain, Sequences]:
    """Two switches, shown together with noise: one hardly moves, and one hardly stays."""
    slow, fast = np.array([[0.97, 0.03], [0.05, 0.95]]), np.array([[0.1, 0.9], [0.8, 0.2]])
    shown = np.full((4, 4), 0.03) + 0.88 * np.eye(4)
    chains = [[np.array([0.6, 0.4]), slow], [np.array([0.5, 0.5]), fast]]
    truth = Chain.of(Columns(("x0",), (4,)), chains, [shown])
    return truth, ragged(truth, [60] * 40, seed=13, missing=0.05)


def test_the_race_finds_the_chains_and_fewer_parameters_win(two_switches: tuple[Chain, Sequences]) -> None:
    truth, sequences = two_switches
    tables = {
        "start": [links[0] for links in truth.chains],
        "transitions": [links[1] for links in truth.chains],
        "emissions": truth.emissions[0].reshape(2, 2, 4),
    }
    known = et.EMHMM((2, 2), init=tables, pseudo_counts=0).fit(sequences)
    model = et.EMHMM((2, 2), random_state=0, pseudo_counts=0).fit(sequences)
    assert model.history_[-1] > known.history_[-1] - 0.01
    moves = sorted(np.trace(table) for table in model.tables_["transitions"].values())
    assert_allclose(moves, [0.3, 1.92], atol=0.1)
    plain = et.EMHMM(4, random_state=0, n_init=2, pseudo_counts=0).fit(sequences)
    assert model.n_parameters_ == 2 * 3 + 12
    assert plain.n_parameters_ == 3 + 12 + 12
    assert model.bic(sequences) < plain.bic(sequences)


def test_answers_name_the_chains(two_switches: tuple[Chain, Sequences]) -> None:
    _, sequences = two_switches
    model = et.EMHMM((2, 3), random_state=0, n_init=1, init="random", max_iter=20).fit(sequences)
    tables = model.tables_
    assert tables["start"]["chain 1"].names == ("state",)
    assert tables["transitions"]["chain 1"].shape == (3, 3)
    assert tables["emissions"].names == ("chain 0", "chain 1", model.columns_.names[0])
    assert tables["emissions"].shape == (2, 3, 4)
    proba, decoded = model.predict_proba(sequences), model.decode(sequences).states
    for place, (name, size) in enumerate({"chain 0": 2, "chain 1": 3}.items()):
        assert_allclose(np.concatenate(proba[name]).sum(axis=1), 1.0)
        sizes = np.concatenate(proba[name]).sum(axis=0)
        assert sizes.shape == (size,)
        assert (np.diff(sizes) <= 1e-6).all()
        # What is known so far is all that is known at the last step.
        assert_allclose(model.filter(sequences)[name][3][-1], proba[name][3][-1], atol=1e-12)
        assert [len(states) for states in decoded[name]] == sequences.lengths.tolist()
        assert np.concatenate(decoded[name]).max() < model.model_.sizes[place]
    wide = model.decode(np.array([[0, 1, 2], [3, 3, 0]])).states
    assert wide["chain 0"].shape == (2, 3)
    again = et.EMHMM((2, 3), init=tables, max_iter=1).fit(sequences)
    assert again.history_[0] == pytest.approx(model.history_[-1], rel=1e-12)


def test_structure_and_starts_are_those_of_each_chain(two_switches: tuple[Chain, Sequences]) -> None:
    _, sequences = two_switches
    settings: dict[str, Any] = {"random_state": 0, "n_init": 1, "init": "random", "max_iter": 10}
    ordered = et.EMHMM((2, 3), transitions="left-to-right", start=[[1, 0], [0.5, 0.5, 0]], **settings)
    tables = ordered.fit(sequences).tables_
    for table in tables["transitions"].values():
        assert_array_equal(np.tril(table, -1), 0)
    assert_array_equal(tables["start"]["chain 1"], [0.5, 0.5, 0])
    assert ordered.n_parameters_ == 1 + 3 + 6 * 3
    ring = np.array([[1, 1, 0], [0, 1, 1], [1, 0, 1]])
    given = et.EMHMM((2, 3), transitions=[np.ones((2, 2)), ring], **settings).fit(sequences)
    assert_array_equal(np.asarray(given.tables_["transitions"]["chain 1"])[ring == 0], 0)


@pytest.mark.parametrize("kind", ["multistart", "moments", "windows", "merged", "position"])
def test_every_kind_of_start_leads_to_a_model(kind: Any, two_switches: tuple[Chain, Sequences]) -> None:
    _, sequences = two_switches
    model = et.EMHMM((2, 2), init=kind, n_init=1, max_iter=5, random_state=0).fit(sequences.chosen(np.arange(10)))
    assert (np.diff(model.history_) > 0).all()


def test_a_saved_model_gives_the_same_answers(tmp_path: Path) -> None:
    words = ["abcab", "bca", "aabbcc", "c", "cab"]
    model = et.EMHMM((2, 2), 2, transitions=[np.ones((2, 2)), np.eye(2) + 1], random_state=0, n_init=1).fit(words)
    model.save(tmp_path / "chains.eigentree")
    again = et.load(tmp_path / "chains.eigentree")
    assert again.hidden_states == (2, 2)
    assert_array_equal(again.score_samples(words), model.score_samples(words))
    for name, table in model.tables_["transitions"].items():
        assert_array_equal(again.tables_["transitions"][name], table)
    assert_array_equal(clone(again).fit(words).history_, model.history_)
    classes = et.JunctionTreeClassifier(et.EMHMM((2, 2), init="random", n_init=1, max_iter=5, random_state=0))
    assert classes.fit(words, [0, 1, 0, 1, 0]).predict_proba(words).shape == (5, 2)


def test_impossible_sequences_are_told_apart() -> None:
    tables = {
        "start": [[1.0, 0.0], [1.0, 0.0]],
        "transitions": [[[0.0, 1.0], [1.0, 0.0]], np.eye(2)],
        "emissions": np.stack([np.eye(2), np.eye(2)], axis=1),
    }
    model = et.EMHMM((2, 2), init=tables, pseudo_counts=0, max_iter=1).fit([[0, 1, 0], [0, 1]])
    with pytest.warns(RuntimeWarning, match="hidden states are -1"):
        assert model.decode([[0, 0]]).states["chain 1"][0].tolist() == [-1, -1]
    assert model.decode([[0, 1]]).states["chain 0"][0].tolist() == [0, 1]


BAD: list[tuple[dict[str, Any], str]] = [
    ({"hidden_states": ()}, "1 to 16 numbers"),
    ({"hidden_states": (2,) * 17}, "1 to 16 numbers"),
    ({"hidden_states": (2, 1)}, "at least 2"),
    ({"hidden_states": (2, 2.5)}, "whole number"),
    ({"hidden_states": (300, 300)}, "90000"),
    ({"transitions": np.ones((4, 4))}, "one for each chain"),
    ({"transitions": [np.ones((2, 2)), np.ones((3, 3))]}, "array of shape"),
    ({"start": [0.5, 0.5, 0.5]}, "one for each chain"),
    ({"start": [0.5, 0.5]}, "start"),
    ({"init": {"start": [1.0, 0.0, 0.0], "transitions": [], "emissions": []}}, "one for each chain"),
]


@pytest.mark.parametrize(("settings", "message"), BAD)
def test_bad_parameters_are_told(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        et.EMHMM(**{"hidden_states": (2, 2), "n_init": 1, **settings}).fit(["abab", "ba"])


def test_a_network_of_endless_length_is_refused() -> None:
    model = et.EMHMM((2, 2), init="random", n_init=1, max_iter=1, random_state=0).fit(["abab", "ba"])
    with pytest.raises(GraphError, match="variables"):
        model.to_network(10**12)


def test_a_spectral_model_has_one_chain() -> None:
    with pytest.raises(ParameterError, match="hidden_states is a whole number"):
        et.SpectralHMM((2, 2)).fit(["abab", "ba"] * 5)
