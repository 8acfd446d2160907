"""Hidden chains in files: their sizes, and all tables end to end."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from eigentree.data.documents import Section
from eigentree.errors import FileError
from eigentree.exact.chain import Chain

if TYPE_CHECKING:
    from eigentree.data.columns import Columns
    from eigentree.data.stores import Reader, Writer

__all__ = ["chain_content", "read_chain"]

SUM_ROUNDING = 1e-9

MOST_ENTRIES = 2**28
"""Of a table."""


def chain_content(writer: Writer, chain: Chain) -> dict[str, Any]:
    """Return the document of a chain, after putting its tables into the file."""
    writer.flat("tables", [*chain.links, *chain.emissions])
    return {"states": chain.states, "order": chain.order}


def read_chain(reader: Reader, content: Any, columns: Columns) -> Chain:
    """Return the chain of a document and the tables of the file.

    Raises
    ------
    FileError
        When it is none of these columns.
    """
    entry = Section(content, "a chain", ("states", "order"))
    states, order = entry.whole("states", 1, MOST_ENTRIES), entry.whole("order", 1, 64)
    if states ** (order + 1) > MOST_ENTRIES:
        raise FileError("a chain of so many states and such an order has tables beyond all memory")
    links = [(states,) * (earlier + 1) for earlier in range(order + 1)]
    tables = reader.flat("tables", links + [(states, count) for count in columns.states])
    for table in tables:
        if (table < 0).any() or not np.allclose(table.sum(axis=-1), 1.0, atol=SUM_ROUNDING):
            raise FileError("a table of the chain holds no distributions")
    return Chain(columns, tuple(tables[: order + 1]), tuple(tables[order + 1 :]))
