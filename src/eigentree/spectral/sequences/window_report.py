"""What a fit to sequences can be trusted for: ranks and singular values of the bonds of a step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from eigentree.markup.charts import BondSpectrum
from eigentree.spectral.learn.diagnostics import Clipping, SpectraReport

if TYPE_CHECKING:
    from collections.abc import Mapping

    from eigentree.arrays import Floats
    from eigentree.counting.window_counts import SequenceStatistics
    from eigentree.planning.window_plan import Group
    from eigentree.spectral.sequences.sequence_model import SpectralSequenceModel

__all__ = ["SequenceReport", "StepBondReport"]


@dataclass(frozen=True, eq=False)
class StepBondReport(BondSpectrum):
    """What is known of the bond before one channel of a step.

    Attributes
    ----------
    channel : str
        The channel behind the bond, or several that are taken together, such as ``"child+left"``.
    rank : int
    inside, outside : tuple of tuple of str
        The groups of cells that are the views from the bond on, and before it, such as ``("x0[+1]",)``.
    singular_values : array
        Those of the pair moment as it was decomposed, largest first; the one after the rank, if any, comes last.
    noise : float
        The size that the singular values of pure noise would have with this many windows.
    states : None
        Nothing is known of the joint states of a bond.
    """

    channel: str
    rank: int
    inside: tuple[tuple[str, ...], ...]
    outside: tuple[tuple[str, ...], ...]
    singular_values: Floats
    noise: float
    states: int | None = None

    @property
    def label(self) -> str:
        """The channel behind the bond."""
        return f"before {self.channel}"

    @property
    def row(self) -> tuple[str, str]:
        """The same, and how many views there are."""
        return self.label, f"{len(self.inside)} after x {len(self.outside)} before"


@dataclass(frozen=True, eq=False)
class SequenceReport(SpectraReport):
    """The report of a fit to sequences; scoring does not change it.

    Attributes
    ----------
    bonds : tuple of StepBondReport
        One per channel, or per block of channels that are taken together.
    sequences, steps, windows : float
        How many of each there were, or the sums of their weights. Steps with fewer than `reach` others after them
        have no window.
    reach : int
    shrinkage : float
    tried : mapping of (float, float) to float
        The held-out log probability of a step at each shrinkage and floor that "auto" tried.
    clipping : Clipping
        How much of the learned distribution was negative; its rows are pieces of sequences.
    """

    title: ClassVar[str] = "Report of a spectral fit to sequences"

    bonds: tuple[StepBondReport, ...]
    sequences: float
    steps: float
    windows: float
    reach: int
    shrinkage: float
    tried: Mapping[tuple[float, float], float]
    clipping: Clipping

    @classmethod
    def of(
        cls,
        statistics: SequenceStatistics,
        model: SpectralSequenceModel,
        tried: Mapping[tuple[float, float], float],
    ) -> SequenceReport:
        """Return the report of what was learned from statistics."""
        clipping, sample = Clipping(model.floor, 0.0, 0.0, 0), statistics.sample
        if len(sample.hashes):
            pieces = statistics.pieces(sample.codes)
            scores = model.scored(pieces.codes, pieces.starts, pieces.begins)
            cells = np.diff(pieces.starts) * pieces.codes.shape[1]
            clipping = Clipping.of(model.floor, scores, sample.weights, cells)
        blocks = model.fit.plan.blocks.channels
        names = ["+".join(statistics.columns.names[channel] for channel in block) for block in blocks]

        def named(groups: tuple[Group, ...]) -> tuple[tuple[str, ...], ...]:
            return tuple(tuple(f"{names[cell.channel]}[{cell.lag:+d}]" for cell in group) for group in groups)

        pairs = zip(names, model.fit.plan.bonds, model.fit.edges, strict=True)
        return cls(
            tuple(
                StepBondReport(
                    name, bond.rank, named(bond.inside), named(bond.outside), edge.singular_values, edge.noise
                )
                for name, bond, edge in pairs
            ),
            float(statistics.sequences),
            float(statistics.steps),
            float(statistics.windows.rows),
            model.fit.plan.reach,
            model.shrinkage,
            tried,
            clipping,
        )

    @property
    def spectra(self) -> tuple[StepBondReport, ...]:
        """The singular values of each bond."""
        return self.bonds

    @property
    def warnings(self) -> tuple[str, ...]:
        """What a user should know: that there are only single cells, or less than an unshrunk fit needs."""
        if not self.windows > 0:
            return (
                f"no sequence has the {self.reach + 1} steps that one window takes, so steps are taken as "
                f"independent; give longer sequences, fewer hidden_states or a lower order",
            )
        weak = [bond for bond in self.bonds if bond.weak]
        if weak and not self.shrinkage > 0 and not self.tried:
            worst = min(weak, key=lambda bond: bond.smallest)
            return (
                f"the data cannot support the rank of the bond before {worst.channel!r}: it needs rank "
                f"{worst.rank}, its singular value there is {worst.smallest:.2g} and noise alone reaches "
                f"{worst.noise:.2g}; give more sequences, fewer hidden_states or some shrinkage",
            )
        return ()

    def facts(self) -> list[tuple[str, str]]:
        """Return what is known of the fit by name, in words."""
        return [
            (
                "learned from",
                f"{self.steps:,.0f} steps of {self.sequences:,.0f} sequences, {self.windows:,.0f} windows",
            ),
            ("shrinkage", f"{self.shrinkage:g}" + (", chosen by held-out pieces" if self.tried else "")),
            *self.clipping.facts("pieces of sequences"),
        ]
