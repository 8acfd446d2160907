"""``eigentree inspect``: the contents of a file of eigentree."""

from typing import Annotated, Any

from cyclopts import Parameter

from eigentree.cli.arguments import Json
from eigentree.cli.output import show_json, show_table

__all__ = ["inspect"]


MOST_LABELS = 6
MOST_HIDDEN = 8


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
    """Show the contents of a file of eigentree.

    The class of the model, its columns and their labels, its hidden variables, and how it was fitted.

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
        print(f"{name.replace('_', ' '):<{width}}  {text}")
    if columns:
        print()
        rows = [
            [
                name,
                str(len(labels)),
                ", ".join(map(str, labels[:MOST_LABELS])) + ", …" * (len(labels) > MOST_LABELS),
            ]
            for name, labels in columns.items()
        ]
        show_table(["column", "states", "labels"], rows, words=(0, 2))


def _show_one(found: Any, file: str, name: str, as_json: bool) -> None:
    from eigentree.cli.model_arguments import WITH_TABLES, kind_of
    from eigentree.data.tables.text_cells import require_names
    from eigentree.errors import FileError, with_article

    # A classifier with the class as a column holds one model.
    found = vars(found).get("estimator_", found)
    if kind_of(found) not in (*WITH_TABLES, "LatentNetwork", "EMHMM"):
        raise FileError(f"{file!r} holds {with_article(kind_of(found))}, which has no tables; fit with --method em")
    tables = dict(found.labeled_tables if kind_of(found) == "LatentNetwork" else found.tables_)
    if isinstance(tables.get("transitions"), dict):
        for part in ("start", "transitions"):
            tables |= {f"{part} of {chain}": table for chain, table in tables.pop(part).items()}
    if isinstance(tables.get("emissions"), dict):
        tables |= tables.pop("emissions")
    by_name = {str(key): value for key, value in tables.items()}
    require_names([name], list(by_name), repr(file))
    one = by_name[name]
    if as_json:
        show_json({"axes": list(one.names), "states": [list(own) for own in one.states], "table": one.tolist()})
    else:
        print(str(one))


def _facts(found: Any) -> dict[str, Any]:
    """Return the facts about what was loaded, by name."""
    from eigentree.cli.model_arguments import SEQUENCE_MODELS, fitted_columns, kind_of

    kind = kind_of(found)
    facts: dict[str, Any] = {"holds": kind}
    check = getattr(found, "__sklearn_is_fitted__", None)
    if check is not None and not check():
        return {**facts, "fitted": "no"}
    if kind == "JunctionTreeImputer":
        return {**facts, **{f"estimator_{name}": value for name, value in _facts(found.estimator_).items()}}
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
    elif kind in SEQUENCE_MODELS:
        facts |= {"sequences_by": found.sequence, "hidden_states": found.hidden_states, "order": found.order}
    else:
        facts |= _model_facts(found, kind)
    return {**facts, "columns": {name: list(columns.labels(name)) for name in columns.names}}


def _model_facts(found: Any, kind: str) -> dict[str, Any]:
    from eigentree.cli.model_arguments import WITH_TABLES

    graph = found.graph if kind == "LatentNetwork" else found.graph_
    facts: dict[str, Any] = {} if kind == "LatentNetwork" else {"structure": _shown(found.structure)}
    facts["hidden_variables"] = [f"{name} ({graph.states[name]} states)" for name in graph.hidden[:MOST_HIDDEN]]
    if len(graph.hidden) > MOST_HIDDEN:
        facts["hidden_variables"].append(f"… {len(graph.hidden)} in all")
    if kind == "SpectralJunctionTree":
        facts["shrinkage"] = found.shrinkage_
        if "statistics_" in vars(found):
            facts["rows"] = found.statistics_.rows
    else:
        facts["free_parameters"] = found.n_parameters if kind == "LatentNetwork" else found.n_parameters_
    if kind in WITH_TABLES:
        facts |= {"iterations": found.n_iter_, "converged": "yes" if found.converged_ else "no"}
    return facts


def _shown(structure: Any) -> str:
    return structure if isinstance(structure, str) else repr(structure)
