"""Simulated data of known shape, for studies, demos and tests."""

from typing import Any, TypedDict

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, ndtri

from apportion.checks import number, whole
from apportion.data.graph import Graph
from apportion.data.interactions import Interactions
from apportion.data.memory import MOST, check_memory
from apportion.data.ratings import check_range
from apportion.data.tasks import TaskData
from apportion.errors import ParameterError
from apportion.native import kernels
from apportion.threads import thread_count
from apportion.twins import simulate as twin


class Shape(TypedDict):
    """The size of a data set and its tails; arguments of ``simulate_interactions``."""

    users: int
    items: int
    rows: int
    rating_range: tuple[float, float] | None
    popular_tenth: float
    active_tenth: float


# ml-20m and msd as they are used for top-k recommendation: events, after the usual filters. The tenths
# of ml-100k and ml-1m are counted; of the others that of ml-20m's items is published, the rest are
# estimates.
SHAPES: dict[str, Shape] = {
    name: Shape(
        users=users, items=items, rows=rows, rating_range=rating_range,
        popular_tenth=popular_tenth, active_tenth=active_tenth,
    )
    for name, users, items, rows, rating_range, popular_tenth, active_tenth in (
        ("ml-100k", 943, 1_682, 100_000, (1.0, 5.0), 0.43, 0.32),
        ("ml-1m", 6_040, 3_706, 1_000_209, (1.0, 5.0), 0.44, 0.38),
        ("ml-10m", 69_878, 10_677, 10_000_054, (0.5, 5.0), 0.75, 0.45),
        ("ml-20m", 136_677, 20_108, 9_990_000, None, 0.86, 0.45),
        ("msd", 571_355, 41_140, 33_630_000, None, 0.5, 0.36),
    )
}  # fmt: skip

# How the parts of a rating weigh: the user's mean, the item's mean, taste, noise.
_PARTS = (0.4, 0.4, 0.8, 0.5)

# How strongly the agreement decides whether an item drawn is taken, and the chances that it is at eight
# quantiles of agreement.
_FUSSY = 4
_TASTES = expit(_FUSSY * (ndtri((np.arange(8) + 0.5) / 8) - 1))


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
    users = whole("users", users, at_least=1, at_most=MOST)
    tasks = whole("tasks", tasks, at_least=2, at_most=MOST)
    dimension = whole("dimension", dimension, at_least=1, at_most=MOST)
    tasks_per_user = number("tasks_per_user", tasks_per_user, above=0, below=tasks)
    skew = number("skew", skew, at_least=0.05, at_most=1000)
    label_noise = number("label_noise", label_noise, at_least=0, at_most=1e6)
    pairs = int(users * tasks_per_user)
    check_memory("what is to be simulated", 8 * dimension * (users + tasks) + 24 * pairs)
    rng = np.random.default_rng(whole("seed", seed, at_least=0))
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


def simulate_classes(*, seed: int = 0, dimension: int = 5, **shape: Any) -> TaskData:
    """Rows of many classes, of sizes as ``simulate_tasks`` has them; the tasks are the classes.

    The middle of each class is at 0.7 in a random direction, and its rows scatter about it by 0.35, all
    within the unit ball.
    """
    who = simulate_tasks(seed=seed, dimension=dimension, **shape)
    rng = np.random.default_rng(seed)
    middles = rng.standard_normal((who.tasks, dimension))
    middles *= 0.7 / np.linalg.norm(middles, axis=1, keepdims=True)
    scatter = 0.35 / dimension**0.5 * rng.standard_normal((len(who), dimension))
    return TaskData(who.user, who.task, _unit_ball(middles[who.task] + scatter), tasks=who.tasks)


def simulate_graph(sizes: NDArray[Any], users: int, seed: int = 0) -> Graph:
    """Who takes part in what under the paper's Assumption 4.1: each task has users chosen at random.

    Args:
        sizes: how many distinct users each task has, rounded, at most ``users``, [tasks].
        users: how many there are.
        seed: the same seed gives the same graph.

    >>> import numpy as np
    >>> simulate_graph(np.array([3.0, 1.0]), users=5).task_sizes().tolist()
    [3.0, 1.0]
    """
    users = whole("users", users, at_least=1, at_most=MOST)
    rng = np.random.default_rng(whole("seed", seed, at_least=0))
    counts = np.clip(np.rint(sizes), 0, users).astype(np.int64)
    check_memory("what is to be simulated", 64 * int(counts.sum()))
    chosen = [rng.choice(users, size, replace=False) for size in counts]
    user = np.concatenate([*chosen, np.empty(0, dtype=np.int64)])
    task = np.repeat(np.arange(len(counts)), counts)
    order = np.lexsort((task, user))
    return Graph(user[order], task[order], np.arange(users, dtype=np.uint64), len(counts))


def simulate_interactions(
    *,
    users: int = 1_000,
    items: int = 200,
    rows: int = 20_000,
    rank: int = 8,
    rating_range: tuple[float, float] | None = (1.0, 5.0),
    popular_tenth: float = 0.5,
    active_tenth: float = 0.4,
    seed: int = 0,
) -> Interactions:
    """Long-tailed ratings or events of users and items, explained by a low-rank model of taste.

    Users and items have normal vectors of length ``rank``. Items are drawn by popularity and taken more
    often by users whose vector agrees with theirs; a rating is the sum of the user's mean, the item's
    mean, the agreement and noise. Which items are popular is random. Every user takes an item or more,
    an item may be taken by no one.

    Args:
        users, items, rows: the exact size; all (user, item) pairs are distinct.
        rank: the length of the vectors.
        rating_range: the smallest and largest rating; None for events without ratings.
        popular_tenth: the share of rows of the most popular tenth of items, about; it is missed
            by some hundredths where many users take most of what is popular.
        active_tenth: the share of rows of the most active tenth of users, about.
        seed: the same seed gives the same data.

    >>> simulate_interactions(users=100, items=20, rows=500)
    Interactions(items=20, explicit, ratings from 1 to 5)

    ``simulate_interactions(**SHAPES["ml-20m"])`` has the size and the tails of a known data set.
    """
    shape = check_shape(users, items, rows, rating_range, popular_tenth, active_tenth)
    rank = whole("rank", rank, at_least=1, at_most=MOST)
    check_memory("what is to be simulated", (4 * rank + 16) * (users + items) + 24 * rows)
    rng = np.random.default_rng(whole("seed", seed, at_least=0))
    taken, popularity, by_popularity = tails(shape, rng)
    user_vectors = rng.standard_normal((users, rank), dtype=np.float32) / np.float32(rank**0.5)
    item_vectors = rng.standard_normal((items, rank), dtype=np.float32)
    place, rating = choose(taken, popularity, user_vectors, item_vectors, int(rng.integers(2**63)))
    user = np.repeat(np.arange(users, dtype=np.int32), taken)
    between = shape["rating_range"]
    if between is not None:
        noise = rng.standard_normal(rows, dtype=np.float32)
        means = rng.standard_normal(users, dtype=np.float32)
        qualities = rng.standard_normal(items, dtype=np.float32)
        rate(rating, noise, means[user], qualities[place], between)
    return Interactions(
        user,
        by_popularity[place],
        None if between is None else rating,
        items=items,
        rating_range=between,
        outside="clip",
    )


def check_shape(
    users: int,
    items: int,
    rows: int,
    rating_range: tuple[float, float] | None,
    popular_tenth: float,
    active_tenth: float,
) -> Shape:
    """A shape that can be simulated; ``ParameterError`` for others."""
    users = whole("users", users, at_least=1, at_most=MOST)
    items = whole("items", items, at_least=1, at_most=MOST)
    rows = whole("rows", rows, at_least=users)
    if rows > users * items:
        raise ParameterError(f"rows must be at most users times items, {users * items}, got {rows}")
    return Shape(
        users=users,
        items=items,
        rows=rows,
        rating_range=check_range(rating_range),
        popular_tenth=number("popular_tenth", popular_tenth, at_least=0.1, at_most=0.99),
        active_tenth=number("active_tenth", active_tenth, at_least=0.1, at_most=0.99),
    )


def tails(
    shape: Shape, rng: np.random.Generator
) -> tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.int64]]:
    """How many items each user takes, [users]; the items' chances of a draw in falling order, [items]; and
    which item has which place in that order, [items].
    """
    share = rng.permutation(_long_tail(shape["users"], shape["active_tenth"]))
    taken = _user_sizes(share, shape["rows"], shape["items"])
    popularity = _popularity(shape["items"], shape["popular_tenth"], taken)
    return taken, popularity, rng.permutation(shape["items"])


def choose(
    taken: NDArray[np.int64],
    popularity: NDArray[np.float64],
    user_vectors: NDArray[np.float32],
    item_vectors: NDArray[np.float32],
    seed: int,
) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
    """The items of some users, by their place in the order of popularity, and how well they agree, [rows]."""
    rows = int(taken.sum())
    place, taste = np.empty(rows, dtype=np.int32), np.empty(rows, dtype=np.float32)
    agreement = twin.LOWEST + np.arange(int(-2 * twin.LOWEST * twin.STEPS)) / twin.STEPS
    chance = expit(_FUSSY * (agreement - 1)).astype(np.float32)
    (twin if kernels is None else kernels).choose(
        np.concatenate([[0], np.cumsum(taken)]), np.cumsum(popularity), chance, user_vectors,
        item_vectors, place, taste, seed, thread_count(),
    )  # fmt: skip
    return place, taste


def rate(
    taste: NDArray[np.float32],
    noise: NDArray[np.float32],
    user_mean: NDArray[np.float32],
    item_mean: NDArray[np.float32],
    between: tuple[float, float],
) -> None:
    """Turn agreements [rows] into ratings, in place; they may lie outside the range."""
    low, high = between
    mean, quality, agreement, spread = np.array(_PARTS, dtype=np.float32)
    taste *= agreement
    taste += spread * noise
    taste += mean * user_mean
    taste += quality * item_mean
    taste *= np.float32((high - low) / 3.5)
    taste += np.float32(low + 0.5 * (high - low))


def _long_tail(size: int, tenth: float) -> NDArray[np.float64]:
    """Log-normal shares in falling order of which the largest tenth have this part, [size]."""
    spread = ndtri(0.9) + ndtri(tenth)
    share = np.exp(-spread * ndtri((np.arange(size) + 0.5) / size))
    return np.asarray(share / share.sum())


def _user_sizes(share: NDArray[np.float64], rows: int, items: int) -> NDArray[np.int64]:
    """How many items each user takes: about its share, from 1 to all, rows in all, [users]."""
    low, high = 0.0, float(rows * items)
    for _ in range(100):  # the scale at which the sizes, cut off at 1 and at all items, fit
        scale = (low + high) / 2
        if np.clip(scale * share, 1, items).sum() > rows:
            high = scale
        else:
            low = scale
    exact = np.clip(low * share, 1, items)
    size = exact.astype(np.int64)
    while (missing := rows - int(size.sum())) > 0:
        open_to_more = np.flatnonzero(size < items)
        order = open_to_more[np.argsort(size[open_to_more] - exact[open_to_more], kind="stable")]
        size[order[:missing]] += 1
    return size


def _popularity(items: int, tenth: float, taken: NDArray[np.int64]) -> NDArray[np.float64]:
    """The chances of a draw, in falling order, that give the top tenth of items its rows, [items].

    A user takes an item once however popular it is, so the draws have to be more skewed than the rows.
    """
    # This many items and sixty users stand for all when looking for the skew.
    some = min(items, 200)
    sizes = np.quantile(taken, (np.arange(60) + 0.5) / 60) * (some / items)
    low, high = tenth, 0.9999
    for _ in range(12):
        middle = (low + high) / 2
        rows = _expected_rows(_long_tail(some, middle), sizes)
        if rows[: max(1, some // 10)].sum() < tenth * rows.sum():
            low = middle
        else:
            high = middle
    return _long_tail(items, low)


def _expected_rows(chance: NDArray[np.float64], sizes: NDArray[np.float64]) -> NDArray[np.float64]:
    """Rows of each item if users draw until they have this many distinct ones, [items]."""
    low, high = (
        np.full(len(sizes), -10.0),
        np.full(len(sizes), np.log(50 / (chance[-1] * _TASTES[0]))),
    )
    for _ in range(20):  # the number of draws of each user, on a logarithmic scale
        middle = (low + high) / 2
        has = -np.expm1(-np.exp(middle)[:, None, None] * chance * _TASTES[:, None]).mean(axis=1)
        enough = has.sum(axis=1) > sizes
        low, high = np.where(enough, low, middle), np.where(enough, middle, high)
    return np.asarray(has.sum(axis=0))


def _unit_ball(rows: NDArray[np.float64]) -> NDArray[np.float64]:
    norm = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.asarray(rows / np.maximum(1.0, norm))
