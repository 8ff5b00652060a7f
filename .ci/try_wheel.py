"""A wheel as someone meets it who has just installed it: seconds until the first model; are there kernels?"""

import subprocess
import sys

IMPORT = """
import time
start = time.perf_counter()
import apportion
print(time.perf_counter() - start)
"""
FIT = """
import time
import apportion as ap
data = ap.simulate_interactions(users=200, items=50, rows=2000)
model = ap.MatrixFactorization(factors=16, epsilon=1.0, delta=1e-5)
start = time.perf_counter()
model.fit(data)
print(time.perf_counter() - start)
"""


def seconds(code: str, runs: int) -> float:
    """What a new process prints, the least of some."""
    command = [sys.executable, "-B", "-W", "ignore", "-c", code]
    return min(float(subprocess.check_output(command, text=True)) for _ in range(runs))


def main(expected: str) -> None:
    """Fail unless the kernels are as expected."""
    first = seconds(FIT, 1)
    sys.stdout.write(
        f"first fit {first:.2f} s, later ones {seconds(FIT, 3):.2f} s, import {seconds(IMPORT, 3):.2f} s\n"
    )
    from apportion.native import kernels

    found = "pure" if kernels is None else "compiled"
    assert found == expected, f"{found} kernels, expected {expected}"


if __name__ == "__main__":
    main(sys.argv[1])
