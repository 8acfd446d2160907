"""``eigentree score``: the log probability of each row."""

from typing import Annotated, Any

from cyclopts import Parameter

from eigentree.cli.arguments import PIPE, Data, ModelFile, Reading, RowOptions, UsageError
from eigentree.cli.output import RowSink, number_of, show, show_json

__all__ = ["score"]


def score(
    model: ModelFile,
    data: Data,
    /,
    *,
    summary: Annotated[
        bool, Parameter(negative="", show_default=False, help="Print the mean alone, not the rows.")
    ] = False,
    rows: RowOptions = RowOptions(),
    reading: Reading = Reading(),
) -> None:
    """Write the log probability of each row, or of each sequence; missing cells are marginalised out.

    The rows with the lowest are anomalies. The mean is reported beside them, or alone with --summary.

    Examples
    --------
      eigentree score model.eigentree mushrooms.csv | head -3
      eigentree score model.eigentree mushrooms.csv --summary
      eigentree score model.eigentree mushrooms.csv -o scores.parquet
      eigentree score model.eigentree mushrooms.csv | sort -t, -k2 -g | head -5
    """
    sink = RowSink(rows.output, reading.format, rows.json)
    if summary and rows.output != PIPE:
        raise UsageError("--summary writes no rows; leave it or --output out")
    import numpy as np

    from eigentree.cli.model_arguments import loaded_model, read_for, rows_for, unit_of

    asked = loaded_model(model, rows.unknown)
    given = read_for(asked, data, reading, rows.id, stream=True)
    scores: list[Any] = []
    if unit_of(given) == "sequence" or summary:
        scores = [asked.score_samples(rows_for(asked, given))]
    if not summary:
        if unit_of(given) == "sequence":
            sink.write({given.name: given.ids}, {"log_probability": scores[0]})
        else:
            sink.write_by(
                asked.score_samples_to, given, id=rows.id or "row", each=lambda table, own: scores.append(own)
            )
    facts, sentence = _summary(np.concatenate(scores), given, unit_of(given))
    if not summary:
        sink.report(facts, sentence)
    elif rows.json:
        show_json(facts)
    else:
        show(sentence)


def _summary(scores: Any, given: Any, unit: str) -> tuple[dict[str, Any], str]:
    """Return facts for programs and a sentence for people."""
    least, mean, most = scores.min(), scores.mean(), scores.max()
    facts = {f"{unit}s": len(scores), "mean_log_probability": mean, "minimum": least, "maximum": most}
    sentence = f"mean log-likelihood {mean:.4f} of {number_of(len(scores), unit)}"
    if unit == "sequence":
        steps = given.table.count
        facts |= {"steps": steps, "per_step": scores.sum() / steps}
        sentence += f", {scores.sum() / steps:.4f} per step"
    return facts, f"{sentence} (from {least:.4f} to {most:.4f})"
