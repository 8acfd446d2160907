"""Runs of EM on trees, from random starts or by splitting hidden states and merging them again."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from eigentree.em.grammars.grammar_objective import GrammarVector, plain_grammar
from eigentree.em.grammars.state_splits import StateMap, merge_losses, perturbed
from eigentree.em.multistart import Candidate, Sample, run_each
from eigentree.em.optimize.run import em_run
from eigentree.em.optimize.stopping import SHARE_OF_ERROR, SHORT_RUN, USUAL_TOLERANCES, Stopping

if TYPE_CHECKING:
    from collections.abc import Iterator

    from eigentree.arrays import Floats, Integers
    from eigentree.em.grammars.grammar_objective import GrammarObjective
    from eigentree.em.multistart import Multistart
    from eigentree.em.optimize.stopping import Rule
    from eigentree.inference.grammars.grammar import GrammarLayout

__all__ = ["GrammarFit", "fit_by_splits", "fit_from_random"]

NOISE = 1.0
"""By which share parameters differ at random from those of states that are alike. Petrov et al. (2006) take a
percent, but what nodes show of each other grows with the product of their noises, and runs end before."""


@dataclass(frozen=True, eq=False)
class GrammarFit:
    """Trees, and how EM runs on them.

    Attributes
    ----------
    whole : GrammarObjective
        The trees to learn from, under a grammar of one state per label.
    held : GrammarObjective or None
        Trees that say when to stop, and which states are merged.
    roots : array
        How often each label is that of a root.
    most : array of int
        The most states of each label.
    pseudo_counts : float
    rule : {"gain", "paper"}
    tol : float or None
    max_iter : int
    accelerate : bool
    """

    whole: GrammarObjective
    held: GrammarObjective | None
    roots: Floats
    most: Integers
    pseudo_counts: float
    rule: Rule
    tol: float | None
    max_iter: int
    accelerate: bool

    def under(self, mapped: StateMap) -> GrammarFit:
        """Return the fit with the states that a map leads to."""
        before = self.whole.layout.grammar
        layout = mapped.layout(before)
        backoff = mapped.backoff(self.whole.backoff, before)
        vector = GrammarVector(layout)
        prior = self.pseudo_counts * plain_grammar(layout, self.roots)
        whole = replace(self.whole, layout=vector, backoff=backoff, prior=prior)
        held = self.held and replace(self.held, layout=vector, backoff=backoff, prior=np.zeros_like(prior))
        return replace(self, whole=whole, held=held)

    def weighing(self, used: list[Floats]) -> GrammarFit:
        """Return the fit in which children of unseen rules have states as often as these occur with each label."""
        backoff, at = self.whole.backoff, self.layout.state_at
        children = backoff.children.copy()
        for label, own in enumerate(used):
            part = children[at[label] : at[label + 1]]
            part[:] = part.sum() * (own + 1.0 / len(own)) / (own.sum() + 1.0)
        backoff = replace(backoff, children=children)
        held = self.held and replace(self.held, backoff=backoff)
        return replace(self, whole=replace(self.whole, backoff=backoff), held=held)

    @property
    def layout(self) -> GrammarLayout:
        """Where each parameter stands."""
        return self.whole.layout.grammar

    @property
    def stopping(self) -> Stopping:
        """When a run has converged."""
        if self.tol is not None or self.rule == "paper":
            return Stopping(self.rule, USUAL_TOLERANCES["paper"] if self.tol is None else self.tol)
        return Stopping.within_chance(SHARE_OF_ERROR, self.whole.layout.free_count, self.whole.weight)

    def runs(self, candidates: list[Candidate]) -> Iterator[Multistart]:
        """Yield the state while candidates run until they have converged."""
        sample = Sample(self.whole, len(self.whole.weights), self.whole.layout.free_count / 2.0)
        return run_each(sample, candidates, self.stopping, self.max_iter, self.accelerate, self.held)

    def short_run(self, start: Floats) -> Floats:
        """Return the parameters after a short run, long enough for states to differ."""
        *_, run = em_run(self.whole, start, self.stopping, min(SHORT_RUN, self.max_iter), self.accelerate)
        return run.here.parameters


def fit_from_random(
    fit: GrammarFit, n_init: int, random: np.random.Generator
) -> Iterator[tuple[GrammarFit, GrammarObjective, Multistart]]:
    """Yield the state of a fit, again and again, from random parameters around the plain grammar."""
    fit = fit.under(StateMap.split(fit.layout.states, fit.most))
    plain = plain_grammar(fit.layout, fit.roots)
    candidates = [
        Candidate("random", partial(perturbed, fit.whole.layout, plain, NOISE, random)) for _ in range(n_init)
    ]
    return ((fit, fit.whole, state) for state in fit.runs(candidates))


def fit_by_splits(
    fit: GrammarFit, n_init: int, random: np.random.Generator
) -> Iterator[tuple[GrammarFit, GrammarObjective, Multistart]]:
    """Yield the state of the last run of a fit, again and again, after states were split and merged.

    Of several starts, which differ by chance, the one with the highest held-out log-likelihood goes on.
    """
    ends = [_grown(fit, random) for _ in range(n_init)]
    fit, start = max(ends, key=lambda end: (end[0].held or end[0].whole).log_likelihood(end[1]))
    return ((fit, fit.whole, state) for state in fit.runs([Candidate("split-merge", lambda: start)]))


def _grown(fit: GrammarFit, random: np.random.Generator) -> tuple[GrammarFit, Floats]:
    """Return the fit and its parameters after as many rounds of splits as lead to the most states."""
    values = plain_grammar(fit.layout, fit.roots)
    for _ in range(int(fit.most.max() - 1).bit_length()):
        states = fit.layout.states
        wanted = np.minimum(2 * states, fit.most)
        split = StateMap.split(states, wanted)
        larger = fit.under(split)
        start = perturbed(larger.whole.layout, split.values(values, fit.layout), NOISE, random)
        values = larger.short_run(start)
        counts = larger.whole.counted(values).counts
        used = [larger.layout.block(counts, label).sum(axis=1) for label in range(len(states))]
        merged = _merges(larger, values, states, used)
        values = merged.values(values, larger.layout)
        fit = larger.under(merged).weighing([own @ share for own, share in zip(used, merged.shares, strict=True)])
        if (fit.layout.states == states).all():
            break
    return fit, values


def _merges(fit: GrammarFit, values: Floats, before: Integers, used: list[Floats]) -> StateMap:
    """Return which states of a split are merged again.

    Those whose split does not raise the log-likelihood of held-out trees by more than its standard error; without
    these, those whose split raises that of the training data by less than the parameters it takes, as chance alone
    would (Akaike).
    """
    layout = fit.layout
    pairs = []
    for old, new in zip(before.tolist(), layout.states.tolist(), strict=True):
        own = np.zeros(new - 1, np.bool_)
        # The first states were split, and stand in pairs.
        own[: 2 * (new - old) : 2] = True
        pairs.append(own)
    losses = merge_losses(fit.held or fit.whole, values, pairs, used)
    for label, (own, (loss, square)) in enumerate(zip(pairs, losses, strict=True)):
        own[np.flatnonzero(own)] = loss <= (np.sqrt(square) if fit.held else layout.widths[label])
    return StateMap.merged(pairs, used)
