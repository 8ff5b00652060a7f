"""What the paper writes beside what we do instead, one choice at a time, at the same (epsilon, delta).

python -m benchmarks.quality.written [--epsilon 1] [--seeds 3] [--weights-only] [ml-1m.zip]

On the tasks of ``apportion reproduce synthetic`` (skew a = 1, 100 tasks, test error): weights scaled for all
users alike and clipped, with c(n) = log n (equation 12), against weights scaled user by user; and the steps
and step sizes of Theorem 3.12, against fifty steps. On MovieLens-1M, if its archive is given, clipped weights
in AdaDPALS (test RMSE). Means and standard errors over seeds, each with its own data and noise.
"""

import argparse
import math
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

import apportion as ap
from apportion.studies.benchmark import Case, read_benchmarks
from apportion.studies.metrics import rmse

USERS = 10_000
DELTA = 1e-5
COUNTS = ap.PublicCounts()
Model = ap.MultiTaskRidge | ap.MultiTaskDescent
Train = Callable[[ap.TaskData, int], Model]


def allocation(exponent: float, mode: str) -> ap.AdaptiveWeights:
    if mode == "clip":
        return ap.AdaptiveWeights(exponent, "clip", COUNTS, USERS)
    return ap.AdaptiveWeights(exponent, counts=COUNTS)


def weights(epsilon: float) -> Iterator[tuple[str, Train]]:
    """Ridge regression with ours against the noise of A_i, and Algorithm 1 as written."""
    for mode in ("normalize", "clip"):

        def ridge(data: ap.TaskData, seed: int, mode: str = mode) -> Model:
            return ap.MultiTaskRidge(
                epsilon,
                DELTA,
                statistics="per-task",
                allocation=allocation(0.5, mode),
                noise_seed=seed,
            ).fit(data)

        yield f"ridge, {mode}", ridge
    for mode, users in (("normalize", None), ("clip", USERS)):

        def written(data: ap.TaskData, seed: int, users: int | None = users) -> Model:
            return ap.presets.algorithm_1(
                epsilon, DELTA, users=users, counts=COUNTS, noise_seed=seed
            ).fit(data)

        yield f"Algorithm 1, {mode}", written


def schedules(epsilon: float) -> Iterator[tuple[str, Train]]:
    """Theorem 3.12 (a), and (b) with lambda 1 and 0.1; our default."""
    for penalty in (0.0, 1.0, 0.1):

        def theorem(data: ap.TaskData, seed: int, penalty: float = penalty) -> Model:
            return ap.presets.algorithm_2(
                epsilon,
                DELTA,
                users=USERS,
                regularization=penalty,
                counts=COUNTS,
                noise_seed=seed,
            ).fit(data)

        yield f"Theorem 3.12 {f'(b), lambda {penalty:g}' if penalty else '(a)'}", theorem

    def default(data: ap.TaskData, seed: int) -> Model:
        return ap.MultiTaskDescent(epsilon, DELTA, noise_seed=seed).fit(data)

    yield "MultiTaskDescent()", default


def show(name: str, values: list[float], seconds: float) -> None:
    error = np.std(values, ddof=1) / math.sqrt(len(values)) if len(values) > 1 else math.nan
    print(
        f"{name:32} {np.mean(values):.4f} +- {error:.4f}   {seconds / len(values):6.1f} s each",
        flush=True,
    )


def synthetic(seeds: int, trainings: Iterator[tuple[str, Train]]) -> None:
    sets = [
        ap.simulate_tasks(users=USERS, skew=1.0, seed=seed).split(test=0.2, seed=seed)
        for seed in range(seeds)
    ]
    show("predicting zero", [float(np.sqrt(np.mean(test.labels**2))) for _, test in sets], 0.0)
    for name, train in trainings:
        start = time.perf_counter()
        errors = [rmse(train(data, seed), test) for seed, (data, test) in enumerate(sets)]
        show(name, errors, time.perf_counter() - start)


def movielens(path: Path, epsilon: float, seeds: int) -> None:
    [benchmark] = read_benchmarks("ml-1m", path, "rating")
    users = len(benchmark.data.by_user.start) - 1
    for mode in ("normalize", "clip"):
        start, errors = time.perf_counter(), []
        for seed in range(seeds):
            split = benchmark.split(seed)
            model = benchmark.model(Case("AdaDPALS", epsilon), seed)
            if mode == "clip":
                model.set_params(allocation__mode="clip", allocation__users=users)
            errors.append(float(split.scores(model.fit(split.train))["test"]))
        show(f"ml-1m, AdaDPALS, {mode}", errors, time.perf_counter() - start)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("archive", type=Path, nargs="?")
    parser.add_argument("--epsilon", type=float, default=1.0)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--weights-only", action="store_true")
    given = parser.parse_args()
    warnings.simplefilter("ignore", UserWarning)  # of many steps, and of small tasks
    print(f"test RMSE at epsilon {given.epsilon:g}, skew a = 1")
    synthetic(given.seeds, weights(given.epsilon))
    if not given.weights_only:
        synthetic(given.seeds, schedules(given.epsilon))
    if given.archive:
        movielens(given.archive, given.epsilon, given.seeds)


if __name__ == "__main__":
    main()
