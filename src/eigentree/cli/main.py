"""The command ``eigentree``: one file per command, gathered here and loaded when it is called."""

import inspect
import os
import re
import signal
import sys
import warnings
from collections.abc import Sequence
from importlib import import_module
from typing import Any, Literal, NamedTuple, get_args, get_origin

from cyclopts import App, CycloptsError, Group
from cyclopts.exceptions import (
    CoercionError,
    MissingArgumentError,
    UnknownCommandError,
    UnknownOptionError,
    UnusedCliTokensError,
)

import eigentree
from eigentree.cli.arguments import UsageError
from eigentree.cli.output import note
from eigentree.errors import EigentreeError, did_you_mean, what_there_is

__all__ = ["COMMANDS", "application", "main"]


class Command(NamedTuple):
    """A command, its line of ``--help``, and its function, in a module that is loaded when it is called."""

    name: str
    group: str
    help: str
    place: str
    below: tuple[str, ...] = ()


COMMANDS = (
    Command("fit", "Fit", "fit a model to rows", "fit:fit"),
    Command("select", "Fit", "choose the number of classes or states, and a structure", "select:select"),
    Command("compare", "Fit", "EM, spectral and simpler models on held-out rows", "compare:compare"),
    Command("classify", "Fit", "train a classifier, and apply it", "classify:app", ("train", "apply")),
    Command(
        "grammar",
        "Fit",
        "learn a grammar from trees; score, parse, sample",
        "trees.grammar_commands:app",
        ("fit", "score", "parse", "sample"),
    ),
    Command(
        "hidden-tree",
        "Fit",
        "hidden states of the nodes of trees: fit, score, decode, impute",
        "trees.hidden_tree_commands:app",
        ("fit", "score", "decode", "impute"),
    ),
    Command("inspect", "Use", "the contents of a file of eigentree", "inspect:inspect"),
    Command("goodness", "Use", "how well a model fits, and how certain classes are", "goodness:goodness"),
    Command("estimates", "Use", "parameters with standard errors and intervals", "parameter_estimates:estimates"),
    Command("report", "Use", "an HTML page about a model, and about rows beside it", "report_page:report"),
    Command("score", "Use", "the log probability of each row", "score:score"),
    Command(
        "predict", "Use", "a column, or a hidden variable, from the other cells of each row", "predict:predict"
    ),
    Command(
        "three-step",
        "Use",
        "covariates and outcomes of latent classes, with standard errors and tests",
        "parameter_estimates:three_step",
    ),
    Command("impute", "Use", "fill missing cells", "impute:impute"),
    Command("decode", "Use", "the most probable hidden states of each row", "decode:decode"),
    Command("sample", "Use", "sample new rows", "sample:sample"),
    Command("count", "Count", "count rows for a spectral model, here or on many machines", "saved_counts:count"),
    Command("merge", "Count", "add up saved counts", "saved_counts:merge"),
    Command("dataset", "More", "write a table to try things on", "extras:dataset"),
    Command("completion", "More", "completion of commands and options for your shell", "extras:completion"),
)

REPLACEMENTS = (
    (
        r"drop the column, or, of a measurement, cut it .* pandas\.qcut",
        "leave it out with --drop, or, of a measurement, cut it into bins with --numeric quantiles",
    ),
    (r" \(eigentree\.open_table[^)]*\)", ""),
    (
        r"cut it into bins with numeric='quantiles'.*if they are labels",
        "cut it into bins with --numeric quantiles, or leave it out with --drop",
    ),
    (
        r"fit with all of them as categories=, or take what is unknown as missing with handle_unknown='missing'",
        "take what is unknown as missing with --unknown missing, or say what marks a missing cell, as in "
        "--missing '?'",
    ),
    (r"so its states are unknown; drop it.*", "so its states are unknown; leave it out with --drop"),
    (r"; give all of them as categories=\{.*", "; say as many under [states], or leave it to the columns"),
    (
        r"drop the column, or, of a measurement, give its density as emissions=\{'([^']+)': '(\w+)'\}",
        r"leave it out with --drop, or, of a measurement, give its density as with --emissions \1=\2",
    ),
    (
        r"take what is none as missing with handle_unknown='missing'",
        "take what is none as missing with --unknown missing",
    ),
    (r": drop the column, or join labels", "; leave it out with --drop"),
    (r"; raise max_iter, or tol if less will do", ""),
    (r"; finish_rows=.*", ""),
    (r"\bsample_weight\b", "--weights"),
    (r"or give categories=\{.* where it is none", "or text, such as 'too much', where it is none"),
    (r"or give emissions=\{'([^']+)': '(\w+)'\} where it is none", r"or give --emissions \1=\2 where it is none"),
    (r"often encoding='latin-1' or 'cp1252'", "often --encoding cp1252 or latin-1"),
    (r"delimiter is given as delimiter=", "delimiter is given as --delimiter"),
    (r"\b(decimal|thousands)=('[^']+')", r"--\1 \2"),
    (r"\b(structure|encoding|numeric)='([^']+)'", r"--\1 \2"),
)
"""The advice of the library, and that of the command line."""

FOR_ALL = ("--help", "--version")
"""Options that every command has."""

EXAMPLES = """\
Rows come from CSV, TSV, JSON lines or Parquet, and - is a pipe. Begin with

  eigentree dataset mushrooms -o mushrooms.csv
  eigentree fit mushrooms.csv --structure mixture --hidden 4 -o model.eigentree
  eigentree predict model.eigentree mushrooms.csv --target class | head

and eigentree COMMAND --help for more."""


def application(called: str | None = None) -> App:
    """Return the command with all commands under it, none of them loaded; the one called has its longer help."""
    groups = list(dict.fromkeys(command.group for command in COMMANDS))
    made = {name: Group(name, sort_key=place) for place, name in enumerate(groups)}
    app = App(
        name="eigentree",
        help=(eigentree.__doc__ or "").splitlines()[0],
        help_epilogue=EXAMPLES,
        help_format="plaintext",
        version=f"eigentree {eigentree.__version__}",
        # Where --help and --version stand, too.
        group_commands=made[groups[-1]],
    )
    for place, command in enumerate(COMMANDS):
        module, _, name = command.place.partition(":")
        more: dict[str, Any] = {"help": command.help}
        if command.name == called and not command.below:
            text = inspect.getdoc(getattr(import_module(f"eigentree.cli.commands.{module}"), name)) or ""
            about, _, examples = text.partition("\n\nExamples\n--------\n")
            more = {"help": " ".join(about.split()), "help_epilogue": f"Examples\n\n{examples}"}
        elif command.name == called:
            more = {}
        app.command(
            f"eigentree.cli.commands.{command.place}",
            name=command.name,
            group=None if command.group == groups[-1] else made[command.group],
            sort_key=place,
            **more,
        )
    return app


def main(arguments: Sequence[str] | None = None) -> int:
    """Return the exit code of the command: 0, 1 when something failed, 2 for an error in the arguments.

    Where a signal ended it, or ended a fit that keeps what it has, that is 128 more than the signal: 130 or 143.
    """
    signals = _caught_signals() if arguments is None else []
    tokens = list(sys.argv[1:] if arguments is None else arguments)
    if sys.stdout is None:
        # The shell closed it (>&-).
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115
    try:
        with warnings.catch_warnings():
            # Other warnings, such as those of old names, are for those who write programs.
            warnings.simplefilter("ignore")
            warnings.simplefilter("always", RuntimeWarning)
            warnings.simplefilter("always", UserWarning)
            warnings.showwarning = _show_warning
            try:
                code = _called(tokens)
            except BaseException:
                # A signal that comes while a compiled module is imported ends that in another error.
                if not signals:
                    raise
                code = 0
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader, such as head, has enough.
        if arguments is None:
            _drop_output()
        return 0
    except CycloptsError as error:
        return _usage(_mistyped(tokens) or _sentence(error), error.command_chain)
    except UsageError as error:
        known = tokens[:1] and tokens[0] in {command.name for command in COMMANDS}
        # An option that is mistyped may have been taken for the name of a file.
        return _usage((_mistyped(tokens) if known else None) or str(error), tokens[:1] if known else None)
    except (EigentreeError, OSError, MemoryError) as error:
        if arguments is None and isinstance(error, OSError):
            _drop_output()
        return _failed(error)
    except KeyboardInterrupt:
        note("stopped")
        return 130
    if signals and signals[0] == signal.SIGINT:
        note("stopped")
    return 128 + signals[0] if signals else code


def _caught_signals() -> list[int]:
    """Return a list of the signals that came to end the command, each of which is raised where it comes.

    Whatever is being written is then removed; a process that these signals are hidden from stays so.
    """
    came: list[int] = []

    def stop(number: int, _: Any) -> None:
        came.append(number)
        # Estimators keep what they have at an interrupt; at the end of the process nothing goes on.
        raise KeyboardInterrupt if number == signal.SIGINT else SystemExit(128 + number)

    def lost(what: "sys.UnraisableHookArgs") -> None:
        # Within a callback of Python's own, such as those of imports, it goes no further; the command ends later.
        if not (came and isinstance(what.exc_value, KeyboardInterrupt | SystemExit)):
            sys.__unraisablehook__(what)

    for number in (signal.SIGINT, signal.SIGTERM):
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, stop)
    sys.unraisablehook = lost
    return came


def _drop_output() -> None:
    """Discard what is still in the buffer of standard output, which would raise another error at the end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _called(tokens: Sequence[str]) -> int:
    if not tokens:
        raise UsageError("name a command, such as eigentree fit; eigentree --help lists them")
    if tokens[0] == "reproduce":
        raise UsageError(
            "reproduce is now python -m benchmarks.paper, in a checkout of the repository: see --help there"
        )
    command = next((command for command in COMMANDS if command.name == tokens[0]), None)
    if command is not None and command.below and len(tokens) == 1:
        name = command.name
        raise UsageError(f"{name} is followed by {' or '.join(command.below)}; see eigentree {name} --help")
    result = application(tokens[0])(tokens, exit_on_error=False, print_error=False, result_action="return_value")
    return result if isinstance(result, int) else 0


def _usage(sentence: str, chain: Sequence[str] | None) -> int:
    called = " ".join(["eigentree", *(chain or ())])
    more = "" if "--help" in sentence else f" (see {called} --help)"
    note(f"{called}: {' '.join(sentence.split())}{more}")
    return 2


def _failed(error: BaseException) -> int:
    if isinstance(error, MemoryError):
        sentence = "there is not enough memory for this; try fewer hidden states, or fewer rows"
    elif isinstance(error, OSError) and error.filename is not None:
        sentence = f"{str(error.filename)!r}: {error.strerror}"
    elif isinstance(error, OSError) and error.strerror is not None:
        sentence = f"standard input or output: {error.strerror}"
    else:
        sentence = in_options(str(error))
    note(f"eigentree: {' '.join(sentence.split())}")
    return 1


def _sentence(error: CycloptsError) -> str:
    """Return a sentence about what is wrong with the arguments."""
    error.verbose = False
    left = error.unused_tokens or []
    if isinstance(error, UnknownCommandError):
        given = (left or [""])[0]
        # Its own text would load every command.
        chain = error.command_chain or ()
        below = {command.name: command.below for command in COMMANDS}
        known = below[chain[0]] if chain else tuple(below)
        return f"there is no command {given!r}{what_there_is(given, known)}"
    if isinstance(error, UnknownOptionError):
        return f"there is no option {error.token.keyword}"
    if isinstance(error, UnusedCliTokensError):
        rest = " ".join(left)
        return f"there is nothing to do with {rest!r}; is it an option without its --, or a name with a space?"
    if isinstance(error, MissingArgumentError) and error.argument is not None:
        name = error.keyword or error.argument.name
        if error.argument.tokens or error.keyword:
            return f"{name} needs a value"
        return f"{name} is missing"
    if isinstance(error, CoercionError) and error.token and get_origin(error.target_type) is Literal:
        choices = get_args(error.target_type)
        value, name = error.token.value, error.token.keyword or (error.argument.name if error.argument else "")
        return f"{name} is {', '.join(choices[:-1])} or {choices[-1]}, not {value!r}{did_you_mean(value, choices)}"
    return str(error).rstrip(".").removeprefix("Invalid value for ")


def _mistyped(tokens: Sequence[str]) -> str | None:
    """Return a sentence about the first long option that the command does not have: that may be what is missing."""
    app = application(tokens[0])
    for token in tokens[:2]:
        if token not in app:
            if app.default_command is None and not token.startswith("-"):
                # It is the command that is mistyped, and the options are its own.
                return None
            break
        app = app[token]
    own = app.assemble_argument_collection() if app.default_command is not None else ()
    known = [*(name for argument in own for name in argument.names), *FOR_ALL]
    for token in tokens:
        name = token.partition("=")[0]
        if name == "--":
            break
        if name.startswith("--") and name not in known:
            hint = did_you_mean(name, [each for each in known if each.startswith("--")])
            return f"there is no option {name}{hint}".replace("'", "")
    return None


def _show_warning(message: Warning | str, *_: Any, **__: Any) -> None:
    note(f"eigentree: note: {' '.join(in_options(str(message)).split())}")


def in_options(sentence: str) -> str:
    """Return an error message of the library with its advice in options.

    Examples
    --------
    >>> in_options("column 'a' has no known cell, so its states are unknown; drop it, or …")
    "column 'a' has no known cell, so its states are unknown; leave it out with --drop"
    """
    for theirs, ours in REPLACEMENTS:
        # Each line of a message is about one column.
        sentence = re.sub(theirs, ours, sentence)
    return sentence


if __name__ == "__main__":
    sys.exit(main())
