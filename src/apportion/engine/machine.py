"""On what machine, and with which libraries, sums are computed: what their last digits depend on."""

import os
import platform
from importlib.metadata import version
from pathlib import Path

import numpy
from threadpoolctl import threadpool_info


def arithmetic() -> dict[str, str]:
    """Versions of the libraries, the kind of processor, and which of its instructions they use, by name.

    The number of threads is not among them: no sum depends on it.

    >>> sorted(arithmetic())
    ['BLAS', 'C library', 'NumPy without', 'numpy', 'processor', 'scipy']
    """
    import scipy.linalg  # so that its BLAS is loaded, and listed

    ours = [Path(module.__file__ or "").parents[1] for module in (numpy, scipy)]
    libraries = [each for each in threadpool_info() if each["user_api"] == "blas"]
    # Other packages bring libraries of their own, and it is no matter whether these are loaded.
    used = [
        each
        for each in libraries
        if any(
            Path(each["filepath"]).is_relative_to(place / name)
            for place in ours
            for name in ("numpy", "scipy", "numpy.libs", "scipy.libs")
        )
    ]
    blas = {
        f"{each['prefix']} {each['version']} for {each.get('architecture', 'any processor')}"
        for each in used or libraries
    }
    return {
        **{name: version(name) for name in ("numpy", "scipy")},
        "processor": platform.machine(),
        "BLAS": ", ".join(sorted(blas)),
        "C library": " ".join(platform.libc_ver()),
        "NumPy without": os.environ.get("NPY_DISABLE_CPU_FEATURES", ""),
    }
