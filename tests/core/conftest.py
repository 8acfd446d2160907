"""What the tests of the compiled core share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from eigentree.core import _native


@pytest.fixture(params=_native.all_instructions())
def instructions(request: pytest.FixtureRequest) -> Iterator[str]:
    """Every instruction set of this processor in turn."""
    before = _native.instructions()
    _native.use_instructions(request.param)
    yield request.param
    _native.use_instructions(before)
