r"""Operators of one step of a homogeneous chain, from windows pooled over all steps and all sequences.

For a bond of the step write :math:`\phi` for features of cells after it and :math:`\psi` for features of cells
before it. Pooled over steps t of all sequences, stationary or not,

.. math:: A = \sum_t E[\phi_t \psi_t^T] = F \sum_t G_t, \qquad
          B_x = \Big(\sum_t E[1\{x_t = x\}\, U^T\phi_{t+1}\, \psi_t^T]\Big)(U^T A)^+, \qquad b_1 = E[U^T\phi_1],

where :math:`F = E[\phi \mid \text{state}]` is the same at every step. So the probability of a sequence is
:math:`P(x_1 \dots x_L) = e^T B_{x_L} \cdots B_{x_1} b_1`, the constant feature being the end. This is the spectral
learning of hidden Markov models and of weighted automata (Hsu, Kakade and Zhang, 2009; Balle, Quattoni and
Carreras, 2011). What makes it strong on few data is as for tables, in `eigentree.spectral.learn.operator_learning`:
leaves first, centred features, several views stacked, and shrinkage toward independent cells.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from eigentree.core.sequences.operator_steps import StepOperators
from eigentree.core.trees.chain_rule import CLIPPED
from eigentree.counting.joint_table import ColumnFeatures
from eigentree.counting.levels.hats import MOST_HATS, coarse_hats, hat_values, level_distribution, level_tables
from eigentree.inference.threads import one_thread
from eigentree.planning.window_plan import Cell
from eigentree.spectral.learn.bonds import centred_bond, leaf_bond
from eigentree.spectral.learn.moments import CountedTables
from eigentree.spectral.learn.spectral_fit import LearnedEdge

if TYPE_CHECKING:
    from collections.abc import Sequence

    from eigentree.arrays import Floats, Integers
    from eigentree.counting.window_counts import SequenceStatistics
    from eigentree.planning.window_plan import ChannelBlocks, Group, WindowPlan
    from eigentree.spectral.learn.bonds import Bond

__all__ = ["WindowFit", "cell_marginals", "learn_windows", "level_marginals", "pseudo_windows"]

LEAF_VIEWS = 6
"""How many single cells the features of a channel are learned from."""

FEW = 0.25
"""A view that fewer than this share of the windows of another have is left out: it would be mostly noise."""

HATS_CLIPPED = 1.0
"""What `CLIPPED` is for tables over levels: what is clipped goes to the marginal distribution once. Such tables are
below zero beside peaks for want of finer hats, not by noise alone, and more would drown the peaks."""

SLACK = 1e-6
"""By how much a message may lie beyond its bounds, for rounding, as a part of their distance."""


def pseudo_windows(plan: WindowPlan) -> float:
    """Return how many uniform pseudo-windows go with any shrinkage: half the mean number of states of a channel.

    A channel of numbers counts as one of two states: its hats are about equally frequent, so none is ever unseen.
    """
    sizes = [2 if hats else states for hats, states in zip(plan.hats, plan.states, strict=True)]
    return sum(sizes) / len(sizes) / 2


def cell_marginals(statistics: SequenceStatistics, added: float) -> tuple[Floats, ...]:
    """Return the distribution of each block's symbols, or hats, over all steps, some pseudo-cells added."""
    tables = CountedTables(statistics.cells, added)
    return tuple(tables.marginal(channel) for channel in range(len(statistics.plan.states)))


def level_marginals(
    plan: WindowPlan, marginals: Sequence[Floats], hats: int, share: float = 0.0
) -> tuple[Floats, ...]:
    """Return the distributions of all blocks as those over their symbols: numbers over levels in place of hats.

    Of those over levels a share is uniform.
    """
    made = []
    for counted, marginal in zip(plan.hats, marginals, strict=True):
        made.append(level_distribution(marginal, hats, share) if counted else marginal)
    return tuple(made)


@dataclass(frozen=True, eq=False)
class WindowFit:
    """All that was learned from one set of windows; the shrinkage is still open.

    Attributes
    ----------
    plan : WindowPlan
    leaves : tuple of LearnedEdge
        The spectrum of the features of each channel's cells.
    leaf_cores : tuple of array, shape (symbols, features)
        The distribution of a channel's cells in terms of its features' expectations, of numbers over levels.
    edges : tuple of LearnedEdge
        The spectrum of the bond before each channel.
    cores : tuple of array, shape (features of the channel, bond after, bond before)
    start : array, shape (rank of the first bond,)
        The expectation of the first bond's features before the first step.
    start_noise : float
        About what noise adds to the square of the start's length.
    low, high : array, shape (channels, largest rank)
        The least and the largest value of each feature of the bond before a channel.
    hats : int
        How many hats were used of channels of numbers; 0 where there are none.
    """

    plan: WindowPlan
    leaves: tuple[LearnedEdge, ...]
    leaf_cores: tuple[Floats, ...]
    edges: tuple[LearnedEdge, ...]
    cores: tuple[Floats, ...]
    start: Floats
    start_noise: float
    low: Floats
    high: Floats
    hats: int = 0

    def operators(self, shrinkage: float) -> StepOperators:
        """Return the operators of a step at some shrinkage toward independent cells."""
        values, heads = [], []
        for leaf, features, edge, core in zip(self.leaves, self.leaf_cores, self.edges, self.cores, strict=True):
            states = features * leaf.factors(shrinkage)
            shrunk = np.swapaxes(core * edge.factors(shrinkage), -1, -2)
            each = np.tensordot(states, shrunk, axes=1)
            # Features but the constant add up to nothing over states, but for rounding.
            table = np.concatenate([each, shrunk[:1]])
            values.append(table.ravel())
            heads.append(table[:-1, :, 0].T.ravel())
        ranks = [edge.factors(0.0).shape[0] for edge in self.edges]
        sizes, tops = [len(part) for part in values], [len(part) for part in heads]
        return StepOperators(
            np.concatenate(values),
            np.concatenate(heads),
            np.cumsum([0, *sizes[:-1]]),
            np.cumsum([0, *tops[:-1]]),
            np.array([*ranks, ranks[0]], np.int64),
            np.array(self.plan.blocks.symbols, np.int64),
            self._start(shrinkage),
            self.low,
            self.high,
            *_patterns(self.plan.blocks),
            np.array([HATS_CLIPPED if hats else CLIPPED for hats in self.plan.hats]),
        )

    def _start(self, shrinkage: float) -> Floats:
        """Return the first message, shrunk toward that of any step by as much as few first windows need."""
        start = self.start.copy()
        length = float(start[1:] @ start[1:])
        signal = length - min(shrinkage, 1.0) * self.start_noise
        added = shrinkage * self.start_noise if self.start_noise > 0 else 0.0
        start[1:] *= signal / (signal + added) if signal > 0 else 0.0
        return start


def learn_windows(
    statistics: SequenceStatistics,
    added: float,
    marginals: Sequence[Floats],
    scaled: bool = True,
    hats: int = MOST_HATS,
) -> WindowFit:
    """Return the fit of one step to statistics, with some pseudo-windows added to every table.

    `marginals` are the distributions of blocks over all steps; channels of numbers have `hats`. With `scaled`,
    symbols are scaled to equal noise of their counts: a rank that is too low for the data then keeps what is
    surest, however rare; without, what is most frequent.
    """
    if not statistics.windows.rows > 0:
        return _nothing(statistics.plan, marginals, hats)
    # One thread: the matrices are small, and sums keep their order.
    with one_thread():
        learning = _StepLearning(statistics, added, marginals, scaled, hats)
        return learning.fit() if all(learning.outside) else _nothing(statistics.plan, marginals, hats)


class _StepLearning:
    """The steps of learning from one set of windows."""

    def __init__(
        self,
        statistics: SequenceStatistics,
        added: float,
        marginals: Sequence[Floats],
        scaled: bool,
        hats: int,
    ) -> None:
        self.scaled = scaled
        self.plan = statistics.plan
        self.hats = hats
        self.windows = CountedTables(statistics.windows, added)
        self.firsts = CountedTables(statistics.firsts, added)
        self.rows = float(statistics.windows.rows)
        self.marginals = marginals
        self.place = {cell: k for k, cell in enumerate(self.plan.cells)}
        self.first_place = {cell: k for k, cell in enumerate(self.plan.first_cells)}
        self.outside = [self._outside(channel) for channel in range(len(self.plan.states))]

    def fit(self) -> WindowFit:
        """Return what was learned."""
        plan = self.plan
        leaves = [self._leaf(channel) for channel in range(len(plan.states))]
        features = [leaf.projection for leaf, _ in leaves]
        self.channel_features = features
        self.squares = [self._mean_squares(channel) for channel in range(len(features))]
        self.features = ColumnFeatures.stack([features[cell.channel] for cell in plan.cells])
        self.own_features = self.features
        if plan.pairs:
            # What pairs show of hidden states is known from few features, and all pairs have operators.
            leaves = [_every_symbol(marginal) for marginal in self.marginals]
            own = [
                leaves[cell.channel][0].projection if cell.lag == 0 else features[cell.channel]
                for cell in plan.cells
            ]
            self.own_features = ColumnFeatures.stack(own)
        bonds = [self._bond(channel) for channel in range(len(plan.states))]
        edges = [
            self._edge(
                bond, plan.bonds[c].rank, self._variance(plan.bonds[c].inside) * self._variance(self.outside[c])
            )
            for c, bond in enumerate(bonds)
        ]
        cores = [self._core(c, edges[c], edges[(c + 1) % len(edges)]) for c in range(len(edges))]
        start, noise = self._start(edges[0])
        low, high = self._bounds(edges)
        return WindowFit(
            plan,
            tuple(leaf.spectrum() for leaf, _ in leaves),
            tuple(core for _, core in leaves),
            tuple(edge.spectrum() for edge in edges),
            tuple(cores),
            start,
            noise,
            low,
            high,
            self.hats if any(plan.hats) else 0,
        )

    def _mean_squares(self, channel: int) -> Floats:
        """Return the mean square of each feature of a channel."""
        features, marginal = self.channel_features[channel], self.marginals[channel]
        if self.plan.hats[channel]:
            # Of cells, which lie between knots.
            features, marginal = hat_values(MOST_HATS) @ features, level_tables(MOST_HATS) @ marginal
        return np.asarray(marginal @ features**2)

    def _outside(self, channel: int) -> tuple[Group, ...]:
        """Return the groups before a channel that enough windows have; short sequences lack the furthest."""
        own = (Cell(0, channel),)
        seen = []
        for before in self.plan.bonds[channel].outside:
            groups = [(*own, *after, *before) for after in self.plan.following(channel)]
            groups += [(*after, *before) for after in self.plan.bonds[channel].inside]
            counts = self.windows.counts
            seen.append(min(counts.find([self.place[cell] for cell in group]).total for group in groups))
        least = max(FEW * max(seen), 0.0)
        return tuple(
            group
            for group, total in zip(self.plan.bonds[channel].outside, seen, strict=True)
            if total > 0 and total >= least
        )

    def _leaf(self, channel: int) -> tuple[LearnedEdge, Floats]:
        """Return the features of a channel, and its cells' distribution in terms of them."""
        own = self.place[Cell(0, channel)]
        near = [(own, self.place[cell]) for cell in self.plan.neighbours(channel)]
        others = [pair[1] for pair in near if self.windows.counts.find(pair).total > 0][:LEAF_VIEWS]
        size, maps = self.plan.states[channel], self._coarser(channel)
        pairs = [self.windows.stacked([(own, other)]).reshape(size, -1) for other in others]
        if maps is not None:
            pairs = [maps @ pair for pair in pairs]
        pairs = [self._coarser_view(pair, other)[None, None] for pair, other in zip(pairs, others, strict=True)]
        rank = self.plan.leaf_ranks[channel]
        if self.plan.pairs:
            # The states before and after a pair.
            rank = min(rank, 2 * self.plan.bonds[channel].rank)
        bond = leaf_bond(pairs, rank, np.array([[[self.rows]]]) if self.scaled else None)
        tables = [pair.sum(axis=axis)[0, 0] for pair in pairs for axis in (-1, -2)]
        variance = np.mean([np.mean(table * (1 - table)) for table in tables])
        edge = self._edge(bond, rank, 1.0 if self.scaled else float(variance) ** 2)
        core = np.asarray(sum(pair @ solve for pair, solve in zip(pairs, bond.solves, strict=True)))[0, 0]
        # Centred on all cells, not on those of the windows: both are what some state emits, so nothing is lost.
        marginal = self.marginals[channel] if maps is None else maps @ self.marginals[channel]
        projection = edge.projection.copy()
        projection[:, 1:] -= marginal @ projection[:, 1:]
        core[:, 0] = marginal
        if maps is not None:
            # In terms of the finest hats, which are counted; and the table of levels that has these moments.
            projection, core = maps.T @ projection, level_tables(self.hats) @ core
        return LearnedEdge(projection, edge.solves, edge.singular_values, edge.damping, edge.noise), core

    def _coarser(self, channel: int) -> Floats | None:
        """Return the hats of a channel of numbers in terms of those that are counted; None for other channels."""
        return coarse_hats(self.hats) if self.plan.hats[channel] else None

    def _coarser_view(self, pair: Floats, column: int) -> Floats:
        """Return the joint table of a channel's cell and another cell, that one's hats made coarser."""
        maps = self._coarser(self.plan.cells[column].channel)
        return pair if maps is None else pair @ maps.T

    def _variance(self, groups: Sequence[Group]) -> float:
        """Return the mean square of the features of some groups, the constant aside; about 1 where scaled."""
        squares = [_products([self.squares[cell.channel][None] for cell in group])[0, 1:] for group in groups]
        every = np.concatenate(squares)
        return float(every.mean()) if len(every) else 1.0

    def _edge(self, bond: Bond, rank: int, variance: float) -> LearnedEdge:
        """Return a bond as an edge, given the variance of the product of a feature on either side."""
        parts = bond.projection[0, 0], [solve[0, 0] for solve in bond.solves], bond.sizes[0, 0]
        return LearnedEdge.of(*parts, rank, self.rows, variance)

    def _bond(self, channel: int) -> Bond:
        """Return the bond before a channel, from the views on either side of it."""
        own = self.plan.bonds[channel]
        pairs = []
        for before in self.outside[channel]:
            blocks = [self._moment((after, before)) for after in own.inside]
            pairs.append(np.concatenate([blocks[0][:1], *(block[1:] for block in blocks)])[None, None])
        return centred_bond(pairs, own.rank)

    def _core(self, channel: int, edge: LearnedEdge, following: LearnedEdge) -> Floats:
        """Return the operator of a channel in terms of features: of its cell, the bond after, the bond before."""
        own = (Cell(0, channel),)
        blocks = []
        for after in self.plan.following(channel):
            pairs = zip(self.outside[channel], edge.solves, strict=True)
            blocks.append(
                sum(
                    (self._moment((own, after, before), self.own_features) @ solve for before, solve in pairs),
                    np.zeros(()),
                )
            )
        stack = np.concatenate([blocks[0][:, :1], *(block[:, 1:] for block in blocks)], axis=1)
        core = np.einsum("lfp,fn->lnp", stack, following.projection)
        # So it is but for rounding, which would add up along a sequence.
        core[0, 0] = np.eye(1, core.shape[2])[0]
        return np.asarray(core)

    def _moment(self, parts: Sequence[Group], features: ColumnFeatures | None = None) -> Floats:
        """Return E[product of features] of some groups together, one axis per group."""
        features = features or self.features
        columns = tuple(self.place[cell] for part in parts for cell in part)
        sizes = [math.prod(int(features.widths[self.place[cell]]) for cell in part) for part in parts]
        return np.asarray(self.windows.moments([columns], features)[0].reshape(sizes))

    def _start(self, edge: LearnedEdge) -> tuple[Floats, float]:
        """Return the first message, and about what noise adds to the square of its length."""
        features = ColumnFeatures.stack([self.channel_features[cell.channel] for cell in self.plan.first_cells])
        means = []
        for group in self.plan.bonds[0].inside:
            columns = tuple(self.first_place[cell] for cell in group)
            means.append(self.firsts.moments([columns], features)[0].ravel())
        mean = np.concatenate([means[0][:1], *(part[1:] for part in means)])
        start = edge.projection.T @ mean
        start[0] = 1.0
        # Directions are of length 1, so each varies about as much as a feature does.
        spread = self._variance(self.plan.bonds[0].inside)
        return start, spread * (len(start) - 1) / self.firsts.rows

    def _bounds(self, edges: Sequence[LearnedEdge]) -> tuple[Floats, Floats]:
        """Return the least and the largest value of the features of each bond, over all that its cells can be."""
        shape = len(edges), max(edge.projection.shape[1] for edge in edges)
        low, high = np.zeros(shape), np.zeros(shape)
        for c, edge in enumerate(edges):
            rank = edge.projection.shape[1]
            least = most = edge.projection[0]
            at = 1
            for group in self.plan.bonds[c].inside:
                every = _products([self.channel_features[cell.channel] for cell in group])[:, 1:]
                values = every @ edge.projection[at : at + every.shape[1]]
                least, most = least + values.min(axis=0), most + values.max(axis=0)
                at += every.shape[1]
            slack = SLACK * (most - least)
            low[c, :rank], high[c, :rank] = least - slack, most + slack
        return low, high


def _every_symbol(marginal: Floats) -> tuple[LearnedEdge, Floats]:
    """Return indicators of all symbols but the last as features, centred, and the symbols in terms of them."""
    size = len(marginal)
    projection, core = np.eye(size), np.eye(size)
    projection = np.column_stack([np.ones(size), projection[:, :-1] - marginal[:-1]])
    core = np.column_stack([marginal, core[:, :-1] - core[:, -1:]])
    return LearnedEdge(projection, (), np.ones(size), np.zeros(size), 0.0), core


def _products(matrices: Sequence[Floats]) -> Floats:
    """Return the products of features of several cells, one row for each of their joint states."""
    found: Floats = np.ones((1, 1))
    for matrix in matrices:
        found = np.asarray(np.kron(found, matrix), np.float64)
    return found


def _nothing(plan: WindowPlan, marginals: Sequence[Floats], hats: int) -> WindowFit:
    """Return the fit when there are no windows: cells are independent."""

    def edge(rank: int) -> LearnedEdge:
        return LearnedEdge(np.zeros((0, rank)), (), np.eye(1, rank)[0], 1.0 - np.eye(1, rank)[0], math.inf)

    ranks = [bond.rank for bond in plan.bonds]
    cores = []
    for channel, rank in enumerate(ranks):
        cores.append(np.zeros((plan.leaf_ranks[channel], ranks[(channel + 1) % len(ranks)], rank)))
        cores[-1][0, 0, 0] = 1.0
    nowhere = np.zeros((len(ranks), max(ranks)))
    tables = level_marginals(plan, marginals, hats)
    return WindowFit(
        plan,
        tuple(map(edge, plan.leaf_ranks)),
        tuple(np.outer(m, np.eye(1, rank)) for m, rank in zip(tables, plan.leaf_ranks, strict=True)),
        tuple(map(edge, ranks)),
        tuple(cores),
        np.eye(1, ranks[0])[0],
        0.0,
        nowhere,
        nowhere,
        hats if any(plan.hats) else 0,
    )


def _patterns(blocks: ChannelBlocks) -> tuple[Integers, Integers, Integers, Integers]:
    """Return what each pattern of each block can be, and the pattern of each symbol, as operators have them."""
    counts = [fits.sum(axis=1) for fits in blocks.matches]
    return (
        np.cumsum([0, *blocks.patterns]),
        np.cumsum([0, *np.concatenate(counts)]),
        np.concatenate([np.nonzero(fits)[1] for fits in blocks.matches]),
        np.concatenate([blocks.pattern(b, np.arange(size)) for b, size in enumerate(blocks.symbols)]),
    )
