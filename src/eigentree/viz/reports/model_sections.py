"""The sections of a page about the model itself: its structure, its hidden states, how it was learned."""

from __future__ import annotations

from typing import TYPE_CHECKING

from eigentree.markup.charts import NumberTable
from eigentree.markup.figures import chart_figure, learning_figure, note_list, numbers_table, spectra_figure
from eigentree.markup.html import Html, behind, element, facts_list, number, table
from eigentree.viz.multistart_chart import multistart_chart
from eigentree.viz.reports.diagram_figures import diagram_figure, is_narrow
from eigentree.viz.reports.profile_tables import profile_blocks

if TYPE_CHECKING:
    from eigentree.viz.reports.facts import Facts

__all__ = ["learning_section", "spectra_section", "states_section", "structure_section"]


def structure_section(facts: Facts) -> list[Html | None]:
    """Return the graph and its junction tree as diagrams, and the pairs of columns with most mutual information."""
    how = "Which variables depend on each other directly, and how strongly."
    if facts.steps:
        how = f"{facts.steps} steps of the chain are drawn; all have the same tables."
    elif facts.mixed:
        how = (
            f"The model mixes {facts.mixed:,} trees of the same form, each with tables of its own; one is drawn, "
            f"and mutual information is the mean over all."
        )
    known = any(nats != "–" for *_, nats in facts.graph.numbers.rows)
    caption = "Hidden variables stand in round boxes, columns in square ones. " + (
        "Edges are the wider the larger the mutual information of their ends under the model."
        if known
        else "A spectral model has no tables of hidden variables, so all edges have one width."
    )
    graph = diagram_figure(caption, facts.graph)
    cliques = [text for key, text in facts.tree.texts.items() if key not in facts.tree.columns]
    if len(cliques) == len(facts.tree.numbers.rows) == 1:
        rank = facts.tree.numbers.rows[0][-1]
        star = (
            f"The junction tree is a star: each clique is {cliques[0]} and one column, and {cliques[0]} is the "
            f"separator of all (rank {rank})."
        )
        first = element("div", graph, element("p", star, class_="aside"))
        beside = element("div", first, _pairs(facts), class_="beside" if is_narrow(facts.graph) else None)
        return [element("p", how, class_="how"), beside]
    tree = diagram_figure(
        "The junction tree: cliques in round boxes, columns in square ones, and on each edge its separator.",
        facts.tree,
    )
    narrow = is_narrow(facts.graph) and is_narrow(facts.tree)
    return [
        element("p", how, class_="how"),
        element("div", graph, tree, class_="beside" if narrow else None),
        _pairs(facts),
    ]


def _pairs(facts: Facts) -> Html | None:
    if not facts.pairs:
        return None
    most = max(link.nats for link in facts.pairs) or 1.0
    rows = [
        [
            link.one,
            link.other,
            element("span", number(link.nats), class_="p", style=f"--p:{100 * link.nats / most:.0f}%"),
        ]
        for link in facts.pairs
    ]
    return table("Columns with most mutual information, in nats", ["column", "and", "nats"], rows, words=(0, 1))


def states_section(facts: Facts) -> list[Html | None]:
    """Return the profiles of hidden states, and the states of sequences."""
    how = (
        "P(label | state) of each column: bars are probabilities in per cent, and a dot is less than half of one. "
        "Columns stand in the order of their mutual information with the hidden variable, and states are numbered "
        "by size."
    )
    notes = sorted({f"Hidden states: {profile.note}." for profile in facts.profiles if profile.note})
    parts = [element("p", how, class_="how"), note_list(notes), profile_blocks(facts.profiles)]
    if facts.states is not None:
        caption = "The most probable states of sequences (Viterbi), a row each; those with the same end together."
        parts.append(chart_figure(caption, facts.states))
    return parts


def spectra_section(facts: Facts) -> list[Html | None]:
    """Return the spectra of separators."""
    how = (
        "A separator passes on as many numbers as its rank. Where the last singular value that was kept is clear "
        "of the noise, the data support that rank; below it, shrinkage damps what is not known."
    )
    return [element("p", how, class_="how"), spectra_figure(facts.fit.spectra)]


def learning_section(facts: Facts) -> list[Html | None]:
    """Return how the model was learned: facts of the fit, its objective, sizes and starts that were tried."""
    fit = facts.fit
    if fit is None:
        return [facts_list([("free parameters", f"{facts.parameters:,}")])]
    parts: list[Html | None] = [note_list(fit.warnings), facts_list(fit.facts())]
    if len(getattr(fit, "history", ())) > 1:
        parts.append(learning_figure(fit.history, fit.validation_history, fit.unit))
    if (search := getattr(fit, "search", None)) is not None:
        rows = tuple(
            (
                str(trial.size),
                trial.start,
                f"{trial.parameters:,}",
                f"{trial.passes:,}",
                number(trial.log_likelihood, 5),
                number(trial.validation, 5),
            )
            for trial in search.trials
        )
        header = ("size", "start", "parameters", "passes", "training rows", "validation rows")
        caption = "Sizes that were tried, and the mean log probability of rows"
        parts.append(behind("The search over sizes", numbers_table(NumberTable(caption, header, rows, (0, 1)))))
    start = getattr(fit, "start", None)
    if start is not None and start.rungs:
        caption = "By how much each candidate was behind the best, after each rung."
        parts.append(behind("The multi-start", chart_figure(caption, multistart_chart(start))))
    if start is not None and start.absent:
        told = "; ".join(f"no {name} start: {reason}" for name, reason in start.absent)
        parts.append(element("p", told, class_="aside"))
    return parts
