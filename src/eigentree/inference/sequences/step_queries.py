"""Queries of hidden states that pass through steps in numpy: those of trees, and of sequences with inputs."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any

import numpy as np

from eigentree.inference.sequences.cell_tables import CellQueries
from eigentree.inference.sequences.sequence_passes import sums_of_sequences

if TYPE_CHECKING:
    from eigentree.arrays import Floats, Integers
    from eigentree.inference.sequences.links import InputLinks
    from eigentree.inference.sequences.tree_steps import TreeSteps

__all__ = ["StepQueries"]


class StepQueries(CellQueries):
    """Queries of trees and of sequences with inputs."""

    @abstractmethod
    def _read_steps(self, sequences: Any) -> tuple[TreeSteps, tuple[InputLinks, Integers, Floats], Floats]:
        """Return what passes over some sequences or trees read: links, the inputs of steps, and likelihoods.

        These are over a high one of the step, whose logs come last.
        """

    def log_prob(self, sequences: Any, threads: int = 1) -> Floats:
        """Return the log probability of each sequence, missing cells marginalised out; -inf if it is impossible."""
        del threads
        steps, known, highest = self._read_steps(sequences)
        return steps.upward(*known).log_prob + sums_of_sequences(highest, sequences.starts)

    def smoothed(self, sequences: Any) -> Floats:
        """Return P(state | all steps of its sequence), shape (steps, states); zeros where that is impossible."""
        steps, known, _ = self._read_steps(sequences)
        return steps.downward(*known[:2], steps.upward(*known))[0]

    def decoded(self, sequences: Any) -> tuple[Integers, Floats]:
        """Return the jointly most probable states of all steps, and their log probability with each sequence."""
        steps, (links, which, lines), highest = self._read_steps(sequences)
        with np.errstate(divide="ignore"):
            states, log_prob = steps.decoded(links, which, np.log(lines))
        return states, log_prob + sums_of_sequences(highest, sequences.starts)

    def sampled_states(self, sequences: Any, random: np.random.Generator) -> Integers:
        """Return the hidden states of all steps, sampled given the sequences; -1 where one is impossible."""
        steps, known, _ = self._read_steps(sequences)
        return steps.drawn(*known[:2], steps.upward(*known), random.random(sequences.steps))
