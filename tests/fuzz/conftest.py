from tests.fuzz.harness import fuzz
from tests.native.conftest import isa

__all__ = ["fuzz", "isa"]
