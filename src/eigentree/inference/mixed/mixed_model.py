"""`MixedModel`: queries of a network with numbers; rows become evidence, and what is asked of them discrete."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from eigentree.data.tables.rows import Rows
from eigentree.emissions.covariates.membership import without_distribution
from eigentree.errors import DataError
from eigentree.inference.mixed.density import (
    ConditionalDensity,
    expected_cells,
    mixture_moments,
    mixture_quantiles,
)
from eigentree.inference.mixed.evidence import evidence_of, rows_of_evidence
from eigentree.inference.networks.hidden_variables import NetworkModel
from eigentree.inference.queries import checked_count, require_categories
from eigentree.validation import FILL_METHODS, FillMethod, Seed, different_names, generator, one_of, our_arithmetic

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from numpy.typing import ArrayLike

    from eigentree.arrays import Codes, Floats
    from eigentree.data.tables.columns import Columns
    from eigentree.emissions.base import Emission
    from eigentree.inference.mixed.evidence import Evidence
    from eigentree.inference.mixed.number_leaves import Block
    from eigentree.inference.networks.network import LatentNetwork

__all__ = ["MixedModel"]


@dataclass(frozen=True, eq=False)
class MixedModel(NetworkModel):
    """The model of a network with numbers.

    Attributes
    ----------
    network : LatentNetwork
        The discrete network, in which numbers have one state.
    blocks : tuple of Block
    emissions : mapping of tuple of str to Emission
    """

    network: LatentNetwork
    blocks: tuple[Block, ...]
    emissions: Mapping[tuple[str, ...], Emission]

    @property
    def columns(self) -> Columns:
        """The columns, which know which of them are numbers."""
        return self.network.columns

    def evidence(
        self, rows: Rows, copies: bool = False, revealed: Collection[str] = (), masked: str | None = None
    ) -> Iterator[tuple[slice, Evidence, dict[str, Floats]]]:
        """Yield rows as evidence, with where they stand and the values of their number columns.

        Few rows come at a time where numbers depend on a hidden variable that will be `revealed`. The cells of a
        number column that is `masked` are missing.
        """
        step = rows_of_evidence(self.graph, self.blocks, revealed)
        for start in range(0, rows.count, step):
            stop = min(start + step, rows.count)
            values = dict(zip(self.columns.numbers, rows.values(start, stop).T, strict=True))
            if masked is not None:
                values[masked] = np.full(stop - start, np.nan)
            codes = rows.encode(start, stop)
            yield slice(start, stop), self._evidence_of(codes, values, copies), values

    def _evidence_of(self, codes: Codes, values: Mapping[str, Floats], copies: bool = False) -> Evidence:
        return evidence_of(self.network, self.blocks, self.emissions, codes, values, copies)

    @our_arithmetic
    def log_prob(self, X: ArrayLike | Any) -> tuple[Floats, int]:
        """Return the log density of each row, with log probabilities of categories, and how many are impossible."""
        rows = Rows.of(X, self.columns)
        log_prob, lost = np.empty(rows.count), 0
        for part, known, _ in self.evidence(rows):
            found, impossible = known.network.model.score(known.codes)
            log_prob[part] = found + known.log_scale
            lost += impossible
        return log_prob, lost

    @our_arithmetic
    def scored(self, codes: Codes, values: Mapping[str, Floats]) -> Floats:
        """Return the log density of rows, given as codes of all columns and values of numbers by name."""
        step, log_prob = rows_of_evidence(self.graph, self.blocks), np.empty(len(codes))
        for start in range(0, len(codes), step):
            part = slice(start, start + step)
            known = self._evidence_of(codes[part], {name: own[part] for name, own in values.items()})
            log_prob[part] = known.network.model.score(known.codes)[0] + known.log_scale
        return log_prob

    @our_arithmetic
    def predict(self, X: ArrayLike | Any, target: str) -> tuple[Floats, int]:
        """Return P(target | the other cells) of a category, and for how many rows it was undefined."""
        require_categories([target], self.columns.numbers)
        rows = Rows.of(X, self.columns)
        proba = np.empty((rows.count, self.columns.states[self.columns.position(target)]))
        undefined = 0
        for part, known, _ in self.evidence(rows):
            column = known.network.graph.column(target)
            ((proba[part], lost),) = known.network.model.distributions(known.codes, [column])
            undefined += int(lost.sum())
        return proba, undefined

    @our_arithmetic
    def predict_number(self, X: ArrayLike | Any, target: str, quantiles: Sequence[float] | None = None) -> Floats:
        """Return the mean of a number given the other cells of each row, or some of its quantiles.

        Means have the shape (rows,), quantiles (rows, quantiles).
        """
        rows = Rows.of(X, self.columns, absent=target)
        found = np.empty((rows.count,) if quantiles is None else (rows.count, len(quantiles)))
        for part, emission, place, cells, weights in self.conditionals(rows, target):
            if quantiles is None:
                found[part] = mixture_moments(emission, cells, weights)[0][:, place]
            else:
                found[part] = mixture_quantiles(emission, cells, weights, place, quantiles)
        return found

    def conditionals(self, rows: Rows, target: str) -> Iterator[tuple[slice, Emission, int, Floats, Floats]]:
        """Yield rows with the mixture that a number is of in each of them, its own cell not read.

        Those are where the rows stand, the emission, which of its columns the number is, the cells of these, and
        the posterior of the states.
        """
        block, group, place = self._home(target)
        for part, known, values in self.evidence(rows, copies=True, masked=target):
            cells = np.stack([values[name] for name in group], axis=1)
            yield part, self.emissions[group], place, cells, self._weights(known, [block])[block]

    def _weights(self, known: Evidence, wanted: Sequence[int]) -> dict[int, Floats]:
        """Return the posterior of the joint states of the parents of some blocks in each row of evidence."""
        names = [self._copy_name(known, place) for place in wanted]
        columns = [known.network.graph.column(name) for name in names]
        found = known.network.model.distributions(known.codes, columns)
        return {place: table for place, (table, _) in zip(wanted, found, strict=True)}

    def _copy_name(self, known: Evidence, place: int) -> str:
        # Copies are the last columns, one for each block.
        return known.network.graph.observed[len(known.network.graph.observed) - len(self.blocks) + place]

    @our_arithmetic
    def impute(  # type: ignore[override]
        self, X: ArrayLike | Any, method: FillMethod = "mode", seed: Seed = None
    ) -> tuple[Floats, int]:
        """Return codes of categories and values of numbers, missing ones filled, and how many were undefined."""
        one_of("method", method, FILL_METHODS)
        rows, random = Rows.of(X, self.columns), generator(seed)
        filled, undefined = np.empty((rows.count, len(self.columns.names))), 0
        for part, known, values in self.evidence(rows, copies=True):
            own = filled[part]
            if method == "sample":
                codes = known.codes.copy(order="F")
                undefined += known.network.model.operators.draw(codes, random)
                self._take_categories(own, known, codes)
                for place, block in enumerate(self.blocks):
                    states = codes[:, known.network.graph.column(self._copy_name(known, place))].astype(np.int64)
                    for group in block.groups:
                        cells = np.stack([values[name] for name in group], axis=1)
                        self._take_numbers(own, group, self.emissions[group].sampled(cells, states, random))
            else:
                undefined += self._fill_categories(own, known)
                self._fill_numbers(own, known, values, method == "median")
        return filled, undefined

    def _fill_categories(self, filled: Floats, known: Evidence) -> int:
        """Fill categories by most probable states; return how many cells were undefined."""
        network, undefined = known.network, 0
        missing = known.codes == np.asarray(network.columns.states)
        self._take_categories(filled, known, known.codes)
        names = network.graph.observed
        wanted = [c for c in np.flatnonzero(missing.any(axis=0)).tolist() if names[c] in self.graph.states]
        tables = network.model.distributions(known.codes, wanted) if wanted else []
        for column, (table, lost) in zip(wanted, tables, strict=True):
            absent = missing[:, column]
            filled[absent, self.columns.position(names[column])] = table[absent].argmax(axis=1)
            undefined += int((lost & absent).sum())
        return undefined

    def _fill_numbers(self, filled: Floats, known: Evidence, values: Mapping[str, Floats], median: bool) -> None:
        """Fill numbers by means, or by medians."""
        for place, block in enumerate(self.blocks):
            weights: Floats | None = None
            for group in block.groups:
                cells = np.stack([values[name] for name in group], axis=1)
                if (rows := np.isnan(cells).any(axis=1)).any():
                    weights = self._weights(known, [place])[place] if weights is None else weights
                    cells[rows] = expected_cells(self.emissions[group], cells[rows], weights[rows], median)
                self._take_numbers(filled, group, cells)

    def _take_categories(self, filled: Floats, known: Evidence, codes: Codes) -> None:
        for column, name in enumerate(known.network.graph.observed):
            if name in self.graph.states:
                filled[:, self.columns.position(name)] = codes[:, column]

    def _take_numbers(self, filled: Floats, group: tuple[str, ...], cells: Floats) -> None:
        filled[:, [self.columns.position(name) for name in group]] = cells

    @our_arithmetic
    def draw(  # type: ignore[override]
        self, n: int, seed: Seed = None, given: Mapping[str, float] | None = None
    ) -> tuple[Floats, int]:
        """Return sampled rows: codes of categories and values of numbers; `given` has such by name."""
        n = checked_count(n, len(self.columns.names))
        random = generator(seed)
        known, values = self._single(given or {})
        graph = known.network.graph
        evidence = self._evidence_codes(known)
        if np.isneginf(known.network.model.score(known.codes)[0][0]):
            raise DataError(f"the evidence {dict(given or {})} has no positive probability under this model")
        # Without evidence nothing of the lines of numbers that are all missing need be asked.
        codes, undefined = known.network.model.draw(n, random, evidence)
        drawn = np.empty((n, len(self.columns.names)))
        self._take_categories(drawn, known, codes)
        for place, block in enumerate(self.blocks):
            states = codes[:, graph.column(self._copy_name(known, place))].astype(np.int64)
            for group in block.groups:
                cells = np.repeat(np.stack([values[name] for name in group], axis=1), n, axis=0)
                self._take_numbers(drawn, group, self.emissions[group].sampled(cells, states, random))
        return drawn, undefined

    def _single(self, given: Mapping[str, float]) -> tuple[Evidence, dict[str, Floats]]:
        """Return one row that holds what is given, codes and values by name, as evidence with copies."""
        codes = self.columns.missing(1)
        values = {name: np.full(1, np.nan) for name in self.columns.numbers}
        for name, value in given.items():
            if name in values:
                values[name][0] = value
            else:
                codes[0, self.columns.position(name)] = value
        return self._evidence_of(codes, values, True), values

    @our_arithmetic
    def joint(self, names: Sequence[str]) -> Floats:
        """Return the table of some categories, numbers integrated out."""
        require_categories(names, self.columns.numbers)
        return self.network_model.joint(names)

    @property
    def network_model(self) -> NetworkModel:
        """The model of the categories alone."""
        return NetworkModel(self.graph, self.operators, self.tree, self.conditional_of)

    @our_arithmetic
    def conditional(self, names: Sequence[str], given: Mapping[str, float]) -> Floats:
        """Return the table P(names | given) of categories; evidence may be numbers."""
        require_categories(different_names("names", names), self.columns.numbers)
        known, _ = self._single(given)
        evidence = self._evidence_codes(known)
        wanted = [*names]
        if both := [name for name in wanted if name in given]:
            raise DataError(f"{both[0]!r} stands on both sides of the bar; leave it out of one")
        return known.network.model.conditional(wanted, evidence)

    def _evidence_codes(self, known: Evidence) -> dict[str, int]:
        columns = known.network.columns
        row = zip(columns.names, known.codes[0].tolist(), columns.states, strict=True)
        return {name: code for name, code, states in row if code < states}

    @our_arithmetic
    def density(self, name: str, given: Mapping[str, float]) -> ConditionalDensity:
        """Return the distribution of a number given evidence, codes and values by name."""
        if name in given:
            raise DataError(f"{name!r} stands on both sides of the bar; leave it out of one")
        block, group, place = self._home(name)
        if self.emissions[group].conditions:
            without_distribution()
        known, values = self._single(given)
        weights = self._weights(known, [block])[block][0]
        cells = np.array([values[each][0] for each in group])
        return ConditionalDensity(name, weights, self.emissions[group], cells, place)

    def _home(self, name: str) -> tuple[int, tuple[str, ...], int]:
        """Return the block of a number, its group, and its place there."""
        for place, block in enumerate(self.blocks):
            for group in block.groups:
                if name in group:
                    return place, group, group.index(name)
        raise DataError(f"{name!r} is no number")
