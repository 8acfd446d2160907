"""Parsing of sentences by estimators that have learned a grammar."""

from __future__ import annotations

from abc import abstractmethod
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np

from eigentree.data.treebanks.binarisation import Binarisation
from eigentree.data.treebanks.tree import Tree
from eigentree.data.treebanks.tree_sources import sentences_of
from eigentree.errors import DataError, quoted
from eigentree.estimators.mixins.constructor_parameters import Parameters
from eigentree.inference.grammars.chart_parser import ChartParser
from eigentree.inference.threads import in_order
from eigentree.messages import notice
from eigentree.validation import MOST_THREADS, finite_number, our_arithmetic, whole_number

if TYPE_CHECKING:
    from eigentree.arrays import Floats
    from eigentree.data.treebanks.binarisation import Factoring
    from eigentree.inference.grammars.chart_parser import Parse
    from eigentree.inference.grammars.grammar import Grammar

__all__ = ["ParsingMixin", "SentenceMixin"]

MOST_SENTENCES = 2**20
"""At a time: each is parsed for itself, so more of them, or a stream without end, come in parts."""


class ParsingMixin(Parameters):
    """What a fitted grammar answers about plain sentences: their trees."""

    binarisation: Factoring | None

    @our_arithmetic
    def parse(self, sentences: Any, pruning: float = 1e-3) -> list[Tree]:
        """Return the tree of each sentence, as the training data have them: the parse of minimum risk.

        All trees and hidden states are summed over, and no tree in normal form has more nodes whose label and
        words are expected to be right (Goodman 1996). Unknown words are known by their classes. A sentence that no
        tree of the grammar has, which is warned of, becomes one node above all of its words.

        Parameters
        ----------
        sentences : list of str, of lists of str, or of trees, whose words are parsed
            A word that is None is missing, and marginalised out.
        pruning : float
            How probable it may be that leaving out improbable labels of spans loses a node of the plain grammar's
            own tree; 0 leaves nothing out and takes longer.

        Examples
        --------
        >>> import eigentree as et
        >>> trees = ["(S (NP she) (VP (V sees) (NP stars)))", "(S (NP stars) (VP (V see) (NP her)))"] * 9
        >>> model = et.LatentGrammar(hidden_states=2, random_state=0).fit(trees)
        >>> model.parse(["stars sees her"])
        [Tree('(S (NP stars) (VP (V sees) (NP her)))')]
        """
        self._require_fit()
        parser = self._parser(finite_number("pruning", pruning, 0.0, most=1.0))
        given, parses = self._parses(sentences, parser)
        flat = [number for number, parse in enumerate(parses) if parse.tree is None]
        if flat:
            shown = quoted(" ".join(word or "()" for word in given[flat[0]]))
            notice(
                f"{len(flat)} of {len(given)} sentences have no tree of the grammar, the first of them number "
                f"{flat[0]}, {shown}: they become one node each; with unseen='witten_bell' nearly all have trees"
            )
        label = parser.likely_root
        trees = [parse.tree or Tree(label, words) for parse, words in zip(parses, given, strict=True)]
        if self.binarisation is None:
            return trees
        normal = Binarisation(self.binarisation)
        return [normal.restored(tree) for tree in trees]

    @abstractmethod
    def _parser(self, pruning: float) -> ChartParser:
        """Return what parses sentences."""

    def _parses(self, sentences: Any, parser: ChartParser) -> tuple[list[tuple[str | None, ...]], list[Parse]]:
        threads = whole_number("n_jobs", getattr(self, "n_jobs", 1), most=MOST_THREADS)
        given = list(islice(sentences_of(sentences), MOST_SENTENCES + 1))
        if len(given) > MOST_SENTENCES:
            raise DataError(f"there are more than {MOST_SENTENCES:,} sentences; give them in parts")
        return given, list(in_order(lambda number: parser.parse(given[number]), len(given), threads))


class SentenceMixin(ParsingMixin):
    """What a grammar with hidden states answers about plain sentences: their log probabilities, too."""

    grammar_: Grammar

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

    def _parser(self, pruning: float) -> ChartParser:
        return ChartParser.of(self.grammar_, pruning)
