"""Queries that models of sequences have."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from eigentree.data.sequences.sequence_codes import Sequences, filled_sequences, per_step, sampled_sequences
from eigentree.data.tables.labeled_table import LabeledTable, TablesByName
from eigentree.data.tables.weights import positive_weights
from eigentree.errors import DataError, ParameterError, quoted
from eigentree.estimators.mixins.constructor_parameters import Parameters
from eigentree.estimators.mixins.information_criteria import Criteria
from eigentree.inference.networks.hidden_variables import Decoded
from eigentree.inference.queries import warn_undefined
from eigentree.messages import renamed_arguments
from eigentree.validation import (
    FILL_METHODS,
    MOST_THREADS,
    check_cells,
    checked_quantiles,
    flag,
    generator,
    one_of,
    our_arithmetic,
    whole_number,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import ArrayLike, NDArray

    from eigentree.arrays import Floats
    from eigentree.data.sequences.steps import SequenceForm
    from eigentree.emissions.base import Emission
    from eigentree.inference.networks.network import LatentNetwork
    from eigentree.inference.sequences.hmm_chain import Chain
    from eigentree.spectral.sequences.sequence_model import SpectralSequenceModel
    from eigentree.validation import FillMethod, Seed

__all__ = ["HiddenSequenceMixin", "SequenceMixin", "sequence_and_time"]

IMPOSSIBLE = "sequences are impossible under this model"


class SequenceMixin(Parameters):
    """Queries of a fitted model of sequences.

    Attributes
    ----------
    form_ : SequenceForm
        The form of the training sequences, in which sampled ones come too.
    """

    model_: Chain | SpectralSequenceModel
    form_: SequenceForm
    sequence: str | None
    time: str | None
    n_jobs: int

    def _sequences(self, X: ArrayLike | Any, lengths: ArrayLike | None) -> Sequences:
        return Sequences.of(X, self._columns, lengths, *sequence_and_time(self, X))

    def _ignore(self, y: object, lengths: object, sequences: Sequences) -> None:
        """Raise `DataError` where lengths are given in the place of y, as hmmlearn has it."""
        if lengths is not None or not isinstance(y, list | tuple | np.ndarray) or getattr(y, "ndim", 1) == 0:
            return
        if len(y) == sequences.count:
            return
        counts = [int(each) for each in y if isinstance(each, int | np.integer)]
        if len(counts) == len(y) and sum(counts) == sequences.steps:
            raise DataError(
                f"the second argument is y, which is ignored, but {quoted(y)} are lengths, which add up to "
                f"{sequences.steps} steps; give them by name, as lengths="
            )

    def _channel(self, target: str | None) -> int:
        """Return the place of a channel; None stands for the only one."""
        names = self._columns.names
        if target is None and len(names) > 1:
            raise DataError(f"there are several channels; give one of {', '.join(names)} as target=")
        return 0 if target is None else self._columns.position(target)

    @our_arithmetic
    def score_samples(
        self, X: ArrayLike | Any, lengths: ArrayLike | None = None, per_symbol: bool = False
    ) -> Floats:
        """Return the log probability of each sequence, missing cells marginalised out.

        Where channels are numbers it is a log density.

        Parameters
        ----------
        X : words, lists or arrays, an array, a frame, or a mapping of channels to frames
            Sequences in any form that `fit` takes.
        lengths : array-like of int, shape (sequences,), optional
            How many steps of an array belong to each sequence.
        per_symbol : bool
            Divide by the number of steps; NaN for an empty sequence.
        """
        flag("per_symbol", per_symbol)
        sequences = self._sequences(X, lengths)
        threads = whole_number("n_jobs", self.n_jobs, most=MOST_THREADS)
        log_prob = self.model_.log_prob(sequences, threads)
        warn_undefined(int(np.isneginf(log_prob).sum()), f"of {len(log_prob)} {IMPOSSIBLE}")
        if not per_symbol:
            return log_prob
        counts = sequences.lengths
        by_step: Floats = np.divide(log_prob, counts, out=np.full(len(counts), np.nan), where=counts > 0)
        return by_step

    def score(self, X: ArrayLike | Any, y: object = None, lengths: ArrayLike | None = None) -> float:
        """Return the mean log probability of the sequences; `y` is ignored."""
        sequences = self._sequences(X, lengths)
        self._ignore(y, lengths, sequences)
        return float(self.score_samples(sequences).mean())

    @our_arithmetic
    def predict_next_proba(
        self,
        X: ArrayLike | Any,
        lengths: ArrayLike | None = None,
        target: str | None = None,
        steps: int = 1,
    ) -> LabeledTable:
        """Return P(the next cell | sequence) of each sequence, shape (sequences, states).

        Parameters
        ----------
        X : words, lists or arrays, an array, a frame, or a mapping of channels to frames
            Sequences so far; one may be empty.
        lengths : array-like of int, shape (sequences,), optional
        target : str, optional
            The channel; needed where there are several.
        steps : int
            How many steps ahead; cells between are marginalised out.
        """
        columns = self._columns
        place = self._channel(target)
        name = columns.names[place]
        if place in columns.number_places:
            raise DataError(
                f"the channel {name!r} is of numbers, which have a density; predict_next has their means"
            )
        whole_number("steps", steps)
        proba = self.model_.ahead(self._sequences(X, lengths), steps)[place]
        proba = _distributions(proba, "their next cell is taken as uniform")
        axis = "sequence" if name != "sequence" else "of sequence"
        return LabeledTable.answer(proba, (axis, name), (range(len(proba)), columns.labels(name)))

    @our_arithmetic
    def predict_next(
        self,
        X: ArrayLike | Any,
        lengths: ArrayLike | None = None,
        steps: int = 1,
        quantiles: Sequence[float] | None = None,
    ) -> LabeledTable:
        """Return the mean of each number that comes next, shape (sequences, number channels), or quantiles of it.

        Parameters
        ----------
        X : lists or arrays, an array, a frame, or a mapping of channels to frames
            Sequences so far; one may be empty.
        lengths : array-like of int, shape (sequences,), optional
        steps : int
            How many steps ahead; what is between is integrated out.
        quantiles : sequence of float, optional
            Shares between 0 and 1; the result has the shape (sequences, number channels, quantiles) then.
        """
        columns = self._columns
        whole_number("steps", steps)
        shares = None if quantiles is None else checked_quantiles(quantiles)
        if not columns.number_places:
            raise DataError("no channel is of numbers; predict_next_proba has the probabilities of categories")
        found = self._numbers_ahead(self._sequences(X, lengths), steps, shares)
        channels = [columns.names[place] for place in columns.number_places]
        if shares is None:
            return LabeledTable.answer(found, ("sequence", "channel"), (range(len(found)), channels))
        return LabeledTable.answer(
            found, ("sequence", "channel", "quantile"), (range(len(found)), channels, shares)
        )

    def _numbers_ahead(self, sequences: Sequences, steps: int, quantiles: Sequence[float] | None) -> Floats:
        """Return means, or quantiles, of the numbers so many steps after the end of each sequence."""
        raise NotImplementedError

    @renamed_arguments(False, seed="random_state")
    @our_arithmetic
    def impute(
        self,
        X: ArrayLike | Any,
        lengths: ArrayLike | None = None,
        method: FillMethod = "mode",
        random_state: Seed = None,
    ) -> Any:
        """Return the sequences with their missing cells imputed, in the form in which they came.

        Missing cells at the end of a row of a wide frame are beyond the sequence, and stay missing.

        Parameters
        ----------
        X : words, lists or arrays, an array, a frame, or a mapping of channels to frames
        lengths : array-like of int, shape (sequences,), optional
        method : {"mode", "mean", "median", "sample"}
            "mode", also called "mean", takes the most probable state of each missing cell given the known cells of
            its sequence, and of a number its mean; "median" is the same but for numbers, which get their median;
            "sample" samples all missing cells of a sequence jointly.
        random_state : int, Generator or None
            For "sample".
        """
        return self._imputed(X, lengths, self._sequences(X, lengths), method, random_state)

    def _imputed(
        self, X: Any, lengths: ArrayLike | None, sequences: Sequences, method: FillMethod, random_state: Seed
    ) -> Any:
        """Return sequences, as they were read, imputed in the form in which they came."""
        one_of("method", method, FILL_METHODS)
        random = generator(random_state)
        model: Any = self.model_
        of_labels = method == "median" and not self._columns.number_places
        codes, lost = model.filled(sequences, "mode" if of_labels else method, random)
        warn_undefined(lost, f"{IMPOSSIBLE}; their missing cells are imputed as if no cell were known")
        return filled_sequences(X, lengths, sequences, codes, random if method == "sample" else None)

    @renamed_arguments(False, seed="random_state")
    @our_arithmetic
    def sample(self, n: int = 1, length: int = 10, random_state: Seed = None) -> Any:
        """Return sequences sampled from the model, in the form of the training sequences.

        Parameters
        ----------
        n : int
            How many.
        length : int
            How many steps each has.
        random_state : int, Generator or None
        """
        count, steps = whole_number("n", n, 0, DataError), whole_number("length", length, 1, DataError)
        columns = self._columns
        check_cells("the sequences", count * steps * len(columns.names), "draw fewer or shorter ones", DataError)
        random = generator(random_state)
        cells = self.model_.drawn(np.arange(count + 1) * steps, random)
        cells = cells if cells.dtype.kind == "f" else cells.astype(np.int64)
        return sampled_sequences(columns, self.form_, cells, count, steps, random)


class HiddenSequenceMixin(SequenceMixin):
    """Queries of a hidden Markov model whose conditional probability tables are known."""

    model_: Chain
    n_parameters_: int
    pseudo_counts: float
    sticky: float

    @property
    def tables_(self) -> dict[str, Any]:
        """The learned tables by name: "start", "transitions" and "emissions", axes and states named.

        "start" is the joint distribution of as many first states as the order, "transitions" P(state | as many
        before it), "emissions" P(cell | state), a dict where there are several channels. Of a factorial HMM,
        "start" and "transitions" are dicts of one table per chain, and emissions depend on the states of all.
        """
        chain, columns = self.model_, self._columns
        hidden = self._chain_names
        starts = {name: _start_table(links) for name, links in zip(hidden, chain.chains, strict=True)}
        moves = {name: _moves_table(links) for name, links in zip(hidden, chain.chains, strict=True)}
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
        return TablesByName((name, _one_or_all(found)) for name, found in tables.items() if found)

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
        if self.model_.order > 1 or len(self.model_.sizes) > 1:
            raise AttributeError(f"{name} is for order 1 and one chain; tables_ has all tables")
        return np.asarray(self.tables_[table])

    @property
    def _chain_names(self) -> list[str]:
        count = len(self.model_.sizes)
        return [f"chain {place}" for place in range(count)] if count > 1 else ["state"]

    @our_arithmetic
    def filter(self, X: ArrayLike | Any, lengths: ArrayLike | None = None) -> Any:
        """Return P(hidden state | the steps of its sequence so far) of each step.

        A list of arrays of shape (steps, states) for words and lists; for sequences that came in one array or
        frame, one array: a row for each of its rows, or for sequences in rows, axes (sequences, steps, states).
        Of a factorial HMM, a dict of these: "chain 0", "chain 1", ….
        """
        sequences = self._sequences(X, lengths)
        return self._of_chains(sequences, self.model_.of_each(self._of_steps(self.model_.filtered(sequences)[0])))

    @our_arithmetic
    def predict_proba(self, X: ArrayLike | Any, lengths: ArrayLike | None = None, target: str = "state") -> Any:
        """Return P(hidden state | all steps of its sequence) of each step, in the form of `filter`.

        Parameters
        ----------
        X : words, lists or arrays, an array, a frame, or a mapping of channels to frames
        lengths : array-like of int, shape (sequences,), optional
        target : {"state"}
        """
        one_of("target", target, ("state",))
        sequences = self._sequences(X, lengths)
        return self._of_chains(sequences, self.model_.of_each(self._of_steps(self.model_.smoothed(sequences))))

    @our_arithmetic
    def decode(self, X: ArrayLike | Any, lengths: ArrayLike | None = None) -> Decoded:
        """Return the jointly most probable hidden states of each sequence (Viterbi), and their log probability.

        States come in the form in which the sequences came; of a factorial HMM, a dict of these by chain.
        """
        sequences = self._sequences(X, lengths)
        states, log_prob = self.model_.decoded(sequences)
        warn_undefined(int(np.isneginf(log_prob).sum()), f"{IMPOSSIBLE}; their hidden states are -1")
        return Decoded(self._of_chains(sequences, self.model_.states_of_each(states)), log_prob)

    def predict(self, X: ArrayLike | Any, lengths: ArrayLike | None = None) -> Any:
        """Return the most probable hidden states of each sequence, jointly over its steps: those of `decode`."""
        return self.decode(X, lengths).states

    def _numbers_ahead(self, sequences: Sequences, steps: int, quantiles: Sequence[float] | None) -> Floats:
        state = self.model_.states_ahead(sequences, steps)
        return self.model_.numbers_ahead(_distributions(state, "their next state is taken as uniform"), quantiles)

    def bic(
        self, X: ArrayLike | Any, lengths: ArrayLike | None = None, sample_weight: ArrayLike | None = None
    ) -> float:
        """Return the Bayesian information criterion: the lower, the better.

        It is -2 · log-likelihood + `n_parameters_` · log(number of steps), as other programs for hidden Markov
        models have it; weighted steps are as many as their weights add up to. It compares fits of maximum
        likelihood: a fit with pseudo-counts is warned of.
        """
        return self._criteria(X, lengths, sample_weight).bic

    def aic(
        self, X: ArrayLike | Any, lengths: ArrayLike | None = None, sample_weight: ArrayLike | None = None
    ) -> float:
        """Return Akaike's information criterion, -2 · log-likelihood + 2 · `n_parameters_`."""
        return self._criteria(X, lengths, sample_weight).aic

    @our_arithmetic
    def criteria(
        self, X: ArrayLike | Any, lengths: ArrayLike | None = None, sample_weight: ArrayLike | None = None
    ) -> Criteria:
        """Return all information criteria by name, with log-likelihood, parameters and entropy R² of the steps.

        `Criteria` says what each is. They compare fits of maximum likelihood, as `bic` does.
        """
        sequences = self._sequences(X, lengths)
        weights = np.repeat(positive_weights(sample_weight, sequences.count), sequences.lengths)
        found = self.model_.of_each(self._of_steps(self.model_.smoothed(sequences)))
        return self._criteria(sequences, None, sample_weight, [(posterior, weights) for posterior in found])

    def to_network(self, length: int) -> LatentNetwork:
        """Return the `LatentNetwork` of sequences of one length, with the same tables at every step.

        Hidden states are h0, h1, …; a channel c of step t is called ``c_t``, or xt where it has no name. Those of a
        factorial HMM are h0_t, h1_t, …, as those of `zoo.factorial_hmm`. Numbers are leaves with an emission.
        """
        return self.model_.network(whole_number("length", length))

    def _criteria(
        self,
        X: ArrayLike | Any,
        lengths: ArrayLike | None,
        sample_weight: ArrayLike | None,
        posteriors: Iterable[tuple[Floats, Floats]] = (),
    ) -> Criteria:
        sequences = self._sequences(X, lengths)
        log_prob = self.score_samples(sequences)
        weights = positive_weights(sample_weight, len(log_prob))
        steps = float(weights @ sequences.lengths)
        if not steps > 0:
            raise DataError("no sequence that counts has a step; there is nothing to judge the model by")
        prior = max(float(self.pseudo_counts), float(self.sticky))
        return Criteria.of_rows(log_prob, weights, self.n_parameters_, steps, prior, posteriors)

    def _of_chains(self, sequences: Sequences, each: Sequence[NDArray[Any]]) -> Any:
        """Return what was found for each step and chain, in the form of the sequences."""
        found = {name: per_step(sequences, values) for name, values in zip(self._chain_names, each, strict=True)}
        return _one_or_all(found)

    def _of_steps(self, proba: Floats) -> Floats:
        return _distributions(proba, "the hidden states of their steps are taken as uniform", "steps of ")


def _one_or_all(found: dict[str, Any]) -> Any:
    """Return the only one, or all by name."""
    return TablesByName(found) if len(found) > 1 else next(iter(found.values()))


def _start_table(links: tuple[Floats, ...]) -> LabeledTable:
    """Return the joint distribution of as many first states as the order."""
    joint, order = links[0], len(links) - 1
    for link in links[1:-1]:
        joint = joint[..., None] * link
    names = ["state"] if order == 1 else [f"state {step}" for step in range(order)]
    return LabeledTable(joint, names, [range(len(links[0]))] * order)


def _moves_table(links: tuple[Floats, ...]) -> LabeledTable:
    """Return the distribution of a state given those before it."""
    names = [*(f"state {step} before" for step in range(len(links) - 1, 1, -1)), "state before", "state"]
    return LabeledTable(links[-1], names, [range(len(links[0]))] * len(links))


def _distributions(proba: Floats, then: str, what: str = "") -> Floats:
    """Return distributions, uniform ones where nothing is possible; a warning says how often."""
    totals = proba.sum(axis=1, keepdims=True)
    warn_undefined(int((totals == 0).sum()), f"{what}{IMPOSSIBLE}; {then}")
    even = np.full_like(proba, 1.0 / proba.shape[1])
    known: Floats = np.divide(proba, totals, out=even, where=totals > 0)
    return known


def sequence_and_time(model: SequenceMixin, X: Any) -> tuple[str | None, str | None]:
    """Return the names of the columns that hold the sequence and the time of each row of a long frame, or None."""
    if model.sequence is not None and not isinstance(model.sequence, str):
        raise ParameterError(f"sequence is the name of a column, not {quoted(model.sequence)}")
    # New sequences may come in another form than the training sequences.
    is_long = model.sequence is not None and hasattr(X, "columns") and not isinstance(X, Sequences)
    return (model.sequence, model.time) if is_long else (None, None)
