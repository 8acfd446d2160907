"""One EM run: iterations from one start until hardly anything is left to gain, accelerated or not."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from eigentree.em.optimize.lbfgs import LBFGS
from eigentree.em.optimize.stopping import SHORT_RUN
from eigentree.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from eigentree.arrays import Floats
    from eigentree.em.optimize.objective import Evaluation, Objective
    from eigentree.em.optimize.stopping import Stopping

__all__ = ["EMRun", "em_run"]

TRIES = 3
"""How often an accelerated step is tried, shorter and shorter, before a plain EM iteration takes its place."""


@dataclass(frozen=True, eq=False)
class EMRun:
    """How far a run has come.

    Its `history` are the objectives of all iterations, start included: it never decreases, and its last is that of
    `here`. With held-out data, `validation` are their log-likelihoods, and `best` the parameters of the highest.
    """

    here: Evaluation
    history: tuple[float, ...]
    converged: bool = False
    validation: tuple[float, ...] = ()
    best: Floats | None = None

    def moved(self, there: Evaluation) -> EMRun | None:
        """Return the run after an iteration, or None when that does not raise the objective."""
        if not there.objective > self.here.objective:
            return None
        return replace(self, here=there, history=(*self.history, there.objective))

    def validated(self, log_likelihood: float) -> EMRun:
        """Return the run with the held-out log-likelihood at its last iteration."""
        better = self.best is None or log_likelihood > max(self.validation)
        best = self.here.parameters if better else self.best
        return replace(self, validation=(*self.validation, log_likelihood), best=best)

    @property
    def iterations(self) -> int:
        """The number of iterations so far."""
        return len(self.history) - 1

    @property
    def objective(self) -> float:
        """The objective so far."""
        return self.history[-1]

    @property
    def parameters(self) -> Floats:
        """The best parameters: by held-out data, if there are any."""
        return self.here.parameters if self.best is None else self.best

    @property
    def score(self) -> float:
        """What runs are compared by: the objective, or the best held-out log-likelihood."""
        return max(self.validation, default=self.history[-1])


def em_run(
    objective: Objective,
    start: Floats,
    stopping: Stopping,
    max_iter: int,
    accelerate: bool = True,
    validation: Objective | None = None,
) -> Iterator[EMRun]:
    """Yield a run at its start and after each iteration, until it has converged or `max_iter` is reached.

    Accelerated, it takes quasi-Newton steps; one that would lower the objective is shortened, or an EM iteration
    takes its place. With held-out data it also ends once their log-likelihood has not risen for some
    iterations. Raises `DataError` when a row or sequence is impossible at the start: no iteration would make it
    possible.
    """
    here = objective.evaluated(start)
    if here.impossible >= 0:
        raise DataError(
            f"row {here.impossible} has probability zero at the start, so EM cannot explain it; "
            f"give an init whose tables have no zeros there"
        )
    run = _validated(EMRun(here, (here.objective,)), validation)
    yield run
    lbfgs = LBFGS(objective.layout) if accelerate and objective.is_accelerable else None
    for _ in range(max_iter):
        moved = _accelerated(objective, run, lbfgs) if lbfgs else None
        plain = moved is None
        if moved is None:
            moved = run.moved(objective.evaluated(run.here.update))
        if moved is None:
            # No gain is left but rounding.
            yield replace(run, converged=True)
            return
        run = _validated(moved, validation)
        if validation and run.iterations - run.validation.index(run.score) >= SHORT_RUN:
            yield replace(run, converged=True)
            return
        if stopping.reached(run.history, objective.weight):
            if plain or stopping.rule == "gain":
                yield replace(run, converged=True)
                return
            # A short quasi-Newton step is no sign of a local optimum: try a plain iteration.
            assert lbfgs is not None
            lbfgs.forget()
        yield run


def _accelerated(objective: Objective, run: EMRun, lbfgs: LBFGS) -> EMRun | None:
    """Return the run after an accelerated step, or None when there is none that raises the objective."""
    proposed = lbfgs.propose(run.here)
    if proposed is None:
        return None
    for _ in range(TRIES):
        there = objective.evaluated(proposed)
        moved = run.moved(there)
        if moved is not None:
            return moved
        proposed = lbfgs.shortened(there.objective)
    lbfgs.forget()
    return None


def _validated(run: EMRun, validation: Objective | None) -> EMRun:
    return run.validated(validation.log_likelihood(run.here.parameters)) if validation else run
