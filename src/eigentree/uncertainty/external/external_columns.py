"""External variables as users give them: columns beside the items, or a table of their own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from eigentree.data.streams.sources import is_stream
from eigentree.data.tables.columns import Columns
from eigentree.data.tables.rows import Rows
from eigentree.data.tables.state_rules import ReadOptions
from eigentree.data.tables.table import table_of
from eigentree.errors import DataError, ParameterError, quoted
from eigentree.inference.networks.network import LatentNetwork
from eigentree.validation import different_names

if TYPE_CHECKING:
    from collections.abc import Sequence

    from eigentree.arrays import Booleans, Floats
    from eigentree.data.tables.table import Table

__all__ = ["ExternalColumns"]


class ExternalColumns(NamedTuple):
    """External variables, read as numbers: labels as their codes.

    Attributes
    ----------
    items : Table
        The columns of the model.
    columns : Columns
        What the external variables are.
    values : array, shape (rows, variables)
        NaN where a cell is missing.
    """

    items: Table
    columns: Columns
    values: Floats

    @classmethod
    def of(cls, model: Any, X: Any, argument: str, given: Any) -> ExternalColumns:
        """Return the external variables that are given, as names of columns of X or as a table with as many rows.

        Parameters
        ----------
        model : fitted estimator
        X : the rows that it was fitted to
        argument : str
            What the variables are called in messages.
        given : list of str, or array-like of shape (rows, variables), or a data frame
        """
        if not isinstance(getattr(model, "network_", None), LatentNetwork):
            raise ParameterError(f"the model is a fitted LatentClassModel, not {quoted(model)}")
        own_columns: Columns = model.columns_
        if is_stream(X):
            raise DataError(f"{argument} need rows in memory, and these come in batches ({quoted(X)})")
        table = table_of(X)
        items = table if table.names is None else table.only(own_columns.names)
        if _are_names(given):
            names: Sequence[str] = different_names(argument, given, ParameterError)
            if table.names is None:
                raise ParameterError(
                    f"{argument} are names of columns, and X is a table without names; give a data frame, or "
                    f"{argument} as a table with as many rows"
                )
            if both := [name for name in names if name in own_columns.names]:
                raise ParameterError(
                    f"{both[0]!r} is an item of the model, so it is none of the {argument}; fit without it"
                )
            own = table.only(names)
        else:
            if len(getattr(given, "shape", ())) == 1:
                given = given.to_frame() if getattr(given, "name", None) else np.asarray(given)[:, None]
            own = table_of(given)
            names = own.all_names
            if own.count != table.count:
                raise DataError(f"{argument} have {own.count} rows, and X has {table.count}; give one row for each")
        if not names:
            raise ParameterError(f"{argument} name no column; give one at least")
        columns = Columns.learned(own, ReadOptions(numeric="emissions", kinds=dict.fromkeys(names, "covariate")))
        return cls(items, columns, Rows.of(own, columns).values())

    @property
    def complete(self) -> Booleans:
        """Which rows have no missing cell."""
        return np.asarray(~np.isnan(self.values).any(axis=1))


def _are_names(given: Any) -> bool:
    """Return whether columns are given by names; `different_names` refuses one in place of a list."""
    if isinstance(given, str):
        return True
    return isinstance(given, list | tuple) and all(isinstance(name, str) for name in given)
