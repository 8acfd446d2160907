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
    """The tables of a non-homogeneous 2nd-order HMM (`zoo.hmm(length, order=2, …)`) as numpy arrays.

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
        self._arrays: dict[tuple[str, int], Floats] = {}

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
        """Add the expected counts of a block of rows; return its log-likelihood."""
        length, rows = columns.shape
        states, symbols = self.emits.shape[1:]
        seen, scale = self._array("seen", length, states, rows), self._array("scale", length, rows)
        for t in range(length):
            # Without a mode, take would write to a copy of its own first.
            np.take(self.emits[t], columns[t], axis=1, out=seen[t], mode="clip")
        # alpha[t][i, j] is P(x_0 … x_t, h_{t-1} = i, h_t = j) over its sum, row by row.
        alpha = self._array("alpha", length, states, states, rows)
        np.multiply(seen[0][:, None], seen[1], out=alpha[1])
        alpha[1] *= (self.first[:, None] * self.second)[:, :, None]
        np.sum(alpha[1], axis=(0, 1), out=scale[1])
        alpha[1] /= scale[1]
        for t in range(2, length):
            # (j, k, i) times (j, i, rows): the middle state j stays, i is marginalised out.
            np.matmul(self.moves[t - 2].transpose(1, 2, 0), alpha[t - 1].transpose(1, 0, 2), out=alpha[t])
            alpha[t] *= seen[t]
            np.sum(alpha[t], axis=(0, 1), out=scale[t])
            alpha[t] /= scale[t]
        # beta has the axes (j, i, rows).
        beta, weighted, pair = (self._array(name, states, states, rows) for name in ("beta", "weighted", "pair"))
        present = self._array("present", states, rows)
        beta.fill(1.0)
        for t in range(length - 1, 0, -1):
            np.multiply(alpha[t], beta.transpose(1, 0, 2), out=pair)
            np.sum(pair, axis=0, out=present)
            for state in range(states):
                emits[t, state] += np.bincount(columns[t], present[state], symbols)
            if t == 1:
                second += pair.sum(axis=2)
                np.sum(pair, axis=1, out=present)
                for state in range(states):
                    emits[0, state] += np.bincount(columns[0], present[state], symbols)
                break
            np.divide(seen[t], scale[t], out=present)
            np.multiply(beta.transpose(1, 0, 2), present, out=weighted)
            joint = np.matmul(alpha[t - 1].transpose(1, 0, 2), weighted.transpose(0, 2, 1))
            moves[t - 2] += self.moves[t - 2] * joint.transpose(1, 0, 2)
            # (j, i, k) times (j, k, rows).
            np.matmul(self.moves[t - 2].transpose(1, 0, 2), weighted, out=beta)
        return float(np.log(scale[1:], out=scale[1:]).sum())

    def _array(self, name: str, *shape: int) -> Floats:
        """Return an array to write to, the same at every call.

        Fresh ones may go back to the system and be taken again, by chance of what else the process holds; that can
        cost half as much time again.
        """
        key = (name, shape[-1])
        if key not in self._arrays:
            self._arrays[key] = np.empty(shape)
        return self._arrays[key]
