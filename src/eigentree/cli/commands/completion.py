"""``eigentree completion``: shell completion of commands and options."""

from typing import Annotated, Literal

from cyclopts import Parameter

__all__ = ["completion"]


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
