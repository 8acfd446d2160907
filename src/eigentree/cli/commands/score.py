"""``eigentree score``: the log probability of each row."""

from collections.abc import Iterator
from typing import Annotated, Any

from cyclopts import App, Parameter

from eigentree.cli.arguments import Data, ModelFile, Reading, RowOptions
from eigentree.cli.row_output import RowSink, joined
from eigentree.cli.terminal_output import number_of, show, show_json

__all__ = ["app"]

app = App(
    name="score",
    help="The log probability of each row, or of each sequence; missing cells are marginalised out. The rows with "
    "the lowest are anomalies. The mean is reported beside them, or alone with --summary.",
    help_epilogue="""\
Examples

  eigentree score model.eigentree mushrooms.csv | head -3
  eigentree score model.eigentree mushrooms.csv --summary
  eigentree score model.eigentree mushrooms.csv --id odor -o scores.csv
  eigentree score model.eigentree mushrooms.csv | sort -t, -k2 -g | head -5""",
)


@app.default
def score(
    model: ModelFile,
    data: Data,
    /,
    *,
    summary: Annotated[bool, Parameter(negative="", help="Print the mean alone, not the rows.")] = False,
    rows: RowOptions = RowOptions(),
    reading: Reading = Reading(),
) -> None:
    """Score rows."""
    sink = RowSink(rows.output, reading.format, rows.json)
    from eigentree.cli.model_arguments import loaded_model, read_for, unit_of

    asked = loaded_model(model, rows.unknown)
    given = read_for(asked, data, reading, stream=True)
    totals = {"count": 0, "sum": 0.0, "minimum": float("inf"), "maximum": float("-inf")}
    parts = _scored(asked, given, rows.id, totals)

    def report() -> tuple[dict[str, Any], str]:
        unit, mean = unit_of(given), totals["sum"] / totals["count"]
        facts = {f"{unit}s": totals["count"], "mean_log_probability": mean}
        sentence = f"mean log-likelihood {mean:.4f} of {number_of(totals['count'], unit)}"
        if unit == "sequence":
            steps = given.table.count
            facts |= {"steps": steps, "per_step": totals["sum"] / steps}
            sentence += f", {totals['sum'] / steps:.4f} per step"
        facts |= {key: totals[key] for key in ("minimum", "maximum")}
        return facts, f"{sentence} (from {totals['minimum']:.4f} to {totals['maximum']:.4f})"

    if not summary:
        sink.write(parts, report)
        return
    for _ in parts:
        pass
    facts, sentence = report()
    if rows.json:
        show_json(facts)
    else:
        show(sentence)


def _scored(asked: Any, given: Any, id_column: str | None, totals: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the identifiers and the scores of rows, and add the latter up in `totals`."""
    from eigentree.cli.model_arguments import batches_for

    for identified, batch in batches_for(asked, given, id_column):
        scores = asked.log_prob(batch) if hasattr(asked, "log_prob") else asked.score_samples(batch)
        totals["count"] += len(scores)
        totals["sum"] += float(scores.sum())
        totals["minimum"] = min(totals["minimum"], float(scores.min()))
        totals["maximum"] = max(totals["maximum"], float(scores.max()))
        yield joined(identified, {"log_probability": scores})
