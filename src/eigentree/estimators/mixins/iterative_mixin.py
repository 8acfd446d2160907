"""What estimators that are fitted by EM share, those of tables and those of sequences."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from eigentree.data.tables.state_rules import check_rules
from eigentree.em.em_report import EMReport, StartReport, Unit
from eigentree.em.optimize.stopping import USUAL_TOLERANCES
from eigentree.errors import ParameterError, quoted
from eigentree.estimators.mixins.constructor_parameters import Parameters
from eigentree.estimators.mixins.uncertainty_mixin import UncertaintyMixin
from eigentree.messages import notice, renamed
from eigentree.progress import shown_progress
from eigentree.validation import MOST_THREADS, finite_number, flag, one_of, whole_number

if TYPE_CHECKING:
    from collections.abc import Iterable

    from eigentree.arrays import Floats
    from eigentree.em.em_report import Unit
    from eigentree.em.multistart import Multistart
    from eigentree.em.optimize.objective import Objective

__all__ = [
    "OLD_MULTISTART",
    "IterativeMixin",
    "RunsMixin",
    "warn_interrupted",
    "warn_not_converged",
]

OLD_MULTISTART = "race"
"""What "multistart" was called up to 0.2.0."""


WHOLES = {"row": "rows", "step": "sequences", "node": "trees"}
"""What is passed over, by the unit that gains are judged by."""


class RunsMixin(Parameters):
    """Checks, progress, fitted attributes and report of an estimator that is fitted by EM."""

    structure: Any
    categories: Any
    numeric: Any
    pseudo_counts: Any
    n_jobs: int
    verbose: int
    init: Any
    start_: StartReport
    history_: Floats
    validation_history_: Floats
    objectives_: Floats
    n_iter_: int
    converged_: bool

    _unit: ClassVar[Unit] = "row"
    _pseudo_count_rules: ClassVar[tuple[str, ...]] = ()

    @property
    def report_(self) -> EMReport:
        """The report of the fit, which notebooks show with its learning curve."""
        self._require_fit()
        return EMReport.of(self, self._unit)

    @property
    def _start(self) -> Any:
        """Where to start; the multi-start by its present name."""
        if isinstance(self.init, str) and self.init == OLD_MULTISTART:
            renamed(f"init={OLD_MULTISTART!r}", "init='multistart'")
            return "multistart"
        return self.init

    def _check_shared(self) -> None:
        whole_number("n_jobs", self.n_jobs, most=MOST_THREADS)
        whole_number("verbose", int(self.verbose) if isinstance(self.verbose, bool) else self.verbose, 0)
        # Trees of labels have no numbers.
        check_rules(self.handle_unknown, getattr(self, "numeric", "error"))
        if not (isinstance(self.pseudo_counts, str) and self.pseudo_counts in self._pseudo_count_rules):
            finite_number("pseudo_counts", self.pseudo_counts, 0.0)

    def _check_runs(self: Any, initialisers: Iterable[str], given: type | tuple[type, ...]) -> None:
        """Raise `ParameterError` unless runs are possible, from initialisers or from what users give."""
        whole_number("n_init", self.n_init)
        whole_number("max_iter", self.max_iter)
        flag("accelerate", self.accelerate)
        one_of("stopping", self.stopping, tuple(USUAL_TOLERANCES))
        if not isinstance(self.init, given):
            one_of("init", self._start, ("multistart", *initialisers))
        if not finite_number("validation_fraction", self.validation_fraction, 0.0) < 1:
            raise ParameterError(f"validation_fraction is less than 1, not {quoted(self.validation_fraction)}")
        if self.tol is not None:
            finite_number("tol", self.tol, 0.0)
        self._check_shared()

    def _followed(
        self, runs: Iterable[tuple[Any, Objective, Multistart]], most: int, max_iter: int
    ) -> tuple[Any, Objective, Multistart]:
        """Return the last of the states of a fit, shown as they come, or the best so far once interrupted."""
        state: Multistart | None = None
        try:
            with shown_progress(self.verbose, "EM", most) as report:
                for last, objective, state in runs:  # noqa: B007
                    report(state.iterations, state.objective)
        except KeyboardInterrupt:
            if state is None:
                raise
            state = state.rescued(objective)
            warn_interrupted(f"{state.iterations} iterations on all {WHOLES[self._unit]}")
        else:
            assert state is not None
            warn_not_converged(state.best[1].converged, max_iter)
        return last, objective, state

    def _run_attributes(self, state: Multistart, weight: float, held: Objective | None) -> dict[str, Any]:
        """Return the fitted attributes that describe the runs, given the weight of all data and held-out data."""
        best = state.best[1]
        return {
            "start_": StartReport.of(state, weight, self._unit),
            "history_": np.array(best.history),
            "validation_history_": np.array(best.validation) / (held.weight if held else 1.0),
            "objectives_": np.array([run.objective for _, run in state.runs]),
            "n_iter_": best.iterations,
            "converged_": best.converged,
        }


class IterativeMixin(RunsMixin, UncertaintyMixin):
    """What an estimator of tables that is fitted by EM has: runs, and standard errors."""


def warn_not_converged(converged: bool, most: int, argument: str = "max_iter") -> None:
    """Warn, as scikit-learn does, when a fit ended by its most iterations before it had converged."""
    if not converged:
        from sklearn.exceptions import ConvergenceWarning

        notice(
            f"EM ended at {argument}={most} before it converged; raise {argument}, or tol if less will do",
            ConvergenceWarning,
        )


def warn_interrupted(where: str) -> None:
    """Say that a fit was interrupted, and where."""
    notice(f"the fit was interrupted in {where}; the best so far is kept")
