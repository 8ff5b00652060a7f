"""Peak memory of a private training beyond its data and factors: `python -m benchmarks.memory [factors]`.

On Linux: the peak of the resident set is cleared once the data is there, and read when a training of one
sweep is done. The users' vectors and the items, in float64, count as factors.
"""

import sys
from pathlib import Path

import apportion as ap
from apportion.data.simulate import SHAPES


def status(name: str) -> float:
    """An entry of /proc/self/status, in MB."""
    lines = Path("/proc/self/status").read_text().splitlines()
    [line] = [line for line in lines if line.startswith(name)]
    return int(line.split()[1]) / 1000


def main(factors: int = 128, like: str = "ml-20m") -> None:
    """Print the peaks with one second moment for all items, and with one for each."""
    small = ap.simulate_interactions(users=2000, items=300, rows=20_000)
    data = ap.simulate_interactions(**SHAPES[like])
    vectors = 8e-6 * factors * (data.users + data.items)
    for solver in (ap.SufficientStatistics("shared"), ap.SufficientStatistics("per-item")):
        model = ap.MatrixFactorization(factors, 1, "implicit", epsilon=1.0, solver=solver)
        model.fit(small)  # warms up
        Path("/proc/self/clear_refs").write_text("5")
        before = status("VmRSS")
        model.fit(data)
        beyond = status("VmHWM") - before - vectors
        print(
            f"{solver.matrices}: {beyond:.0f} MB beyond data and factors ({vectors:.0f} MB)",
            flush=True,
        )


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 128)
