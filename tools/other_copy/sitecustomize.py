"""Lets PYTHONPATH choose the copy of the package: the finder of the editable installation stands before it."""

import sys

sys.meta_path[:] = [finder for finder in sys.meta_path if type(finder).__module__ != "_editable_skbc_eigentree"]
