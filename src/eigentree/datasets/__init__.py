"""Real data that come with the package, with where they are from and what may be done with them."""

from eigentree.datasets.packaged import Dataset
from eigentree.datasets.splice import CLASS_NAMES, LETTERS, Splice, load_splice
from eigentree.datasets.uci import load_contraceptive, load_mushrooms, load_votes

__all__ = [
    "CLASS_NAMES",
    "LETTERS",
    "Dataset",
    "Splice",
    "load_contraceptive",
    "load_mushrooms",
    "load_splice",
    "load_votes",
]


def __dir__() -> list[str]:
    return sorted(__all__)
