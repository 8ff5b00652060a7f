"""Do hyper-parameters decide whose neighbors survive? AdaDPALS and DPALS tail under the same settings.

python -m benchmarks.quality.overlap ml-1m.zip [--trials 24] [--epsilon 20]

A random search on MovieLens-1M (top-k, one split): in every trial both methods get the same settings. Prints
the share of each item's 20 nearest neighbors that ALS has, too, by popularity (tail first), and validation
Recall@20; then the range over the trials, and how often AdaDPALS is ahead.
"""

import argparse
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from apportion.studies.benchmark import BUCKETS, Case, read_benchmarks
from apportion.studies.neighbors import EXPONENT, Neighbors

CASES = {"AdaDPALS": EXPONENT, "DPALS tail": None}


def draw(rng: np.random.Generator) -> dict[str, Any]:
    """Settings within what the studies' own settings span."""

    def between(low: float, high: float) -> float:
        return float(np.exp(rng.uniform(np.log(low), np.log(high))))

    return {
        "factors": int(rng.choice([8, 16, 32, 64])),
        "sweeps": int(rng.integers(2, 6)),
        "bounds__feature": between(0.03, 0.4),
        "regularization__items": between(0.3, 10),
        "regularization__users": between(0.5, 8),
        "regularization__unobserved_weight": between(0.05, 0.5),
        "solver__gram_share": float(rng.choice([0.05, 0.1, 0.2, 0.5])),
        "solver__noise_ridge": float(rng.choice([0.25, 0.5, 1.0])),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("archive", type=Path)
    parser.add_argument("--trials", type=int, default=24)
    parser.add_argument("--epsilon", type=float, default=20.0)
    given = parser.parse_args()
    [benchmark] = read_benchmarks("ml-1m", given.archive, "top-k")
    study, split = Neighbors(benchmark, {}, seeds=1), benchmark.split(0)
    reference = benchmark.model(Case("ALS")).fit(split.train)
    found: dict[str, list[list[float]]] = {name: [] for name in CASES}
    rng = np.random.default_rng(0)
    for trial in range(-1, given.trials):
        settings = draw(rng) if trial >= 0 else {}
        for name, exponent in CASES.items():
            model = benchmark.model(Case(name, given.epsilon, exponent)).set_params(**settings)
            shares = study.overlap(model.fit(split.train), reference, split)
            values = [*shares.values(), float(split.scores(model)["validation"])]
            print("tuned" if trial < 0 else trial, name, *(f"{value:.3f}" for value in values))
            if trial >= 0:
                found[name].append(values)
    results = {name: np.array(values) for name, values in found.items()}
    for name, shown in results.items():
        lowest, highest = shown.min(axis=0), shown.max(axis=0)
        spans = [f"{low:.3f} to {high:.3f}" for low, high in zip(lowest, highest, strict=True)]
        print(f"{name}, range by bucket and of recall:", ", ".join(spans))
    ahead: NDArray[Any] = (results["AdaDPALS"] > results["DPALS tail"]).sum(axis=0)
    print(
        f"AdaDPALS ahead in {ahead[:BUCKETS]} of {given.trials} trials by bucket, in recall {ahead[-1]}"
    )


if __name__ == "__main__":
    main()
