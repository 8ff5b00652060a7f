"""Simulated data of known shape, for studies, demos and tests."""

import numpy as np
from numpy.typing import NDArray

from apportion.data.tasks import TaskData
from apportion.privacy.checks import number, whole


def simulate_tasks(
    *,
    users: int = 10_000,
    tasks: int = 100,
    dimension: int = 5,
    tasks_per_user: float = 20.0,
    skew: float = 1.0,
    label_noise: float = 1e-3,
    seed: int = 0,
) -> TaskData:
    """Linear regression tasks of skewed sizes, as in the paper's synthetic experiments.

    User j has a vector u_j, task i a solution theta_i (both normal, projected to the unit ball), and
    y_ij = <u_j, theta_i> + noise. Task i is taken up with probability q_i, drawn from the density
    a x^(a-1) on [0, 1] (a = ``skew``; smaller is more skewed) and scaled to sum to ``tasks_per_user``.

    >>> simulate_tasks(users=50, tasks=4, tasks_per_user=2)
    TaskData(tasks=4, dimension=5)
    """
    users, tasks = whole("users", users, at_least=1), whole("tasks", tasks, at_least=2)
    dimension = whole("dimension", dimension, at_least=1)
    tasks_per_user = number("tasks_per_user", tasks_per_user, above=0, below=tasks)
    skew = number("skew", skew, at_least=0.05, at_most=1000)
    label_noise = number("label_noise", label_noise, at_least=0, at_most=1e6)
    rng = np.random.default_rng(seed)
    vectors = _unit_ball(rng.standard_normal((users, dimension)))
    solutions = _unit_ball(rng.standard_normal((tasks, dimension)))
    share = rng.power(skew, tasks)
    chance = share / share.sum() * tasks_per_user
    joined = [np.flatnonzero(rng.random(users) < probability) for probability in chance]
    user = np.concatenate(joined)
    task = np.repeat(np.arange(tasks), [len(members) for members in joined])
    labels = np.einsum("ij,ij->i", vectors[user], solutions[task])
    labels += label_noise * rng.standard_normal(len(labels))
    return TaskData(user, task, vectors, labels, tasks=tasks, per_user=True)


def _unit_ball(rows: NDArray[np.float64]) -> NDArray[np.float64]:
    norm = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.asarray(rows / np.maximum(1.0, norm))
