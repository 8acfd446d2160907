"""``eigentree inspect``: what a file of eigentree holds."""

from typing import Annotated, Any

from cyclopts import App, Parameter

from eigentree.cli.arguments import Json

__all__ = ["app"]

app = App(
    name="inspect",
    help="What a file of eigentree holds: the kind of model, its columns and their labels, its hidden variables, "
    "and how it was learned.",
    help_epilogue="""\
Examples

  eigentree inspect model.eigentree
  eigentree inspect model.eigentree --table odor
  eigentree inspect model.eigentree --json""",
)

MOST_LABELS = 6


@app.default
def inspect(
    file: Annotated[str, Parameter(help="What a command, or save in Python, wrote.")],
    /,
    *,
    table: Annotated[
        str | None, Parameter(metavar="NAME", help="Show the learned table of a column or a hidden variable.")
    ] = None,
    json: Json = False,
) -> None:
    """Show what a file holds."""
    from eigentree.cli.model_arguments import read_file
    from eigentree.cli.terminal_output import show, show_json, show_table

    found = read_file(file)
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
        told = ", ".join(map(str, value)) if isinstance(value, list) else str(value)
        show(f"{name.replace('_', ' '):<{width}}  {told}")
    if columns:
        show("")
        rows = [
            [
                name,
                str(len(labels)),
                ", ".join(map(str, labels[:MOST_LABELS])) + (", …" * (len(labels) > MOST_LABELS)),
            ]
            for name, labels in columns.items()
        ]
        show_table(["column", "states", "labels"], rows, words=(0, 2))


def _show_one(found: Any, file: str, name: str, as_json: bool) -> None:
    from eigentree.cli.model_arguments import WITH_TABLES, kind_of
    from eigentree.cli.table_io import required
    from eigentree.cli.terminal_output import show, show_json
    from eigentree.errors import FileError, with_article

    # One with the class as a column holds one model.
    found = vars(found).get("estimator_", found)
    if kind_of(found) not in (*WITH_TABLES, "LatentNetwork", "EMHMM"):
        raise FileError(f"{file!r} holds {with_article(kind_of(found))}, which has no tables; fit with --method em")
    tables = dict(found.labeled_tables if kind_of(found) == "LatentNetwork" else found.tables_)
    if isinstance(tables.get("transitions"), dict):
        for kind in ("start", "transitions"):
            tables |= {f"{kind} of {chain}": table for chain, table in tables.pop(kind).items()}
    if isinstance(tables.get("emissions"), dict):
        tables |= tables.pop("emissions")
    by_name = {str(key): value for key, value in tables.items()}
    one = by_name[required(name, list(by_name), repr(file))]
    if as_json:
        show_json({"axes": list(one.names), "states": [list(own) for own in one.states], "table": one.tolist()})
    else:
        show(str(one))


def _facts(found: Any) -> dict[str, Any]:
    """Return what is known of what was loaded, by name."""
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
        if "class_column_" in vars(found):
            facts["class_column"] = found.class_column_.name
        facts["estimator"] = type(found.estimator).__name__
        if hasattr(found.estimator, "structure"):
            facts["structure"] = _told(found.estimator.structure)
    elif kind in SEQUENCE_MODELS:
        facts |= {"sequences_by": found.sequence, "hidden_states": found.hidden_states, "order": found.order}
    else:
        facts |= _model_facts(found, kind)
    return {**facts, "columns": {name: list(columns.labels(name)) for name in columns.names}}


def _model_facts(found: Any, kind: str) -> dict[str, Any]:
    from eigentree.cli.model_arguments import WITH_TABLES

    graph = found.graph if kind == "LatentNetwork" else found.graph_
    facts: dict[str, Any] = {}
    if kind != "LatentNetwork":
        facts["structure"] = _told(found.structure)
    facts["hidden_variables"] = [f"{name} ({graph.states[name]} states)" for name in graph.hidden[:8]]
    if len(graph.hidden) > 8:
        facts["hidden_variables"].append(f"… {len(graph.hidden)} in all")
    if kind == "SpectralJunctionTree":
        facts["shrinkage"] = found.shrinkage_
        if "statistics_" in vars(found):
            facts["rows"] = found.statistics_.rows
    else:
        facts["free_parameters"] = found.n_parameters if kind == "LatentNetwork" else found.n_parameters_
    if kind in WITH_TABLES:
        facts |= {"steps": found.n_iter_, "converged": "yes" if found.converged_ else "no"}
    return facts


def _told(structure: Any) -> str:
    return structure if isinstance(structure, str) else repr(structure)
