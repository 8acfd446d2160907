"""The objective of sequences under a hidden chain whose tables depend on inputs, and its fit."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import chain, cycle
from typing import TYPE_CHECKING, Any

import numpy as np

from eigentree.em.chain_fit import ChainFit, ChainLayout, SequenceObjective, fit_chain
from eigentree.em.multistart import Candidate, multistart
from eigentree.em.number_chains import NumberChainLayout, markov_objective
from eigentree.em.optimize.objective import Evaluation, ExpectedCounts
from eigentree.emissions.covariates.multinomial_logit import multinomial_logit, score
from eigentree.errors import DataError
from eigentree.inference.sequences.input_chain import DependentTable, InputTables
from eigentree.inference.sequences.links import InputLinks
from eigentree.inference.sequences.number_steps import NumberPass

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from eigentree.arrays import Booleans, Floats, Integers
    from eigentree.data.sequences.inputs import InputSequences
    from eigentree.em.multistart import Multistart
    from eigentree.emissions.base import Emission
    from eigentree.inference.sequences.input_chain import Dependence
    from eigentree.inference.sequences.number_steps import NumberCounts, Numbered

__all__ = ["InputLayout", "InputObjective", "fit_from_tables", "fit_with_inputs", "gradient_of", "without_inputs"]

PART_STEPS = 2**16
"""Steps of the sequences that are passed through together where transitions depend on inputs."""


@dataclass(frozen=True, eq=False)
class InputLayout(NumberChainLayout):
    """Where each parameter stands: start, transitions and emissions, each as it depends on inputs, then numbers.

    Attributes
    ----------
    covariates : int
        The columns of a design; of symbols, their number.
    kinds : tuple of {"fixed", "tables", "logit"}
        How start, transitions, and each channel's emissions depend on inputs.
    rank : int
        How many columns of the design do not depend on others linearly.
    groups : array of int, optional
        Those of first states, as a `DependentTable` has them.
    """

    covariates: int = 1
    kinds: tuple[Dependence, ...] = ()
    rank: int = 1
    groups: Integers | None = None

    @classmethod
    def of(  # type: ignore[override]
        cls,
        plain: ChainLayout,
        design: Floats,
        kinds: tuple[Dependence, ...],
        numbers: Numbered,
        groups: Integers | None = None,
    ) -> InputLayout:
        """Return where parameters stand, given those of the chain without inputs and the inputs that differ."""
        scales = np.abs(design).max(axis=0)
        rank = int(np.linalg.matrix_rank(design / np.where(scales > 0, scales, 1.0)))
        own = (plain.sizes, plain.order, plain.channels, plain.allowed, plain.starts, dict(numbers))
        return cls(*own, design.shape[1], kinds, rank, groups)

    @cached_property
    def plain(self) -> NumberChainLayout:
        """The layout of the chain without inputs."""
        order = np.arange(self.states)
        numbers = {group: own.permuted(order) for group, own in self.numbers.items()}
        return NumberChainLayout(self.sizes, self.order, self.channels, self.allowed, self.starts, numbers)

    @cached_property
    def possibles(self) -> list[Booleans]:
        """Which entries of each table may be positive, shape (rows, classes)."""
        shown = [np.ones((self.states, count), np.bool_) for count in self.channels]
        return [np.ones((1, self.states), np.bool_), self.allowed[0], *shown]

    @cached_property
    def free_count(self) -> int:
        """The number of free parameters, those of emissions included."""
        times = {"fixed": 1, "tables": self.covariates, "logit": self.rank}
        counts = [
            times[kind] * int((own.sum(axis=1) - 1).sum())
            for kind, own in zip(self.kinds, self.possibles, strict=True)
        ]
        if self.starts:
            counts[0] = 0
        if self.groups is not None:
            counts[0] -= (self.rank - 1) * int((np.diff(self.groups) == 0).sum())
        return sum(counts) + sum(emission.n_parameters for emission in self.numbers.values())

    def vector_of(self, tables: Sequence[DependentTable], emissions: Sequence[Emission]) -> Floats:
        """Return the vector of all parameters."""
        return np.concatenate([*(own.array.ravel() for own in tables), *(own.vector for own in emissions)])

    @cached_property
    def _shapes(self) -> list[tuple[int, ...]]:
        pairs = zip(self.kinds, self.possibles, strict=True)
        return [own.shape if kind == "fixed" else (self.covariates, *own.shape) for kind, own in pairs]

    @cached_property
    def _tables_end(self) -> int:
        return sum(map(math.prod, self._shapes))

    def dependent(self, vector: Floats) -> tuple[list[DependentTable], list[Emission]]:
        """Return start, transitions and emissions of a vector, and the emissions of numbers."""
        own, emissions = self.split(vector)
        return self.dependent_tables(own), emissions

    def dependent_tables(self, vector: Floats) -> list[DependentTable]:
        """Return start, transitions and emissions of a vector of tables."""
        arrays = np.split(vector, np.cumsum([math.prod(shape) for shape in self._shapes])[:-1])
        every = zip(self.kinds, arrays, self._shapes, self.possibles, strict=True)
        tables = [DependentTable(kind, own.reshape(shape), possible) for kind, own, shape, possible in every]
        return [replace(tables[0], groups=self.groups), *tables[1:]]

    def tables_of(self, vector: Floats) -> InputTables:
        """Return the parameters of a vector as those of a model."""
        (start, moves, *shown), emissions = self.dependent(vector)
        return InputTables(start, moves, tuple(shown), dict(zip(self.numbers, emissions, strict=True)))

    def lifted(self, plain: Floats) -> Floats:
        """Return the vector of a chain that does not depend on its inputs, given that of one without inputs."""
        vector, emissions = self.plain.split(plain)
        (links,), shown = self.plain.parts(vector)
        tables = []
        for kind, own, table in zip(self.kinds, self.possibles, (links[0][None], links[1], *shown), strict=True):
            array = table
            if kind == "tables":
                array = np.repeat(table[None], self.covariates, axis=0)
            elif kind == "logit":
                # Logits are finite.
                logs = np.log(np.maximum(table, np.finfo(np.float64).tiny))
                array = np.zeros((self.covariates, *own.shape))
                array[0] = np.where(own, logs - logs[np.arange(len(own)), own.argmax(axis=1), None], 0.0)
            tables.append(DependentTable(kind, array, own))
        wide = [
            own.permuted(np.arange(like.states) % self.states)
            for like, own in zip(self.numbers.values(), emissions, strict=True)
        ]
        return self.vector_of(tables, wide)

    def mixed(self, parameters: Floats, share: float) -> Floats:
        """Return parameters whose tables are mixed with a share of the uniform distribution; logits stay finite."""
        tables, emissions = self.dependent(parameters)
        made = []
        for place, table in enumerate(tables):
            even = table.possible / table.possible.sum(axis=1, keepdims=True)
            stays = table.kind == "logit" or (place == 0 and bool(self.starts))
            made.append(table if stays else replace(table, array=(1.0 - share) * table.array + share * even))
        return self.vector_of(made, emissions)


@dataclass(frozen=True, eq=False)
class InputObjective(SequenceObjective):
    """The objective of sequences with inputs; `prior` is that of the chain without inputs.

    Pseudo-counts of a table are those of each symbol's table; those of a logit are spread over the inputs as these
    occur.
    """

    layout: InputLayout
    walk: NumberPass
    prior: Floats

    is_accelerable = False

    @classmethod
    def of(
        cls, layout: InputLayout, sequences: InputSequences, weights: Floats, prior: Floats, threads: int
    ) -> InputObjective:
        """Return the objective of sequences."""
        _, moves, *shown = (kind != "fixed" for kind in layout.kinds)
        how: dict[str, Any] = {"part_steps": PART_STEPS, "as_trees": True} if moves else {}
        return cls(
            layout, NumberPass.of_distinct(sequences, weights, layout.numbers, threads, depends=shown, **how), prior
        )

    @cached_property
    def plain(self) -> SequenceObjective:
        """The objective of the same sequences without their inputs."""
        return markov_objective(self.walk, self.layout.plain, self.prior)

    @cached_property
    def pseudo_counts(self) -> list[Floats]:
        """The pseudo-counts of each table at each input."""
        (links,), shown = self.layout.plain.parts(self.prior)
        first, later, every = self._shares
        found = []
        for place, (kind, table) in enumerate(
            zip(self.layout.kinds, (links[0][None], links[1], *shown), strict=True)
        ):
            shares = (first, later, every)[min(place, 2)]
            if kind != "logit":
                shares = np.ones(len(self.walk.design) if kind == "tables" else 1)
            found.append(shares[:, None, None] * table)
        return found

    @property
    def _shares(self) -> list[Floats]:
        """The share of each input among first steps, later steps, and all steps, by weight."""
        walk = self.walk
        assert walk.which is not None
        of_steps = np.repeat(walk.weights, np.diff(walk.starts))
        first = np.zeros(len(of_steps), np.bool_)
        first[walk.starts[:-1][np.diff(walk.starts) > 0]] = True
        found = []
        for own in (first, ~first, np.ones_like(first)):
            counts = np.bincount(walk.which, of_steps * own, len(walk.design))
            found.append(counts / max(float(counts.sum()), np.finfo(np.float64).tiny))
        return found

    def found(self, tables: Sequence[DependentTable], emissions: Sequence[Emission]) -> NumberCounts:
        """Return what is expected of all sequences, and the log density of each."""
        start, moves, *shown = (table.proba(self.walk.design) for table in tables)
        return self.walk.counts(InputLinks(start[:, 0], moves), shown, emissions)

    def expected_links(self, parameters: Floats) -> list[Floats]:
        """Return the expected counts of start and transitions, all inputs together."""
        start, moves = self.found(*self.layout.dependent(parameters)).links
        return [start.sum(axis=0), moves.sum(axis=0)]

    def log_likelihood(self, parameters: Floats) -> float:
        """Return the log-likelihood of the sequences; -inf if one is impossible."""
        return self.total(self.found(*self.layout.dependent(parameters)).log_prob)[0]

    def parted(self, parameters: Floats) -> tuple[Floats, tuple[Any, ...]]:
        """Return the tables of a vector of parameters, end to end, and the emissions."""
        tables, emissions = self.layout.split(parameters)
        return tables, tuple(emissions)

    def counted(self, parameters: Floats) -> ExpectedCounts:
        """Return the expected counts of the tables and the log-likelihood of all sequences."""
        return self.expected_parts(*self.parted(parameters))[0]

    def expected_parts(self, tables: Floats, emissions: Sequence[Any]) -> tuple[ExpectedCounts, list[Any]]:
        """Return expected counts of all tables at each input, end to end, and statistics of emissions."""
        found = self.found(self.layout.dependent_tables(tables), emissions)
        counts = [own.ravel() for own in (*found.links, *found.tables)]
        return ExpectedCounts(np.concatenate(counts), *self.total(found.log_prob)), found.statistics

    def expected(self, tables: Sequence[DependentTable], emissions: Sequence[Emission]) -> NumberCounts:
        """Return what is expected at each input, pseudo-counts included; start and transitions are tables too."""
        found = self.found(tables, emissions)
        start, moves = found.links
        every = zip((start[:, None], moves, *found.tables), self.pseudo_counts, strict=True)
        return found._replace(tables=[counts + extra for counts, extra in every])

    def evaluated(self, parameters: Floats) -> Evaluation:
        """Return the objective of some parameters and the EM iteration from them, by one pass over the data."""
        layout, design = self.layout, self.walk.design
        tables, emissions = layout.dependent(parameters)
        found = self.expected(tables, emissions)
        objective, impossible = self.total(found.log_prob)
        objective += self.log_prior_of(tables, emissions)
        made = [_maximised(table, counts, design) for table, counts in zip(tables, found.tables, strict=True)]
        if layout.starts:
            made[0] = tables[0]
        if impossible < 0:
            pairs = zip(emissions, found.statistics, strict=True)
            emissions = [emission.maximised(own) for emission, own in pairs]
        update = layout.vector_of(made, emissions)
        return Evaluation(parameters, update, np.zeros(len(update)), objective, impossible)

    def value_and_gradient(self, parameters: Floats) -> tuple[float, Floats]:
        """Return the objective and its gradient (Fisher's identity): of probabilities, and of coefficients.

        It is zero where an entry is zero, for the reference of a logit, and for emissions of numbers.
        """
        layout, design = self.layout, self.walk.design
        tables, emissions = layout.dependent(parameters)
        found = self.expected(tables, emissions)
        gradients = [gradient_of(table, counts, design) for table, counts in zip(tables, found.tables, strict=True)]
        if layout.starts:
            gradients[0][:] = 0.0
        of_tables = np.concatenate([own.ravel() for own in gradients])
        value = self.total(found.log_prob)[0] + self.log_prior_of(tables, emissions)
        return value, np.concatenate([of_tables, np.zeros(len(parameters) - len(of_tables))])

    def log_prior_of(self, tables: Sequence[DependentTable], emissions: Sequence[Emission]) -> float:
        """Return what pseudo-counts and the priors of emissions add to the log-likelihood."""
        found = sum(emission.log_prior() for emission in emissions)
        for table, extra in zip(tables, self.pseudo_counts, strict=True):
            used = extra > 0
            if used.any():
                found += float(extra[used] @ np.log(table.proba(self.walk.design)[used]))
        return found

    def started(self, kind: str, random: np.random.Generator) -> Floats:
        """Return parameters that do not depend on inputs, from an initialiser of chains without them."""
        return self.layout.lifted(self.plain.initialisers[kind](self.plain, random))


def _maximised(table: DependentTable, counts: Floats, design: Floats) -> DependentTable:
    """Return the table of highest expected log-likelihood, given counts at each input, pseudo-counts included."""
    if table.kind != "logit":
        wide = counts if table.kind == "tables" else counts[0]
        totals = wide.sum(axis=-1, keepdims=True)
        return replace(table, array=np.divide(wide, totals, out=table.array.copy(), where=totals > 0))
    if table.groups is not None:
        coefficients, shares = table.of_groups
        of_groups = np.add.reduceat(counts[:, 0], np.flatnonzero(np.diff(table.groups, prepend=-1)), axis=1)
        used, totals = of_groups.any(axis=1), of_groups.sum(axis=0)[table.groups]
        shares = np.divide(counts[:, 0].sum(axis=0), totals, out=shares, where=totals > 0)
        return table.with_groups(multinomial_logit(design[used], of_groups[used], coefficients), shares)
    array = table.array.copy()
    for row, own in enumerate(table.possible):
        used = counts[:, row].any(axis=1)
        if used.any():
            array[:, row, own] = multinomial_logit(design[used], counts[used, row][:, own], array[:, row, own])
    return replace(table, array=array)


def gradient_of(table: DependentTable, counts: Floats, design: Floats) -> Floats:
    """Return the gradient of the expected log-likelihood of a table, in the shape of its array."""
    if table.kind != "logit":
        wide = counts if table.kind == "tables" else counts[0]
        return np.divide(wide, table.array, out=np.zeros_like(table.array), where=table.array > 0)
    found = np.zeros_like(table.array)
    for row, own in enumerate(table.possible):
        found[:, row, own] = score(design, counts[:, row][:, own], table.array[:, row, own])
    return found


def without_inputs(fit: ChainFit) -> ChainFit:
    """Return the fit of the same sequences without their inputs."""
    if not isinstance(fit.whole, InputObjective):
        return fit
    held = fit.validation.plain if isinstance(fit.validation, InputObjective) else None
    return replace(fit, whole=fit.whole.plain, validation=held)


def fit_from_tables(fit: ChainFit, tables: InputTables) -> Iterator[Multistart]:
    """Yield the state of a fit, again and again, until its run from the tables of a model has converged."""
    whole = fit.whole
    assert isinstance(whole, InputObjective)
    start = whole.layout.vector_of(
        [tables.start, tables.transitions, *tables.emissions], [*tables.numbers.values()]
    )
    if (number := whole.evaluated(start).impossible) >= 0:
        raise DataError(f"sequence {number} is impossible under the model that the fit starts from")
    yield from fit.runs([Candidate("given", partial(np.copy, start))])


def fit_with_inputs(
    plain: ChainFit, fit: ChainFit, init: Floats | str, n_init: int, random: np.random.Generator
) -> Iterator[Multistart]:
    """Yield the state of a fit with inputs, again and again, until its runs have converged.

    The chain is fitted without inputs first, as `fit_chain` does. A multi-start over initialisers follows, and then
    runs from the best of these and from the fit without inputs: what is found is never below that.
    """
    *_, state = fit_chain(plain, init, n_init, random)
    whole = fit.whole
    assert isinstance(whole, InputObjective)
    candidates = [Candidate("without inputs", partial(whole.layout.lifted, state.best[1].parameters))]
    how = (fit.stopping, fit.max_iter, fit.accelerate, fit.validation)
    found: Multistart | None = None
    if isinstance(init, str) and init == "multistart":
        samples = fit.samples(random)
        first = samples[0].objective
        assert isinstance(first, InputObjective)
        pool = (Candidate(kind, partial(first.started, kind, random)) for kind in cycle(first.plain.pool))
        for found in multistart(samples, chain(candidates, pool), *how, finalists=n_init):
            yield found
        assert found is not None
        name, best = found.best
        candidates.append(Candidate(name, partial(np.copy, best.parameters)))
    yield from fit.runs(candidates, found)
