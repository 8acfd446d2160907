"""The hidden states of the steps of one sequence as the equations say."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from core.mirrors.forward_backward import forward, link_at

if TYPE_CHECKING:
    from collections.abc import Sequence

    from eigentree.arrays import Floats, Integers


def filtered(symbols: Any, emissions: Floats, links: Sequence[Floats]) -> tuple[Floats, Floats]:
    """Return P(state of a step | steps up to it), and the message at the end."""
    states, proba = len(links[0]), np.zeros((len(symbols), len(links[0])))
    end = np.zeros(links[-1].size // states)
    messages, log_prob = forward(symbols, emissions, links)
    if log_prob > -np.inf and len(symbols) > 0:
        proba = np.array([message.reshape(-1, states).sum(axis=0) for message in messages])
        end[: messages[-1].size] = messages[-1].ravel()
    return proba, end


def decoded(symbols: Any, emissions: Floats, links: Sequence[Floats]) -> tuple[Integers, float]:
    """Return the jointly most probable states, and their log probability with the symbols."""
    with np.errstate(divide="ignore"):
        log_emissions, log_links = np.log(emissions), [np.log(table) for table in links]
    scores, arguments = np.zeros(()), []
    for t, symbol in enumerate(symbols):
        scores = scores[..., None] + link_at(log_links, t)
        arguments.append(None)
        if scores.ndim == len(links):
            arguments[-1] = scores.argmax(axis=0)
            scores = scores.max(axis=0)
        scores = scores + log_emissions[symbol]
    if len(symbols) == 0 or not scores.max() > -np.inf:
        return np.full(len(symbols), -1), 0.0 if len(symbols) == 0 else -np.inf
    place, states = np.unravel_index(scores.argmax(), scores.shape), []
    for dropped in reversed(arguments):
        states.append(place[-1])
        place = place[:-1] if dropped is None else (dropped[place], *place[:-1])
    return np.array(states[::-1]), float(scores.max())


def picked(weights: Floats, chance: float) -> int:
    """Return the entry at a share of the total."""
    return int(np.searchsorted(np.cumsum(weights), chance * weights.sum(), side="right"))


def sampled(links: Sequence[Floats], uniform: Floats) -> list[int]:
    """Return states sampled one after the other."""
    states: list[int] = []
    for t, chance in enumerate(uniform):
        latest = tuple(states[max(0, t - len(links) + 1) :])
        states.append(picked(link_at(links, t)[latest], chance))
    return states


def sampled_given(symbols: Any, emissions: Floats, links: Sequence[Floats], uniform: Floats) -> Integers:
    """Return states sampled given the symbols, the last ones first."""
    messages, log_prob = forward(symbols, emissions, links)
    if log_prob == -np.inf or len(symbols) == 0:
        return np.full(len(symbols), -1)
    states = np.zeros(len(symbols), np.int64)
    place = np.unravel_index(picked(messages[-1].ravel(), uniform[-1]), messages[-1].shape)
    for t in reversed(range(len(symbols))):
        states[t] = place[-1]
        if t >= len(links) - 1:
            # The state that the message of this step no longer has.
            joint = messages[t - 1][..., None] * link_at(links, t)
            place = (picked(joint[(slice(None), *place)], uniform[t - 1]), *place)
        place = place[:-1]
    return states
