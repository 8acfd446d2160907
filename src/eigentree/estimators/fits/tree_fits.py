"""Fits of tables of categories: rows encoded, some of them held out, and the fit or search that reads them."""

from __future__ import annotations

from functools import cache, partial
from numbers import Integral
from typing import TYPE_CHECKING, Any

import numpy as np

from eigentree.counting.pair_counts import PairCounts
from eigentree.data.streams.encoded_stream import Encoded
from eigentree.data.tables.rows import Rows
from eigentree.em.estep.unique_rows import DistinctRows, columns_with_missing
from eigentree.em.holdout import Fold, check_split, folds_of, held_out
from eigentree.em.parameters import ParameterLayout
from eigentree.em.size_search import SizeProblem
from eigentree.em.tree_fit import TreeFit
from eigentree.em.tree_objective import TreeObjective
from eigentree.estimators.fits.memory_sample import parted_rows, sampled_places, some_of, tried_places
from eigentree.estimators.mixins.latent_mixin import encoded

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import ArrayLike

    from eigentree.arrays import Floats, Integers
    from eigentree.data.tables.columns import Columns
    from eigentree.em.out_of_core.parted_rows import PartedRows
    from eigentree.em.tree_fit import Finish
    from eigentree.estimators.fits.memory_sample import EMSettings
    from eigentree.graphs.graph import LatentGraph
    from eigentree.graphs.learned_templates import HiddenChowLiu
    from eigentree.inference.networks.network import LatentNetwork

__all__ = ["arranged", "size_problem", "tree_fit"]


def tree_fit(
    settings: EMSettings,
    graph: LatentGraph,
    columns: Columns,
    X: Rows | Encoded,
    sample_weight: ArrayLike | None,
    validation: ArrayLike | Any | None,
    random: np.random.Generator,
) -> tuple[TreeFit, Finish | None, int]:
    """Return the fit of rows, with those that are held out, where it ends, and how many rows it is of."""
    finish: Finish | None = None
    parameters = ParameterLayout.of(graph).learned_count
    if isinstance(X, Encoded):
        parted = parted_rows(X)
        few = None if settings.validation_fraction or isinstance(settings.finish_rows, Integral) else parted.few()
        if few is None:
            places, finish = sampled_places(parted, settings, parameters, len(columns.names), random)
            X, sample_weight, count = _taken(parted, columns, places)
        else:
            X, sample_weight, count = Rows.of_codes(few.codes, columns), few.weights, parted.count
    else:
        X, sample_weight = some_of(X, sample_weight, settings.finish_rows, random)
        count = X.count
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
    stopping = settings.stopping(len(rows.weights), float(rows.weights.sum()), parameters)
    how = (settings.first_pseudo_counts, stopping, settings.max_iter, settings.accelerate, settings.threads)
    constrained = settings.constraints.layout(graph, columns)
    return TreeFit(graph, rows, incomplete, *how, checked, constrained), finish, count


def _taken(parted: PartedRows, columns: Columns, places: Integers) -> tuple[Rows, Floats, int]:
    """Return some rows in memory, their weights, and how many they are."""
    codes, weights = parted.taken(places)
    return Rows.of_codes(codes, columns), weights, len(places)


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
    columns: Columns,
    X: Rows | Encoded,
    sample_weight: ArrayLike | None,
    validation: ArrayLike | Any | None,
    random: np.random.Generator,
) -> tuple[SizeProblem, int]:
    """Return what sizes are tried on, and the number of rows: the tree of training or all rows, and the folds."""
    every: PairCounts | None = None
    if isinstance(X, Encoded):
        parted = parted_rows(X)
        few = None if isinstance(settings.finish_rows, Integral) else parted.few()
        if few is None:
            about = ("sizes are", ", and the tree is that of all")
            places = tried_places(parted, settings, len(columns.names), random, *about)
            rows, sample_weight, count = _taken(parted, columns, places)
            every = parted.pairs(columns) if count < parted.count else None
        else:
            rows, sample_weight, count = Rows.of_codes(few.codes, columns), few.weights, parted.count
    else:
        rows, count = X, X.count
    known = DistinctRows.of(*encoded(rows, columns, sample_weight)).by_name(columns.names)
    hidden_states, trees = (
        None if isinstance(size, str) else size for size in (template.hidden_states, template.trees)
    )
    if validation is not None:
        folds: tuple[Fold[DistinctRows], ...] = (Fold(known, DistinctRows.of(*encoded(validation, columns, None))),)
    else:
        chosen = settings.validation_fraction or trees is not None
        folds = folds_of(known, settings.validation_fraction, random, one=bool(chosen))
    # Held-out rows are not learned from, unless all are held out in turn.
    pairs = _pairs(columns, known if len(folds) > 1 else folds[0].rows)
    if every is not None:
        pairs = every if validation is not None else every - _pairs(columns, folds[0].validation)
    tree = cache(partial(template.candidate, pairs))
    problem = SizeProblem(
        tree=tree,
        folds=folds,
        missing=frozenset().union(*(columns_with_missing(part.codes, tree(1)) for fold in folds for part in fold)),
        pseudo_counts=settings.search_pseudo_counts,
        whole=known if validation is None and len(folds) == 1 else None,
        threads=settings.threads,
        hidden_states=hidden_states,
        trees=trees,
        most_states=template.most_states,
        # Where the number of trees is given, it is that of one fit.
        fits=settings.n_init if trees is None else 1,
    )
    return problem, count


def _pairs(columns: Columns, rows: DistinctRows) -> PairCounts:
    return PairCounts.empty(columns).count(Rows.of_codes(rows.codes, columns), rows.weights)
