"""``eigentree goodness``: how well a model fits counts, and how certain the classes of rows are."""

from typing import Annotated, Any

from eigentree.cli.arguments import Data, Json, ModelFile, Reading, UsageError, count, option
from eigentree.cli.output import show, show_json

__all__ = ["goodness"]


def goodness(
    model: ModelFile,
    data: Data,
    /,
    *,
    pairs: Annotated[int, option(count, "NUMBER", "How many pairs of columns are shown, the worst first.")] = 10,
    reading: Reading = Reading(),
    json: Json = False,
) -> None:
    """Show goodness of fit, residuals of pairs of columns, and classification tables of hidden variables.

    G² and X² compare the counts of all combinations of labels with those expected (not of columns of numbers).
    Bivariate residuals are X² / df of pairs: beyond about 4 the columns depend on each other within classes. The
    rows of a classification table are the classes that rows are assigned to, by their largest posterior
    probability.

    Examples
    --------
      eigentree goodness model.eigentree mushrooms.csv
      eigentree goodness model.eigentree mushrooms.csv --pairs 30 --json
    """
    from dataclasses import replace

    from eigentree.cli.model_arguments import WITH_TABLES, kind_of, loaded_model, read_for, rows_for
    from eigentree.uncertainty.classification_table import classification_table
    from eigentree.uncertainty.model_fit import bivariate_residuals, goodness_of_fit

    asked = loaded_model(model)
    if kind_of(asked) not in WITH_TABLES:
        raise UsageError(f"{model!r} has no tables of hidden variables of rows; fit with --method em")
    rows = rows_for(asked, read_for(asked, data, reading))
    whole = None if asked.columns_.numbers else goodness_of_fit(asked, rows)
    residuals = bivariate_residuals(asked, rows)
    tables = {name: classification_table(asked, rows, name) for name in asked.graph_.hidden}
    if json:
        statistics: dict[str, Any] = {} if whole is None else dict(vars(whole))
        for name in ("g2", "x2", "cressie_read"):
            if name in statistics:
                statistics[name] = statistics[name]._asdict()
        classes = {
            name: {
                "counts": table.counts.tolist(),
                "misclassified": table.misclassified,
                "entropy_r2": table.entropy_r2,
            }
            for name, table in tables.items()
        }
        show_json(statistics | {"pairs": [each._asdict() for each in residuals.pairs[:pairs]], "classes": classes})
        return
    shown = [*([str(whole)] if whole else []), str(replace(residuals, pairs=residuals.pairs[:pairs]))]
    show("\n\n".join([*shown, *(f"{name}\n{table}" for name, table in tables.items())]))
