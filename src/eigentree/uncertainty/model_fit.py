"""How well a model fits counts: goodness of fit of the whole table, residuals of columns and of pairs."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np

from eigentree.counting.pair_counts import PairCounts
from eigentree.data.tables.labeled_table import LabeledTable
from eigentree.data.tables.rows import Rows
from eigentree.data.tables.weights import positive_weights
from eigentree.em.estep.unique_rows import DistinctRows
from eigentree.errors import DataError, ParameterError, UnknownNameError, quoted
from eigentree.inference.networks.network import LatentNetwork
from eigentree.inference.networks.pair_tables import PairTables
from eigentree.uncertainty.result_tables import ResultTable
from eigentree.validation import our_arithmetic

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import ArrayLike

    from eigentree.arrays import Floats
    from eigentree.uncertainty.result_tables import Labelled

__all__ = ["FitStatistic", "GoodnessOfFit", "Residual", "Residuals", "bivariate_residuals", "goodness_of_fit"]

POWERS = {"G²": 0.0, "X²": 1.0, "Cressie-Read": 2 / 3}
"""The statistics, by their power in the family of Cressie and Read (1984)."""

ENOUGH = 5
"""Rows per cell below which G² is far from a chi-squared distribution (Agresti 2002, section 9.8)."""


class FitStatistic(NamedTuple):
    """A statistic that compares counts with those expected under a model.

    Attributes
    ----------
    value : float
    p_value : float
        By the chi-squared distribution; NaN where there are no degrees of freedom.
    """

    value: float
    p_value: float


@dataclass(frozen=True, eq=False, repr=False)
class GoodnessOfFit(ResultTable):
    """How well a model fits the counts of all combinations of labels.

    Attributes
    ----------
    g2 : FitStatistic
        The likelihood-ratio statistic G² = 2 Σ observed · log(observed / expected), the deviance.
    x2 : FitStatistic
        Pearson's X² = Σ (observed - expected)² / expected.
    cressie_read : FitStatistic
        The power divergence with power 2/3 (Cressie and Read 1984), between them.
    df : int
        Degrees of freedom: cells - 1 - parameters. (poLCA takes the number of rows for that of cells where there
        are fewer.)
    cells : int
        How many combinations of labels there are.
    parameters : int
        Those that were estimated; none of a `LatentNetwork`, whose tables are taken as known.
    rows : float
        How many rows were compared, those without a missing cell.
    left_out : float
        How many rows have a missing cell.
    """

    g2: FitStatistic
    x2: FitStatistic
    cressie_read: FitStatistic
    df: int
    cells: int
    parameters: int
    rows: float
    left_out: float

    @property
    def notes(self) -> Sequence[str]:  # type: ignore[override]
        """How many rows were compared, and whether p-values can be relied on."""
        found = [f"{self.rows:,g} rows, {self.cells:,} cells, {self.parameters:,} parameters"]
        if self.left_out:
            found.append(f"{self.left_out:,g} rows with a missing cell are left out")
        if self.df <= 0:
            found.append("no degrees of freedom are left: there are as many parameters as cells")
        elif self.rows < ENOUGH * self.cells:
            found.append(
                f"less than {ENOUGH} rows per cell: p-values are unreliable; look at pairs (bivariate_residuals)"
            )
        return found

    def _table(self) -> Labelled:
        own = (self.g2, self.x2, self.cressie_read)
        numbers = {"value": [each.value for each in own], "df": self.df, "p_value": [each.p_value for each in own]}
        return ["statistic"], [(name,) for name in POWERS], numbers


class Residual(NamedTuple):
    """How far the counts of some columns are from those expected under a model.

    Attributes
    ----------
    columns : tuple of str
        Two columns, or one.
    x2 : float
        Pearson's X² of their table.
    df : int
        (states - 1) of each, multiplied.
    residual : float
        X² / df, the bivariate residual (BVR) of Latent GOLD: about 1 where the model explains the table.
    """

    columns: tuple[str, ...]
    x2: float
    df: int
    residual: float


@dataclass(frozen=True, eq=False, repr=False)
class Residuals(ResultTable):
    """Residuals of all pairs of columns, and of each column.

    It prints the pairs, the largest residual first.

    Attributes
    ----------
    pairs, columns : list of Residual
        The largest first.
    left_out : tuple of str
        Columns of numbers, which have no counts.
    """

    pairs: list[Residual]
    columns: list[Residual]
    left_out: tuple[str, ...]
    _tables: Mapping[tuple[str, ...], LabeledTable]

    _headings: ClassVar[Mapping[str, str]] = {"one": "column", "other": "column", "x2": "X²"}

    def table(self, *columns: str) -> LabeledTable:
        """Return (observed - expected) / √expected of each cell of a pair of columns, or of one column.

        Their squares add up to X².
        """
        for order in (columns, columns[::-1]):
            if order in self._tables:
                found = self._tables[order]
                names = order if order == columns else columns
                array = np.asarray(found) if order == columns else np.asarray(found).T
                states = found.states if order == columns else found.states[::-1]
                return LabeledTable(array, names, states)
        known = sorted({name for key in self._tables for name in key})
        raise UnknownNameError(f"there are no residuals of {quoted(columns)}; name one or two of {quoted(known)}")

    @property
    def notes(self) -> Sequence[str]:  # type: ignore[override]
        """The column of the largest residual by itself, and which columns have none."""
        found = []
        worst = next(iter(self.columns), None)
        # Maximum likelihood fits each column exactly where no cell is missing.
        if worst is not None and f"{worst.residual:.4f}" != "0.0000":
            found.append(f"largest residual of a single column: {worst.residual:.4f}, {worst.columns[0]}")
        if self.left_out:
            found.append(f"left out, as numbers have no counts: {', '.join(self.left_out)}")
        return found

    def _table(self) -> Labelled:
        names = ("x2", "df", "residual")
        numbers = {name: [getattr(each, name) for each in self.pairs] for name in names}
        return ["one", "other"], [each.columns for each in self.pairs], numbers


@our_arithmetic
def goodness_of_fit(model: Any, X: ArrayLike | Any, sample_weight: ArrayLike | None = None) -> GoodnessOfFit:
    """Return how well a model fits the counts of all combinations of labels: G², X², degrees of freedom, p-values.

    As in poLCA, rows with a missing cell are left out.

    Parameters
    ----------
    model : LatentNetwork, or a fitted LatentClassModel, EMJunctionTree or OnlineEMJunctionTree
        Without columns of numbers; p-values presuppose that it was fitted to these rows by maximum likelihood.
    X : array-like of shape (rows, columns), a data frame, or rows of letters
    sample_weight : array-like of shape (rows,), optional
        How often each row counts.

    Examples
    --------
    >>> import eigentree as et
    >>> patterns = [[0, 0, 0], [0, 0, 1], [0, 1, 1], [1, 0, 1], [1, 1, 0], [1, 1, 1]]
    >>> counts = [60, 20, 30, 25, 15, 90]
    >>> one = et.LatentClassModel(1).fit(patterns, sample_weight=counts)
    >>> et.goodness_of_fit(one, patterns, counts)
       statistic     value  df       p
              G²  194.7812   4  0.0000
              X²  219.5724   4  0.0000
    Cressie-Read  200.8287   4  0.0000
    240 rows, 8 cells, 3 parameters
    """
    network, rows, weights = _compared(model, X, sample_weight)
    if rows.columns.numbers:
        raise DataError(
            f"columns of numbers have no counts, and {', '.join(rows.columns.numbers)} are some; "
            f"bivariate_residuals compares the other columns"
        )
    codes = rows.encode()
    complete = (codes != np.array(rows.columns.states)).all(axis=1)
    if not (weights[complete] > 0).any():
        raise DataError("every row has a missing cell, and goodness of fit compares complete rows")
    seen = DistinctRows.of(codes[complete], rows.columns.states, weights[complete])
    total = float(seen.weights.sum())
    log_prob, _ = network.model.log_prob(Rows.of_codes(seen.codes, rows.columns))
    cells = math.prod(rows.columns.states)
    parameters = 0 if isinstance(model, LatentNetwork) else model.n_parameters_
    df = cells - 1 - parameters
    expected = np.log(total) + log_prob
    g2, x2, between = (_divergence(seen.weights, expected, power, df) for power in POWERS.values())
    return GoodnessOfFit(g2, x2, between, df, cells, parameters, total, float(weights.sum()) - total)


def _divergence(observed: Floats, log_expected: Floats, power: float, df: int) -> FitStatistic:
    """Return 2 / (λ (λ + 1)) Σ observed ((observed / expected)^λ - 1) with λ the power, in its limit for 0.

    Cells without a count add nothing, where the total of all cells that are expected is that of the counts.
    """
    from scipy.stats import chi2

    with np.errstate(over="ignore", divide="ignore"):
        log_ratio = np.log(observed) - log_expected
        each = log_ratio if not power else np.expm1(power * log_ratio) / (power * (power + 1))
        # Rounding must not make it negative.
        value = max(float(2.0 * (observed @ each)), 0.0)
    return FitStatistic(value, float(chi2.sf(value, df)) if df > 0 else math.nan)


@our_arithmetic
def bivariate_residuals(model: Any, X: ArrayLike | Any, sample_weight: ArrayLike | None = None) -> Residuals:
    """Return how far the table of each pair of columns is from that expected under a model, Pearson's X² / df.

    Large ones show where columns depend on each other within classes. They are no chi-squared statistics, since the
    parameters were fitted to the same rows: 1 is usual, and beyond about 4 a pair is worth a look. Where cells are
    missing, a pair is judged by the rows that have both.

    Parameters
    ----------
    model : LatentNetwork, or a fitted LatentClassModel, EMJunctionTree or OnlineEMJunctionTree
    X : array-like of shape (rows, columns), a data frame, or rows of letters
        Columns of numbers are left out.
    sample_weight : array-like of shape (rows,), optional
        How often each row counts.

    Examples
    --------
    >>> import eigentree as et
    >>> patterns = [[0, 0, 0], [0, 0, 1], [0, 1, 1], [1, 0, 1], [1, 1, 0], [1, 1, 1]]
    >>> counts = [60, 20, 30, 25, 15, 90]
    >>> one = et.LatentClassModel(1).fit(patterns, sample_weight=counts)
    >>> found = et.bivariate_residuals(one, patterns, counts)
    >>> found
    column  column       X²  df  residual
        x0      x1  69.2907   1   69.2907
        x1      x2  58.2511   1   58.2511
        x0      x2  51.2956   1   51.2956
    >>> found.table("x0", "x1")
    x0     x1=0     x1=1
     0   4.5948  -4.0522
     1  -4.2266   3.7275
    """
    network, rows, weights = _compared(model, X, sample_weight)
    columns = rows.columns
    if len(columns.numbers) == len(columns.names):
        raise DataError("all columns are numbers, which have no counts; residuals are those of columns of labels")
    kept = columns.only([name for name in columns.names if name not in columns.numbers])
    places = [columns.position(name) for name in kept.names]
    counts = PairCounts.empty(kept).count(Rows.of_codes(rows.encode()[:, places], kept), weights)
    # Without their emissions numbers are marginalised out.
    pairs = PairTables(LatentNetwork(network.graph, network.tables))
    start = dict(zip(network.graph.observed, pairs.starts.tolist(), strict=True))
    tables: dict[tuple[str, ...], LabeledTable] = {}
    shares: dict[str, Floats] = {}
    for other, joint in pairs.tables(kept.names):
        for one in reversed(kept.names[: kept.position(other) + 1]):
            expected = joint[start[one] : start[one] + network.graph.states[one]]
            seen = np.asarray(counts.table(one, other), np.float64)
            key: tuple[str, ...] = (one, other)
            if one == other:
                shares[one] = expected = np.diagonal(expected)
                key, seen = (one,), np.diagonal(seen)
            elif not expected.any():
                # They are in parts of the graph that do not meet.
                expected = np.outer(shares[one], shares[other])
            tables[key] = LabeledTable(_cell_residuals(seen, expected), key, [kept.labels(each) for each in key])
    ordered = {key: tables[key] for size in (1, 2) for key in combinations(kept.names, size)}
    found = sorted(
        (_residual(key, table) for key, table in ordered.items()),
        key=lambda each: -each.residual if each.residual == each.residual else math.inf,
    )
    both, alone = ([each for each in found if len(each.columns) == size] for size in (2, 1))
    return Residuals(both, alone, columns.numbers, ordered)


def _cell_residuals(observed: Floats, shares: Floats) -> Floats:
    """Return (observed - expected) / √expected of each cell; infinite where an impossible cell was observed."""
    expected = shares * observed.sum()
    difference = observed - expected
    found: Floats = np.where(observed > 0, np.inf, 0.0)
    np.divide(difference, np.sqrt(expected), out=found, where=expected > 0)
    return found


def _residual(columns: tuple[str, ...], table: LabeledTable) -> Residual:
    x2, df = float((np.asarray(table) ** 2).sum()), math.prod(size - 1 for size in table.shape)
    return Residual(columns, x2, df, x2 / df if df else math.nan)


def _compared(
    model: Any, X: ArrayLike | Any, sample_weight: ArrayLike | None
) -> tuple[LatentNetwork, Rows, Floats]:
    """Return the network of a model, and rows with their weights."""
    network = model if isinstance(model, LatentNetwork) else getattr(model, "network_", None)
    if not isinstance(network, LatentNetwork):
        raise ParameterError(
            f"the model is a LatentNetwork or a fitted LatentClassModel, EMJunctionTree or OnlineEMJunctionTree, "
            f"not {quoted(model)}"
        )
    columns = network.columns if model is network else model.columns_.reading(model.handle_unknown)
    rows = Rows.of(X, columns)
    return network, rows, positive_weights(sample_weight, rows.count)
