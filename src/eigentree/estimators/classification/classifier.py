"""`JunctionTreeClassifier`: Bayes' rule with one model per class, or one model with the class as a column."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import field
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self, TypeAlias

import numpy as np

from eigentree.counting.levels.number_scales import number_scales
from eigentree.counting.statistics import Statistics
from eigentree.counting.structure_and_schema import resolved
from eigentree.data.sequences.sequence_codes import Sequences
from eigentree.data.streams.encoded_stream import any_rows_and_columns
from eigentree.data.streams.sources import is_stream
from eigentree.data.tables.rows import Rows
from eigentree.data.tables.state_rules import ReadOptions, check_rules
from eigentree.data.tables.table import table_of
from eigentree.data.tables.weights import LIGHT, checked_weights, positive_weights, warn_of_few
from eigentree.errors import DataError
from eigentree.estimators.classification.class_column import ClassColumn, column_of_class
from eigentree.estimators.classification.class_targets import Targets, class_stream, label_array, shown_label
from eigentree.estimators.classification.conditional_training import checked_training
from eigentree.estimators.em_junction_tree import EMJunctionTree
from eigentree.estimators.latent_class import LatentClassModel
from eigentree.estimators.mixins.constructor_parameters import Parameters, cloned, estimator_class, learns
from eigentree.estimators.mixins.density_mixin import require_estimator
from eigentree.estimators.mixins.sequence_mixin import SequenceMixin
from eigentree.estimators.spectral_junction_tree import SpectralJunctionTree
from eigentree.graphs.graph import LatentGraph
from eigentree.graphs.learned_templates import open_template
from eigentree.graphs.templates import Mixture
from eigentree.messages import kept_notices, notice
from eigentree.spectral.learn.shrinkage import choose_class_shrinkage
from eigentree.validation import one_of, our_arithmetic

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import ArrayLike, NDArray

    from eigentree.arrays import Floats
    from eigentree.data.tables.columns import Columns
    from eigentree.estimators.online_em import OnlineEMJunctionTree
    from eigentree.graphs.learned_templates import HiddenChowLiu
    from eigentree.validation import Seed

    Estimator: TypeAlias = SpectralJunctionTree | EMJunctionTree | OnlineEMJunctionTree | Any

__all__ = ["JunctionTreeClassifier"]


USUAL_CLASSES = 16
"""How many hidden states each class has where no estimator is given."""


@estimator_class
class JunctionTreeClassifier(Parameters):
    """A classifier by latent junction trees: the class of highest joint probability with the row.

    Parameters
    ----------
    estimator : SpectralJunctionTree, EMJunctionTree, OnlineEMJunctionTree, EMHMM or SpectralHMM, optional
        What is fitted to the rows, itself unfitted; by default a mixture of 16 latent classes, with numbers cut
        into bins.
    class_as : {"models", "column"}
        Whether one model is fitted to the rows of each class, or one to all rows with the class as one more column.
    training : {"generative", "conditional"} or float
        Whether the likelihood of rows is maximised, or from there on that of classes given rows; a number from 0 to
        1 is the weight of the second.
    alpha : float or "auto"
        Of conditional training: how strongly the parameters are held near the smoothed generative fit; 0 is not at
        all, infinity generative training, and "auto" is chosen on held-out rows.
    random_state : int, Generator or None
        For the default estimator, and which rows are held out.

    Attributes
    ----------
    classes_ : array, shape (classes,)
        The labels, sorted.
    class_prior_ : array, shape (classes,)
        The share of each class in the rows whose class is known, by weight; after conditional training of one model
        per class, the shares that predict best.
    estimators_ : list
        With "models": the fitted model of each class.
    shrinkage_ : float
        The shrinkage of all of them, where they are spectral.
    alpha_ : float
        The penalty of conditional training; infinity where generative training predicted best.
    tried_ : dict of float to float
        The mean held-out log P(class | row) of each shrinkage, or alpha, that "auto" tried.
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
    With one `SpectralJunctionTree` per class and ``shrinkage="auto"``, one shrinkage is chosen for all classes by
    the held-out log P(class | row) in three folds: what improves each density is mostly common to all classes and
    cancels, but noise does not, so classification needs more shrinkage. Of the values within half a standard error
    of the best, the largest is taken. Infinite shrinkage is naive Bayes.

    **estimator**: a template is built once, from the columns of all rows, so that all classes have the same states.
    How numbers are read, and their densities, are its `numeric` and `emissions`.

    **class_as="column"**: the class is the last column of a template; in a graph, the one observed variable that is
    no column of the data (where these have no names, the one called as y, or "class", or else the last). Rows whose
    class is not known are learned from too, which can make predictions better or worse.

    **training="conditional"**: tables and emissions of an `EMJunctionTree` or an `EMHMM` maximise log P(class |
    other columns, or sequence), by L-BFGS from the generative fit. A number weighs both likelihoods (hybrid
    training), which learns from rows without a class too.

    **alpha**: an L2 penalty on changes of the logarithms of probabilities and of the free coordinates of emissions.
    They are changes from the generative fit with 3 pseudo-counts, if it has fewer: what few rows of a class show is
    no evidence to hold on to. "auto" tries 100, 30, 10, …, 0.001, and generative training, on a tenth of the rows,
    or up to 2,000 rows by five-fold cross-validation.

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

    estimator: Estimator = None
    class_as: Literal["models", "column"] = "models"
    training: Literal["generative", "conditional"] | float = "generative"
    alpha: float | Literal["auto"] = "auto"
    random_state: Seed = None

    _estimator_type: ClassVar[str] = "classifier"

    classes_: NDArray[Any] = field(init=False)
    class_prior_: Floats = field(init=False)
    columns_: Columns = field(init=False)
    estimators_: list[Estimator] = field(init=False)
    shrinkage_: float = field(init=False)
    alpha_: float = field(init=False)
    tried_: dict[float, float] = field(init=False)
    estimator_: Estimator = field(init=False)
    class_column_: ClassColumn = field(init=False)
    target_: str | None = field(init=False, default=None)

    @property
    def _columns(self) -> Columns:
        self._require_fit()
        rule = self._pattern.handle_unknown
        check_rules(rule)
        return self.columns_.reading(rule)

    @property
    def _pattern(self) -> Estimator:
        """The unfitted estimator that is cloned, with a structure of its own."""
        pattern = self.estimator
        if pattern is None:
            # Within small classes bins are as good as densities, and far faster.
            classes = Mixture(USUAL_CLASSES)
            pattern = EMJunctionTree(
                classes, random_state=self.random_state, handle_unknown="missing", numeric="quantiles"
            )
        if not isinstance(pattern, SequenceMixin):
            require_estimator(pattern)
        return pattern.as_tree() if isinstance(pattern, LatentClassModel) else pattern

    @learns
    def fit(self, X: ArrayLike | Any, y: ArrayLike | Any, sample_weight: ArrayLike | None = None) -> Self:
        """Return the classifier learned from labelled rows.

        Parameters
        ----------
        X : array-like of shape (rows, columns), a data frame, rows of letters, a stream, or sequences
            Labels or codes, None, NaN, null or -1 for a missing cell; or a stream, for `SpectralJunctionTree`.
        y : array-like of shape (rows,), or the name of a column of a stream
            The class of each row, of any type that can be sorted; with ``class_as="column"``, None or NaN where it
            is not known.
        sample_weight : array-like of shape (rows,), or the name of a column of a stream, optional
            How often each row counts, for models and for the prior.

        Warns
        -----
        UserWarning
            When some rows have no class: learning from them too can make predictions worse.
        """
        pattern = self._pattern
        of_sequences = isinstance(pattern, SequenceMixin)
        one_of("class_as", self.class_as, ("models",) if of_sequences else ("models", "column"))
        training = checked_training(self.training, self.alpha, pattern, self.random_state)
        if is_stream(X) and not of_sequences:
            return self._fit_stream(pattern, X, y, sample_weight)
        if self.class_as == "column":
            return self._fit_column(pattern, X, y, sample_weight)
        structure, data = _structure_and_data(pattern, X, sample_weight)
        if training and not of_sequences:
            training.require_graph(structure)
        weights = checked_weights(sample_weight, data.count)
        warn_of_few(weights)
        targets = Targets.of(y, data.count)
        fitted = targets.fitted(weights) | {"columns_": data.columns}
        parts: dict[str, tuple[Any, NDArray[Any] | None]] = {}
        take = data.chosen if isinstance(data, Sequences) else data.taken
        for code, label in enumerate(targets.classes.tolist()):
            own = np.flatnonzero(targets.codes == code)
            parts[shown_label(label)] = take(own), None if weights is None else weights[own]
        if isinstance(pattern, SpectralJunctionTree):
            if not isinstance(structure, LatentGraph):
                # One shrinkage for all classes wants one graph: that of all rows.
                with kept_notices():
                    structure = cloned(pattern).fit(data, sample_weight=weights).graph_
            assert isinstance(data, Rows)
            plan, scales = pattern.plan(structure, data.columns), number_scales(data, weights)
            empty = Statistics.empty(plan, data.columns, scales)
            statistics = {label: empty.count_rows(*part) for label, part in parts.items()}
            return self._become(fitted | _spectral_models(pattern, structure, statistics))
        models = []
        for label, (part, own_weights) in parts.items():
            models.append(cloned(pattern) if of_sequences else cloned(pattern, structure=structure))
            with _named(label):
                models[-1].fit(part, sample_weight=own_weights)
        fitted["estimators_"] = models
        if training:
            of_each: Any = training.of_sequences if of_sequences else training.of_models
            fitted |= of_each(models, data, targets.codes, weights, fitted["class_prior_"])
        return self._become(fitted)

    def _fit_stream(self, pattern: Estimator, X: Any, y: Any, sample_weight: Any) -> Self:
        """Return the classifier after counting the rows of each class of a stream."""
        if not isinstance(pattern, SpectralJunctionTree) or self.class_as != "models":
            raise DataError(
                "classes of rows that come in batches are learned by one SpectralJunctionTree each; "
                "read the rows first, as with pandas.read_csv, for another estimator or class_as='column'"
            )
        if open_template(pattern.structure) is not None:
            raise DataError(
                "a structure that is learned wants all rows at once; learn it first, as with "
                "et.learn_structure(X), and give the graph"
            )
        graph, columns, classes, prior, chunks = class_stream(pattern, X, y, sample_weight)
        empty = Statistics.empty(pattern.plan(graph), columns)
        counted = {shown_label(label): empty.count(chunks(code)) for code, label in enumerate(classes.tolist())}
        fitted = {"columns_": columns, "classes_": classes, "class_prior_": prior, "target_": y}
        return self._become(fitted | _spectral_models(pattern, graph, counted))

    def _fit_column(self, pattern: Estimator, X: Any, y: Any, sample_weight: ArrayLike | None) -> Self:
        """Return the classifier after fitting one model to the columns and the class."""
        count = table_of(X).count
        weights = checked_weights(sample_weight, count)
        targets = Targets.of(y, count, partly=True)
        fitted = targets.fitted(weights)
        if unlabelled := int((targets.codes < 0).sum()):
            notice(
                f"{unlabelled} of {count} rows have no class; learning from them too can make predictions better "
                f"or worse: compare the score on held-out rows with that of a fit without them",
                UserWarning,
            )
        structure, column = column_of_class(pattern, X, targets, weights)
        rows = column.rows(Rows.of(X, column.others), targets.codes)
        estimator = cloned(pattern, structure=structure).fit(rows, sample_weight=weights)
        fitted |= {"columns_": column.others, "estimator_": estimator, "class_column_": column}
        if training := checked_training(self.training, self.alpha, pattern, self.random_state):
            fitted |= training.of_column(estimator, column, rows, weights)
        return self._become(fitted)

    @our_arithmetic
    def predict_joint_log_proba(self, X: ArrayLike | Any) -> Floats:
        """Return log P(row, class), shape (rows, classes), missing cells marginalised out; -inf if impossible."""
        columns = self._columns
        if isinstance(self._pattern, SequenceMixin):
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
        for k, model in enumerate(models):
            log_prob[:, k], replaced[k] = model.log_prob(rows)
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
        """Return the most probable class of each row."""
        best = self.predict_log_proba(X).argmax(axis=1)
        return np.asarray(self.classes_[best])

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import ClassifierTags

        tags = super().__sklearn_tags__()
        tags.classifier_tags = ClassifierTags()
        tags.target_tags.required = True
        return tags

    def score(self, X: ArrayLike | Any, y: ArrayLike | Any, sample_weight: ArrayLike | None = None) -> float:
        """Return the accuracy: the share of rows, by weight, whose most probable class is theirs."""
        predicted = self.predict(X)
        given = label_array(y, len(predicted))
        return float(np.average(predicted == given, weights=positive_weights(sample_weight, len(predicted))))


def _structure_and_data(
    pattern: Estimator, X: Any, sample_weight: ArrayLike | None
) -> tuple[LatentGraph | HiddenChowLiu | None, Rows | Sequences]:
    """Return the structure of the models of all classes (open where each learns its own) and the data, read."""
    options = ReadOptions.of(pattern, sample_weight)
    if isinstance(pattern, SequenceMixin):
        return None, Sequences.learned(X, None, pattern.sequence, pattern.time, options)
    if (template := open_template(pattern.structure)) is not None:
        structure: LatentGraph | HiddenChowLiu = template
        rows, _ = any_rows_and_columns(X, options)
    else:
        structure, _, rows = resolved(pattern.structure, X, options)
    assert isinstance(rows, Rows)
    return structure, rows


def _spectral_models(
    estimator: SpectralJunctionTree, graph: LatentGraph, statistics: dict[str, Statistics]
) -> dict[str, Any]:
    """Return the fitted model of each class, with one shrinkage for all, and what was tried to find it."""
    shrinkage: float | str = estimator.shrinkage
    tried: dict[float, float] = {}
    if shrinkage == "auto":
        floor = None if estimator.floor == "auto" else float(estimator.floor)
        counted = list(statistics.values())
        shrinkage, tried = choose_class_shrinkage(
            estimator.plan(graph, counted[0].columns), counted, estimator.scaling, floor
        )
    models = []
    for label, own in statistics.items():
        models.append(cloned(estimator, structure=graph, shrinkage=shrinkage))
        with _named(label):
            models[-1].fit_statistics(own)
    return {"estimators_": models, "shrinkage_": float(shrinkage), "tried_": tried}


@contextmanager
def _named(label: str) -> Iterator[None]:
    """Put the class before warnings and errors about its rows."""
    with kept_notices() as kept:
        try:
            yield
        except DataError as error:
            raise DataError(f"class {label}: {error}") from None
    for message, category in kept:
        # All rows together were checked for light weights.
        if not message.startswith(LIGHT):
            notice(f"class {label}: {message}", category)
