"""What `eigentree.plot` offers; matplotlib is loaded when something is drawn."""

from __future__ import annotations

from eigentree.plots.careers import decoded, transitions
from eigentree.plots.graphs import graph
from eigentree.plots.learning import learning_curve, race
from eigentree.plots.profiles import profiles
from eigentree.plots.spectra import spectra
from eigentree.plots.trees import tree

__all__ = ["decoded", "graph", "learning_curve", "profiles", "race", "spectra", "transitions", "tree"]
