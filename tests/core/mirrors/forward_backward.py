"""Sequences under a hidden chain as the equations say: one sequence, one step at a time, each message normalised.

A message has an axis for each of the latest hidden states, as many as the order.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from eigentree.arrays import Floats


def link_at(links: Sequence[Floats], t: int) -> Floats:
    """Return the table of the state of a step."""
    return links[min(t, len(links) - 1)]


def without_oldest(joint: Floats, links: Sequence[Floats]) -> Floats:
    """Return a distribution of states without the one that no further step depends on."""
    return joint.sum(axis=0) if joint.ndim == len(links) else joint


def forward(symbols: Any, emissions: Floats, links: Sequence[Floats]) -> tuple[list[Floats], float]:
    """Return P(latest states | steps so far) of each step, and log P(symbols)."""
    messages: list[Floats] = []
    before, log_prob = np.ones(()), 0.0
    for t, symbol in enumerate(symbols):
        joint = before[..., None] * link_at(links, t) * emissions[symbol]
        message = without_oldest(joint, links)
        if not message.sum() > 0.0:
            return messages, -np.inf
        log_prob += np.log(message.sum())
        before = message / message.sum()
        messages.append(before)
    return messages, log_prob


def expected(
    symbols: Any, emissions: Floats, links: Sequence[Floats]
) -> tuple[list[Floats], Floats, list[Floats], float]:
    """Return expected counts of links and of symbols, P(state | symbols) of each step, and log P(symbols)."""
    used, shown = [np.zeros(table.shape) for table in links], np.zeros(emissions.shape)
    messages, log_prob = forward(symbols, emissions, links)
    if log_prob == -np.inf:
        return used, shown, [np.zeros(len(links[0])) for _ in symbols], log_prob
    posteriors, ahead = [], np.ones(messages[-1].shape if messages else ())
    for t in reversed(range(len(symbols))):
        before = messages[t - 1] if t > 0 else np.ones(())
        following = link_at(links, t) * emissions[symbols[t]] * ahead
        joint = before[..., None] * following
        joint /= joint.sum()
        used[min(t, len(links) - 1)] += joint
        posteriors.append(joint.reshape(-1, len(links[0])).sum(axis=0))
        shown[symbols[t]] += posteriors[-1]
        ahead = following.sum(axis=-1)
        ahead = ahead / ahead.max()
    return used, shown, posteriors[::-1], log_prob
