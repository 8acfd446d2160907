"""EM of latent-variable grammars: the objective, split-merge training, and the estimator."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import eigentree as et
from eigentree.data.treebanks.tree_encoder import TreeEncoder
from eigentree.em.grammars.grammar_objective import GrammarObjective, GrammarVector, plain_grammar, training_counts
from eigentree.em.grammars.state_splits import StateMap, perturbed
from eigentree.inference.grammars.grammar import Backoff, Grammar, GrammarLayout
from eigentree.inference.grammars.tree_passes import log_prob

WORDS = {"N": (("dog", "cat", "rat"), ("dogs", "cats", "rats")), "V": (("runs", "sleeps"), ("run", "sleep"))}


def sentences(count: int, seed: int) -> Iterator[tuple]:
    """Yield trees whose subject and verb agree in number, which no label shows; some have a further clause."""
    random = np.random.default_rng(seed)
    for _ in range(count):
        number = random.integers(2)
        noun, verb = (str(random.choice(WORDS[label][number])) for label in "NV")
        subject: tuple = ("NP", ("D", "the"), ("N", noun))
        if random.random() < 0.3:
            subject = ("NP", *subject[1:], ("PP", "there"))
        yield ("S", subject, ("VP", ("V", verb)))


TREES = list(sentences(300, 0))


def objective(hidden: int = 2, smooth: bool = True, pseudo_counts: float = 0.5) -> tuple[GrammarObjective, Any]:
    encoder = TreeEncoder()
    for tree in TREES[:20]:
        encoder.add(et.LatentGrammar().normal_form([tree])[0])
    symbols, store = encoder.learned(1, "single")
    layout = GrammarLayout(symbols, np.full(len(symbols.labels), hidden))
    vector = GrammarVector(layout)
    backoff = Backoff.witten_bell(layout) if smooth else Backoff.none(layout)
    weights = np.arange(1.0, store.trees + 1)
    plain = plain_grammar(layout, training_counts(symbols, store, weights)[1])
    whole = GrammarObjective(vector, store, weights, backoff, pseudo_counts * plain)
    return whole, perturbed(vector, plain, 0.9, np.random.default_rng(1))


@pytest.mark.parametrize("smooth", [False, True])
def test_em_never_lowers_the_objective_and_its_gradient_is_that_of_differences(smooth: bool) -> None:
    whole, here = objective(smooth=smooth)
    value, gradient = whole.value_and_gradient(here)
    random = np.random.default_rng(2)
    assert_allclose(whole.log_likelihood(here) + whole.log_prior(here), value, rtol=1e-12)
    for _ in range(3):
        direction = random.normal(size=len(here)) * here
        ahead, behind = (whole.evaluated(here + sign * 1e-6 * direction).objective for sign in (1, -1))
        assert_allclose((ahead - behind) / 2e-6, gradient @ direction, rtol=1e-5)
    before = value
    for _ in range(10):
        here = whole.em_update(here)
        after = whole.evaluated(here).objective
        assert after >= before - 1e-9 * abs(before)
        before = after
    assert_allclose(np.add.reduceat(here, np.cumsum([0, *whole.layout.lengths[:-1]])), 1.0)


def test_splitting_changes_no_probability_and_merging_undoes_it() -> None:
    whole, here = objective()
    layout = whole.layout.grammar
    grammar = Grammar(layout, here, whole.backoff)
    wanted = layout.states + np.arange(len(layout.states)) % 3
    split = StateMap.split(layout.states, wanted)
    larger = Grammar(split.layout(layout), split.values(here, layout), split.backoff(whole.backoff, layout))
    assert_array_equal(larger.states, wanted)
    (rows,) = whole.blocks
    assert_allclose(log_prob(larger, rows), log_prob(grammar, rows), rtol=1e-12)
    pairs = [np.zeros(count - 1, np.bool_) for count in wanted]
    for own, before, after in zip(pairs, layout.states, wanted, strict=True):
        own[: 2 * (after - before) : 2] = True
    merged = StateMap.merged(pairs, [np.ones(count) for count in wanted])
    assert_allclose(merged.values(larger.values, larger.layout), here, rtol=1e-12)


@pytest.mark.parametrize("init", ["split_merge", "random"])
def test_what_no_label_shows_is_learned(init: str) -> None:
    model = et.LatentGrammar(4, init=init, random_state=0, n_init=3).fit(TREES)
    plain = et.LatentGrammar(1, random_state=0).fit(TREES)
    test = list(sentences(200, 1))
    # Number is one bit, of which the plain grammar knows nothing.
    assert model.score(test) - plain.score(test) > 0.9 * np.log(2.0)
    assert (np.diff(model.history_) >= 0).all()
    assert model.hidden_states_["D"] == 1
    assert max(model.hidden_states_.values()) >= 2
    (filled,) = model.impute([("S", ("NP", ("D", "the"), ("N", None)), ("VP", ("V", "run")))])
    assert filled.words[1] in WORDS["N"][1]
    wrong = [("S", ("NP", ("D", "the"), ("N", "dogs")), ("VP", ("V", "runs")))]
    assert {str(each.subtree) for each in model.anomalies([*test[:50], *wrong], 2)} <= {
        "(N dogs)",
        "(NP (D the) (N dogs))",
        "(VP (V runs))",
    }
    decoded = model.decode(test)
    best = [np.prod([own.max() for own in nodes]) for nodes in model.predict_proba(test)]
    assert len(decoded) == len(best) == 200
    assert np.isfinite([model.bic(test), model.aic(test)]).all()
    assert et.LatentGrammar(2, random_state=0).fit(TREES).bic(test) < plain.bic(test)


def test_neither_threads_nor_disk_nor_forms_of_trees_change_a_bit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("eigentree.data.treebanks.tree_encoder.BLOCK_NODES", 100)
    settings: dict[str, Any] = {"hidden_states": 2, "random_state": 0}
    plain = et.LatentGrammar(**settings).fit(TREES)
    several = et.LatentGrammar(**settings, n_jobs=3).fit(str(et.Tree.of(tree)) for tree in TREES)
    monkeypatch.setattr("eigentree.data.treebanks.tree_store.TreeStore.__init__.__defaults__", (0,))
    on_disk = et.LatentGrammar(**settings).fit([et.Tree.of(tree).nested() for tree in TREES])
    for other in (several, on_disk):
        assert_array_equal(other.grammar_.values, plain.grammar_.values)
        assert_array_equal(other.score_samples(iter(TREES)), plain.score_samples(TREES))
    parts = [plain.score_samples(TREES[:7]), plain.score_samples(TREES[7:])]
    assert_array_equal(np.concatenate(parts), plain.score_samples(TREES))


def test_the_order_of_trees_changes_rounding_only() -> None:
    settings: dict[str, Any] = {"hidden_states": 2, "init": "random", "random_state": 0, "validation_fraction": 0.0}
    forward = et.LatentGrammar(**settings).fit(TREES)
    backward = et.LatentGrammar(**settings).fit(TREES[::-1])
    assert_allclose(forward.score_samples(TREES), backward.score_samples(TREES), rtol=1e-6)


def test_a_right_branching_tree_is_a_hidden_markov_model() -> None:
    """``A -> W A`` with the state of A moving on, and that of W being that of A."""
    random = np.random.default_rng(0)
    start, moves, shown = (
        random.dirichlet(np.ones(3)),
        random.dirichlet(np.ones(3), 3),
        random.dirichlet(np.ones(2), 3),
    )
    encoder = TreeEncoder()
    for text in ("(A (W a) (A (W b) (A a)))", "(A b)"):
        encoder.add(et.Tree.parse(text))
    symbols, _ = encoder.learned(1, "single")
    layout = GrammarLayout(symbols, np.array([3, 3]))
    goes_on = 0.8
    rule = goes_on * np.eye(3)[:, :, None] * np.array(moves)[:, None]
    grammar = Grammar.of_parts(layout, [start, np.zeros(3)], [rule], [(1.0 - goes_on) * shown, shown])
    steps = 5
    network = et.LatentNetwork(
        et.zoo.hmm(steps, hidden_states=3, observed_states=2),
        {"h0": start} | {f"h{k}": moves for k in range(1, steps)} | {f"x{k}": shown for k in range(steps)},
    )
    model = et.LatentGrammar(binarisation=None)
    vars(model)["grammar_"] = grammar
    for number in range(2**steps):
        word = f"{number:0{steps}b}".replace("0", "a").replace("1", "b")
        text = "".join(f"(A (W {letter}) " for letter in word[:-1]) + f"(A {word[-1]}" + ")" * steps
        codes = np.array([["ab".index(letter) for letter in word]])
        expected = network.log_prob(codes)[0] + (steps - 1) * np.log(goes_on) + np.log(1.0 - goes_on)
        assert_allclose(model.score_samples([text])[0], expected, rtol=1e-10)


def test_saved_and_loaded_it_is_the_same(tmp_path: Path) -> None:
    model = et.LatentGrammar(2, random_state=0).fit(TREES)
    model.save(tmp_path / "grammar")
    again = et.load(tmp_path / "grammar")
    assert_array_equal(again.grammar_.values, model.grammar_.values)
    unknown = [("S", ("NP", ("D", "the"), ("N", "walking")), ("VP", ("V", "run")))]
    assert_array_equal(again.score_samples([*TREES, *unknown]), model.score_samples([*TREES, *unknown]))
    assert np.isfinite(model.score(unknown))
    assert again.sample(3, random_state=1) == model.sample(3, random_state=1)
    assert repr(again.report_) == repr(model.report_)


def test_errors_say_what_to_do() -> None:
    model = et.LatentGrammar(2, random_state=0).fit(TREES)
    with pytest.raises(et.DataError, match="tree 1: the label 'XP' is not one of the training data"):
        model.score_samples([TREES[0], ("XP", "a")])
    assert np.isfinite(model.set_params(handle_unknown="missing").score([("XP", "there")]))
    with pytest.raises(et.DataError, match="tree 0 has a node without a label; impute"):
        model.decode([("S", (None, "there"), ("PP", "there"))])
    with pytest.raises(et.DataError, match="tree 9 has a node without a label"):
        et.LatentGrammar().fit([*TREES[:9], (None, "a")])
    with pytest.raises(et.DataError, match="no tree to learn from"):
        et.LatentGrammar().fit([])
    with pytest.raises(et.ParameterError, match="'NN', which is no label of the trees; did you mean 'N'"):
        et.LatentGrammar({"NN": 2}).fit(TREES)
    with pytest.raises(et.ParameterError, match="validation_fraction=0"):
        et.LatentGrammar(pseudo_counts=0).fit(TREES)


@pytest.mark.parametrize("share", [0.0, 0.3])
def test_states_that_show_nothing_are_merged(share: float) -> None:
    random = np.random.default_rng(0)
    words = [random.choice(["a", "b", "c", "d"], 2) for _ in range(400)]
    trees = [("S", ("A", str(first)), ("B", str(second))) for first, second in words]
    model = et.LatentGrammar(4, validation_fraction=share, random_state=0).fit(trees)
    assert sum(model.hidden_states_.values()) <= 4


@pytest.mark.parametrize("trees", [["(S a)"], ["(S (A a) (B b))"], ["(S (S (S a)))"], ["(S a b c d)"]])
@pytest.mark.parametrize("kind", ["LatentGrammar", "SpectralLatentGrammar"])
def test_one_tree_is_enough(trees: list[str], kind: str) -> None:
    model = getattr(et, kind)(2).fit(trees)
    (score,) = model.score_samples(trees)
    assert -5 < score < 0
    (parsed,) = model.parse([et.Tree.parse(trees[0]).words])
    assert parsed == et.Tree.parse(trees[0])
