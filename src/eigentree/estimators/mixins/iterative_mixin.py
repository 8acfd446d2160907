"""What estimators that are fitted by EM share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from eigentree.data.tables.rows import Rows
from eigentree.data.tables.state_rules import check_rules
from eigentree.data.tables.weights import positive_weights, warn_of_few
from eigentree.em.em_report import EMReport
from eigentree.errors import NetworkError
from eigentree.estimators.mixins.latent_mixin import LatentMixin
from eigentree.inference.networks.network import LatentNetwork
from eigentree.messages import notice, renamed
from eigentree.validation import MOST_THREADS, finite_number, whole_number

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from eigentree.arrays import Codes, Floats
    from eigentree.data.tables.columns import Columns
    from eigentree.graphs.graph import LatentGraph

__all__ = [
    "IterativeMixin",
    "checked_init",
    "encoded",
    "present_init",
    "warn_interrupted",
    "warn_not_converged",
]


class IterativeMixin(LatentMixin):
    """Checks and report of an estimator that is fitted by EM."""

    structure: Any
    categories: Any
    numeric: Any
    pseudo_counts: Any
    verbose: int
    _pseudo_count_rules: ClassVar[tuple[str, ...]] = ()
    history_: Floats
    n_iter_: int
    converged_: bool

    @property
    def report_(self) -> EMReport:
        """The report of the fit, which notebooks show with its learning curve."""
        self._require_fit()
        return EMReport.of(self)

    def _check_shared(self) -> None:
        whole_number("n_jobs", self.n_jobs, most=MOST_THREADS)
        whole_number("verbose", int(self.verbose) if isinstance(self.verbose, bool) else self.verbose, 0)
        check_rules(self.handle_unknown, self.numeric)
        if not (isinstance(self.pseudo_counts, str) and self.pseudo_counts in self._pseudo_count_rules):
            finite_number("pseudo_counts", self.pseudo_counts, 0.0)


def checked_init(init: LatentNetwork, graph: LatentGraph) -> LatentNetwork:
    """Return the network to start from, once it is one of the graph."""
    if not isinstance(init, LatentNetwork):
        raise NetworkError(f"init is a LatentNetwork, not {type(init).__name__}")
    if init.graph != graph:
        raise NetworkError("init belongs to another graph than the structure; build it on the same one")
    return init


def present_init(init: Any) -> Any:
    """Return where to start; the multi-start by its present name."""
    if isinstance(init, str) and init == "race":
        renamed("init='race'", "init='multistart'")
        return "multistart"
    return init


def warn_not_converged(converged: bool, most: int, argument: str = "max_iter") -> None:
    """Warn, as scikit-learn does, when a fit ended by its most iterations before it had converged."""
    if not converged:
        from sklearn.exceptions import ConvergenceWarning

        notice(
            f"EM ended at {argument}={most} before it converged; raise {argument}, or tol if less will do",
            ConvergenceWarning,
        )


def encoded(
    X: ArrayLike | Any, columns: Columns, sample_weight: ArrayLike | None
) -> tuple[Codes, tuple[int, ...], Floats]:
    """Return the codes of all rows, the numbers of states of their columns, and their weights."""
    rows = Rows.of(X, columns)
    codes = rows.encode()
    weights = positive_weights(sample_weight, rows.count)
    warn_of_few(weights)
    return codes, rows.columns.states, weights


def warn_interrupted(where: str) -> None:
    """Say that a fit was interrupted, and where."""
    notice(f"the fit was interrupted in {where}; the best so far is kept")
