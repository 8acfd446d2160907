"""What `eigentree.plot` offers; matplotlib is loaded when something is drawn."""

from __future__ import annotations

from eigentree.plots.graphs import graph

__all__ = ["graph"]
