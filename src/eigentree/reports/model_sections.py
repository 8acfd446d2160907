"""The sections of a page that tell of the model itself: its structure, its hidden states, how it was learned."""

from __future__ import annotations

from typing import TYPE_CHECKING

from eigentree.markup.figures import figure, learning_figure, note_list, spectra_figure
from eigentree.markup.html import Html, behind, element, facts_list, number, scrolling, table
from eigentree.reports.drawing import MOST_DRAWN, draw_graph, draw_junction_tree, ranks_told
from eigentree.reports.states import profile_blocks

if TYPE_CHECKING:
    from eigentree.reports.drawing import Drawn
    from eigentree.reports.facts import Facts

__all__ = ["learning_section", "spectra_section", "states_section", "structure_section"]

MOST_LISTED = 200
"""Most lines of a table behind a picture."""

NARROW = 460
"""Pixels of pictures that fit beside each other."""

MOST_TRIED = 60


def structure_section(facts: Facts) -> list[Html | None]:
    """Return the graph and its junction tree as pictures, and the columns that tell most of each other."""
    if (centre := facts.structure.centre) is not None:
        told = (
            f"The junction tree says no more than this: each clique is {', '.join(centre.members)} and one column, "
            f"and all meet in {', '.join(centre.members)} ({ranks_told(centre.ranks)})."
        )
        drawing = draw_graph(facts.structure)
        picture = element("div", _graph(facts, drawing), element("p", told, class_="aside"))
        narrow = drawing is not None and drawing.width <= NARROW
        beside = element("div", picture, _pairs(facts), class_="beside" if narrow else None)
        return [element("p", _told_structure(facts), class_="how"), beside]
    drawn = draw_graph(facts.structure), draw_junction_tree(facts.structure)
    narrow = all(one is not None and one.width <= NARROW for one in drawn)
    figures = _graph(facts, drawn[0]), _tree(facts, drawn[1])
    pictures = element("div", *figures, class_="beside" if narrow else None)
    return [element("p", _told_structure(facts), class_="how"), pictures, _pairs(facts)]


def _told_structure(facts: Facts) -> str:
    if facts.steps:
        return f"{facts.steps} steps of the chain are drawn; all have the same tables."
    if facts.mixed:
        return (
            f"The model mixes {facts.mixed:,} trees of the same form, each with tables of its own; one is drawn, "
            f"and strengths are means over all."
        )
    return "Which variables stand beside each other, and how much they have to do with each other."


def _graph(facts: Facts, drawn: Drawn | None) -> Html:
    structure = facts.structure
    known = any(edge.nats is not None for edge in structure.edges)
    caption = "Hidden variables stand in round boxes, columns in square ones. " + (
        "Lines are the wider the more both ends tell of each other (mutual information under the model)."
        if known
        else "A spectral model has no tables of hidden variables, so all lines are of one width."
    )
    rows = [
        [edge.one, edge.other, "–" if edge.nats is None else number(edge.nats)]
        for edge in structure.edges[:MOST_LISTED]
    ]
    more = _first(len(structure.edges))
    numbers = table(f"Edges of the graph{more}", ["from", "to", "nats"], rows, words=(0, 1)) if rows else None
    if drawn is None:
        return figure(_too_large(len(structure.states), "variables"), numbers=numbers)
    return figure(caption, scrolling(drawn.picture, "Graph of the model"), numbers=numbers)


def _tree(facts: Facts, drawn: Drawn | None) -> Html:
    structure = facts.structure
    rows = [
        [", ".join(one.members), len(one.cliques), f"{one.states:,}", ranks_told(one.ranks).removeprefix("rank ")]
        for one in structure.separators[:MOST_LISTED]
    ]
    header = ["separator", "cliques", "joint states", "rank"]
    more = _first(len(structure.separators))
    numbers = table(f"Separators of the junction tree{more}", header, rows) if rows else None
    caption = (
        f"The junction tree: cliques in square boxes, and between them, dashed, what they share and its rank. "
        f"Treewidth {structure.width}."
    )
    if drawn is None:
        return figure(_too_large(len(structure.cliques), "cliques"), numbers=numbers)
    return figure(caption, scrolling(drawn.picture, "Junction tree of the model"), numbers=numbers)


def _too_large(count: int, what: str) -> str:
    return (
        f"{count:,} {what} are too many for a picture (the limit is {MOST_DRAWN}); the table has the first of them."
    )


def _pairs(facts: Facts) -> Html | None:
    pairs = facts.structure.pairs
    if not pairs:
        return None
    most = max(link.nats for link in pairs) or 1.0
    rows = [
        [
            link.one,
            link.other,
            element("span", number(link.nats), class_="p", style=f"--p:{100 * link.nats / most:.0f}%"),
        ]
        for link in pairs
    ]
    return table("Columns that tell most of each other, in nats", ["column", "and", "nats"], rows, words=(0, 1))


def states_section(facts: Facts) -> list[Html | None]:
    """Return what hidden states say about columns."""
    how = (
        "What each hidden state says about each column: bars are probabilities in per cent, and a dot is less than "
        "half of one. Columns stand in the order of how much the hidden variable tells about them, and states are "
        "numbered by size."
    )
    return [element("p", how, class_="how"), profile_blocks(facts.profiles)]


def spectra_section(facts: Facts) -> list[Html | None]:
    """Return the spectra of separators."""
    how = (
        "A separator passes on as many numbers as its rank. Where the last singular value that was kept is clear "
        "of the noise, the rows support that rank; below it, shrinkage has to damp what is not known."
    )
    return [element("p", how, class_="how"), spectra_figure(facts.learned.spectra)]


def learning_section(facts: Facts) -> list[Html | None]:
    """Return how the model was learned: what was clipped, started, searched and climbed."""
    learned = facts.learned
    parts: list[Html | None] = [note_list(learned.warnings), facts_list(learned.facts)]
    if len(learned.history) > 1:
        parts.append(learning_figure(learned.history, learned.validation_history, learned.unit))
    if learned.search is not None:
        rows = [
            [
                str(trial.size),
                trial.start,
                f"{trial.parameters:,}",
                f"{trial.passes:,}",
                number(trial.log_likelihood, 5),
                number(trial.validation, 5),
            ]
            for trial in learned.search.trials[:MOST_TRIED]
        ]
        header = ["size", "start", "parameters", "passes", "rows learned from", "validation rows"]
        caption = "Sizes that were tried, and the mean log probability of rows"
        parts.append(behind("The search over sizes", table(caption, header, rows, words=(0, 1))))
    if learned.start is not None and learned.start.rungs:
        rows = [
            [name, f"{rung.rows:,}", f"{rung.iterations:,}", number(objective, 6)]
            for rung in learned.start.rungs
            for name, objective in rung.objectives
        ][:MOST_LISTED]
        header = ["start", f"{learned.unit}s that differ", "steps", f"objective per {learned.unit}"]
        parts.append(behind("The race of starts", table("Starts that were raced", header, rows)))
    if learned.start is not None and learned.start.absent:
        told = "; ".join(f"no {name} start: {reason}" for name, reason in learned.start.absent)
        parts.append(element("p", told, class_="aside"))
    return parts


def _first(count: int) -> str:
    return f" (the first {MOST_LISTED} of {count:,})" if count > MOST_LISTED else ""
