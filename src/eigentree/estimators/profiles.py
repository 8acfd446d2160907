"""Profiles of hidden states: P(label | state) of every column, and what sets each state apart."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import product
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from eigentree.data.sequences.sequence_codes import Sequences
from eigentree.data.tables.labeled_table import LabeledTable
from eigentree.errors import DataError, GraphError, ParameterError, did_you_mean, quoted
from eigentree.estimators.dependencies import column_nats, network_of
from eigentree.estimators.mixins.sequence_mixin import HiddenSequenceMixin, SequenceMixin, sequence_and_time
from eigentree.graphs.structure_learning import mixed_tree
from eigentree.inference.networks.pair_tables import PairTables
from eigentree.validation import different_names, our_arithmetic, whole_number

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Iterator, Sequence

    from numpy.typing import ArrayLike

    from eigentree.arrays import Floats, Integers
    from eigentree.estimators.mixins.latent_mixin import LatentMixin
    from eigentree.inference.networks.network import LatentNetwork

__all__ = ["Distinction", "Profile", "Profiles", "profiles"]

USUAL_LENGTH = 100
"""Steps of a sequence over which shares are taken, unless the user says how many."""

MOST_STEPS = 10_000

MOST_SHOWN = 3
"""Columns that are shown of each state."""

MOST_SHOWN_STATES = 12


class Distinction(NamedTuple):
    """What a column says about a state: its most distinctive label, and how probable that is here and elsewhere."""

    column: str
    label: Hashable
    here: float
    others: float


@dataclass(frozen=True, eq=False, repr=False)
class Profile:
    """The profile of one hidden variable: P(label | state) of every column.

    Attributes
    ----------
    name : str
        The hidden variable.
    states : tuple
        Its states: 0, 1, …. In a mixture of trees each tree has states of its own, which are pairs (tree, state).
    shares : LabeledTable
        P(state); in a model of sequences, the mean over steps.
    columns : tuple of str
        The columns, those with the largest mutual information first.
    nats : tuple of float
        The mutual information of the variable and each of them. In a mixture of trees the mean over the trees.
    start, transitions : LabeledTable or None
        In a model of sequences, where it begins and where each state leads, as in ``tables_``.
    basis : str
        What shares are shares of: rows or steps of the data, or those that the model implies.
    note : str
        What to know before states are taken for classes; empty where there is nothing.
    """

    name: str
    states: tuple[Hashable, ...]
    shares: LabeledTable
    columns: tuple[str, ...]
    nats: tuple[float, ...]
    start: LabeledTable | None = None
    transitions: LabeledTable | None = None
    basis: str = "rows under the model"
    note: str = ""
    _tables: Mapping[str, LabeledTable] = field(default_factory=dict)

    def table(self, column: str) -> LabeledTable:
        """Return P(column | state), a row for each state; NaN for a state that has no share.

        Raises
        ------
        GraphError
            When there is no such column.
        """
        if not isinstance(column, str) or column not in self._tables:
            raise GraphError(f"there is no column {quoted(column)}{did_you_mean(column, self._tables)}")
        return self._tables[column]

    def distinctive(self, place: int, most: int = MOST_SHOWN) -> list[Distinction]:
        """Return what sets a state, by its place, apart from the others: columns that differ most, a label each.

        Columns are ranked by the Jensen-Shannon divergence of their distribution in the state from that in all
        other states together; of each the label is named that adds most to it among those more probable in the
        state. Neither depends on the order of columns, labels or states.
        """
        others = np.where(np.arange(len(self.states)) == place, 0.0, self.shares.array)
        found = []
        for name in self.columns if self.shares[place] > 0 else ():
            table = self.table(name)
            here, rest = table.array[place], others @ np.nan_to_num(table.array)
            rest = rest / rest.sum() if rest.sum() > 0 else here
            mean = np.maximum((here + rest) / 2, 1e-300)
            parts = (_nats(here, mean) + _nats(rest, mean)) / 2
            # Rounding must not decide between what is the same.
            *_, best = min(
                (-round(parts[at], 9), -round(here[at], 9), str(table.states[1][at]), at)
                for at in np.flatnonzero(here >= rest - 1e-12).tolist()
            )
            one = Distinction(name, table.states[1][best], float(here[best]), float(rest[best]))
            found.append((-round(parts.sum(), 9), one))
        return [each for _, each in sorted(found, key=lambda one: (one[0], one[1].column))[:most]]

    def __repr__(self) -> str:
        lines = [f"{self.name}: {len(self.states)} states" + f" ({self.note})" * bool(self.note)]
        if self.transitions is not None:
            lines[0] += f", with shares of {self.basis}"
        several = int((self.shares.array > 0).sum()) > 1
        for place in np.argsort(-self.shares.array, kind="stable")[:MOST_SHOWN_STATES].tolist():
            shown = [
                f"{one.column}={one.label} {one.here:.2f}" + f" (others {one.others:.2f})" * several
                for one in self.distinctive(place)
            ]
            lines.append(
                f"  {_shown(self.states[place])} ({self.shares[place]:.1%}): {', '.join(shown) or 'never'}"
            )
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
    model: LatentNetwork | LatentMixin | HiddenSequenceMixin,
    hidden: Iterable[str] | None = None,
    length: int | None = None,
    *,
    X: ArrayLike | Any = None,
    lengths: ArrayLike | None = None,
) -> Profiles:
    """Return the profiles of hidden variables: P(label | state) of every column, the most informative first.

    All is exact under the model. Printed, each state is described by what sets it apart from the others.

    Parameters
    ----------
    model : LatentNetwork, or a fitted EMJunctionTree, OnlineEMJunctionTree or EMHMM
        A mixture of trees (``structure="auto"``) has hidden states of its own in each tree, so those of a hidden
        variable are pairs (tree, state); the variable that says which tree has a profile too. Where these trees
        are several fits that are averaged, their states are no classes, and ``note`` says so.
    hidden : iterable of str, optional
        The hidden variables; by default all. Those of EMHMM are "state", or "chain 0", "chain 1", ….
    length : int, optional
        Of EMHMM only, whose states come and go: shares, and all that depends on them, are means over so many steps
        from the beginning of a sequence, as the model implies them; 100 unless given.
    X : sequences, optional
        Of EMHMM only: shares are those of the steps of these sequences, by the posterior of their states.
    lengths : array-like of int, optional
        How many steps of `X` belong to each sequence.

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
      0 (60.0%): x=0 1.00 (others 0.00), y=0 0.90 (others 0.50)
      1 (40.0%): x=1 1.00 (others 0.00), y=1 0.50 (others 0.10)
    >>> found["h"].table("y")
    h     y=0     y=1
    0  0.9000  0.1000
    1  0.5000  0.5000
    """
    if isinstance(model, HiddenSequenceMixin):
        if length is not None and X is not None:
            raise ParameterError(
                "length is how many steps the model is to imply, and X has steps; give one of them"
            )
        return Profiles(_of_chains(model, *_step_shares(model, length, X, lengths), hidden))
    if isinstance(model, SequenceMixin):
        raise ParameterError("profiles are of hidden states, and a spectral model has no tables of them; EMHMM has")
    network = network_of(model)
    for name, given in (("length", length), ("X", X), ("lengths", lengths)):
        if given is not None:
            raise ParameterError(f"{name} is about steps of sequences, and this model is not of sequences")
    search = getattr(model, "search_", None)
    fits = 0 if search is None else len(search.shares)
    return Profiles(_of_network(network, hidden, fits))


def _step_shares(model: HiddenSequenceMixin, length: int | None, X: Any, lengths: Any) -> tuple[Floats, str]:
    """Return the share of each state of a chain, and what it is a share of."""
    chain = model.model_
    if X is None:
        steps = USUAL_LENGTH if length is None else whole_number("length", length, most=MOST_STEPS)
        return chain.shares(steps), f"the first {_counted_steps(steps)} under the model"
    sequences = Sequences.of(X, model.columns_.reading(model.handle_unknown), lengths, *sequence_and_time(model, X))
    posteriors = chain.smoothed(sequences).sum(axis=0)
    if not posteriors.sum() > 0:
        raise DataError("no step of these sequences is possible under the model, so states have no shares")
    return posteriors / posteriors.sum(), f"{_counted_steps(sequences.steps)} of data"


def _of_network(network: LatentNetwork, hidden: Iterable[str] | None, fits: int) -> list[Profile]:
    tree, which = mixed_tree(network.graph)
    note = ""
    if fits > 1:
        note = f"the average of {fits} fits, each with states of its own: these are no classes"
    elif which is not None:
        note = f"a mixture of {network.graph.states[which]} trees, each with states of its own"
    beside = () if which is None else (which,)
    names = _hidden_names(hidden, (*beside, *tree.hidden))
    pairs = PairTables(network, which)
    found = {
        name: _of_variable(network, tree.observed, (name, *beside), table, note)
        for name, table in pairs.tables(set(names) - {which})
    }
    if which in names:
        # Any other variable stands beside it in a table with all columns.
        ((_, table),) = pairs.tables(tree.names[:1])
        found[which] = _of_variable(network, tree.observed, (which,), table.sum(axis=1), note)
    return [found[name] for name in names]


def _of_variable(
    network: LatentNetwork, columns: Sequence[str], names: tuple[str, ...], tables: Floats, note: str
) -> Profile:
    """Return the profile of a variable, beside the one that says which tree where there is one.

    `tables` has shape (states of all columns, states…): joint tables, zero for independent columns.
    """
    (shares,) = network.clique_marginals([names])
    labels = {column: network.labels(column) for column in columns}
    starts = _starts(labels)
    tables = tables.copy()
    for column, part in zip(columns, np.split(tables, starts[1:]), strict=True):
        if not part.any():
            (own,) = network.clique_marginals([(column,)])
            part[...] = np.multiply.outer(own, shares)
    nats = column_nats(tables if len(names) > 1 else tables[:, :, None], starts)
    states = tuple(network.labels(names[0]))
    if len(names) > 1:
        # Trees first, so that the states of one tree stand together.
        states = tuple(product(network.labels(names[1]), states))
        tables, shares = tables.swapaxes(1, 2).reshape(len(tables), -1), shares.T.ravel()
    return _profile(names[0], states, shares, labels, tables, nats, note=note)


def _starts(labels: Mapping[str, Sequence[Hashable]]) -> Integers:
    """Return the first row of each column, where the states of all columns are rows below each other."""
    return np.cumsum([0, *map(len, labels.values())])[:-1]


def _profile(
    name: str,
    states: tuple[Hashable, ...],
    shares: Floats,
    labels: Mapping[str, Sequence[Hashable]],
    tables: Floats,
    nats: Sequence[float],
    **more: Any,
) -> Profile:
    """Return a profile, given joint tables of shape (states of all columns, states)."""
    given = np.divide(tables, shares, out=np.full_like(tables, np.nan), where=shares > 0)
    by_column = {
        # Divided again, so that distributions are normalised up to rounding.
        column: LabeledTable(
            (part / part.sum(axis=0)).T, [name, column if column != name else "cell"], [states, own]
        )
        for (column, own), part in zip(labels.items(), np.split(given, _starts(labels)[1:]), strict=True)
    }
    ranked = sorted(zip(nats, labels, strict=True), key=lambda pair: -pair[0])
    return Profile(
        name,
        states,
        LabeledTable(shares / shares.sum(), [name], [states]),
        tuple(column for _, column in ranked),
        tuple(each for each, _ in ranked),
        **more,
        _tables=by_column,
    )


def _of_chains(
    model: HiddenSequenceMixin, shares: Floats, basis: str, hidden: Iterable[str] | None
) -> list[Profile]:
    known, chain = model.tables_, model.model_
    labels = {name: chain.columns.labels(name) for name in chain.columns.names}
    several = len(chain.sizes) > 1
    names = tuple(f"chain {place}" for place in range(len(chain.sizes))) if several else ("state",)
    joint = np.concatenate([shares * table.T for table in chain.emissions])
    found = []
    for name in _hidden_names(hidden, names):
        place = names.index(name)
        table, own = chain.of_each(joint)[place], chain.of_each(shares[None])[place][0]
        nats = column_nats(table[:, :, None], _starts(labels))
        more = {what: known[what][name] if several else known[what] for what in ("start", "transitions")}
        found.append(_profile(name, tuple(range(len(own))), own, labels, table, nats, basis=basis, **more))
    return found


def _hidden_names(hidden: Iterable[str] | None, known: tuple[str, ...]) -> tuple[str, ...]:
    """Return the given hidden variables, or all, or raise `GraphError`."""
    if hidden is None:
        return known
    names = different_names("hidden", hidden)
    for name in names:
        if name not in known:
            raise GraphError(f"there is no hidden variable {quoted(name)}{did_you_mean(name, known)}")
    return names


def _nats(table: Floats, reference: Floats) -> Floats:
    """Return what each entry adds to the Kullback-Leibler divergence of two distributions."""
    ratio = np.divide(table, reference, out=np.ones_like(table), where=table > 0)
    return np.asarray(table * np.log(ratio))


def _counted_steps(count: int) -> str:
    return "1 step" if count == 1 else f"{count:,} steps"


def _shown(state: Hashable) -> str:
    return " of tree ".join(map(str, reversed(state))) if isinstance(state, tuple) else str(state)
