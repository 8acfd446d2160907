"""``eigentree score``: how likely rows are."""

from collections.abc import Iterator
from typing import Annotated, Any

from cyclopts import App, Parameter

from eigentree.cli.arguments import Data, Json, ModelFile, Reading
from eigentree.cli.model_arguments import Unknown
from eigentree.cli.row_output import check_rows_output, hand_parts

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
    from eigentree.cli.block_io import given_blocks
    from eigentree.cli.model_arguments import loaded_model, of_sequences, rows_for
    from eigentree.cli.terminal_output import show, show_json, told_rows

    asked = loaded_model(model, unknown)
    if of_sequences(asked, reading):
        from eigentree.cli.sequence_arguments import score_sequences

        score_sequences(asked, data, reading, output, json)
        return
    count, total, least, most = 0, 0.0, float("inf"), float("-inf")

    def scored() -> Iterator[list[Any]]:
        nonlocal count, total, least, most
        for block in given_blocks(data, reading):
            rows = rows_for(asked, block)
            scores = asked.log_prob(rows) if hasattr(asked, "log_prob") else asked.score_samples(rows)
            count, total = count + rows.count, total + float(scores.sum())
            least, most = min(least, float(scores.min())), max(most, float(scores.max()))
            yield [scores]

    def told() -> tuple[dict[str, Any], str]:
        mean = total / count
        facts = {"rows": count, "mean_log_probability": mean, "least": least, "most": most}
        return facts, f"mean log probability {mean:.4f} of {told_rows(count)}"

    if output is not None:
        hand_parts(output, reading.format, json, ["log_probability"], scored(), told)
        return
    for _ in scored():
        pass
    facts, sentence = told()
    if json:
        show_json(facts)
    else:
        show(f"{sentence} (from {least:.4f} to {most:.4f})")
