"""``eigentree three-step``: covariates and distal outcomes of the classes of a fitted model."""

from typing import Annotated, Any, Literal

from cyclopts import Parameter

from eigentree.cli.arguments import Data, Json, ModelFile, Reading, UsageError, option, seed
from eigentree.cli.output import show_json

__all__ = ["three_step"]


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
    table: Annotated[Literal["text", "markdown", "latex"], Parameter(help="How tables are printed.")] = "text",
    reading: Reading = Reading(),
    json: Json = False,
) -> None:
    """Regress the classes of a fitted model on covariates, and compare outcomes between classes.

    The rows are those that the model was fitted to, with columns beside its own. A table has coefficients, standard
    errors, odds ratios and Wald tests; another the means and proportions of outcomes by class. Of a model that was
    fitted with --covariates, its own coefficients are printed (one step).

    Examples
    --------
      eigentree fit survey.csv --drop age region income --structure mixture --hidden 3 -o classes.eigentree
      eigentree three-step classes.eigentree survey.csv --covariates age region
      eigentree three-step classes.eigentree survey.csv --outcomes income --table latex
      eigentree fit survey.csv --drop income --structure mixture --hidden 3 --covariates age region -o one.eigentree
      eigentree three-step one.eigentree survey.csv
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
    shown = {"text": repr, "markdown": lambda each: each.to_markdown(), "latex": lambda each: each.to_latex()}
    print("\n\n".join(shown[table](each).rstrip() for each in found.values()))


def _facts(found: Any) -> dict[str, Any]:
    """Return estimates and tests, as values."""
    own = getattr(found, "coefficients", None) or found.estimates
    columns = [*own.header, "estimate", "std_error", "lower", "upper"]
    numbers = zip(
        own.labels, own.values.tolist(), own.standard_errors.tolist(), own.confint().tolist(), strict=True
    )
    return {
        "estimates": [
            dict(zip(columns, (*labels, value, error, *ends), strict=True))
            for labels, value, error, ends in numbers
        ],
        "tests": [
            {"name": name, "statistic": test.statistic, "df": test.df, "p_value": test.p_value}
            for (name,), test in zip(found.tests.labels, found.tests.tests, strict=True)
        ],
        "notes": list(found.notes),
    }
