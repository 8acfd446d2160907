"""`learn_structure`: a tree from rows, or from what was counted of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, get_args

from eigentree.counting.pair_counts import PairCounts
from eigentree.errors import DataError, GraphError, ParameterError
from eigentree.graphs.learned_templates import HiddenChowLiu, Method
from eigentree.graphs.structure_learning import chow_liu
from eigentree.messages import renamed_arguments
from eigentree.validation import one_of, our_arithmetic, whole_number

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from eigentree.data.tables.state_rules import Categories, NumericRule, UnknownRule
    from eigentree.graphs.graph import LatentGraph

__all__ = ["learn_structure"]


@our_arithmetic
@renamed_arguments(unknown="handle_unknown")
def learn_structure(
    X: ArrayLike | PairCounts | Any,
    method: Method = "chow-liu",
    hidden_states: int | None = 8,
    sample_weight: ArrayLike | str | None = None,
    *,
    categories: Categories | None = None,
    handle_unknown: UnknownRule = "error",
    numeric: NumericRule = "error",
) -> LatentGraph:
    """Return a tree of hidden variables above the columns of some data, learned from them.

    The order of rows and of columns plays no part; ties are broken by names.

    Parameters
    ----------
    X : array-like of shape (rows, columns), a data frame, rows of letters, a stream, or PairCounts
        Labels or codes; None, NaN, null or -1 for a missing cell. Each pair of columns is judged by the rows that
        have both. `PairCounts` stand for rows, wherever these are.
    method : {"chow-liu", "neighbour-joining"}
        "chow-liu": the tree of columns with the most mutual information, and a hidden variable above each column
        that is no end of it, linked as the columns are. "neighbour-joining": the tree of hidden variables along
        which distances between columns add up, found within neighbourhoods of such a tree (CLNJ, Choi et al.
        2011). Enough rows that were sampled from a tree of hidden variables give that tree back.
    hidden_states : int or None
        Of each hidden variable. None: the Chow-Liu tree of the columns themselves, without hidden variables.
    sample_weight : array-like of shape (rows,), or the name of a column of a stream, optional
        How often each row counts; may be fractional.
    categories, handle_unknown, numeric
        How rows are read, as those of an estimator.

    Raises
    ------
    DataError
        When there are no rows, or the counts of all pairs of columns would not fit into memory.

    Examples
    --------
    >>> import eigentree as et
    >>> truth = et.LatentNetwork.random(et.zoo.latent_tree(depth=2, observed_states=3), concentration=0.1, seed=0)
    >>> graph = learn_structure(truth.sample(5_000, seed=1), "neighbour-joining", hidden_states=2)
    >>> graph.edges
    (('h_x0', 'h_x2'), ('h_x0', 'x0'), ('h_x0', 'x1'), ('h_x2', 'x2'), ('h_x2', 'x3'))
    """
    one_of("method", method, get_args(Method))
    if hidden_states is None and method != "chow-liu":
        raise ParameterError(f"method={method!r} finds hidden variables, so it needs a number of hidden_states")
    if isinstance(hidden_states, str) and hidden_states == "auto":
        raise GraphError(
            "hidden_states is a whole number, or None, not 'auto': EMJunctionTree('auto') chooses it "
            "on held-out rows; its graph_ is what was learned"
        )
    template = (
        None
        if hidden_states is None
        else HiddenChowLiu(whole_number("hidden_states", hidden_states, error=GraphError), method)
    )
    if isinstance(X, PairCounts):
        if sample_weight is not None:
            raise DataError("rows that were counted already have their weights; leave sample_weight out")
        pairs = X
    else:
        reading: dict[str, Any] = {"categories": categories, "handle_unknown": handle_unknown, "numeric": numeric}
        pairs = PairCounts.of(X, sample_weight, **reading)
    if not pairs.rows > 0:
        raise DataError("no rows were counted, or the weight of all is zero; there is nothing to learn from")
    if template is None:
        return chow_liu(pairs.names, pairs.states, pairs.information)
    return template.learned(pairs)
