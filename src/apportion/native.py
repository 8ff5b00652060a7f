"""The compiled kernels, if there are any: ``kernels`` is the module ``apportion._native``, or None.

Without a compiler the package is installed without them, and the NumPy twins of the kernels do the work. A
module that is older than its sources, in a checkout, is refused: what runs must be what is read.
"""

import hashlib
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

_ROOT = Path(__file__).resolve().parents[2]


def sources_digest(root: Path = _ROOT) -> str | None:
    """The digest of the kernels' sources in a checkout, as native/digest.cmake makes it; None without one."""
    files = [*root.glob("native/*.cpp"), *root.glob("native/*.hpp")]
    names = sorted([path.relative_to(root).as_posix() for path in files] + ["CMakeLists.txt"])
    if not files or not (root / "CMakeLists.txt").is_file():
        return None
    lines = (f"{name} {hashlib.sha256((root / name).read_bytes()).hexdigest()}\n" for name in names)
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def check_digest(built: str, sources: str | None) -> None:
    """Refuse a module that was built from other sources than those of the checkout."""
    if sources is not None and built != sources:
        raise ImportError(
            "apportion._native was built from other sources than those in native/; "
            "build it again: make native (or pip install .)"
        )


def load() -> ModuleType | None:
    """The module; None where it was not built. ImportError if it is older than its sources."""
    try:
        _native = import_module("apportion._native")
    except ModuleNotFoundError:
        return None
    check_digest(_native.digest, sources_digest())
    return _native


# Its functions are typed in _native.pyi; whoever calls them has asked whether there are any.
kernels: Any = load()
