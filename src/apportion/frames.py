"""polars, as ``pl``, loaded when it is first used: it takes as long to load as all the rest."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import polars as pl
else:

    class _Polars:
        def __getattr__(self, name: str) -> Any:
            return getattr(import_module("polars"), name)

    pl = _Polars()

__all__ = ["pl"]
