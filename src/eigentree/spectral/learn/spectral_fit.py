"""What was learned from one set of tables, with the shrinkage still open."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from eigentree.core.trees.categorical_sampling import choose
from eigentree.counting.levels.hats import LEVELS, level_distribution
from eigentree.data.tables.columns import Columns
from eigentree.inference.operators.normalised_scoring import ChainRule, ChainRuleNode, floor_of
from eigentree.inference.operators.operator_layout import NodeOperator
from eigentree.inference.operators.tree_operators import TreeOperators
from eigentree.inference.queries import Model
from eigentree.inference.tensors.named_tables import table_axes
from eigentree.spectral.learn.moments import CountedTables, joint_of
from eigentree.validation import our_arithmetic

if TYPE_CHECKING:
    from collections.abc import Sequence

    from eigentree.arrays import Booleans, Codes, Floats, Integers
    from eigentree.counting.counts import Counts, MomentSource
    from eigentree.graphs.graph import LatentGraph
    from eigentree.inference.operators.normalised_scoring import ChainRuleScores, Floor
    from eigentree.planning.hub_plan import Hub
    from eigentree.planning.view_plan import ViewPlan

__all__ = [
    "LearnedEdge",
    "SpectralFit",
    "SpectralModel",
    "counted_marginals",
    "exact_marginals",
    "graph_parameters",
    "operator_parameters",
    "pseudo_rows",
    "with_levels",
]


@dataclass(frozen=True, eq=False)
class LearnedEdge:
    """The bond of one edge.

    Attributes
    ----------
    projection : array, shape (features of the inside view, rank)
        U_i: the bond's features in terms of products of features of the inside view's columns; at a leaf, and
        without scaling, in terms of joint states. Bonds within and between hubs have the hub's basis instead, and
        this is of the fit with hubs apart.
    solves : tuple of array, shape (features of the outside view, rank)
        For each outside view, its part of the (pseudo-)inverse, before shrinkage.
    singular_values : array, shape (at most rank + 1,)
        Those of the scaled (or plain) pair moment, largest first, with the one after the rank if there is one.
    damping : array, shape (rank,)
        What the shrinkage adds to each squared singular value, per unit of kappa: the number of features on both
        sides over the rows, about what noise adds. 0 for the direction that is kept.
    noise : float
        About the largest singular value that noise alone would have with this many rows; up to half as much again
        where the columns' features are noise themselves.
    """

    projection: Floats
    solves: tuple[Floats, ...]
    singular_values: Floats
    damping: Floats
    noise: float

    @classmethod
    def of(
        cls,
        projection: Floats,
        solves: Sequence[Floats],
        sizes: Floats,
        rank: int,
        rows: float,
        variance: float | None,
    ) -> LearnedEdge:
        """Return a bond as an edge, given the variance of the product of a feature on either side.

        None stands for joint states as features: cells are about 1 / (their number), and so is the variance of
        their counts times the rows.
        """
        inside, outside = projection.shape[0], sum(len(solve) for solve in solves)
        # Constants among the features have no variance.
        free = inside + outside if variance is None else inside - 1 + outside - len(solves)
        variance = len(solves) / (inside * outside) if variance is None else variance
        damping = np.full(rank, variance * free / rows)
        damping[0] = 0.0
        noise = math.sqrt(variance / rows) * (math.sqrt(inside) + math.sqrt(outside))
        return cls(projection[:, :rank], tuple(s[:, :rank] for s in solves), sizes[: rank + 1], damping, noise)

    def factors(self, shrinkage: float) -> Floats:
        """Return the factor of each direction of the bond: 1 unshrunk, 0 gone."""
        return _factors(self.squares, self.damping, shrinkage)

    def spectrum(self) -> LearnedEdge:
        """Return the edge without what operators are learned through, which queries do not need."""
        return replace(self, projection=np.zeros((0, len(self.damping))), solves=())

    @property
    def squares(self) -> Floats:
        """Squared singular values of the directions of the bond, 0 where there is no more signal."""
        squares = np.zeros(len(self.damping))
        known = self.singular_values[: len(squares)]
        squares[: len(known)] = known**2
        return squares


def _factors(squares: Floats, damping: Floats, shrinkage: float) -> Floats:
    """Return the factors of directions with these squared singular values at some shrinkage."""
    shrunk = damping > 0
    added = np.zeros(len(damping))
    added[shrunk] = damping[shrunk] * shrinkage
    return np.divide(squares, squares + added, out=np.ones(len(squares)) * ~shrunk, where=squares > 0)


@dataclass(frozen=True, eq=False)
class SpectralFit:
    """All that was learned from one set of tables; the shrinkage is still open.

    Attributes
    ----------
    plan : ViewPlan
    edges : tuple of LearnedEdge or None
        None at the root.
    cores : tuple of array
        One tensor per node, unshrunk: leaves (states, bond), inner nodes (children…, bond), the root
        (children…, 1).
    sums_to_one : bool
        Whether the operators are normalised at any shrinkage by themselves, as those are that were learned with
        variance scaling. Others are divided by their sum.
    together : bool
        Whether the plan has hubs, which were learned together.
    apart : SpectralFit or None
        Where they were, until one of both ways is chosen: the same with all nodes learned by their own views.
    hats : tuple of int
        How many hat functions each column of numbers was learned from, 0 of other columns; () where there are no
        numbers. The leaves of numbers are tables over their levels.
    """

    plan: ViewPlan
    edges: tuple[LearnedEdge | None, ...]
    cores: tuple[Floats, ...]
    sums_to_one: bool
    together: bool = False
    apart: SpectralFit | None = None
    hats: tuple[int, ...] = ()

    def for_queries(self) -> SpectralFit:
        """Return what queries need of the fit: not what operators were learned through, nor nodes learned apart."""
        return replace(self, edges=tuple(edge and edge.spectrum() for edge in self.edges), apart=None)

    @property
    def states(self) -> tuple[int, ...]:
        """How many states each column has in the operators: those of the graph, and of numbers their levels."""
        return with_levels(Columns.of(self.plan.graph).states, self.hats)

    def operators(self, shrinkage: float) -> TreeOperators:
        """Return the operators at some shrinkage toward independence."""
        graph, values = self.plan.graph, self.values(shrinkage)
        nodes = []
        start = 0
        for node, core in zip(self.plan.nodes, self.cores, strict=True):
            leaf = node.observed is not None
            size = core.size + (node.rank if leaf else 0)
            array = values[start : start + size]
            array = array.reshape(node.rank, -1).T[:-1] if leaf else array.reshape(core.shape)
            columns = (graph.column(node.observed),) if node.observed is not None else ()
            nodes.append(NodeOperator.from_dense(array, columns, node.children))
            start += size
        return TreeOperators(tuple(nodes), self.states)

    @property
    def chain_rule(self) -> ChainRule:
        """What scores rows with the operators, normalised."""
        return self.plan.derived(_chain_rule, self.states)

    def values(self, shrinkage: float) -> Floats:
        """Return the values of all operators at some shrinkage, as normalised scoring takes them."""
        values, places, squares, damping = self._unshrunk
        values = values * _factors(squares, damping, shrinkage)[places]
        total = 1.0 if self.sums_to_one else self.chain_rule.total(values)
        values[: self.cores[0].size] /= total if total > 0 else 1.0
        return values

    @cached_property
    def _unshrunk(self) -> tuple[Floats, Integers, Floats, Floats]:
        """The values of all operators without shrinkage, the place of each on the bonds, and what shrinks those."""
        values, places = [], []
        start = 0
        for node, core in zip(self.plan.nodes, self.cores, strict=True):
            bond = np.arange(start, start + node.rank)
            if node.observed is None:
                values.append(core.ravel())
                places.append(np.tile(bond, core.size // node.rank))
            else:
                # A leaf's last value is the sum over its states, for a missing cell.
                values.append(np.vstack([core, core.sum(axis=0)]).T.ravel())
                places.append(np.repeat(bond, len(core) + 1))
            start += node.rank
        bonds = [(np.ones(1), np.zeros(1)) if edge is None else (edge.squares, edge.damping) for edge in self.edges]
        squares, damping = map(np.concatenate, zip(*bonds, strict=True))
        return np.concatenate(values), np.concatenate(places), squares, damping


def _chain_rule(plan: ViewPlan, states: tuple[int, ...]) -> ChainRule:
    """Return the order of normalised scoring through the nodes of a plan."""
    graph = plan.graph
    columns = [graph.column(node.observed) if node.observed is not None else -1 for node in plan.nodes]
    nodes = [ChainRuleNode(n.parent, n.children, n.rank, c) for n, c in zip(plan.nodes, columns, strict=True)]
    return ChainRule.of(nodes, states)


def with_levels(states: tuple[int, ...], hats: Sequence[int]) -> tuple[int, ...]:
    """Return the states of columns, those with hat functions with their levels in place of these."""
    every = zip(states, hats or (0,) * len(states), strict=True)
    return tuple(LEVELS if own else count for count, own in every)


def graph_parameters(graph: LatentGraph) -> int:
    """Return the number of free entries of the tables of a graph.

    Examples
    --------
    >>> from eigentree.graphs.zoo import mixture
    >>> graph_parameters(mixture(12, 3, 3))
    74
    """
    count = 0
    for names, axes in table_axes(graph).items():
        own = math.prod(graph.states[name] for name in names)
        count += math.prod(graph.states[name] for name in axes) // own * (own - 1)
    return count


def operator_parameters(plan: ViewPlan, together: bool) -> int:
    """Return the number of free entries of the operators of a plan, its hubs learned together or apart.

    Operators are known up to a change of basis of each bond, which is not counted, and are normalised. The error of
    a spectral model is about the root of their number over the graph's, times that of maximum likelihood.
    """
    hubs = plan.hubs if together else ()
    home = {position: h for h, hub in enumerate(hubs) for position in hub.nodes}
    count = sum(_of_hub(plan, hub) for hub in hubs) - 1
    for position, node in enumerate(plan.nodes):
        if position not in home:
            own = [plan.graph.states[node.observed]] if node.observed is not None else []
            count += math.prod([*own, *(plan.nodes[child].rank for child in node.children), node.rank])
        if node.parent >= 0 and (position not in home or home.get(node.parent) != home[position]):
            count -= node.rank**2
    return count


def _of_hub(plan: ViewPlan, hub: Hub) -> int:
    """Return how many entries a hub has: the loadings of its branches, and the multiplication.

    A symmetric multiplication that need not be that of states has more entries than the states' probabilities, up
    to a rotation of its basis.
    """
    states = hub.states
    loadings = sum(plan.nodes[branch.position].rank * states for branch in hub.branches)
    multiplication = math.comb(states + 1, 3) - math.comb(states - 1, 2)
    return loadings - states * (len(hub.branches) - 1) + multiplication - (states - 1)


def pseudo_rows(graph: LatentGraph, hats: Sequence[int] = ()) -> float:
    """Return how many uniform pseudo-rows go with any shrinkage: half the mean number of states of a column.

    A column of numbers counts as one of two states: its hats are about equally frequent, so none is ever unseen.

    So infinite shrinkage, with variance scaling, is the product of the columns' marginals with 1/2 added to each
    count, where all columns have the same number of states, and on average else.
    """
    states = [graph.states[name] for name in graph.observed]
    sizes = [2 if own else count for count, own in zip(states, hats or (0,) * len(states), strict=True)]
    return sum(sizes) / len(sizes) / 2


def counted_marginals(counts: Counts, added: float, hats: Sequence[int] = ()) -> tuple[Floats, ...]:
    """Return the distribution of each column, some pseudo-rows added: it has no zeros if these are any.

    Of columns with hat functions it is that over levels.
    """
    tables, columns = CountedTables(counts, added), range(len(counts.columns.names))
    every = zip((tables.marginal(column) for column in columns), hats or (0,) * len(columns), strict=True)
    return tuple(level_distribution(table, own, tables.share) if own else table for table, own in every)


def exact_marginals(source: MomentSource, graph: LatentGraph) -> tuple[Floats, ...]:
    """Return the distribution of each column as a source knows it."""
    tables = (np.maximum(joint_of(source, [name]), 0.0) for name in graph.observed)
    return tuple(table / table.sum() for table in tables)


@dataclass(frozen=True, eq=False)
class SpectralModel(Model):
    """Learned operators, and the distribution that is made of them cell by cell.

    See `eigentree.inference.operators.normalised_scoring`.

    Scores, samples without evidence, tables and predictions are of this one distribution: `joint` is the score of
    all configurations of some columns, the others missing, and `conditional` and `predict` are ratios of scores.
    Where nothing was clipped the sum of a joint over a column is the joint of the others; where something was, rows
    with other missing cells have a slightly different distribution. Samples given known cells go cell by cell, each
    from its `predict` given those known and those sampled before.

    Attributes
    ----------
    fit : SpectralFit
    shrinkage : float
    floor : float
        The share of its column's own distribution that each cell has at least.
    marginals : tuple of array, shape (states,)
        The distribution of each column by itself.
    """

    fit: SpectralFit
    shrinkage: float
    floor: float
    marginals: tuple[Floats, ...]

    replaced: ClassVar[str] = "have probability zero, and the score -inf; fit with a floor above 0"

    @classmethod
    def of(cls, fit: SpectralFit, shrinkage: float, floor: float, marginals: tuple[Floats, ...]) -> SpectralModel:
        """Return the model of a fit at some shrinkage and floor."""
        return cls(fit.plan.graph, fit.operators(shrinkage), fit.for_queries(), shrinkage, floor, marginals)

    @cached_property
    def _known(self) -> tuple[Floats, Floor]:
        return self.fit.values(self.shrinkage), floor_of(self.floor, self.marginals)

    @our_arithmetic
    def score(self, codes: Codes) -> tuple[Floats, int]:
        """Return the log probability of rows of codes, and how many are impossible, for want of a floor."""
        log_prob = self.scored(codes).log_prob
        return log_prob, int(np.isneginf(log_prob).sum())

    def scored(self, codes: Codes) -> ChainRuleScores:
        """Return the log probability of rows of codes, and what was clipped on the way."""
        return self.fit.chain_rule.log_prob(*self._known, codes)

    def distributions(self, codes: Codes, columns: Sequence[int]) -> list[tuple[Floats, Booleans]]:
        """Return each wanted column's distribution in each row, given its other cells, and where it is lost."""
        found = []
        for column in columns:
            trial = codes.copy(order="F")
            log_table = np.empty((len(codes), self.columns.states[column]))
            for state in range(log_table.shape[1]):
                trial[:, column] = state
                log_table[:, state], _ = self.score(trial)
            peak = log_table.max(axis=1, keepdims=True)
            lost = np.isneginf(peak[:, 0])
            peak[lost] = 0.0
            table = np.exp(log_table - peak)
            table[lost] = self.marginals[column]
            found.append((table / table.sum(axis=1, keepdims=True), lost))
        return found

    def _fill_modes(self, codes: Codes) -> int:
        """Put the most probable state into each missing cell; return for how many that was undefined."""
        missing = codes == np.asarray(self.columns.states)
        known = codes.copy(order="F")
        undefined = 0
        for column in np.flatnonzero(missing.any(axis=0)).tolist():
            # Each state of each missing cell is a score of its own, so only rows that need one are scored.
            lacking = np.flatnonzero(missing[:, column])
            ((table, lost),) = self.distributions(np.asfortranarray(known[lacking]), [column])
            codes[lacking, column] = table.argmax(axis=1)
            undefined += int(lost.sum())
        return undefined

    def _fill_draws(self, codes: Codes, random: np.random.Generator) -> int:
        """Sample each missing cell given those known and sampled before; return for how many that was undefined."""
        if (codes == np.asarray(self.columns.states)).all():
            self.fit.chain_rule.log_prob(*self._known, codes, random)
            return 0
        undefined = 0
        for column in self.fit.chain_rule.order:
            lacking = np.flatnonzero(codes[:, column] == self.columns.states[column])
            if len(lacking):
                ((table, lost),) = self.distributions(np.asfortranarray(codes[lacking]), [column])
                chosen = choose(table.cumsum(axis=1), np.arange(len(lacking)), random.random(len(lacking)))
                codes[lacking, column] = chosen
                undefined += int(lost.sum())
        return undefined
