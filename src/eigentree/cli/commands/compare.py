"""``eigentree compare``: EM, spectral and simpler models side by side on held-out rows."""

from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import App

from eigentree.cli.arguments import Data, Json, Reading, Seed, Shape, command_line, fraction

if TYPE_CHECKING:
    from eigentree.cli.model_comparison import Entry, Trial
    from eigentree.cli.table_io import Given

__all__ = ["app"]

app = App(
    name="compare",
    help="Fit the same structure by EM, by online EM and spectrally, beside independent columns and a Chow-Liu "
    "tree of the columns, and tell how likely each finds rows that were held out. All add up to 1 over all rows. "
    "Online EM, which searches for no size, has 8 states with --structure auto.",
    help_epilogue="""\
Examples

  eigentree compare mushrooms.csv --structure mixture --hidden 4
  eigentree compare mushrooms.csv --structure mixture --held-out 0.3 --json""",
)


@app.default
def compare(
    data: Data,
    /,
    *,
    held_out: Annotated[float, command_line(fraction, "SHARE", "The share of the rows that is held out.")] = 0.2,
    shape: Shape = Shape(),
    reading: Reading = Reading(),
    seed: Seed = 0,
    json: Json = False,
) -> None:
    """Compare models on held-out rows."""
    from eigentree.cli.arguments import UsageError
    from eigentree.cli.structure_arguments import told_structure
    from eigentree.cli.terminal_output import note, show_json, told_rows, told_sequences

    if shape.method is not None:
        raise UsageError("compare fits by all methods; leave --method out")
    if reading.sequence is not None:
        training, test, trials = _compared_sequences(data, shape, reading, held_out, seed)
        told = told_sequences
        shape = shape.or_else("hmm")
    else:
        shape = shape.or_else("auto")
        training, test, trials = _compared(data, shape, reading, held_out, seed)
        told = told_rows
    if json:
        show_json(
            {
                "rows" if reading.sequence is None else "sequences": training.count,
                "held_out_rows" if reading.sequence is None else "held_out_sequences": test.count,
                "structure": told_structure(shape),
                "methods": [vars(trial) for trial in trials],
            }
        )
        return
    _show(trials)
    note(
        f"{told_structure(shape)}: learned from {told(training.count)}, mean log probability of "
        f"{told(test.count)} held out; processor seconds of each fit"
    )


def _compared(data: str, shape: Shape, reading: Reading, held_out: float, seed: int) -> Any:
    """Return the rows to learn from, those that are held out, and how each model did."""
    from eigentree.cli.block_io import hint_at_marks
    from eigentree.cli.model_comparison import split, tried
    from eigentree.cli.structure_arguments import structure_of
    from eigentree.cli.table_io import read_table
    from eigentree.cli.terminal_output import note

    if not shape.is_file:
        structure_of(shape)
    table = read_table(data, reading)
    entries = _entries(shape, table, seed)
    training, test = split(table, held_out, seed)
    hint_at_marks(table, reading)
    trials = []
    for entry in entries:
        note(f"{entry[0]} …")
        trials.append(tried(entry, training, test))
    return training, test, trials


def _compared_sequences(data: str, shape: Shape, reading: Reading, held_out: float, seed: int) -> Any:
    """Return the same of sequences."""
    from dataclasses import replace

    from eigentree.cli.block_io import hint_at_marks
    from eigentree.cli.model_comparison import split_sequences, tried_on_sequences
    from eigentree.cli.sequence_arguments import long_table, sequence_estimator
    from eigentree.cli.table_io import read_table
    from eigentree.cli.terminal_output import note

    shape = shape.or_else("hmm")
    entries = [
        ("independent", sequence_estimator(replace(shape, hidden=1, order=1), seed)),
        ("spectral", sequence_estimator(replace(shape, method="spectral"), seed)),
        ("EM", sequence_estimator(shape, seed)),
    ]
    long = long_table(read_table(data, reading), str(reading.sequence), numeric=shape.numeric)
    training, test = split_sequences(long, held_out, seed)
    hint_at_marks(long.table, reading)
    trials = []
    for name, estimator in entries:
        note(f"{name} …")
        trials.append(tried_on_sequences(name, estimator, training, test))
    return training, test, trials


def _entries(shape: Shape, table: "Given", seed: int) -> "list[Entry]":
    from eigentree.cli.model_arguments import categories_of
    from eigentree.cli.structure_arguments import structure_of
    from eigentree.counting.learn_structure import learn_structure
    from eigentree.estimators.em_junction_tree import EMJunctionTree
    from eigentree.estimators.online_em import OnlineEMJunctionTree
    from eigentree.estimators.spectral_junction_tree import SpectralJunctionTree
    from eigentree.graphs import zoo
    from eigentree.graphs.graph import LatentGraph

    structure = structure_of(shape, table)
    numeric: Any = {"numeric": shape.numeric}
    labels: Any = {"categories": categories_of(structure, table, shape), **numeric}
    own = isinstance(structure, LatentGraph)
    columns = structure.observed if own else table.names
    fixed = zoo.HiddenChowLiu(shape.hidden or 8) if shape.structure == "auto" else structure
    one_tree = zoo.HiddenChowLiu(shape.hidden) if shape.structure == "auto" and shape.hidden else structure

    def chow_liu(rows: "Given") -> Any:
        graph = learn_structure(rows.only(columns), hidden_states=None, **numeric)
        known: Any = {"categories": categories_of(graph, rows, shape), **numeric}
        return EMJunctionTree(graph, random_state=seed, **known).fit(rows.only(columns))

    def by(estimator: Any) -> Any:
        return lambda rows: estimator.fit(rows.only(columns))

    return [
        ("independent", by(EMJunctionTree(zoo.Mixture(1), random_state=seed, **numeric))),
        ("Chow-Liu tree", chow_liu),
        ("spectral", by(SpectralJunctionTree(one_tree, **labels))),
        ("online EM", by(OnlineEMJunctionTree(fixed, random_state=seed, pseudo_counts=0.1, **labels))),
        ("EM", by(EMJunctionTree(structure, random_state=seed, verbose=1, **labels))),
    ]


def _show(trials: "list[Trial]") -> None:
    from eigentree.cli.model_comparison import show_trials

    able = [place for place, trial in enumerate(trials) if not trial.failure]
    best = max(able, key=lambda place: trials[place].held_out) if able else None
    show_trials(
        "method", trials, best, {"training": lambda trial: "" if trial.failure else f"{trial.training:.4f}"}
    )
