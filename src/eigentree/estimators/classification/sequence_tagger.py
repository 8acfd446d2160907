"""`SequenceTagger`: labels of the steps of sequences, by a hidden Markov model whose states have labels."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

import numpy as np

from eigentree.data.sequences.inputs import cells_of_steps, split_frame
from eigentree.data.sequences.sequence_codes import Sequences, per_step
from eigentree.data.sequences.steps import Steps
from eigentree.data.tables.cells import Categorical, object_array
from eigentree.data.tables.state_rules import ReadOptions
from eigentree.data.tables.table import frame_of
from eigentree.data.tables.weights import positive_weights, warn_of_few
from eigentree.errors import DataError, ParameterError, quoted, what_there_is
from eigentree.estimators.classification.class_targets import Targets
from eigentree.estimators.classification.conditional_training import checked_training
from eigentree.estimators.em_hmm import EMHMM
from eigentree.estimators.fits.known_states import StepLabels, with_labels
from eigentree.estimators.mixins.constructor_parameters import Parameters, cloned, estimator_class, learns
from eigentree.estimators.mixins.sequence_mixin import IMPOSSIBLE, distributions_or_uniform, sequence_and_time
from eigentree.estimators.mixture_hmm import MixtureHMM
from eigentree.inference.networks.hidden_variables import Decoded
from eigentree.inference.queries import warn_undefined
from eigentree.messages import notice
from eigentree.validation import our_arithmetic, whole_number

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from eigentree.arrays import Floats, Integers
    from eigentree.data.tables.columns import Columns
    from eigentree.validation import Seed

__all__ = ["SequenceTagger"]


@estimator_class
class SequenceTagger(Parameters):
    """A classifier of the steps of sequences: a hidden Markov model each of whose states has a label.

    Trained conditionally, it is a conditional random field with hidden states (a latent-dynamic one), whose
    parameters are still conditional probability tables; with one state per label, a linear-chain one.

    Parameters
    ----------
    estimator : EMHMM, optional
        What is fitted, itself unfitted, with the `hidden_states` of each label and `transitions` between all of
        them, label by label; by default an `EMHMM` with one.
    training : {"generative", "conditional"} or float
        Whether the likelihood of sequences with their labels is maximised, or from there on that of labels given
        sequences; a number from 0 to 1 is the weight of the second.
    alpha : float or "auto"
        Of conditional training: how strongly the parameters are held near the smoothed generative fit; "auto" is
        chosen on held-out sequences (or pieces of fewer than five).
    random_state : int, Generator or None
        For the default estimator, and which sequences are held out.

    Attributes
    ----------
    classes_ : array, shape (classes,)
        The labels, sorted.
    class_prior_ : array, shape (classes,)
        The share of each label in the steps whose label is known, by weight.
    estimator_ : EMHMM
        The fitted model; state s has the label ``classes_[s // hidden_states]``.
    alpha_ : float
        The penalty of conditional training; infinity where generative training predicted best.
    tried_ : dict of float to float
        The mean held-out log P(label | sequence) per step of each alpha that "auto" tried.
    columns_ : Columns
        The channels.

    Examples
    --------
    >>> words = ["hello", "banana", "tree", "onion"]
    >>> labels = [["vowel" if letter in "aeiou" else "consonant" for letter in word] for word in words]
    >>> model = SequenceTagger(training="conditional", alpha=1.0, random_state=0).fit(words, labels)
    >>> model.predict(["lion"])[0].tolist()
    ['consonant', 'vowel', 'vowel', 'consonant']
    """

    estimator: EMHMM | None = None
    training: Literal["generative", "conditional"] | float = "generative"
    alpha: float | Literal["auto"] = "auto"
    random_state: Seed = None

    _estimator_type: ClassVar[str | None] = None

    classes_: NDArray[Any] = field(init=False)
    class_prior_: Floats = field(init=False)
    columns_: Columns = field(init=False)
    estimator_: EMHMM = field(init=False)
    alpha_: float = field(init=False)
    tried_: dict[float, float] = field(init=False)
    target_: str | None = field(init=False, default=None)

    @property
    def _pattern(self) -> EMHMM:
        """The unfitted estimator that is cloned."""
        pattern = EMHMM(1, random_state=self.random_state) if self.estimator is None else self.estimator
        if not isinstance(pattern, EMHMM) or isinstance(pattern, MixtureHMM):
            raise ParameterError(f"a SequenceTagger has an EMHMM as its estimator, not {quoted(pattern)}")
        return pattern

    @property
    def _columns(self) -> Columns:
        self._require_fit()
        return self.columns_.reading(self._pattern.handle_unknown)

    @learns
    def fit(
        self, X: ArrayLike | Any, y: Any, lengths: ArrayLike | None = None, sample_weight: ArrayLike | None = None
    ) -> Self:
        """Return the tagger learned from sequences and the labels of their steps.

        Parameters
        ----------
        X : words, lists or arrays of different lengths, an array, a frame, or a mapping of channels to frames
            Sequences in any form that `EMHMM.fit` takes.
        y : sequences, or the name of a column
            The label of each step, in any form that X has, or of each sequence, or the column of X that holds
            labels; None or NaN where one is not known.
        lengths : array-like of int, shape (sequences,), optional
            How many steps of an array belong to each sequence.
        sample_weight : array-like of shape (sequences,), optional
            How often each sequence counts.
        """
        pattern = self._pattern
        training = checked_training(self.training, self.alpha, pattern, self.random_state)
        size = whole_number("hidden_states", pattern.hidden_states)
        target = y if isinstance(y, str) else None
        X, y = _split_labels(X, y)
        sequences = Sequences.learned(X, lengths, pattern.sequence, pattern.time, ReadOptions.of(pattern))
        weights = positive_weights(sample_weight, sequences.count)
        warn_of_few(weights)
        targets = Targets.of(_labels_of_steps(y, sequences), sequences.steps, partly=True)
        count = len(targets.classes)
        labels = StepLabels(np.where(targets.codes < 0, count, targets.codes), count)
        fitted = targets.fitted(np.repeat(weights, sequences.lengths)) | {"target_": target}
        model = cloned(pattern, hidden_states=size * count)
        model.fit(sequences, sample_weight=weights, states=labels)
        fitted |= {"estimator_": model, "columns_": sequences.columns}
        if training:
            fitted |= training.of_labels(model, sequences, labels, weights)
        return self._become(fitted)

    def _read(self, X: Any, lengths: Any) -> Sequences:
        """Return sequences as the model reads them; a column of labels in a frame is left out."""
        columns = self._columns
        if self.target_ in _columns_of_frame(X):
            X, _ = _split_labels(X, self.target_)
        return Sequences.of(X, columns, lengths, *sequence_and_time(self._pattern, X))

    def _proba(self, sequences: Sequences) -> Floats:
        """Return P(label | sequence) of each step, shape (steps, classes)."""
        proba = self.estimator_.model_.smoothed(sequences)
        proba = distributions_or_uniform(
            proba, "the labels of their steps are taken as uniform", f"steps of {IMPOSSIBLE}"
        )
        each = proba.shape[1] // len(self.classes_)
        return np.asarray(proba.reshape(len(proba), len(self.classes_), each).sum(axis=2))

    @our_arithmetic
    def predict_proba(self, X: ArrayLike | Any, lengths: ArrayLike | None = None) -> Any:
        """Return P(label | sequence) of each step.

        A list of arrays of shape (steps, classes) for words and lists; for sequences that came in one array or
        frame, one array: a row for each of its rows, or for sequences in rows, axes (sequences, steps, classes).
        """
        sequences = self._read(X, lengths)
        return per_step(sequences, self._proba(sequences))

    @our_arithmetic
    def predict(self, X: ArrayLike | Any, lengths: ArrayLike | None = None) -> Any:
        """Return the most probable label of each step by itself, in the form of the sequences.

        So the most steps are expected to be right; `decode` has labels that are probable together.
        """
        sequences = self._read(X, lengths)
        return _labels_in_form(sequences, self._proba(sequences).argmax(axis=1), self.classes_)

    @our_arithmetic
    def decode(self, X: ArrayLike | Any, lengths: ArrayLike | None = None) -> Decoded:
        """Return the labels of the jointly most probable hidden states (Viterbi), and log P(states, sequence).

        With one state per label these are the most probable labels of the sequence together. With more, hidden
        states are not summed over: that maximum has no efficient algorithm.
        """
        sequences = self._read(X, lengths)
        states, log_prob = self.estimator_.model_.decoded(sequences)
        warn_undefined(int(np.isneginf(log_prob).sum()), f"{IMPOSSIBLE}; their labels are None")
        size = self.estimator_.model_.states // len(self.classes_)
        return Decoded(
            _labels_in_form(sequences, np.where(states < 0, -1, states // size), self.classes_), log_prob
        )

    @our_arithmetic
    def score_labels(self, X: ArrayLike | Any, y: Any, lengths: ArrayLike | None = None) -> Floats:
        """Return log P(labels | sequence) of each sequence, labels that are not known summed over.

        Parameters
        ----------
        X, lengths : as for `predict`
        y : as for `fit`
        """
        sequences, codes = self._labelled(X, y, lengths)
        count = len(self.classes_)
        wide = with_labels(sequences, StepLabels(np.where(codes < 0, count, codes), count))
        chain, threads = self.estimator_.model_, self.estimator_.n_jobs
        shown = np.repeat(np.eye(count), chain.states // count, axis=0)
        labelled = replace(chain, columns=wide.columns, emissions=(*chain.emissions, shown))
        joint, marginal = labelled.log_prob(wide, threads), chain.log_prob(sequences, threads)
        return np.subtract(joint, marginal, out=np.full_like(joint, -np.inf), where=np.isfinite(joint))

    @our_arithmetic
    def score(
        self, X: ArrayLike | Any, y: Any, lengths: ArrayLike | None = None, sample_weight: ArrayLike | None = None
    ) -> float:
        """Return the accuracy: the share of the steps with a known label, by weight, that `predict` gets right."""
        sequences, codes = self._labelled(X, y, lengths)
        weights = np.repeat(positive_weights(sample_weight, sequences.count), sequences.lengths) * (codes != -1)
        if not weights.any():
            raise DataError("no step that counts has a label; there is nothing to score")
        return float(np.average(self._proba(sequences).argmax(axis=1) == codes, weights=weights))

    def _labelled(self, X: Any, y: Any, lengths: Any) -> tuple[Sequences, Integers]:
        """Return sequences, and the place of each step's label: -1 where it is missing, -2 where it is unknown."""
        X, y = _split_labels(X, y)
        sequences = self._read(X, lengths)
        labels = _labels_of_steps(y, sequences)
        places = {label: place for place, label in enumerate(self.classes_.tolist())}
        absent = [label is None or label != label for label in labels.tolist()]
        codes = np.array([places.get(label, -2) for label in labels.tolist()], np.int64)
        codes[absent] = -1
        if new := int((codes == -2).sum()):
            notice(f"{new} of {len(codes)} steps have a label that the tagger was not fitted with", UserWarning)
        return sequences, codes


def _columns_of_frame(X: Any) -> list[Any]:
    """Return the names of the columns of a frame; none of anything else."""
    frame = None if isinstance(X, Mapping | Sequences | Steps) else frame_of(X)
    return list(getattr(frame, "columns", ()))


def _split_labels(X: Any, y: Any) -> tuple[Any, Any]:
    """Return sequences and labels, where y may name a column of a frame that holds both."""
    if y is None:
        raise DataError("y is None; give the label of each step, in any form that sequences have")
    if not isinstance(y, str):
        return X, y
    if y not in (names := _columns_of_frame(X)):
        raise DataError(f"y names {quoted(y)}, which is no column of the data{what_there_is(y, names)}")
    return split_frame(X, [y])


def _labels_of_steps(y: Any, sequences: Sequences) -> NDArray[Any]:
    """Return the label of each step, None or NaN where it is missing."""
    cells = cells_of_steps(y, sequences, "labels")
    return object_array([*cells.labels, None])[cells.places] if isinstance(cells, Categorical) else cells


def _labels_in_form(sequences: Sequences, codes: Integers, classes: NDArray[Any]) -> Any:
    """Return the labels of all steps in the form of the sequences; None beyond the ends of rows, and for -1."""
    found = per_step(sequences, codes)
    return [_named(own, classes) for own in found] if isinstance(found, list) else _named(found, classes)


def _named(codes: Integers, classes: NDArray[Any]) -> NDArray[Any]:
    if (codes >= 0).all():
        return np.asarray(classes[codes])
    return object_array([*classes.tolist(), None])[codes]
