"""Structure, emissions and size for a table of categories and numbers, chosen on held-out rows.

Designs are compared: latent classes and a tree of hidden variables, with numbers as they are or as normal scores.
Numbers that are correlated share an emission, and so a hidden variable; latent classes have one group of all
numbers. Hidden states double while held-out rows gain. The best design is then improved in small steps: other
numbers of states, more or less shrinkage of covariances. Several fits of it are averaged.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from eigentree.em.mixed.mixed_fit import mixed_layout
from eigentree.em.mixed.mixed_init import MixedInit
from eigentree.em.mixed.mixed_objective import MixedLayout, MixedObjective
from eigentree.em.optimize.run import em_run
from eigentree.em.optimize.stopping import Stopping
from eigentree.em.size_search import Fit, FittedSize, SearchProblem, SearchState
from eigentree.em.sizes import CLASSES, Size, SizeTrial
from eigentree.emissions.base import stacked
from eigentree.emissions.marginal import fitted_marginal
from eigentree.graphs.graph import LatentGraph
from eigentree.graphs.structure_learning import hidden_chow_liu, mixture_of_trees
from eigentree.graphs.templates import apart
from eigentree.inference.mixed.mixed_network import MixedNetwork

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from eigentree.arrays import Floats
    from eigentree.em.init.trees import Kind
    from eigentree.em.mixed.mixed_rows import MixedRows
    from eigentree.emissions.marginal import Marginal

__all__ = ["Design", "MixedProblem"]

MEDIUM = 0.3
"""Numbers with a larger correlation share a group of a tree: a medium effect (Cohen, 1988)."""

MOST_ITERATIONS = 100
"""Of one fit: held-out rows end nearly all before."""

SHRINKAGE_STEP = 4.0
"""By how much the rows of a covariance's prior are multiplied or divided: smaller steps change scores little."""

SCORES = "normal_scores"

FAMILIES = (SCORES, "full")
"""Families of groups of numbers that are compared."""


class Design(NamedTuple):
    """What is fitted.

    Attributes
    ----------
    tree : bool
        A tree of hidden variables, or latent classes.
    groups : tuple of tuple of str
        The numbers that share an emission.
    family : str
    prior_rows : float
        The rows of the prior of each state's covariance, as a multiple of the group's columns plus two.
    states : int
        Of each hidden variable.
    """

    tree: bool
    groups: tuple[tuple[str, ...], ...]
    family: str
    prior_rows: float
    states: int

    @property
    def size(self) -> Size:
        """Its size, as a search reports it."""
        return Size(self.states, 1) if self.tree else Size(CLASSES, self.states)

    def __str__(self) -> str:
        shown = " ".join("+".join(group) for group in self.groups)
        return f"{self.family} of {shown}, prior {self.prior_rows:g}"


@dataclass(frozen=True, eq=False, kw_only=True)
class MixedProblem(SearchProblem):
    """What designs are compared on.

    Attributes
    ----------
    columns : mapping of str to int
        All columns, and their numbers of states; a number has one.
    names : tuple of str
        The columns that have emissions, in the order of the rows' values.
    given : mapping of tuple of str to family
        Emissions that the user chose; they are kept.
    information : array, shape (columns, columns)
        The mutual information of all pairs, numbers in bins.
    """

    columns: Mapping[str, int]
    names: tuple[str, ...]
    given: Mapping[tuple[str, ...], Any]
    information: Floats

    @cached_property
    def held_weights(self) -> Floats:
        """The weights of all held-out rows, fold by fold."""
        return np.concatenate([fold.validation.weights for fold in self.folds])

    @cached_property
    def repeating(self) -> frozenset[str]:
        """The columns of which some numbers repeat, such as rounded ones."""
        values = self.folds[0].rows.values
        known = {name: own[~np.isnan(own)] for name, own in zip(self.names, values.T, strict=True)}
        return frozenset(name for name, own in known.items() if len(np.unique(own)) < len(own))

    def is_bounded(self, design: Design) -> bool:
        """Return whether the prior of all states counts as one row at least where numbers repeat.

        With less, states collapse onto a number that repeats, where a density has no bound: held-out rows repeat it
        too, and show no harm.
        """
        rows = design.states * design.prior_rows
        return all(
            rows * (len(group) + 2) >= 1.0 for group in design.groups if not self.repeating.isdisjoint(group)
        )

    def designs(self) -> list[Design]:
        """Return the designs that are compared, each with the fewest states."""
        named = {name for group in self.given for name in group}
        rest = [name for name in self.names if name not in named]
        families = FAMILIES if rest else FAMILIES[:1]
        together = (tuple(rest),) if rest else ()
        parted = tuple(correlated(self.folds[0].rows, self.names, rest))
        found = [Design(False, together, family, 1.0, 1) for family in families]
        trees = {parted, tuple((name,) for name in rest)}
        if len(self.columns) > 2:
            found += [Design(True, groups, families[0], 1.0, 2) for groups in sorted(trees, key=len)]
        return found

    def families(self, design: Design, fold: int) -> dict[tuple[str, ...], Any]:
        """Return the family of each group of numbers, with the marginals of a fold's training rows."""
        chosen: dict[tuple[str, ...], Any] = {}
        for group in design.groups:
            prior = {"prior_rows": design.prior_rows * (len(group) + 2), "prior_shape": "pooled"}
            chosen[group] = {"family": design.family, **prior}
            if design.family == SCORES:
                chosen[group]["marginals"] = tuple(self._marginals[fold][name] for name in group)
        return {**self.given, **chosen}

    @cached_property
    def _marginals(self) -> list[dict[str, Marginal]]:
        """The smooth density of each number in the training rows of each fold; every design needs the same."""
        return [
            {name: fitted_marginal(rows.values[:, at], rows.weights) for at, name in enumerate(self.names)}
            for rows, _ in self.folds
        ]

    def graph(self, design: Design) -> LatentGraph:
        """Return the graph of a design."""
        if not design.tree:
            (hidden,) = apart(["h"], self.columns)
            if design.states == 1:
                return LatentGraph(self.columns)
            edges = [(hidden, name) for name in self.columns]
            return LatentGraph({hidden: design.states, **self.columns}, edges, [hidden])
        place = {name: at for at, name in enumerate(self.columns)}
        grouped = [*self.given, *design.groups]
        named = {name for group in grouped for name in group}
        nodes = [*grouped, *((name,) for name in self.columns if name not in named)]
        own = [[place[name] for name in node] for node in nodes]
        weights = np.array([[self.information[np.ix_(a, b)].max() for b in own] for a in own])
        np.fill_diagonal(weights, 0.0)
        firsts = [node[0] for node in nodes]
        tree = hidden_chow_liu(firsts, [self.columns[name] for name in firsts], weights, design.states)
        more = [(tree.parents(node[0])[0], name) for node in nodes for name in node[1:]]
        hidden_states = {name: tree.states[name] for name in tree.hidden}
        return LatentGraph({**hidden_states, **self.columns}, [*tree.edges, *more], tree.hidden)

    def objective(self, layout: MixedLayout, rows: MixedRows, pseudo_counts: float) -> MixedObjective:
        """Return the objective of some rows."""
        return MixedObjective.of(layout, self.names, rows, self.missing, pseudo_counts, self.threads)

    def validation(self, members: Sequence[MixedMember]) -> float:
        """Return the mean log density of a held-out row under the average of some fits."""
        scores = np.logaddexp.reduce(np.array([member.scores for member in members]), axis=0)
        return float(np.average(scores - math.log(len(members)), weights=self.held_weights))

    def network(self, size: Size, fits: Sequence[Fit]) -> MixedNetwork:
        """Return the average of some fits."""
        return averaged_network([fit.layout.network(fit.parameters) for fit in fits])

    def search(self, random: np.random.Generator) -> Iterator[SearchState]:
        """Yield how far the search has come, again and again, until the last of the fits that are averaged."""
        state = SearchState((), Size(CLASSES, 1))

        def tried(design: Design) -> MixedMember:
            nonlocal state
            member = _fitted(self, design, random.spawn(1)[0])
            state = state.joined(member, 1, self.fits)._replace(passes=1)
            return member

        for first in self.designs():
            design, last = first, None
            while design.states <= self.most_states:
                member = tried(design)
                yield state
                if last is not None and not member.beats(last):
                    break
                last, design = member, design._replace(states=2 * design.states)
        known = {member.design for member in state.members}
        before = None
        while state.best.design != before:
            before = state.best.design
            for near in _neighbours(before):
                if near not in known and near.states <= self.most_states and self.is_bounded(near):
                    known.add(near)
                    tried(near)
                    yield state
        while len(self.folds) == 1 and len(state.like_best) < self.fits:
            tried(state.best.design)
            yield state


def correlated(rows: MixedRows, names: Sequence[str], among: Sequence[str]) -> list[tuple[str, ...]]:
    """Return groups of numbers all of whose pairs have a medium correlation of ranks (complete linkage)."""
    if len(among) < 2:
        return [tuple(among)] if among else []
    from scipy.cluster.hierarchy import fcluster, linkage

    values = rows.values[:, [list(names).index(name) for name in among]]
    ranks = np.apply_along_axis(_ranks, 0, values)
    centred = np.nan_to_num(ranks - np.nanmean(ranks, axis=0))
    spread = np.sqrt((centred**2).sum(axis=0))
    correlation = centred.T @ centred / np.outer(spread, spread).clip(np.finfo(np.float64).tiny)
    apart_by = (1.0 - np.abs(correlation).clip(0.0, 1.0))[np.triu_indices(len(among), 1)]
    cluster = fcluster(linkage(apart_by, "complete"), 1.0 - MEDIUM, "distance")
    return [
        tuple(name for name, own in zip(among, cluster, strict=True) if own == each) for each in np.unique(cluster)
    ]


def _ranks(cells: Floats) -> Floats:
    """Return the rank of each known cell; equal ones share the mean of theirs."""
    _, places, counts = np.unique(cells, return_inverse=True, return_counts=True)
    ranks: Floats = (np.cumsum(counts) - (counts - 1) / 2.0)[places]
    return np.where(np.isnan(cells), np.nan, ranks)


@dataclass(frozen=True, eq=False)
class MixedMember(FittedSize):
    """A design fitted to each fold.

    `scores` are the log densities of all held-out rows, fold by fold, `weights` those of these rows.
    """

    design: Design
    scores: Floats
    weights: Floats

    @property
    def choice(self) -> Design:
        """What was fitted."""
        return self.design

    def beats(self, other: MixedMember) -> bool:
        """Return whether held-out rows prefer this to another; a larger one needs more than a standard error."""
        if self.trial.parameters <= other.trial.parameters or self.design == other.design:
            return self.trial.validation > other.trial.validation
        gains = self.scores - other.scores
        mean = np.average(gains, weights=self.weights)
        variance = float(np.average((gains - mean) ** 2, weights=self.weights))
        return bool(mean > math.sqrt(variance / max(self.weights.sum() - 1.0, 1.0)))


def _neighbours(design: Design) -> list[Design]:
    """Return designs with some more or fewer states, or more or less shrinkage."""
    sizes = {3 * design.states // 4, -(-3 * design.states // 2)} - {0, design.states}
    shrunk = (SHRINKAGE_STEP * design.prior_rows, design.prior_rows / SHRINKAGE_STEP)
    states = [design._replace(states=size) for size in sorted(sizes) if size > design.tree]
    return [*states, *(design._replace(prior_rows=rows) for rows in shrunk if design.groups)]


def _fitted(problem: MixedProblem, design: Design, random: np.random.Generator) -> MixedMember:
    """Return a design fitted to each fold."""
    began = time.process_time()
    graph = problem.graph(design)
    fits, log_likelihoods, scores, training = [], [], [], 0.0
    for number, fold in enumerate(problem.folds):
        layout = mixed_layout(graph, problem.families(design, number), problem.names, fold.rows)
        objective = problem.objective(layout, fold.rows, problem.pseudo_counts)
        held = problem.objective(layout, fold.validation, 0.0)
        kind: Kind = "random" if design.tree else "mixture"
        start = MixedInit(objective, fold.rows, problem.names).candidate(kind, random.spawn(1)[0]).make()
        *_, run = em_run(objective, start, Stopping("gain", 0.0), MOST_ITERATIONS, validation=held)
        validation = tuple(value / held.weight for value in run.validation)
        fits.append(Fit(layout, run.parameters, run.score, run.history, validation, run.iterations))
        log_likelihoods.append(objective.log_likelihood(run.parameters))
        training += objective.weight
        scores.append(_scores(problem, layout, run.parameters, fold.validation))
    trial = SizeTrial(
        design.size,
        "random" if design.tree else "mixture",
        sum(fit.passes for fit in fits),
        fits[0].layout.free_count,
        sum(log_likelihoods) / training,
        float(np.average(np.concatenate(scores), weights=problem.held_weights)),
        time.process_time() - began,
        str(design),
    )
    scored = (np.concatenate(scores), problem.held_weights)
    return MixedMember(trial, tuple(fits), tuple(log_likelihoods), design, *scored)


def _scores(problem: MixedProblem, layout: MixedLayout, parameters: Floats, rows: MixedRows) -> Floats:
    """Return the log density of each row."""
    model = layout.network(parameters).model
    names = problem.columns
    values = {name: rows.values[:, place] for place, name in enumerate(problem.names)}
    return model.scored(rows.codes, {name: values[name] for name in names if name in values})


def averaged_network(networks: Sequence[MixedNetwork]) -> MixedNetwork:
    """Return the average of networks on one graph: a mixture of them with equal shares.

    Latent classes are averaged as more classes, trees as a mixture of trees.
    """
    if len(networks) == 1:
        return networks[0]
    first, count = networks[0], len(networks)
    graph = first.graph
    emissions = {group: stacked([each.all_emissions[group] for each in networks]) for group in first.all_emissions}
    emitted = {name for group in first.all_emissions for name in group}
    tables: dict[str, Any] = {}
    if len(graph.hidden) == 1 and not graph.parents(graph.hidden[0]):
        (hidden,) = graph.hidden
        joined = LatentGraph({**graph.states, hidden: count * graph.states[hidden]}, graph.edges, graph.hidden)
        tables[hidden] = np.concatenate([each.tables[hidden] for each in networks]) / count
        rest = [name for name in graph.observed if name not in emitted]
        tables |= {name: np.concatenate([each.tables[name] for each in networks]) for name in rest}
        return MixedNetwork(joined, tables, emissions)
    joined = mixture_of_trees(graph, count)
    which = joined.names[0]
    tables[which] = np.full(count, 1.0 / count)
    for name in graph.names:
        if name not in emitted:
            tables[name] = np.stack([each.tables[name] for each in networks])
    return MixedNetwork(joined, tables, emissions)
