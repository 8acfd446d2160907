"""Spectral fits in files: operators and bonds end to end, in the order of the plan, and the report."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from eigentree.errors import FileError
from eigentree.io.documents import Section, number, plain, whole
from eigentree.spectral.learn.diagnostics import Clipping, SpectralReport
from eigentree.spectral.learn.spectral_fit import LearnedEdge, SpectralFit
from eigentree.spectral.learn.spectral_model import SpectralModel

if TYPE_CHECKING:
    from collections.abc import Sequence

    from eigentree.io.stores import Reader, Writer
    from eigentree.planning.view_plan import PlanNode, ViewPlan

__all__ = ["model_content", "read_model", "read_report", "report_content"]


def model_content(writer: Writer, model: SpectralModel) -> dict[str, Any]:
    """Return the document of a model on a plan, after putting its arrays into the file."""
    writer.flat("marginals", model.marginals)
    return {
        "shrinkage": plain(model.shrinkage, "the shrinkage"),
        "floor": plain(model.floor, "the floor"),
        "fit": _fit_content(writer.within("fit"), model.fit),
    }


def read_model(reader: Reader, content: Any, plan: ViewPlan) -> SpectralModel:
    """Return the model of a document and the arrays of the file."""
    entry = Section(content, "a spectral model", ("shrinkage", "floor", "fit"))
    shrinkage, floor = entry.number("shrinkage"), entry.number("floor")
    if not shrinkage >= 0 or not 0 <= floor <= 1:
        raise FileError("the shrinkage or the floor of a model is out of range")
    graph = plan.graph
    marginals = reader.flat("marginals", [(graph.states[name],) for name in graph.observed])
    if any((table < 0).any() or not table.any() for table in marginals):
        raise FileError("the marginals of a model are no distributions")
    return SpectralModel.of(_read_fit(reader.within("fit"), entry["fit"], plan), shrinkage, floor, tuple(marginals))


def _fit_content(writer: Writer, fit: SpectralFit) -> dict[str, Any]:
    edges = [edge for edge in fit.edges if edge is not None]
    writer.flat("cores", fit.cores)
    writer.flat("projections", [edge.projection for edge in edges])
    writer.flat("solves", [solve for edge in edges for solve in edge.solves])
    writer.flat("singular_values", [edge.singular_values for edge in edges])
    writer.flat("damping", [edge.damping for edge in edges])
    writer.array("noise", np.array([edge.noise for edge in edges], np.float64))
    return {
        "sums_to_one": fit.sums_to_one,
        "singular_values": [len(edge.singular_values) for edge in edges],
        "apart": None if fit.apart is None else _fit_content(writer.within("apart"), fit.apart),
    }


def _read_fit(reader: Reader, content: Any, plan: ViewPlan, together: bool = True) -> SpectralFit:
    entry = Section(content, "a spectral fit", ("sums_to_one", "singular_values", "apart"))
    scaled = entry.flag("sums_to_one")
    own = [node for node in plan.nodes if node.parent >= 0]
    views = _Views(plan, scaled)
    counts = entry.wholes("singular_values", 1, max((node.states for node in own), default=1) + 1)
    if len(counts) != len(own):
        raise FileError("there are not singular values for each edge")
    cores = reader.flat("cores", [_core_shape(plan, node) for node in plan.nodes])
    projections = reader.flat("projections", [(views.size(node, node.inside), node.rank) for node in own])
    solves = iter(
        reader.flat("solves", [(views.size(node, group), node.rank) for node in own for group in node.outside])
    )
    sizes = reader.flat("singular_values", [(count,) for count in counts])
    damping = reader.flat("damping", [(node.rank,) for node in own])
    noise = reader.floats("noise", len(own)).tolist()
    if any((part < 0).any() for part in (*sizes, *damping)):
        raise FileError("singular values are not negative")
    edges: list[LearnedEdge | None] = [None]
    for k, node in enumerate(own):
        parts = tuple(next(solves) for _ in node.outside)
        edges.append(LearnedEdge(projections[k], parts, sizes[k], damping[k], noise[k]))
    apart: SpectralFit | None = None
    if entry.has("apart"):
        if not together or not scaled or not plan.hubs:
            raise FileError("a fit has no hubs to be taken apart")
        apart = _read_fit(reader.within("apart"), entry["apart"], plan, together=False)
    return SpectralFit(plan, tuple(edges), tuple(cores), scaled, apart)


def _core_shape(plan: ViewPlan, node: PlanNode) -> tuple[int, ...]:
    own = [plan.graph.states[node.observed]] if node.observed is not None else []
    return (*own, *(plan.nodes[child].rank for child in node.children), node.rank)


class _Views:
    """How many features views have: joint states at leaves and without scaling, products of features elsewhere."""

    def __init__(self, plan: ViewPlan, scaled: bool) -> None:
        self.states = plan.graph.states
        self.scaled = scaled
        self.features = {node.observed: node.generic_rank for node in plan.nodes}

    def size(self, node: PlanNode, view: Sequence[str]) -> int:
        """Return the number of features of a view of the edge above a node."""
        if self.scaled and node.observed is None:
            return math.prod(self.features[name] for name in view)
        return math.prod(self.states[name] for name in view)


def report_content(report: SpectralReport) -> dict[str, Any]:
    """Return the document of what a report says beyond the fit itself."""
    return {
        "rows": plain(report.rows, "the number of rows"),
        "tried": [[plain(part, "what was tried") for part in (*pair, mean)] for pair, mean in report.tried.items()],
        "clipping": [plain(part, "the clipping") for part in report.clipping],
        "seen": [plain(separator.seen, "a rank") for separator in report.separators],
    }


def read_report(content: Any, model: SpectralModel) -> SpectralReport:
    """Return the report of a document on a model."""
    entry = Section(content, "a report", ("rows", "tried", "clipping", "seen"))
    tried = {}
    for line in entry.items("tried"):
        if type(line) is not list or len(line) != 3:
            raise FileError("what was tried is a shrinkage, a floor and a score")
        shrinkage, floor, mean = (number(part, entry.at("tried")) for part in line)
        tried[shrinkage, floor] = mean
    parts = entry.items("clipping")
    if len(parts) != len(Clipping._fields):
        raise FileError("the clipping of a report has four numbers")
    floor, share, refused = (number(part, entry.at("clipping")) for part in parts[:3])
    clipping = Clipping(floor, share, refused, whole(parts[3], entry.at("clipping")))
    rows = _at_least_0(entry["rows"], entry.at("rows"))
    report = SpectralReport.of(model.fit, rows, model.shrinkage, tried, None, clipping)
    seen = [_at_least_0(each, entry.at("seen")) for each in entry.items("seen")]
    if len(seen) != len(report.separators):
        raise FileError("a report has one line per separator")
    lines = zip(report.separators, seen, strict=True)
    return replace(report, separators=tuple(replace(separator, seen=rank) for separator, rank in lines))


def _at_least_0(content: Any, what: str) -> float:
    """Return a number that is whole or not, as it was."""
    found = content if type(content) is int else number(content, what)
    if not found >= 0:
        raise FileError(f"{what} is a number of at least 0")
    return found
