"""One module per command of the shell."""
