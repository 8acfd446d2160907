"""The tables and emissions of a fitted hidden Markov model, by the names that people look for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from eigentree.data.tables.labeled_table import LabeledTable, TablesByName
from eigentree.estimators.mixins.constructor_parameters import Parameters
from eigentree.inference.sequences.duration_chain import DurationChain
from eigentree.inference.sequences.input_chain import InputChain
from eigentree.inference.sequences.tree_chain import TreeChain

if TYPE_CHECKING:
    from collections.abc import Sequence

    from eigentree.arrays import Floats
    from eigentree.data.tables.columns import Columns
    from eigentree.emissions.base import Emission
    from eigentree.inference.sequences.hmm_chain import Chain

__all__ = ["DIFFER", "ChainTablesMixin", "one_or_all"]

DIFFER = "depend on the inputs; at_inputs(...) is the model for given ones"


class ChainTablesMixin(Parameters):
    """The parameters of a hidden Markov model whose conditional probability tables are known."""

    model_: Chain | InputChain
    n_parameters_: int

    @property
    def tables_(self) -> dict[str, Any]:
        """The learned tables by name: "start", "transitions" and "emissions", axes and states named.

        "start" is the joint distribution of as many first states as the order, "transitions" P(state | as many
        before it), "emissions" P(cell | state), a dict where there are several channels. Of a factorial HMM,
        "start" and "transitions" are dicts of one table per chain, and emissions depend on the states of all.
        Tables that depend on symbols have an axis more, "input"; those that depend on numbers are not here, but at
        `at_inputs`.
        """
        chain, columns = self.model_, self._columns
        if isinstance(chain, InputChain):
            return _tables_given_inputs(chain, columns)
        hidden = self._chain_names
        starts = {name: _start_table(links) for name, links in zip(hidden, chain.chains, strict=True)}
        before = "parent's state" if isinstance(chain, TreeChain) else "state before"
        moves = {name: _moves_table(links, before) for name, links in zip(hidden, chain.chains, strict=True)}
        shown = {
            name: LabeledTable(
                table.reshape(*chain.sizes, -1),
                [*hidden, name if name not in hidden else "cell"],
                [*map(range, chain.sizes), columns.labels(name)],
            )
            for name, table in zip(columns.names, chain.emissions, strict=True)
            if columns.position(name) not in columns.number_places
        }
        tables = {"start": starts, "transitions": moves, "emissions": shown}
        made = TablesByName((name, one_or_all(found)) for name, found in tables.items() if found)
        if isinstance(chain, DurationChain):
            labels = [range(chain.states), range(1, chain.durations.shape[1] + 1)]
            made["durations"] = LabeledTable(chain.durations, ["state", "duration"], labels)
        return made

    @property
    def durations_(self) -> Floats:
        """The mean number of steps that each state lasts, shape (states,), of one chain of order 1.

        Without `durations` it is that of a Markov chain, infinite where a state is never left.
        """
        chain = self.model_
        if isinstance(chain, DurationChain):
            return chain.mean_durations
        stay = np.diag(self._of_one_chain("durations_", "transitions"))
        mean: Floats = np.divide(1.0, 1.0 - stay, out=np.full(len(stay), np.inf), where=stay < 1)
        return mean

    @property
    def emissions_(self) -> dict[tuple[str, ...], Emission]:
        """The emission of each group of number channels, by their names."""
        names = self._columns.names
        return {tuple(names[place] for place in group): own for group, own in self.model_.numbers.items()}

    @property
    def means_(self) -> Floats:
        """The mean of each number channel in each state, shape (states, number channels), as hmmlearn calls it."""
        return self._moments("means_")[0]

    @property
    def covars_(self) -> Floats:
        """The covariance of the number channels in each state, as hmmlearn calls it.

        Its shape is (states, number channels, number channels).
        """
        return self._moments("covars_")[1]

    def _moments(self, name: str) -> tuple[Floats, Floats]:
        """Return mean and covariance of the number channels in each state."""
        chain, places = self.model_, self._columns.number_places
        if not places:
            raise AttributeError(f"{name} is of channels that are numbers; tables_ has the tables of categories")
        means = np.zeros((chain.states, len(places)))
        covariances = np.zeros((chain.states, len(places), len(places)))
        for group, emission in chain.numbers.items():
            own = np.array([places.index(place) for place in group])
            mean, variance = emission.moments(np.full((1, len(group)), np.nan))
            means[:, own] = mean[0]
            covariances[:, own, own] = variance[0]
            if "covariance" in emission.parameters:
                covariances[:, own[:, None], own] = emission.parameters["covariance"]
        return means, covariances

    @property
    def startprob_(self) -> Floats:
        """The distribution of the first state, shape (states,), as hmmlearn calls it."""
        return self._of_one_chain("startprob_", "start")

    @property
    def transmat_(self) -> Floats:
        """P(next state | state), shape (states, states), as hmmlearn calls it."""
        return self._of_one_chain("transmat_", "transitions")

    @property
    def emissionprob_(self) -> Floats:
        """P(symbol | state), shape (states, symbols), as hmmlearn calls it."""
        if len(self._columns.names) > 1 or self._columns.number_places:
            raise AttributeError("emissionprob_ is for one channel of categories; tables_ and emissions_ have all")
        return self._of_one_chain("emissionprob_", "emissions")

    def _of_one_chain(self, name: str, table: str) -> Floats:
        """Return a table as an array, of a model as hmmlearn has it."""
        if isinstance(self.model_, InputChain):
            raise AttributeError(f"{name} {DIFFER}")
        if self.model_.order > 1 or len(self.model_.sizes) > 1:
            raise AttributeError(f"{name} is for order 1 and one chain; tables_ has all tables")
        return np.asarray(self.tables_[table])

    @property
    def _chain_names(self) -> list[str]:
        count = len(self.model_.sizes)
        return [f"chain {place}" for place in range(count)] if count > 1 else ["state"]


def one_or_all(found: dict[str, Any]) -> Any:
    """Return the only one, or all by name."""
    return TablesByName(found) if len(found) > 1 else next(iter(found.values()))


def _start_table(links: tuple[Floats, ...]) -> LabeledTable:
    """Return the joint distribution of as many first states as the order."""
    joint, order = links[0], len(links) - 1
    for link in links[1:-1]:
        joint = joint[..., None] * link
    names = ["state"] if order == 1 else [f"state {step}" for step in range(order)]
    return LabeledTable(joint, names, [range(len(links[0]))] * order)


def _moves_table(links: tuple[Floats, ...], before: str) -> LabeledTable:
    """Return the distribution of a state given those before it."""
    names = [*(f"state {step} before" for step in range(len(links) - 1, 1, -1)), before, "state"]
    return LabeledTable(links[-1], names, [range(len(links[0]))] * len(links))


def _tables_given_inputs(chain: InputChain, columns: Columns) -> dict[str, Any]:
    """Return the tables of a model with inputs, by name, but for those that depend on numbers."""
    states = range(chain.states)
    found, shown = TablesByName(), TablesByName()
    shapes: dict[str, tuple[list[str], list[Sequence[Any]]]] = {
        "start": (["state"], [states]),
        "transitions": (["state before", "state"], [states, states]),
    }
    for what, table in chain.tables.named(columns.names):
        if table.kind == "logit" or (what in columns.names and columns.position(what) in columns.number_places):
            continue
        names, labels = shapes.get(what, (["state", what if what != "state" else "cell"], [states, ()]))
        if what in columns.names:
            labels = [states, columns.labels(what)]
        array = table.array[..., 0, :] if what == "start" else table.array
        if table.kind == "tables":
            names = ["input", *names]
            labels = [chain.input_columns.labels(chain.input_columns.names[0]), *labels]
        (shown if what in columns.names else found)[what] = LabeledTable(array, names, labels)
    if shown:
        found["emissions"] = one_or_all(shown)
    return found
