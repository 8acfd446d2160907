r"""What a spectral fit can be trusted for: ranks, singular values, and Theorem 1's sample size (sections 7 and 8).

Theorem 1: with probability :math:`1-\delta` the learned joint is within :math:`\epsilon` in total variation when

.. math:: N \ge O\left(\left(\frac{4 k_h^2}{3\beta^2}\right)^{d_{\max}}
          \frac{k_o^{e_{\max}} \ln(|C|/\delta)\,|C|^2}{\epsilon^2 \alpha^4}\right)

with :math:`\alpha = \min_i \sigma_{\tau_i}(P(O_i, O_{-i}))`, :math:`\beta = \min_i \sigma_{\tau_i}(F_i)`,
:math:`\tau_i` the number of states of the separator :math:`S_i`, :math:`d_{\max}` the highest order of a clique
tensor and :math:`e_{\max}` the most observed modes of one.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np

from eigentree.markup.charts import BondSpectrum
from eigentree.markup.figures import spectra_figure
from eigentree.markup.fit_report import FitReport
from eigentree.markup.html import number
from eigentree.spectral.learn.bonds import NO_SIGNAL
from eigentree.spectral.learn.spectral_fit import graph_parameters, operator_parameters

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from eigentree.arrays import Floats
    from eigentree.counting.counts import Counts
    from eigentree.inference.operators.normalised_scoring import ChainRuleScores
    from eigentree.markup.html import Html
    from eigentree.planning.view_plan import PlanNode
    from eigentree.spectral.learn.spectral_fit import SpectralFit

__all__ = ["Clipping", "SeparatorReport", "SpectraReport", "SpectralReport"]


class Clipping(NamedTuple):
    """How much of the learned distribution of the training data was negative, and clipped.

    Attributes
    ----------
    floor : float
        The share of its column's own distribution that each cell has at least.
    share : float
        How much of a cell's distribution is its column's own in place of what was negative, on average.
    refused : float
        The share of rows with a cell whose own probability was not positive, so that its column's own is used.
    rows : int
        On how many distinct rows this was measured.
    """

    floor: float
    share: float
    refused: float
    rows: int

    @classmethod
    def of(cls, floor: float, scores: ChainRuleScores, weights: NDArray[Any], cells: Any) -> Clipping:
        """Return how much was clipped in scored rows, given how often each counts and how many cells each has."""
        share = float(weights @ scores.clipped) / float(weights @ np.broadcast_to(cells, len(weights)))
        refused = float(weights @ (scores.refused > 0)) / float(weights.sum())
        return cls(floor, share if math.isfinite(share) else 0.0, refused, len(weights))

    def facts(self, what: str) -> list[tuple[str, str]]:
        """Return the same by name, in words; `what` are the rows, or pieces of sequences."""
        return [
            ("floor", f"each cell has at least {number(100 * self.floor)} % of its column's own distribution"),
            ("clipped", f"{number(100 * self.share)} % of cells' distributions"),
            (
                "refused",
                f"{number(100 * self.refused)} % of {what} have a cell with its column's own distribution instead",
            ),
        ]


class SpectraReport(FitReport):
    """What the reports of fits to tables and to sequences share: the singular values of their bonds."""

    bond: ClassVar[str] = "separator"
    """What a bond is of."""

    @property
    @abstractmethod
    def spectra(self) -> tuple[Any, ...]:
        """The bonds, each a `BondSpectrum`."""

    def weakest(self, count: int = 5) -> tuple[Any, ...]:
        """Return the bonds whose smallest singular value is smallest."""
        return tuple(sorted(self.spectra, key=lambda bond: bond.smallest)[:count])

    def figures(self) -> list[Html]:
        """Return the singular values."""
        return [spectra_figure(self.spectra)] if self.spectra else []

    def __str__(self) -> str:
        # Without the warnings, which the fit has given.
        lines = [f"{name:<30}{value}" for name, value in self.facts()]
        lines.append(f"weakest of {len(self.spectra)} {self.bond}s:")
        lines.append(f"  {self.bond:<24}{'rank':>6}{'smallest':>11}{'noise':>9}  views")
        for bond in self.weakest():
            name, views = bond.row
            mark = " !" if bond.weak else ""
            lines.append(
                f"  {name[:24]:<24}{bond.rank:>6}{bond.smallest:>11.3g}{bond.noise:>9.2g}  {views[:50]}{mark}"
            )
        if weak := sum(bond.weak for bond in self.spectra):
            lines.append(f"! {weak} of them have a direction that does not differ from noise")
        return "\n".join(lines)


@dataclass(frozen=True, eq=False)
class SeparatorReport(BondSpectrum):
    """What is known of one edge.

    Attributes
    ----------
    separator : tuple of str
    states : int
        Number of joint states of the separator.
    rank, generic_rank : int
        The rank learned, and the rank of almost all parameters.
    bound : str
        What bounds the rank.
    inside : tuple of str
    outside : tuple of tuple of str
        The views.
    singular_values : array
        Those of the pair moment as it was decomposed, largest first; the one after the rank, if any, comes last.
    gap : float
        The singular value at the rank over the one after it; infinity where there is none after it.
    noise : float
        The size that the singular values of pure noise would have with this many rows.
    seen : float
        The rank that the joint states of the views that occur in the data allow at most.
    """

    separator: tuple[str, ...]
    states: int
    rank: int
    generic_rank: int
    bound: str
    inside: tuple[str, ...]
    outside: tuple[tuple[str, ...], ...]
    singular_values: Floats
    gap: float
    noise: float
    seen: float = math.inf

    @property
    def label(self) -> str:
        """The separator, and what it is above."""
        return f"{', '.join(self.separator)} above {', '.join(self.inside)}"

    @property
    def row(self) -> tuple[str, str]:
        """The separator, its states and the views."""
        views = f"{self.states} states, {len(self.outside)} outside x {{{', '.join(self.inside)}}}"
        return f"{{{', '.join(self.separator)}}}", views

    @property
    def absent(self) -> bool:
        """Whether the data do not show the last direction at all; pseudo-rows do not count."""
        gone = self.smallest <= NO_SIGNAL * float(self.singular_values[0])
        return self.rank > 1 and (self.seen < self.rank or gone)


@dataclass(frozen=True, eq=False)
class SpectralReport(SpectraReport):
    """The report of a fit; scoring does not change it.

    Attributes
    ----------
    separators : tuple of SeparatorReport
    rows : float
        How many rows the fit saw; infinity for population moments.
    shrinkage : float
    tried : mapping of (float, float) to float
        The held-out mean log probability of each shrinkage and floor that "auto" tried.
    order : int
        d_max: the highest order of a clique tensor.
    observed_order : int
        e_max: the most observed modes of one.
    largest_hidden, largest_observed : int
        k_h and k_o: the most states of a hidden and of an observed variable.
    cliques : int
        ``|C|``: how many nodes the tree has.
    clipping : Clipping
        How much of the learned distribution was negative.
    hubs : int
        How many hubs were learned together.
    parameters, graph_parameters : int
        How many free parameters the learned operators have, and the tables of the graph.
    """

    title: ClassVar[str] = "Report of a spectral fit"

    separators: tuple[SeparatorReport, ...]
    rows: float
    shrinkage: float
    tried: Mapping[tuple[float, float], float]
    order: int
    observed_order: int
    largest_hidden: int
    largest_observed: int
    cliques: int
    clipping: Clipping
    hubs: int
    parameters: int
    graph_parameters: int

    @classmethod
    def of(
        cls,
        fit: SpectralFit,
        rows: float,
        shrinkage: float,
        tried: Mapping[tuple[float, float], float],
        counts: Counts | None = None,
        clipping: Clipping | None = None,
    ) -> SpectralReport:
        """Return the report of a fit, to counts unless it is one to population moments."""
        plan, graph = fit.plan, fit.plan.graph
        hidden = set(graph.hidden)
        separators = []
        orders, observed_orders = [1], [0]
        for node, edge in zip(plan.nodes, fit.edges, strict=True):
            incident = [node.separator, *(plan.nodes[child].separator for child in node.children)]
            own = 1 if node.observed is not None else 0
            orders.append(sum(map(len, incident)) + own)
            observed_orders.append(own + sum(name not in hidden for s in incident for name in s))
            if edge is not None:
                # States that never occur leave a singular value that only pseudo-rows lift, far below the noise.
                sizes = edge.singular_values
                weak = sizes[: node.rank][-1] < edge.noise
                gap = float(sizes[node.rank - 1] / sizes[node.rank]) if sizes[node.rank :].any() else math.inf
                seen = _seen(counts, node) if counts is not None and weak else math.inf
                separators.append(
                    SeparatorReport(
                        node.separator,
                        node.states,
                        node.rank,
                        node.generic_rank,
                        node.bound,
                        node.inside,
                        node.outside,
                        sizes,
                        gap,
                        edge.noise,
                        seen,
                    )
                )
        return cls(
            tuple(separators),
            rows,
            shrinkage,
            tried,
            max(orders),
            max(observed_orders),
            max((graph.states[name] for name in graph.hidden), default=1),
            max(graph.states[name] for name in graph.observed),
            len(plan.nodes),
            clipping or Clipping(0.0, 0.0, 0.0, 0),
            len(plan.hubs) if fit.together else 0,
            operator_parameters(plan, fit.together),
            graph_parameters(graph),
        )

    @property
    def error_ratio(self) -> float:
        """About how large errors are where the structure is true, relative to those of maximum likelihood.

        A graph can have more parameters than rows can identify; the operators then have fewer, and no more error.
        """
        return max(1.0, math.sqrt(self.parameters / self.graph_parameters)) if self.graph_parameters else 1.0

    @property
    def spectra(self) -> tuple[SeparatorReport, ...]:
        """The singular values of each separator."""
        return self.separators

    @property
    def alpha(self) -> float:
        """The smallest singular value that any edge divides by, as estimated; Theorem 1's alpha."""
        return min((report.smallest for report in self.separators), default=1.0)

    def rows_of_theorem_1(self, epsilon: float = 0.1, delta: float = 0.05, beta: float | None = None) -> float:
        """Return the number of rows that Theorem 1 requires, its hidden constant taken as 1.

        Parameters
        ----------
        epsilon, delta : float
            Total variation to reach, and the probability of missing it.
        beta : float, optional
            The smallest singular value of the transformations F_i, which the data do not show: by default
            estimated by the square root of alpha, as if the two sides of an edge were equally informative.
        """
        alpha = self.alpha
        if not alpha > 0:
            return math.inf
        beta = math.sqrt(alpha) if beta is None else beta
        logarithm = (
            self.order * math.log(4 * self.largest_hidden**2 / (3 * beta**2))
            + self.observed_order * math.log(self.largest_observed)
            + math.log(math.log(max(self.cliques, 2) / delta))
            + 2 * math.log(self.cliques)
            - 2 * math.log(epsilon)
            - 4 * math.log(alpha)
        )
        return math.exp(logarithm) if logarithm < 700 else math.inf

    @property
    def warnings(self) -> tuple[str, ...]:
        """What a user should know before trusting the fit: whether the data cannot support the rank of separators.

        A weak direction is harmless where shrinkage damps it or held-out rows chose not to, so it counts only
        where no shrinkage was wanted; a direction that the data do not show at all always counts.
        """
        chosen = self.shrinkage > 0 or bool(self.tried)
        short = [report for report in self.separators if report.absent or (report.weak and not chosen)]
        if not short:
            return ()
        # What a column does not show, no larger view with it does: the smallest view is nearest to the cause.
        worst = min(short, key=lambda report: (len(report.inside), report.smallest))
        return (
            f"the data cannot support the rank of {len(short)} of {len(self.separators)} separators: "
            f"{{{', '.join(worst.separator)}}} needs rank {worst.rank}, its singular value there is "
            f"{worst.smallest:.2g} and noise alone reaches {worst.noise:.2g}; give more rows, fewer hidden "
            f"states, a lower max_rank or some shrinkage",
        )

    def facts(self) -> list[tuple[str, str]]:
        """Return what is known of the fit by name, in words."""
        return [
            ("learned from", f"{self.rows:,.0f} rows" if math.isfinite(self.rows) else "population moments"),
            ("free parameters", f"{self.parameters:,} of operators, {self.graph_parameters:,} of the graph"),
            ("errors", f"at best about {self.error_ratio:.2f} times those of maximum likelihood"),
            ("smallest singular value kept", number(self.alpha)),
            ("highest order of a clique", f"{self.order}, of which observed {self.observed_order}"),
            ("shrinkage", f"{self.shrinkage:g}" + (", chosen by held-out rows" if self.tried else "")),
            *self.clipping.facts("rows"),
        ]


def _seen(counts: Counts, node: PlanNode) -> int:
    """Return the rank that the joint states of an edge's views allow: those that occur, on the poorer side."""

    def occurring(group: tuple[str, ...]) -> int:
        return int((counts.find([counts.columns.position(name) for name in group]).values > 0).sum())

    # Views share the constant direction, so each one after the first adds one direction less.
    return min(occurring(node.inside), 1 + sum(occurring(group) - 1 for group in node.outside))
