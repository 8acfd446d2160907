"""The objective of trees of nodes under a hidden Markov tree, and how EM runs on them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from eigentree.em.chain_fit import ChainFit, SequenceObjective
from eigentree.em.init.chains import NUMBER_KINDS
from eigentree.em.number_chains import NumberChainObjective

if TYPE_CHECKING:
    import numpy as np

    from eigentree.em.multistart import Sample

__all__ = ["ForestFit", "ForestObjective"]


@dataclass(frozen=True, eq=False)
class ForestObjective(NumberChainObjective):
    """The objective of trees, whose nodes show categories, numbers, or some of both."""

    initialisers = {name: NUMBER_KINDS[name] for name in ("clusters", "random")}  # noqa: RUF012
    pool = ("clusters", "random")


class ForestFit(ChainFit):
    """Trees, and how EM runs on them: always on all, since pieces of a tree are none."""

    @cached_property
    def distinct(self) -> SequenceObjective:
        """The objective of all trees."""
        return self.whole

    def samples(self, random: np.random.Generator) -> list[Sample]:
        """Return all trees."""
        return [self.sample]
