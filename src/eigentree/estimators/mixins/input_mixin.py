"""Queries of a hidden Markov model whose tables may depend on inputs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Self, Unpack

import numpy as np

from eigentree.data.sequences.inputs import InputSequences, design_names, design_of
from eigentree.data.tables.labeled_table import LabeledTable, TablesByName
from eigentree.errors import DataError, quoted
from eigentree.estimators.mixins.constructor_parameters import cloned
from eigentree.estimators.mixins.hidden_sequence_mixin import HiddenSequenceMixin
from eigentree.estimators.mixins.uncertainty_mixin import UncertaintyMixin
from eigentree.inference.sequences.input_chain import InputChain

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import ArrayLike

    from eigentree.arrays import Floats
    from eigentree.data.sequences.sequence_codes import Sequences
    from eigentree.estimators.mixins.uncertainty_mixin import EstimateOptions
    from eigentree.inference.networks.network import LatentNetwork
    from eigentree.uncertainty.estimates import Estimates

__all__ = ["DIFFER", "InputMixin"]


class InputMixin(UncertaintyMixin, HiddenSequenceMixin):
    """Queries and standard errors of a hidden Markov model that take inputs, where it was fitted with some.

    `inputs` are one row for each step, or one for each sequence, in any form that `fit` takes.
    """

    @property
    def _inputs(self) -> InputChain | None:
        """The model, if its tables depend on inputs."""
        model: Any = self.model_
        return model if isinstance(model, InputChain) else None

    def to_network(self, length: int) -> LatentNetwork:
        """Return the `LatentNetwork` of sequences of one length, with the same tables at every step.

        Hidden states are h0, h1, …; a channel c of step t is called ``c_t``, or xt where it has no name. Those of a
        factorial HMM are h0_t, h1_t, …, as those of `zoo.factorial_hmm`. Numbers are leaves with an emission.
        """
        if self._inputs is not None:
            raise DataError(f"tables {DIFFER}")
        return super().to_network(length)

    def at_inputs(self, inputs: Any) -> Self:
        """Return the hidden Markov model of sequences whose inputs are always the same: one without inputs.

        All that a model without inputs has is had of it, such as ``tables_``, diagrams and profiles.

        Parameters
        ----------
        inputs : mapping, or sequence of cells
            The cell of each column of inputs, by name or in their order; of a single column its cell.
        """
        model = self._inputs
        self._require_fit()
        if model is None:
            raise DataError("the model was fitted without inputs; its tables_ are the same at all steps")
        columns = model.input_columns
        if not isinstance(inputs, Mapping):
            is_row = isinstance(inputs, list | tuple) or (isinstance(inputs, np.ndarray) and inputs.ndim == 1)
            cells = list(inputs) if is_row else [inputs]
            if len(cells) != len(columns.names):
                raise DataError(f"inputs are cells of {', '.join(columns.names)}, not {quoted(inputs)}")
            inputs = dict(zip(columns.names, cells, strict=True))
        if absent := [name for name in columns.names if name not in inputs]:
            raise DataError(f"inputs have no {absent[0]!r}; give a cell of each of {', '.join(columns.names)}")
        codes, values = columns.given_codes(inputs), columns.given_values(inputs)
        row = np.array([[codes[name] for name in columns.names]])
        numbers = np.array([[values[columns.names[place]] for place in columns.number_places]])
        chain = model.at(design_of(columns, row, numbers, model.symbols)[0])
        plain: Self = cloned(self)
        vars(plain).update(self._fitted | {"model_": chain})
        return plain

    @property
    def _fitted(self) -> dict[str, Any]:
        """All fitted attributes, by name."""
        return {name: value for name, value in vars(self).items() if name[-1] == "_" and name[0] != "_"}

    @property
    def coefficients_(self) -> TablesByName:
        """The coefficients of the multinomial logits by name: "start", "transitions", and channels.

        Those of "start" have the axes covariate and state, those of "transitions" the state before, covariate and
        state, those of a channel the state, covariate and label. The first class that is possible is the reference,
        whose coefficients are zero. Of symbols, which have tables of their own, the first is the intercept.
        """
        model = self._inputs
        self._require_fit()
        if model is None:
            raise AttributeError(
                "coefficients_ are those of inputs, and the model was fitted without; give inputs="
            )
        names = design_names(model.input_columns)
        found = TablesByName()
        for what, table in model.tables.named(self._columns.names):
            if table.kind == "fixed":
                continue
            array = table.coefficients.transpose(1, 0, 2)
            labels = range(array.shape[2])
            if what == "start":
                found[what] = LabeledTable(array[0], ["covariate", "state"], [names, labels])
            elif what == "transitions":
                states = [range(model.states), names, labels]
                found[what] = LabeledTable(array, ["state before", "covariate", "state"], states)
            else:
                states = [range(model.states), names, self._columns.labels(what)]
                found[what] = LabeledTable(array, ["state", "covariate", what], states)
        return found

    def odds_ratios(self, X: ArrayLike | Any = None, **options: Unpack[EstimateOptions]) -> Estimates:
        """Return the odds ratios of inputs: by how much odds of a state rise with one unit of each, with intervals.

        They are the exponentials of the coefficients in `estimates`, relative to the first state that is possible.

        Parameters
        ----------
        X : the training data, optional
        **options
            As those of `estimates`.
        """
        from eigentree.uncertainty.quantities import ratios_of

        self._require_fit()
        return self.estimates(X, **options | {"statistic": ratios_of})

    @property
    def tables_(self) -> dict[str, Any]:
        """The learned tables by name: "start", "transitions" and "emissions", axes and states named.

        "start" is the joint distribution of as many first states as the order, "transitions" P(state | as many
        before it), "emissions" P(cell | state), a dict where there are several channels. Of a factorial HMM,
        "start" and "transitions" are dicts of one table per chain, and emissions depend on the states of all.
        Tables that depend on symbols have an axis more, "input"; those that depend on numbers are not here, but at
        `at_inputs`.
        """
        model = self._inputs if self.__sklearn_is_fitted__() else None
        if model is None:
            return super().tables_
        columns, states = self._columns, range(model.states)
        found, shown = TablesByName(), TablesByName()
        shapes: dict[str, tuple[list[str], list[Sequence[Any]]]] = {
            "start": (["state"], [states]),
            "transitions": (["state before", "state"], [states, states]),
        }
        for what, table in model.tables.named(columns.names):
            if table.kind == "logit" or (what in columns.names and columns.position(what) in columns.number_places):
                continue
            names, labels = shapes.get(what, (["state", what if what != "state" else "cell"], [states, ()]))
            if what in columns.names:
                labels = [states, columns.labels(what)]
            array = table.array[..., 0, :] if what == "start" else table.array
            if table.kind == "tables":
                names = ["input", *names]
                labels = [model.input_columns.labels(model.input_columns.names[0]), *labels]
            (shown if what in columns.names else found)[what] = LabeledTable(array, names, labels)
        if shown:
            found["emissions"] = shown if len(shown) > 1 else next(iter(shown.values()))
        return found

    def _of_one_chain(self, name: str, table: str) -> Floats:
        if self._inputs is not None:
            raise AttributeError(f"{name} {DIFFER}")
        return super()._of_one_chain(name, table)

    def _numbers_ahead(self, sequences: Sequences, steps: int, quantiles: Sequence[float] | None) -> Floats:
        model = self._inputs
        if model is None:
            return super()._numbers_ahead(sequences, steps, quantiles)
        assert isinstance(sequences, InputSequences)
        state = model.states_ahead(sequences, steps)
        totals = state.sum(axis=1, keepdims=True)
        state = np.divide(state, totals, out=np.full_like(state, 1.0 / model.states), where=totals > 0)
        return model.numbers_ahead(sequences, state, steps, quantiles)


DIFFER = "depend on the inputs; at_inputs(...) is the model for given ones"
