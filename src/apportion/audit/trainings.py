"""What is attacked: small trainings of every kind, and users who try to be noticed.

The data is tiny, so that thousands of trainings take seconds. Bounds of sensitivity do not depend on its
size; what a user can move, it can move here.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from apportion.allocation import AdaptiveWeights, PrivateCounts
from apportion.data import Interactions, TaskData
from apportion.privacy import mu_from_epsilon
from apportion.recommend import Bounds, MatrixFactorization, Offsets, PrivateCatalog
from apportion.tasks import MultiTaskDescent, MultiTaskRidge, Steps
from apportion.tasks.losses import squared

Fit = Callable[[Any, int | None], Any]

TASKS, DIMENSION = 6, 2
FEATURE_BOUND, LABEL_BOUND = 1.0, 1.0
RANGE = (1.0, 5.0)
# Others have even ids: the canary is in the middle.
_CANARY = 5
# Counts of users in at most all tasks: one user may reach the bound.
_COUNTS = PrivateCounts(share=0.1, cap=TASKS)
_ALLOCATION = AdaptiveWeights(0.5, counts=_COUNTS)


@dataclass(frozen=True)
class Training:
    """One kind of training, data to train it on, and the same data with one user more.

    Attributes
        fit: trains on the data, with the noise of a seed or, for None, with secret noise.
        without: the data that all have in common.
        canaries: that data with a user who tries to be noticed, by what that user does.
    """

    name: str
    fit: Fit
    without: Any
    canaries: Mapping[str, Any]


@dataclass(frozen=True)
class Crowd:
    """A training in which every canary is alone with its task, and everybody is a canary.

    Attributes
        data: of those canaries whose coins, [canaries], say so.
    """

    name: str
    fit: Fit
    data: Callable[[Any], Any]


def trainings(epsilon: float, delta: float, seed: int) -> dict[str, Training]:
    """All that can be attacked, by name."""
    rng = np.random.default_rng(seed)
    budget: dict[str, Any] = {"epsilon": epsilon, "delta": delta}
    bounds = {"feature_bound": FEATURE_BOUND, "label_bound": LABEL_BOUND}
    linear: dict[str, Any] = {**budget, **bounds, "allocation": _ALLOCATION}
    factors: dict[str, Any] = {
        **budget,
        "factors": DIMENSION,
        "sweeps": 2,
        "bounds": Bounds(feature=0.5),
        "seed": seed,
    }
    loss = squared()
    made = [
        Training(
            "ridge",
            lambda data, noise: MultiTaskRidge(**linear, noise_seed=noise).fit(data),
            *_task_data(rng),
        ),
        Training(
            "ridge-per-task",
            lambda data, noise: MultiTaskRidge(
                **linear, statistics="per-task", noise_seed=noise
            ).fit(data),
            *_task_data(rng),
        ),
        Training(
            "descent",
            lambda data, noise: MultiTaskDescent(
                loss=loss,
                **linear,
                gradient_bound=0.02,
                steps=Steps(2, clip="row"),
                noise_seed=noise,
            ).fit(data),
            *_task_data(rng, length=0.05),
        ),
        Training(
            "ratings",
            lambda data, noise: MatrixFactorization(
                **factors,
                allocation=_ALLOCATION,
                offsets=Offsets(center="global", mean_share=0.2, intercept_share=0.3),
                noise_seed=noise,
            ).fit(data),
            *_ratings(rng),
        ),
        Training(
            "events",
            lambda data, noise: MatrixFactorization(
                **factors,
                feedback="implicit",
                catalog=PrivateCatalog(share=0.3, cap=TASKS),
                noise_seed=noise,
            ).fit(data),
            *_events(rng, epsilon, delta),
        ),
    ]
    return {training.name: training for training in made}


def crowds(epsilon: float, delta: float, canaries: int, seed: int) -> dict[str, Crowd]:
    """Trainings for many canaries at once, by the name of the training that they go with."""
    ids = np.arange(canaries)
    allocation = AdaptiveWeights(0.5, counts=PrivateCounts(share=0.1, cap=1))
    features = np.tile([[FEATURE_BOUND, 0.0]], (canaries, 1))
    labels = np.full(canaries, LABEL_BOUND)

    def examples(coins: Any) -> TaskData:
        return TaskData(ids[coins], ids[coins], features[coins], labels[coins], tasks=canaries)

    def events(coins: Any) -> Interactions:
        return Interactions(ids[coins], ids[coins], items=ids)

    def ridge(data: TaskData, noise: int | None) -> MultiTaskRidge:
        return MultiTaskRidge(
            epsilon, delta, statistics="per-task", allocation=allocation, noise_seed=noise
        ).fit(data)

    def factors(data: Interactions, noise: int | None) -> MatrixFactorization:
        return MatrixFactorization(
            DIMENSION, sweeps=1, feedback="implicit", epsilon=epsilon, delta=delta,
            allocation=allocation, seed=seed, noise_seed=noise,
        ).fit(data)  # fmt: skip

    return {
        "ridge-per-task": Crowd("ridge-per-task", ridge, examples),
        "events": Crowd("events", factors, events),
    }


def _task_data(
    rng: np.random.Generator, length: float = 1.0
) -> tuple[TaskData, dict[str, TaskData]]:
    """Eight users of all tasks but the last, with features of this length along one direction."""
    user, task = np.nonzero(rng.random((8, TASKS - 1)) < 0.7)
    features = length * np.array([1.0, 0.1]) * rng.uniform(0.5, 1.0, (len(user), 1))
    base: dict[str, Any] = {
        "user": 2 * user,
        "task": task,
        "features": features,
        "labels": np.ones(len(user)),
    }

    def joined(tasks: Any, features: Any, labels: Any) -> TaskData:
        extra: dict[str, Any] = {"user": np.full(len(tasks), _CANARY), "task": tasks}
        extra |= {"features": features, "labels": labels}
        both: dict[str, Any] = {name: np.concatenate([base[name], extra[name]]) for name in base}
        return TaskData(**both, tasks=TASKS)

    every = np.arange(TASKS)
    at_bound = np.tile([[FEATURE_BOUND, 0.0]], (TASKS, 1))
    label = np.full(TASKS, -LABEL_BOUND)
    in_turn = np.where(every % 2, LABEL_BOUND, -LABEL_BOUND)
    return TaskData(**base, tasks=TASKS), {
        "at the bounds in every task": joined(every, at_bound, label),
        "far beyond the bounds": joined(every, 20 * at_bound, 20 * in_turn),
        "alone in a task": joined(every[-1:], at_bound[-1:], label[-1:]),
        "every row three times": joined(
            np.repeat(every, 3), np.repeat(at_bound, 3, axis=0), np.repeat(in_turn, 3)
        ),
    }


def _ratings(rng: np.random.Generator) -> tuple[Interactions, dict[str, Interactions]]:
    """Eight users of all items but the last."""
    user, item = np.nonzero(rng.random((8, TASKS - 1)) < 0.7)
    base = 2 * user, item, rng.integers(2, 5, len(user)).astype(np.float64)

    def joined(items: Any, ratings: Any) -> Interactions:
        extra = np.full(len(items), _CANARY), items, ratings
        rows = (np.concatenate(each) for each in zip(base, extra, strict=True))
        return Interactions(*rows, items=np.arange(TASKS), rating_range=RANGE)

    every = np.arange(TASKS)
    in_turn = np.where(every % 2, RANGE[1], RANGE[0])
    return Interactions(*base, items=np.arange(TASKS), rating_range=RANGE), {
        "everything at the top": joined(every, np.full(TASKS, RANGE[1])),
        "the extremes in turn": joined(every, in_turn),
        "alone with an item": joined(every[[0, -1]], np.array(RANGE)),
        "every row three times": joined(np.repeat(every, 3), np.repeat(in_turn, 3)),
    }


def _events(
    rng: np.random.Generator, epsilon: float, delta: float
) -> tuple[Interactions, dict[str, Interactions]]:
    """As many users as it takes for some items to pass the threshold; nobody has the last one."""
    noise = math.sqrt(TASKS / 0.3) / mu_from_epsilon(epsilon, 0.9 * delta)
    users = 20 + math.ceil(12 * noise)
    user, item = np.nonzero(rng.random((users, TASKS - 1)) < np.linspace(0.95, 0.3, TASKS - 1))

    def joined(items: Any) -> Interactions:
        everybody = np.concatenate([2 * user, np.full(len(items), _CANARY)])
        return Interactions(everybody, np.concatenate([item, items]))

    every = np.arange(TASKS)
    return joined(every[:0]), {
        "everything": joined(every),
        "alone with an item": joined(every[-1:]),
    }
