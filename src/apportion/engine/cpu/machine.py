"""On what machine, and with which libraries, sums are computed: what their last digits depend on."""

import hashlib
from importlib.metadata import version

from llvmlite import binding  # type: ignore[import-untyped]

_LIBRARIES = ("numpy", "scipy", "numba", "llvmlite")


def arithmetic() -> dict[str, str]:
    """Versions of the libraries and the kind of processor, by name.

    >>> sorted(arithmetic())
    ['llvmlite', 'numba', 'numpy', 'processor', 'scipy']
    """
    features = sorted(name for name, there in binding.get_host_cpu_features().items() if there)
    digest = hashlib.blake2b(" ".join(features).encode(), digest_size=4).hexdigest()
    processor = f"{binding.get_host_cpu_name()} with features {digest}"
    return {**{name: version(name) for name in _LIBRARIES}, "processor": processor}
