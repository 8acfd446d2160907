"""One EM iteration of a 2nd-order HMM in plain numpy, as well as it can be done: what `eigentree` is compared with.

Forward-backward over all rows of a block at once. Rows are the last axis, so every operation is a matrix product
or an elementwise one over contiguous rows. Blocks bound the memory; of the sizes tried, the fastest is used.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

import eigentree as et

Floats = NDArray[np.float64]

BLOCK = 16_384


class NumpyHMM:
    """The tables of a non-homogeneous 2nd-order HMM (`eigentree.zoo.hmm(length, order=2, …)`) as numpy arrays.

    ``first`` is P(h0), ``second`` P(h1 | h0), ``moves[t]`` P(h_t | h_{t-2}, h_{t-1}) for t >= 2 and ``emits[t]``
    P(x_t | h_t).
    """

    def __init__(self, network: et.LatentNetwork) -> None:
        tables = network.tables
        self.length = len(network.graph.observed)
        self.first: Floats = np.array(tables["h0"])
        self.second: Floats = np.array(tables["h1"])
        self.moves: Floats = np.stack([tables[f"h{t}"] for t in range(2, self.length)])
        self.emits: Floats = np.stack([tables[f"x{t}"] for t in range(self.length)])

    def step(self, columns: NDArray[np.uint8]) -> float:
        """Take one EM step on codes of shape (length, rows); return the log-likelihood before it."""
        second = np.zeros_like(self.second)
        moves = np.zeros_like(self.moves)
        emits = np.zeros_like(self.emits)
        total = 0.0
        for start in range(0, columns.shape[1], BLOCK):
            total += self._count(columns[:, start : start + BLOCK], second, moves, emits)
        first = second.sum(axis=1)
        self.first = first / first.sum()
        self.second = second / second.sum(axis=-1, keepdims=True)
        self.moves = moves / moves.sum(axis=-1, keepdims=True)
        self.emits = emits / emits.sum(axis=-1, keepdims=True)
        return total

    def _count(self, columns: NDArray[np.uint8], second: Floats, moves: Floats, emits: Floats) -> float:
        length, rows = columns.shape
        states, symbols = self.emits.shape[1:]
        seen = np.empty((length, states, rows))
        for t in range(length):
            np.take(self.emits[t], columns[t], axis=1, out=seen[t])
        # alpha[t][i, j] is P(x_0 … x_t, h_{t-1} = i, h_t = j) over its sum, row by row.
        start = self.first[:, None] * self.second
        alpha = np.empty((length, states, states, rows))
        scale = np.empty((length, rows))
        np.multiply(start[:, :, None], seen[0][:, None] * seen[1][None, :], out=alpha[1])
        np.sum(alpha[1], axis=(0, 1), out=scale[1])
        alpha[1] /= scale[1]
        for t in range(2, length):
            # (j, k, i) times (j, i, rows): the middle state j stays, i is summed out.
            np.matmul(self.moves[t - 2].transpose(1, 2, 0), alpha[t - 1].transpose(1, 0, 2), out=alpha[t])
            alpha[t] *= seen[t]
            np.sum(alpha[t], axis=(0, 1), out=scale[t])
            alpha[t] /= scale[t]
        beta = np.ones((states, states, rows))
        weighted = np.empty_like(beta)
        for t in range(length - 1, 0, -1):
            present = (alpha[t] * beta).sum(axis=0)
            for state in range(states):
                emits[t, state] += np.bincount(columns[t], present[state], symbols)
            if t == 1:
                pair = alpha[1] * beta
                second += pair.sum(axis=2)
                for state, weight in enumerate(pair.sum(axis=1)):
                    emits[0, state] += np.bincount(columns[0], weight, symbols)
                break
            np.multiply(beta, seen[t] / scale[t], out=weighted)
            joint = np.matmul(alpha[t - 1].transpose(1, 0, 2), weighted.transpose(0, 2, 1))
            moves[t - 2] += self.moves[t - 2] * joint.transpose(1, 0, 2)
            # (j, i, k) times (j, k, rows).
            beta = np.matmul(self.moves[t - 2].transpose(1, 0, 2), weighted).transpose(1, 0, 2)
        return float(np.log(scale[1:]).sum())
