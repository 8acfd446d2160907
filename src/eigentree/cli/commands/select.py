"""``eigentree select``: choose a structure and its size by a criterion, or on held-out rows."""

from typing import Annotated, Any, Literal

from cyclopts import Parameter

from eigentree.cli.arguments import (
    BestOutput,
    Data,
    Emissions,
    Json,
    Kinds,
    Numeric,
    Reading,
    Seed,
    Shape,
    UsageError,
    count,
    fraction,
    one_of,
    option,
)
from eigentree.cli.output import note, require_file, show, show_json

__all__ = ["select"]

CHOICES = ("mixture", "tree", "hmm", "factorial")


def _parts(text: str) -> float:
    """Return a share between 0 and 1, or a whole number of parts."""
    try:
        return int(text) if "." not in text else fraction(text)
    except ValueError:
        raise ValueError(f"{text!r} is not a share such as 0.2, nor a number of parts such as 5") from None


def select(
    data: Data,
    /,
    *,
    structure: Annotated[
        list[str] | None,
        option(one_of("structure", CHOICES), "NAME", "Some of mixture, tree, hmm, factorial.", several=True),
    ] = None,
    hidden: Annotated[
        list[int] | None, option(count, "NUMBER", "Numbers of hidden states to try (2 4 8).", several=True)
    ] = None,
    order: Annotated[int | None, option(count, "NUMBER", "Of hmm and factorial, as in fit.")] = None,
    method: Annotated[Literal["em", "spectral"], Parameter(help="How to fit.")] = "em",
    numeric: Numeric = None,
    emissions: Emissions = None,
    kind: Kinds = None,
    by: Annotated[
        Literal["held-out", "bic", "aic", "sabic", "caic", "icl"],
        Parameter(help="What to choose by: held-out log-likelihood, or a criterion of fits by maximum likelihood."),
    ] = "held-out",
    held_out: Annotated[
        float | None,
        option(_parts, "NUMBER", "The share held out (0.2), or how many parts are in turn (5); 0 for none."),
    ] = None,
    blrt: Annotated[
        bool,
        Parameter(negative="", show_default=False, help="Test each size against the next smaller one (BLRT)."),
    ] = False,
    jobs: Annotated[int, option(count, "NUMBER", "Processes that share the replicates of --blrt.")] = 1,
    output: BestOutput = None,
    reading: Reading = Reading(),
    seed: Seed = 0,
    json: Json = False,
) -> None:
    """Fit structures of several sizes to all rows, and print their criteria and held-out log-likelihoods.

    These are log-likelihood, free parameters, BIC, AIC, sample-size-adjusted BIC, CAIC, ICL, entropy R² (1 where
    hidden states are certain), the share of the smallest class, and the mean log-likelihood of held-out rows, each
    under a fit to the others. Criteria compare fits by maximum likelihood, and are shown with --by one of them;
    then nothing is held out unless --held-out says so. --blrt adds the p-value of the bootstrap likelihood-ratio
    test, small where the size is needed; it takes minutes. With -o the best is written.

    Examples
    --------
      eigentree select mushrooms.csv --structure mixture tree --hidden 2 4
      eigentree select mushrooms.csv --structure mixture --hidden 2 4 --by bic
      eigentree select mushrooms.csv --hidden 2 4 -o best.eigentree
    """
    from eigentree.cli.model_arguments import estimator_of, read_training, saved, structure_words
    from eigentree.cli.rows_read import hint_at_marks
    from eigentree.estimators.model_selection import select as selected

    if output is not None:
        require_file(output)
    if by != "held-out" and method == "spectral":
        raise UsageError(f"--by {by} needs the number of free parameters, which a spectral model does not have")
    names = structure or (["mixture", "tree"] if reading.sequence is None else ["hmm"])
    shapes = [
        Shape(name, None, order if name in ("hmm", "factorial") else None, numeric, emissions, kind, method)
        for name in dict.fromkeys(names)
    ]
    rows = read_training(data, shapes[0], reading)
    hint_at_marks(rows, reading)
    estimators = {structure_words(shape): estimator_of(shape, seed, rows) for shape in shapes}
    chosen: Any = by.replace("-", "_")
    selection = selected(
        rows, hidden or (2, 4, 8), estimators, by=chosen, held_out=held_out, blrt=blrt, n_jobs=jobs, verbose=1
    )
    best = selection.best_trial()
    if output is not None:
        saved(best.model, output, reading.sequence)
    if json:
        tried = [{"name": each.name, "failure": each.failure, **each.values()} for each in selection.trials]
        show_json({"tried": tried, "best": best.name, "by": by, "output": output})
        return
    show(str(selection))
    if output is not None:
        note(f"written: {output}")
