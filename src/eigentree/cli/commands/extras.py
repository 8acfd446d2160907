"""``eigentree dataset`` and ``completion``: tables to try things on, and what a shell needs."""

from typing import Annotated, Any, Literal

from cyclopts import Parameter

from eigentree.cli.arguments import Format, Json, RowsOutput
from eigentree.cli.output import RowSink, number_of

__all__ = ["completion", "dataset"]


def dataset(
    name: Annotated[Literal["mushrooms", "votes", "splice", "contraceptive"], Parameter(help="Which table.")],
    /,
    *,
    output: RowsOutput = "-",
    missing: Annotated[
        str | None,
        Parameter(metavar="MARK", allow_leading_hyphen=True, help="The marker of missing cells (nothing)."),
    ] = None,
    format: Annotated[Format | None, Parameter(help="The format of standard output (csv).")] = None,
    json: Json = False,
) -> None:
    """Write a real table that comes with the package.

    These are mushrooms (8,124 rows, 22 columns and their class), votes (435 rows, 16 votes and the party),
    splice (3,190 DNA sequences of 60 bases and their class) and contraceptive (a survey of 1,473 women, 9 columns
    and the method they use).

    Examples
    --------
      eigentree dataset mushrooms -o mushrooms.csv
      eigentree dataset votes --missing '?' | head -3
      eigentree dataset contraceptive -o survey.csv
    """
    sink = RowSink(output, format, json)
    import eigentree

    loaders: dict[str, Any] = {
        "mushrooms": eigentree.datasets.load_mushrooms,
        "votes": eigentree.datasets.load_votes,
        "splice": eigentree.datasets.load_splice,
        "contraceptive": eigentree.datasets.load_contraceptive,
    }
    found = loaders[name]()
    part: dict[str, Any] = {
        column: [missing if cell is None else cell for cell in cells]
        for column, cells in zip(found.feature_names, found.data.T.tolist(), strict=True)
    }
    part["class"] = found.target.tolist()
    facts = {"rows": len(found.target), "columns": list(part)}
    sink.write(part)
    sink.report(facts, f"{name}: {number_of(len(found.target), 'row')}")


def completion(shell: Annotated[Literal["bash", "zsh", "fish"], Parameter(help="Which shell.")], /) -> None:
    """Print the completion script of a shell, for commands and options.

    Examples
    --------
      eigentree completion bash > eigentree-completion.bash
      eigentree completion zsh > _eigentree
      eigentree completion fish > eigentree.fish

    In bash, source the file in ~/.bashrc; in zsh, put it into a folder of $fpath; in fish, into
    ~/.config/fish/completions.
    """
    from eigentree.cli.main import application

    print(application().generate_completion(prog_name="eigentree", shell=shell))
