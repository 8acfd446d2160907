"""Fits of tables of categories: rows encoded, some of them held out, and the fit or search that reads them."""

from __future__ import annotations

from functools import cache, partial
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from eigentree.counting.pair_counts import PairCounts
from eigentree.data.tables.rows import Rows
from eigentree.em.estep.unique_rows import DistinctRows, columns_with_missing
from eigentree.em.holdout import Fold, check_split, folds_of, held_out
from eigentree.em.init.trees import FEW_PSEUDO_COUNTS
from eigentree.em.parameters import ParameterLayout
from eigentree.em.size_search import SizeProblem
from eigentree.em.smoothing import PSEUDO_COUNTS
from eigentree.em.tree_fit import TreeFit
from eigentree.em.tree_objective import TreeObjective
from eigentree.estimators.mixins.latent_mixin import encoded

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import ArrayLike

    from eigentree.arrays import Floats
    from eigentree.data.tables.columns import Columns
    from eigentree.em.constraints import Constraints
    from eigentree.em.optimize.stopping import Stopping
    from eigentree.em.tree_fit import Finish
    from eigentree.graphs.graph import LatentGraph
    from eigentree.graphs.learned_templates import HiddenChowLiu
    from eigentree.inference.networks.network import LatentNetwork

__all__ = ["EMSettings", "arranged", "size_problem", "tree_fit"]


class EMSettings(NamedTuple):
    """How an estimator runs EM; `stopping` makes the rule of so many rows, their weight and parameters."""

    stopping: Callable[[int, float, int], Stopping]
    max_iter: int
    pseudo_counts: float | Literal["auto"]
    validation_fraction: float
    n_init: int
    accelerate: bool
    threads: int
    constraints: Constraints

    @property
    def first_pseudo_counts(self) -> float:
        """The pseudo-counts that runs begin with, until they are chosen."""
        return PSEUDO_COUNTS[0] if isinstance(self.pseudo_counts, str) else float(self.pseudo_counts)

    @property
    def search_pseudo_counts(self) -> float:
        """The pseudo-counts of a search over sizes."""
        return FEW_PSEUDO_COUNTS if isinstance(self.pseudo_counts, str) else float(self.pseudo_counts)


def tree_fit(
    settings: EMSettings,
    graph: LatentGraph,
    columns: Columns,
    X: Rows,
    sample_weight: ArrayLike | None,
    validation: ArrayLike | Any | None,
    random: np.random.Generator,
    finish: Finish | None,
) -> TreeFit:
    """Return the fit of rows, with those that are held out."""
    codes, states, weights = encoded(X, columns, sample_weight)
    held: DistinctRows | None = None
    if validation is not None:
        held = DistinctRows.of(*encoded(validation, columns, None))
    elif share := settings.validation_fraction:
        held_weights = held_out(weights, share, random)
        weights = weights - held_weights
        check_split(float(weights.sum()), float(held_weights.sum()), share, len(codes))
        held = DistinctRows.of(codes, states, held_weights)
    rows = DistinctRows.of(codes, states, weights)
    incomplete = columns_with_missing(rows.codes, graph) | (finish.rows.with_missing() if finish else frozenset())
    checked: TreeObjective | None = None
    if held is not None:
        incomplete |= columns_with_missing(held.codes, graph)
        checked = TreeObjective.of(graph, held, incomplete, 0.0, settings.threads)
    parameters = ParameterLayout.of(graph).learned_count
    stopping = settings.stopping(len(rows.weights), float(rows.weights.sum()), parameters)
    how = (settings.first_pseudo_counts, stopping, settings.max_iter, settings.accelerate, settings.threads)
    return TreeFit(graph, rows, incomplete, *how, checked, settings.constraints.layout(graph, columns))


def arranged(fit: TreeFit, parameters: Floats, in_order: Callable[[LatentNetwork], LatentNetwork]) -> LatentNetwork:
    """Return the network of some parameters, hidden states in order unless constraints need another."""
    layout = fit.whole.layout
    network = layout.network(parameters)
    ordered = in_order(network)
    if fit.constrained and not np.allclose(vector := layout.vector(ordered), layout.projected(vector)):
        return network
    return ordered


def size_problem(
    settings: EMSettings,
    template: HiddenChowLiu,
    rows: Rows,
    columns: Columns,
    sample_weight: ArrayLike | None,
    validation: ArrayLike | Any | None,
    random: np.random.Generator,
    every: PairCounts | None,
) -> SizeProblem:
    """Return what sizes are tried on: the tree of training rows, or of the pairs of all rows, and the folds."""
    known = DistinctRows.of(*encoded(rows, columns, sample_weight)).by_name(columns.names)
    hidden_states, trees = (
        None if isinstance(size, str) else size for size in (template.hidden_states, template.trees)
    )
    if validation is not None:
        folds: tuple[Fold, ...] = (Fold(known, DistinctRows.of(*encoded(validation, columns, None))),)
    else:
        chosen = settings.validation_fraction or trees is not None
        folds = folds_of(known, settings.validation_fraction, random, one=bool(chosen))
    # Held-out rows are not learned from, unless all are held out in turn.
    pairs = _pairs(columns, known if len(folds) > 1 else folds[0].rows)
    if every is not None:
        pairs = every if validation is not None else every - _pairs(columns, folds[0].validation)
    tree = cache(partial(template.candidate, pairs))
    return SizeProblem(
        tree,
        folds,
        frozenset().union(*(columns_with_missing(part.codes, tree(1)) for fold in folds for part in fold)),
        pseudo_counts=settings.search_pseudo_counts,
        whole=known if validation is None and len(folds) == 1 else None,
        threads=settings.threads,
        hidden_states=hidden_states,
        trees=trees,
        most_states=template.most_states,
        fits=settings.n_init,
    )


def _pairs(columns: Columns, rows: DistinctRows) -> PairCounts:
    return PairCounts.empty(columns).count(Rows.of_codes(rows.codes, columns), rows.weights)
