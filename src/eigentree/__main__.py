"""The command ``python -m eigentree``, the same as ``eigentree``."""

import sys

from eigentree.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
