"""Warming up compiles all there is, for small and for large alphabets alike."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

SCRIPT = """
import pkgutil
from importlib import import_module

import eigentree.core
from eigentree.estimators.precompile import STEPS, warm_up

assert len(list(warm_up())) == STEPS
for module in pkgutil.walk_packages(eigentree.core.__path__, "eigentree.core."):
    if module.ispkg:
        continue
    kernel = import_module(module.name)
    for name in kernel.__all__:
        entry = getattr(kernel, name)
        # Helpers are compiled with the entries that call them.
        if hasattr(entry, "signatures") and not entry.targetoptions.get("no_cpython_wrapper"):
            known = {str(signature) for signature in entry.signatures}
            wider = {signature.replace("uint8", "uint16") for signature in known}
            print(module.name, name, len(known), *(wider - known))
"""


@pytest.mark.skipif(os.environ.get("NUMBA_DISABLE_JIT") == "1", reason="nothing is compiled")
def test_every_entry_of_the_kernels_is_compiled_for_codes_of_one_byte_and_of_two() -> None:
    """In a process of its own, where nothing else has compiled anything."""
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True)
    lines = [line.split(maxsplit=3) for line in done.stdout.splitlines()]
    for module, name, count, *lacking in lines:
        assert int(count) > 0, f"{module}.{name} was not called"
        assert not lacking, f"{module}.{name} lacks {lacking}"
    assert len(lines) > 12, "the kernels were compiled"
    assert ["eigentree.core.trees.estep", "expected", "3"] in lines, "few hidden states, many in either precision"
