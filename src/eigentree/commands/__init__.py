"""The command ``eigentree``, one file per command."""
