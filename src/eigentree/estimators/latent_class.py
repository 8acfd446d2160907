"""`LatentClassModel`: latent class and latent profile analysis, a mixture of products of columns fitted by EM."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np

from eigentree.data.tables.design import design_names
from eigentree.data.tables.labeled_table import LabeledTable
from eigentree.data.tables.weights import positive_weights
from eigentree.em.constraints import Constraints
from eigentree.em.mixed.emission_choice import checked_emissions, covariate_family
from eigentree.emissions.covariates.membership import Membership
from eigentree.errors import DataError, ParameterError, quoted
from eigentree.estimators.em_junction_tree import EMJunctionTree
from eigentree.estimators.mixins.constructor_parameters import estimator_class
from eigentree.estimators.mixins.information_criteria import MAXIMUM_LIKELIHOOD, entropy_r2
from eigentree.graphs.templates import Mixture, MultiGroupMixture
from eigentree.validation import a_mapping, different_names, whole_number

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import ArrayLike

    from eigentree.arrays import Floats
    from eigentree.data.tables.columns import Columns
    from eigentree.em.optimize.stopping import Rule
    from eigentree.graphs.graph import LatentGraph
    from eigentree.inference.networks.network import LatentNetwork

__all__ = ["LatentClassModel"]

OWN = ("n_classes", "covariates", "group", "measurement_invariance", "known_class")
"""Parameters that `EMJunctionTree` does not have."""


@dataclass(eq=False, repr=False)
class NumberOfClasses:
    """The parameter that stands before those of `EMJunctionTree`: those of the last base class come first."""

    n_classes: int = 2


@estimator_class
class LatentClassModel(EMJunctionTree, NumberOfClasses):
    """A latent class model: classes within which the columns are independent, fitted by maximum likelihood (EM).

    With columns of numbers it is a latent profile model, whose classes have a distribution of each number, or of a
    group of numbers together (`emissions`). The default prior of these is one row, see the families.

    Parameters
    ----------
    n_classes : int
    covariates : list of str, optional
        Columns that class membership depends on, by a multinomial logit whose reference is the first class; they
        are no items, so scores are log P(items | covariates) (Notes).
    n_init : int
        How many starts are optimised to the end at most; the one of the highest log-likelihood is kept.
    tol : float
        An EM run ends once the log-likelihood per row is expected to rise by no more than this.
    max_iter : int
        Most iterations of an EM run.
    init : {"multistart", "spectral", "mixture", "copy", "random"} or LatentNetwork
        Where to start, as for `EMJunctionTree`.
    pseudo_counts : float or "auto"
        Added to every expected count; the default, 1e-6, is maximum likelihood in all digits that are reported, 0
        is maximum likelihood itself, and 0.1 to 1 shrinks where rows are few.
    random_state : int, Generator or None
    n_jobs, verbose, categories, handle_unknown, numeric, emissions, fixed, equal
        As those of `EMJunctionTree`; the classes are called "h" there.
    group : str, optional
        The column of each row's group, such as a country or a wave: the shares of the classes differ between groups
        (a multi-group model).
    measurement_invariance : bool or list of str
        Of a multi-group model the items whose tables are the same in all groups: True for all (homogeneous model),
        False for none (heterogeneous model), or a list (partially homogeneous model).
    known_class : str, optional
        A column with the class of some rows, missing in others and perhaps in new rows; `predict` gives its labels.

    Attributes
    ----------
    class_weights_ : array, shape (n_classes,)
        The share of each class, the largest first, or in the order of the labels of `known_class`; with covariates
        the mean of P(class | covariates), and with groups ``tables_["h"]`` has the shares in each.
    coefficients_ : LabeledTable
        With covariates: the logits of class membership, a line for each class.
    tables_ : dict of LabeledTable
        The conditional probability tables by column: item-response probabilities, one row per class; of a number
        mean and standard deviation in each class.
    emissions_ : dict of Emission
        The distributions of numbers, by column or group of columns.
    n_parameters_ : int
    network_, start_, pseudo_counts_, history_, objectives_, n_iter_, converged_
        As those of `EMJunctionTree`.

    Notes
    -----
    **covariates** that are numbers are taken as they are, others as indicators of each label but the first. Rows
    that miss one are left out of the fit (with a notice), and get the shares of the classes where they are
    scored. The columns of an array are called x0, x1, ….

    **pseudo_counts** of 1e-6 change the log-likelihood by about a millionth per entry of the tables; but an
    answer that nobody in a class gave is rare there and not impossible, so that new rows have a finite score.

    **measurement_invariance**: models with fewer such items are larger, and `likelihood_ratio_test` compares
    them. Where there are none, classes are numbered alike in all groups by how much they resemble each other.

    **group** is a column like others: scores are log P(items, group), and where it is missing it is marginalised
    out.

    Examples
    --------
    >>> import eigentree as et
    >>> votes = et.datasets.load_votes().data
    >>> model = et.LatentClassModel(n_classes=2, random_state=0).fit(votes)
    >>> model.class_weights_.round(2)
    array([0.52, 0.48])
    >>> model.predict(votes)[-4:].tolist()
    [0, 1, 1, 1]
    >>> round(model.entropy(votes), 2)
    0.97
    """

    tol: float = 1e-8
    _: KW_ONLY
    pseudo_counts: float | Literal["auto"] = MAXIMUM_LIKELIHOOD
    covariates: Sequence[str] | None = None
    group: str | None = None
    measurement_invariance: bool | Sequence[str] = True
    known_class: str | None = None

    # Not for users to choose here.
    stopping: Rule = field(init=False, default="gain")
    accelerate: bool = field(init=False, default=True)
    validation_fraction: float = field(init=False, default=0.0)
    finish_rows: Literal["auto"] = field(init=False, default="auto")
    structure: ClassVar[Any]  # type: ignore[misc]

    @property  # type: ignore[no-redef]
    def structure(self) -> Mixture | MultiGroupMixture:  # type: ignore[override]
        """The template of the model's graph."""
        classes = whole_number("n_classes", self.n_classes)
        if self.group is None:
            if self.measurement_invariance is not True:
                raise ParameterError("measurement_invariance is between groups; give group=, the column of these")
            return Mixture(classes)
        self._check_names()
        invariant = self.measurement_invariance
        if not isinstance(invariant, bool):
            invariant = different_names("measurement_invariance", invariant, ParameterError)
        if self.known_class is not None and invariant is not True:
            # Labels of classes mean the same in all groups.
            invariant = (*(invariant or ()), self.known_class)
        return MultiGroupMixture(classes, self.group, invariant)

    @property
    def class_weights_(self) -> Floats:
        """The share of each class."""
        (hidden,) = self._tables.graph.hidden
        shares = np.asarray(self._tables.tables[hidden])
        return shares if shares.ndim == 1 else self._tables.tables[self._tables.graph.parents(hidden)[0]] @ shares

    @property
    def coefficients_(self) -> LabeledTable:
        """The coefficients of class membership: a line for each class, of which the first is the reference.

        `class_regression` gives them with standard errors, odds ratios and Wald tests.
        """
        own = self._membership
        if own is None:
            raise AttributeError("coefficients_: the model has no covariates; give covariates=[...]")
        names, emission = own
        (hidden,) = self._tables.graph.hidden
        terms = design_names(self._columns, names)
        return LabeledTable(emission.coefficients, [hidden, "term"], [self._tables.labels(hidden), terms])

    @property
    def _membership(self) -> tuple[tuple[str, ...], Membership] | None:
        """The covariates and their emission, if there are any."""
        every = self._tables.all_emissions.items()
        return next(((names, each) for names, each in every if isinstance(each, Membership)), None)

    @property
    def _column_kinds(self) -> dict[str, str]:
        """The kinds of columns that the given emissions need, and covariates."""
        chosen, kinds = self._covariates, super()._column_kinds
        self._check_names()
        if both := [name for name in chosen if name in kinds]:
            raise ParameterError(
                f"{both[0]!r} is a covariate, which has no emission, but emissions name it too; leave it out of one"
            )
        roles = [name for name in (self.group, self.known_class) if name is not None]
        return kinds | dict.fromkeys(chosen, "covariate") | dict.fromkeys(roles, "categorical")

    @property
    def _covariates(self) -> tuple[str, ...]:
        return () if self.covariates is None else different_names("covariates", self.covariates, ParameterError)

    def _check_names(self) -> None:
        """Raise `ParameterError` unless group and known_class are names of columns that have no other role."""
        roles = {"group": self.group, "known_class": self.known_class}
        named = {role: name for role, name in roles.items() if name is not None}
        for role, name in named.items():
            if not isinstance(name, str):
                raise ParameterError(f"{role} is the name of a column, not {quoted(name)}")
            if any(name in names for names in checked_emissions(self.emissions)):
                raise ParameterError(f"{name!r} is the {role}, which has no emission; leave it out of emissions")
        if len(set(named.values())) < len(named):
            raise ParameterError(f"{self.group!r} is the group and the known class; leave one of them out")
        if named and self._covariates:
            raise ParameterError(
                f"{' and '.join(named)} cannot stand beside covariates; name the column in covariates too, which "
                f"lets the shares of the classes depend on it, or leave the covariates out"
            )

    def _families(self, columns: Columns, graph: LatentGraph) -> dict[tuple[str, ...], Any]:
        """Return the family of each number column, or group of them, and that of all covariates."""
        chosen = self._covariates
        if self.known_class is not None:
            labels = columns.labels(self.known_class)
            if len(labels) != self.n_classes:
                raise DataError(
                    f"the known class {self.known_class!r} has {len(labels)} labels, and there are "
                    f"{self.n_classes} classes; give n_classes={len(labels)}, or all labels as categories, one for "
                    f"each class"
                )
        items = [name for name in columns.names if name not in chosen]
        if not chosen:
            return super()._families(columns, graph)
        if not items:
            raise DataError("all columns are covariates; classes are learned from items, so give some of these too")
        return super()._families(columns.only(items), graph) | {chosen: covariate_family(columns, chosen)}

    @property
    def _constraints(self) -> Constraints:
        """What is fixed and what is equal; rows of a known class are in this one."""
        if self.known_class is None:
            return super()._constraints
        fixed = a_mapping("fixed", {} if self.fixed is None else self.fixed, "{'q1': [[0.9, nan]]}", ParameterError)
        if self.known_class in fixed:
            raise ParameterError(f"fixed names {self.known_class!r}, the known class, whose table is known already")
        return Constraints({**fixed, self.known_class: np.eye(self.n_classes)}, self.equal)

    def _named(self, network: LatentNetwork, columns: Columns) -> LatentNetwork:
        """Return a learned network with the names of states, those of known classes too."""
        if self.group is not None:
            # What numbers need is imported where it is needed.
            from eigentree.inference.mixed.group_order import matched_groups

            network = matched_groups(network, self.group)
        if self.known_class is None:
            return super()._named(network, columns)
        labels = {hidden: columns.labels(self.known_class) for hidden in network.graph.hidden}
        return network.changed(columns=columns, hidden_labels=labels)

    def _target(self, target: str | None) -> str:
        """Return the variable to predict: by default the class, or the column that has it."""
        return super()._target(self.known_class if target is None else target)

    def entropy(self, X: ArrayLike | Any, sample_weight: ArrayLike | None = None) -> float:
        """Return how certain the classes of rows are: entropy R², 1 for certain classes and 0 for mere guesses.

        It is 1 - sum of the posteriors' entropies / (rows · log(n_classes)), which Mplus reports as entropy, Latent
        GOLD as entropy R² and StepMix as `relative_entropy`; NaN for one class.
        """
        posterior = np.asarray(self.predict_proba(X))
        return entropy_r2(posterior, positive_weights(sample_weight, len(posterior)))

    def as_tree(self) -> EMJunctionTree:
        """Return the unfitted `EMJunctionTree` that learns the same."""
        settings = {name: value for name, value in self.get_params(deep=False).items() if name not in OWN}
        return EMJunctionTree(self.structure, **settings)
