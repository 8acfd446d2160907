"""What a spectral fit to trees can be trusted for: ranks and singular values of each label."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from eigentree.markup.charts import BondSpectrum
from eigentree.markup.html import number
from eigentree.spectral.learn.diagnostics import SpectraReport

if TYPE_CHECKING:
    from collections.abc import Mapping

    from eigentree.arrays import Floats
    from eigentree.spectral.grammars.grammar_learning import SpectralGrammarFit

__all__ = ["GrammarReport", "LabelReport"]


@dataclass(frozen=True, eq=False)
class LabelReport(BondSpectrum):
    """What is known of the bond between the subtrees below nodes of a label and the trees around them.

    Attributes
    ----------
    name : str
        The label.
    nodes : float
        How many nodes of it there were, or are expected in a tree.
    rank : int
        The number of hidden states that were kept.
    singular_values : array
        Those of the scaled pair moment, largest first; the one after the rank, if any, comes last.
    noise : float
        The size that the singular values of pure noise would have with this many nodes.
    states : None
        Nothing else bounds the rank.
    """

    name: str
    nodes: float
    rank: int
    singular_values: Floats
    noise: float
    states: int | None = None

    @property
    def label(self) -> str:
        """The label."""
        return self.name

    @property
    def row(self) -> tuple[str, str]:
        """The label, and how many nodes it has."""
        return self.name, f"{number(self.nodes)} nodes"


@dataclass(frozen=True, eq=False)
class GrammarReport(SpectraReport):
    """The report of a spectral fit to trees; scoring does not change it.

    Attributes
    ----------
    labels : tuple of LabelReport
    trees, nodes : float
        How many there were; one tree, and its expected nodes, for the moments of a grammar.
    shrinkage : float
    tried : mapping of (float, float) to float
        The held-out log probability of a node at each shrinkage that "auto" tried; the second number is 0.
    """

    title: ClassVar[str] = "Report of a spectral fit to trees"
    bond: ClassVar[str] = "label"

    labels: tuple[LabelReport, ...]
    trees: float
    nodes: float
    shrinkage: float
    tried: Mapping[tuple[float, float], float]

    @classmethod
    def of(
        cls, fit: SpectralGrammarFit, shrinkage: float, tried: Mapping[tuple[float, float], float]
    ) -> GrammarReport:
        """Return the report of a fit at some shrinkage."""
        each = zip(fit.symbols.labels, fit.nodes.tolist(), fit.bonds, strict=True)
        return cls(
            tuple(
                LabelReport(name, nodes, len(bond.damping), bond.singular_values, bond.noise)
                for name, nodes, bond in each
            ),
            float(fit.roots.sum()),
            float(fit.nodes.sum()),
            shrinkage,
            tried,
        )

    @property
    def spectra(self) -> tuple[LabelReport, ...]:
        """The singular values of each label."""
        return self.labels

    @property
    def warnings(self) -> tuple[str, ...]:
        """What a user should know: that the trees show less than an unshrunk fit needs."""
        weak = [each for each in self.labels if each.weak]
        if weak and not self.shrinkage > 0 and not self.tried:
            worst = min(weak, key=lambda each: each.margin)
            return (
                f"the trees cannot support the rank of the label {worst.name!r}: it has rank {worst.rank}, its "
                f"singular value there is {worst.smallest:.2g} and noise alone reaches {worst.noise:.2g}; give "
                f"more trees, fewer hidden_states or some shrinkage",
            )
        return ()

    def facts(self) -> list[tuple[str, str]]:
        """Return what is known of the fit by name, in words."""
        kept = max((each.rank for each in self.labels), default=1)
        return [
            ("learned from", f"{self.nodes:,.0f} nodes of {self.trees:,.0f} trees"),
            ("largest rank of a label", f"{kept}"),
            ("shrinkage", f"{self.shrinkage:g}" + (", chosen by held-out trees" if self.tried else "")),
        ]
