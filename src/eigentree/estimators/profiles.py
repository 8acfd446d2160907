"""Profiles of hidden states: P(label | state) of columns, moments of numbers, and what sets each state apart."""

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
from eigentree.estimators.mixins.hidden_sequence_mixin import HiddenSequenceMixin
from eigentree.estimators.mixins.sequence_mixin import SequenceMixin, require_plain, sequence_and_time
from eigentree.estimators.number_bins import NumberGroup, NumberLeaf, NumberProfile, number_leaves, with_parents
from eigentree.graphs.structure_learning import mixed_tree
from eigentree.inference.networks.pair_tables import PairTables
from eigentree.validation import different_names, our_arithmetic, whole_number

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence

    from numpy.typing import ArrayLike

    from eigentree.arrays import Floats
    from eigentree.data.tables.labels import Meaning
    from eigentree.estimators.mixins.latent_mixin import LatentMixin
    from eigentree.inference.mixed.density import ConditionalDensity
    from eigentree.inference.networks.network import LatentNetwork

__all__ = ["Distinction", "Profile", "Profiles", "Shift", "profiles"]

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


class Shift(NamedTuple):
    """What a number says about a state: mean and standard deviation here, and the mean elsewhere.

    `distance` is by how many standard deviations of the column among all rows the mean here is higher.
    """

    column: str
    mean: float
    std: float
    others: float
    distance: float


@dataclass(frozen=True, eq=False, repr=False)
class Profile:
    """The profile of one hidden variable: P(label | state) of every column, mean and spread of numbers.

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
    durations : LabeledTable or None
        In a semi-Markov model, how long each state lasts.
    basis : str
        What shares are shares of: rows or steps of the data, or those that the model implies.
    note : str
        What to know before states are taken for classes; empty where there is nothing.
    numbers : mapping of str to NumberProfile
        The distribution of each number in each state.
    """

    name: str
    states: tuple[Hashable, ...]
    shares: LabeledTable
    columns: tuple[str, ...]
    nats: tuple[float, ...]
    start: LabeledTable | None = None
    transitions: LabeledTable | None = None
    durations: LabeledTable | None = None
    basis: str = "rows under the model"
    note: str = ""
    numbers: Mapping[str, NumberProfile] = field(default_factory=dict)
    _tables: Mapping[str, LabeledTable] = field(default_factory=dict)

    def table(self, column: str) -> LabeledTable:
        """Return P(column | state), a row for each state; NaN for a state that has no share.

        Of a number it has mean and standard deviation in each state.

        Raises
        ------
        GraphError
            When there is no such column.
        """
        if not isinstance(column, str) or column not in self._tables:
            raise GraphError(f"there is no column {quoted(column)}{did_you_mean(column, self._tables)}")
        return self._tables[column]

    def density(self, column: str, place: int) -> ConditionalDensity:
        """Return the distribution of a number in a state, by its place.

        Raises
        ------
        GraphError
            When there is no such number.
        """
        if not isinstance(column, str) or column not in self.numbers:
            raise GraphError(f"there is no number {quoted(column)}{did_you_mean(column, self.numbers)}")
        return self.numbers[column].density(place)

    def distinctive(self, place: int, most: int = MOST_SHOWN) -> list[Distinction | Shift]:
        """Return what sets a state, by its place, apart from the others: columns that differ most, a label each.

        Columns are ranked by the Jensen-Shannon divergence of their distribution in the state from that in all
        other states together, numbers in bins; of each the label is named that adds most to it among those more
        probable in the state, of a number the mean. Neither depends on the order of columns, labels or states.
        """
        others = np.where(np.arange(len(self.states)) == place, 0.0, self.shares.array)
        found = []
        for name in self.columns if self.shares[place] > 0 else ():
            table = self.numbers[name].bins if name in self.numbers else self.table(name).array
            here, rest = table[place], others @ np.nan_to_num(table)
            rest = rest / rest.sum() if rest.sum() > 0 else here
            mean = np.maximum((here + rest) / 2, 1e-300)
            parts = (_nats(here, mean) + _nats(rest, mean)) / 2
            one = self._shift(name, place) if name in self.numbers else self._label(name, here, rest, parts)
            found.append((-round(parts.sum(), 9), one))
        return [each for _, each in sorted(found, key=lambda one: (one[0], one[1].column))[:most]]

    def _label(self, name: str, here: Floats, rest: Floats, parts: Floats) -> Distinction:
        """Return the label of a column that adds most to the divergence."""
        labels = self.table(name).states[1]
        # Rounding must not decide between what is the same.
        *_, best = min(
            (-round(parts[at], 9), -round(here[at], 9), str(labels[at]), at)
            for at in np.flatnonzero(here >= rest - 1e-12).tolist()
        )
        return Distinction(name, labels[best], float(here[best]), float(rest[best]))

    def _shift(self, name: str, place: int) -> Shift:
        """Return how a number differs in a state."""
        own = self.numbers[name]
        mean, std = own.moments[place].tolist()
        weights = np.where(np.arange(len(self.states)) == place, 0.0, self.shares.array)
        total = weights.sum()
        others = float(weights @ np.nan_to_num(own.moments[:, 0]) / total) if total > 0 else mean
        return Shift(name, mean, std, others, (mean - others) / own.overall.std)

    def described(self, place: int) -> list[str]:
        """Return what sets a state, by its place, apart from the others, in words."""
        several = int((self.shares.array > 0).sum()) > 1
        return [self._worded(one, several) for one in self.distinctive(place)]

    def _worded(self, one: Distinction | Shift, several: bool) -> str:
        """Return what sets a state apart as text, beside all others where there are several states."""
        if isinstance(one, Distinction):
            return f"{one.column}={one.label} {one.here:.2f}" + f" (others {one.others:.2f})" * several
        own = self.numbers[one.column]
        beside = f" (others {own.shown(one.others)}, {one.distance:+.1f} sd)" * several
        return f"{one.column} {own.shown(one.mean)} ± {own.shown_spread(one.std)}" + beside

    def __repr__(self) -> str:
        lines = [f"{self.name}: {len(self.states)} states" + f" ({self.note})" * bool(self.note)]
        if self.transitions is not None:
            lines[0] += f", with shares of {self.basis}"
        for place in np.argsort(-self.shares.array, kind="stable")[:MOST_SHOWN_STATES].tolist():
            shown = ", ".join(self.described(place)) or "never"
            lines.append(f"  {_shown(self.states[place])} ({self.shares[place]:.1%}): {shown}")
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

    All is exact under the model. Of numbers there are mean and standard deviation in each state, and a density.
    Printed, each state is described by what sets it apart from the others, a number by its mean ± one standard
    deviation and by how many standard deviations of the column that is away from the mean of the others.

    Parameters
    ----------
    model : LatentNetwork, or a fitted EMJunctionTree, OnlineEMJunctionTree or EMHMM
        A fitted model with hidden variables, or a network.
    hidden : iterable of str, optional
        The hidden variables, by default all; those of EMHMM are "state", or "chain 0", "chain 1", ….
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

    Notes
    -----
    In a mixture of trees (``structure="auto"``), which has hidden states of its own in each tree, those of a hidden
    variable are pairs (tree, state); the variable that says which tree has a profile too. Where these trees are
    several fits that are averaged, their states are no classes, and ``note`` says so.

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
    require_plain(model, "profiles")
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
    leaves = number_leaves(network)
    shown = with_parents(network, leaves)
    pairs = PairTables(shown, which)
    about = _Columns.of(network, tree.observed, leaves)
    found = {
        name: _of_variable(shown, about, network.labels, (name, *beside), table, note)
        for name, table in pairs.tables(set(names) - {which})
    }
    if which in names:
        # Any other variable stands beside it in a table with all columns.
        ((_, table),) = pairs.tables(tree.names[:1])
        found[which] = _of_variable(shown, about, network.labels, (which,), table.sum(axis=1), note)
    return [found[name] for name in names]


class _Columns(NamedTuple):
    """What is known of columns: labels of categories, and of each number its emission and what it means."""

    labels: Mapping[str, Sequence[Hashable]]
    leaves: Mapping[str, NumberLeaf]
    meanings: Mapping[str, Meaning | None]

    @classmethod
    def of(cls, network: Any, columns: Sequence[str], leaves: Mapping[str, NumberLeaf]) -> _Columns:
        """Return the columns of a network, or of a chain."""
        known = network.columns
        return cls(
            {name: () if name in leaves else known.labels(name) for name in columns},
            leaves,
            dict(zip(known.names, known.meanings, strict=True)),
        )

    def parts(self, tables: Floats) -> list[Floats]:
        """Return the table of each column, given all below each other; a number has the states of its parents."""
        ends = np.cumsum(
            [
                self.leaves[name].emission.states if name in self.leaves else len(own)
                for name, own in self.labels.items()
            ]
        )
        return np.split(tables, ends[:-1])

    def nats(self, parts: Sequence[Floats]) -> list[float]:
        """Return the mutual information of each column and a variable, given tables of shape (…, states, trees)."""
        found = []
        for name, part in zip(self.labels, parts, strict=True):
            if name in self.leaves:
                part = np.tensordot(self.leaves[name].table.T, part, 1)
            found += column_nats(part, np.zeros(1, np.int64))
        return found


def _of_variable(
    network: LatentNetwork,
    about: _Columns,
    state_labels: Callable[[str], Sequence[Hashable]],
    names: tuple[str, ...],
    tables: Floats,
    note: str,
) -> Profile:
    """Return the profile of a variable, beside the one that says which tree where there is one.

    `tables` has shape (states of all columns, states…): joint tables, zero for independent columns.
    """
    (shares,) = network.clique_marginals([names])
    parts = about.parts(tables.copy())
    for column, part in zip(about.labels, parts, strict=True):
        if not part.any():
            (own,) = network.clique_marginals([(column,)])
            part[...] = np.multiply.outer(own, shares)
    nats = about.nats(parts if len(names) > 1 else [part[:, :, None] for part in parts])
    states = tuple(state_labels(names[0]))
    if len(names) > 1:
        # Trees first, so that the states of one tree stand together.
        states = tuple(product(state_labels(names[1]), states))
        parts, shares = [part.swapaxes(1, 2).reshape(len(part), -1) for part in parts], shares.T.ravel()
    return _profile(names[0], states, shares, about, parts, nats, note=note)


def _profile(
    name: str,
    states: tuple[Hashable, ...],
    shares: Floats,
    about: _Columns,
    parts: Sequence[Floats],
    nats: Sequence[float],
    **more: Any,
) -> Profile:
    """Return a profile, given the joint table of each column, shape (states of the column, states)."""
    tables, numbers = {}, {}
    for (column, labels), part in zip(about.labels.items(), parts, strict=True):
        given = np.divide(part, shares, out=np.full_like(part, np.nan), where=shares > 0)
        # Divided again, so that distributions are normalised up to rounding.
        given = (given / given.sum(axis=0)).T
        axes = [name, column if column != name else "cell"]
        if column in about.leaves:
            numbers[column] = NumberProfile(about.leaves[column], given, about.meanings.get(column))
            tables[column] = LabeledTable(numbers[column].moments, [name, "moment"], [states, ("mean", "std")])
        else:
            tables[column] = LabeledTable(given, axes, [states, labels])
    ranked = sorted(zip(nats, about.labels, strict=True), key=lambda pair: -pair[0])
    return Profile(
        name,
        states,
        LabeledTable(shares / shares.sum(), [name], [states]),
        tuple(column for _, column in ranked),
        tuple(each for each, _ in ranked),
        **more,
        numbers=numbers,
        _tables=tables,
    )


def _of_chains(
    model: HiddenSequenceMixin, shares: Floats, basis: str, hidden: Iterable[str] | None
) -> list[Profile]:
    known, chain = model.tables_, model.model_
    columns = chain.columns.names
    leaves = {
        name: NumberLeaf(name, group)
        for places, emission in chain.numbers.items()
        for group in [NumberGroup(tuple(columns[place] for place in places), emission, shares)]
        for name in group.names
    }
    about = _Columns.of(chain, columns, leaves)
    several = len(chain.sizes) > 1
    names = tuple(f"chain {place}" for place in range(len(chain.sizes))) if several else ("state",)
    # A number shows the joint state of all chains.
    shown = zip(columns, chain.emissions, strict=True)
    joint = [np.diag(shares) if name in leaves else shares * table.T for name, table in shown]
    found = []
    for name in _hidden_names(hidden, names):
        place = names.index(name)
        parts = [chain.of_each(part)[place] for part in joint]
        own = chain.of_each(shares[None])[place][0]
        nats = about.nats([part[:, :, None] for part in parts])
        more = {what: known[what][name] if several else known[what] for what in ("start", "transitions")}
        more["durations"] = known.get("durations")
        found.append(_profile(name, tuple(range(len(own))), own, about, parts, nats, basis=basis, **more))
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
