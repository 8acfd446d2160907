"""``eigentree completion``: shell completion of commands and options."""

from typing import Annotated, Literal

from cyclopts import App, Parameter

from eigentree.cli.terminal_output import show

__all__ = ["app"]

app = App(
    name="completion",
    help="Print the completion script of a shell, for commands and options.",
    help_epilogue="""\
Examples

  eigentree completion bash > eigentree-completion.bash
  eigentree completion zsh > _eigentree
  eigentree completion fish > eigentree.fish

In bash, source the file in ~/.bashrc; in zsh, put it into a folder of $fpath; in fish, into
~/.config/fish/completions.""",
)


@app.default
def completion(shell: Annotated[Literal["bash", "zsh", "fish"], Parameter(help="Which shell.")], /) -> None:
    """Print a completion script."""
    from eigentree.cli.main import application

    show(application().generate_completion(prog_name="eigentree", shell=shell))
