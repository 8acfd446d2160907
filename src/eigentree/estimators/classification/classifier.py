"""Classes told apart by Bayes' rule: one latent junction tree per class, or one with the class as a column."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple, Self, TypeAlias

import numpy as np

from eigentree.counting.statistics import Statistics
from eigentree.counting.structure_and_schema import resolved, rows_and_columns
from eigentree.data.sequences.sequence_codes import Sequences
from eigentree.data.streams.sources import is_stream
from eigentree.data.tables.rows import Rows
from eigentree.data.tables.state_rules import check_rules
from eigentree.data.tables.table import table_of
from eigentree.data.tables.weights import LIGHT, checked_weights, positive_weights, warn_of_few
from eigentree.errors import DataError
from eigentree.estimators.classification.class_column import ClassColumn, column_of_class
from eigentree.estimators.classification.class_stream import ClassStream
from eigentree.estimators.classification.class_targets import Targets, label_array, shown_label
from eigentree.estimators.latent_class import LatentClassModel
from eigentree.estimators.mixins.constructor_parameters import cloned, learns
from eigentree.estimators.mixins.density_mixin import require_face
from eigentree.estimators.mixins.feature_names import Features
from eigentree.estimators.mixins.sequence_mixin import SequenceFace
from eigentree.estimators.spectral_junction_tree import SpectralJunctionTree
from eigentree.graphs.graph import LatentGraph
from eigentree.graphs.learned_templates import open_template
from eigentree.messages import kept_notices, notice
from eigentree.spectral.learn.shrinkage import choose_class_shrinkage
from eigentree.validation import one_of, our_arithmetic

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import ArrayLike, NDArray

    from eigentree.arrays import Codes, Floats
    from eigentree.data.tables.columns import Columns
    from eigentree.estimators.em_junction_tree import EMJunctionTree
    from eigentree.estimators.online_em import OnlineEMJunctionTree
    from eigentree.graphs.learned_templates import HiddenChowLiu

    Estimator: TypeAlias = SpectralJunctionTree | EMJunctionTree | OnlineEMJunctionTree | Any

__all__ = ["JunctionTreeClassifier"]


class JunctionTreeClassifier(Features):
    """A classifier by latent junction trees: the class of highest joint probability with the row.

    Parameters
    ----------
    estimator : SpectralJunctionTree, EMJunctionTree, OnlineEMJunctionTree, or a model of sequences such as EMHMM
        What is fitted to the rows; it stays unfitted itself. A template as its structure is built once, from the
        columns of all rows, so that all classes have the same states.
    class_as : {"models", "column"}
        "models" fits one model to the rows of each class. "column" fits one model to all rows, with the class as
        one more column: a template has it as its last column (a leaf of a mixture or a tree, the last step of a
        chain), called as y is where that is a series with a name, and else "class"; in a graph it is the one
        observed variable that is no column of the data, which for data without names is the one called so, or else
        the last. Rows whose class is not known (None, NaN) are then learned from too.

    Attributes
    ----------
    classes_ : array, shape (classes,)
        The labels, sorted.
    class_prior_ : array, shape (classes,)
        The share of each class in the rows whose class is known, by weight.
    estimators_ : list
        With "models": the fitted model of each class.
    shrinkage_ : float
        The shrinkage of all of them, where they are spectral.
    tried_ : dict of float to float
        The mean held-out log P(class | row) of each shrinkage that "auto" tried.
    estimator_ : SpectralJunctionTree, EMJunctionTree or OnlineEMJunctionTree
        With "column": the fitted model of the columns and the class.
    class_column_ : ClassColumn
        What the class is called there, and among which columns it stands.
    target_ : str or None
        The name of y, where it has one.
    columns_ : Columns
        The columns: their names, and what their states are called.
    n_features_in_ : int
    feature_names_in_ : array of str
        The names of the columns, where a frame names them.

    Notes
    -----
    For a `SpectralJunctionTree` per class with ``shrinkage="auto"``, one shrinkage is chosen for all classes
    together, by log P(class | row) of held-out rows in three folds of the training data. Likelihood alone would
    choose each model's by how well it describes its own class, but what helps there is mostly the same in all
    classes and cancels, while the noise in the difference of several models does not: telling classes apart wants
    more shrinkage. Of the values within half a standard error of the best, the largest is taken; the sum of the
    weights counts as the number of rows. Infinite shrinkage is naive Bayes, with 1/2 added to each count where all
    columns have the same number of states, so dependence between columns is used as far as held-out rows show that
    it helps. The choice depends on the rows, not on their order.

    Examples
    --------
    >>> import eigentree as et
    >>> graph = et.zoo.hmm(length=8, order=1, hidden_states=2, observed_states=3)
    >>> rows = [et.LatentNetwork.random(graph, seed=seed).sample(500, seed=2) for seed in (0, 1)]
    >>> X, y = np.concatenate(rows), np.repeat(["coding", "other"], 500)
    >>> model = et.JunctionTreeClassifier(et.SpectralJunctionTree(graph)).fit(X, y)
    >>> model.predict(X[:3]).tolist()
    ['coding', 'coding', 'coding']
    >>> model.score(X, y) > 0.8
    True
    """

    _estimator_type: ClassVar[str] = "classifier"

    classes_: NDArray[Any]
    class_prior_: Floats
    columns_: Columns
    estimators_: list[Estimator]
    shrinkage_: float
    tried_: dict[float, float]
    estimator_: Estimator
    class_column_: ClassColumn
    target_: str | None = None

    def __init__(self, estimator: Estimator, class_as: Literal["models", "column"] = "models") -> None:
        self.estimator = estimator
        self.class_as = class_as

    @property
    def _columns(self) -> Columns:
        self._require_fit()
        if not isinstance(self.estimator, SequenceFace):
            require_face(self.estimator)
        check_rules(self.estimator.handle_unknown)
        return self.columns_.reading(self.estimator.handle_unknown)

    @property
    def _pattern(self) -> Estimator:
        """What is cloned for each class, with a structure of its own."""
        return self.estimator.as_tree() if isinstance(self.estimator, LatentClassModel) else self.estimator

    @learns
    def fit(self, X: ArrayLike | Any, y: ArrayLike | Any, sample_weight: ArrayLike | None = None) -> Self:
        """Return the classifier learned from labelled rows.

        Parameters
        ----------
        X : array-like of shape (rows, columns), a data frame, rows of letters, or a stream
            Labels or codes; None, NaN, null or -1 for a missing cell. Streams, such as paths of Parquet files, are
            learned from by one `SpectralJunctionTree` per class.
        y : array-like of shape (rows,), or the name of a column of a stream
            The class of each row: labels of any type that can be sorted. With ``class_as="column"``, None or NaN
            where it is not known.
        sample_weight : array-like of shape (rows,), or the name of a column of a stream, optional
            How often each row counts, for models and for the prior.
        """
        if isinstance(self.estimator, SequenceFace):
            return self._fit_sequences(X, y, sample_weight)
        require_face(self.estimator)
        one_of("class_as", self.class_as, ("models", "column"))
        if is_stream(X):
            return self._fit_stream(X, y, sample_weight)
        if self.class_as == "column":
            return self._fit_column(X, y, sample_weight)
        settings = self.estimator
        reading = (settings.categories, settings.numeric, settings.handle_unknown, sample_weight)
        structure: LatentGraph | HiddenChowLiu | None = open_template(settings.structure)
        if structure is None:
            structure, columns = resolved(settings.structure, X, *reading)
            rows = Rows.of(X, columns)
        else:
            rows, columns = rows_and_columns(X, *reading)
        weights = checked_weights(sample_weight, rows.count)
        warn_of_few(weights)
        targets = Targets.of(y, rows.count)
        fitted = _told(targets, weights) | {"columns_": columns}
        parts = _by_class(rows, targets, weights)
        if isinstance(self.estimator, SpectralJunctionTree):
            if not isinstance(structure, LatentGraph):
                # One shrinkage for all classes wants one graph: that of all rows.
                with kept_notices():
                    structure = cloned(self.estimator).fit(rows, sample_weight=weights).graph_
            plan = self.estimator.plan(structure)
            statistics = [
                Statistics.empty(plan, columns).count(iter([(part.codes, part.weights)])) for part in parts
            ]
            labels = [part.label for part in parts]
            return self._become(fitted | _spectral_models(self.estimator, structure, labels, statistics))
        return self._become(fitted | {"estimators_": _other_models(self._pattern, structure, columns, parts)})

    def _fit_stream(self, X: Any, y: Any, sample_weight: Any) -> Self:
        """Return the classifier after counting the rows of each class of a stream."""
        if not isinstance(self.estimator, SpectralJunctionTree) or self.class_as != "models":
            raise DataError(
                "classes of rows that come in batches are learned by one SpectralJunctionTree each; "
                "read the rows first, as with pandas.read_csv, for another estimator or class_as='column'"
            )
        if open_template(self.estimator.structure) is not None:
            raise DataError(
                "a structure that is learned wants all rows at once; learn it first, as with "
                "et.learn_structure(X), and give the graph"
            )
        rows = ClassStream.of(self.estimator, X, y, sample_weight)
        empty = Statistics.empty(self.estimator.plan(rows.graph), rows.columns)
        statistics = [empty.count(rows.chunks(label)) for label in range(len(rows.classes))]
        fitted = {"columns_": rows.columns, "classes_": rows.classes, "class_prior_": rows.prior, "target_": y}
        labels = [shown_label(label) for label in rows.classes.tolist()]
        return self._become(fitted | _spectral_models(self.estimator, rows.graph, labels, statistics))

    def _fit_sequences(self, X: ArrayLike | Any, y: ArrayLike | Any, sample_weight: ArrayLike | None) -> Self:
        """Return the classifier after fitting a model of sequences to those of each class."""
        one_of("class_as", self.class_as, ("models",))
        settings: Any = self.estimator
        reading = (settings.categories, settings.numeric, settings.handle_unknown)
        sequences = Sequences.learned(X, None, settings.sequence, settings.time, *reading)
        weights = checked_weights(sample_weight, sequences.count)
        warn_of_few(weights)
        targets = Targets.of(y, sequences.count)
        fitted = _told(targets, weights) | {"columns_": sequences.columns}
        models = []
        for code, label in enumerate(targets.classes.tolist()):
            own = np.flatnonzero(targets.codes == code)
            model = cloned(settings)
            with _named(shown_label(label)):
                model.fit(sequences.chosen(own), sample_weight=None if weights is None else weights[own])
            models.append(model)
        return self._become(fitted | {"estimators_": models})

    def _fit_column(self, X: ArrayLike | Any, y: ArrayLike | Any, sample_weight: ArrayLike | None) -> Self:
        """Return the classifier after fitting one model to the columns and the class."""
        count = table_of(X).count
        weights = checked_weights(sample_weight, count)
        targets = Targets.of(y, count, partly=True)
        fitted = _told(targets, weights)
        structure, column = column_of_class(self.estimator, X, targets, weights)
        rows = column.rows(Rows.of(X, column.others), targets.codes)
        estimator = cloned(self._pattern, structure=structure).fit(rows, sample_weight=weights)
        return self._become(fitted | {"columns_": column.others, "estimator_": estimator, "class_column_": column})

    @our_arithmetic
    def predict_joint_log_proba(self, X: ArrayLike | Any) -> Floats:
        """Return log P(row, class), shape (rows, classes), missing cells summed out.

        A model learned by EM without pseudo-counts, or spectral without a floor, can call a row impossible: -inf.
        """
        columns = self._columns
        if isinstance(self.estimator, SequenceFace):
            each = [model.score_samples(X) for model in self.estimators_]
            return np.asarray(np.stack(each, axis=1) + np.log(self.class_prior_))
        rows = Rows.of(X, columns)
        if "class_column_" in vars(self):
            log_joint = self.class_column_.log_joint(self.estimator_.model_, rows)
            if impossible := int((~np.isfinite(log_joint).any(axis=1)).sum()):
                notice(f"all classes: {impossible} of {rows.count} rows {self.estimator_.model_.replaced}")
            return log_joint
        models = [estimator.model_ for estimator in self.estimators_]
        log_prob = np.empty((rows.count, len(models)))
        replaced = [0] * len(models)
        for start, codes in rows.chunks():
            for k, model in enumerate(models):
                log_prob[start : start + len(codes), k], count = model.score(codes)
                replaced[k] += count
        for label, model, count in zip(self.classes_.tolist(), models, replaced, strict=True):
            if count:
                notice(f"class {shown_label(label)}: {count} of {rows.count} rows {model.replaced}")
        return np.asarray(log_prob + np.log(self.class_prior_))

    @our_arithmetic
    def predict_log_proba(self, X: ArrayLike | Any) -> Floats:
        """Return log P(class | row), shape (rows, classes); the prior where a row is impossible in all classes."""
        log_joint = self.predict_joint_log_proba(X)
        log_joint[~np.isfinite(log_joint).any(axis=1)] = np.log(self.class_prior_)
        return np.asarray(log_joint - np.logaddexp.reduce(log_joint, axis=1, keepdims=True))

    @our_arithmetic
    def predict_proba(self, X: ArrayLike | Any) -> Floats:
        """Return P(class | row), shape (rows, classes)."""
        return np.asarray(np.exp(self.predict_log_proba(X)))

    @our_arithmetic
    def predict(self, X: ArrayLike | Any) -> NDArray[Any]:
        """Return the likeliest class of each row."""
        best = self.predict_log_proba(X).argmax(axis=1)
        return np.asarray(self.classes_[best])

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import ClassifierTags

        tags = super().__sklearn_tags__()
        tags.classifier_tags = ClassifierTags()
        tags.target_tags.required = True
        return tags

    def score(self, X: ArrayLike | Any, y: ArrayLike | Any, sample_weight: ArrayLike | None = None) -> float:
        """Return the share of rows, by weight, whose likeliest class is theirs."""
        predicted = self.predict(X)
        given = label_array(y, len(predicted))
        return float(np.average(predicted == given, weights=positive_weights(sample_weight, len(predicted))))


def _told(targets: Targets, weights: NDArray[Any] | None) -> dict[str, Any]:
    """Return the classes and their shares of the rows, by weight, as fitted attributes."""
    known = targets.codes >= 0
    own = None if weights is None else weights[known]
    totals = np.bincount(targets.codes[known], own, len(targets.classes))
    if not totals.all():
        raise DataError(
            f"the weight of all rows of the class {shown_label(targets.classes[totals == 0][0])} is zero; leave "
            f"them out or give one of them a weight"
        )
    return {"classes_": targets.classes, "class_prior_": totals / totals.sum(), "target_": targets.name}


class _ClassRows(NamedTuple):
    """The rows of one class, and its label as it stands in a message."""

    label: str
    codes: Codes
    weights: NDArray[Any] | None


def _by_class(rows: Rows, targets: Targets, weights: NDArray[Any] | None) -> list[_ClassRows]:
    codes = rows.encode()
    chosen = [targets.codes == label for label in range(len(targets.classes))]
    return [
        _ClassRows(shown_label(label), np.asfortranarray(codes[own]), None if weights is None else weights[own])
        for label, own in zip(targets.classes.tolist(), chosen, strict=True)
    ]


def _spectral_models(
    estimator: SpectralJunctionTree, graph: LatentGraph, labels: Sequence[str], statistics: Sequence[Statistics]
) -> dict[str, Any]:
    """Return the fitted model of each class, with one shrinkage for all, and what was tried to find it."""
    plan = estimator.plan(graph)
    shrinkage: float | str = estimator.shrinkage
    tried: dict[float, float] = {}
    if shrinkage == "auto":
        shrinkage, tried = choose_class_shrinkage(
            plan, statistics, estimator.scaling, None if estimator.floor == "auto" else float(estimator.floor)
        )
    models = [cloned(estimator, structure=graph, shrinkage=shrinkage) for _ in labels]
    for model, own, label in zip(models, statistics, labels, strict=True):
        with _named(label):
            model.fit_statistics(own)
    return {"estimators_": models, "shrinkage_": float(shrinkage), "tried_": tried}


def _other_models(
    estimator: Estimator, structure: LatentGraph | HiddenChowLiu, columns: Columns, parts: Sequence[_ClassRows]
) -> list[Estimator]:
    """Return the fitted model of each class; a structure that is open is learned for each."""
    models = [cloned(estimator, structure=structure) for _ in parts]
    for model, part in zip(models, parts, strict=True):
        with _named(part.label):
            model.fit(Rows.of_codes(part.codes, columns), sample_weight=part.weights)
    return models


@contextmanager
def _named(label: str) -> Iterator[None]:
    """Put the class before whatever is said of its rows, be it a warning or an error."""
    with kept_notices() as kept:
        try:
            yield
        except DataError as error:
            raise DataError(f"class {label}: {error}") from None
    for message, category in kept:
        # Of light weights was said of all rows.
        if not message.startswith(LIGHT):
            notice(f"class {label}: {message}", category)
