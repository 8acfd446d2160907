"""The command ``python -m eigentree``, the same as ``eigentree``."""

import sys

from eigentree.commands.main import main

if __name__ == "__main__":
    sys.exit(main())
