"""The answers that every object with a model gives, under the same names and with the same arguments."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, Literal

from eigentree.notices import notice

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import ArrayLike

    from eigentree.arrays import Floats, Integers
    from eigentree.checks import Seed
    from eigentree.engine.model import Model

__all__ = ["Answers", "warn_helped"]


class Answers(ABC):
    """What users ask of a network and of a fitted estimator alike."""

    @property
    @abstractmethod
    def _model(self) -> Model:
        """The model that answers."""

    def predict_proba(self, X: ArrayLike | Any, target: str) -> Floats:
        """Return P(target | the other cells) of each row, shape (rows, states of the target).

        The target's own cell is not looked at. It is always a distribution: where no state has a positive
        probability given the other cells, it is the target's marginal, and a warning says how often.

        Parameters
        ----------
        X : array-like of shape (rows, columns), or a data frame
            Codes; -1, NaN or null for a missing cell.
        target : str
            The name of a column.
        """
        proba, undefined = self._model.predict(X, target)
        warn_helped(undefined, f"rows {self._model.undefined}; their column's marginal was used")
        return proba

    def impute(
        self,
        X: ArrayLike | Any,
        method: Literal["mode", "sample"] = "mode",
        seed: Seed = None,
    ) -> Integers:
        """Return the rows with their missing cells filled, by the likeliest state or by a joint draw.

        Parameters
        ----------
        X : array-like of shape (rows, columns), or a data frame
            Codes; -1, NaN or null for a missing cell.
        method : {"mode", "sample"}
            "mode" puts the likeliest state of each missing cell given the known cells of its row; "sample" draws
            all missing cells of a row together.
        seed : int or Generator, optional
            For "sample".
        """
        filled, undefined = self._model.impute(X, method, seed)
        warn_helped(undefined, f"missing cells {self._model.undefined}; their column's marginal was used")
        return filled

    def sample(
        self,
        n: int = 1,
        seed: Seed = None,
        given: Mapping[str, int] | None = None,
    ) -> Integers:
        """Return rows drawn from the model, shape (n, columns), hidden variables left out.

        Parameters
        ----------
        n : int
        seed : int or Generator, optional
        given : mapping of str to int, optional
            Values of some observed variables; the others are drawn given these.
        """
        return self._model.draw(n, seed, given)[0]

    def joint(self, names: Sequence[str]) -> Floats:
        """Return the table of some observed variables, axes in the order of the names; it adds up to 1."""
        return self._model.joint(names)

    def conditional(self, names: Sequence[str], given: Mapping[str, int]) -> Floats:
        """Return the table P(names | given), axes in the order of the names."""
        return self._model.conditional(names, given)


def warn_helped(count: int, what: str) -> None:
    """Warn that the model had to help itself a number of times."""
    if count:
        notice(f"{count} {what}")
