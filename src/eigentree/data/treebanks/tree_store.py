"""Encoded trees in blocks: in memory while they are few, then in a file that goes with them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import overload

from eigentree.data.streams.encoded_stream import Scratch, kept_on_disk
from eigentree.data.treebanks.tree_rows import TreeRows

__all__ = ["BLOCK_NODES", "TreeStore"]

BLOCK_NODES = 2**16
"""Nodes after which a block ends: enough that Python takes no time, few enough that several fit into cache."""

MEMORY_NODES = 2**23
"""Nodes that stay in memory, of 16 bytes each."""


class TreeStore(Sequence[TreeRows]):
    """Blocks of encoded trees, each a `TreeRows`; those beyond some memory are in a temporary file.

    Parameters
    ----------
    memory : int
        How many nodes stay in memory.
    """

    def __init__(self, memory: int = MEMORY_NODES) -> None:
        self._blocks: list[TreeRows | int] = []
        self.memory, self.nodes, self.trees = memory, 0, 0
        self._scratch: Scratch | None = None

    def append(self, block: TreeRows) -> None:
        """Put a block after the others."""
        nodes = len(block.labels)
        if self.nodes + nodes <= self.memory:
            self._blocks.append(block)
        else:
            with kept_on_disk("trees"):
                self._scratch = self._scratch or Scratch()
                self._blocks.append(self._scratch.put(block))
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
        assert self._scratch is not None
        rows: TreeRows = self._scratch.get(block)
        return rows
