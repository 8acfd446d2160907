"""The model of a spectral fit: one normalised distribution, whatever the noise of the operators."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from eigentree.core.trees.categorical_sampling import choose
from eigentree.data.tables.rows import rows_at_a_time
from eigentree.errors import DataError
from eigentree.inference.model import Model, check_count
from eigentree.inference.operators.normalised_scoring import floor_of
from eigentree.validation import Seed, generator, our_arithmetic

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from eigentree.arrays import Booleans, Codes, Floats, Integers
    from eigentree.inference.operators.normalised_scoring import ChainRuleScores, Floor
    from eigentree.spectral.learn.spectral_fit import SpectralFit
    from eigentree.validation import Seed

__all__ = ["SpectralModel"]


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
        return cls(fit.plan.graph, fit.operators(shrinkage), fit, shrinkage, floor, marginals)

    @cached_property
    def _values(self) -> Floats:
        return self.fit.values(self.shrinkage)

    @cached_property
    def _floor(self) -> Floor:
        return floor_of(self.floor, self.marginals)

    @our_arithmetic
    def score(self, codes: Codes) -> tuple[Floats, int]:
        """Return the log probability of rows of codes, and how many are impossible, for want of a floor."""
        log_prob = self.scored(codes).log_prob
        return log_prob, int(np.isneginf(log_prob).sum())

    def scored(self, codes: Codes) -> ChainRuleScores:
        """Return the log probability of rows of codes, and what was clipped on the way."""
        return self.fit.walker.log_prob(self._values, self._floor, codes)

    @our_arithmetic
    def draw(self, n: int, seed: Seed = None, given: Mapping[str, int] | None = None) -> tuple[Integers, int]:
        """Return rows sampled from P(other columns | given), shape (n, columns), and that it was never undefined.

        Raises
        ------
        DataError
            When what is given has probability zero.
        """
        check_count(n, len(self.columns.names))
        random = generator(seed)
        evidence = self._evidence({} if given is None else given)
        if given and np.isneginf(self.score(evidence)[0][0]):
            raise DataError(f"the evidence {dict(given)} has no positive probability under this model")
        sampled = np.empty((n, len(self.columns.states)), np.int64)
        step = rows_at_a_time(sampled.shape[1])
        for start in range(0, n, step):
            codes = np.asfortranarray(np.repeat(evidence, min(step, n - start), axis=0))
            if given:
                self._fill_draws(codes, random)
            else:
                self.fit.walker.draw(self._values, self._floor, codes, random)
            sampled[start : start + len(codes)] = codes
        return sampled, 0

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
        undefined = 0
        for column in self.fit.walker.order:
            lacking = np.flatnonzero(codes[:, column] == self.columns.states[column])
            if len(lacking):
                ((table, lost),) = self.distributions(np.asfortranarray(codes[lacking]), [column])
                chosen = np.empty(len(lacking), np.int64)
                choose(table.cumsum(axis=1), np.arange(len(lacking)), random.random(len(lacking)), chosen)
                codes[lacking, column] = chosen
                undefined += int(lost.sum())
        return undefined
