"""Which engine a training runs on: the caller's choice, never a consequence of private data."""

import warnings
from collections.abc import Callable
from functools import cache

from apportion.engine.base import Engine
from apportion.engine.cpu import CpuEngine
from apportion.engine.reference import ReferenceEngine
from apportion.errors import ParameterError
from apportion.native import kernels


def _best() -> Engine:
    """The compiled engine; the reference engine where nothing is compiled."""
    if kernels is not None:
        return CpuEngine()
    _say_what_is_missing()
    return ReferenceEngine()


@cache
def _say_what_is_missing() -> None:
    """Once: how long a fit takes depends on the data, whether this is said does not."""
    warnings.warn(
        "without compiled kernels NumPy does their work, many times slower; "
        "apportion doctor says what to install",
        stacklevel=2,
    )


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
