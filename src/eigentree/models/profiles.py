"""What hidden states stand for: what each of them says about every column."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np

from eigentree.checks import different_names, our_arithmetic, whole_number
from eigentree.data.labeled_table import LabeledTable
from eigentree.errors import GraphError, ParameterError, did_you_mean, quoted
from eigentree.exact.pair_tables import PairTables
from eigentree.models.dependencies import column_nats, network_of
from eigentree.models.sequence_face import HiddenSequenceFace, SequenceFace
from eigentree.structures.discovery import mixed_tree

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Iterator, Sequence

    from eigentree.arrays import Floats, Integers
    from eigentree.exact.network import LatentNetwork
    from eigentree.models.tables_face import TablesFace

__all__ = ["Profile", "Profiles", "profiles"]

USUAL_LENGTH = 100
"""Steps of a sequence over which shares are taken, unless the user says how many."""

MOST_STEPS = 10_000

MOST_SHOWN = 3
"""Columns that are shown of each state."""

MOST_SHOWN_STATES = 12


@dataclass(frozen=True, eq=False, repr=False)
class _Cells:
    """All states of all columns below each other.

    Attributes
    ----------
    names : tuple of str
    labels : tuple of sequences
        What the states of each column are called.
    """

    names: tuple[str, ...]
    labels: tuple[Sequence[Hashable], ...]

    @cached_property
    def starts(self) -> Integers:
        """The first row of each column."""
        return np.cumsum([0, *map(len, self.labels)])[:-1]

    @cached_property
    def places(self) -> dict[str, int]:
        """The place of each column."""
        return {name: place for place, name in enumerate(self.names)}


@dataclass(frozen=True, eq=False, repr=False)
class Profile:
    """What the states of one hidden variable stand for.

    Attributes
    ----------
    name : str
        The hidden variable.
    states : tuple
        Its states: 0, 1, …. In a mixture of trees each tree has states of its own, which are pairs (tree, state).
    shares : LabeledTable
        P(state); in a model of sequences, the mean over their steps.
    columns : tuple of str
        The columns, those first that the variable tells most about.
    nats : tuple of float
        The mutual information of the variable and each of them: 0 where it says nothing. In a mixture of trees
        the mean over the trees.
    start, transitions : LabeledTable or None
        In a model of sequences, where it begins and where each state leads, as in ``tables_``.
    """

    name: str
    states: tuple[Hashable, ...]
    shares: LabeledTable
    columns: tuple[str, ...]
    nats: tuple[float, ...]
    start: LabeledTable | None = None
    transitions: LabeledTable | None = None
    _cells: _Cells = field(default_factory=lambda: _Cells((), ()))
    _given: Floats = field(default_factory=lambda: np.zeros((0, 0)))

    def table(self, column: str) -> LabeledTable:
        """Return P(column | state), a row for each state; NaN for a state that has no share.

        Raises
        ------
        GraphError
            When there is no such column.
        """
        if not isinstance(column, str) or column not in self._cells.places:
            raise GraphError(f"there is no column {quoted(column)}{did_you_mean(column, self._cells.names)}")
        place = self._cells.places[column]
        labels, start = self._cells.labels[place], self._cells.starts[place]
        axes = [self.name, column if column != self.name else "cell"]
        return LabeledTable(self._given[start : start + len(labels)].T, axes, [self.states, labels])

    def __repr__(self) -> str:
        lines = [f"{self.name}: {len(self.states)} states"]
        tables = [(column, self.table(column)) for column in self.columns[:MOST_SHOWN]]
        for place in np.argsort(-self.shares.array, kind="stable")[:MOST_SHOWN_STATES].tolist():
            told = []
            for column, table in tables:
                row = np.nan_to_num(table[place])
                told.append(f"{column}={table.states[1][int(row.argmax())]} {row.max():.2f}")
            lines.append(f"  {_shown(self.states[place])} ({self.shares[place]:.1%}): {', '.join(told)}")
        if len(self.states) > MOST_SHOWN_STATES:
            lines.append(f"  … ({len(self.states)} states in all)")
        return "\n".join(lines)


class Profiles(Mapping[str, Profile]):
    """The profile of each hidden variable, by name; a mapping that never changes."""

    def __init__(self, found: Iterable[Profile]) -> None:
        self._found = {profile.name: profile for profile in found}

    def __getitem__(self, name: str) -> Profile:
        if not isinstance(name, str) or name not in self._found:
            raise GraphError(f"there is no profile of {quoted(name)}{did_you_mean(name, self._found)}")
        return self._found[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._found)

    def __len__(self) -> int:
        return len(self._found)

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and name in self._found

    def __repr__(self) -> str:
        return "\n".join(map(repr, self._found.values())) or "no hidden variables"


@our_arithmetic
def profiles(
    model: LatentNetwork | TablesFace | HiddenSequenceFace,
    hidden: Iterable[str] | None = None,
    length: int | None = None,
) -> Profiles:
    """Return what the states of each hidden variable say about every column, the most telling columns first.

    All is exact under the model, whatever cells were missing when it was learned.

    Parameters
    ----------
    model : LatentNetwork, or a fitted EMJunctionTree, OnlineEMJunctionTree or EMHMM
        A mixture of trees (``structure="auto"``) has hidden states of its own in each tree, so those of a hidden
        variable are pairs (tree, state); the variable that says which tree has a profile too.
    hidden : iterable of str, optional
        The hidden variables to tell about; by default all. Those of EMHMM are "state", or "chain 0", "chain 1", ….
    length : int, optional
        Of EMHMM only, whose states come and go: shares, and all that depends on them, are means over so many steps
        from the beginning of a sequence; 100 unless given.

    Raises
    ------
    ParameterError
        When a model has no tables.
    GraphError
        When there is no such hidden variable.

    Examples
    --------
    >>> import eigentree as et
    >>> graph = et.LatentGraph({"h": 2, "x": 2, "y": 2}, [("h", "x"), ("h", "y")], ["h"])
    >>> copy = [[1.0, 0.0], [0.0, 1.0]]
    >>> found = profiles(et.LatentNetwork(graph, {"h": [0.6, 0.4], "x": copy, "y": [[0.9, 0.1], [0.5, 0.5]]}))
    >>> found
    h: 2 states
      0 (60.0%): x=0 1.00, y=0 0.90
      1 (40.0%): x=1 1.00, y=0 0.50
    >>> found["h"].table("y")
    h     y=0     y=1
    0  0.9000  0.1000
    1  0.5000  0.5000
    """
    if isinstance(model, HiddenSequenceFace):
        steps = USUAL_LENGTH if length is None else whole_number("length", length, most=MOST_STEPS)
        return Profiles(_of_chains(model, steps, hidden))
    if isinstance(model, SequenceFace):
        raise ParameterError("profiles are of hidden states, and a spectral model has no tables of them; EMHMM has")
    network = network_of(model)
    if length is not None:
        raise ParameterError("length is how many steps a sequence has; this model is not of sequences")
    return Profiles(_of_network(network, hidden))


def _of_network(network: LatentNetwork, hidden: Iterable[str] | None) -> Iterator[Profile]:
    tree, which = mixed_tree(network.graph)
    beside = () if which is None else (which,)
    names = _asked(hidden, (*beside, *tree.hidden))
    cells = _Cells(tree.observed, tuple(network.labels(name) for name in tree.observed))
    found = {
        name: _one(network, cells, (name, *beside), table)
        for name, table in PairTables(network, which).tables(set(names) - {which})
    }
    if which in names:
        # Any other variable stands beside it in a table with all columns.
        ((_, table),) = PairTables(network, which).tables(tree.names[:1])
        found[which] = _one(network, cells, (which,), table.sum(axis=1))
    for name in names:
        yield found[name]


def _one(network: LatentNetwork, cells: _Cells, names: tuple[str, ...], tables: Floats) -> Profile:
    """Return the profile of a variable, or of one beside the variable that says which tree.

    Parameters
    ----------
    network : LatentNetwork
    cells : _Cells
    names : tuple of str
        The variable, and the one beside it.
    tables : array, shape (rows, states…)
        Joint tables with the states of all columns; zero for columns that have nothing to do with it.
    """
    (shares,) = network.clique_marginals([names])
    tables = _with_other_parts(network, cells, tables, shares)
    nats = column_nats(tables if len(names) > 1 else tables[:, :, None], cells.starts)
    labels: tuple[Hashable, ...] = tuple(range(len(shares)))
    if len(names) > 1:
        # Trees first, so that the states of one tree stand together.
        labels = tuple(product(range(shares.shape[1]), labels))
        tables, shares = tables.swapaxes(1, 2).reshape(len(tables), -1), shares.T.ravel()
    return _profile(names[0], labels, shares, cells, tables, nats)


def _with_other_parts(network: LatentNetwork, cells: _Cells, tables: Floats, shares: Floats) -> Floats:
    """Return the tables with those of columns that stand in another part of the graph, and are independent."""
    tables = tables.copy()
    lost = [
        place
        for place, start in enumerate(cells.starts)
        if not tables[start : start + len(cells.labels[place])].any()
    ]
    alone = network.clique_marginals([(cells.names[place],) for place in lost])
    for place, own in zip(lost, alone, strict=True):
        tables[cells.starts[place] : cells.starts[place] + len(own)] = np.multiply.outer(own, shares)
    return tables


def _profile(
    name: str, states: tuple[Hashable, ...], shares: Floats, cells: _Cells, tables: Floats, nats: Sequence[float]
) -> Profile:
    """Return a profile, given joint tables of shape (rows, states)."""
    given = np.divide(tables, shares, out=np.full_like(tables, np.nan), where=shares > 0)
    # So that distributions add up to 1 to the last bit that they can.
    totals = np.repeat(np.add.reduceat(given, cells.starts), [len(labels) for labels in cells.labels], axis=0)
    given /= totals
    given.flags.writeable = False
    order = sorted(range(len(nats)), key=lambda place: -nats[place])
    return Profile(
        name,
        states,
        LabeledTable(shares / shares.sum(), [name], [states]),
        tuple(cells.names[place] for place in order),
        tuple(nats[place] for place in order),
        _cells=cells,
        _given=given,
    )


def _of_chains(model: HiddenSequenceFace, steps: int, hidden: Iterable[str] | None) -> Iterator[Profile]:
    # Where it was not fitted, this says so.
    known = model.tables_
    chain = model.model_
    columns = chain.columns
    cells = _Cells(columns.names, tuple(map(columns.labels, columns.names)))
    several = len(chain.sizes) > 1
    names = tuple(f"chain {place}" for place in range(len(chain.sizes))) if several else ("state",)
    shares = chain.shares(steps)
    joint = np.concatenate([shares * table.T for table in chain.emissions])
    for name in _asked(hidden, names):
        place = names.index(name)
        table, own = chain.of_each(joint)[place], chain.of_each(shares[None])[place][0]
        found = _profile(
            name, tuple(range(len(own))), own, cells, table, column_nats(table[:, :, None], cells.starts)
        )
        moves: Any = [known[what][name] if several else known[what] for what in ("start", "transitions")]
        yield replace(found, start=moves[0], transitions=moves[1])


def _asked(hidden: Iterable[str] | None, there: tuple[str, ...]) -> tuple[str, ...]:
    """Return the hidden variables that are asked for, once they are there."""
    if hidden is None:
        return there
    names = different_names("hidden", hidden)
    for name in names:
        if name not in there:
            raise GraphError(f"there is no hidden variable {quoted(name)}{did_you_mean(name, there)}")
    return names


def _shown(state: Hashable) -> str:
    return " of tree ".join(map(str, reversed(state))) if isinstance(state, tuple) else str(state)
