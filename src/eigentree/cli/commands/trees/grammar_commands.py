"""``eigentree grammar``: learn a latent-variable grammar from trees; score trees, parse sentences, sample."""

import time
from collections.abc import Iterable
from typing import Annotated, Any, Literal

from cyclopts import App, Parameter

from eigentree.cli.arguments import PIPE, Format, Json, Output, RowsOutput, Seed, count, file_option, option
from eigentree.cli.output import RowSink, checked_output, note, number_of, report_saved, require_file

__all__ = ["app"]

Trees = Annotated[
    str,
    Parameter(
        allow_leading_hyphen=True,
        help="Trees: a file of Penn brackets, or of JSON lines, each a tree as nested lists; - for standard input.",
    ),
]
GrammarFile = Annotated[str, Parameter(help="A file that eigentree grammar fit wrote.")]
TreesOutput = Annotated[
    str, file_option("Where trees are written, one on each line; - for standard output.", "--output", "-o")
]

app = App(
    name="grammar",
    group_commands="Commands",
    help="Learn a grammar with hidden states from trees (fit); score trees, parse sentences, sample trees.",
    help_epilogue="""\
Examples

  eigentree grammar fit trees.mrg --hidden 8 -o grammar.eigentree
  eigentree grammar parse grammar.eigentree sentences.txt -o parsed.mrg
  eigentree grammar parse grammar.eigentree test.mrg --gold""",
)


@app.command
def fit(
    trees: Trees,
    /,
    *,
    output: Output,
    hidden: Annotated[int, option(count, "NUMBER", "The most hidden states of each label.")] = 8,
    min_word_count: Annotated[
        int, option(count, "NUMBER", "How often a word occurs that is known by itself, not by its class.")
    ] = 2,
    method: Annotated[
        Literal["em", "spectral"],
        Parameter(help="em splits and merges hidden states; spectral takes one pass without random starts."),
    ] = "em",
    seed: Seed = 0,
    json: Json = False,
) -> None:
    """Learn a latent-variable grammar from trees, and write it to a file."""
    require_file(output)
    from eigentree.cli.model_arguments import kind_of, saved

    begin = time.perf_counter()
    model: Any
    if method == "spectral":
        from eigentree.estimators.trees.spectral_latent_grammar import SpectralLatentGrammar

        model = SpectralLatentGrammar(hidden, min_word_count=min_word_count).fit(trees_in(trees))
        states = sum(label.rank for label in model.report_.labels)
    else:
        from eigentree.estimators.trees.latent_grammar import LatentGrammar

        model = LatentGrammar(hidden, min_word_count=min_word_count, random_state=seed).fit(trees_in(trees))
        states = sum(model.hidden_states_.values())
    saved(model, output)
    seconds = time.perf_counter() - begin
    facts = {"model": kind_of(model), "labels": len(model.labels_), "hidden_states": states}
    sentence = f"{number_of(len(model.labels_), 'label')} with {number_of(states, 'hidden state')}"
    report_saved(output, json, facts | {"seconds": round(seconds, 3)}, f"{sentence}, {seconds:.1f} s")


@app.command
def score(
    model: GrammarFile,
    trees: Trees,
    /,
    *,
    output: RowsOutput = PIPE,
    format: Annotated[Format | None, Parameter(help="The format of standard output (csv).")] = None,
    json: Json = False,
) -> None:
    """Write the log probability of each tree; labels and words that are missing, (), are marginalised out."""
    sink = RowSink(output, format, json)
    scores = _grammar(model).score_samples(trees_in(trees))
    sink.write({"tree": list(range(len(scores)))}, {"log_probability": scores})
    facts = {"trees": len(scores), "mean_log_probability": scores.mean()}
    sink.report(facts, f"mean log-likelihood {scores.mean():.4f} of {number_of(len(scores), 'tree')}")


@app.command
def parse(
    model: GrammarFile,
    sentences: Annotated[
        str,
        Parameter(
            allow_leading_hyphen=True,
            help="Sentences: a file of text, one on each line with blanks between words; - for standard input.",
        ),
    ],
    /,
    *,
    gold: Annotated[
        bool,
        Parameter(
            negative="",
            show_default=False,
            help="The file holds trees: their words are parsed, and labelled F1 is reported.",
        ),
    ] = False,
    output: TreesOutput = PIPE,
) -> None:
    """Write the tree of each sentence: that of most nodes which are expected to be right."""
    checked_output(output)
    from eigentree.io.byte_files import read_bytes

    asked = _grammar(model)
    if not gold:
        with read_bytes(sentences) as file:
            lines = [line.split() for line in file.read().decode("utf-8-sig", "replace").splitlines()]
        parsed = asked.parse([words for words in lines if words])
    else:
        from eigentree.uncertainty.labelled_f1 import labelled_f1

        known = list(trees_in(sentences))
        parsed = asked.parse(known)
        found = labelled_f1(known, parsed)
        note(
            f"labelled F1 {found.f1:.4f} (precision {found.precision:.4f}, recall {found.recall:.4f}), exact match "
            f"{found.exact_match:.4f} of {number_of(found.trees, 'tree')}"
        )
    _write(parsed, output)


@app.command
def sample(
    model: GrammarFile,
    /,
    *,
    n: Annotated[int, option(count, "TREES", "How many trees."), Parameter(name=["-n", "--trees"])] = 1,
    output: TreesOutput = PIPE,
    seed: Seed = 0,
) -> None:
    """Sample trees from a grammar; rare words are named by their classes."""
    checked_output(output)
    _write(_grammar(model).sample(n, random_state=seed), output)


def trees_in(path: str) -> Iterable[Any]:
    """Return the trees of a file, one after the other; raise an error at once where there is none."""
    from eigentree.data.treebanks.tree_sources import read_trees
    from eigentree.io.byte_files import require_there

    if path != PIPE:
        require_there(path)
    return read_trees(path)


def _grammar(path: str) -> Any:
    from eigentree.cli.model_arguments import loaded

    return loaded(path, ("LatentGrammar", "SpectralLatentGrammar"), "a grammar")


def _write(trees: Iterable[Any], output: str) -> None:
    """Write trees in brackets, one on each line."""
    from eigentree.io.byte_files import write_bytes

    text = "".join(f"{tree}\n" for tree in trees)
    write_bytes(output, lambda file: file.write(text.encode()))
    if output != PIPE:
        note(f"written: {output}")
