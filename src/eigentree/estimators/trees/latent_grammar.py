"""Latent-variable grammars: a hidden state at every node of labelled trees, learned by EM."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np

from eigentree.em.grammars.grammar_fit import GrammarFit, fit_by_splits, fit_from_random
from eigentree.em.grammars.grammar_objective import GrammarObjective, GrammarVector, plain_grammar, training_counts
from eigentree.em.holdout import check_split, held_out
from eigentree.errors import DataError, ParameterError, did_you_mean, quoted
from eigentree.estimators.mixins.constructor_parameters import estimator_class, learns
from eigentree.estimators.mixins.information_criteria import Criteria
from eigentree.estimators.mixins.iterative_mixin import RunsMixin
from eigentree.estimators.mixins.treebank_mixin import TreebankMixin, postorder, relabelled
from eigentree.inference.grammars.chart_parser import ChartParser
from eigentree.inference.grammars.completion import Completion
from eigentree.inference.grammars.grammar import Grammar, GrammarLayout
from eigentree.inference.grammars.tree_passes import decode, log_prob, node_posteriors
from eigentree.inference.grammars.tree_sampling import sampled_tree
from eigentree.inference.threads import one_thread
from eigentree.validation import generator, one_of, our_arithmetic, whole_number

if TYPE_CHECKING:
    from collections.abc import Callable

    from eigentree.arrays import Floats, Integers
    from eigentree.data.tables.state_rules import UnknownRule
    from eigentree.data.treebanks.binarisation import Factoring
    from eigentree.data.treebanks.tree import Tree
    from eigentree.data.treebanks.tree_rows import GrammarSymbols, TreeRows
    from eigentree.data.treebanks.tree_store import TreeStore
    from eigentree.data.treebanks.word_classes import UnknownWords
    from eigentree.em.optimize.stopping import Rule
    from eigentree.validation import Seed

__all__ = ["LatentGrammar"]

MOST_STATES = 2**10
"""Of a label; the numbers of a rule are as many as the product of those of three labels."""


@estimator_class
class LatentGrammar(TreebankMixin, RunsMixin):
    """A probabilistic context-free grammar whose labels have hidden states, learned from trees by EM.

    Each node of a tree has a label, which is seen, and a hidden state, which refines it; what a node becomes
    depends on both (Matsuzaki et al. 2005). With one state per label it is the plain grammar of the treebank.

    Parameters
    ----------
    hidden_states : int or mapping of str to int
        The most states of each label, or those of some, the others having one.
    init : {"split_merge", "random"}
        How states come about: split and merged by held-out trees, or all at once from random parameters.
    n_init : int
        The number of starts.
    max_iter : int
        The most iterations of an EM run.
    tol : float, optional
        Of `stopping`, per node of the trees; as for `EMHMM`.
    stopping : {"gain", "paper"}
        As for `EMJunctionTree`, by the node in place of the row.
    pseudo_counts : float
        Smoothing: how many expansions, as the plain grammar has them, each state has beyond its expected ones.
    unseen : {"witten_bell", "impossible"}
        Whether rules and words that no training tree has below a label are as probable as new ones were among the
        training trees (`Backoff`), or impossible.
    binarisation : {"right", "left"} or None
        On which side of a binarised node the rest of its children stands (`Binarisation`); None where trees are in
        normal form.
    min_word_count : int
        How often a word occurs at least that is known by itself; rarer and unknown ones are known by their class.
    unknown_words : {"signature", "single"}
        The classes of such words: by capital letter, digits, hyphen and ending, or one for all.
    handle_unknown : {"error", "missing"}
        What a label is that no training tree has.
    accelerate : bool
        Extrapolate from earlier steps (L-BFGS).
    validation_fraction : float
        The share of the trees that is held out, and says when to stop and which states are merged.
    random_state : int, Generator or None
    n_jobs : int
        Threads; results do not depend on it.
    verbose : int

    Attributes
    ----------
    grammar_ : Grammar
        The parameters.
    hidden_states_ : dict of str to int
        The number of states of each label.
    labels_ : tuple of str
        The labels of nodes in normal form.
    n_parameters_ : int
    start_, history_, validation_history_, objectives_, n_iter_, converged_
        As those of `EMHMM`, per node in place of the step.

    Notes
    -----
    **init="split_merge"**: each state is split in two, again and again, and halves whose split does not raise the
    log-likelihood of held-out trees are merged again, so that labels have different numbers of states (Petrov et
    al. 2006). Without a held-out tree, a split is kept that gains more than its parameters (AIC). A label that only
    stands above words has no more states than it has words.

    Hidden states are those of nodes in normal form, which `normal_form` returns, in post-order: children before
    their parent, the left subtree first.

    Examples
    --------
    >>> trees = ["(S (NP she) (VP (V sees) (NP stars)))", "(S (NP stars) (VP shine))"] * 20
    >>> model = LatentGrammar(hidden_states=2, random_state=0).fit(trees)
    >>> likely, rare = model.score_samples(["(S (NP she) (VP shine))", "(S (VP she) (NP shine))"])
    >>> bool(likely > rare)
    True
    >>> model.impute(["(S (NP ()) (VP (V sees) (NP stars)))"])
    [Tree('(S (NP she) (VP (V sees) (NP stars)))')]
    """

    hidden_states: int | Mapping[str, int] = 8
    init: Literal["split_merge", "random"] = "split_merge"
    n_init: int = 1
    max_iter: int = 200
    tol: float | None = None
    stopping: Rule = "gain"
    pseudo_counts: float = 1.0
    unseen: Literal["witten_bell", "impossible"] = "witten_bell"
    binarisation: Factoring | None = "right"
    min_word_count: int = 2
    unknown_words: UnknownWords = "signature"
    handle_unknown: UnknownRule = "error"
    accelerate: bool = True
    validation_fraction: float = 0.1
    random_state: Seed = None
    n_jobs: int = 1
    verbose: int = 0

    _unit = "node"

    grammar_: Grammar = field(init=False)
    n_parameters_: int = field(init=False)

    @learns
    def fit(self, X: Any, y: object = None) -> Self:
        """Return the estimator after learning from trees.

        Parameters
        ----------
        X : list or iterator of trees, or path of a file
            Trees, read once: each a `Tree`, a string in brackets, nested tuples or lists ``(label, child, …)``, or
            a mapping with "label" and "children".
        y : ignored

        Notes
        -----
        Trees are kept as codes, in a temporary file where they are many. Words may be missing (None), labels not.
        """
        self._check_arguments()
        symbols, store = self._encoded(X)
        random = generator(self.random_state)
        fit = self._fit_of(symbols, store, random)
        how = fit_by_splits if self.init == "split_merge" else fit_from_random
        most = self.max_iter * self.n_init
        with one_thread():
            fit, _, state = self._followed(how(fit, self.n_init, random), most, self.max_iter)
        grammar = Grammar(fit.layout, state.best[1].parameters, fit.whole.backoff)
        return self._become(
            {"grammar_": grammar, "n_parameters_": fit.whole.layout.free_count}
            | self._run_attributes(state, fit.whole.weight, fit.held)
        )

    def _fit_of(self, symbols: GrammarSymbols, store: TreeStore, random: np.random.Generator) -> GrammarFit:
        """Return the trees under the plain grammar, and how EM runs on them."""
        weights, held = np.ones(store.trees), np.zeros(store.trees)
        # Where a share of the trees is less than one, there is none to hold out.
        is_held_out = self.validation_fraction * store.trees >= 1
        if is_held_out:
            held = held_out(weights, self.validation_fraction, random)
            check_split(store.trees - held.sum(), held.sum(), self.validation_fraction, store.trees, "trees")
        # Rules that only held-out trees have would be impossible otherwise.
        learned = weights - held if self.unseen == "witten_bell" else weights
        symbols, roots = training_counts(symbols, store, learned)
        layout = GrammarLayout(symbols, np.ones(len(symbols.labels), np.int64))
        backoff = self._backoff(layout)
        prior = self.pseudo_counts * plain_grammar(layout, roots)
        vector = GrammarVector(layout)
        whole = GrammarObjective(vector, store, weights - held, backoff, prior, self.n_jobs)
        validation = None
        if is_held_out:
            validation = GrammarObjective(vector, store, held, backoff, np.zeros_like(prior), self.n_jobs)
        how = (self.pseudo_counts, self.stopping, self.tol, self.max_iter, self.accelerate)
        return GrammarFit(whole, validation, roots, self._most_states(symbols), *how)

    def _most_states(self, symbols: GrammarSymbols) -> Integers:
        """Return the most states of each label."""
        given = self.hidden_states
        if isinstance(given, Mapping):
            for label in given:
                if label not in symbols.label_codes:
                    hint = did_you_mean(label, symbols.labels)
                    raise ParameterError(
                        f"hidden_states names {quoted(label)}, which is no label of the trees{hint}"
                    )
            wanted = np.array([given.get(label, 1) for label in symbols.labels], np.int64)
        else:
            wanted = np.full(len(symbols.labels), given, np.int64)
        # What is below such a label differs in its word only, so more states cannot be distinguished.
        words = np.bincount(symbols.lexicon[:, 0], minlength=len(wanted))
        inner = np.bincount(symbols.rules[:, 0], minlength=len(wanted)) > 0
        return np.where(inner, wanted, np.minimum(wanted, np.maximum(words, 1)))

    def _check_arguments(self) -> None:
        given = self.hidden_states
        for label, count in given.items() if isinstance(given, Mapping) else [(None, given)]:
            whole_number("hidden_states" if label is None else f"hidden_states[{label!r}]", count, most=MOST_STATES)
        one_of("init", self.init, ("split_merge", "random"))
        self._check_reading()
        self._check_runs((), str)
        if self.pseudo_counts == 0 and self.validation_fraction > 0:
            raise ParameterError(
                "with pseudo_counts=0 held-out trees may be impossible; give some, or validation_fraction=0"
            )

    @property
    def hidden_states_(self) -> dict[str, int]:
        """The number of hidden states of each label."""
        self._require_fit()
        return dict(zip(self.labels_, self.grammar_.states.tolist(), strict=True))

    @our_arithmetic
    def predict_proba(self, X: Any) -> list[list[Floats]]:
        """Return for each tree the posterior distributions of its nodes' hidden states.

        Labels may not be missing.
        """
        found: list[list[Floats]] = []
        for _, rows in self._complete(X):
            known = node_posteriors(self.grammar_, rows)
            nodes = [known.states[begin:end] for begin, end in pairwise(known.node_at.tolist())]
            found += [nodes[begin:end] for begin, end in pairwise(rows.offsets.tolist())]
        return found

    @our_arithmetic
    def decode(self, X: Any) -> list[Tree]:
        """Return the trees in normal form with the hidden states that are most probable together: ``NP-3``.

        Labels may not be missing.
        """
        found: list[Tree] = []
        for trees, rows in self._complete(X):
            states = decode(self.grammar_, rows).tolist()
            for tree, begin in zip(trees, rows.offsets.tolist(), strict=False):
                own = [(f"{node.label}-{states[begin + k]}", node) for k, node in enumerate(postorder(tree))]
                found.append(relabelled(own))
        return found

    def bic(self, X: Any) -> float:
        """Return the Bayesian information criterion of trees, which are as many as they have nodes."""
        return self._criteria(X).bic

    def aic(self, X: Any) -> float:
        """Return the Akaike information criterion of trees."""
        return self._criteria(X).aic

    @our_arithmetic
    def score_sentences(self, sentences: Any) -> Floats:
        """Return the log probability of each sentence: the sum over all trees that have its words.

        Parameters
        ----------
        sentences : list of str, of lists of str, or of trees, whose words are scored
            A word that is None is missing, and marginalised out.
        """
        self._require_fit()
        return np.array([parse.log_prob for parse in self._parses(sentences, self._parser(0.0))[1]])

    @property
    def _symbols(self) -> GrammarSymbols:
        return self.grammar_.symbols

    def _log_prob(self, rows: TreeRows) -> Floats:
        return log_prob(self.grammar_, rows)

    def _expansions(self, rows: TreeRows) -> Floats:
        return node_posteriors(self.grammar_, rows).expansion

    def _filler(self) -> Callable[[TreeRows], TreeRows]:
        return Completion(self.grammar_).filled

    def _parser(self, pruning: float) -> ChartParser:
        return ChartParser.of(self.grammar_, pruning)

    def _sampled(self, random: np.random.Generator, most_nodes: int) -> Tree:
        return sampled_tree(self.grammar_, random, most_nodes)

    def _criteria(self, X: Any) -> Criteria:
        total, nodes = 0.0, 0
        for _, rows in self._blocks(X):
            total, nodes = total + float(log_prob(self.grammar_, rows).sum()), nodes + len(rows.labels)
        if not nodes:
            raise DataError("there is no tree to compare models by")
        return Criteria.of(total, self.n_parameters_, float(nodes))
