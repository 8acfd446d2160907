"""Rows held out, and models beside each other on them."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from eigentree.errors import DataError, EigentreeError

if TYPE_CHECKING:
    from eigentree.commands.tables import Given

__all__ = ["Entry", "Trial", "split", "tried"]


@dataclass(frozen=True)
class Trial:
    """How a model did.

    Attributes
    ----------
    name : str
    held_out, training : float
        Mean log probability of a row, of distributions that add up to 1; NaN where the fit failed.
    parameters : int or None
        Free parameters, where they are known.
    seconds : float
        Of processor time, of the fit.
    failure : str
        Why it failed; empty if it did not.
    """

    name: str
    held_out: float
    training: float
    parameters: int | None
    seconds: float
    failure: str = ""


Entry = tuple[str, Callable[["Given"], Any]]
"""The name of a model, and what fits it to rows."""


def split(table: "Given", share: float, seed: int) -> tuple["Given", "Given"]:
    """Return the rows to learn from, and a share of them that is held out.

    Raises
    ------
    DataError
        When either would be empty.
    """
    order = np.random.default_rng(seed).permutation(table.count)
    out = round(share * table.count)
    if not 0 < out < table.count:
        raise DataError(f"{table.shown} has {table.count} rows; a share of {share:g} of them cannot be held out")
    return table.take(np.sort(order[out:])), table.take(np.sort(order[:out]))


def tried(entry: Entry, training: "Given", held_out: "Given") -> Trial:
    """Return how a model does on rows that it has not seen; a label that it has not seen is a missing cell."""
    name, fit = entry
    begin = time.process_time()
    try:
        model = fit(training)
    except EigentreeError as error:
        return Trial(name, float("nan"), float("nan"), None, time.process_time() - begin, str(error))
    seconds = time.process_time() - begin
    model.unknown = "missing"
    parameters = getattr(model, "n_parameters_", None)
    return Trial(name, model.score(held_out), model.score(training), parameters, seconds)
