from tests.fuzz.harness import fuzz

__all__ = ["fuzz"]
