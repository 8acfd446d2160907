"""``eigentree score``: how likely rows are."""

from typing import Annotated

from cyclopts import App, Parameter

from eigentree.commands.answering import check_rows_output, hand_rows
from eigentree.commands.arguments import Data, Json, ModelFile, Reading
from eigentree.commands.models import Unknown

__all__ = ["app"]

app = App(
    name="score",
    help="How likely rows are: the mean of their log probabilities, or with -o that of each row. Missing cells are "
    "summed out.",
    help_epilogue="""\
Examples

  eigentree score model.eigentree mushrooms.csv
  eigentree score model.eigentree mushrooms.csv --json
  eigentree score model.eigentree mushrooms.csv -o scores.csv
  eigentree score model.eigentree mushrooms.csv -o - | sort -g | head -5""",
)


@app.default
def score(
    model: ModelFile,
    data: Data,
    /,
    *,
    output: Annotated[
        str | None,
        Parameter(
            name=["--output", "-o"],
            metavar="FILE",
            allow_leading_hyphen=True,
            help="Where the log probability of each row goes: a file, or - for standard output.",
        ),
    ] = None,
    unknown: Annotated[
        Unknown, Parameter(help="What a label is that the model has not seen: a mistake, or a missing cell.")
    ] = "error",
    reading: Reading = Reading(),
    json: Json = False,
) -> None:
    """Score rows."""
    if output is not None:
        check_rows_output(output, reading.format)
    from eigentree.commands.models import loaded_model, of_sequences, rows_for
    from eigentree.commands.screen import show, show_json, told_rows
    from eigentree.commands.tables import read_table

    asked = loaded_model(model, unknown)
    if of_sequences(asked, reading):
        from eigentree.commands.sequences import score_sequences

        score_sequences(asked, data, reading, output, json)
        return
    rows = rows_for(asked, read_table(data, reading))
    scores = asked.log_prob(rows) if hasattr(asked, "log_prob") else asked.score_samples(rows)
    facts = {
        "rows": rows.count,
        "mean_log_probability": float(scores.mean()),
        "least": float(scores.min()),
        "most": float(scores.max()),
    }
    sentence = f"mean log probability {scores.mean():.4f} of {told_rows(rows.count)}"
    if output is not None:
        hand_rows(output, reading.format, json, ["log_probability"], [scores], facts, sentence)
    elif json:
        show_json(facts)
    else:
        show(f"{sentence} (from {scores.min():.4f} to {scores.max():.4f})")
