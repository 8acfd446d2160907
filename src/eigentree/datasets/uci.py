"""Mushrooms and votes: tables of the UCI repository, as they were published, the class first in each row."""

from __future__ import annotations

from typing import Any, Literal, overload

import numpy as np

from eigentree import validation as checks
from eigentree.datasets.packaged import Dataset, Packaged, labeled_fields

__all__ = ["MUSHROOMS", "VOTES", "load_mushrooms", "load_votes"]

MUSHROOMS = Packaged("mushrooms", "e65d082030501a3ebcbcd7c9f7c71aa9d28fdfff463bf4cf4716a3fe13ac360e")
MUSHROOM_COLUMNS = """
    cap-shape cap-surface cap-color bruises odor gill-attachment gill-spacing gill-size gill-color stalk-shape
    stalk-root stalk-surface-above-ring stalk-surface-below-ring stalk-color-above-ring stalk-color-below-ring
    veil-type veil-color ring-number ring-type spore-print-color population habitat
"""

VOTES = Packaged("votes", "c87c14110a5ba91d4a1e313ec7392824458152bf071fa5f5452340488337936e")
VOTE_COLUMNS = """
    handicapped-infants water-project-cost-sharing adoption-of-the-budget-resolution physician-fee-freeze
    el-salvador-aid religious-groups-in-schools anti-satellite-test-ban aid-to-nicaraguan-contras mx-missile
    immigration synfuels-corporation-cutback education-spending superfund-right-to-sue crime duty-free-exports
    export-administration-act-south-africa
"""


@overload
def load_mushrooms(*, return_X_y: Literal[False] = False, as_frame: bool = False) -> Dataset: ...
@overload
def load_mushrooms(*, return_X_y: Literal[True], as_frame: bool = False) -> tuple[Any, Any]: ...
def load_mushrooms(*, return_X_y: bool = False, as_frame: bool = False) -> Dataset | tuple[Any, Any]:
    """Return 8,124 mushrooms, edible (e) or poisonous (p), and 22 attributes of each.

    Parameters
    ----------
    return_X_y : bool
        Whether to return only ``(data, target)``.
    as_frame : bool
        Whether data and target are a pandas frame and series, of categories.

    Raises
    ------
    DataError
        When the file of the package is damaged.

    Notes
    -----
    2,480 cells of stalk-root are missing. ``DESCR`` explains the letters.

    Examples
    --------
    >>> mushrooms = load_mushrooms()
    >>> mushrooms
    <Dataset: 8,124 rows of 22 columns, classes e, p>
    >>> mushrooms.data[0, :3].tolist(), str(mushrooms.target[0])
    (['x', 's', 'n'], 'p')
    """
    return _loaded(MUSHROOMS, MUSHROOM_COLUMNS, return_X_y, as_frame)


@overload
def load_votes(*, return_X_y: Literal[False] = False, as_frame: bool = False) -> Dataset: ...
@overload
def load_votes(*, return_X_y: Literal[True], as_frame: bool = False) -> tuple[Any, Any]: ...
def load_votes(*, return_X_y: bool = False, as_frame: bool = False) -> Dataset | tuple[Any, Any]:
    """Return how 435 members of the US House of Representatives voted on 16 questions in 1984, and their parties.

    Parameters
    ----------
    return_X_y : bool
        Whether to return only ``(data, target)``.
    as_frame : bool
        Whether data and target are a pandas frame and series, of categories.

    Raises
    ------
    DataError
        When the file of the package is damaged.

    Notes
    -----
    A cell is yea (y), nay (n), or missing where neither is known: 392 of them.

    Examples
    --------
    >>> X, y = load_votes(return_X_y=True)
    >>> X[0, 8:12].tolist(), str(y[0])
    (['n', 'y', None, 'y'], 'republican')
    """
    return _loaded(VOTES, VOTE_COLUMNS, return_X_y, as_frame)


def _loaded(packaged: Packaged, columns: str, return_X_y: bool, as_frame: bool) -> Dataset | tuple[Any, Any]:
    checks.flag("return_X_y", return_X_y)
    checks.flag("as_frame", as_frame)
    table = np.array([line.split(",") for line in packaged.lines()])
    cells = table[:, 1:].astype(object)
    cells[cells == "?"] = None
    found = Dataset(**labeled_fields(cells, table[:, 0], columns.split(), as_frame, packaged.attribution))
    return (found.data, found.target) if return_X_y else found
