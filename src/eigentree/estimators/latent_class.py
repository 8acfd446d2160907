"""`LatentClassModel`: latent class and latent profile analysis, a mixture of products of columns fitted by EM."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from eigentree.data.tables.labeled_table import LabeledTable
from eigentree.data.tables.weights import positive_weights
from eigentree.em.mixed.emission_choice import covariate_family
from eigentree.emissions.covariates.design import term_names
from eigentree.emissions.covariates.membership import Membership
from eigentree.errors import DataError, ParameterError
from eigentree.estimators.em_junction_tree import EMJunctionTree
from eigentree.estimators.mixins.constructor_parameters import estimator_class
from eigentree.estimators.mixins.information_criteria import MAXIMUM_LIKELIHOOD, entropy_r2
from eigentree.graphs.templates import Mixture
from eigentree.validation import different_names, whole_number

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import ArrayLike

    from eigentree.arrays import Floats
    from eigentree.data.tables.columns import Columns
    from eigentree.data.tables.state_rules import Categories, NumericRule, UnknownRule
    from eigentree.em.init.trees import Kind
    from eigentree.graphs.graph import LatentGraph
    from eigentree.inference.networks.network import LatentNetwork
    from eigentree.validation import Seed

__all__ = ["LatentClassModel"]


@estimator_class
class LatentClassModel(EMJunctionTree):
    """A latent class model: classes within which the columns are independent, fitted by maximum likelihood (EM).

    With columns of numbers it is a latent profile model, whose classes have a distribution of each number, or of a
    group of numbers together (`emissions`). The default prior of these is one row, see the families.

    Parameters
    ----------
    n_classes : int
    covariates : list of str, optional
        Columns that class membership depends on, by a multinomial logit whose reference is the first class: numbers
        as they are, other columns as indicators of each label but the first. They are no items: scores are
        log P(items | covariates). Rows that miss one are left out of the fit (with a notice), and get the shares of
        the classes where they are scored. The columns of an array are called x0, x1, ….
    n_init : int
        How many starts are optimised to the end at most; the one of the highest log-likelihood is kept.
    tol : float
        An EM run ends once the log-likelihood per row is expected to rise by no more than this.
    max_iter : int
        Most iterations of an EM run.
    init : {"multistart", "spectral", "mixture", "copy", "random"} or LatentNetwork
        Where to start, as for `EMJunctionTree`.
    pseudo_counts : float or "auto"
        Added to every expected count. The default, 1e-6, changes the log-likelihood by about a millionth per entry
        of the tables, far below the digits that are reported, so the estimate is that of maximum likelihood; but an
        answer that nobody in a class gave is rare there and not impossible, so that new rows have a finite score. 0
        is maximum likelihood itself, 0.1 to 1 shrinks where rows are few, "auto" as for `EMJunctionTree`.
    random_state : int, Generator or None
    n_jobs, verbose, categories, handle_unknown, numeric, emissions
        As those of `EMJunctionTree`.

    Attributes
    ----------
    class_weights_ : array, shape (n_classes,)
        The share of each class; classes are numbered by size, the largest first. With covariates it is the mean of
        P(class | covariates).
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

    def __init__(
        self,
        n_classes: int = 2,
        n_init: int = 5,
        tol: float = 1e-8,
        max_iter: int = 1000,
        *,
        init: LatentNetwork | Literal["multistart"] | Kind = "multistart",
        pseudo_counts: float | Literal["auto"] = MAXIMUM_LIKELIHOOD,
        random_state: Seed = None,
        n_jobs: int = 1,
        verbose: int = 0,
        categories: Categories | None = None,
        handle_unknown: UnknownRule = "error",
        numeric: NumericRule = "emissions",
        emissions: Any = "auto",
        covariates: Sequence[str] | None = None,
    ) -> None:
        self.n_classes = n_classes
        self.n_init = n_init
        self.tol = tol
        self.max_iter = max_iter
        self.init = init
        self.pseudo_counts = pseudo_counts
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.categories = categories
        self.handle_unknown = handle_unknown
        self.numeric = numeric
        self.emissions = emissions
        self.covariates = covariates

    @property  # type: ignore[misc]
    def structure(self) -> Mixture:  # type: ignore[override]
        """The template of the model's graph."""
        return Mixture(whole_number("n_classes", self.n_classes))

    @property
    def class_weights_(self) -> Floats:
        """The share of each class."""
        (hidden,) = self._tables.graph.hidden
        return np.asarray(self._tables.tables[hidden])

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
        terms = [term for _, term in term_names(self._columns, names)]
        return LabeledTable(emission.coefficients, [hidden, "term"], [self._tables.labels(hidden), terms])

    @property
    def _membership(self) -> tuple[tuple[str, ...], Membership] | None:
        """The covariates and their emission, if there are any."""
        every = self._tables.all_emissions.items()
        return next(((names, each) for names, each in every if isinstance(each, Membership)), None)

    @property
    def _column_kinds(self) -> dict[str, str]:
        """The kinds of columns that the given emissions need, and covariates."""
        chosen, kinds = different_names("covariates", self.covariates or (), ParameterError), super()._column_kinds
        if both := [name for name in chosen if name in kinds]:
            raise ParameterError(
                f"{both[0]!r} is a covariate, which has no emission, but emissions name it too; leave it out of one"
            )
        return kinds | dict.fromkeys(chosen, "covariate")

    def _families(self, columns: Columns, graph: LatentGraph) -> dict[tuple[str, ...], Any]:
        """Return the family of each number column, or group of them, and that of all covariates."""
        chosen = tuple(self.covariates or ())
        items = [name for name in columns.names if name not in chosen]
        if not chosen:
            return super()._families(columns, graph)
        if not items:
            raise DataError("all columns are covariates; classes are learned from items, so give some of these too")
        return super()._families(columns.only(items), graph) | {chosen: covariate_family(columns, chosen)}

    def entropy(self, X: ArrayLike | Any, sample_weight: ArrayLike | None = None) -> float:
        """Return how certain the classes of rows are: entropy R², 1 for certain classes and 0 for mere guesses.

        It is 1 - sum of the posteriors' entropies / (rows · log(n_classes)), which Mplus reports as entropy, Latent
        GOLD as entropy R² and StepMix as `relative_entropy`; NaN for one class.
        """
        posterior = np.asarray(self.predict_proba(X))
        return entropy_r2(posterior, positive_weights(sample_weight, len(posterior)))

    def as_tree(self) -> EMJunctionTree:
        """Return the unfitted `EMJunctionTree` that learns the same."""
        settings = {
            name: value
            for name, value in self.get_params(deep=False).items()
            if name not in ("n_classes", "covariates")
        }
        return EMJunctionTree(self.structure, **settings)
