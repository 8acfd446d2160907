"""What `eigentree.plot` offers; matplotlib is loaded when something is drawn."""

from __future__ import annotations

from eigentree.viz.graphs import graph
from eigentree.viz.learning import learning_curve, race
from eigentree.viz.profiles import profiles
from eigentree.viz.spectra import spectra
from eigentree.viz.state_sequences import decoded, transitions
from eigentree.viz.trees import tree

__all__ = ["decoded", "graph", "learning_curve", "profiles", "race", "spectra", "transitions", "tree"]
