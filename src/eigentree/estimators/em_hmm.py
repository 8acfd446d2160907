"""`EMHMM`: a hidden Markov model of sequences of any length, its tables learned by EM."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import KW_ONLY, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np

from eigentree.data.sequences.inputs import InputSequences, split_frame
from eigentree.data.sequences.sequence_codes import Sequences
from eigentree.data.tables.state_rules import ReadOptions
from eigentree.data.tables.weights import positive_weights, warn_of_few
from eigentree.em.chain_fit import (
    ChainFit,
    ChainLayout,
    SequenceObjective,
    fit_chain,
    fit_with_known_states,
    with_free_states,
)
from eigentree.em.durations.duration_objective import (
    DurationLayout,
    DurationObjective,
    fit_with_durations,
    without_durations,
)
from eigentree.em.holdout import check_split, held_out
from eigentree.em.init.chains import NUMBER_KINDS
from eigentree.em.inputs.input_objective import (
    InputLayout,
    InputObjective,
    fit_from_tables,
    fit_with_inputs,
    without_inputs,
)
from eigentree.em.mixed.emission_choice import checked_emissions
from eigentree.em.number_chains import (
    NumberChainLayout,
    chain_objective,
    channel_families,
    chosen_families,
    started_emissions,
)
from eigentree.em.optimize.stopping import SHARE_OF_ERROR, USUAL_TOLERANCES, Stopping
from eigentree.errors import DataError, ParameterError, did_you_mean, quoted
from eigentree.estimators.fits.chain_durations import chain_with_durations, check_durations
from eigentree.estimators.fits.chain_inputs import affected_tables, chain_with_inputs
from eigentree.estimators.fits.given_tables import (
    allowed_transitions,
    first_links,
    given_distributions,
    given_emissions,
    of_each_chain,
)
from eigentree.estimators.fits.known_states import chain_with_known_states, without_known_states
from eigentree.estimators.mixins.constructor_parameters import estimator_class, learns
from eigentree.estimators.mixins.hidden_sequence_mixin import HiddenSequenceMixin
from eigentree.estimators.mixins.iterative_mixin import IterativeMixin
from eigentree.inference.sequences.hmm_chain import Chain
from eigentree.inference.sequences.input_chain import InputChain, InputTables
from eigentree.inference.sequences.number_steps import NumberPass
from eigentree.inference.sequences.sequence_passes import MOST_TOGETHER, marginal_chains
from eigentree.messages import notice
from eigentree.validation import check_cells, finite_number, generator, whole_number

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import ArrayLike

    from eigentree.arrays import Booleans, Floats, Integers
    from eigentree.data.tables.columns import Columns
    from eigentree.data.tables.state_rules import Categories, NumericRule, UnknownRule
    from eigentree.em.durations.duration_families import DurationName
    from eigentree.em.init.chains import ChainKind
    from eigentree.em.multistart import Multistart
    from eigentree.em.optimize.stopping import Rule
    from eigentree.validation import Seed

__all__ = ["EMHMM", "HMM"]

MOST_MESSAGE = 2**16
"""Most joint states of as many hidden variables as the order."""

MOST_CHAINS = 16
"""So many chains of two states have as many states together."""


@estimator_class
class EMHMM(IterativeMixin, HiddenSequenceMixin):
    """A hidden Markov model whose parameters are the same at every step, learned by expectation maximisation.

    Channels are categories, numbers, or some of both; those of a step are independent given its hidden state, but
    for groups of numbers that share an emission.

    Parameters
    ----------
    hidden_states : int or sequence of int
        The number of states; a list or tuple of several makes independent hidden chains (a factorial hidden Markov
        model).
    order : int
        How many earlier states a state depends on.
    n_init : int
        The number of starts; in a multi-start, how many candidates at most are run until they have converged.
    tol : float, optional
        What `stopping` compares with, per step of the sequences; by default it depends on how many there are
        (Notes).
    max_iter : int
        The most iterations of an EM run.
    init : {"multistart", "moments", "windows", "merged", "position", "random", "clusters"} or mapping
        Where to start: by one kind, by successive halving among several ("multistart"), or from a mapping with
        "start", "transitions" and "emissions", as `tables_`.
    transitions : {"full", "left-to-right"} or array-like of shape (states, states)
        Which state may follow which: any, the same or a later one, or where the array is not zero; of several
        chains a list of arrays.
    start : array-like of shape (states,), optional
        The distribution of the first state, where it is known and not to be learned; of several chains a list of
        them, one each.
    sticky : float
        Pseudo-counts, beyond the others, for staying in a state.
    stopping : {"gain", "paper"}
        As for `EMJunctionTree`, by the step in place of the row.
    pseudo_counts : float
        Added to every expected count (a Dirichlet prior); 0 is maximum likelihood.
    accelerate : bool
        Extrapolate from earlier steps (L-BFGS); where channels are numbers, iterations are plain ones.
    validation_fraction : float
        The share of the sequences that is not learned from, and says when to stop.
    random_state : int, Generator or None
    emissions : str or mapping
        What number channels show in each state: the name of a family for all, or a mapping of channels, or of
        tuples of channels that share a distribution, to families (Notes).
    numeric : {"emissions", "quantiles", "error"}
        What continuous channels are: numbers with a density in each state, bins, or an error.
    inputs_affect : one or several of "start", "transitions", "emissions"
        What depends on the inputs that `fit` is given.
    durations : {"explicit", "negative_binomial", "geometric"}, optional
        The distribution of the number of steps that a state lasts, for each duration or as a family (a hidden
        semi-Markov model); by default that of a Markov chain.
    max_duration : int, optional
        The longest duration that has a probability; by default the length of the longest sequence.
    n_jobs, verbose, categories, handle_unknown
        As those of `EMJunctionTree`, of sequences and channels in place of rows and columns.
    sequence, time : str, optional
        The columns of a long frame that hold the sequence of each row, and the order of its steps.

    Attributes
    ----------
    tables_ : dict
        "start", "transitions" and "emissions", with names; states are numbered by size, the largest first, unless
        `transitions`, `start` or `init` give them an order.
    emissions_ : dict of tuple of str to Emission
        What each group of number channels shows in each state.
    means_, covars_ : array, shapes (states, number channels), (states, number channels, number channels)
        Mean and covariance of the number channels in each state, as hmmlearn calls them.
    n_parameters_ : int
    start_ : StartReport
        Which start won, by how much per step, and what the candidates reached.
    history_ : array
        The objective of the best run, start included; it never decreases.
    validation_history_ : array
        The mean log probability of the validation sequences, per step of theirs; empty if there are none.
    objectives_ : array
        Where each run ended.
    n_iter_ : int
    converged_ : bool
    columns_ : Columns
        The channels.

    Notes
    -----
    **tol**: for "gain" 0.005 of the chance error, p / 2n for p free parameters and n steps, and 1e-4 for "paper".

    **init**: "moments": method-of-moments estimates from pooled counts of neighbouring steps; "windows": clusters
    of steps with their neighbours (k-means); "merged": sets of symbols, merged and exchanged by likelihood;
    "position": states one after another; "random": random parameters; "clusters", where channels are numbers:
    clusters of steps; "moments" and "merged" then take many clusters for symbols. In a mapping an emission of
    numbers is given as such, or as a mapping of its parameters to arrays.

    **emissions**: "gaussian", "student", or for all number channels together "diagonal", "full" or "tied"; a
    mapping is such as ``{"heart": "gaussian", ("x", "y"): "full", "sleep": "categorical"}``, and a family with
    settings one such as ``{"family": "gaussian", "prior_rows": 0.0}``. "auto": by the kind of each channel;
    continuous ones are independent normal, normal together ("full") or "semiparametric", whichever has the highest
    log density of held-out steps after a short run.

    Examples
    --------
    >>> model = EMHMM(hidden_states=2, random_state=0).fit(["AAAABBBB", "AAABBB", "BBAA"])
    >>> likely, rare = model.score_samples(["AAAB", "ABAB"])
    >>> bool(likely > rare)
    True
    >>> first, second = model.decode(["AABB"]).states[0][1:3]
    >>> bool(first != second)
    True

    Numbers, one array of steps a sequence:

    >>> random = np.random.default_rng(0)
    >>> parts = [np.concatenate([random.normal(2, 1, 30), random.normal(7, 1, 10)]) for _ in range(10)]
    >>> numbers = EMHMM(hidden_states=2, random_state=0).fit(parts)
    >>> numbers.means_.round().ravel().tolist()
    [2.0, 7.0]
    >>> numbers.predict_next([[2.1, 6.7, 7.2]]).round().tolist()
    [[7.0]]
    """

    hidden_states: int | Sequence[int] = 2
    order: int = 1
    n_init: int = 5
    tol: float | None = None
    max_iter: int = 1000
    _: KW_ONLY
    init: Literal["multistart"] | ChainKind | Mapping[str, Any] = "multistart"
    transitions: Literal["full", "left-to-right"] | ArrayLike = "full"
    start: ArrayLike | None = None
    sticky: float = 0.0
    stopping: Rule = "gain"
    pseudo_counts: float = 0.1
    accelerate: bool = True
    validation_fraction: float = 0.0
    random_state: Seed = None
    n_jobs: int = 1
    verbose: int = 0
    sequence: str | None = None
    time: str | None = None
    categories: Categories | None = None
    handle_unknown: UnknownRule = "error"
    numeric: NumericRule = "emissions"
    emissions: str | Mapping[Any, Any] = "auto"
    inputs_affect: str | Sequence[str] = ("start", "transitions")
    durations: DurationName | None = None
    max_duration: int | None = None

    _unit = "step"

    @learns
    def fit(
        self,
        X: ArrayLike | Any,
        y: object = None,
        lengths: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        inputs: Any = None,
        states: Any = None,
    ) -> Self:
        """Return the estimator after learning from sequences.

        Parameters
        ----------
        X : words, lists or arrays of different lengths, an array, a frame, or a mapping of channels to frames
            Sequences, in one of the forms of the notes.
        y : ignored
        lengths : array-like of int, shape (sequences,), optional
            How many steps of an array belong to each sequence.
        sample_weight : array-like of shape (sequences,), optional
            How often each sequence counts; need not be whole.
        inputs : sequences, a table, or names of columns, optional
            What `inputs_affect` depends on: one row for each step, in any form that X has, or one for each
            sequence; of a frame with `sequence`, names of its columns.
        states : sequences, optional
            The hidden states that are known, from 0, one for each step in any form that X has; missing where they
            are not known.

        Warns
        -----
        RuntimeWarning
            When the fit was interrupted (Ctrl-C) and the best so far is kept.

        Notes
        -----
        Sequences are words; lists or arrays, of cells or of rows with one cell per channel; an array of all with
        `lengths`; one sequence per row of an array or frame, without what is missing at its end, or a mapping of
        such frames, one per channel; or, with `sequence`, a frame with one step per row.

        Inputs are known at every step. A single column of categories are symbols, each of which has tables of its
        own; other inputs are terms of multinomial logits: numbers as they are, and all labels of categories but the
        first.
        """
        self._check_arguments()
        affected = affected_tables(self.inputs_affect)
        given = {"lengths": lengths, "sample_weight": sample_weight, "inputs": inputs, "states": states}
        remembered = self._remembered(X, **given)
        X, inputs = split_frame(X, inputs)
        sequences = Sequences.learned(X, lengths, self.sequence, self.time, ReadOptions.of(self))
        self._ignore(y, lengths, sequences)
        weights = positive_weights(sample_weight, sequences.count)
        warn_of_few(weights)
        if sequences.form.width == 1 and sequences.count > 1:
            notice(
                f"the data are {sequences.count} sequences of one step, one in each row, so nothing shows "
                f"transitions; give one sequence as a flat array (X.ravel()), several end to end with lengths="
            )
        random = generator(self.random_state)
        layout = self._layout(sequences, weights, random)
        observed, about = sequences, None
        if inputs is not None:
            sequences, about, layout = chain_with_inputs(layout, sequences, inputs, affected, self._groups)
        if states is not None:
            layout, sequences = chain_with_known_states(layout, sequences, states, isinstance(self.init, str))
        markov = replace(layout, known_states=False)
        if self.durations is not None:
            layout = chain_with_durations(layout, sequences, self.durations, self.max_duration)
        fit = self._chain_fit(sequences, weights, layout, random)
        runs = ((fit, fit.whole, state) for state in self._runs(fit, markov, random))
        *_, state = self._followed(runs, self.max_iter * self.n_init, self.max_iter)
        chain = self._chain_of(fit, sequences.columns, about, state.best[1].parameters)
        return self._become(
            {
                "model_": without_known_states(chain, observed),
                "columns_": observed.columns,
                "form_": observed.form,
                "n_parameters_": layout.free_count,
            }
            | ({} if self._groups is None else {"state_clusters_": self._groups})
            | remembered
            | self._run_attributes(state, fit.whole.weight, fit.validation)
        )

    def _runs(self, fit: ChainFit, markov: ChainLayout, random: np.random.Generator) -> Iterator[Multistart]:
        """Yield the state of a fit, again and again; `markov` is the layout without durations."""
        known, prior = fit, (float(self.pseudo_counts), float(self.sticky))
        if fit.whole.layout.known_states:
            fit = with_free_states(fit, *prior)
        plain = without_durations(without_inputs(fit), markov, prior[0])
        init: Floats | str
        if isinstance(self.init, InputTables) and isinstance(fit.whole, InputObjective):
            yield from fit_from_tables(fit, self.init)
            return
        init = self._initialiser(plain.whole) if isinstance(self.init, str) else self._given(plain.whole, fit.whole)
        how = {InputLayout: partial(fit_with_inputs, plain), DurationLayout: partial(fit_with_durations, plain)}
        runs = how.get(type(fit.whole.layout), fit_chain)(fit, init, self.n_init, random)
        yield from runs if known is fit else fit_with_known_states(known, runs)

    def _chain_of(
        self, fit: ChainFit, columns: Columns, about: Columns | None, parameters: Floats
    ) -> Chain | InputChain:
        """Return the model of the parameters of a fit, its states by size unless something says which is which."""
        layout = fit.whole.layout
        chain: Chain | InputChain
        if isinstance(layout, InputLayout):
            assert about is not None
            chain = InputChain(columns, about, layout.tables_of(parameters))
        elif isinstance(layout, DurationLayout):
            chain = layout.chain_of(columns, parameters)
        else:
            numbers = layout.numbered(parameters) if isinstance(layout, NumberChainLayout) else None
            chain = Chain.of(columns, *layout.parts(parameters), numbers)
        is_free = isinstance(self.transitions, str) and self.transitions == "full" and self.start is None
        if not is_free or not isinstance(self.init, str) or layout.known_states:
            return chain
        # How many steps are expected in each state.
        links = fit.whole.expected_links(parameters)
        used = np.sum([table.reshape(-1, table.shape[-1]).sum(axis=0) for table in links], axis=0)
        return chain.permuted(self._by_size(used, chain.sizes))

    def _by_size(self, used: Floats, sizes: Sequence[int]) -> list[Integers]:
        """Return the order of the states of each chain, given how many steps are expected in each state."""
        return [np.argsort(-own, kind="stable") for own in marginal_chains(used, sizes)]

    @property
    def _groups(self) -> Integers | None:
        """The cluster of each state, where states are those of clusters and inputs are covariates of these."""
        return None

    def _chain_fit(
        self, sequences: Sequences, weights: Floats, layout: ChainLayout, random: np.random.Generator
    ) -> ChainFit:
        if not weights @ sequences.lengths > 0:
            raise DataError("no sequence that counts has a step; there is nothing to learn from")
        validation: SequenceObjective | None = None
        learned = weights
        if self.validation_fraction:
            held = held_out(weights, self.validation_fraction, random)
            learned = weights - held
            steps, held_steps = float(learned @ sequences.lengths), float(held @ sequences.lengths)
            check_split(steps, held_steps, self.validation_fraction, sequences.count, "sequences")
            validation = self._objective(layout, sequences, held, layout.prior(0.0, 0.0))
        prior = layout.prior(float(self.pseudo_counts), float(self.sticky))
        problem = self._objective(layout, sequences, learned, prior)
        tol = self.tol
        if tol is None and self.stopping == "gain":
            tol = Stopping.within_chance(SHARE_OF_ERROR, layout.free_count, problem.weight).tol
        stopping = Stopping(self.stopping, USUAL_TOLERANCES["paper"] if tol is None else float(tol))
        return ChainFit(problem, stopping, self.max_iter, self.accelerate, validation)

    def _objective(
        self, layout: ChainLayout, sequences: Sequences, weights: Floats, prior: Floats
    ) -> SequenceObjective:
        if isinstance(layout, InputLayout):
            assert isinstance(sequences, InputSequences)
            return InputObjective.of(layout, sequences, weights, prior, self.n_jobs)
        if isinstance(layout, DurationLayout):
            return DurationObjective.of(layout, sequences, weights, prior, self.n_jobs)
        return chain_objective(layout, sequences, weights, prior, self.n_jobs)

    def _layout(self, sequences: Sequences, weights: Floats, random: np.random.Generator) -> ChainLayout:
        sizes, channels = self._sizes(), sequences.columns.states
        starts: tuple[Floats, ...] = ()
        if self.start is not None:
            given = of_each_chain("start", self.start, len(sizes))
            starts = tuple(
                given_distributions("start", own, (size,)) for own, size in zip(given, sizes, strict=True)
            )
        layout = ChainLayout(sizes, self.order, channels, self._allowed(), starts)
        families = channel_families(self.emissions, sequences.columns)
        if not families:
            return layout
        chosen = chosen_families(families, sequences, weights, layout, float(self.pseudo_counts), random)
        whole = NumberPass.of_distinct(sequences, weights, {}, self.n_jobs)
        numbers = started_emissions(chosen, whole, layout.states)
        return NumberChainLayout.of(layout, numbers)

    def _initialiser(self, problem: SequenceObjective) -> str:
        """Return the named initialiser, once it is one for these channels."""
        name: str = self._start
        if name != "multistart" and name not in problem.initialisers:
            raise ParameterError(
                f"init={name!r} is for channels that are numbers, and these are categories; take one of "
                f"{', '.join(map(repr, problem.initialisers))}"
            )
        return name

    def _allowed(self) -> tuple[Booleans, ...]:
        """Return which state of each chain may follow which."""
        return allowed_transitions(self.transitions, self._sizes())

    def _sizes(self) -> tuple[int, ...]:
        """Return how many states each chain has."""
        given = self.hidden_states
        if not isinstance(given, list | tuple):
            return (whole_number("hidden_states", given),)
        if not 0 < len(given) <= MOST_CHAINS:
            raise ParameterError(
                f"hidden_states are 1 to {MOST_CHAINS} numbers, one for each chain, not {len(given)}"
            )
        return tuple(whole_number("hidden_states", size, 2 if len(given) > 1 else 1) for size in given)

    def _given(self, problem: SequenceObjective, whole: SequenceObjective) -> Floats:
        """Return the parameters of tables that the user gave to start from.

        They are those of a chain without inputs, or, given those of a chain without durations, of one with them.
        """
        layout = problem.layout
        given = self.init
        keys = ["start", "transitions", "emissions"]
        if isinstance(whole.layout, DurationLayout) and isinstance(given, Mapping) and "durations" in given:
            keys.append("durations")
        if not isinstance(given, Mapping) or set(given) != set(keys):
            other = next((key for key in given if key not in keys), None) if isinstance(given, Mapping) else None
            hint = did_you_mean(other, keys) if other is not None else ""
            raise ParameterError(
                f"init is 'multistart', {', '.join(map(repr, NUMBER_KINDS))}, or a mapping with 'start', "
                f"'transitions' and 'emissions', not {quoted(given)}{hint}"
            )
        several = len(layout.sizes)
        firsts = of_each_chain("init['start']", given["start"], several)
        moves = of_each_chain("init['transitions']", given["transitions"], several)
        links: list[Floats] = []
        for size, first, move in zip(layout.sizes, firsts, moves, strict=True):
            links += first_links(first, size, layout.order)
            links.append(given_distributions("init['transitions']", move, (size,) * (layout.order + 1)))
        tables, emissions = given_emissions(problem, given["emissions"])
        vector = layout.settled(np.concatenate([table.ravel() for table in (*links, *tables)]))
        if isinstance(layout, NumberChainLayout):
            vector = layout.whole(vector, emissions)
        if isinstance(whole.layout, DurationLayout):
            problem, segments = whole, whole.layout
            shape = (segments.states, segments.longest)
            own = given.get("durations")
            table = None if own is None else given_distributions("init['durations']", own, shape)
            vector = segments.lifted(layout, vector, table)
        if (number := problem.evaluated(vector).impossible) >= 0:
            raise DataError(
                f"sequence {number} has probability zero at the start, so EM cannot explain it; give an init whose "
                f"tables have no zeros there"
            )
        return vector

    def _check_arguments(self) -> None:
        states = math.prod(self._sizes())
        whole_number("order", self.order)
        if states == 1:
            # There is one joint state at any order, but tables have an axis for each step.
            whole_number("order", self.order, most=MOST_MESSAGE.bit_length() - 1)
        if self.order * math.log(states) > math.log(MOST_MESSAGE):
            raise ParameterError(
                f"hidden_states={self.hidden_states} with order={self.order} are "
                f"{states}^{self.order} joint states (the limit is {MOST_MESSAGE:,}); make one smaller"
            )
        cells = states ** (self.order + 1)
        do = "take fewer hidden_states or a lower order"
        check_cells("the transitions", cells, do, ParameterError, MOST_TOGETHER if len(self._sizes()) > 1 else None)
        if not isinstance(self.init, str | Mapping | InputTables):
            raise ParameterError(
                f"init is 'multistart', an initialiser, or a mapping of tables, not {quoted(self.init)}"
            )
        self._check_runs(tuple(NUMBER_KINDS), (Mapping, InputTables))
        checked_emissions(self.emissions)
        finite_number("sticky", self.sticky, 0.0)
        check_durations(self)
        self._allowed()


HMM = EMHMM
"""The name that people look for."""
