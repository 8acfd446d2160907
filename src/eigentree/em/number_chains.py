"""The objective of sequences, or trees of nodes, some of whose channels are numbers: tables, then emissions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from eigentree.em.chain_fit import ChainFit, ChainLayout, ChainObjective, SequenceObjective
from eigentree.em.init.chains import NUMBER_KINDS
from eigentree.em.mixed.emission_choice import families_of_columns, warn_without_numbers
from eigentree.em.optimize.objective import ExpectedCounts
from eigentree.em.optimize.run import em_run
from eigentree.em.optimize.stopping import SHORT_RUN, Stopping
from eigentree.emissions.base import Emission
from eigentree.errors import ParameterError, quoted
from eigentree.inference.sequences.number_steps import NumberPass, value_places
from eigentree.inference.sequences.sequence_passes import SequencePass, Symbols
from eigentree.inference.sequences.tree_chain import pass_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from eigentree.arrays import Booleans, Floats, Integers
    from eigentree.data.sequences.sequence_codes import Sequences
    from eigentree.data.tables.columns import Columns
    from eigentree.em.multistart import Sample
    from eigentree.inference.sequences.hmm_chain import Chain
    from eigentree.inference.sequences.number_steps import NumberCounts, Numbered

__all__ = [
    "ForestFit",
    "ForestObjective",
    "NumberChainLayout",
    "NumberChainObjective",
    "chain_objective",
    "channel_families",
    "chosen_families",
    "given_emission",
    "layout_of_chain",
    "markov_objective",
    "started_emissions",
]

HELD_BLOCKS = 5
"""One block of steps in so many is held out where a family is chosen."""


@dataclass(frozen=True, eq=False)
class NumberChainLayout(ChainLayout):
    """Where each parameter stands: the tables as `ChainLayout` has them, then the parameters of emissions.

    `numbers` are the emissions of the groups of number channels; their settings are those of all that are learned.
    """

    numbers: Numbered = field(default_factory=dict)

    @classmethod
    def of(cls, tables: ChainLayout, numbers: Numbered) -> NumberChainLayout:
        """Return the layout of tables and emissions."""
        known = (tables.sizes, tables.order, tables.channels, tables.allowed, tables.starts)
        return cls(*known, numbers, known_states=tables.known_states)

    @cached_property
    def free_count(self) -> int:
        """The number of free parameters, those of emissions included."""
        tables = self.learned_count - int(self.learned[self._first].sum())
        return tables + sum(emission.n_parameters for emission in self.numbers.values())

    @cached_property
    def _tables_end(self) -> int:
        return len(self.learned)

    def whole(self, tables: Floats, emissions: Sequence[Emission]) -> Floats:
        """Return the vector of all parameters."""
        return np.concatenate([tables, *(emission.vector for emission in emissions)])

    def split(self, vector: Floats) -> tuple[Floats, list[Emission]]:
        """Return the vector of tables, and the emissions."""
        made, start = [], self._tables_end
        for emission in self.numbers.values():
            end = start + len(emission.vector)
            made.append(emission.of_vector(vector[start:end]))
            start = end
        return vector[: self._tables_end], made

    def numbered(self, vector: Floats) -> dict[tuple[int, ...], Emission]:
        """Return the emission of each group of number channels."""
        return dict(zip(self.numbers, self.split(vector)[1], strict=True))

    def even(self) -> Floats:
        """Return parameters under which all states are alike but where they are known."""
        return self.whole(super().even(), list(self.numbers.values()))

    def relabelled(self, vector: Floats, order: Integers) -> Floats:
        """Return parameters of one chain with states in another order; what is known of states is as it was."""
        tables, emissions = self.split(vector)
        return self.whole(super().relabelled(tables, order), [own.permuted(order) for own in emissions])

    def mixed(self, parameters: Floats, share: float) -> Floats:
        """Return parameters whose learned tables are mixed with a share of the uniform distribution."""
        tables, emissions = self.split(parameters)
        return self.whole(super().mixed(tables, share), emissions)


@dataclass(frozen=True, eq=False)
class NumberChainObjective(SequenceObjective):
    """The objective of sequences with number channels."""

    layout: NumberChainLayout
    walk: NumberPass
    prior: Floats

    is_accelerable = False
    initialisers = NUMBER_KINDS
    pool: ClassVar[tuple[str, ...]] = ("clusters", "windows", "merged", "random")

    def shown(self, counts: Floats) -> tuple[list[Floats], list[Emission]]:
        """Return tables of counts and emissions that follow from how often each step is in each state."""
        walk = self.walk
        tables = []
        for place, size in enumerate(self.layout.channels):
            found = [np.bincount(walk.codes[:, place], own, size + 1)[:size] for own in counts.T]
            tables.append(np.stack(found).astype(np.float64))
        pairs = self.layout.numbers.items()
        values = [np.ascontiguousarray(walk.values[:, value_places(walk.columns, group)]) for group, _ in pairs]
        return tables, [own.fitted(each, counts) for (_, own), each in zip(pairs, values, strict=True)]

    def parted(self, parameters: Floats) -> tuple[Floats, tuple[Any, ...]]:
        """Return the tables of a vector of parameters, end to end, and the emissions."""
        tables, emissions = self.layout.split(parameters)
        return tables, tuple(emissions)

    def whole(self, tables: Floats, emissions: Sequence[Any]) -> Floats:
        """Return the vector of tables and emissions."""
        return self.layout.whole(tables, emissions)

    def found(self, tables: Floats, emissions: Sequence[Any]) -> NumberCounts:
        """Return what is expected of all sequences, and the log density of each."""
        links, shown = self.layout.tables(tables)
        return self.walk.counts(self.walk.links(links), shown, emissions)

    def expected_links(self, parameters: Floats) -> list[Floats]:
        """Return the expected counts of the links of all chains together."""
        return self.found(*self.parted(parameters)).links

    def log_likelihood(self, parameters: Floats) -> float:
        """Return the log-likelihood of the sequences; -inf if one is impossible."""
        tables, emissions = self.layout.split(parameters)
        return self.total(self.walk.log_prob(*self.layout.tables(tables), emissions))[0]

    def counted(self, parameters: Floats) -> ExpectedCounts:
        """Return the expected counts of the tables and the log-likelihood of all sequences."""
        return self.expected_parts(*self.parted(parameters))[0]

    def expected_parts(self, tables: Floats, emissions: Sequence[Any]) -> tuple[ExpectedCounts, list[Any]]:
        """Return expected counts of the tables' entries and the log-likelihood, and statistics of emissions."""
        found = self.found(tables, emissions)
        counts = self.layout.joined(found.links, found.tables)
        return ExpectedCounts(counts, *self.total(found.log_prob)), found.statistics


@dataclass(frozen=True, eq=False)
class ForestObjective(NumberChainObjective):
    """The objective of trees, whose nodes show categories, numbers, or some of both."""

    initialisers = {name: NUMBER_KINDS[name] for name in ("clusters", "random")}  # noqa: RUF012
    pool = ("clusters", "random")


class ForestFit(ChainFit):
    """Trees, and how EM runs on them: always on all, since pieces of a tree are none."""

    @cached_property
    def distinct(self) -> SequenceObjective:
        """The objective of all trees."""
        return self.whole

    def samples(self, random: np.random.Generator) -> list[Sample]:
        """Return all trees."""
        return [self.sample]


def chain_objective(
    layout: ChainLayout, sequences: Sequences, weights: Floats, prior: Floats, threads: int
) -> SequenceObjective:
    """Return the objective of sequences; equal ones are merged, so that their order does not matter."""
    if isinstance(layout, NumberChainLayout):
        walk = NumberPass.of_distinct(sequences, weights, layout.numbers, threads)
        return NumberChainObjective(layout, walk, prior)
    symbols = Symbols.of(sequences.codes, sequences.columns.states)
    return ChainObjective(layout, SequencePass.of_distinct(symbols, sequences.starts, weights, threads), prior)


def layout_of_chain(
    chain: Chain, allowed: tuple[Booleans, ...], starts: tuple[Floats, ...] = (), known_states: bool = False
) -> tuple[ChainLayout, Floats]:
    """Return the layout of a chain that was fitted, and its parameters there."""
    tables = [table for links in chain.chains for table in links] + list(chain.emissions)
    vector = np.concatenate([table.ravel() for table in tables])
    channels = tuple(table.shape[-1] for table in chain.emissions)
    layout = ChainLayout(chain.sizes, chain.order, channels, allowed, starts, known_states=known_states)
    if not chain.numbers:
        return layout, vector
    numbered = NumberChainLayout.of(layout, chain.numbers)
    return numbered, numbered.whole(vector, list(chain.numbers.values()))


def markov_objective(walk: NumberPass, layout: ChainLayout, prior: Floats) -> SequenceObjective:
    """Return the objective of the sequences of a pass under a hidden Markov model, whatever links they had."""
    numbers = layout.numbers if isinstance(layout, NumberChainLayout) else {}
    if isinstance(layout, NumberChainLayout) and numbers:
        known = (walk.columns, walk.codes, walk.values, walk.starts, walk.weights)
        return NumberChainObjective(layout, NumberPass(*known, numbers, walk.threads, walk.origins), prior)
    tables = ChainLayout(layout.sizes, layout.order, layout.channels, layout.allowed, layout.starts)
    symbols = Symbols.of(walk.codes, walk.columns.states)
    return ChainObjective(tables, SequencePass.of_distinct(symbols, walk.starts, walk.weights, walk.threads), prior)


def channel_families(emissions: Any, columns: Columns) -> dict[tuple[int, ...], Any]:
    """Return the family of each number channel, or group of such, by their places; None where it is to be chosen.

    One of several channels together is of all of them.
    """
    families = families_of_columns(emissions, columns)
    warn_without_numbers(emissions, columns)
    for group in families:
        for name in group:
            if columns.position(name) not in columns.number_places:
                raise ParameterError(
                    f"emissions give {name!r} the family {quoted(families[group])}, but the channel has labels, "
                    f"which in sequences are 'categorical'; leave it out"
                )
    found = {tuple(map(columns.position, group)): family for group, family in families.items()}
    if emissions == "auto":
        plain = [group for group, family in found.items() if family == "gaussian"]
        others = {group: family for group, family in found.items() if group not in plain}
        return {tuple(place for group in plain for place in group): None, **others} if plain else found
    if not found or not isinstance(emissions, str):
        return found
    from eigentree.emissions.families import FAMILIES

    if FAMILIES[emissions].groups:
        return {columns.number_places: emissions}
    return found


def chosen_families(
    families: Mapping[tuple[int, ...], Any],
    sequences: Sequences,
    weights: Floats,
    layout: ChainLayout,
    pseudo_counts: float,
    random: np.random.Generator,
) -> dict[tuple[int, ...], Any]:
    """Return the families of number channels, chosen on held-out steps where none is given.

    Channels are independent normal in each state, normal together, or semiparametric each, whichever has the
    highest log density of held-out blocks of steps after a short EM run from clusters.
    """
    chosen = next((group for group, family in families.items() if family is None), None)
    if chosen is None:
        return dict(families)
    others = {group: family for group, family in families.items() if family is not None}
    candidates: list[dict[tuple[int, ...], Any]] = [{chosen: "diagonal"}, {chosen: "full"}]
    if len(chosen) == 1:
        candidates = [{chosen: "gaussian"}]
    candidates.append({(place,): "semiparametric" for place in chosen})
    whole = pass_of(sequences, weights, {}, 1)
    blocks = whole.blocks(HELD_BLOCKS)
    if blocks is None:
        return candidates[0] | others
    seed = int(random.integers(2**31))

    def held_out(family: dict[tuple[int, ...], Any]) -> float:
        learned, held = blocks
        numbers = started_emissions(family | others, learned, layout.states)
        own = NumberChainLayout.of(layout, numbers)
        fit = NumberChainObjective(own, replace(learned, numbers=numbers), own.prior(pseudo_counts, 0.0))
        start = NUMBER_KINDS["clusters"](fit, np.random.default_rng(seed))
        *_, run = em_run(fit, start, Stopping("gain", 0.0), SHORT_RUN, accelerate=False)
        return NumberChainObjective(own, replace(held, numbers=numbers), fit.prior).log_likelihood(run.parameters)

    return max(candidates, key=held_out) | others


def started_emissions(
    families: Mapping[tuple[int, ...], Any], steps: NumberPass, states: int
) -> dict[tuple[int, ...], Emission]:
    """Return emissions of these families in which every state shows what all steps show together."""
    from eigentree.emissions.families import make

    of_steps = np.repeat(steps.weights, np.diff(steps.starts))
    return {
        group: make(
            family, np.ascontiguousarray(steps.values[:, value_places(steps.columns, group)]), of_steps, states
        )
        for group, family in families.items()
    }


def given_emission(what: str, template: Emission, given: Any) -> Emission:
    """Return the emission of a template's settings with given parameters, which are an emission or by name."""
    own = given.parameters if isinstance(given, Emission) else given
    if not isinstance(own, Mapping) or set(own) != set(template.parameters):
        names = ", ".join(map(repr, template.parameters))
        raise ParameterError(
            f"{what} is an emission of the family {template.family!r}, or has its parameters {names}, not "
            f"{quoted(given)}"
        )
    arrays = []
    for name, present in template.parameters.items():
        try:
            array = np.asarray(own[name], np.float64)
        except (TypeError, ValueError):
            raise ParameterError(f"{what}: {name!r} is an array of numbers, not {quoted(own[name])}") from None
        if array.shape != present.shape or not np.isfinite(array).all():
            raise ParameterError(
                f"{what}: {name!r} has the shape {array.shape}, but needs finite numbers of shape {present.shape}"
            )
        arrays.append(array.ravel())
    return template.of_vector(np.concatenate(arrays))
