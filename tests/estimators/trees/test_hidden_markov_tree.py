"""Laws of hidden Markov trees: against enumeration, hidden Markov models, and their own samples."""

from __future__ import annotations

import itertools

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.metrics import adjusted_rand_score

import eigentree as et
from eigentree.data.sequences.forests import Forest
from eigentree.data.sequences.sequence_codes import Sequences
from eigentree.data.tables.columns import Columns
from eigentree.inference.sequences.hmm_chain import Chain
from eigentree.inference.sequences.tree_chain import TreeChain, pass_of

STATES, SYMBOLS = 3, 4

COLUMNS = Columns(("x0",), (SYMBOLS,))


def grown(nodes, roots, seed):
    """Return the parents of nodes of random trees, in a random order of rows."""
    random = np.random.default_rng(seed)
    parents = [-1 if node < roots else int(random.integers(node)) for node in range(nodes)]
    order = random.permutation(nodes)
    place = np.argsort(order)
    return np.array([-1 if parents[node] < 0 else place[parents[node]] for node in order])


def known_tables(seed=0, zeros=False):
    random = np.random.default_rng(seed)
    start, moves = random.dirichlet(np.ones(STATES)), random.dirichlet(np.ones(STATES), STATES)
    shown = random.dirichlet(np.ones(SYMBOLS), STATES)
    if zeros:
        start, moves = np.array([1.0, 0, 0]), np.array([[0.0, 1, 0], [0, 0, 1], [0, 0.5, 0.5]])
    return start, moves, shown


def chain_of(tables):
    start, moves, shown = tables
    return TreeChain(COLUMNS, (start, moves), (shown,))


def forest_of(cells, parents):
    return Forest.grown(np.asarray(cells), parents, COLUMNS)


def enumerated(tables, cells, parents):
    """Return P(cells, states) of every assignment of states to the nodes."""
    start, moves, shown = tables
    joint = np.zeros((STATES,) * len(cells))
    for states in itertools.product(range(STATES), repeat=len(cells)):
        chance = 1.0
        for node, (state, cell) in enumerate(zip(states, cells, strict=True)):
            chance *= start[state] if parents[node] < 0 else moves[states[parents[node]], state]
            chance *= 1.0 if cell < 0 else shown[state, cell]
        joint[states] = chance
    return joint


@pytest.fixture(scope="module")
def small():
    """One tree of six nodes, one of whose cells is missing."""
    parents = grown(6, 1, 1)
    cells = np.random.default_rng(2).integers(0, SYMBOLS, 6)
    cells[4] = -1
    return cells, parents


@pytest.mark.parametrize("zeros", [False, True])
def test_scores_posteriors_and_decoding_are_those_of_enumeration(small, zeros):
    cells, parents = small
    tables = known_tables(zeros=zeros)
    joint = enumerated(tables, cells, parents)
    chain, forest = chain_of(tables), forest_of(cells, parents)
    assert_allclose(chain.log_prob(forest), [np.log(joint.sum())], rtol=1e-12)
    posterior = np.stack([joint.sum(axis=tuple(set(range(6)) - {node})) for node in range(6)]) / joint.sum()
    found = np.empty_like(posterior)
    found[forest.places] = chain.smoothed(forest)
    assert_allclose(found, posterior, atol=1e-12)
    states, log_prob = chain.decoded(forest)
    best = np.empty(6, int)
    best[forest.places] = states
    assert_allclose(log_prob, [np.log(joint.max())], rtol=1e-12)
    assert_allclose(joint[tuple(best)], joint.max(), rtol=1e-12)


def test_expected_counts_are_those_of_enumeration(small):
    cells, parents = small
    tables = known_tables()
    joint = enumerated(tables, cells, parents)
    joint /= joint.sum()
    start, moves, shown = np.zeros(STATES), np.zeros((STATES, STATES)), np.zeros((STATES, SYMBOLS))
    for states in itertools.product(range(STATES), repeat=6):
        for node in range(6):
            if parents[node] < 0:
                start[states[node]] += joint[states]
            else:
                moves[states[parents[node]], states[node]] += joint[states]
            if cells[node] >= 0:
                shown[states[node], cells[node]] += joint[states]
    forest = forest_of(cells, parents)
    walk = pass_of(forest, np.array([2.0]), {}, 1)
    found = walk.counts(walk.links(tables[:2]), tables[2:], [])
    assert_allclose(found.links[0], 2 * start, atol=1e-12)
    assert_allclose(found.links[1], 2 * moves, atol=1e-12)
    assert_allclose(found.tables[0], 2 * shown, atol=1e-12)


def test_sampled_states_have_the_posterior_distribution(small):
    cells, parents = small
    tables = known_tables()
    joint = enumerated(tables, cells, parents)
    count = 20_000
    every = np.concatenate([np.where(parents < 0, -1, parents + 6 * copy) for copy in range(count)])
    forest = forest_of(np.tile(cells, count), every)
    drawn = np.empty(6 * count, int)
    drawn[forest.places] = chain_of(tables).sampled_states(forest, np.random.default_rng(0))
    shares = np.zeros_like(joint)
    np.add.at(shares, tuple(drawn.reshape(count, 6).T), 1.0 / count)
    # Half the sum of absolute differences of 729 cells of a sample this large.
    assert np.abs(shares - joint / joint.sum()).sum() / 2 < 0.1


def test_trees_of_one_child_each_are_sequences():
    tables = known_tables(5)
    cells = np.random.default_rng(6).integers(0, SYMBOLS, 40)
    starts = np.array([0, 15, 40])
    parents = np.arange(40) - 1
    parents[starts[:-1]] = -1
    line = Chain(COLUMNS, tables[:2], (tables[2],))
    sequences = Sequences.of(cells, COLUMNS, lengths=[15, 25])
    forest, tree = forest_of(cells, parents), chain_of(tables)
    assert_allclose(tree.log_prob(forest), line.log_prob(sequences), rtol=1e-12)
    assert_allclose(tree.smoothed(forest), line.smoothed(sequences), atol=1e-12)
    assert_array_equal(tree.decoded(forest)[0], line.decoded(sequences)[0])


def test_deep_and_wide_trees_do_not_underflow():
    tables = known_tables(7)
    for parents in (np.arange(5000) - 1, np.where(np.arange(5000) > 0, 0, -1)):
        cells = np.random.default_rng(8).integers(0, SYMBOLS, 5000)
        forest = forest_of(cells, parents)
        found = chain_of(tables).log_prob(forest)[0]
        assert -5000 * np.log(SYMBOLS) * 2 < found < -1000
        assert_allclose(chain_of(tables).smoothed(forest).sum(axis=1), 1.0, atol=1e-9)


def test_probabilities_of_all_cells_add_up_to_one():
    parents = grown(5, 2, 3)
    every = np.array(list(itertools.product(range(SYMBOLS), repeat=5)))
    tables = known_tables(9)
    total = sum(np.exp(chain_of(tables).log_prob(forest_of(cells, parents)).sum()) for cells in every)
    assert total == pytest.approx(1.0, abs=1e-10)


@pytest.fixture(scope="module")
def sampled():
    """Trees sampled from a model whose states differ much, with categories, numbers and missing cells."""
    parents = grown(3000, 200, 0)
    start, moves = np.array([0.7, 0.3]), np.array([[0.9, 0.1], [0.25, 0.75]])
    columns = Columns(("x0",), (2,))
    chain = TreeChain(columns, (start, moves), (np.eye(2),))
    forest = Forest.shaped(parents, columns)
    states = np.empty(3000, int)
    states[forest.places] = chain.drawn_nodes(forest, np.random.default_rng(1))[:, 0]
    random = np.random.default_rng(2)
    kind = np.where(random.random(3000) < 0.85, states, 1 - states)
    frame = pd.DataFrame(
        {"kind": np.array(["leaf", "wood"])[kind], "size": 3.0 * states + random.normal(size=3000)}
    )
    frame.loc[::7, "kind"] = None
    frame.loc[3::11, "size"] = np.nan
    return frame.assign(above=pd.array(np.where(parents < 0, np.nan, parents))), states, parents, moves


@pytest.fixture(scope="module")
def learned(sampled):
    return et.HiddenMarkovTree(2, random_state=0).fit(sampled[0], "above")


def test_what_was_sampled_from_is_found(sampled, learned):
    frame, states, _, moves = sampled
    assert adjusted_rand_score(learned.predict(frame, "above"), states) > 0.8
    order = np.argsort(learned.means_[:, 0])
    assert_allclose(learned.transmat_[np.ix_(order, order)], moves, atol=0.06)
    assert_allclose(learned.means_[order, 0], [0, 3], atol=0.15)
    assert (np.diff(learned.history_) > 0).all()


def test_the_order_of_rows_and_trees_changes_nothing(sampled, learned):
    frame, _, parents, _ = sampled
    order = np.random.default_rng(4).permutation(len(frame))
    place = np.argsort(order)
    moved = np.where(parents[order] < 0, -1, place[parents[order]])
    other = frame.iloc[order].drop(columns="above")
    before, after = learned.predict_proba(frame, "above"), learned.predict_proba(other, moved)
    assert_allclose(after, before[order], atol=1e-12)
    assert learned.score(other, moved) == pytest.approx(learned.score(frame, "above"), rel=1e-12)


def test_results_do_not_depend_on_threads(sampled):
    frame = sampled[0]
    made = [
        et.HiddenMarkovTree(2, random_state=0, n_init=1, init="random", n_jobs=jobs, max_iter=3) for jobs in (1, 2)
    ]
    with pytest.warns(UserWarning, match="max_iter=3"):
        one, two = (model.fit(frame, "above") for model in made)
    assert_array_equal(one.history_, two.history_)
    assert_array_equal(one.score_samples(frame, "above"), two.score_samples(frame, "above"))


def test_missing_cells_are_imputed_and_known_ones_stay(sampled, learned):
    frame = sampled[0]
    full = learned.impute(frame, "above")
    known = frame["kind"].notna()
    assert full[["kind", "size"]].notna().all(axis=None)
    assert (full["kind"][known] == frame["kind"][known]).all()
    assert_allclose(full["above"], frame["above"])
    one, two = (learned.impute(frame, "above", method="sample", random_state=seed) for seed in (0, 1))
    assert not one["size"].equals(two["size"])


def test_samples_have_the_shape_that_is_asked_for(learned, sampled):
    rows = learned.sample(grown(2000, 100, 5), random_state=0)
    assert rows.shape == (2000, 2)
    again = et.HiddenMarkovTree(2, random_state=0).fit(rows, grown(2000, 100, 5))
    own, other = (np.argsort(model.means_[:, 0]) for model in (learned, again))
    assert_allclose(again.transmat_[np.ix_(other, other)], learned.transmat_[np.ix_(own, own)], atol=0.1)


def test_saved_and_loaded_it_answers_the_same(learned, sampled, tmp_path):
    frame = sampled[0]
    learned.save(tmp_path / "tree.eigentree")
    again = et.load(tmp_path / "tree.eigentree")
    assert_array_equal(again.score_samples(frame, "above"), learned.score_samples(frame, "above"))
    assert repr(again.report_) == repr(learned.report_)


def test_criteria_are_those_of_the_score(learned, sampled):
    frame = sampled[0]
    with pytest.warns(UserWarning, match="pseudo-counts"):
        found = learned.criteria(frame, "above")
    log_likelihood = learned.score_samples(frame, "above").sum()
    assert found.log_likelihood == pytest.approx(log_likelihood)
    assert found.bic == pytest.approx(learned.n_parameters_ * np.log(3000) - 2 * log_likelihood)
    # Start and two rows of transitions, two tables of two labels, two means and two variances.
    assert learned.n_parameters_ == 1 + 2 + 2 + 4


def test_labelled_trees_are_trees_of_nodes():
    trees = [("S", ("A", "x"), ("B", "y")), "(S (A x) (S (A x) (B y)))", "(S (B y) (A x))"] * 3
    model = et.HiddenMarkovTree(2, random_state=0).fit(trees)
    table = ["S", "A", "x", "B", "y"]
    assert model.score_samples(trees)[0] == pytest.approx(model.score_samples(table, [-1, 0, 1, 0, 3])[0])
    filled = model.impute([("S", ("A", None), ("B", "y"))])
    known, other = filled[0].words[1], filled[0].words[0]
    assert known == "y"
    assert other in {"S", "A", "B", "x", "y"}


@pytest.mark.parametrize(
    ("parents", "message"),
    [
        ([-1, 0], "parents are whole numbers, the row of each of 3 nodes' parent"),
        ([-1, 0, 3], "node 2 has the parent 3, but rows are numbered 0 to 2"),
        ([-1, 2, 1], "node 1 has no root above it: its parents go round in a circle"),
        ([0.5, -1, -1], "parents are whole numbers"),
        ("mother", "parents='mother' is no column of the data"),
        (None, "trees are a list of them, or a table with parents="),
    ],
)
def test_errors_name_the_node(parents, message):
    with pytest.raises(et.DataError, match=message):
        et.HiddenMarkovTree().fit(pd.DataFrame({"x": ["a", "b", "a"]}), parents)


def test_what_cannot_happen_is_said():
    model = et.HiddenMarkovTree(2, random_state=0, pseudo_counts=0.0, categories={"x0": ["a", "b", "c"]})
    model.fit(["a", "b", "a", "b"], [-1, 0, -1, 2])
    with pytest.warns(RuntimeWarning, match="impossible"):
        assert_array_equal(np.isneginf(model.score_samples(["a", "c", "a"], [-1, 0, -1])), [True, False])
    with pytest.warns(RuntimeWarning, match="impossible"):
        assert_array_equal(model.predict(["a", "c"], [-1, 0]), [-1, -1])
    with pytest.warns(RuntimeWarning, match="uniform"):
        assert_allclose(model.predict_proba(["a", "c"], [-1, 0]), 0.5)


def test_standard_errors_are_those_of_a_hidden_markov_model_where_trees_are_sequences():
    random = np.random.default_rng(3)
    states = np.zeros(600, int)
    for step in range(1, 600):
        states[step] = random.random() < (0.1, 0.8)[states[step - 1]] if step % 20 else step // 20 % 2
    cells = np.array(["a", "b"])[np.where(random.random(600) < 0.9, states, 1 - states)]
    parents = np.where(np.arange(600) % 20, np.arange(600) - 1, -1)
    tree = et.HiddenMarkovTree(2, random_state=0, tol=1e-12).fit(cells, parents)
    start = {name: np.asarray(table) for name, table in tree.tables_.items()}
    line = et.HMM(2, init=start, tol=1e-12).fit(cells, lengths=[20] * 30)
    assert_allclose(line.transmat_, tree.transmat_, atol=1e-5)
    assert_allclose(tree.estimates().standard_errors, line.estimates().standard_errors, rtol=1e-3)
    with pytest.raises(et.DataError, match="trees are not fitted again"):
        et.bootstrap(tree, ["(a b)", "(b a)"], n_replicates=3)


def test_emissions_are_chosen_on_held_out_trees():
    parents = np.where(np.arange(400) % 4, np.arange(400) // 4 * 4, -1)
    skewed = np.random.default_rng(0).exponential(size=(400, 1)) ** 3
    model = et.HiddenMarkovTree(1, random_state=0).fit(skewed, parents)
    (emission,) = model.emissions_.values()
    assert emission.family == "semiparametric"


def test_trees_are_held_out_whole_and_once():
    forest = forest_of(np.zeros(40, int), np.where(np.arange(40) % 4, np.arange(40) // 4 * 4, -1))
    weights = np.arange(1.0, 11.0)
    learned, held = pass_of(forest, weights, {}, 1).blocks(5)
    assert_array_equal(learned.weights + held.weights, weights)
    assert_array_equal(np.flatnonzero(held.weights), [4, 9])
    assert_array_equal(learned.weights[[4, 9]], 0)
