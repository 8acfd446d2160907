"""`SpectralHMM`: the operators of one step, learned from windows of sequences and used at every step."""

from __future__ import annotations

from dataclasses import KW_ONLY, field, fields, replace
from typing import TYPE_CHECKING, Any, Literal, NoReturn, Self

import numpy as np

from eigentree.counting.levels.hats import LEVELS, MOST_HATS, HatScale
from eigentree.counting.levels.number_scales import column_step
from eigentree.counting.window_counts import SequenceStatistics, check_plan
from eigentree.data.sequences.inputs import InputSequences, are_symbols, learned_inputs, split_frame
from eigentree.data.sequences.sequence_codes import Sequences, per_step
from eigentree.data.sequences.steps import SequenceForm
from eigentree.data.tables.state_rules import ReadOptions
from eigentree.data.tables.weights import check_total, checked_weights, positive_weights, warn_of_few
from eigentree.em.mixed.emission_choice import families_of_columns
from eigentree.errors import DataError, quoted
from eigentree.estimators.mixins.constructor_parameters import estimator_class, learns
from eigentree.estimators.mixins.sequence_mixin import SequenceMixin
from eigentree.estimators.mixins.spectral_mixin import SpectralMixin
from eigentree.planning.window_plan import WindowPlan
from eigentree.spectral.sequences.sequence_model import SpectralSequenceModel, choose_windows
from eigentree.spectral.sequences.transducer import Transducer, output_columns, paired
from eigentree.spectral.sequences.window_report import SequenceReport
from eigentree.validation import (
    MOST_THREADS,
    checked_quantiles,
    one_of,
    our_arithmetic,
    whole_number,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import ArrayLike

    from eigentree.arrays import Floats
    from eigentree.data.tables.columns import Columns
    from eigentree.data.tables.state_rules import Categories, NumericRule, UnknownRule
    from eigentree.planning.window_plan import ChannelRule

__all__ = ["SpectralHMM"]


@estimator_class
class SpectralHMM(SpectralMixin, SequenceMixin):
    """A hidden Markov model of sequences of any length, learned from counts in one pass and without local optima.

    One set of operators serves every step, learned from windows pooled over all steps of all sequences; these need
    not be stationary.

    Parameters
    ----------
    hidden_states : int
        States of the hidden chain at one step.
    order : int
        On how many steps before it a hidden state depends.
    channels : {"independent", "dependent"}
        Whether the channels of a step are independent given its hidden state.
    shrinkage : float or "auto"
        Shrinkage toward independent steps in units of the noise: 0 is none, infinity is independent steps, and
        "auto" is chosen by held-out likelihood, from 0.4 on.
    max_rank : int, optional
        Largest rank of a bond.
    floor : float or "auto"
        The share of its channel's marginal distribution that every cell has at least given those before it; with 0,
        sequences can be impossible.
    scaling : {"auto", "variance", None}
        Whether counts are scaled so that their noise has equal variance.
    hats : int or "auto"
        Hat functions of each channel of numbers: 5, 9, 17 or 33, or what held-out likelihood is best with.
    n_jobs : int
        Threads that share the sequences that are scored.
    emissions : str or mapping
        Which channels are numbers ("semiparametric") and which "categorical"; "auto" goes by their cells.
    sequence, time, categories, handle_unknown, numeric
        As those of `EMHMM`.

    Attributes
    ----------
    model_ : SpectralSequenceModel
        The operators of a step, and the fit that they are from.
    statistics_ : SequenceStatistics
        Counts of windows, and a sample of pieces of sequences; additive.
    report_ : SequenceReport
        Per bond of a step: rank, views, singular values; how much was shrunk and clipped.
    columns_ : Columns
        The channels: names, and labels of states.
    form_ : SequenceForm
        The form of the training sequences.
    shrinkage_, floor_ : float
        Those that were used.
    hats_ : int
        The number of hat functions that was used of channels of numbers; 0 where there are none.

    Notes
    -----
    This is also the spectral learning of weighted automata and of stochastic finite-state models (Hsu, Kakade and
    Zhang, 2009; Balle, Quattoni and Carreras, 2011), with scores that are log probabilities: noise can leave a
    learned probability negative; the chain rule over steps, in which negative values are clipped and the rest is
    renormalised with the channel's marginal distribution, makes it one distribution over all sequences of a length.
    A missing cell is marginalised out by the operators before anything is clipped (``report_.clipping``).

    Channels of numbers are learned as in the Hilbert space embeddings of hidden Markov models (Song et al., 2010),
    with a finite basis in place of a kernel: hat functions of u = F(x), with a smooth estimate F of the channel's
    cdf. What is learned of a state is a density f(x) g(F(x)) with its marginal density f and a piecewise linear g.
    The operators are exact where the densities of all states are such, and else at best within what hats can
    approximate. `score_samples` is a log density that integrates to 1. The scale F follows from the sequences of
    the first `fit`; `partial_fit` keeps it.

    With `inputs` it is the spectral learning of stochastic transducers (Balle, Quattoni and Carreras, 2011), from
    aligned pairs: an input and an output at every step. There is an operator for each pair, and scores are log
    probabilities of outputs given inputs, which are normalised for every input. They are exact where an input does
    not depend on the hidden state beside the pairs before it: independent inputs, or such that were chosen by what
    was seen. Inputs that depend on each other raise the rank, so that more `hidden_states` may be needed than the
    transducer has. Symbols without a partner have to be aligned before, with an empty symbol of their own.

    A spectral model has no conditional probability tables, so hidden states are not available; `EMHMM` has them.

    **floor="auto"** is chosen with the shrinkage; where that is given, it is 10 over the number of steps, at most
    0.001, and 0 with shrinkage 0. **scaling="auto"** is chosen with the shrinkage too, and is "variance" where that
    is given. Where the rank is too low for the data, scaled counts keep the surest directions, however rare, and
    others the most frequent.

    Examples
    --------
    >>> import eigentree as et
    >>> model = et.SpectralHMM(hidden_states=2).fit(["ABABABAB", "BABABA", "ABABAB"] * 20)
    >>> model.predict_next_proba(["ABA"]).round(2)
    array([[0., 1.]])
    """

    hidden_states: int = 4
    order: int = 1
    channels: ChannelRule = "independent"
    shrinkage: float | Literal["auto"] = "auto"
    max_rank: int | None = None
    floor: float | Literal["auto"] = "auto"
    scaling: Literal["auto", "variance"] | None = "auto"
    _: KW_ONLY
    hats: int | Literal["auto"] = "auto"
    n_jobs: int = 1
    emissions: str | Mapping[Any, Any] = "auto"
    sequence: str | None = None
    time: str | None = None
    categories: Categories | None = None
    handle_unknown: UnknownRule = "error"
    numeric: NumericRule = "emissions"

    model_: SpectralSequenceModel = field(init=False)
    statistics_: SequenceStatistics = field(init=False)
    report_: SequenceReport = field(init=False)

    @property
    def hats_(self) -> int:
        """The number of hat functions that was used of channels of numbers; 0 where there are none."""
        return self.model_.fit.hats

    @learns
    def fit(
        self,
        X: ArrayLike | Any,
        y: object = None,
        lengths: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        inputs: Any = None,
    ) -> Self:
        """Return the model learned from sequences.

        Parameters
        ----------
        X : words, lists or arrays of different lengths, an array, a frame, or a mapping of channels to frames
            Labels or codes, None, NaN, null or -1 for a missing cell; a window counts wherever the cells that it
            needs are present.
        y : None
            Ignored, for scikit-learn.
        lengths : array-like of int, shape (sequences,), optional
            How many steps of an array belong to each sequence.
        sample_weight : array-like of shape (sequences,), optional
            How often each sequence counts; may be fractional.
        inputs : sequences, a table, or the name of a column, optional
            A symbol for each step, in any form that X has, or for each sequence: the model is then a transducer
            (see the notes of the class).
        """
        self._check_parameters()
        X, inputs = split_frame(X, inputs)
        given = Sequences.learned(X, lengths, self.sequence, self.time, ReadOptions.of(self))
        self._ignore(y, lengths, given)
        if inputs is not None:
            return self._transducer(given, inputs, sample_weight)
        columns, scales = given.columns, self._scales(given, sample_weight)
        empty = SequenceStatistics.empty(self._plan(columns), columns, scales)
        return self._learn(self._counted(empty, given, sample_weight), given.form)

    @learns
    def partial_fit(
        self,
        X: ArrayLike | Any,
        y: object = None,
        lengths: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        inputs: Any = None,
    ) -> Self:
        """Return the model learned from these sequences and all that were given before.

        It is bit-identical to one `fit` on all of them, if the first ones have all labels, and no channel is of
        numbers: the levels of numbers are those of the first sequences.
        """
        if "statistics_" not in vars(self):
            return self.fit(X, y, lengths, sample_weight, inputs)
        self._check_parameters()
        columns, about = self.statistics_.columns, self._input_columns
        plan = self._plan(columns) if about is None else self._plan_of_pairs(columns)
        check_plan(self.statistics_, plan, columns)
        given = self._sequences(X, lengths, inputs)
        self._ignore(y, lengths, given)
        if isinstance(given, InputSequences):
            given = _pairs(given, columns)
        return self._learn(self._counted(self.statistics_, given, sample_weight), self.form_, about)

    def _transducer(self, sequences: Sequences, inputs: Any, sample_weight: ArrayLike | None) -> Self:
        """Return the model of sequences given inputs that are symbols."""
        about = learned_inputs(inputs, sequences)
        if not are_symbols(about):
            raise DataError(
                "the inputs of a spectral model are symbols: one column of categories; EMHMM takes several "
                "columns, and numbers"
            )
        outputs = sequences.columns
        if outputs.number_places:
            name = outputs.names[outputs.number_places[0]]
            raise DataError(
                f"the channel {name!r} is of numbers, but a spectral model with inputs is of symbols; EMHMM takes "
                f"numbers, numeric='quantiles' cuts them into bins"
            )
        name = next(each for each in (*about.names, "input", "input of a step") if each not in outputs.names)
        columns = outputs.with_column(0, name, about.states[0], about.meanings[0])
        pairs = _pairs(InputSequences.joined(sequences, inputs, about), columns)
        empty = SequenceStatistics.empty(self._plan_of_pairs(columns), columns)
        return self._learn(self._counted(empty, pairs, sample_weight), sequences.form, about)

    def _plan_of_pairs(self, columns: Columns) -> WindowPlan:
        return WindowPlan.of_pairs(columns.states, self.hidden_states, self.order, self.max_rank)

    @learns
    def fit_statistics(self, statistics: SequenceStatistics) -> Self:
        """Return the model learned from statistics, wherever their sequences were counted.

        Parameters
        ----------
        statistics : SequenceStatistics
            Those of another model with the same `hidden_states`, `order`, `channels` and `max_rank`, or a sum of
            such.
        """
        if not isinstance(statistics, SequenceStatistics):
            raise DataError(f"fit_statistics takes the statistics_ of a SpectralHMM, not {quoted(statistics)}")
        self._check_parameters()
        if statistics.plan.pairs:
            raise DataError("the statistics are of pairs with inputs; give more of these to partial_fit")
        check_plan(statistics, self._plan(statistics.columns), statistics.columns)
        return self._learn(statistics, SequenceForm("lists"))

    def _counted(
        self, statistics: SequenceStatistics, sequences: Sequences, sample_weight: ArrayLike | None
    ) -> SequenceStatistics:
        weights = checked_weights(sample_weight, sequences.count)
        if weights is not None:
            # What is counted are windows, and a sequence has about as many of them as steps.
            check_total(float(weights.astype(float) @ sequences.lengths))
        warn_of_few(weights)
        return statistics.update(sequences, weights)

    def _scales(self, sequences: Sequences, sample_weight: ArrayLike | None) -> tuple[HatScale | None, ...]:
        """Return the levels of each channel of numbers, None for other channels; () where there are no numbers."""
        columns = sequences.columns
        if not columns.number_places:
            return ()
        weights = positive_weights(sample_weight, sequences.count)
        steps = np.repeat(weights, sequences.lengths)
        found: list[HatScale | None] = [None] * len(columns.names)
        for place, channel in enumerate(columns.number_places):
            found[channel] = HatScale.of(sequences.values[:, place], steps, column_step(columns, channel))
        return tuple(found)

    def _plan(self, columns: Columns) -> WindowPlan:
        # Raises where emissions name what is no channel.
        families_of_columns(self.emissions, columns)
        states = list(columns.states)
        for channel in columns.number_places:
            states[channel] = LEVELS
        hats = dict.fromkeys(columns.number_places, MOST_HATS)
        return WindowPlan.of(states, self.hidden_states, self.order, self.channels, self.max_rank, hats=hats)

    def _check_parameters(self) -> None:
        whole_number("hidden_states", self.hidden_states)
        whole_number("order", self.order)
        one_of("channels", self.channels, ("independent", "dependent"))
        if self.max_rank is not None:
            whole_number("max_rank", self.max_rank)
        one_of("scaling", self.scaling, ("auto", "variance", None))
        whole_number("n_jobs", self.n_jobs, most=MOST_THREADS)
        self._check_learning("EMHMM")

    def _learn(self, statistics: SequenceStatistics, form: SequenceForm, inputs: Columns | None = None) -> Self:
        """Return the model with all that was learned put in place at once, after it was all computed."""
        if not statistics.steps > 0:
            raise DataError("there are no steps, or the weight of all sequences is zero; nothing can be learned")
        shrinkage, floor, hats = self._given
        scaled = None if self.scaling == "auto" else self.scaling == "variance"
        model, tried = choose_windows(
            statistics,
            shrinkage,
            floor,
            scaled,
            hats,
            SpectralSequenceModel if inputs is None else Transducer,
        )
        report = SequenceReport.of(statistics, model, tried)
        report.warn()
        columns = statistics.columns
        if isinstance(model, Transducer):
            assert inputs is not None
            model, columns = replace(model, input_columns=inputs), output_columns(columns)
        return self._become(
            {
                "model_": model,
                "statistics_": statistics,
                "report_": report,
                "columns_": columns,
                "form_": form,
            }
        )

    def _numbers_ahead(self, sequences: Sequences, steps: int, quantiles: Sequence[float] | None) -> Floats:
        tables = self.model_.ahead(sequences, steps)
        places = self._columns.number_places
        return np.stack([self.model_.numbers_of(place, tables[place], quantiles) for place in places], axis=1)

    @our_arithmetic
    def filter(
        self,
        X: ArrayLike | Any,
        lengths: ArrayLike | None = None,
        target: str | None = None,
        quantiles: Sequence[float] | None = None,
        inputs: Any = None,
    ) -> Any:
        """Return P(cell | the steps of its sequence before it) of each step; of numbers, the mean or quantiles.

        A list of arrays of shape (steps, states) for words and lists; for sequences that came in one array or
        frame, one array: a row for each of its rows, or for sequences in rows, axes (sequences, steps, states). Of
        numbers, there is no axis of states, or one of quantiles in its place.

        Parameters
        ----------
        X, lengths, inputs
            As for `fit`; inputs of a model that was fitted with some, that of its own step too.
        target : str, optional
            The channel, needed where there are several; the others of its own step are not looked at.
        quantiles : sequence of float, optional
            Shares between 0 and 1, of a channel of numbers.
        """
        shares = None if quantiles is None else checked_quantiles(quantiles)
        columns = self._columns
        if isinstance(target, str) and target == "state" and target not in columns.names:
            self._refuse("filter with target='state' is about hidden states")
        place = self._channel(target)
        if shares is not None and place not in columns.number_places:
            raise DataError(f"quantiles are of numbers, and the channel {columns.names[place]!r} is of categories")
        sequences = self._sequences(X, lengths, inputs)
        found = self.model_.filtered(sequences)[place]
        if place in columns.number_places:
            found = self.model_.numbers_of(place, found, shares)
        return per_step(sequences, found)

    def predict_proba(
        self,
        X: ArrayLike | Any,
        lengths: ArrayLike | None = None,
        target: str = "state",
        inputs: Any = None,
    ) -> NoReturn:
        """Raise `GraphError`: hidden states need tables, which `EMHMM` learns."""
        self._refuse("predict_proba is about hidden states")

    def decode(self, X: ArrayLike | Any, lengths: ArrayLike | None = None, inputs: Any = None) -> NoReturn:
        """Raise `GraphError`: hidden states need tables, which `EMHMM` learns."""
        self._refuse("decode is about hidden states")

    def to_network(self, length: int) -> NoReturn:
        """Raise `GraphError`: a network needs tables, which `EMHMM` learns."""
        self._refuse("a network has tables of hidden states")

    def _refuse(self, what: str) -> NoReturn:
        sizes = f"hidden_states={self.hidden_states}, order={self.order}"
        self._no_tables(what, f"EMHMM({sizes}, init='moments').fit(X)")


def _pairs(sequences: InputSequences, columns: Columns) -> Sequences:
    """Return sequences of pairs, inputs first."""
    own = {each.name: getattr(sequences, each.name) for each in fields(Sequences)}
    codes = paired(sequences.which, sequences.codes).astype(columns.code_type)
    return Sequences(**own | {"columns": columns, "codes": np.asfortranarray(codes)})
