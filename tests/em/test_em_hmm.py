"""`EMHMM`: one set of tables for all steps, against the unrolled network, brute force and hmmlearn."""

from __future__ import annotations

from itertools import combinations, product
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from random_chains import distributions, ragged
from shared_files import shared_file
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

import eigentree as et
from eigentree.data.sequences.sequence_codes import Sequences
from eigentree.data.tables.columns import Columns
from eigentree.em.chain_fit import ChainLayout, ChainObjective
from eigentree.em.init import symbol_clustering
from eigentree.em.init.chains import KINDS
from eigentree.em.optimize.run import em_run
from eigentree.em.optimize.stopping import Stopping
from eigentree.errors import DataError, ParameterError
from eigentree.inference.sequences.hmm_chain import Chain
from eigentree.inference.sequences.sequence_passes import SequencePass, Symbols

SIZES = [(1, 3, (3,)), (2, 2, (3, 2)), (3, 2, (2,)), (1, 5, (4, 2, 2)), (2, 3, (6,))]
"""Order, hidden states, states of the channels."""


def chain_of(order: int, states: int, channels: tuple[int, ...], seed: int) -> Chain:
    random = np.random.default_rng(seed)
    names = tuple(f"c{channel}" for channel in range(len(channels)))
    links = tuple(distributions(random, *(states,) * (earlier + 1)) for earlier in range(order + 1))
    columns = Columns(names, channels, named=True)
    return Chain(columns, links, tuple(distributions(random, states, count) for count in channels))


def network_rows(chain: Chain, sequences: Sequences, number: int) -> tuple[et.LatentNetwork, Any]:
    """The unrolled network of one sequence, and the sequence as a row of it."""
    codes = sequences.codes[sequences.starts[number] : sequences.starts[number + 1]]
    network = chain.network(len(codes))
    row = np.zeros((1, codes.size), np.int64)
    for step in range(len(codes)):
        for channel, count in enumerate(chain.columns.states):
            cell = int(codes[step, channel])
            row[0, network.graph.observed.index(f"c{channel}_{step}")] = -1 if cell == count else cell
    return network, row


def tied(counts: dict[str, Any], chain: Chain, length: int) -> tuple[list[Any], list[Any]]:
    """Expected counts of the unrolled network, added up over steps."""
    links = [np.zeros_like(table) for table in chain.links]
    emissions = [np.zeros_like(table) for table in chain.emissions]
    for step in range(length):
        links[min(step, chain.order)] += np.asarray(counts[f"h{step}"])
        for channel in range(len(emissions)):
            emissions[channel] += np.asarray(counts[f"c{channel}_{step}"])
    return links, emissions


@pytest.mark.parametrize(("order", "states", "channels"), SIZES)
def test_all_answers_are_those_of_the_unrolled_network(order: int, states: int, channels: tuple[int, ...]) -> None:
    chain = chain_of(order, states, channels, seed=1)
    sequences = ragged(chain, [1, 2, 3, 7, 5, 2], seed=2)
    walk = SequencePass(Symbols.of(sequences.codes, channels), sequences.starts, np.ones(sequences.count))
    found = walk.counts(chain.links, chain.emissions)
    total = [np.zeros_like(table) for table in (*chain.links, *chain.emissions)]
    smoothed, (decoded, joint) = chain.smoothed(sequences), chain.decoded(sequences)
    for number in range(sequences.count):
        network, row = network_rows(chain, sequences, number)
        first, length = int(sequences.starts[number]), int(sequences.lengths[number])
        assert_allclose(found.log_prob[number], network.log_prob(row)[0], atol=1e-10)
        for step in range(length):
            proba = network.predict_proba(row, target=f"h{step}")
            assert_allclose(smoothed[first + step], proba[0], atol=1e-10)
        best = network.decode(row)
        assert_allclose(joint[number], best.log_prob[0], atol=1e-10)
        places = [network.graph.hidden.index(f"h{step}") for step in range(length)]
        assert_array_equal(decoded[first : first + length], np.asarray(best.states)[0, places])
        links, emissions = tied(et.expected_counts(network, row), chain, length)
        # The network counts what missing cells may have been, which a chain need not.
        for channel, count in enumerate(channels):
            for step in np.flatnonzero(sequences.codes[first : first + length, channel] == count):
                emissions[channel] -= smoothed[first + step][:, None] * chain.emissions[channel]
        for own, table in zip(total, (*links, *emissions), strict=True):
            own += table
    for own, table in zip(total, (*found.links, *found.emissions), strict=True):
        assert_allclose(table, own, atol=1e-10)
    assert_allclose(chain.log_prob(sequences), found.log_prob, atol=1e-12)


@pytest.mark.parametrize(("order", "states", "channels"), SIZES[:3])
def test_what_comes_next_and_what_is_so_far_are_those_of_the_network(
    order: int, states: int, channels: tuple[int, ...]
) -> None:
    chain = chain_of(order, states, channels, seed=3)
    sequences = ragged(chain, [0, 1, 2, 4], seed=4)
    filtered, _ = chain.filtered(sequences)
    for steps in (1, 3):
        ahead = chain.ahead(sequences, steps)
        for number in range(sequences.count):
            codes = sequences.codes[sequences.starts[number] : sequences.starts[number + 1]]
            longer = np.concatenate([codes, np.tile(np.array(channels, codes.dtype), (steps, 1))])
            whole = Sequences(chain.columns, np.asfortranarray(longer), np.array([0, len(longer)]))
            network, row = network_rows(chain, whole, 0)
            for channel in range(len(channels)):
                proba = network.predict_proba(row, target=f"c{channel}_{len(longer) - 1}")
                assert_allclose(ahead[channel][number], proba[0], atol=1e-10)
            prefix = Sequences(chain.columns, codes, np.array([0, len(codes)]))
            if len(codes):
                last = int(sequences.starts[number + 1]) - 1
                assert_allclose(filtered[last], chain.smoothed(prefix)[-1], atol=1e-12)


@pytest.mark.parametrize(("order", "states", "channels"), [(1, 3, (3,)), (2, 2, (2, 2)), (3, 2, (3,))])
def test_probabilities_of_all_sequences_of_a_length_add_up_to_one(
    order: int, states: int, channels: tuple[int, ...]
) -> None:
    chain = chain_of(order, states, channels, seed=5)
    for length in (1, 2, 4):
        cells = [range(count) for _ in range(length) for count in channels]
        every = np.array(list(product(*cells)), np.uint8).reshape(-1, len(channels))
        starts = np.arange(len(every) // length + 1) * length
        log_prob = chain.log_prob(Sequences(chain.columns, np.asfortranarray(every), starts))
        assert_allclose(np.exp(log_prob).sum(), 1.0, atol=1e-12)


def test_long_sequences_and_many_short_ones_are_the_same_to_the_loops() -> None:
    """Alone, side by side, over the ends of blocks, on several threads: the same numbers."""
    for order, states in ((1, 4), (2, 3), (1, 6)):
        chain = chain_of(order, states, (4,), seed=6)
        sequences = ragged(chain, [5000, 3, 1, 40], seed=7)
        pieces = [sequences.chosen([number]) for number in range(4)]
        alone = np.array([chain.log_prob(piece)[0] for piece in pieces])
        assert_allclose(chain.log_prob(sequences), alone, rtol=1e-12)
        eight = sequences.chosen([0] * 8)
        assert_allclose(chain.log_prob(eight), alone[0], rtol=1e-12)
        walks = [
            SequencePass(Symbols.of(each.codes, (4,)), each.starts, np.full(each.count, 1.0 / each.count), threads)
            for each, threads in ((pieces[0], 1), (eight, 1), (eight, 2), (sequences.chosen([0] * 20), 2))
        ]
        first, *others = (walk.counts(chain.links, chain.emissions) for walk in walks)
        for other in others:
            for a, b in zip((*first.links, *first.emissions), (*other.links, *other.emissions), strict=True):
                assert_allclose(a, b, rtol=1e-9)


def test_nothing_underflows_in_a_long_sequence_of_rare_symbols() -> None:
    chain = Chain(
        Columns(("x0",), (2,)),
        (np.array([0.5, 0.5]), np.array([[0.9, 0.1], [0.2, 0.8]])),
        (np.array([[1 - 1e-30, 1e-30], [1 - 1e-40, 1e-40]]),),
    )
    codes = np.ones((500, 1), np.uint8)
    for count in (1, 8):
        sequences = Sequences(chain.columns, np.tile(codes, (count, 1)), np.arange(count + 1) * 500)
        walk = SequencePass(Symbols.of(sequences.codes, (2,)), sequences.starts, np.ones(count))
        found = walk.counts(chain.links, chain.emissions)
        # All but all weight is on state 0 throughout.
        assert_allclose(found.log_prob, np.log(0.5) + 499 * np.log(0.9) + 500 * np.log(1e-30), rtol=1e-6)
        assert_allclose(found.emissions[0].sum(), 500 * count, rtol=1e-12)


def hmmlearn_fit(X: Any, lengths: Any, tables: dict[str, Any], steps: int) -> Any:
    from hmmlearn.hmm import CategoricalHMM

    model = CategoricalHMM(len(tables["start"]), n_iter=steps, tol=-1e300, init_params="", params="ste")
    model.startprob_, model.transmat_ = tables["start"].copy(), tables["transitions"].copy()
    model.emissionprob_ = tables["emissions"].copy()
    return model.fit(X, lengths) if steps else model


def test_from_the_same_start_the_tables_are_those_of_hmmlearn() -> None:
    random = np.random.default_rng(0)
    truth = chain_of(1, 3, (4,), seed=8)
    lengths = [200, 1, 100, 250, 50, 2]
    X = ragged(truth, lengths, seed=9, missing=0.0).codes.astype(np.int64)
    tables = {
        "start": distributions(random, 3),
        "transitions": distributions(random, 3, 3),
        "emissions": distributions(random, 3, 4),
    }
    known = hmmlearn_fit(X, lengths, tables, 25)
    ours = et.EMHMM(3, init=tables, max_iter=25, pseudo_counts=0, accelerate=False, tol=0, stopping="paper")
    ours.fit(X, lengths=lengths)
    assert ours.n_iter_ == 25
    assert_allclose(ours.tables_["start"], known.startprob_, atol=1e-8)
    assert_allclose(ours.tables_["transitions"], known.transmat_, atol=1e-8)
    assert_allclose(ours.tables_["emissions"], known.emissionprob_, atol=1e-8)
    assert_allclose(ours.score_samples(X, lengths).sum(), known.score(X, lengths), rtol=1e-10)
    assert_allclose(ours.predict_proba(X, lengths), known.predict_proba(X, lengths), atol=1e-8)
    same = hmmlearn_fit(X, lengths, tables, 0)
    given = et.EMHMM(3, init=tables, max_iter=1, pseudo_counts=0).fit(X, lengths=lengths)
    vars(given)["model_"] = Chain(given.columns_, (tables["start"], tables["transitions"]), (tables["emissions"],))
    log_prob, states = same.decode(X, lengths)
    decoded = given.decode(X, lengths)
    assert_allclose(decoded.log_prob.sum(), log_prob, rtol=1e-10)
    # Paths may be as likely as each other, to the last bit but one.
    assert np.mean(decoded.states == states) > 0.9


def test_the_fit_does_not_depend_on_the_order_or_the_copies_of_sequences() -> None:
    truth = chain_of(1, 3, (4,), seed=10)
    sequences = ragged(truth, [6, 9, 4, 6, 12, 3, 8] * 6, seed=11)
    settings: dict[str, Any] = {"hidden_states": 3, "random_state": 0, "n_init": 2}
    known = et.EMHMM(**settings).fit(sequences)
    order = np.random.default_rng(1).permutation(sequences.count)
    other = et.EMHMM(**settings).fit(sequences.chosen(order))
    weights = np.random.default_rng(2).integers(1, 4, sequences.count)
    settings |= {"init": "windows", "accelerate": False, "max_iter": 30}
    weighed = et.EMHMM(**settings).fit(sequences, sample_weight=weights)
    copied = et.EMHMM(**settings).fit(sequences.chosen(np.repeat(np.arange(sequences.count), weights)))
    for name in ("start", "transitions", "emissions"):
        assert_array_equal(known.tables_[name], other.tables_[name])
        assert_allclose(weighed.tables_[name], copied.tables_[name], rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("accelerate", [False, True])
def test_the_objective_never_falls(accelerate: bool) -> None:
    truth = chain_of(2, 2, (3, 2), seed=12)
    sequences = ragged(truth, [20] * 30, seed=13)
    model = et.EMHMM(2, 2, init="random", n_init=1, random_state=0, accelerate=accelerate).fit(sequences)
    assert (np.diff(model.history_) > 0).all()
    assert model.n_parameters_ == 1 + 2 + 4 + 2 * (2 + 1)
    layout = ChainLayout((2,), 2, (3, 2), (np.ones((2, 2), bool),))
    walk = SequencePass.of_distinct(
        Symbols.of(sequences.codes, (3, 2)), sequences.starts, np.ones(sequences.count), 1
    )
    problem = ChainObjective(layout, walk, layout.prior(0.1, 0.0))
    here = problem.evaluated(layout.vector(model.model_.links, model.model_.emissions))
    assert_allclose(here.objective, model.history_[-1], rtol=1e-12)


def test_the_multistart_finds_what_random_starts_miss() -> None:
    """Sticky states with few symbols each: most random starts end far below."""
    random = np.random.default_rng(14)
    links = (np.full(4, 0.25), 0.9 * np.eye(4) + 0.1 * distributions(random, 4, 4))
    emissions = np.full((4, 6), 0.02) + np.eye(4, 6) + np.eye(4, 6, k=2)
    truth = Chain(Columns(("x0",), (6,)), links, (emissions / emissions.sum(axis=1, keepdims=True),))
    sequences = ragged(truth, [60] * 40, seed=15, missing=0.0)
    layout = ChainLayout((4,), 1, (6,), (np.ones((4, 4), bool),))
    walk = SequencePass.of_distinct(Symbols.of(sequences.codes, (6,)), sequences.starts, np.ones(40), 1)
    problem = ChainObjective(layout, walk, layout.prior(0.1, 0.0))
    *_, best = em_run(problem, layout.vector(truth.links, truth.emissions), Stopping("gain", 1e-9), 500)
    for seed in range(2):
        model = et.EMHMM(4, random_state=seed).fit(sequences)
        assert model.history_[-1] > best.history[-1] - 0.01
        assert model.converged_
        assert model.start_.rungs


@pytest.mark.parametrize("kind", ["moments", "windows", "merged", "position", "random"])
def test_every_kind_of_start_leads_to_a_model(kind: str) -> None:
    truth = chain_of(1, 2, (4,), seed=16)
    model = et.EMHMM(2, init=kind, n_init=2, random_state=0).fit(ragged(truth, [15] * 40, seed=17))
    assert len(model.objectives_) == 2
    assert model.start_.name == kind


def counted_likelihood(*tables: np.ndarray) -> float:
    shares = [table / np.maximum(table.sum(axis=1, keepdims=True), 1e-300) for table in tables]
    return sum(
        (table[table > 0] * np.log(share[table > 0])).sum() for table, share in zip(tables, shares, strict=True)
    )


def test_mergers_cost_what_the_likelihood_falls() -> None:
    """What is merged at each turn is given by a formula: here by counting anew."""
    random = np.random.default_rng(3)
    follow, shown = (random.integers(0, 9, (6, count)).astype(float) for count in (6, 4))
    costs = symbol_clustering._costs(follow, shown)
    for one, other in combinations(range(6), 2):
        onto = np.delete(np.eye(6), other, axis=1)
        onto[other, one - (other < one)] = 1.0
        fallen = counted_likelihood(follow, shown) - counted_likelihood(onto.T @ follow @ onto, onto.T @ shown)
        assert_allclose(costs[one, other], fallen, atol=1e-9)


def test_symbols_that_are_followed_alike_are_one_state() -> None:
    """Three states, each of two symbols of its own: merging finds them, from counts with a little noise."""
    random = np.random.default_rng(21)
    moves = np.array([[0.8, 0.2, 0.0], [0.0, 0.8, 0.2], [0.2, 0.0, 0.8]])
    order = random.permutation(6)
    owner = (np.arange(6) // 2)[order]
    follow = random.poisson(1000 * moves[np.ix_(owner, owner)]).astype(float)
    groups = symbol_clustering.merged(follow, np.diag(follow.sum(axis=0)), 3, 0.0, random)
    assert_array_equal(groups[:, None] == groups, owner[:, None] == owner)


@pytest.mark.parametrize("seed", range(4))
def test_exchanges_end_where_no_unit_can_move_and_the_best_of_a_few_is_the_best_of_all(seed: int) -> None:
    """All groupings of six units in three groups are counted anew."""
    random = np.random.default_rng(seed)
    follow, shown = (random.poisson(random.gamma(0.5, 40.0, (6, count))).astype(float) for count in (6, 4))

    def likelihood(member: Any) -> float:
        onto = np.eye(3)[list(member)]
        return counted_likelihood(onto.T @ follow @ onto, onto.T @ shown)

    every = {member: likelihood(member) for member in product(range(3), repeat=6) if len(set(member)) == 3}
    reached = []
    for _ in range(12):
        start = symbol_clustering.merged(follow, shown, 3, 1.0, random)
        end = tuple(symbol_clustering.exchanged(follow, shown, start).tolist())
        assert every[end] >= every[tuple(start.tolist())]
        near = [
            value
            for other, value in every.items()
            if sum(one != two for one, two in zip(end, other, strict=True)) == 1
            or (sorted(end) == sorted(other) and sum(one != two for one, two in zip(end, other, strict=True)) == 2)
        ]
        assert every[end] >= max(near) - 1e-6
        reached.append(every[end])
    assert_allclose(max(reached), max(every.values()), rtol=1e-12)


def test_moments_that_are_exact_tell_the_tables() -> None:
    """Many steps of a chain whose states differ: the start alone is close to the truth."""
    links = (np.full(3, 1 / 3), 0.7 * np.eye(3) + 0.1)
    shown = 0.6 * np.eye(3, 5) + 0.08
    truth = Chain(Columns(("x0",), (5,)), links, (shown / shown.sum(axis=1, keepdims=True),))
    sequences = ragged(truth, [2000] * 50, seed=20, missing=0.0)
    layout = ChainLayout((3,), 1, (5,), (np.ones((3, 3), bool),))
    walk = SequencePass(Symbols.of(sequences.codes, (5,)), sequences.starts, np.ones(sequences.count))
    start = KINDS["moments"](ChainObjective(layout, walk, layout.prior(0.0, 0.0)), np.random.default_rng(0))
    assert start is not None
    (_, moves), (shown,) = layout.tables(start)
    errors = [np.abs(shown[list(order)] - truth.emissions[0]).max() for order in ([0, 1, 2], [0, 2, 1], [1, 0, 2])]
    errors += [np.abs(shown[list(order)] - truth.emissions[0]).max() for order in ([1, 2, 0], [2, 0, 1], [2, 1, 0])]
    assert min(errors) < 0.05
    assert np.trace(moves) > 2.0


def test_states_are_numbered_by_size_and_named_where_given() -> None:
    truth = chain_of(1, 3, (4,), seed=21)
    sequences = ragged(truth, [30] * 30, seed=22)
    model = et.EMHMM(3, random_state=0).fit(sequences)
    sizes = np.concatenate(model.predict_proba(sequences)).sum(axis=0)
    assert (np.diff(sizes) <= 1e-6).all()
    tables = model.tables_
    assert tables["start"].names == ("state",)
    assert tables["transitions"].names == ("state before", "state")
    assert tables["emissions"].names == ("state", "c0")
    again = et.EMHMM(3, init=tables).fit(sequences)
    assert_allclose(again.tables_["emissions"], tables["emissions"], atol=1e-3)
    second = et.EMHMM(2, 2, random_state=0, n_init=1, init="windows").fit(sequences).tables_
    assert second["start"].names == ("state 0", "state 1")
    assert_allclose(second["start"].sum(), 1.0)
    assert second["transitions"].names == ("state 2 before", "state before", "state")


def test_structure_of_transitions_is_kept() -> None:
    truth = chain_of(1, 3, (4,), seed=23)
    sequences = ragged(truth, [10] * 30, seed=24)
    first = et.EMHMM(
        3, transitions="left-to-right", start=[1, 0, 0], random_state=0, n_init=2, init="position"
    ).fit(sequences)
    assert_array_equal(first.tables_["start"], [1, 0, 0])
    assert_array_equal(first.tables_["transitions"][np.tril_indices(3, -1)], 0)
    assert first.n_parameters_ == 2 + 1 + 3 * 3
    mask = np.array([[1, 1, 0], [0, 1, 1], [1, 0, 1]])
    for order in (1, 2):
        given = et.EMHMM(3, order, transitions=mask, random_state=0, n_init=2, init="random").fit(sequences)
        moves = np.asarray(given.tables_["transitions"])
        assert_array_equal(moves[..., mask == 0], 0)
    loose = et.EMHMM(2, random_state=0, n_init=2, init="random").fit(sequences)
    sticky = et.EMHMM(2, sticky=1000.0, random_state=0, n_init=2, init="random").fit(sequences)
    assert np.trace(sticky.tables_["transitions"]) > max(1.8, np.trace(loose.tables_["transitions"]))


def test_validation_sequences_say_when_to_stop() -> None:
    truth = chain_of(1, 2, (4,), seed=25)
    sequences = ragged(truth, [8] * 40, seed=26)
    settings: dict[str, Any] = {"init": "random", "n_init": 1, "random_state": 0, "pseudo_counts": 0.01}
    model = et.EMHMM(6, validation_fraction=0.3, **settings).fit(sequences)
    assert len(model.validation_history_) == len(model.history_)
    assert model.converged_
    with pytest.raises(DataError, match="leaves none"):
        et.EMHMM(2, validation_fraction=0.01, random_state=0).fit(sequences.chosen([0]))


def test_missing_cells_are_filled_by_what_is_likeliest_and_drawn_as_likely() -> None:
    chain = chain_of(1, 2, (3, 2), seed=27)
    model = et.EMHMM(2, n_init=1, max_iter=2, random_state=0).fit(ragged(chain, [6] * 30, seed=28))
    vars(model)["model_"] = chain
    row: list[list[Any]] = [[0, 1], [None, 0], [2, None], [None, None]]
    filled = model.impute([row])[0]
    network, codes = network_rows(chain, Sequences.of([row], model.columns_), 0)
    for step, channel in ((1, 0), (2, 1), (3, 0), (3, 1)):
        proba = np.asarray(network.predict_proba(codes, target=f"c{channel}_{step}"))[0]
        assert filled[step][channel] == proba.argmax()
    drawn = np.array(model.impute([row] * 4000, method="sample", seed=0))
    assert (drawn[:, 0] == [0, 1]).all()
    joint = network.conditional(["c0_1", "c0_3"], given={"c0_0": 0, "c1_0": 1, "c1_1": 0, "c0_2": 2})
    shares = np.zeros((3, 3))
    np.add.at(shares, (drawn[:, 1, 0], drawn[:, 3, 0]), 1 / 4000)
    assert_allclose(shares, joint, atol=0.03)


def test_drawn_sequences_are_as_likely_as_the_model_says() -> None:
    for order in (1, 2):
        chain = chain_of(order, 2, (2,), seed=29)
        model = et.EMHMM(2, order, n_init=1, max_iter=1, random_state=0).fit([[0, 1, 0], [1, 1]])
        vars(model)["model_"] = Chain(model.columns_, chain.links, chain.emissions)
        drawn = np.array(model.sample(20_000, length=3, seed=0))
        every = list(product(range(2), repeat=3))
        expected = np.exp(model.score_samples([list(word) for word in every]))
        shares = np.array([(drawn == word).all(axis=1).mean() for word in every])
        assert_allclose(shares, expected, atol=0.015)
        assert model.sample(1, length=2, seed=3)[0].tolist() == model.sample(1, length=2, seed=3)[0].tolist()


def test_answers_come_back_in_the_form_of_the_question() -> None:
    model = et.EMHMM(2, random_state=0, n_init=1).fit(["aabb", "ab", "bbaa"] * 5)
    assert [each.shape for each in model.filter(["ab", "b"])] == [(2, 2), (1, 2)]
    assert model.predict_proba(np.array(["a", "b", "b"]), lengths=[1, 2]).shape == (3, 2)
    frame = pandas.DataFrame([["a", "b", None], ["a", "a", "b"]])
    assert model.predict_proba(frame).shape == (2, 3, 2)
    assert model.decode(frame).states[0, 2] == -1
    proba = model.predict_next_proba(["ab", ""])
    assert proba.states[1] == ("a", "b")
    assert_allclose(proba.sum(axis=1), 1.0)
    assert all(set(word) <= set("ab") and len(word) == 4 for word in model.sample(3, length=4, seed=0))
    by_symbol = model.score_samples(["aab", "b"], per_symbol=True)
    assert_allclose(by_symbol, model.score_samples(["aab", "b"]) / [3, 1])
    assert model.score(["aab", "b"]) == pytest.approx(model.score_samples(["aab", "b"]).mean())
    many = et.EMHMM(2, random_state=0, n_init=1, sequence="id").fit(
        pandas.DataFrame({"id": [1, 1, 2, 2], "p": ["a", "b", "b", "a"], "q": [0, 1, 1, 0]})
    )
    assert set(many.tables_["emissions"]) == {"p", "q"}
    assert many.predict_next_proba(pandas.DataFrame({"id": [5], "p": ["a"], "q": [1]}), target="q").shape == (1, 2)
    with pytest.raises(DataError, match="several channels"):
        many.predict_next_proba(pandas.DataFrame({"id": [5], "p": ["a"], "q": [1]}))
    assert list(many.sample(2, length=2, seed=0).columns) == ["id", "p", "q"]


def test_the_unrolled_network_has_the_names_of_its_steps() -> None:
    model = et.EMHMM(2, random_state=0, n_init=1).fit(["aabb", "ab"])
    network = model.to_network(3)
    assert set(network.graph.observed) == {"x0", "x1", "x2"}
    columns = [network.graph.observed.index(f"x{step}") for step in range(3)]
    row = np.zeros((1, 3), int)
    row[0, columns] = [0, 1, 1]
    assert_allclose(network.log_prob(row), model.score_samples(["abb"]), atol=1e-10)


def test_impossible_sequences_are_told_apart() -> None:
    tables = {"start": [1.0, 0.0], "transitions": [[0.0, 1.0], [1.0, 0.0]], "emissions": np.eye(2)}
    model = et.EMHMM(2, init=tables, pseudo_counts=0, max_iter=1).fit([[0, 1, 0], [0, 1]])
    with pytest.warns(RuntimeWarning, match="1 of 2 sequences are impossible"):
        assert model.score_samples([[0, 1], [0, 0]])[1] == -np.inf
    with pytest.warns(RuntimeWarning, match="hidden states are -1"):
        assert model.decode([[0, 0]]).states[0].tolist() == [-1, -1]
    with pytest.warns(RuntimeWarning, match="2 steps of sequences are impossible"):
        assert_allclose(model.predict_proba([[0, 0]])[0], 0.5)
    for method in ("mode", "sample"):
        with pytest.warns(RuntimeWarning, match="^1 sequences are impossible.*as if no cell were known"):
            filled = model.impute([[0, 0, -1], [0, -1], [0, 0]], method=method)
        assert filled[1].tolist() == [0, 1]
    with pytest.raises(DataError, match="sequence 1 has probability zero at the start"):
        et.EMHMM(2, init=tables, pseudo_counts=0).fit([[0, 1, 0], [0, 0]])


def test_a_saved_model_gives_the_same_answers(tmp_path: Path) -> None:
    frame = pandas.DataFrame({"id": [1, 1, 2, 2, 2], "t": [0, 1, 2, 1, 0], "x": ["a", "b", None, "b", "a"]})
    model = et.EMHMM(
        2, 2, random_state=0, n_init=1, sequence="id", time="t", transitions=np.ones((2, 2)), pseudo_counts=0.5
    ).fit(frame)
    model.save(tmp_path / "hmm.eigentree")
    again = et.load(tmp_path / "hmm.eigentree")
    assert_array_equal(again.score_samples(frame), model.score_samples(frame))
    assert again.sample(2, length=3, seed=0).equals(model.sample(2, length=3, seed=0))
    assert "per step" in repr(model.start_)
    assert repr(again.start_) == repr(model.start_)
    assert again.n_parameters_ == model.n_parameters_
    assert_array_equal(again.history_, model.history_)
    assert_array_equal(clone(again).fit(frame).history_, model.history_)
    given = et.EMHMM(2, init=et.EMHMM(2, random_state=0, n_init=1).fit(["ab", "ba"]).tables_)
    given.save(tmp_path / "given.eigentree")
    assert_allclose(et.load(tmp_path / "given.eigentree").init["start"], given.init["start"])


def test_classes_of_sequences_are_told_apart(tmp_path: Path) -> None:
    chains = [chain_of(1, 2, (4,), seed=seed) for seed in (30, 31)]
    parts = [ragged(chain, [25] * 40, seed=32, missing=0.05) for chain in chains]
    X = [codes[:, 0].tolist() for part in parts for codes in np.split(part.codes, part.starts[1:-1])]
    X = [[None if cell == 4 else cell for cell in word] for word in X]
    y = np.repeat(["one", "two"], 40)
    model = et.JunctionTreeClassifier(et.EMHMM(2, random_state=0, n_init=1, init="windows")).fit(X, y)
    assert model.score(X, y) > 0.8
    proba = model.predict_proba(X[:5])
    joint = np.stack([each.score_samples(X[:5]) for each in model.estimators_], axis=1) + np.log([0.5, 0.5])
    assert_allclose(proba, np.exp(joint) / np.exp(joint).sum(axis=1, keepdims=True), rtol=1e-9)
    model.save(tmp_path / "classes.eigentree")
    assert_array_equal(et.load(tmp_path / "classes.eigentree").predict_proba(X), model.predict_proba(X))


def test_sizes_are_chosen_by_criteria() -> None:
    truth = Chain(
        Columns(("x0",), (3,)),
        (np.array([0.5, 0.5]), np.array([[0.9, 0.1], [0.1, 0.9]])),
        (np.array([[0.8, 0.1, 0.1], [0.1, 0.1, 0.8]]),),
    )
    sequences = ragged(truth, [30] * 60, seed=33)
    settings = et.EMHMM(random_state=0, n_init=1, init="windows")
    for by in ("held_out", "bic"):
        selected = et.select(sequences, (1, 2, 3), settings, by=by)
        assert selected.best().hidden_states == 2
        assert [trial.criteria.parameters for trial in selected.trials] == [2, 7, 14]
    orders = {f"order {order}": et.EMHMM(order=order, n_init=1, init="windows") for order in (1, 2)}
    both = et.select(sequences, [2], orders, by="aic")
    assert len(both.trials) == 2
    assert "order 2, 2 states" in repr(both)
    model = selected.best()
    deviance = -2 * model.score_samples(sequences).sum()
    assert model.aic(sequences) == pytest.approx(deviance + 2 * 7)
    assert model.bic(sequences) == pytest.approx(deviance + 7 * np.log(sequences.steps))


BAD: list[tuple[dict[str, Any], str]] = [
    ({"hidden_states": 0}, "hidden_states is a whole number of at least 1"),
    ({"order": 0}, "order is a whole number"),
    ({"hidden_states": 100, "order": 9}, "joint states"),
    ({"hidden_states": 1, "order": 70}, "order is a whole number.* 16, not 70"),
    ({"hidden_states": 60_000}, "the transitions would be .* fewer hidden_states"),
    ({"init": "odd"}, "init is 'multistart'"),
    ({"init": {"start": [1.0]}}, "a mapping with 'start'"),
    ({"init": 3}, "a mapping of tables"),
    ({"transitions": "odd"}, "transitions is 'full'"),
    ({"transitions": [[1, 0]]}, "array of shape"),
    ({"transitions": [[1, np.nan], [0, 1]]}, "zero where a state cannot follow"),
    ({"transitions": [[1, -1], [0, 1]]}, "array of shape.*, not"),
    ({"transitions": [[1, 1], [0, 0]]}, "no state may follow state 1"),
    ({"start": [0.5, 0.6]}, "each distribution has the sum 1"),
    ({"start": [1.0]}, r"needs \(2,\)"),
    ({"sticky": -1}, "sticky is a finite number"),
    ({"pseudo_counts": "auto"}, "pseudo_counts is a finite number"),
    ({"stopping": "odd"}, "stopping is"),
    ({"tol": -1}, "tol is a finite number"),
    ({"validation_fraction": 1.0}, "less than 1"),
    ({"n_jobs": 0}, "n_jobs is a whole number"),
    ({"handle_unknown": "odd"}, "handle_unknown is 'error' or 'missing'"),
]


@pytest.mark.parametrize(("settings", "message"), BAD, ids=[message for _, message in BAD])
def test_bad_parameters_are_told(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        et.EMHMM(**{"hidden_states": 2, "n_init": 1, **settings}).fit(["abab", "ba"])


def test_an_estimator_that_was_not_fitted_says_so() -> None:
    for ask in (lambda m: m.score_samples(["ab"]), lambda m: m.tables_, lambda m: m.decode(["ab"])):
        with pytest.raises(NotFittedError):
            ask(et.EMHMM(2))


def test_the_first_step_is_what_comes_next_where_nothing_was() -> None:
    model = et.EMHMM(2, random_state=0, n_init=1, max_iter=5).fit(["ABAB", "BBA", "A"])
    first = np.exp(model.score_samples(["A", "B"]))
    assert np.allclose(np.asarray(model.predict_next_proba([""])), first)
    assert np.allclose(np.asarray(model.predict_next_proba([[]])), first)
    assert model.score_samples([""]) == 0
    with pytest.raises(DataError, match="nothing to judge"):
        model.bic(["", "A"], sample_weight=[1, 0])


def test_a_column_of_steps_is_told_to_be_many_sequences() -> None:
    with pytest.warns(RuntimeWarning, match="3 sequences of one step.*lengths="):
        et.EMHMM(2, random_state=0, n_init=1, max_iter=2).fit(np.array([[0], [1], [1]]))


@pytest.mark.parametrize("X", [np.array([[0], [1], [1], [0]]), np.array([0, 1, 1, 0])], ids=["column", "flat"])
def test_lengths_in_the_place_of_y_are_told(X: np.ndarray[Any, Any]) -> None:
    model = et.EMHMM(2, random_state=0, n_init=1, max_iter=2).fit(X, lengths=[3, 1])
    spectral = et.SpectralHMM(2, shrinkage=1.0).fit([[0, 1, 1, 0, 1, 0, 0, 1]] * 9)
    for ask in (model.score, clone(model).fit, spectral.score, clone(spectral).fit, spectral.partial_fit):
        for given in ([3, 1], np.array([3, 1])):
            with pytest.raises(DataError, match=r"\[3, 1\].* are lengths.*as lengths="):
                ask(X, given)
    # What is no length is ignored.
    assert model.score([[0, 1], [1]], ["x", "y"]) == model.score([[0, 1], [1]])


def test_what_does_not_count_may_be_impossible_where_sizes_are_chosen() -> None:
    words = ["AB", "BA", "AA", "BB", "AC", "ABA"]
    selected = et.select(
        words,
        (1,),
        et.EMHMM(random_state=0, pseudo_counts=0.0, max_iter=2),
        by="held_out",
        held_out=3,
        sample_weight=[1, 1, 1, 1, 0, 1],
    )
    assert np.isfinite(selected.trials[0].held_out)


def test_weights_of_zero_leave_sequences_out() -> None:
    words = ["aabb", "abab", "bbbb", "aaab"]
    left = et.EMHMM(2, random_state=0, n_init=1).fit(words, sample_weight=[1, 1, 0, 1])
    short = et.EMHMM(2, random_state=0, n_init=1, categories="ab").fit([words[0], words[1], words[3]])
    assert_allclose(left.tables_["emissions"], short.tables_["emissions"], atol=1e-9)
    with pytest.raises(DataError, match="nothing to learn"):
        et.EMHMM(2).fit(["a", ""], sample_weight=[0, 1])


@pytest.mark.shared_data
def test_careers_and_families_reach_the_best_known_likelihood() -> None:
    mvad = pandas.read_csv(shared_file("mvad.csv")).iloc[:, 2:]
    # Three states ended 183 below from this random state, before symbols were exchanged.
    for states, seed, known in ((3, 1, -33470.28), (4, 6, -23008.88)):
        model = et.EMHMM(states, pseudo_counts=0, random_state=seed).fit(mvad)
        assert model.history_[-1] > known
    biofam = {
        name: pandas.read_csv(shared_file(f"biofam-{name}.csv")).iloc[:, 1:]
        for name in ("child", "left", "married")
    }
    model = et.EMHMM(4, pseudo_counts=0, random_state=2).fit(biofam)
    assert model.history_[-1] > -15757.92
    assert model.columns_.names == ("child", "left", "married")


def test_answers_are_named_by_the_column_that_names_sequences() -> None:
    long = pandas.DataFrame({"who": list("bbaab"), "week": [2, 1, 1, 2, 3], "seen": list("yxxyy")})
    model = et.EMHMM(2, sequence="who", time="week", n_init=1, random_state=0).fit(long)
    found = model.predict_next_proba(long)
    assert list(found.states[0]) == ["b", "a"]
    assert np.array_equal(found.array[1], model.predict_next_proba(long[long.who == "a"]).array[0])
