"""Sequences through the operators of a step, cell by cell with matrices of numpy."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from eigentree.core.sequences.operator_steps import StepOperators
from eigentree.core.trees.chain_rule import Floor

LEAST = np.finfo(float).tiny


@dataclass
class Channel:
    """One channel's operators: a matrix for each state and one for any, and what each pattern can be."""

    operators: np.ndarray
    own: np.ndarray
    share: float
    low: np.ndarray
    high: np.ndarray
    matches: list[np.ndarray]
    patterns: np.ndarray
    clipping: float

    @classmethod
    def all_of(cls, steps: StepOperators, floor: Floor) -> list[Channel]:
        found = []
        for c, states in enumerate(steps.states):
            rank, following = steps.ranks[c], steps.ranks[c + 1]
            first, behind = steps.first_value[c], (c + 1) % len(steps.states)
            own = slice(floor.first[c], floor.first[c] + states)
            found.append(
                cls(
                    steps.values[first : first + (states + 1) * rank * following].reshape(-1, rank, following),
                    floor.marginals[own],
                    floor.share,
                    steps.low[behind, :following],
                    steps.high[behind, :following],
                    [
                        steps.matches[steps.first_match[p] : steps.first_match[p + 1]]
                        for p in range(steps.first_pattern[c], steps.first_pattern[c + 1])
                    ],
                    steps.patterns[own],
                    float(steps.clipping[c]),
                )
            )
        return found

    def made(self, table: np.ndarray, own: np.ndarray) -> np.ndarray:
        """The distribution that is made of a table of signed numbers."""
        positive, below = np.maximum(table, 0.0), self.clipping * np.maximum(-table, 0.0).sum()
        if not LEAST < positive.sum() <= positive.sum() + below < np.inf:
            return own
        return (1 - self.share) * (positive + below * own) / (positive.sum() + below) + self.share * own

    def table(self, message: np.ndarray) -> np.ndarray:
        return message @ self.operators[:-1, :, 0].T

    def cell(self, pattern: int, message: np.ndarray) -> tuple[float, float, float, np.ndarray]:
        """A cell's probability, the share of marginals in it, whether it is refused, and its operator."""
        if pattern == len(self.matches) - 1:
            return 1.0, 0.0, 0.0, self.operators[-1]
        table = self.table(message)
        positive, below = np.maximum(table, 0.0), self.clipping * np.maximum(-table, 0.0).sum()
        can_be = self.matches[pattern]
        q = self.made(table, self.own)[can_be].sum()
        if not LEAST < positive.sum() <= positive.sum() + below < np.inf:
            return q, 0.0, 0.0, self.operators[-1]
        clipped = below / (positive.sum() + below)
        seen = positive[can_be].sum()
        if seen <= 0:
            return q, clipped, 1.0, self.operators[-1]
        factor = (1 - self.share) / (positive.sum() + below) / q
        likely = can_be[table[can_be] > 0]
        return (
            q,
            clipped,
            0.0,
            factor * self.operators[likely].sum(axis=0) + (1 - factor * seen) * self.operators[-1],
        )

    def behind(self, message: np.ndarray, operator: np.ndarray) -> np.ndarray:
        found = np.clip(message @ operator, self.low, self.high)
        found[0] = 1.0
        return found

    def sampled(self, pattern: int, distribution: np.ndarray, uniform: float) -> int:
        """The state where a uniform number falls."""
        can_be = self.matches[pattern]
        possible = can_be[distribution[can_be] > 0]
        if not len(possible):
            return int(can_be[0])
        place = (np.cumsum(distribution[possible]) <= uniform).sum()
        return int(possible[min(place, len(possible) - 1)])


def walk(
    steps: StepOperators, floor: Floor, codes: np.ndarray, begins: bool, uniform: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Log probability, clipped and refused of one sequence; each step's; messages before steps; last; codes."""
    channels = Channel.all_of(steps, floor)
    message = steps.start if begins else np.eye(len(steps.start))[0]
    each, messages, clipped, refused = [], [], 0.0, 0.0
    codes = codes.copy()
    for t in range(codes.shape[1]):
        messages.append(message)
        own = 1.0
        for c, channel in enumerate(channels):
            if uniform is not None:
                q = channel.made(channel.table(message), channel.own)
                whole = q[channel.matches[codes[c, t]]].sum()
                codes[c, t] = channel.patterns[channel.sampled(codes[c, t], q, uniform[c, t] * whole)]
            q, share, no, operator = channel.cell(codes[c, t], message)
            own, clipped, refused = own * q, clipped + share, refused + no
            message = channel.behind(message, operator)
        each.append(own)
    with np.errstate(divide="ignore"):
        logs = np.log(each)
    found = np.array([logs.sum(), clipped, refused])
    return found, logs, np.array(messages).reshape(-1, len(message)), message, codes


def smooth(
    steps: StepOperators, floor: Floor, codes: np.ndarray, uniform: np.ndarray | None = None
) -> tuple[list[np.ndarray], np.ndarray]:
    """The distributions of cells of one sequence that can be several, and the codes with all of them sampled."""
    channels = Channel.all_of(steps, floor)
    cells = [(c, t) for t in range(codes.shape[1]) for c in range(len(channels))]
    seen, operators = [steps.start], []
    for c, t in cells:
        operators.append(channels[c].cell(codes[c, t], seen[-1])[3])
        seen.append(channels[c].behind(seen[-1], operators[-1]))
    behind = [np.eye(len(steps.start))[0]]
    for operator in reversed(operators):
        message = operator @ behind[-1]
        largest = np.abs(message).max()
        behind.append(message / largest if largest > 0 else message)
    behind.reverse()
    found, made = [], codes.copy()
    if all(len(channels[c].matches[codes[c, t]]) == 1 for c, t in cells):
        cells_known = {cell: int(channels[cell[0]].matches[codes[cell]][0]) for cell in cells}
        for (c, t), state in cells_known.items():
            made[c, t] = channels[c].patterns[state]
        return found, made
    message = steps.start
    for k, (c, t) in enumerate(cells):
        channel = channels[c]
        can_be = channel.matches[codes[c, t]]
        state = int(can_be[0])
        if uniform is None:
            message = seen[k]
        if len(can_be) > 1:
            table = np.array([message @ channel.operators[s] @ behind[k + 1] for s in can_be])
            alone = channel.own[can_be].sum()
            own = channel.own[can_be] / alone if alone > 0 else np.full(len(can_be), 1 / len(can_be))
            distribution = np.zeros(len(channel.own))
            distribution[can_be] = channel.made(table, own)
            found.append(distribution)
            if uniform is not None:
                state = channel.sampled(codes[c, t], distribution, uniform[c, t])
        if uniform is not None:
            made[c, t] = channel.patterns[state]
            message = channel.behind(message, channel.cell(made[c, t], message)[3])
    return found, made
