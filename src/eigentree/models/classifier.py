"""Classes told apart by one model each: Bayes' rule over latent junction trees."""

from __future__ import annotations

import warnings
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.utils.validation import check_is_fitted

from eigentree.counting.counts import Counts
from eigentree.data.resolving import resolve_structure
from eigentree.data.rows import Rows, checked_weights, is_marked_missing
from eigentree.errors import DataError, ParameterError
from eigentree.models.em import EMJunctionTree, OnlineEMJunctionTree
from eigentree.models.spectral import SpectralJunctionTree
from eigentree.spectral.shrinkage import choose_class_shrinkage

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import ArrayLike, NDArray

    from eigentree.structures.graph import LatentGraph

    Floats = NDArray[np.float64]
    Estimator = SpectralJunctionTree | EMJunctionTree | OnlineEMJunctionTree
    ClassRows = tuple[NDArray[Any], NDArray[Any] | None]


class JunctionTreeClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A classifier with one latent junction tree a class: the class of highest prior times likelihood.

    Parameters
    ----------
    estimator : SpectralJunctionTree, EMJunctionTree or OnlineEMJunctionTree
        What is fitted to the rows of each class; it stays unfitted itself. A template as its structure is built
        once, from the columns of all rows, so that all classes have the same states.

    Attributes
    ----------
    classes_ : array, shape (classes,)
        The labels, sorted.
    class_prior_ : array, shape (classes,)
        The share of each class in the rows, by weight.
    estimators_ : list
        The fitted model of each class.
    shrinkage_ : float
        The shrinkage of all models, where they are spectral.
    tried_ : dict of float to float
        The mean held-out log P(class | row) of each shrinkage that "auto" tried.
    n_features_in_ : int

    Notes
    -----
    For a `SpectralJunctionTree` with ``shrinkage="auto"``, one shrinkage is chosen for all classes together, by
    log P(class | row) of held-out rows in three folds of the training data. Likelihood alone would choose each
    model's by how well it describes its own class, but what helps there is mostly the same in all classes and
    cancels, while the noise in the difference of several models does not: telling classes apart wants more
    shrinkage. Of the values within half a standard error of the best, the largest is taken; the sum of the weights
    counts as the number of rows. Infinite shrinkage is naive Bayes, with 1/2 added to each count where all columns
    have the same number of states, so dependence between columns is used as far as held-out rows show that it
    helps. The choice depends on the rows, not on their order.

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

    def __init__(self, estimator: Estimator) -> None:
        self.estimator = estimator

    def fit(self, X: ArrayLike | Any, y: ArrayLike | Any, sample_weight: ArrayLike | None = None) -> Self:
        """Return the classifier learned from labelled rows.

        Parameters
        ----------
        X : array-like of shape (rows, columns), or a data frame
            Codes; -1, NaN or null for a missing cell.
        y : array-like of shape (rows,)
            The class of each row: labels of any type that can be sorted.
        sample_weight : array-like of shape (rows,), optional
            How often each row counts, for its class's model and for the prior.
        """
        if not isinstance(self.estimator, SpectralJunctionTree | EMJunctionTree | OnlineEMJunctionTree):
            raise ParameterError(
                f"estimator is a SpectralJunctionTree, an EMJunctionTree or an OnlineEMJunctionTree, "
                f"not {self.estimator!r}"
            )
        if isinstance(self.estimator, SpectralJunctionTree):
            self.estimator._check_parameters()
        graph = resolve_structure(self.estimator.structure, X)
        rows = Rows.of(X, graph)
        weights = checked_weights(sample_weight, rows.count)
        classes, labels = _labels(y, rows.count)
        totals = np.bincount(labels, weights, len(classes))
        if not totals.all():
            raise DataError(
                f"all rows of the class {_shown(classes[totals == 0])} have weight 0; leave them out or give one "
                f"of them a weight"
            )
        models = [clone(self.estimator).set_params(structure=graph) for _ in classes]
        parts = _by_class(rows, labels, weights, len(classes))
        shrinkage, tried = _fit(models, parts, graph, [_shown(classes[k : k + 1]) for k in range(len(classes))])
        self.classes_ = classes
        self.class_prior_ = totals / totals.sum()
        self.estimators_ = models
        self.n_features_in_ = len(graph.observed)
        for name in ("shrinkage_", "tried_"):
            self.__dict__.pop(name, None)
        if shrinkage is not None:
            self.shrinkage_, self.tried_ = shrinkage, tried
        return self

    def predict_joint_log_proba(self, X: ArrayLike | Any) -> Floats:
        """Return log P(row, class), shape (rows, classes), missing cells summed out.

        A model learned by EM can call a row impossible, which is -inf.
        """
        check_is_fitted(self, "estimators_")
        columns = []
        for label, model in zip(self.classes_.tolist(), self.estimators_, strict=True):
            with _warnings_name(repr(label)):
                columns.append(model.score_samples(X))
        return np.asarray(np.column_stack(columns) + np.log(self.class_prior_))

    def predict_log_proba(self, X: ArrayLike | Any) -> Floats:
        """Return log P(class | row), shape (rows, classes); the prior where a row is impossible in all classes."""
        log_joint = self.predict_joint_log_proba(X)
        log_joint[~np.isfinite(log_joint).any(axis=1)] = np.log(self.class_prior_)
        return np.asarray(log_joint - np.logaddexp.reduce(log_joint, axis=1, keepdims=True))

    def predict_proba(self, X: ArrayLike | Any) -> Floats:
        """Return P(class | row), shape (rows, classes)."""
        return np.exp(self.predict_log_proba(X))

    def predict(self, X: ArrayLike | Any) -> NDArray[Any]:
        """Return the likeliest class of each row."""
        best = self.predict_log_proba(X).argmax(axis=1)
        return np.asarray(self.classes_[best])


def _labels(y: Any, rows: int) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Return the classes, sorted, and the number of each row's class."""
    if y is None:
        raise DataError("y is missing; give one label a row")
    if np.ma.is_masked(y):
        labels = np.ma.getdata(y).astype(object)
        labels[np.ma.getmaskarray(y)] = None
        y = labels
    try:
        given = np.asarray(y)
    except ValueError:
        raise DataError(f"y needs one label a row, shape ({rows},), not lists of different lengths") from None
    if given.shape != (rows,):
        raise DataError(f"y needs one label a row, shape ({rows},), not {given.shape}")
    if given.dtype.kind == "O":
        absent: Any = [is_marked_missing(label) or bool(label != label) for label in given]
    else:
        absent = given != given
    if len(missing := np.flatnonzero(absent)):
        raise DataError(f"row {missing[0]} has no label; leave out rows whose class is unknown")
    try:
        classes, labels = np.unique(given, return_inverse=True)
    except TypeError:
        kinds = sorted({type(label).__name__ for label in given.tolist()})
        raise DataError(f"y mixes labels that have no common order: {', '.join(kinds)}; use one type") from None
    if len(classes) < 2:
        raise DataError(f"y holds one class only, {_shown(classes)}; a classifier needs at least two")
    return classes, labels


def _shown(classes: NDArray[Any]) -> str:
    return repr(classes[:1].tolist()[0])


def _by_class(rows: Rows, labels: NDArray[np.int64], weights: NDArray[Any] | None, classes: int) -> list[ClassRows]:
    """Return the rows of each class, -1 for a missing cell, and their weights if there are any."""
    codes = rows.encode(0, rows.count)
    signed = codes.astype(np.min_scalar_type(-max(rows.states)))
    signed[codes == np.array(rows.states)] = -1
    chosen = [labels == label for label in range(classes)]
    return [(np.asfortranarray(signed[own]), None if weights is None else weights[own]) for own in chosen]


def _fit(
    models: Sequence[Estimator], parts: Sequence[ClassRows], graph: LatentGraph, labels: Sequence[str]
) -> tuple[float | None, dict[float, float]]:
    """Return the shrinkage of spectral models (None for others) and what was tried; the models are fitted."""
    first = models[0]
    if not (isinstance(first, SpectralJunctionTree) and first.shrinkage == "auto"):
        for model, (codes, weights), label in zip(models, parts, labels, strict=True):
            with _warnings_name(label):
                model.fit(codes, sample_weight=weights)
        return (float(first.shrinkage) if isinstance(first, SpectralJunctionTree) else None), {}
    plan = first._plan(graph)
    empty = Counts(graph, plan.groups())
    counted = [first._counted(empty, None, *part) for part in parts]
    counts, samples = zip(*counted, strict=True)
    shrinkage, tried = choose_class_shrinkage(plan, counts, samples, first.scaling)
    for model, own, label in zip(models, counts, labels, strict=True):
        with _warnings_name(label):
            model.set_params(shrinkage=shrinkage).fit_moments(own)
    return shrinkage, tried


@contextmanager
def _warnings_name(label: str) -> Iterator[None]:
    """Warn of what happens inside with the class it happens to, as from where the classifier was called."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield
    for one in caught:
        warnings.warn(f"class {label}: {one.message}", one.category, stacklevel=5)
