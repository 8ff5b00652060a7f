"""Time per private sweep against the number of rows, on simulated events; draws growth.svg.

python -m benchmarks.growth [millions of rows ...]

Users and items grow with the rows (73 rows a user, 500 an item), 64 factors, one second moment for all items.
Least of two sweeps each.
"""

import sys
import time

import matplotlib.pyplot as plt
import numpy as np

import apportion as ap

MILLIONS = (1.0, 2.0, 5.0, 10.0, 20.0, 50.0)
FACTORS = 64


def sweep(rows: int, factors: int) -> float:
    data = ap.simulate_interactions(
        users=rows // 73, items=rows // 500, rows=rows, rating_range=None, popular_tenth=0.86
    )
    stamps: list[float] = []
    model = ap.MatrixFactorization(factors, 3, "implicit", epsilon=1.0, noise_seed=0)
    model.fit(data, on_sweep=lambda *_: stamps.append(time.perf_counter()))
    return float(np.diff(stamps).min())


def main(millions: list[float], factors: int = FACTORS) -> None:
    sweep(100_000, factors)  # warms up
    seconds = []
    for million in millions:
        seconds.append(sweep(int(million * 1e6), factors))
        per_million = seconds[-1] / million
        print(f"{million:g} M rows: {seconds[-1]:.2f} s, {per_million:.3f} s a million", flush=True)
    draw(millions, seconds, factors)


def draw(millions: list[float], seconds: list[float], factors: int) -> None:
    figure, axes = plt.subplots(figsize=(6, 3.6))
    line = max(seconds) / max(millions)
    axes.plot([0, max(millions)], [0, line * max(millions)], ":", color="gray")
    axes.plot(millions, seconds, "o", color="#2a7f62")
    axes.set_xlabel("million rows (dotted: in proportion)")
    axes.set_ylabel(f"seconds a private sweep, {factors} factors")
    axes.set_xlim(0)
    axes.set_ylim(0)
    figure.tight_layout()
    figure.savefig("growth.svg")


if __name__ == "__main__":
    main([float(word) for word in sys.argv[1:]] or list(MILLIONS))
