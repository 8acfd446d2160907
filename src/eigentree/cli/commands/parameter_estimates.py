"""``eigentree estimates`` and ``three-step``: parameters, covariates and outcomes of classes, with their errors."""

from typing import Annotated, Any, Literal

from cyclopts import Parameter

from eigentree.cli.arguments import Data, Json, ModelFile, Reading, UsageError, option, seed
from eigentree.cli.output import note, show, show_json, show_table

__all__ = ["estimates", "three_step"]


def estimates(
    model: ModelFile,
    data: Data,
    /,
    *,
    table: Annotated[
        str | None,
        Parameter(
            metavar="NAME",
            help="Show one table: a column, a hidden variable, of sequences start or transitions (all).",
        ),
    ] = None,
    kind: Annotated[
        Literal["observed", "empirical", "robust"] | None,
        Parameter(
            help="Standard errors from the observed or the empirical information, or robust ones (observed)."
        ),
    ] = None,
    clusters: Annotated[
        str | None,
        Parameter(metavar="COLUMN", help="The column that names the cluster of each row; errors are then robust."),
    ] = None,
    weights: Annotated[
        str | None,
        Parameter(
            metavar="COLUMN", help="How often each row counts, as in fit; sampling weights need --kind robust."
        ),
    ] = None,
    form: Annotated[
        Literal["text", "markdown", "latex", "json"],
        Parameter(name="--as", help="How the table is written (text)."),
    ] = "text",
    json: Json = False,
    reading: Reading = Reading(),
) -> None:
    """Show the parameters of a model with standard errors and 95 % intervals, given its training data.

    Parameters on the boundary, and those that the rows do not identify, have none; a note names them.

    Examples
    --------
      eigentree estimates model.eigentree mushrooms.csv
      eigentree estimates model.eigentree mushrooms.csv --table odor --as latex
    """
    from eigentree.cli.model_arguments import loaded_model, read_for, require_tables, rows_for
    from eigentree.cli.rows_read import row_weights
    from eigentree.data.tables.text_cells import require_names

    fitted = loaded_model(model)
    require_tables(fitted, model)
    given: Any = read_for(fitted, data, reading)
    groups = None if clusters is None else _clusters(given, clusters)
    weighed = {} if weights is None else {"sample_weight": row_weights(given, weights)}
    found = fitted.estimates(rows_for(fitted, given), kind=kind, clusters=groups, **weighed)
    if table is not None:
        require_names([table], list(dict.fromkeys(str(labels[0]) for labels in found.labels)), repr(model))
        found = found.part(table=table)
    if json:
        show_json({"estimates": _lines(found), "notes": list(found.notes)})
        return
    if form == "text":
        lines = [
            [value if isinstance(value, str) else _shown(value) for value in own.values()] for own in _lines(found)
        ]
        show_table(
            [*found.header, "estimate", "std. error", "lower", "upper"], lines, words=range(len(found.header))
        )
    else:
        show((found.to_markdown() if form == "markdown" else found.to_latex()).rstrip())
    for sentence in found.notes:
        note(f"eigentree: note: {sentence}")


def three_step(
    model: ModelFile,
    data: Data,
    /,
    *,
    covariates: Annotated[
        list[str] | None, option(str, "COLUMN", "Columns that class membership is regressed on.", several=True)
    ] = None,
    outcomes: Annotated[
        list[str] | None, option(str, "COLUMN", "Columns that are compared between classes.", several=True)
    ] = None,
    correction: Annotated[
        Literal["ml", "bch", "none"] | None,
        Parameter(help="For classification errors: ml (of covariates), bch (of outcomes), or none (naive)."),
    ] = None,
    two_step: Annotated[
        bool, Parameter(negative="", help="Keep the measurement model in place of assigning rows to classes.")
    ] = False,
    reference: Annotated[int, option(seed, "CLASS", "The class that others are compared with (0).")] = 0,
    form: Annotated[
        Literal["text", "markdown", "latex"], Parameter(name="--as", help="How tables are written (text).")
    ] = "text",
    json: Json = False,
    reading: Reading = Reading(),
) -> None:
    """Regress the classes of a fitted model on covariates, and compare outcomes between classes.

    The rows are those that the model was fitted to, with columns beside its own. A table has coefficients, standard
    errors, odds ratios and Wald tests; another the means and proportions of outcomes by class. Of a model that was
    fitted with --covariates, its own coefficients are printed (one step).

    Examples
    --------
      eigentree fit survey.csv --drop age class --structure mixture -o m.eigentree
      eigentree three-step m.eigentree survey.csv --covariates age
      eigentree three-step m.eigentree survey.csv --outcomes class --as latex
    """
    from eigentree.cli.model_arguments import loaded_model, read_for, require_tables
    from eigentree.uncertainty.external.class_regression import class_regression
    from eigentree.uncertainty.external.distal_outcomes import distal_outcomes

    asked = loaded_model(model)
    require_tables(asked, model)
    own = getattr(asked, "covariates", None)
    if not (covariates or outcomes or own):
        raise UsageError("name columns, as in --covariates age region, or --outcomes income")
    rows = read_for(asked, data, reading)
    steps: dict[str, Any] = {"n_steps": 2} if two_step else {}
    if correction is not None:
        steps["correction"] = None if correction == "none" else correction.upper()
    found: dict[str, Any] = {}
    if covariates:
        found["covariates"] = class_regression(asked, rows, covariates, **steps).relative_to(reference)
    elif own:
        found["covariates"] = class_regression(asked, rows.only(asked.columns_.names)).relative_to(reference)
    if outcomes:
        found["outcomes"] = distal_outcomes(asked, rows, outcomes, **steps)
    if json:
        show_json({name: _facts(each) for name, each in found.items()})
        return
    for place, each in enumerate(found.values()):
        shown = repr(each) if form == "text" else each.to_markdown() if form == "markdown" else each.to_latex()
        show("\n" * (place > 0) + shown.rstrip())


def _facts(found: Any) -> dict[str, Any]:
    """Return the estimates and Wald tests of covariates or outcomes, as values."""
    tests = zip(found.tests.labels, found.tests.tests, strict=True)
    return {
        "estimates": _lines(getattr(found, "coefficients", None) or found.estimates),
        "tests": [{"name": name, **test._asdict()} for (name,), test in tests],
        "notes": list(found.notes),
    }


def _lines(found: Any) -> list[dict[str, Any]]:
    """Return the cells of each line by name."""
    low, high = found.confint().T
    numbers = {"estimate": found.values, "std_error": found.standard_errors, "lower": low, "upper": high}
    return [
        dict(zip(found.header, map(str, labels), strict=True))
        | {name: own[place].item() for name, own in numbers.items()}
        for place, labels in enumerate(found.labels)
    ]


def _shown(value: float) -> str:
    return f"{value:.4f}" if value == value else ""


def _clusters(given: Any, column: str) -> list[Any]:
    """Return the cluster of each row, or of each sequence: that of its first row."""
    from eigentree.cli.model_arguments import unit_of
    from eigentree.data.tables.text_cells import require_names

    whole = given.whole if unit_of(given) == "sequence" else given
    require_names([column], whole.names, whole.source)
    found: list[Any] = whole.cells(whole.names.index(column))
    if unit_of(given) == "row":
        return found
    first = dict(zip(reversed(given.column), reversed(found), strict=True))
    return [first[each] for each in given.ids]
