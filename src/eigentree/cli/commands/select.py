"""``eigentree select``: choose a structure and its size on held-out rows, or by an information criterion."""

from typing import Annotated, Any, Literal

from cyclopts import Parameter

from eigentree.cli.arguments import (
    BestOutput,
    Data,
    Emissions,
    HeldOut,
    Json,
    Kinds,
    Numeric,
    Reading,
    Seed,
    Shape,
    UsageError,
    count,
    one_of,
    option,
)
from eigentree.cli.output import note, number_of, require_file, show_json

__all__ = ["at_the_edge", "select"]

CHOICES = ("mixture", "tree", "hmm", "factorial")


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
        Literal["held-out", "bic", "aic"],
        Parameter(
            help="The criterion: held-out log-likelihood, or BIC or AIC on the training rows (lower is better)."
        ),
    ] = "held-out",
    held_out: HeldOut = 0.2,
    output: BestOutput = None,
    reading: Reading = Reading(),
    seed: Seed = 0,
    json: Json = False,
) -> None:
    """Fit structures of several sizes, print their held-out log-likelihoods, and with -o fit the best to all rows.

    With --by bic or aic fits are by maximum likelihood, and their criteria on the training rows decide.

    Examples
    --------
      eigentree select mushrooms.csv --structure mixture tree --hidden 2 4
      eigentree select mushrooms.csv --structure mixture --hidden 2 4 --by bic
      eigentree select mushrooms.csv --hidden 2 4 -o best.eigentree
    """
    if output is not None:
        require_file(output)
    if by != "held-out" and method == "spectral":
        raise UsageError(f"--by {by} needs the number of free parameters, which a spectral model does not have")
    names = structure or (["mixture", "tree"] if reading.sequence is None else ["hmm"])
    shapes = [
        Shape(name, states, order if name in ("hmm", "factorial") else None, numeric, emissions, kind, method)
        for name in dict.fromkeys(names)
        for states in dict.fromkeys(hidden or (2, 4, 8))
    ]
    trials, best, held = _tried(data, shapes, by, reading, held_out, seed, output)
    if json:
        show_json({"tried": trials, "best": trials[best]["name"], "by": by, "output": output})
        return
    from eigentree.cli.model_comparison import show_trials

    show_trials("structure", trials, best, {} if by == "held-out" else {"BIC": ".1f", "AIC": ".1f"})
    after = f"; fitted to all and written: {output}" if output else ""
    note(f"best {f'on {held} held out' if by == 'held-out' else f'by {by.upper()}'}: {trials[best]['name']}{after}")
    if edge := at_the_edge(shapes, best):
        note(edge)


def _tried(
    data: str, shapes: list[Shape], by: str, reading: Reading, held_out: float, seed: int, output: str | None
) -> tuple[list[dict[str, Any]], int, str]:
    """Return the scores of all shapes, the place of the best, which is written, and what was held out."""
    from eigentree.cli.model_arguments import estimator_of, read_training, saved, structure_words, unit_of
    from eigentree.cli.model_comparison import best_of, split, tried
    from eigentree.cli.rows_read import hint_at_marks
    from eigentree.errors import DataError
    from eigentree.estimators.mixins.information_criteria import MAXIMUM_LIKELIHOOD

    rows = read_training(data, shapes[0], reading)
    training, test = split(rows, held_out, seed)
    hint_at_marks(rows, reading)

    def fit(shape: Shape) -> Any:
        # Information criteria compare fits by maximum likelihood.
        likelihood = {} if by == "held-out" else {"pseudo_counts": MAXIMUM_LIKELIHOOD}
        return lambda own: estimator_of(shape, seed, own).set_params(**likelihood).fit(own)

    trials = [tried(structure_words(shape), fit(shape), training, test) for shape in shapes]
    best = best_of(trials, by.replace("-", "_"))
    if best is None:
        raise DataError(f"none of these could be fitted: {trials[0]['failure']}")
    if output is not None:
        saved(fit(shapes[best])(rows), output, reading.sequence)
    return trials, best, number_of(test.count, unit_of(rows))


def at_the_edge(shapes: list[Shape], best: int) -> str | None:
    """Return what to try next, where the best size is the largest or the smallest of those tried."""
    tried = [shape.hidden or 0 for shape in shapes if shape.structure == shapes[best].structure]
    size = shapes[best].hidden or 0
    if len(tried) > 1 and size == max(tried):
        return f"{size} is the largest size tried; try --hidden {2 * size}"
    if len(tried) > 1 and size == min(tried) > 1:
        return f"{size} is the smallest size tried; try --hidden {size // 2}"
    return None
