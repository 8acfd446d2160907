"""``eigentree inspect``: the contents of a file of eigentree."""

from typing import Annotated, Any

from cyclopts import Parameter

from eigentree.cli.arguments import Json
from eigentree.cli.output import number_of, show, show_json, show_table

__all__ = ["inspect"]


MOST_LABELS = 6
MOST_HIDDEN = 8
ENDS = ("least", "most")


def inspect(
    file: Annotated[str, Parameter(help="A file that a command, or save in Python, wrote.")],
    /,
    *,
    table: Annotated[
        str | None,
        Parameter(metavar="NAME", help="Show the probability table of a column or a hidden variable."),
    ] = None,
    json: Json = False,
) -> None:
    """Show the contents of a file that eigentree wrote.

    It has the class of the model, its columns and their labels, its hidden variables, and how it was fitted.

    Examples
    --------
      eigentree inspect model.eigentree
      eigentree inspect model.eigentree --table odor
      eigentree inspect model.eigentree --json
    """
    from eigentree.cli.model_arguments import loaded

    found = loaded(file)
    if table is not None:
        _show_one(found, file, table, json)
        return
    facts = _facts(found)
    columns = facts.pop("columns", {})
    if json:
        show_json({**facts, "columns": columns})
        return
    width = max(map(len, facts))
    for name, value in facts.items():
        text = ", ".join(map(str, value)) if isinstance(value, list) else str(value)
        show(f"{name.replace('_', ' '):<{width}}  {text}")
    if columns:
        print()
        rows = [[name, *_column_cells(known)] for name, known in columns.items()]
        show_table(
            ["column", "states", "labels, or numbers" if any("–" in row for row in rows) else "labels"],
            rows,
            words=(0, 2),
        )


def _show_one(found: Any, file: str, name: str, as_json: bool) -> None:
    from eigentree.cli.model_arguments import NETWORKS, WITH_TABLES, input_names, kind_of
    from eigentree.data.tables.text_cells import require_names
    from eigentree.errors import FileError, with_article

    # A classifier with the class as a column holds one model.
    found = vars(found).get("estimator_", found)
    if kind_of(found) not in (*WITH_TABLES, *NETWORKS, "EMHMM", "MixtureHMM", "HiddenMarkovTree"):
        raise FileError(f"{file!r} holds {with_article(kind_of(found))}, which has no tables; fit with --method em")
    tables = dict(found.labeled_tables if kind_of(found) in NETWORKS else found.tables_)
    if isinstance(tables.get("transitions"), dict):
        for part in ("start", "transitions"):
            tables |= {f"{part} of {chain}": table for chain, table in tables.pop(part).items()}
    if isinstance(tables.get("emissions"), dict):
        tables |= tables.pop("emissions")
    if input_names(found):
        own = found.coefficients_
        tables = (dict(own) if isinstance(own, dict) else {"coefficients": own}) | tables
    elif kind_of(found) in ("EMHMM", "MixtureHMM"):
        from eigentree.estimators.profiles import profiles

        # Of a number mean and standard deviation in each state.
        profile = next(iter(profiles(found).values()))
        tables |= {channel: profile.table(channel) for channel in profile.numbers}
    by_name = {str(key): value for key, value in tables.items()}
    require_names([name], list(by_name), repr(file))
    one = by_name[name]
    if as_json:
        show_json({"axes": list(one.names), "states": [list(own) for own in one.states], "table": one.tolist()})
    else:
        show(str(one))


def _facts(found: Any) -> dict[str, Any]:
    """Return the facts about what was loaded, by name."""
    from eigentree.cli.model_arguments import SEQUENCE_MODELS, fitted_columns, input_names, kind_of

    kind = kind_of(found)
    facts: dict[str, Any] = {"holds": kind}
    check = getattr(found, "__sklearn_is_fitted__", None)
    if check is not None and not check():
        return {**facts, "fitted": "no"}
    if kind == "JunctionTreeImputer":
        return {**facts, **{f"estimator_{name}": value for name, value in _facts(found.estimator_).items()}}
    if kind == "LatentGrammar":
        states = found.hidden_states_
        return facts | {"labels": [f"{label} ({number_of(count, 'state')})" for label, count in states.items()]}
    columns = fitted_columns(found)
    if kind == "Statistics":
        facts |= {"rows": found.rows, "groups": len(found.counts.groups)}
    elif kind == "JunctionTreeClassifier":
        facts |= {"classes": found.classes_.tolist(), "class_as": found.class_as}
        if found.target_ is not None:
            facts["class_column"] = found.target_
        facts["estimator"] = kind_of(found.estimator)
        if hasattr(found.estimator, "structure"):
            facts["structure"] = _shown(found.estimator.structure)
    elif kind == "SequenceTagger":
        facts |= {"classes": found.classes_.tolist(), "hidden_states": found.estimator_.hidden_states}
    elif kind == "HiddenMarkovTree":
        facts |= {"hidden_states": found.hidden_states, **_emissions(found), **_course(found)}
    elif kind in SEQUENCE_MODELS:
        facts |= {"sequences_by": found.sequence, "hidden_states": found.hidden_states, "order": found.order}
        facts |= {"clusters": found.n_clusters} if kind == "MixtureHMM" else {}
        facts |= {"inputs": inputs} if (inputs := input_names(found)) else {}
    else:
        facts |= _model_facts(found, kind)
    return {**facts, "columns": {name: _column(columns, name) for name in columns.names}}


def _column(columns: Any, name: str) -> Any:
    """Return the labels of a column, or of one of numbers their kind and the range that it was learned from."""
    import numpy as np

    meaning = columns.meanings[columns.position(name)]
    if name not in columns.numbers:
        return list(columns.labels(name))
    if not (abs(meaning.least) < float("inf") and abs(meaning.most) < float("inf")):
        return {"kind": meaning.kind}
    ends = [meaning.restored(np.array([end]))[0] for end in (meaning.least, meaning.most)]
    least, most = map(str, ends) if meaning.unit else (end.item() for end in ends)
    return {"kind": meaning.kind, "least": least, "most": most}


def _column_cells(known: Any) -> list[str]:
    """Return the cells of a line on a column: the number of its states, and its labels or its numbers."""
    if isinstance(known, dict):
        ends = [known[end] if isinstance(known[end], str) else f"{known[end]:.6g}" for end in ENDS if end in known]
        between = f" from {' to '.join(ends)}" if ends else ""
        return ["–", known["kind"] + between]
    return [str(len(known)), ", ".join(map(str, known[:MOST_LABELS])) + ", …" * (len(known) > MOST_LABELS)]


def _model_facts(found: Any, kind: str) -> dict[str, Any]:
    from eigentree.cli.model_arguments import NETWORKS, WITH_TABLES

    graph = found.graph if kind in NETWORKS else found.graph_
    facts: dict[str, Any] = {} if kind in NETWORKS else {"structure": _shown(found.structure)}
    facts["hidden_variables"] = [f"{name} ({graph.states[name]} states)" for name in graph.hidden[:MOST_HIDDEN]]
    if len(graph.hidden) > MOST_HIDDEN:
        facts["hidden_variables"].append(f"… {len(graph.hidden)} in all")
    if kind == "SpectralJunctionTree":
        facts["shrinkage"] = found.shrinkage_
        if "statistics_" in vars(found):
            facts["rows"] = found.statistics_.rows
    else:
        facts |= _emissions(found)
        facts["free_parameters"] = found.n_parameters if kind in NETWORKS else found.n_parameters_
    return facts | (_course(found) if kind in WITH_TABLES else {})


def _course(found: Any) -> dict[str, Any]:
    return {"iterations": found.n_iter_, "converged": "yes" if found.converged_ else "no"}


def _emissions(found: Any) -> dict[str, Any]:
    """Return the families of numbers, and of ordered categories, if there are any."""
    each = getattr(found, "emissions_", None) or getattr(found, "all_emissions", None) or {}
    names = {family: "+".join((family,) if isinstance(family, str) else family) for family in each}
    return {"emissions": [f"{names[key]} {_family(emission)}" for key, emission in each.items()]} if each else {}


def _family(emission: Any) -> str:
    # Of several fits that are averaged, all have the same family as a rule.
    parts = getattr(emission, "parts", (emission,))
    return " or ".join(dict.fromkeys(part.family for part in parts))


def _shown(structure: Any) -> str:
    return structure if isinstance(structure, str) else repr(structure)
