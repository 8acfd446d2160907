"""`SpectralNumberModel`: a spectral model of a table with columns of numbers, as codes of their levels."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from eigentree.core.trees.categorical_sampling import choose
from eigentree.counting.levels.hat_plan import with_numbers
from eigentree.counting.levels.hats import LEVELS, level_codes, numbers_in_levels
from eigentree.counting.levels.number_scales import level_rows
from eigentree.data.tables.columns import Columns
from eigentree.data.tables.rows import Rows, rows_at_a_time
from eigentree.errors import DataError
from eigentree.inference.mixed.density import NumberDensity
from eigentree.inference.operators.normalised_scoring import clipped_tables
from eigentree.inference.queries import require_categories
from eigentree.spectral.learn.spectral_fit import SpectralModel
from eigentree.validation import FILL_METHODS, FillMethod, Seed, different_names, generator, one_of, our_arithmetic

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import ArrayLike

    from eigentree.arrays import Booleans, Codes, Floats
    from eigentree.counting.levels.hats import HatScale
    from eigentree.spectral.learn.spectral_fit import SpectralFit

__all__ = ["LevelDensity", "SpectralNumberModel"]


@dataclass(frozen=True, eq=False, repr=False)
class LevelDensity(NumberDensity):
    """The distribution of one number given evidence: a table over its levels, inside which it has its own density.

    Attributes
    ----------
    name : str
        Of the column.
    weights : array, shape (levels,)
    scale : HatScale
    """

    name: str
    weights: Floats
    scale: HatScale

    def _pdf(self, x: Floats) -> Floats:
        return np.asarray(self.weights[self.scale.levels(x)] * np.exp(self.scale.log_density(x)))

    def _cdf(self, x: Floats) -> Floats:
        places = self.scale.marginal.cdf(x) * LEVELS
        below = np.concatenate([[0.0], np.cumsum(self.weights)])
        return np.asarray(np.interp(places, np.arange(LEVELS + 1), below))

    @property
    def mean(self) -> float:
        """The mean."""
        return float(self.weights @ self.scale.means)

    @property
    def std(self) -> float:
        """The standard deviation."""
        return float(np.sqrt(max(float(self.weights @ self.scale.squares) - self.mean**2, 0.0)))

    def _quantiles(self, shares: list[float]) -> Floats:
        return np.asarray(self.scale.quantiles(self.weights[None], shares)[0])

    def _sampled(self, n: int, random: np.random.Generator) -> Floats:
        levels = choose(self.weights.cumsum()[None], np.zeros(n, np.int64), random.random(n))
        return numbers_in_levels(levels[:, None].astype(np.float64), [self.scale], random)[:, 0]


@dataclass(frozen=True, eq=False)
class SpectralNumberModel(SpectralModel):
    """Learned operators of codes, those of numbers being their levels, and the density inside each level.

    Rows are scored cell by cell as those of categories, with the log density of each number given its level added.
    The distribution of a number given the other cells of its row is that of its levels: by the operators, what is
    negative clipped and replaced by the marginal.

    Attributes
    ----------
    table : Columns
        The columns; those of numbers have one state, as in the graph.
    scales : tuple of HatScale or None
        The levels of each column of numbers, None for other columns.
    """

    table: Columns
    scales: tuple[HatScale | None, ...]

    replaced: ClassVar[str] = SpectralModel.replaced

    @classmethod
    def of_numbers(
        cls,
        fit: SpectralFit,
        shrinkage: float,
        floor: float,
        marginals: tuple[Floats, ...],
        table: Columns,
        scales: tuple[HatScale | None, ...],
    ) -> SpectralNumberModel:
        """Return the model of a fit at some shrinkage and floor."""
        graph = with_numbers(fit.plan.graph, table.numbers)
        return cls(graph, fit.operators(shrinkage), fit.for_queries(), shrinkage, floor, marginals, table, scales)

    @cached_property
    def columns(self) -> Columns:
        """Names and numbers of states of the columns; those of numbers have their levels."""
        return Columns(self.table.names, self.fit.states)

    @cached_property
    def numbers(self) -> dict[int, HatScale]:
        """The levels of each column of numbers, by its place."""
        return {place: scale for place, scale in enumerate(self.scales) if scale is not None}

    @our_arithmetic
    def log_prob(self, X: ArrayLike | Any) -> tuple[Floats, int]:
        """Return the log density of each row, missing cells integrated out, and how many are impossible."""
        rows = Rows.of(X, self.table)
        log_prob, lost = super().log_prob(level_rows(rows, self.scales))
        for values, scale in zip(rows.values().T, self.numbers.values(), strict=True):
            log_prob += scale.log_density(values)
        return log_prob, lost

    @our_arithmetic
    def predict(self, X: ArrayLike | Any, target: str) -> tuple[Floats, int]:
        """Return P(target | the other cells) of a category, and for how many rows it was undefined."""
        require_categories([target], self.table.numbers)
        return super().predict(level_rows(Rows.of(X, self.table), self.scales), target)

    @our_arithmetic
    def predict_number(self, X: ArrayLike | Any, target: str, quantiles: Sequence[float] | None = None) -> Floats:
        """Return the mean of a number given the other cells of each row, or some of its quantiles.

        Means have the shape (rows,), quantiles (rows, quantiles).
        """
        rows = Rows.of(X, self.table, absent=target)
        column = self.table.position(target)
        found = np.empty((rows.count,) if quantiles is None else (rows.count, len(quantiles)))
        step = rows_at_a_time(sum(self.columns.states))
        for start in range(0, rows.count, step):
            codes = self._levels(rows, start, start + step)
            ((table, _),) = self.distributions(codes, [column])
            found[start : start + step] = self._numbers_of(column, table, quantiles)
        return found

    def _numbers_of(self, column: int, tables: Floats, quantiles: Sequence[float] | None) -> Floats:
        """Return means of a column whose levels have some distributions, or their quantiles."""
        scale = self.numbers[column]
        return np.asarray(tables @ scale.means) if quantiles is None else scale.quantiles(tables, quantiles)

    def _levels(self, rows: Rows, start: int, stop: int) -> Codes:
        stop = min(stop, rows.count)
        return level_codes(rows.encode(start, stop), rows.values(start, stop), self.scales)

    def distributions(self, codes: Codes, columns: Sequence[int]) -> list[tuple[Floats, Booleans]]:
        """Return each wanted column's distribution in each row, given its other cells, and where it is lost.

        Of a number it is that of its levels.
        """
        found = []
        for column in columns:
            if column in self.numbers:
                found.append(self._level_table(codes, column))
            else:
                found += super().distributions(codes, [column])
        return found

    def _level_table(self, codes: Codes, column: int) -> tuple[Floats, Booleans]:
        (raw,) = self.operators.tables(codes, [column])
        marginal = self.marginals[column]
        own, _, usable = clipped_tables(raw, marginal)
        return np.asarray((1.0 - self.floor) * own + self.floor * marginal), ~usable

    @our_arithmetic
    def impute(  # type: ignore[override]
        self, X: ArrayLike | Any, method: FillMethod = "mode", seed: Seed = None
    ) -> tuple[Floats, int]:
        """Return codes of categories and values of numbers, missing ones filled, and how many were undefined.

        "mode" and "mean" fill in the mean of numbers, "median" their median; "sample" samples all missing cells of
        a row.
        """
        one_of("method", method, FILL_METHODS)
        rows, random = Rows.of(X, self.table), generator(seed)
        filled, undefined = np.empty((rows.count, len(self.table.names))), 0
        step = rows_at_a_time(sum(self.columns.states))
        for start in range(0, rows.count, step):
            codes, part = self._levels(rows, start, start + step), slice(start, start + step)
            if method == "sample":
                undefined += self._fill_draws(codes, random)
                filled[part] = numbers_in_levels(codes, self.scales, random)
            else:
                undefined += self._fill_cells(codes, filled[part], [0.5] if method == "median" else None)
        for values, place in zip(rows.values().T, self.numbers, strict=True):
            known = ~np.isnan(values)
            filled[known, place] = values[known]
        return filled, undefined

    def _fill_cells(self, codes: Codes, filled: Floats, quantiles: Sequence[float] | None) -> int:
        """Fill categories by most probable states and numbers by means or a quantile; return what was undefined."""
        filled[:] = codes
        missing, undefined = codes == np.asarray(self.columns.states), 0
        for column in np.flatnonzero(missing.any(axis=0)).tolist():
            lacking = np.flatnonzero(missing[:, column])
            ((table, lost),) = self.distributions(np.asfortranarray(codes[lacking]), [column])
            if column in self.numbers:
                filled[lacking, column] = self._numbers_of(column, table, quantiles).reshape(-1)
            else:
                filled[lacking, column] = table.argmax(axis=1)
            undefined += int(lost.sum())
        return undefined

    @our_arithmetic
    def draw(  # type: ignore[override]
        self, n: int, seed: Seed = None, given: Mapping[str, float] | None = None
    ) -> tuple[Floats, int]:
        """Return sampled rows: codes of categories and values of numbers; `given` has such by name."""
        random = generator(seed)
        codes, undefined = super().draw(n, random, None if given is None else self._in_levels(given))
        drawn = numbers_in_levels(codes.astype(np.float64), self.scales, random)
        for name, value in (given or {}).items():
            drawn[:, self.table.position(name)] = value
        return drawn, undefined

    @our_arithmetic
    def joint(self, names: Sequence[str]) -> Floats:
        """Return the table of some categories, numbers integrated out."""
        require_categories(names, self.table.numbers)
        return super().joint(names)

    @our_arithmetic
    def conditional(self, names: Sequence[str], given: Mapping[str, float]) -> Floats:
        """Return the table P(names | given) of categories; evidence may be numbers."""
        require_categories(different_names("names", names), self.table.numbers)
        return super().conditional(names, self._in_levels(given))

    @our_arithmetic
    def density(self, name: str, given: Mapping[str, float]) -> LevelDensity:
        """Return the distribution of a number given evidence, codes and values by name."""
        if name in given:
            raise DataError(f"{name!r} stands on both sides of the bar; leave it out of one")
        column = self.table.position(name)
        evidence = self.columns.evidence(self._in_levels(given))
        if given and np.isneginf(self.score(evidence)[0][0]):
            raise DataError(f"the evidence {dict(given)} has no positive probability under this model")
        ((table, _),) = self.distributions(evidence, [column])
        return LevelDensity(name, table[0], self.numbers[column])

    def _in_levels(self, given: Mapping[str, float]) -> dict[str, int]:
        """Return evidence with the level of each number."""
        made = {}
        for name, value in given.items():
            scale = self.scales[self.graph.column(name)]
            made[name] = int(value) if scale is None else int(scale.levels(np.array([value]))[0])
        return made
