"""Latent-variable grammars learned from the spectra of what nodes of trees show, in one pass over counts."""

from __future__ import annotations

import math
from dataclasses import field
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np

from eigentree.em.grammars.grammar_objective import plain_grammar, training_counts
from eigentree.errors import DataError, quoted
from eigentree.estimators.mixins.constructor_parameters import estimator_class, learns
from eigentree.estimators.mixins.treebank_mixin import TreebankMixin
from eigentree.inference.grammars.grammar import Backoff, Grammar, GrammarLayout
from eigentree.spectral.grammars.exact_moments import ExactMoments
from eigentree.spectral.grammars.grammar_learning import learn_grammar
from eigentree.spectral.grammars.grammar_model import SpectralGrammar, choose_grammar, spectral_parser
from eigentree.spectral.grammars.grammar_report import GrammarReport
from eigentree.validation import auto_or_number, whole_number

if TYPE_CHECKING:
    from collections.abc import Callable

    from eigentree.arrays import Floats
    from eigentree.data.tables.state_rules import UnknownRule
    from eigentree.data.treebanks.binarisation import Factoring
    from eigentree.data.treebanks.tree import Tree
    from eigentree.data.treebanks.tree_rows import GrammarSymbols, TreeRows
    from eigentree.data.treebanks.word_classes import UnknownWords
    from eigentree.inference.grammars.chart_parser import ChartParser

__all__ = ["SpectralLatentGrammar"]

MOST_STATES = 2**7
"""Of a label; the numbers of a rule are as many as the product of those of three labels."""


@estimator_class
class SpectralLatentGrammar(TreebankMixin):
    """A context-free grammar whose labels have hidden states, learned from counts, without local optima.

    What a node shows inside (what it and its children become) and outside (the two rules above it, and what its
    sister, its parent's sister and their children become) is independent given its label and hidden state. So the
    singular vectors of these counts span the hidden states, and with them counts become operators of rules and
    words (Cohen et al. 2012). Hidden states that link nodes further apart than that stay unknown; EM finds these
    (`LatentGrammar`).

    Parameters
    ----------
    hidden_states : int
        The most hidden states of each label, the rank of its operators; labels have fewer where they show fewer.
    shrinkage : float or "auto"
        Shrinkage toward the grammar without hidden states, in units of the noise: 0 is none, infinity is the plain
        grammar, and "auto" is chosen by held-out trees, from 0.4 on.
    unseen : {"witten_bell", "impossible"}
        Rules and words that no training tree has below a label, as for `LatentGrammar`.
    binarisation, min_word_count, unknown_words, handle_unknown
        As those of `LatentGrammar`.

    Attributes
    ----------
    model_ : SpectralGrammar
        The operators, and the distribution that is made of them.
    report_ : GrammarReport
        Per label: rank and singular values; how much was shrunk.
    labels_ : tuple of str
        The labels of nodes in normal form.
    shrinkage_ : float
        The one that was used.

    Notes
    -----
    A product of operators that are learned from few trees can be negative. Scores are log probabilities all the
    same: nodes are taken in pre-order, and what each becomes, given all that came before, has the distribution of
    the operators with the rest of the tree marginalised out, negative values clipped and the others renormalised.
    So scores are normalised over all trees at any shrinkage.

    Counts are of windows around each node, whole numbers: neither the order of the trees nor how they come in parts
    changes a bit of the model. Labels may not be missing, since there are no hidden states to complete them by;
    `LatentGrammar` has these. Words may.

    Examples
    --------
    >>> import eigentree as et
    >>> trees = ["(S (NP she) (VP (V sees) (NP stars)))", "(S (NP stars) (VP shine))"] * 20
    >>> model = et.SpectralLatentGrammar(hidden_states=2).fit(trees)
    >>> likely, rare = model.score_samples(["(S (NP she) (VP (V sees) (NP stars)))", "(S (NP she) (VP shine))"])
    >>> bool(likely > rare + 1)
    True
    """

    hidden_states: int = 8
    shrinkage: float | Literal["auto"] = "auto"
    unseen: Literal["witten_bell", "impossible"] = "witten_bell"
    binarisation: Factoring | None = "right"
    min_word_count: int = 2
    unknown_words: UnknownWords = "signature"
    handle_unknown: UnknownRule = "error"

    model_: SpectralGrammar = field(init=False)
    report_: GrammarReport = field(init=False)

    @property
    def shrinkage_(self) -> float:
        """The shrinkage that was used."""
        return self.report_.shrinkage

    @learns
    def fit(self, X: Any, y: object = None) -> Self:
        """Return the estimator after learning from trees.

        Parameters
        ----------
        X : list or iterator of trees, or path of a file
            As for `LatentGrammar`; words may be missing (None), labels not.
        y : ignored
        """
        self._check_arguments()
        symbols, store = self._encoded(X)
        symbols, counts = training_counts(symbols, store, np.ones(store.trees))
        layout = GrammarLayout(symbols, np.ones(len(symbols.labels), np.int64))
        roots = layout.root(plain_grammar(layout, counts))
        backoff = self._backoff(layout)
        shrinkage = None if self.shrinkage == "auto" else float(self.shrinkage)
        model, report = choose_grammar(store, symbols, self.hidden_states, shrinkage, backoff, roots)
        return self._become({"model_": model, "report_": report})

    @learns
    def fit_moments(self, source: Grammar) -> Self:
        """Return the estimator after learning from the exact moments of a grammar, without noise or shrinkage.

        Where the grammar has no more states than `hidden_states`, and was learned with ``unseen="impossible"``, the
        probabilities of trees are those of the grammar.

        Parameters
        ----------
        source : Grammar
            The ``grammar_`` of a `LatentGrammar`.
        """
        self._check_arguments()
        if not isinstance(source, Grammar):
            raise DataError(f"fit_moments takes the grammar_ of a LatentGrammar, not {quoted(source)}")
        fit = learn_grammar(ExactMoments(source), self.hidden_states)
        own, first = source.backoff, source.layout.state_at[:-1]
        backoff = Backoff(own.pair, own.word, np.add.reduceat(own.children, first), own.words)
        model = SpectralGrammar.of(fit, 0.0, backoff)
        return self._become({"model_": model, "report_": GrammarReport.of(fit, 0.0, {})})

    def _check_arguments(self) -> None:
        whole_number("hidden_states", self.hidden_states, most=MOST_STATES)
        auto_or_number("shrinkage", self.shrinkage, math.inf)
        self._check_reading()

    @property
    def _symbols(self) -> GrammarSymbols:
        return self.model_.symbols

    def _log_prob(self, rows: TreeRows) -> Floats:
        return self.model_.score(_labelled(rows))

    def _expansions(self, rows: TreeRows) -> Floats:
        return self.model_.given_all(rows)

    def _filler(self) -> Callable[[TreeRows], TreeRows]:
        return lambda rows: self.model_.filled(_labelled(rows))

    def _sampled(self, random: np.random.Generator, most_nodes: int) -> Tree:
        return self.model_.sampled(random, most_nodes)

    def _parser(self, pruning: float) -> ChartParser:
        return spectral_parser(self.model_, pruning)


def _labelled(rows: TreeRows) -> TreeRows:
    """Return trees; raise `DataError` where a label is missing."""
    if rows.incomplete.any():
        raise DataError(
            "a node has no known label, which a spectral grammar needs; LatentGrammar marginalises it out"
        )
    return rows
