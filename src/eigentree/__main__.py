"""The command ``python -m eigentree``, the same as ``eigentree``."""

import signal
import sys

__all__ = ["run"]


def run() -> int:
    """Return the exit code of the command."""
    # While modules are imported, an interrupt ends this process as it does others: without a traceback.
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from eigentree.cli.main import main

    return main()


if __name__ == "__main__":
    sys.exit(run())
