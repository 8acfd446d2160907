"""The model that a spectral fit leaves: one distribution, whatever noise has done to the operators."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from eigentree.checks import generator
from eigentree.data.rows import rows_at_a_time
from eigentree.engine.model import Model, check_count
from eigentree.engine.walking import floor_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from eigentree.arrays import Booleans, Codes, Floats, Integers
    from eigentree.checks import Seed
    from eigentree.engine.walking import Floor, Walked
    from eigentree.spectral.fit import SpectralFit

__all__ = ["SpectralModel"]


@dataclass(frozen=True, eq=False)
class SpectralModel(Model):
    """Learned operators, and the distribution that is made of them cell by cell; see `eigentree.engine.walking`.

    Scores, draws without evidence, tables and predictions are of this one distribution: `joint` is the score of
    all configurations of some columns, the others missing, and `conditional` and `predict` are ratios of scores.
    Where nothing was clipped the sum of a joint over a column is the joint of the others; where something was, rows
    with other missing cells have a slightly different distribution. Draws given known cells take these first, and
    are from the operators with negative entries left out.

    Attributes
    ----------
    fit : SpectralFit
    shrinkage : float
    floor : float
        The share of its column's own distribution that each cell has at least.
    marginals : tuple of array, shape (states,)
        The distribution of each column alone.
    """

    fit: SpectralFit
    shrinkage: float
    floor: float
    marginals: tuple[Floats, ...]

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

    def score(self, codes: Codes) -> tuple[Floats, int]:
        """Return the log probability of rows of codes; none has to be replaced."""
        return self.walked(codes).log_prob, 0

    def walked(self, codes: Codes) -> Walked:
        """Return the log probability of rows of codes, and what was clipped on the way."""
        return self.fit.walker.log_prob(self._values, self._floor, codes)

    def joint(self, names: Sequence[str]) -> Floats:
        """Return the table of some observed variables, axes in the order of the names."""
        columns = self._positions(names)
        return np.asarray(np.exp(self._log_table(columns, self.columns.missing(1))))

    def draw(self, n: int, seed: Seed = None, given: Mapping[str, int] | None = None) -> tuple[Integers, int]:
        """Return rows drawn from P(other columns | given), shape (n, columns), and how often that was undefined."""
        if given:
            return super().draw(n, seed, given)
        check_count(n)
        random = generator(seed)
        drawn = np.empty((n, len(self.columns.states)), np.int64)
        step = rows_at_a_time(drawn.shape[1])
        for start in range(0, n, step):
            codes = self.columns.missing(min(step, n - start))
            self.fit.walker.draw(self._values, self._floor, codes, random)
            drawn[start : start + len(codes)] = codes
        return drawn, 0

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
        """Put the likeliest state into each missing cell; return for how many that was undefined."""
        missing = codes == np.asarray(self.columns.states)
        known = codes.copy(order="F")
        undefined = 0
        for column in np.flatnonzero(missing.any(axis=0)).tolist():
            # Each state of each missing cell is a score of its own, so only rows that ask for one are looked at.
            holes = np.flatnonzero(missing[:, column])
            ((table, lost),) = self.distributions(np.asfortranarray(known[holes]), [column])
            codes[holes, column] = table.argmax(axis=1)
            undefined += int(lost.sum())
        return undefined
