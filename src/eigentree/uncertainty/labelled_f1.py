"""How well parsed trees agree with those of a treebank: labelled precision, recall and F1 (PARSEVAL)."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from eigentree.data.treebanks.tree import Tree
from eigentree.data.treebanks.tree_sources import trees_of
from eigentree.errors import DataError, ParameterError, quoted
from eigentree.uncertainty.result_tables import ResultTable

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from eigentree.arrays import Floats, Integers
    from eigentree.uncertainty.result_tables import Labelled

__all__ = ["LabelledF1", "labelled_f1"]


@dataclass(frozen=True, eq=False, repr=False)
class LabelledF1(ResultTable):
    """How many constituents of trees are right, label by label.

    Attributes
    ----------
    labels : tuple of str
        Sorted; the constituents of all labels are counted together, too.
    gold, parsed, matched : arrays of int, shape (labels,)
        How many constituents the trees of the treebank have, the parsed ones, and both.
    exact_match : float
        The share of trees all of whose constituents are right, and that have no others.
    trees : int
    """

    labels: tuple[str, ...]
    gold: Integers
    parsed: Integers
    matched: Integers
    exact_match: float
    trees: int

    _headings: ClassVar[Mapping[str, str]] = {"f1": "F1"}

    @property
    def precision(self) -> float:
        """The share of parsed constituents that are right; NaN where there are none."""
        return float(_share(self.matched.sum(), self.parsed.sum()))

    @property
    def recall(self) -> float:
        """The share of the treebank's constituents that were found; NaN where there are none."""
        return float(_share(self.matched.sum(), self.gold.sum()))

    @property
    def f1(self) -> float:
        """The harmonic mean of precision and recall."""
        return float(_share(2 * self.matched.sum(), self.gold.sum() + self.parsed.sum()))

    @property
    def notes(self) -> Sequence[str]:  # type: ignore[override]
        """How many trees match exactly."""
        return [f"exact match: {self.exact_match:.4f} of {self.trees} trees"]

    def _table(self) -> Labelled:
        gold, parsed, matched = (np.append(own.sum(), own) for own in (self.gold, self.parsed, self.matched))
        numbers: dict[str, Any] = {"gold": gold, "parsed": parsed, "matched": matched}
        numbers |= {"precision": _share(matched, parsed), "recall": _share(matched, gold)}
        numbers |= {"f1": _share(2 * matched, gold + parsed)}
        return ["label"], [(label,) for label in ("all", *self.labels)], numbers


def labelled_f1(gold: Any, parsed: Any, ignore: Collection[str] = ("ROOT", "TOP", "S1")) -> LabelledF1:
    """Return labelled precision, recall and F1 of parsed trees, by the rules of PARSEVAL that evalb follows.

    A constituent is a label over a span of words; it is right where the tree of the treebank has it too, and counts
    as often as a tree has it. Preterminals, nodes over one word alone, are no constituents, nor are nodes whose
    label is missing.

    Parameters
    ----------
    gold, parsed : trees, or files of them, as `LatentGrammar.fit` takes them
        Trees of the treebank and those of a parser, in the same order and of the same words.
    ignore : collection of str
        Labels that are no constituents.

    Raises
    ------
    DataError
        Where the trees differ in number or words.

    Notes
    -----
    Words whose preterminal is labelled so in the treebank are left out of spans: with ``ignore=[","]``, a comma may
    stand anywhere.

    Examples
    --------
    >>> gold = ["(S (NP she) (VP (V sees) (NP the stars)))"]
    >>> parsed = ["(S (NP she) (V sees) (NP the stars))"]
    >>> labelled_f1(gold, parsed)
    label  gold  parsed  matched  precision  recall      F1
      all     3       2        2     1.0000  0.6667  0.8000
       NP     1       1        1     1.0000  1.0000  1.0000
        S     1       1        1     1.0000  1.0000  1.0000
       VP     1       0        0             0.0000  0.0000
    exact match: 0.0000 of 1 trees
    """
    if not isinstance(ignore, list | tuple | set | frozenset) or not all(
        isinstance(label, str) for label in ignore
    ):
        raise ParameterError(f"ignore is a list of labels, such as ['TOP'], not {quoted(ignore)}")
    known, found = list(trees_of(gold)), list(trees_of(parsed))
    if len(known) != len(found):
        raise DataError(
            f"there are {len(known)} trees of the treebank and {len(found)} parsed ones; give them in pairs"
        )
    totals: tuple[Counter[str], Counter[str], Counter[str]] = (Counter(), Counter(), Counter())
    exact = 0
    for number, (one, other) in enumerate(zip(known, found, strict=True)):
        if one.words != other.words:
            raise DataError(
                f"tree {number}: the treebank has the words {_shown(one)}, and the parsed tree {_shown(other)}"
            )
        places = _places(one, ignore)
        pair = _brackets(one, places, ignore), _brackets(other, places, ignore)
        exact += pair[0] == pair[1]
        for total, brackets in zip(totals, (*pair, pair[0] & pair[1]), strict=True):
            for (label, _, _), count in brackets.items():
                total[label] += count
    labels = tuple(sorted(totals[0].keys() | totals[1].keys()))
    in_gold, in_parsed, in_both = (np.array([total[label] for label in labels], np.int64) for total in totals)
    share = exact / len(known) if known else float("nan")
    return LabelledF1(labels, in_gold, in_parsed, in_both, share, len(known))


def _share(part: Any, whole: Any) -> Floats:
    found: Floats = np.divide(part, whole, out=np.full(np.shape(part), np.nan), where=np.asarray(whole) > 0)
    return found


def _shown(tree: Tree) -> str:
    return quoted(" ".join("()" if word is None else word for word in tree.words))


def _places(tree: Tree, ignore: Collection[str]) -> Integers:
    """Return, before each word and behind the last one, how many words there are that count."""
    counting: list[bool] = []
    stack: list[Any] = [tree]
    while stack:
        node = stack.pop()
        if not isinstance(node, Tree):
            counting.append(True)
        elif _is_preterminal(node):
            counting.append(node.label not in ignore)
        else:
            stack += reversed(node.children)
    return np.concatenate([[0], np.cumsum(counting)])


def _brackets(tree: Tree, places: Integers, ignore: Collection[str]) -> Counter[tuple[str, int, int]]:
    """Return how often a tree has each label at each span."""
    found: Counter[tuple[str, int, int]] = Counter()
    word = 0
    stack: list[Any] = [tree]
    while stack:
        node = stack.pop()
        if isinstance(node, tuple):
            label, first = node
            begin, end = int(places[first]), int(places[word])
            if begin < end and label is not None and label not in ignore:
                found[label, begin, end] += 1
        elif not isinstance(node, Tree) or _is_preterminal(node):
            word += 1
        else:
            stack.append((node.label, word))
            stack += reversed(node.children)
    return found


def _is_preterminal(node: Tree) -> bool:
    return len(node.children) == 1 and not isinstance(node.children[0], Tree)
