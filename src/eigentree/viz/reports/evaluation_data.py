"""What a report needs of any fitted model, and of the rows or sequences that it is evaluated on."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy.special import softmax

from eigentree.data.sequences.sequence_codes import Sequences
from eigentree.data.sequences.steps import steps_of
from eigentree.data.streams.sources import is_stream
from eigentree.data.tables.cells import is_missing
from eigentree.data.tables.restore import row_labels
from eigentree.data.tables.rows import Rows
from eigentree.data.tables.table import table_of
from eigentree.errors import DataError, ParameterError, quoted
from eigentree.estimators.classification.classifier import JunctionTreeClassifier
from eigentree.estimators.dependencies import network_of
from eigentree.estimators.em_hmm import EMHMM
from eigentree.estimators.imputer import JunctionTreeImputer
from eigentree.estimators.mixins.density_mixin import DensityMixin
from eigentree.estimators.mixins.latent_mixin import LatentMixin
from eigentree.estimators.mixins.sequence_mixin import SequenceMixin, require_plain, sequence_and_time
from eigentree.estimators.spectral_hmm import SpectralHMM
from eigentree.graphs.structure_learning import mixed_tree
from eigentree.inference.mixed.mixed_model import MixedModel
from eigentree.inference.networks.network import LatentNetwork
from eigentree.inference.sequences.hmm_chain import Chain

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from eigentree.arrays import Booleans, Codes, Floats, Integers
    from eigentree.data.tables.columns import Columns
    from eigentree.data.tables.table import Table
    from eigentree.graphs.graph import LatentGraph

__all__ = ["EvaluationData", "MaskedCells", "ModelAdapter", "adapter_of", "evaluation_data", "sampled"]

MOST_SCORED = 2_000_000
"""Most steps that are scored to predict cells of sequences."""


@dataclass(frozen=True, eq=False)
class ModelAdapter:
    """A model that is reported on.

    `graph` is what is drawn: of a mixture of trees (`mixed` of them) one, of a model of sequences so many `steps`.
    `network` has the tables of what is drawn, or of the mixture that it is part of; None where there are none.
    """

    model: Any
    columns: Columns
    graph: LatentGraph
    network: LatentNetwork | None
    mixed: int = 0
    steps: int = 0

    @property
    def unit(self) -> str:
        """What it is a model of: rows, or sequences."""
        return "sequence" if self.steps else "row"

    @property
    def measure(self) -> str:
        """What is known of a row or sequence: its log probability, or with numbers its log density."""
        return "log density" if self.numbers else "log probability"

    @property
    def numbers(self) -> dict[str, int]:
        """The columns of numbers that have a distribution, as covariates have not; their places among numbers."""
        shown = self.columns.numbers if self.steps else self.graph.observed
        return {name: place for place, name in enumerate(self.columns.numbers) if name in shown}

    @property
    def hidden(self) -> dict[str, int]:
        """The hidden variables of what is drawn, and how many states each has."""
        return {name: self.graph.states[name] for name in self.graph.hidden}

    @property
    def fit(self) -> Any:
        """The estimator's ``report_``; None where nothing was fitted."""
        return None if isinstance(self.model, LatentNetwork) else self.model.report_

    @property
    def parameters(self) -> int | None:
        """How many free parameters there are, where that is known."""
        return self.model.n_parameters if self.fit is None else getattr(self.fit, "parameters", None)


def adapter_of(model: object) -> ModelAdapter:
    """Return what a report needs of a model; raise unless it is one model, and was fitted."""
    if isinstance(model, JunctionTreeImputer | JunctionTreeClassifier) and "estimator_" in vars(model):
        return adapter_of(model.estimator_)
    if isinstance(model, JunctionTreeClassifier):
        raise ParameterError(
            "a classifier holds one model per class, and a report is about one model; report each of its "
            "estimators_ with the rows of its class, or fit with class_as='column'"
        )
    if isinstance(model, LatentNetwork | LatentMixin):
        network = network_of(model)
        columns = model.columns if isinstance(model, LatentNetwork) else model.columns_
        tree, which = mixed_tree(network.graph)
        return ModelAdapter(model, columns, tree, network, network.graph.states[which] if which else 0)
    if isinstance(model, DensityMixin):
        return ModelAdapter(model, model.columns_, model.graph_, None)
    if isinstance(model, SequenceMixin):
        return _of_sequences(model)
    raise ParameterError(f"a report is about a LatentNetwork or a fitted estimator, not {quoted(model)}")


def _of_sequences(model: SequenceMixin) -> ModelAdapter:
    assert isinstance(model, EMHMM | SpectralHMM)
    require_plain(model, "a report")
    steps = model.order + 2
    if isinstance(model, EMHMM):
        network = model.model_.network(steps)
        return ModelAdapter(model, model.columns_, network.graph, network, steps=steps)
    # The graph does not depend on the parameters of a chain.
    states, columns = model.hidden_states, model.columns_
    links = [np.full([states] * (before + 1), 1 / states) for before in range(model.order + 1)]
    emissions = [np.full((states, count), 1 / count) for count in columns.states]
    return ModelAdapter(
        model, columns, Chain.of(columns, [links], emissions).network(steps).graph, None, steps=steps
    )


class MaskedCells(NamedTuple):
    """Known categories, each masked in turn, with the model's prediction from the rest of its row or sequence.

    Arrays of one length: `unit` (row or sequence), `step` (0 in rows), `column`, the cell's own `code`, the most
    probable code `predicted`, and the probabilities of both, `proba` and `highest`.
    """

    unit: Integers
    step: Integers
    column: Integers
    code: Integers
    predicted: Integers
    proba: Floats
    highest: Floats


@dataclass(frozen=True, eq=False)
class EvaluationData:
    """Rows, or the steps of sequences (which begin at `starts`), as codes of a model's columns.

    Labels that the model never saw are missing cells; `unseen` lists column, label, and how many cells hold it.
    `names` are what the rows or sequences are called. `values` are the cells of number columns, NaN where missing.
    """

    adapter: ModelAdapter
    columns: Columns
    codes: Codes
    starts: Integers | None
    names: Sequence[Any]
    unseen: tuple[tuple[str, str, int], ...]
    values: Floats

    @property
    def count(self) -> int:
        """How many rows or sequences there are."""
        return len(self.codes) if self.starts is None else len(self.starts) - 1

    def same_cells(self, other: EvaluationData) -> bool:
        """Whether these are the same rows or sequences as others."""
        own, theirs = ((0, each.count) if each.starts is None else each.starts for each in (self, other))
        return bool(
            np.array_equal(own, theirs)
            and np.array_equal(self.codes, other.codes)
            and np.array_equal(self.values, other.values, equal_nan=True)
        )

    @property
    def missing(self) -> Booleans:
        """Which cells are missing, those of unknown labels among them."""
        found: Booleans = self.codes == np.array(self.columns.states)
        return found

    @property
    def sequences(self) -> Sequences:
        """The sequences."""
        assert self.starts is not None
        return Sequences(self.columns, self.codes, self.starts, values=self.values)

    @property
    def rows(self) -> Rows:
        """The rows."""
        if not self.columns.numbers:
            return Rows.of_codes(self.codes, self.columns)
        cells = self.codes.astype(np.float64, order="F")
        cells[:, list(self.columns.number_places)] = self.values
        return Rows.of_codes(cells, self.columns)

    @property
    def numbers(self) -> Floats:
        """The cells of number columns that have a distribution."""
        return self.values[:, list(self.adapter.numbers.values())]

    @property
    def categories(self) -> list[int]:
        """The places of the columns that are no numbers."""
        return [place for place in range(len(self.columns.names)) if place not in self.columns.number_places]

    def chosen(self, units: Integers) -> EvaluationData:
        """Return some of the rows or sequences, by their numbers."""
        names = [self.names[unit] for unit in units.tolist()]
        if self.starts is None:
            codes, values = np.asfortranarray(self.codes[units]), self.values[units]
            return replace(self, codes=codes, names=names, values=values)
        some = self.sequences.chosen(units)
        return replace(self, codes=some.codes, starts=some.starts, names=names, values=some.values)

    def log_prob(self) -> Floats:
        """Return the log probability of each row or sequence, with numbers its log density."""
        if self.starts is not None:
            found: Floats = self.model.log_prob(self.sequences)
            return found
        scores: Floats = self.model.log_prob(self.rows)[0]
        return scores

    @property
    def model(self) -> Any:
        """What answers queries about codes."""
        model = self.adapter.model
        return model.model_ if hasattr(model, "model_") else model.model

    def masked_cells(self, most: int, seed: int = 0) -> MaskedCells:
        """Return predictions of at most so many known cells, sampled as whole rows, or as cells of sequences."""
        if self.starts is not None:
            return self._of_sequences(most, seed)
        units = sampled(self.count, max(1, most // len(self.columns.names)), seed)
        parts = []
        for first, column, codes, proba in self.chosen(units)._distributions():
            known = np.flatnonzero(codes < self.columns.states[column])
            steps, own = np.zeros(len(known), np.int64), codes[known].astype(np.int64)
            parts.append(_predicted(units[first + known], steps, column, own, proba[known]))
        return _joined(parts)

    def _distributions(self) -> Iterator[tuple[int, int, Codes, Floats]]:
        """Yield parts of the rows and each category: the first row, the column, its codes and probabilities."""
        categories, names = self.categories, self.columns.names
        if not self.columns.numbers:
            for column, (proba, _) in zip(
                categories, self.model.distributions(self.codes, categories), strict=True
            ):
                yield 0, column, self.codes[:, column], proba
            return
        if not isinstance(self.model, MixedModel):
            for column in categories:
                yield 0, column, self.codes[:, column], self.model.predict(self.rows, names[column])[0]
            return
        for part, known, _ in self.model.evidence(self.rows):
            places = [known.network.graph.column(names[column]) for column in categories]
            found = known.network.model.distributions(known.codes, places)
            for column, (proba, _) in zip(categories, found, strict=True):
                yield part.start, column, self.codes[part, column], proba

    def _of_sequences(self, most: int, seed: int) -> MaskedCells:
        sequences = self.sequences
        known = ~self.missing
        known[:, list(self.columns.number_places)] = False
        steps, channels = np.nonzero(known)
        numbers = np.repeat(np.arange(self.count), sequences.lengths)
        picked = sampled(len(steps), most, seed)
        # Each state of a cell is a sequence of its own, scored whole.
        work = sequences.lengths[numbers[steps[picked]]] * np.array(self.columns.states)[channels[picked]]
        if len(work) and work.sum() > MOST_SCORED:
            picked = sampled(len(steps), max(1, int(MOST_SCORED / work.mean())), seed)
        steps, channels = steps[picked], channels[picked]
        parts = []
        for channel in self.categories:
            states = self.columns.states[channel]
            at = steps[channels == channel]
            units = numbers[at]
            own = at - sequences.starts[units]
            log_prob = np.empty((len(at), states))
            if len(at):
                trial = sequences.chosen(units)
                codes = trial.codes.copy(order="F")
                for state in range(states):
                    codes[trial.starts[:-1] + own, channel] = state
                    log_prob[:, state] = self.model.log_prob(replace(trial, codes=codes))
            code = self.codes[at, channel].astype(np.int64)
            # Uniform where all states are impossible.
            lost = np.isneginf(log_prob).all(axis=1, keepdims=True)
            proba = np.asarray(softmax(np.where(lost, 0.0, log_prob), axis=1))
            parts.append(_predicted(units, own, channel, code, proba))
        return _joined(parts)


def _joined(parts: Sequence[MaskedCells]) -> MaskedCells:
    none = _predicted(*(np.zeros(0, np.int64),) * 2, 0, np.zeros(0, np.int64), np.zeros((0, 1)))
    return MaskedCells(*(np.concatenate(each) for each in zip(*(parts or [none]), strict=True)))


def sampled(count: int, most: int, seed: int) -> Integers:
    """Return the numbers of all that there are, or of a random sample of so many, in their order."""
    if count <= most:
        return np.arange(count)
    return np.sort(np.random.default_rng(seed).choice(count, most, replace=False))


def evaluation_data(
    adapter: ModelAdapter, X: Any, lengths: Any = None, names: Sequence[Any] | None = None
) -> EvaluationData:
    """Return rows or sequences as the model reads them, with their names."""
    if is_stream(X):
        raise DataError("a report evaluates rows in memory, not a stream; read some of them first")
    columns = adapter.columns.reading("missing")
    starts: Integers | None = None
    called: Sequence[Any]
    table: Table | None = None
    if adapter.steps:
        named = sequence_and_time(adapter.model, X)
        sequences = Sequences.of(X, columns, lengths, *named)
        codes, starts, called = sequences.codes, sequences.starts, range(sequences.count)
        values = sequences.values
        if not isinstance(X, Sequences):
            table = steps_of(X, lengths, *named).table
    else:
        if lengths is not None:
            raise DataError("lengths are those of sequences, and this is a model of rows; leave them out")
        rows = Rows.of(X, columns)
        codes, values = rows.encode(), rows.values()
        called = row_labels(X, len(codes))
        if not isinstance(X, Rows):
            table = table_of(X)
    unseen = () if table is None else tuple(_unseen(table, columns))
    called = called if names is None else _listed(names)
    data = EvaluationData(adapter, columns, codes, starts, called, unseen, values)
    if len(data.names) != data.count:
        raise DataError(f"there are {len(data.names)} names, but {data.count} {adapter.unit}s; name each of them")
    return data


def _listed(names: Any) -> list[Any]:
    try:
        return list(names)
    except TypeError:
        raise ParameterError(f"names are what rows or sequences are called, not {quoted(names)}") from None


def _unseen(table: Table, columns: Columns) -> Iterator[tuple[str, str, int]]:
    """Yield labels that columns do not have, with how many cells hold each: encoded as missing, but not missing."""
    codes = Rows.of(table, columns).encode()
    for column, place in enumerate(table.places(columns.names, None, columns.named)):
        absent = np.flatnonzero(codes[:, column] == columns.states[column]).tolist()
        cells = table.cells(place) if absent else []
        # Among numbers, -1 is a missing cell.
        labels = Counter(str(cells[row]) for row in absent if not (is_missing(cells[row]) or cells[row] == -1))
        yield from ((columns.names[column], label, count) for label, count in sorted(labels.items()))


def _predicted(units: Integers, steps: Integers, column: int, codes: Integers, proba: Floats) -> MaskedCells:
    places = np.arange(len(codes))
    best = proba.argmax(axis=1)
    which = np.full(len(codes), column)
    return MaskedCells(units, steps, which, codes, best, proba[places, codes], proba[places, best])
