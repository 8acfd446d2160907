"""Weighted multinomial logistic regression by Newton's method: the M-step of what depends on covariates.

P(class | x) is proportional to exp(x @ coefficients[:, class]); the first class is the reference, whose
coefficients are zero. A design has a column of ones where there is an intercept.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from eigentree.arrays import Floats

__all__ = ["information", "log_probabilities", "multinomial_logit", "score"]

ROUNDING = 1e-14
"""Newton's method ends when the log-likelihood would gain no more per count, which is its own rounding error."""

MOST_STEPS = 100
"""Coefficients that grow without bound (separated classes) gain a factor e less each time: 33 such steps end at
rounding."""

HALVINGS = 40
"""A step shorter than 2^-40 of Newton's changes coefficients by less than their rounding."""


def log_probabilities(design: Floats, coefficients: Floats) -> Floats:
    """Return log P(class | row), shape (rows, classes).

    Parameters
    ----------
    design : array, shape (rows, covariates)
    coefficients : array, shape (covariates, classes)
    """
    logits = design @ coefficients
    logits -= logits.max(axis=1, keepdims=True)
    found: Floats = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
    return found


def score(design: Floats, counts: Floats, coefficients: Floats) -> Floats:
    """Return the gradient of the log-likelihood, shape (covariates, classes), zero in the reference class.

    Parameters
    ----------
    design : array, shape (rows, covariates)
    counts : array, shape (rows, classes)
    coefficients : array, shape (covariates, classes)
    """
    expected = counts.sum(axis=1, keepdims=True) * np.exp(log_probabilities(design, coefficients))
    gradient: Floats = design.T @ (counts - expected)
    gradient[:, 0] = 0.0
    return gradient


def information(design: Floats, totals: Floats, coefficients: Floats) -> Floats:
    """Return the information matrix of ``coefficients[:, 1:].T.ravel()``: class by class, all covariates of each.

    It is minus the Hessian of the log-likelihood, observed and expected alike.

    Parameters
    ----------
    design : array, shape (rows, covariates)
    totals : array, shape (rows,)
        The number of counts of each row.
    coefficients : array, shape (covariates, classes)
    """
    proba = np.exp(log_probabilities(design, coefficients))[:, 1:]
    covariates, others = design.shape[1], proba.shape[1]
    matrix = np.empty((others, covariates, others, covariates))
    for one in range(others):
        for other in range(one + 1):
            weights = totals * proba[:, one] * ((one == other) - proba[:, other])
            matrix[one, :, other] = design.T @ (weights[:, None] * design)
            matrix[other, :, one] = matrix[one, :, other].T
    return matrix.reshape(others * covariates, others * covariates)


def multinomial_logit(design: Floats, counts: Floats, start: Floats | None = None) -> Floats:
    """Return the coefficients with the highest log-likelihood of counts, shape (covariates, classes).

    The first class is the reference: its column is zero. Of several coefficients that are as good, since covariates
    depend on each other linearly, those nearest to the start are returned. Where classes are separated,
    coefficients grow until the log-likelihood gains nothing but rounding errors.

    Parameters
    ----------
    design : array, shape (rows, covariates)
    counts : array, shape (rows, classes)
        How often each class was observed in each row, not negative; need not be whole.
    start : array, shape (covariates, classes), optional
        Where to begin; zero unless given.

    Examples
    --------
    >>> design = np.array([[1.0, 0.0], [1.0, 1.0]])
    >>> found = multinomial_logit(design, np.array([[30.0, 10.0], [20.0, 40.0]]))
    >>> found.round(4).tolist()  # log(1/3), and log(2) less that
    [[0.0, -1.0986], [0.0, 1.7918]]
    """
    classes = counts.shape[1]
    first = np.zeros((design.shape[1], classes)) if start is None else start - start[:, :1]
    # In an orthonormal basis of the covariates their units and correlations do not matter.
    norms = np.sqrt(np.square(design).sum(axis=0))
    scales = np.where(norms > 0, norms, 1.0)
    basis, sizes, turn = np.linalg.svd(design / scales, full_matrices=False)
    own = sizes > max(design.shape) * np.finfo(np.float64).eps * sizes.max(initial=0.0)
    basis, sizes, turn = basis[:, own], sizes[own, None], turn[own]
    begin = sizes * (turn @ (scales[:, None] * first))
    moved = _newton(basis, counts, begin) - begin
    found: Floats = first + turn.T @ (moved / sizes) / scales[:, None]
    return found


def _newton(design: Floats, counts: Floats, found: Floats) -> Floats:
    """Return the coefficients where the log-likelihood is highest, found from some by damped Newton steps."""
    totals = counts.sum(axis=1)
    value = _log_likelihood(design, counts, found)
    least = ROUNDING * float(totals.sum())
    for _ in range(MOST_STEPS):
        gradient = score(design, counts, found)[:, 1:].T.ravel()
        direction = np.linalg.lstsq(information(design, totals, found), gradient)[0]
        step = np.zeros_like(found)
        step[:, 1:] = direction.reshape(found.shape[1] - 1, len(found)).T
        if gradient @ direction <= least:
            # Convergence is quadratic: the last step leaves no more than rounding errors in coefficients as well.
            return found + step
        for _ in range(HALVINGS):
            next_value = _log_likelihood(design, counts, found + step)
            if next_value > value:
                break
            step /= 2.0
        else:
            return found
        found, value = found + step, next_value
    return found


def _log_likelihood(design: Floats, counts: Floats, coefficients: Floats) -> float:
    return float((counts * log_probabilities(design, coefficients)).sum())
