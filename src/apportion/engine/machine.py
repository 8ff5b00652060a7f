"""On what machine, and with which libraries, sums are computed: what their last digits depend on."""

import hashlib
import os
import platform
from importlib.metadata import version

import scipy.linalg  # noqa: F401  # so that its BLAS is loaded, and listed
from llvmlite import binding  # type: ignore[import-untyped]
from numba import config
from threadpoolctl import threadpool_info

_LIBRARIES = ("numpy", "scipy", "numba", "llvmlite")
# Of numba: which instructions it uses, and how freely.
_SETTINGS = ("CPU_NAME", "CPU_FEATURES", "ENABLE_AVX", "OPT", "DISABLE_JIT")


def arithmetic() -> dict[str, str]:
    """Versions of the libraries, the kind of processor, and which of its instructions they use, by name.

    The number of threads is not among them: no sum depends on it.

    >>> sorted(arithmetic())
    ['BLAS', 'C library', 'compiler settings', 'llvmlite', 'numba', 'numpy', 'processor', 'scipy']
    """
    features = sorted(name for name, there in binding.get_host_cpu_features().items() if there)
    digest = hashlib.blake2b(" ".join(features).encode(), digest_size=4).hexdigest()
    processor = f"{binding.get_host_cpu_name()} with features {digest}"
    kernels = {
        f"{each['prefix']} {each['version']} for {each.get('architecture', 'any processor')}"
        for each in threadpool_info()
        if each["user_api"] == "blas"
    }
    settings = {name: str(getattr(config, name, "")) for name in _SETTINGS}
    settings["NumPy without"] = os.environ.get("NPY_DISABLE_CPU_FEATURES", "")
    return {
        **{name: version(name) for name in _LIBRARIES},
        "processor": processor,
        "BLAS": ", ".join(sorted(kernels)),
        "C library": " ".join(platform.libc_ver()),
        "compiler settings": ", ".join(f"{name} {value}" for name, value in settings.items()),
    }
