"""Quality at the same (epsilon, delta): the default model against the paper's AdaDPALS.

python -m benchmarks.quality.published ml-1m.zip [gowalla.npz]
python -m benchmarks.quality.published jester.npz
python -m benchmarks.quality.published --ablation ml-1m.zip

On MovieLens-1M both protocols of ``apportion reproduce``; the paper's method has the settings that were
tuned for it at each epsilon (the nearest at 40), ours is the default. On Gowalla (check-ins:
arrays user and item) the fifth of the items with the most users, taken as public, and 3,000 held-out
users; the paper's method has the settings of MovieLens-1M. On Jester (any file with that in its name) the
tasks of ``apportion reproduce jester``, one ridge regression for each joke: the paper's Algorithm 1 against
the default, both with adaptive weights; errors in units of the ratings, which go from -10 to 10. Mean and
standard error over five runs, each with its own split and noise. The ablation leaves out what the default
does, one thing at a time, and is judged on validation data.
"""

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

import apportion as ap
from apportion.recommend.metrics import ranking_metrics
from apportion.studies import jester as jokes
from apportion.studies.benchmark import BUCKETS, Benchmark, Case, read_benchmarks
from apportion.studies.metrics import rmse, rmse_by_size

EPSILONS = (1.0, 5.0, 20.0, 40.0)
RUNS = 5
DELTA = 1e-5


def ours(feedback: Any, epsilon: float, seed: int) -> ap.MatrixFactorization:
    return ap.MatrixFactorization(
        feedback=feedback, epsilon=epsilon, delta=DELTA, seed=seed, noise_seed=seed
    )


def movielens(path: Path) -> Iterator[tuple[str, str, float, list[float]]]:
    for benchmark in read_benchmarks("ml-1m", path):
        splits = [benchmark.split(seed) for seed in range(RUNS)]
        for epsilon in EPSILONS:
            for name, make in models(benchmark, epsilon).items():
                rows = [
                    split.scores(make(seed).fit(split.train)) for seed, split in enumerate(splits)
                ]
                what = f"ml-1m, {benchmark.protocol}"
                yield what, name, epsilon, [float(row["test"]) for row in rows]
                for bucket in range(BUCKETS):
                    scores = [float(row[f"bucket_{bucket}"]) for row in rows]
                    yield f"{what} {bucket + 1}/{BUCKETS}", name, epsilon, scores


# What the default does, each left out alone.
WITHOUT: dict[str, dict[str, dict[str, Any]]] = {
    "rating": {
        "nothing": {},
        "intercepts": {"offsets__intercept_share": 0.0},
        "whole users clipped": {"solver__clip": "row"},
        "one second moment": {"solver__matrices": "per-item"},
        "forecast": {"factors": 32, "sweeps": 4, "offsets__intercept_share": 0.2},
    },
    "top-k": {
        "nothing": {},
        "one second moment": {"solver__matrices": "per-item"},
        "vectors stretched": {"bounds__normalize": False},
        "weights n^-0.1": {"allocation": ap.AdaptiveWeights(0.25)},
        "forecast": {"factors": 32, "sweeps": 4},
    },
}


def ablation(path: Path) -> Iterator[tuple[str, str, float, list[float]]]:
    for benchmark in read_benchmarks("ml-1m", path):
        splits = [benchmark.split(seed) for seed in range(RUNS)]
        for name, settings in WITHOUT[benchmark.protocol].items():
            for epsilon in EPSILONS:
                rows = (
                    split.scores(
                        ours(benchmark.feedback, epsilon, seed)
                        .set_params(**settings)
                        .fit(split.train)
                    )
                    for seed, split in enumerate(splits)
                )
                scores = [float(row["validation"]) for row in rows]
                yield f"ml-1m, {benchmark.protocol}", f"without {name}", epsilon, scores


def gowalla(path: Path, of_ml_1m: Benchmark) -> Iterator[tuple[str, str, float, list[float]]]:
    with np.load(path, allow_pickle=False) as file:
        data = ap.Interactions(file["user"], file["item"], items="public")
    common = np.argsort(-data.graph.task_sizes(), kind="stable")[: data.items // 5]
    data = data.of_items(np.sort(common))
    splits = [data.hold_out_users(3000, at_least=5, seed=seed) for seed in range(RUNS)]
    for epsilon in (5.0, 20.0, np.inf):
        for name, make in models(of_ml_1m, epsilon).items():
            scores = []
            for seed, (train, held) in enumerate(splits):
                counts = train.graph.task_sizes()
                model = make(seed).fit(train)
                scores.append(ranking_metrics(model, held, counts, k_by_bucket=(20,)).recall)
            yield "gowalla, top-k", name, epsilon, scores


def models(
    benchmark: Benchmark, epsilon: float
) -> dict[str, Callable[[int], ap.MatrixFactorization]]:
    if np.isinf(epsilon):
        return {"not private": lambda seed: benchmark.model(Case("ALS"), seed)}
    return {
        "AdaDPALS": lambda seed: benchmark.model(Case("AdaDPALS", epsilon), seed),
        "the default": lambda seed: ours(benchmark.feedback, epsilon, seed),
    }


def jester(path: Path) -> Iterator[tuple[str, str, float, list[float]]]:
    splits = [jokes.read(path, seed=seed).split(test=0.2, seed=seed) for seed in range(RUNS)]
    methods: dict[str, dict[str, Any]] = {
        "Algorithm 1": {"statistics": "per-task", "allocation": jokes.ALLOCATIONS["adaptive"]},
        "the default": {},
    }
    for epsilon in EPSILONS:
        for name, settings in methods.items():
            overall, tail = [], []
            for seed, (train, test) in enumerate(splits):
                model = ap.MultiTaskRidge(epsilon, DELTA, noise_seed=seed, **settings).fit(train)
                overall.append(jokes.RANGE * rmse(model, test))
                by_size = rmse_by_size(model, test, train.graph.task_sizes(), jokes.BUCKETS)
                tail.append(jokes.RANGE * by_size[0])
            yield "jester, all", name, epsilon, overall
            yield "jester, tail", name, epsilon, tail


def main(paths: list[str]) -> None:
    if not paths:
        sys.exit(__doc__)
    if paths[0] == "--ablation":
        for row in ablation(Path(paths[1])):
            show(*row)
        return
    for path in [path for path in paths if "jester" in Path(path).name]:
        paths = [other for other in paths if other != path]
        for row in jester(Path(path)):
            show(*row)
    if not paths:
        return
    results = movielens(Path(paths[0]))
    for row in results:
        show(*row)
    for path in paths[1:]:
        [top_k] = read_benchmarks("ml-1m", paths[0], "top-k")
        for row in gowalla(Path(path), top_k):
            show(*row)


def show(what: str, name: str, epsilon: float, scores: list[float]) -> None:
    error = np.std(scores, ddof=1) / len(scores) ** 0.5
    print(
        f"{what:<18} epsilon {epsilon:<4g} {name:<12} {np.mean(scores):.4f} +- {error:.4f}",
        flush=True,
    )


if __name__ == "__main__":
    main(sys.argv[1:])
