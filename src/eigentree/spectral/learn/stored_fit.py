"""Spectral fits in files: operators and bonds end to end, in the order of the plan, and the report."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from eigentree.counting.additive import read_stored, stored_content
from eigentree.counting.holdout_sample import EVERY_HASH, SAMPLE_ROWS, RowSample
from eigentree.counting.levels.hats import HATS, LEVELS, MOST_HATS
from eigentree.counting.levels.stored_scales import read_scales, scales_content
from eigentree.counting.statistics import Statistics
from eigentree.counting.window_counts import SequenceStatistics, sample_width
from eigentree.data.tables.columns import Columns, columns_content, columns_of
from eigentree.data.tables.weights import MOST_WEIGHT
from eigentree.errors import FileError
from eigentree.io.documents import Section, number, plain, whole
from eigentree.planning.window_plan import Cell, ChannelBlocks, WindowBond, WindowPlan
from eigentree.spectral.learn.diagnostics import Clipping, SpectralReport
from eigentree.spectral.learn.number_model import SpectralNumberModel
from eigentree.spectral.learn.shrinkage import model_of
from eigentree.spectral.learn.spectral_fit import LearnedEdge, SpectralFit, SpectralModel, with_levels
from eigentree.spectral.sequences.sequence_model import SpectralSequenceModel
from eigentree.spectral.sequences.transducer import Transducer
from eigentree.spectral.sequences.window_operators import WindowFit

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from eigentree.arrays import Floats
    from eigentree.counting.counts import Counts
    from eigentree.io.stores import Reader, Writer
    from eigentree.planning.view_plan import ViewPlan
    from eigentree.planning.window_plan import Group

__all__ = [
    "model_content",
    "read_model",
    "read_report",
    "read_sequence_model",
    "read_sequence_statistics",
    "read_tried",
    "report_content",
    "sequence_model_content",
    "sequence_statistics_content",
    "tried_content",
]


def model_content(writer: Writer, model: SpectralModel) -> dict[str, Any]:
    """Return the document of a model on a plan, after putting its arrays into the file."""
    made = _settings_content(writer, model) | {"fit": _fit_content(writer.within("fit"), model.fit)}
    if isinstance(model, SpectralNumberModel):
        return made | {"hats": max(model.fit.hats), "scales": scales_content(writer, model.scales)}
    return made


def read_model(reader: Reader, content: Any, plan: ViewPlan, columns: Columns) -> SpectralModel:
    """Return the model of a document and the arrays of the file, of a plan and columns that were read."""
    entry = Section(content, "a spectral model", ("shrinkage", "floor", "fit"), ("hats", "scales"))
    states, numbers = Columns.of(plan.graph).states, columns.number_places
    hats: tuple[int, ...] = ()
    if numbers:
        own = entry.whole("hats")
        if own not in HATS or not all(states[place] in HATS and states[place] >= own for place in numbers):
            raise FileError(f"numbers are learned from {', '.join(map(str, HATS))} hats, no more than were counted")
        hats = tuple(own if place in numbers else 0 for place in range(len(states)))
    scales = read_scales(reader, entry.content.get("scales", []), numbers, len(states))
    settings = _settings(reader, entry, with_levels(states, hats))
    fit = _read_fit(reader.within("fit"), entry["fit"], plan, hats)
    if fit.sums_to_one:
        _check_sum(fit, settings[0])
    return model_of(fit, *settings, columns, scales)


def _check_sum(fit: SpectralFit, shrinkage: float) -> None:
    """Raise `FileError` unless operators that are normalised by themselves are."""
    total = fit.chain_rule.total(fit.values(shrinkage))
    if not abs(total - 1.0) <= SUM_ROUNDING:
        raise FileError(f"the operators of a model sum to {total:.6g} over all rows, not to 1")


def _settings_content(writer: Writer, model: SpectralModel | SpectralSequenceModel) -> dict[str, Any]:
    """Return the document of a shrinkage and a floor, after putting the marginals into the file."""
    writer.flat("marginals", model.marginals)
    return {"shrinkage": plain(model.shrinkage, "the shrinkage"), "floor": plain(model.floor, "the floor")}


def _settings(reader: Reader, entry: Section, states: Sequence[int]) -> tuple[float, float, tuple[Floats, ...]]:
    """Return shrinkage, floor and marginals."""
    shrinkage, floor = entry.number("shrinkage"), entry.number("floor")
    if not shrinkage >= 0 or not 0 <= floor <= 1:
        raise FileError("the shrinkage or the floor of a model is out of range")
    marginals = reader.flat("marginals", [(size,) for size in states])
    every = np.concatenate(marginals)
    sums = np.add.reduceat(every, np.cumsum([0, *states[:-1]]))
    if (every < 0).any() or (abs(sums - 1.0) > SUM_ROUNDING).any():
        raise FileError("the marginals of a model are no distributions")
    return shrinkage, floor, tuple(marginals)


def _spectra_content(writer: Writer, edges: Sequence[LearnedEdge]) -> dict[str, Any]:
    """Return the document of what shrinkage needs of edges, after putting it into the file."""
    writer.flat("singular_values", [edge.singular_values for edge in edges])
    writer.flat("damping", [edge.damping for edge in edges])
    return {"singular_values": [len(edge.singular_values) for edge in edges]}


def _spectra(reader: Reader, entry: Section, ranks: Sequence[int], most: int) -> tuple[list[Floats], list[Floats]]:
    """Return the singular values of each edge, at most so many, and their damping."""
    counts = entry.wholes("singular_values", 1, most)
    if len(counts) != len(ranks):
        raise FileError("there are not singular values for each edge")
    sizes = reader.flat("singular_values", [(count,) for count in counts])
    damping = reader.flat("damping", [(rank,) for rank in ranks])
    if (np.concatenate([np.zeros(0), *sizes, *damping]) < 0).any():
        raise FileError("singular values or their damping are negative")
    return sizes, damping


def _spectral_edges(
    sizes: Sequence[Floats], damping: Sequence[Floats], noise: Sequence[float]
) -> list[LearnedEdge]:
    """Return edges without what operators are learned through."""
    return [LearnedEdge(np.zeros((0, len(d))), (), v, d, n) for v, d, n in zip(sizes, damping, noise, strict=True)]


def _fit_content(writer: Writer, fit: SpectralFit) -> dict[str, Any]:
    edges = [edge for edge in fit.edges if edge is not None]
    writer.flat("cores", fit.cores)
    writer.array("noise", np.array([edge.noise for edge in edges], np.float64))
    return {
        "sums_to_one": fit.sums_to_one,
        **_spectra_content(writer, edges),
        "together": fit.together,
    }


def _read_fit(reader: Reader, content: Any, plan: ViewPlan, hats: tuple[int, ...]) -> SpectralFit:
    entry = Section(content, "a spectral fit", ("sums_to_one", "singular_values"), ("together", "apart"))
    scaled, together = entry.flag("sums_to_one"), entry.has("apart")
    if entry.has("together"):
        together = entry.flag("together")
    else:
        # Format 1.0 has what operators are learned through, and all nodes learned by their own views.
        reader.skip(*LEARNED_THROUGH)
        reader.within("apart").skip("singular_values", "damping", "cores", "noise", *LEARNED_THROUGH)
    if together and not (scaled and plan.hubs):
        raise FileError("a fit has no hubs to be learned together")
    own = [node for node in plan.nodes if node.parent >= 0]
    # Leaves of numbers are tables over levels.
    levels = dict(zip(plan.graph.observed, with_levels(Columns.of(plan.graph).states, hats), strict=True))
    most = max((node.states for node in own), default=1) + 1
    sizes, damping = _spectra(reader, entry, [node.rank for node in own], most)
    held = [[levels[node.observed]] if node.observed is not None else [] for node in plan.nodes]
    below = [[plan.nodes[child].rank for child in node.children] for node in plan.nodes]
    shapes = [(*a, *b, node.rank) for a, b, node in zip(held, below, plan.nodes, strict=True)]
    cores = reader.flat("cores", shapes)
    noise = reader.floats("noise", len(own)).tolist()
    edges = [None, *_spectral_edges(sizes, damping, noise)]
    return SpectralFit(plan, tuple(edges), tuple(cores), scaled, together, hats=hats)


def report_content(report: SpectralReport) -> dict[str, Any]:
    """Return the document of what a report says beyond the fit itself."""
    return {
        "rows": plain(report.rows, "the number of rows"),
        "tried": tried_content(report.tried),
        "clipping": [plain(part, "the clipping") for part in report.clipping],
        "seen": [plain(separator.seen, "a rank") for separator in report.separators],
    }


def read_report(content: Any, model: SpectralModel) -> SpectralReport:
    """Return the report of a document on a model."""
    entry = Section(content, "a report", ("rows", "tried", "clipping", "seen"))
    parts = entry.items("clipping")
    if len(parts) != len(Clipping._fields):
        raise FileError("the clipping of a report has four numbers")
    floor, share, refused = (number(part, entry.at("clipping")) for part in parts[:3])
    clipping = Clipping(floor, share, refused, whole(parts[3], entry.at("clipping")))
    rows = _at_least_0(entry["rows"], entry.at("rows"))
    report = SpectralReport.of(model.fit, rows, model.shrinkage, read_tried(entry), None, clipping)
    seen = [_at_least_0(each, entry.at("seen")) for each in entry.items("seen")]
    if len(seen) != len(report.separators):
        raise FileError("a report has one line per separator")
    lines = zip(report.separators, seen, strict=True)
    return replace(report, separators=tuple(replace(separator, seen=rank) for separator, rank in lines))


def tried_content(tried: Mapping[tuple[float, float], float]) -> list[list[Any]]:
    """Return what was tried, and what came of it, as a document."""
    return [[plain(part, "what was tried") for part in (*pair, mean)] for pair, mean in tried.items()]


def read_tried(entry: Section) -> dict[tuple[float, float], float]:
    """Return the score of each shrinkage and floor that was tried, of the document of a report."""
    tried = {}
    for line in entry.items("tried"):
        if type(line) is not list or len(line) != 3:
            raise FileError("what was tried is a shrinkage, a floor and a score")
        shrinkage, floor, mean = (number(part, entry.at("tried")) for part in line)
        tried[shrinkage, floor] = mean
    return tried


def _at_least_0(content: Any, what: str) -> float:
    """Return a number that is whole or not, as it was."""
    found = content if type(content) is int else number(content, what)
    if not found >= 0:
        raise FileError(f"{what} is a number of at least 0")
    return found


SUM_ROUNDING = 1e-9
"""How far from 1 a distribution in a file may add up: sums of a million numbers are rounded by less."""

LEARNED_THROUGH = ("projections", "solves")

COUNTED = ("windows", "firsts", "cells")

MOST_LAG = 1000
"""How far a cell of a window may be from its step."""


def sequence_statistics_content(writer: Writer, statistics: SequenceStatistics) -> dict[str, Any]:
    """Return the document of statistics, after putting their arrays into the file."""
    sample = statistics.sample
    writer.array("sample_hashes", sample.hashes)
    writer.array("sample_codes", sample.codes)
    writer.array("sample_weights", sample.weights)
    return {
        "columns": columns_content(statistics.columns),
        "plan": _plan_content(statistics.plan),
        **{name: _counts_content(writer, name, getattr(statistics, name)) for name in COUNTED},
        "sample": len(sample.hashes),
        "known_to": sample.known_to,
        **({"scales": scales_content(writer, statistics.scales)} if statistics.scales else {}),
    }


def read_sequence_statistics(reader: Reader, content: Any) -> SequenceStatistics:
    """Return the statistics of a document and the arrays of the file."""
    entry = Section(content, "statistics", ("columns", "plan", *COUNTED, "sample", "known_to"), ("scales",))
    columns = columns_of(entry["columns"])
    plan = _read_plan(entry["plan"])
    states = list(columns.states)
    for place in columns.number_places:
        states[place] = LEVELS
    numbers = [block[0] for block, hats in zip(plan.blocks.channels, plan.hats, strict=True) if hats]
    if plan.blocks.states != tuple(states) or numbers != list(columns.number_places):
        raise FileError("the plan is of other channels than the statistics")
    scales = read_scales(reader, entry.content.get("scales", []), numbers, len(states))
    empty = SequenceStatistics.empty(plan, columns)
    found = {name: _read_counts(reader, entry, name, getattr(empty, name)) for name in COUNTED}
    return SequenceStatistics(columns, plan, **found, sample=_read_sample(reader, entry, plan), scales=scales)


def _counts_content(writer: Writer, name: str, counts: Counts) -> dict[str, Any]:
    alone = Statistics(counts, RowSample.unknown(len(counts.columns.names)))
    return stored_content(writer.within(name), alone)


def _read_counts(reader: Reader, entry: Section, name: str, empty: Counts) -> Counts:
    counts = read_stored(Statistics, reader.within(name), entry[name]).counts
    if counts.columns != empty.columns or counts.groups != empty.groups:
        raise FileError(f"the counts of {name} are of other cells than the plan needs")
    if not counts.rows <= MOST_WEIGHT:
        raise FileError(f"the counts of {name} are of more windows than can be counted")
    return counts


def _read_sample(reader: Reader, entry: Section, plan: WindowPlan) -> RowSample:
    size = entry.whole("sample", 0, SAMPLE_ROWS)
    known_to = entry.whole("known_to", -1, EVERY_HASH)
    outside = np.array(plan.blocks.patterns)
    hashes = reader.array("sample_hashes", ("U64",), size)
    kind = f"U{8 * np.min_scalar_type(int(outside.max())).itemsize}" if size else "U8"
    codes = reader.array("sample_codes", (kind,), size, sample_width(plan))
    weights = reader.array("sample_weights", ("I64", "F64"), size)
    if not (hashes[1:] > hashes[:-1]).all() or (size and int(hashes[-1]) > known_to):
        raise FileError("the hashes of the sample are not in order")
    steps = codes.reshape(size, -1, len(outside))
    there = steps != outside
    # The steps of a piece follow each other, and all blocks are there or none.
    whole_steps = bool((there.all(axis=2) == there.any(axis=2)).all()) and bool((steps <= outside).all())
    changes = np.diff(there[:, :, 0].astype(np.int8), axis=1, prepend=0, append=0)
    if not whole_steps or ((changes == 1).sum(axis=1) != 1).any():
        raise FileError("the sample holds pieces that no sequence can have")
    if not (np.isfinite(weights) & (weights > 0)).all():
        raise FileError("the sample holds weights that no sequence can have")
    return RowSample(hashes, codes, weights, known_to)


def _plan_content(plan: WindowPlan) -> dict[str, Any]:
    return {
        "states": list(plan.blocks.states),
        "blocks": list(plan.blocks.sizes),
        "leaf_ranks": list(plan.leaf_ranks),
        "bonds": [
            {"rank": bond.rank, "inside": _groups_content(bond.inside), "outside": _groups_content(bond.outside)}
            for bond in plan.bonds
        ],
        **({"hats": list(plan.hats)} if any(plan.hats) else {}),
        **({"pairs": True} if plan.pairs else {}),
    }


def _groups_content(groups: tuple[Group, ...]) -> list[list[list[int]]]:
    return [[list(cell) for cell in group] for group in groups]


def _read_plan(content: Any) -> WindowPlan:
    entry = Section(content, "a plan of windows", ("states", "blocks", "leaf_ranks", "bonds"), ("hats", "pairs"))
    blocks = ChannelBlocks(entry.wholes("states", 1), entry.wholes("blocks", 1))
    if sum(blocks.sizes) != len(blocks.states) or not blocks.sizes:
        raise FileError("the blocks of a plan do not hold each channel once")
    ranks = entry.wholes("leaf_ranks", 1)
    hats = entry.wholes("hats", 0, MOST_HATS) if entry.has("hats") else (0,) * len(blocks.sizes)
    proper = len(hats) == len(blocks.sizes) and all(
        own == 0 or (own, size, symbols) == (MOST_HATS, 1, LEVELS)
        for own, size, symbols in zip(hats, blocks.sizes, blocks.symbols, strict=True)
    )
    if not proper:
        raise FileError("the hats of a plan are of channels whose symbols are levels")
    bonds = [Section(each, "a bond", ("rank", "inside", "outside")) for each in entry.items("bonds")]
    fit = len(ranks) == len(bonds) == len(blocks.sizes)
    counted = [own or symbols for own, symbols in zip(hats, blocks.symbols, strict=True)]
    if not fit or any(rank > size for rank, size in zip(ranks, counted, strict=True)):
        raise FileError("a plan has one bond per block, and no more features of a block than symbols")
    made = []
    for channel, bond in enumerate(bonds):
        here = Cell(0, channel)
        inside, outside = _read_groups(bond, "inside", len(bonds)), _read_groups(bond, "outside", len(bonds))
        if any(group[0] < here for group in inside) or any(group[-1] >= here for group in outside):
            raise FileError("the cells of a bond are not on their sides of it")
        made.append(WindowBond(bond.whole("rank", 1), inside, outside))
    pairs = entry.has("pairs")
    if pairs and (len(blocks.sizes), ranks) != (1, blocks.symbols):
        raise FileError("a plan of pairs has one block, and as many features as symbols")
    return WindowPlan(blocks, ranks, tuple(made), hats, pairs)


def _read_groups(bond: Section, name: str, blocks: int) -> tuple[Group, ...]:
    groups = []
    for group in bond.items(name):
        pairs: list[Any] = group if type(group) is list else []
        if not pairs or not all(type(pair) is list and len(pair) == 2 for pair in pairs):
            raise FileError("a group of cells is a list of pairs of a lag and a block")
        cells = [
            Cell(whole(lag, "a lag", -MOST_LAG, MOST_LAG), whole(block, "a block", 0, blocks - 1))
            for lag, block in pairs
        ]
        if sorted(set(cells)) != cells:
            raise FileError("a group of cells has each once, in order")
        groups.append(tuple(cells))
    if not groups or len(set(groups)) != len(groups):
        raise FileError("groups of cells are at least one, and each is there once")
    return tuple(groups)


def sequence_model_content(writer: Writer, model: SpectralSequenceModel) -> dict[str, Any]:
    """Return the document of a model on a plan, after putting its arrays into the file.

    Of each edge there is what shrinkage needs; what it was learned through follows from the statistics.
    """
    fit = model.fit
    edges = [*fit.leaves, *fit.edges]
    writer.flat("leaf_cores", fit.leaf_cores)
    writer.flat("cores", fit.cores)
    writer.array("start", fit.start)
    writer.array("low", fit.low)
    writer.array("high", fit.high)
    return {
        **_settings_content(writer, model),
        "start_noise": plain(fit.start_noise, "the noise of the start"),
        "noise": [plain(edge.noise, "the noise of an edge") for edge in edges],
        **_spectra_content(writer, edges),
        **({"hats": fit.hats} if fit.hats else {}),
    }


def read_sequence_model(reader: Reader, content: Any, statistics: SequenceStatistics) -> SpectralSequenceModel:
    """Return the model of a document and the arrays of the file, which was learned from statistics."""
    plan, entries = statistics.plan, ("shrinkage", "floor", "start_noise", "noise", "singular_values")
    entry = Section(content, "a model", entries, ("hats",))
    hats = entry.whole("hats") if entry.has("hats") else 0
    if hats not in (HATS if any(plan.hats) else (0,)):
        raise FileError(f"a model of numbers has one of {', '.join(map(str, HATS))} hats, any other none")
    settings = _settings(reader, entry, plan.blocks.symbols)
    noise = _at_least_0(entry["start_noise"], "the noise of the start")
    ranks = [bond.rank for bond in plan.bonds]
    all_ranks = [*plan.leaf_ranks, *ranks]
    values, damping = _spectra(reader, entry, all_ranks, max(all_ranks) + 1)
    noises = [number(each, "the noise of an edge") for each in entry.items("noise")]
    if len(noises) != len(all_ranks):
        raise FileError("there is not the noise of each edge")
    edges = _spectral_edges(values, damping, noises)
    after = [*ranks[1:], ranks[0]]
    fit = WindowFit(
        plan,
        tuple(edges[: len(ranks)]),
        tuple(reader.flat("leaf_cores", list(zip(plan.blocks.symbols, plan.leaf_ranks, strict=True)))),
        tuple(edges[len(ranks) :]),
        tuple(reader.flat("cores", list(zip(plan.leaf_ranks, after, ranks, strict=True)))),
        reader.floats("start", ranks[0]),
        noise,
        reader.floats("low", len(ranks), max(ranks)),
        reader.floats("high", len(ranks), max(ranks)),
        hats,
    )
    return (Transducer if plan.pairs else SpectralSequenceModel)(fit, *settings, statistics.scales)
