"""How certain the classes of rows are: the classes that they are assigned to, and their posterior probabilities."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from scipy.special import entr

from eigentree.data.tables.labeled_table import LabeledTable
from eigentree.data.tables.weights import positive_weights
from eigentree.errors import ParameterError, quoted
from eigentree.inference.networks.hidden_variables import HiddenQueries
from eigentree.uncertainty.result_tables import ResultTable

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import ArrayLike

    from eigentree.arrays import Floats
    from eigentree.uncertainty.result_tables import Labelled

__all__ = ["ClassificationTable", "classification_table"]


@dataclass(frozen=True, eq=False, repr=False)
class ClassificationTable(ResultTable):
    """The classes that rows are assigned to by their largest posterior probability, and how certain these are.

    Attributes
    ----------
    counts : LabeledTable
        For each class that rows are assigned to, how many of them are expected to belong to each: the sum of their
        posterior probabilities.
    shares : array, shape (classes,)
        The share of each class: the mean posterior probability.
    assigned : array, shape (classes,)
        The share of rows that are assigned to each.
    misclassified : float
        The share of rows that are expected to be assigned to another class than theirs.
    entropy_r2 : float
        1 where classes are certain, 0 where they are mere guesses; NaN for one class.
    """

    counts: LabeledTable
    shares: Floats
    assigned: Floats
    misclassified: float
    entropy_r2: float

    _headings: ClassVar[Mapping[str, str]] = {"assigned_to": "assigned to", "avepp": "AvePP", "occ": "OCC"}

    @property
    def average(self) -> LabeledTable:
        """The mean posterior probability of each class among the rows that are assigned to a class.

        NaN for a class that no row is assigned to.
        """
        counts = np.asarray(self.counts)
        totals = counts.sum(axis=1, keepdims=True)
        mean = np.divide(counts, totals, out=np.full_like(counts, np.nan), where=totals > 0)
        return LabeledTable(mean, self.counts.names, self.counts.states)

    @property
    def avepp(self) -> Floats:
        """The average posterior probability of the class that rows are assigned to; above 0.7 is called good."""
        return np.diagonal(self.average).copy()

    @property
    def occ(self) -> Floats:
        """The odds of correct classification, those of `avepp` over those of the share; above 5 is called good."""
        with np.errstate(divide="ignore", invalid="ignore"):
            found: Floats = self.avepp / (1 - self.avepp) / (self.shares / (1 - self.shares))
        return found

    @property
    def notes(self) -> Sequence[str]:  # type: ignore[override]
        """The share that is expected to be misclassified, and the entropy R²."""
        return [f"misclassified: {self.misclassified:.4f}, entropy R²: {self.entropy_r2:.4f}"]

    def _table(self) -> Labelled:
        classes = self.counts.states[1]
        numbers = {"share": self.shares, "assigned": self.assigned, "avepp": self.avepp, "occ": self.occ}
        numbers |= {f"in {label}": own for label, own in zip(classes, np.asarray(self.counts).T, strict=True)}
        return ["assigned_to"], [(label,) for label in classes], numbers

    def _digits_of(self, name: str, digits: int) -> int:
        return 1 if name.startswith("in ") else digits


def classification_table(
    model: Any, X: ArrayLike | Any, target: str | None = None, sample_weight: ArrayLike | None = None
) -> ClassificationTable:
    """Return the classes that rows are assigned to by the classes that they are expected to belong to.

    Parameters
    ----------
    model : LatentNetwork, or a fitted LatentClassModel, EMJunctionTree or OnlineEMJunctionTree
    X : array-like of shape (rows, columns), a data frame, or rows of letters
    target : str, optional
        The hidden variable; needed where there are several.
    sample_weight : array-like of shape (rows,), optional
        How often each row counts.

    Examples
    --------
    >>> import eigentree as et
    >>> votes = et.datasets.load_votes().data
    >>> model = et.LatentClassModel(2, random_state=0).fit(votes)
    >>> et.classification_table(model, votes)
    assigned to   share  assigned   AvePP       OCC   in 0   in 1
              0  0.5207    0.5195  0.9934  138.4380  224.5    1.5
              1  0.4793    0.4805  0.9904  111.6943    2.0  207.0
    misclassified: 0.0081, entropy R²: 0.9684
    """
    if not isinstance(model, HiddenQueries):
        raise ParameterError(
            f"the model is a LatentNetwork or a fitted LatentClassModel, EMJunctionTree or OnlineEMJunctionTree, "
            f"not {quoted(model)}"
        )
    table = model.predict_proba(X, target)
    posterior, name = np.asarray(table), table.names[-1]
    weights = positive_weights(sample_weight, len(posterior))
    states = range(posterior.shape[1])
    modal = posterior.argmax(axis=1)
    counts = np.stack([(weights * (modal == state)) @ posterior for state in states])
    total, most = float(weights.sum()), np.log(len(states))
    entropy = float(weights @ entr(posterior).sum(axis=1))
    return ClassificationTable(
        LabeledTable(counts, [f"assigned {name}", name], [table.states[-1]] * 2),
        counts.sum(axis=0) / total,
        counts.sum(axis=1) / total,
        1.0 - float(np.trace(counts)) / total,
        1.0 - entropy / (total * most) if most else float("nan"),
    )
