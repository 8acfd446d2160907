"""Encoded trees in blocks: in memory while they are few, then in a file that goes with them."""

from __future__ import annotations

import tempfile
import weakref
from collections.abc import Sequence
from typing import IO, overload

import numpy as np

from eigentree.data.treebanks.tree_rows import TreeRows

__all__ = ["BLOCK_NODES", "TreeStore"]

BLOCK_NODES = 2**16
"""Nodes after which a block ends: enough that Python takes no time, few enough that several fit into cache."""

MEMORY_NODES = 2**23
"""Nodes that stay in memory, of 16 bytes each."""

NODE_ARRAYS = ("labels", "left", "words", "rule")


class TreeStore(Sequence[TreeRows]):
    """Blocks of encoded trees, each a `TreeRows`; those beyond some memory are in a temporary file.

    Parameters
    ----------
    memory : int
        How many nodes stay in memory.
    """

    def __init__(self, memory: int = MEMORY_NODES) -> None:
        self._blocks: list[TreeRows | tuple[int, int, TreeRows]] = []
        self.memory, self.nodes, self.trees = memory, 0, 0
        self._file: IO[bytes] | None = None

    def append(self, block: TreeRows) -> None:
        """Put a block after the others."""
        nodes = len(block.labels)
        if self.nodes + nodes <= self.memory:
            self._blocks.append(block)
        else:
            if self._file is None:
                self._file = tempfile.TemporaryFile()  # noqa: SIM115
                weakref.finalize(self, self._file.close)
            begin = self._file.seek(0, 2)
            self._file.write(np.concatenate([getattr(block, name) for name in NODE_ARRAYS]).tobytes())
            self._file.flush()
            nothing = np.zeros(0, np.int32)
            self._blocks.append((begin, nodes, TreeRows(nothing, nothing, nothing, nothing, block.offsets)))
        self.nodes, self.trees = self.nodes + nodes, self.trees + block.count

    def __len__(self) -> int:
        return len(self._blocks)

    @overload
    def __getitem__(self, place: int) -> TreeRows: ...
    @overload
    def __getitem__(self, place: slice) -> list[TreeRows]: ...
    def __getitem__(self, place: int | slice) -> TreeRows | list[TreeRows]:
        if isinstance(place, slice):
            return [self[k] for k in range(len(self))[place]]
        block = self._blocks[place]
        if isinstance(block, TreeRows):
            return block
        begin, nodes, rows = block
        assert self._file is not None
        # A map, since threads would move each other's place in the file.
        mapped = np.memmap(self._file, np.int32, "r", begin, (len(NODE_ARRAYS), nodes))
        labels, left, words, rule = np.array(mapped)
        return TreeRows(labels, left, words, rule, rows.offsets)
