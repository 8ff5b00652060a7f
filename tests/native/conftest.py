"""What the tests of compiled kernels share."""

from collections.abc import Iterator

import pytest

from apportion.native import kernels

SETS = kernels.isas() if kernels else []


@pytest.fixture(params=SETS)
def isa(request: pytest.FixtureRequest) -> Iterator[str]:
    """Each instruction set that the machine has, one after the other."""
    assert kernels is not None
    before = kernels.isa()
    kernels.use_isa(request.param)
    yield request.param
    kernels.use_isa(before)
