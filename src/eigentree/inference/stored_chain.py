"""Hidden chains in files: their sizes, and all tables end to end."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from eigentree.errors import FileError
from eigentree.inference.sequences.hmm_chain import Chain
from eigentree.io.documents import Section, whole

if TYPE_CHECKING:
    from eigentree.data.tables.columns import Columns
    from eigentree.io.stores import Reader, Writer

__all__ = ["chain_content", "read_chain"]

SUM_ROUNDING = 1e-9

MOST_ENTRIES = 2**28
"""Of a table."""

MOST_CHAINS = 64


def chain_content(writer: Writer, chain: Chain) -> dict[str, Any]:
    """Return the document of a chain, after putting its tables into the file."""
    writer.flat("tables", [*(table for links in chain.chains for table in links), *chain.emissions])
    content: dict[str, Any] = {"states": chain.states, "order": chain.order}
    return content | ({"chains": list(chain.sizes)} if chain.parallel else {})


def read_chain(reader: Reader, content: Any, columns: Columns) -> Chain:
    """Return the chain of a document and the tables of the file."""
    entry = Section(content, "a chain", ("states", "order"), ("chains",))
    states, order = entry.whole("states", 1, MOST_ENTRIES), entry.whole("order", 1, 64)
    if states ** (order + 1) > MOST_ENTRIES:
        raise FileError("a chain of so many states and such an order has tables beyond all memory")
    sizes = _sizes(entry["chains"], states) if entry.has("chains") else [states]
    links = [(size,) * (earlier + 1) for size in sizes for earlier in range(order + 1)]
    tables = reader.flat("tables", links + [(states, count) for count in columns.states])
    for table in tables:
        if (table < 0).any() or not np.allclose(table.sum(axis=-1), 1.0, atol=SUM_ROUNDING):
            raise FileError("a table of the chain holds no distributions")
    chains = [tables[first : first + order + 1] for first in range(0, len(links), order + 1)]
    return Chain.of(columns, chains, tables[len(links) :])


def _sizes(content: Any, states: int) -> list[int]:
    """Return how many states each of several chains has that have so many together."""
    if type(content) is not list or not 1 < len(content) <= MOST_CHAINS:
        raise FileError("the chains of a model are no list of several numbers")
    sizes = [whole(size, "the states of a chain", 1, states) for size in content]
    if math.prod(sizes) != states:
        raise FileError("the chains of a model do not have as many states together as it has")
    return sizes
