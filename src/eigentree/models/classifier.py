"""Classes told apart by one model each: Bayes' rule over latent junction trees."""

from __future__ import annotations

import warnings
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self, TypeVar

import numpy as np

from eigentree.counting.statistics import Statistics
from eigentree.data.cells import is_marked_missing
from eigentree.data.resolving import resolved
from eigentree.data.rows import Rows
from eigentree.data.weights import checked_weights
from eigentree.errors import DataError, ParameterError
from eigentree.kernels.compiling import announced
from eigentree.models.em import EMJunctionTree
from eigentree.models.online_em import OnlineEMJunctionTree
from eigentree.models.parameters import Parameters
from eigentree.models.spectral import SpectralJunctionTree
from eigentree.notices import notice
from eigentree.spectral.shrinkage import choose_class_shrinkage

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import ArrayLike, NDArray

    from eigentree.arrays import Codes, Floats, Integers
    from eigentree.data.columns import Columns
    from eigentree.structures.graph import LatentGraph

    Estimator = SpectralJunctionTree | EMJunctionTree | OnlineEMJunctionTree

__all__ = ["JunctionTreeClassifier"]

E = TypeVar("E", bound="Estimator")


class JunctionTreeClassifier(Parameters):
    """A classifier with one latent junction tree per class: the class of highest prior times likelihood.

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
    columns_ : Columns
        The columns: their names, and what their states are called.
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

    _estimator_type: ClassVar[str] = "classifier"

    classes_: NDArray[Any]
    class_prior_: Floats
    columns_: Columns
    estimators_: list[Estimator]
    shrinkage_: float
    tried_: dict[float, float]

    def __init__(self, estimator: Estimator) -> None:
        self.estimator = estimator

    @property
    def n_features_in_(self) -> int:
        """How many columns the data have."""
        self._require_fit()
        return len(self.columns_.names)

    @announced
    def fit(self, X: ArrayLike | Any, y: ArrayLike | Any, sample_weight: ArrayLike | None = None) -> Self:
        """Return the classifier learned from labelled rows.

        Parameters
        ----------
        X : array-like of shape (rows, columns), a data frame, or rows of letters
            Labels or codes; None, NaN, null or -1 for a missing cell.
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
        settings = self.estimator
        graph, columns = resolved(settings.structure, X, settings.categories, settings.numeric, settings.unknown)
        rows = Rows.of(X, columns)
        weights = checked_weights(sample_weight, rows.count)
        classes, labels = _labels(y, rows.count)
        totals = np.bincount(labels, weights, len(classes))
        if not totals.all():
            raise DataError(
                f"all rows of the class {_shown(classes[totals == 0])} have weight 0; leave them out or give one "
                f"of them a weight"
            )
        parts = _by_class(rows, labels, weights, [_shown(classes[k : k + 1]) for k in range(len(classes))])
        fitted = {
            "classes_": classes,
            "class_prior_": totals / totals.sum(),
            "columns_": columns,
        }
        if isinstance(self.estimator, SpectralJunctionTree):
            return self._become(fitted | _spectral_models(self.estimator, graph, columns, parts))
        return self._become(fitted | {"estimators_": _other_models(self.estimator, graph, columns, parts)})

    def predict_joint_log_proba(self, X: ArrayLike | Any) -> Floats:
        """Return log P(row, class), shape (rows, classes), missing cells summed out.

        A model learned by EM without pseudo-counts, or spectral without a floor, can call a row impossible: -inf.
        """
        self._require_fit()
        models = [estimator.model_ for estimator in self.estimators_]
        rows = Rows.of(X, replace(self.columns_, unknown=self.estimator.unknown))
        log_prob = np.empty((rows.count, len(models)))
        replaced = [0] * len(models)
        for start, codes in rows.chunks():
            for k, model in enumerate(models):
                log_prob[start : start + len(codes), k], count = model.score(codes)
                replaced[k] += count
        for label, model, count in zip(self.classes_.tolist(), models, replaced, strict=True):
            if count:
                notice(f"class {label!r}: {count} of {rows.count} rows {model.replaced}")
        return np.asarray(log_prob + np.log(self.class_prior_))

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

    def score(self, X: ArrayLike | Any, y: ArrayLike | Any, sample_weight: ArrayLike | None = None) -> float:
        """Return the share of rows, by weight, whose likeliest class is theirs."""
        predicted = self.predict(X)
        given = _label_array(y, len(predicted))
        return float(np.average(predicted == given, weights=checked_weights(sample_weight, len(predicted))))


def _label_array(y: Any, rows: int) -> NDArray[Any]:
    """Return the labels as an array that keeps them apart, whatever their types."""
    if y is None:
        raise DataError("y is missing; give one label per row")
    if np.ma.is_masked(y):
        labels = np.ma.getdata(y).astype(object)
        labels[np.ma.getmaskarray(y)] = None
        y = labels
    try:
        given = np.asarray(y)
    except ValueError:
        raise DataError(f"y needs one label per row, shape ({rows},), not lists of different lengths") from None
    if given.shape != (rows,):
        raise DataError(f"y needs one label per row, shape ({rows},), not {given.shape}")
    # numpy would turn the numbers of a mixed list into strings, and so merge 1 and "1".
    if given.dtype.kind in "US" and isinstance(y, list | tuple) and not all(isinstance(each, str) for each in y):
        given = np.array([*y, None], object)[:-1]
    return given


def _labels(y: Any, rows: int) -> tuple[NDArray[Any], Integers]:
    """Return the classes, sorted, and the number of each row's class."""
    given = _label_array(y, rows)
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


class _ClassRows(NamedTuple):
    """The rows of one class, and its label as it stands in a message."""

    label: str
    codes: Codes
    weights: NDArray[Any] | None


def _by_class(rows: Rows, labels: Integers, weights: NDArray[Any] | None, shown: Sequence[str]) -> list[_ClassRows]:
    codes = rows.encode()
    chosen = [labels == label for label in range(len(shown))]
    return [
        _ClassRows(label, np.asfortranarray(codes[own]), None if weights is None else weights[own])
        for label, own in zip(shown, chosen, strict=True)
    ]


def _spectral_models(
    estimator: SpectralJunctionTree, graph: LatentGraph, columns: Columns, parts: Sequence[_ClassRows]
) -> dict[str, Any]:
    """Return the fitted model of each class, with one shrinkage for all, and what was tried to find it."""
    plan = estimator.plan(graph)
    statistics = [Statistics.empty(plan, columns).count(iter([(part.codes, part.weights)])) for part in parts]
    shrinkage: float | str = estimator.shrinkage
    tried: dict[float, float] = {}
    if shrinkage == "auto":
        shrinkage, tried = choose_class_shrinkage(
            plan, statistics, estimator.scaling, None if estimator.floor == "auto" else float(estimator.floor)
        )
    models = [_cloned(estimator, structure=graph, shrinkage=shrinkage) for _ in parts]
    for model, own, part in zip(models, statistics, parts, strict=True):
        with _named(part.label):
            model.fit_statistics(own)
    return {"estimators_": models, "shrinkage_": float(shrinkage), "tried_": tried}


def _other_models(
    estimator: Estimator, graph: LatentGraph, columns: Columns, parts: Sequence[_ClassRows]
) -> list[Estimator]:
    """Return the fitted model of each class."""
    models = [_cloned(estimator, structure=graph) for _ in parts]
    states = np.array(columns.states)
    for model, part in zip(models, parts, strict=True):
        signed = part.codes.astype(np.min_scalar_type(-int(states.max())))
        signed[part.codes == states] = -1
        with _named(part.label):
            model.fit(Rows(columns, tuple(signed.T)), sample_weight=part.weights)
    return models


def _cloned(estimator: E, **settings: Any) -> E:
    """Return an unfitted estimator with the same parameters, but for some."""
    return type(estimator)(**(estimator.get_params(deep=False) | settings))


@contextmanager
def _named(label: str) -> Iterator[None]:
    """Put the class before whatever is said of its rows, be it a warning or an error."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            yield
        except DataError as error:
            raise DataError(f"class {label}: {error}") from None
    for one in caught:
        notice(f"class {label}: {one.message}")
