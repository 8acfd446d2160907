"""Real data that come with the package, with where they are from and what may be done with them."""

from eigentree.datasets.splice import CLASS_NAMES, LETTERS, Splice, load_splice

__all__ = ["CLASS_NAMES", "LETTERS", "Splice", "load_splice"]
