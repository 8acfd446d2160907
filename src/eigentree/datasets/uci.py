"""Tables of the UCI repository as they were published: mushrooms, votes, and a survey about contraception."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, overload

import numpy as np

from eigentree import validation as checks
from eigentree.datasets.packaged import Dataset, Packaged, labeled_fields

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

__all__ = ["CONTRACEPTIVE", "MUSHROOMS", "VOTES", "load_contraceptive", "load_mushrooms", "load_votes"]

CONTRACEPTIVE = Packaged("contraceptive", "ad2a49da55df24b061a994ecc4d90c856aba35acd05138851aa251c4f06303c9")
LEVELS = {"1": "1 low", "2": "2", "3": "3", "4": "4 high"}
CONTRACEPTIVE_CODES: dict[str, dict[str, str] | None] = {
    "age": None,
    "education": LEVELS,
    "husband_education": LEVELS,
    "children": None,
    "religion": {"0": "other", "1": "islam"},
    "working": {"0": "yes", "1": "no"},
    "husband_occupation": {code: code for code in "1234"},
    "living_standard": LEVELS,
    "media_exposure": {"0": "good", "1": "not good"},
    "method": {"1": "none", "2": "long-term", "3": "short-term"},
}
"""What the codes of each column stand for; None for numbers."""

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
def load_contraceptive(*, return_X_y: Literal[False] = False, as_frame: bool = False) -> Dataset: ...
@overload
def load_contraceptive(*, return_X_y: Literal[True], as_frame: bool = False) -> tuple[Any, Any]: ...
def load_contraceptive(*, return_X_y: bool = False, as_frame: bool = False) -> Dataset | tuple[Any, Any]:
    """Return a survey of 1,473 married women in Indonesia in 1987, and which contraception they used.

    Parameters
    ----------
    return_X_y : bool
        Whether to return only ``(data, target)``.
    as_frame : bool
        Whether data and target are a pandas frame and series, of categories and whole numbers.

    Raises
    ------
    DataError
        When the file of the package is damaged.

    Notes
    -----
    Age and number of children are numbers, seven other columns categories. No cell is missing.

    Examples
    --------
    >>> survey = load_contraceptive()
    >>> survey
    <Dataset: 1,473 rows of 9 columns, classes long-term, none, short-term>
    >>> dict(zip(survey.feature_names[:4], survey.data[0], strict=False))
    {'age': 24, 'education': '2', 'husband_education': '3', 'children': 3}
    """
    flags = _flags(return_X_y, as_frame)
    rows = [line.split(",") for line in CONTRACEPTIVE.lines()]
    named = [
        [
            int(cell) if codes is None else codes[cell]
            for cell, codes in zip(row, CONTRACEPTIVE_CODES.values(), strict=True)
        ]
        for row in rows
    ]
    cells = np.array(named, object)
    *names, _ = CONTRACEPTIVE_CODES
    return _dataset(CONTRACEPTIVE, cells[:, :-1], cells[:, -1].astype(np.str_), names, *flags)


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
    """Return a table whose class comes first, and whose missing cells are question marks."""
    flags = _flags(return_X_y, as_frame)
    table = np.array([line.split(",") for line in packaged.lines()])
    cells = table[:, 1:].astype(object)
    cells[cells == "?"] = None
    return _dataset(packaged, cells, table[:, 0], columns.split(), *flags)


def _flags(return_X_y: bool, as_frame: bool) -> tuple[bool, bool]:
    return checks.flag("return_X_y", return_X_y), checks.flag("as_frame", as_frame)


def _dataset(
    packaged: Packaged,
    cells: NDArray[np.object_],
    classes: NDArray[np.str_],
    names: Sequence[str],
    return_X_y: bool,
    as_frame: bool,
) -> Dataset | tuple[Any, Any]:
    found = Dataset(**labeled_fields(cells, classes, names, as_frame, packaged.attribution))
    return (found.data, found.target) if return_X_y else found
