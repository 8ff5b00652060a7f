"""Which engine a training runs on: the caller's choice, never a consequence of private data."""

from collections.abc import Callable

from apportion.engine.base import Engine
from apportion.engine.cpu import CpuEngine
from apportion.engine.reference import ReferenceEngine
from apportion.errors import ParameterError
from apportion.native import kernels


def _best() -> Engine:
    """The compiled engine; the reference engine where nothing is compiled."""
    return ReferenceEngine() if kernels is None else CpuEngine()


ENGINES: dict[str, Callable[[], Engine]] = {
    "auto": _best,
    "cpu": CpuEngine,
    "reference": ReferenceEngine,
}


def find_engine(engine: str | Engine) -> Engine:
    """An engine by its name, or the engine itself.

    >>> find_engine("reference")
    ReferenceEngine()
    """
    if isinstance(engine, Engine):
        return engine
    if not isinstance(engine, str) or engine not in ENGINES:
        names = ", ".join(f'"{name}"' for name in ENGINES)
        raise ParameterError(f"engine must be an Engine or one of {names}, got {engine!r}")
    return ENGINES[engine]()
