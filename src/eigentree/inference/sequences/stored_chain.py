"""Hidden Markov models in files: the tables of a chain end to end, also such that depend on inputs."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, get_args

import numpy as np

from eigentree.data.sequences.inputs import are_symbols
from eigentree.data.tables.columns import columns_content, columns_of
from eigentree.data.tables.design import design_names
from eigentree.errors import FileError
from eigentree.inference.sequences.duration_chain import DurationChain
from eigentree.inference.sequences.hmm_chain import Chain
from eigentree.inference.sequences.input_chain import Dependence, DependentTable, InputChain, InputTables
from eigentree.inference.sequences.sequence_passes import MOST_TOGETHER
from eigentree.inference.sequences.tree_chain import TreeChain
from eigentree.io.documents import Section, whole

if TYPE_CHECKING:
    from eigentree.arrays import Floats, Integers
    from eigentree.data.tables.columns import Columns
    from eigentree.emissions.base import Emission
    from eigentree.io.stores import Reader, Writer

__all__ = ["chain_content", "read_chain", "read_clusters"]

SUM_ROUNDING = 1e-9

MOST_ENTRIES = 2**28
"""Of a table."""

MOST_CHAINS = 64


def chain_content(writer: Writer, chain: Chain | InputChain) -> dict[str, Any]:
    """Return the document of a chain, after putting its tables into the file."""
    if isinstance(chain, InputChain):
        tables = [table for _, table in chain.tables.named(chain.columns.names)]
        possible = chain.tables.transitions.possible.astype(np.float64)
        writer.flat("tables", [possible, *(table.array for table in tables)])
        inputs = {"columns": columns_content(chain.input_columns), "kinds": [table.kind for table in tables]}
        if (groups := chain.tables.start.groups) is not None:
            inputs["groups"] = np.bincount(groups).tolist()
        return {"states": chain.states, "order": 1, "inputs": inputs} | _numbers_content(writer, chain)
    lasting = [chain.durations] if isinstance(chain, DurationChain) else []
    writer.flat("tables", [*(table for links in chain.chains for table in links), *chain.emissions, *lasting])
    content: dict[str, Any] = {"states": chain.states, "order": chain.order} | _numbers_content(writer, chain)
    if isinstance(chain, TreeChain):
        content["of_trees"] = True
    if lasting:
        content["max_duration"] = lasting[0].shape[1]
    return content | ({"chains": list(chain.sizes)} if chain.parallel else {})


def _numbers_content(writer: Writer, chain: Chain | InputChain) -> dict[str, Any]:
    """Return the document of the emissions of numbers; none where there are none."""
    if not chain.numbers:
        return {}
    from eigentree.emissions.stored import emission_content

    return {
        "numbers": [
            {"channels": list(group), "emission": emission_content(writer.within(f"numbers.{place}"), emission)}
            for place, (group, emission) in enumerate(chain.numbers.items())
        ]
    }


def read_chain(reader: Reader, content: Any, columns: Columns) -> Chain | InputChain:
    """Return the chain of a document and the tables of the file."""
    entry = Section(
        content, "a chain", ("states", "order"), ("chains", "numbers", "inputs", "max_duration", "of_trees")
    )
    states, order = entry.whole("states", 1, MOST_ENTRIES), entry.whole("order", 1, 64)
    if states ** (order + 1) > MOST_ENTRIES:
        raise FileError("a chain of so many states and such an order has tables beyond all memory")
    if entry.has("inputs"):
        return _read_with_inputs(reader, entry, columns, states)
    sizes = _sizes(entry["chains"], states) if entry.has("chains") else [states]
    links = [(size,) * (earlier + 1) for size in sizes for earlier in range(order + 1)]
    lasting = [(states, entry.whole("max_duration", 1, MOST_ENTRIES))] if entry.has("max_duration") else []
    if lasting and (order > 1 or len(sizes) > 1):
        raise FileError("durations are those of one chain of order 1")
    if len(sizes) > 1 and states ** (order + 1) > MOST_TOGETHER:
        raise FileError("several chains of so many states together have transitions beyond all that is learned")
    tables = reader.flat("tables", [*links, *((states, count) for count in columns.states), *lasting])
    for table in tables:
        _check_distributions(table)
    chains = [tables[first : first + order + 1] for first in range(0, len(links), order + 1)]
    numbers = _numbers(reader, entry, columns, (states,))
    if lasting:
        start, moves, *emissions, durations = tables
        return DurationChain(columns, (start, moves), tuple(emissions), (), numbers, durations=durations)
    if entry.has("of_trees"):
        if order > 1 or len(sizes) > 1:
            raise FileError("a hidden Markov tree has one chain of order 1")
        return TreeChain(columns, tuple(chains[0]), tuple(tables[len(links) :]), (), numbers)
    return Chain.of(columns, chains, tables[len(links) :], numbers)


def _read_with_inputs(reader: Reader, entry: Section, columns: Columns, states: int) -> InputChain:
    """Return a chain whose tables depend on inputs."""
    inner = Section(entry["inputs"], "the inputs of a chain", ("columns", "kinds"), ("groups",))
    input_columns, kinds = columns_of(inner["columns"]), inner.texts("kinds")
    symbols = input_columns.states[0] if are_symbols(input_columns) and "logit" not in kinds else 0
    allowed = {"fixed", "tables" if symbols else "logit"}
    if len(kinds) != 2 + len(columns.names) or not set(kinds) <= allowed & set(get_args(Dependence)):
        raise FileError("each table of a chain with inputs is fixed, or depends on them as all others do")
    covariates = symbols or len(design_names(input_columns))
    plain = [(1, states), (states, states), *((states, count) for count in columns.states)]
    if covariates * max(map(math.prod, plain)) > MOST_ENTRIES:
        raise FileError("a chain of so many states and inputs has tables beyond all memory")
    shapes = [own if kind == "fixed" else (covariates, *own) for kind, own in zip(kinds, plain, strict=True)]
    possible, *arrays = reader.flat("tables", [(states, states), *shapes])
    if not np.isin(possible, (0.0, 1.0)).all() or not possible.any(axis=1).all():
        raise FileError("each state of a chain is followed by some, and what may follow is 1, else 0")
    tables = []
    for place, (kind, array) in enumerate(zip(kinds, arrays, strict=True)):
        own = possible > 0 if place == 1 else np.ones(plain[place], np.bool_)
        dependence: Any = kind
        table = DependentTable(dependence, array, own, _groups(inner, states) if place == 0 else None)
        _check_dependent(table)
        tables.append(table)
    numbers = _numbers(reader, entry, columns, (states, states * max(symbols, 1)))
    return InputChain(columns, input_columns, InputTables(tables[0], tables[1], tuple(tables[2:]), numbers))


def read_clusters(content: Any, chain: Chain | InputChain) -> Integers:
    """Return the cluster of each state of a chain that stays within the states of one, given their numbers."""
    if type(content) is not list:
        raise FileError("the states of clusters are a list of numbers")
    sizes = [whole(size, "the states of a cluster", 1, MOST_ENTRIES) for size in content]
    if sum(sizes) != chain.states or len(chain.sizes) > 1:
        raise FileError("the clusters of a model do not have its states, each once")
    clusters = np.repeat(np.arange(len(sizes)), sizes)
    links = [chain.tables.transitions.possible] if isinstance(chain, InputChain) else chain.links[1:]
    if any((table[..., clusters[:, None] != clusters] != 0).any() for table in links):
        raise FileError("a chain of clusters moves from one to another")
    if isinstance(chain, InputChain):
        groups, kinds = (
            chain.tables.start.groups,
            [table.kind for _, table in chain.tables.named(chain.columns.names)],
        )
        if groups is None or not np.array_equal(groups, clusters) or set(kinds[1:]) != {"fixed"}:
            raise FileError("the inputs of a chain of clusters are covariates of these alone")
    return clusters


def _check_distributions(table: Floats) -> None:
    if (table < 0).any() or (abs(table.sum(axis=-1) - 1.0) > SUM_ROUNDING).any():
        raise FileError("a table of the chain holds no distributions")


def _check_dependent(table: DependentTable) -> None:
    """Raise `FileError` unless a table holds distributions, or coefficients of finite size and zero reference."""
    array, possible = table.array, table.possible
    if table.kind != "logit":
        if table.groups is not None:
            raise FileError("groups are those of a chain whose first state depends on inputs by a logit")
        _check_distributions(array)
        if (array[..., ~possible] != 0).any():
            raise FileError("a chain moves to a state that may not follow")
        return
    reference = possible.argmax(axis=1)
    if not np.isfinite(array).all() or array[:, np.arange(len(reference)), reference].any():
        raise FileError("the coefficients of a chain are finite, and zero for the first class that is possible")
    if table.groups is not None and (np.diff(array[1:, 0], axis=1)[:, np.diff(table.groups) == 0] != 0).any():
        raise FileError("the coefficients of states of one group differ in intercepts only")


def _groups(inputs: Section, states: int) -> Integers | None:
    """Return the group of each first state, if there are groups."""
    if not inputs.has("groups"):
        return None
    sizes = inputs.wholes("groups", 1, states)
    if sum(sizes) != states:
        raise FileError("the groups of a chain do not have its states, each once")
    return np.repeat(np.arange(len(sizes)), sizes)


def _numbers(
    reader: Reader, chain: Section, columns: Columns, states: tuple[int, ...]
) -> dict[tuple[int, ...], Emission]:
    """Return the emissions of a chain by the places of their channels; each has one of the numbers of states."""
    from eigentree.emissions.stored import read_emission

    found: dict[tuple[int, ...], Emission] = {}
    for place, each in enumerate(chain.items("numbers") if chain.has("numbers") else []):
        entry = Section(each, "an emission of a chain", ("channels", "emission"))
        group = entry.wholes("channels", 0, MOST_ENTRIES)
        emission = read_emission(reader.within(f"numbers.{place}"), entry["emission"])
        if emission.states not in states or emission.width != len(group) or group in found:
            raise FileError("an emission of a chain has other states or channels than it")
        found[group] = emission
    if sorted(place for group in found for place in group) != list(columns.number_places):
        raise FileError("the emissions of a chain are not of its channels of numbers, each once")
    return found


def _sizes(content: Any, states: int) -> list[int]:
    """Return how many states each of several chains has that have so many together."""
    if type(content) is not list or not 1 < len(content) <= MOST_CHAINS:
        raise FileError("the chains of a model are no list of several numbers")
    sizes = [whole(size, "the states of a chain", 1, states) for size in content]
    if math.prod(sizes) != states:
        raise FileError("the chains of a model do not have as many states together as it has")
    return sizes
