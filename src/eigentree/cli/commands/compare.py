"""``eigentree compare``: EM, spectral and simpler models on held-out rows."""

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from eigentree.cli.arguments import Data, HeldOut, Json, Reading, Seed, Shape, Structure
from eigentree.cli.output import note, number_of, show_json

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["compare"]


def compare(
    data: Data,
    /,
    *,
    held_out: HeldOut = 0.2,
    structure: Structure = Structure(),
    reading: Reading = Reading(),
    seed: Seed = 0,
    json: Json = False,
) -> None:
    """Compare the held-out log-likelihoods of models of one structure, and of simpler ones.

    The structure is fitted by EM, by stepwise (online) EM and spectrally, beside the independence model and the
    Chow-Liu tree of the columns. Stepwise EM, which searches for no size, has 8 states with --structure auto.

    Examples
    --------
      eigentree compare mushrooms.csv --structure mixture --hidden 4
      eigentree compare mushrooms.csv --structure mixture --held-out 0.3 --json
    """
    from eigentree.cli.model_arguments import read_training, structure_words, unit_of
    from eigentree.cli.model_comparison import best_of, show_trials, split, tried
    from eigentree.cli.rows_read import hint_at_marks

    given = structure.or_else("auto" if reading.sequence is None else "hmm")
    shape = Shape(**vars(given))
    rows = read_training(data, shape, reading)
    unit = unit_of(rows)
    training, test = split(rows, held_out, seed)
    fits = list(_row_fits(shape, rows, seed) if unit == "row" else _sequence_fits(shape, rows, seed))
    hint_at_marks(rows, reading)
    trials = [tried(name, fit, training, test) for name, fit in fits]
    if json:
        sizes = {f"{unit}s": training.count, f"held_out_{unit}s": test.count}
        show_json({**sizes, "structure": structure_words(shape), "methods": trials})
        return
    show_trials("method", trials, best_of(trials), {"training": ".4f"})
    note(
        f"{structure_words(shape)}: fitted to {number_of(training.count, unit)}, mean log-likelihood of "
        f"{number_of(test.count, unit)} held out; processor seconds of each fit"
    )


def _sequence_fits(shape: Shape, sequences: Any, seed: int) -> "Iterator[tuple[str, Callable[[Any], Any]]]":
    from eigentree.cli.model_arguments import estimator_of

    for name, own in (
        ("independent", replace(shape, hidden=1, order=1)),
        ("spectral", replace(shape, method="spectral")),
        ("EM", shape),
    ):
        yield name, estimator_of(own, seed, sequences).fit


def _row_fits(shape: Shape, rows: Any, seed: int) -> "Iterator[tuple[str, Callable[[Any], Any]]]":
    """Yield the name of each method, and a function that fits it to rows."""
    from eigentree.cli.model_arguments import categories_of, structure_of
    from eigentree.counting.structure_and_schema import learn_structure
    from eigentree.estimators.em_junction_tree import EMJunctionTree
    from eigentree.estimators.online_em import OnlineEMJunctionTree
    from eigentree.estimators.spectral_junction_tree import SpectralJunctionTree
    from eigentree.graphs import zoo
    from eigentree.graphs.graph import LatentGraph

    structure = structure_of(shape, rows)
    numeric: Any = {"numeric": shape.numeric}
    labels: Any = {"categories": categories_of(structure, rows, shape), **numeric}
    columns = structure.observed if isinstance(structure, LatentGraph) else rows.names
    fixed = zoo.HiddenChowLiu(shape.hidden or 8) if shape.structure == "auto" else structure
    one_tree = fixed if shape.hidden else structure

    def chow_liu(training: Any) -> Any:
        own = training.only(columns)
        graph = learn_structure(own, hidden_states=None, **numeric)
        known: Any = {"categories": categories_of(graph, own, shape), **numeric}
        return EMJunctionTree(graph, random_state=seed, **known).fit(own)

    def by(estimator: Any) -> Any:
        return lambda training: estimator.fit(training.only(columns))

    yield "independent", by(EMJunctionTree(zoo.Mixture(1), random_state=seed, **numeric))
    yield "Chow-Liu tree", chow_liu
    yield "spectral", by(SpectralJunctionTree(one_tree, **labels))
    yield "online EM", by(OnlineEMJunctionTree(fixed, random_state=seed, pseudo_counts=0.1, **labels))
    yield "EM", by(EMJunctionTree(structure, random_state=seed, verbose=1, **labels))
