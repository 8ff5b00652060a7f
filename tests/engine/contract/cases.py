"""What engines are asked in the contract suite: rows of every shape, and every query."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from apportion.allocation import AdaptiveWeights
from apportion.data.centering import Centering
from apportion.data.rows import Rows
from apportion.engine import CpuEngine, Engine, ReferenceEngine, Session, queries
from apportion.privacy import UserBound
from apportion.tasks.losses import LOSSES

# A new engine is one line here.
ENGINES: dict[str, Callable[[], Engine]] = {
    "reference": ReferenceEngine,
    "cpu": CpuEngine,
}

FEATURE_BOUND, LABEL_BOUND, GRADIENT_BOUND = 0.7, 1.3, 0.4


def make_rows(
    users: int,
    tasks: int,
    d: int,
    most: int,
    seed: int = 0,
    *,
    per_user: bool = True,
    repeats: bool = False,
    length: float = 1.0,
) -> Rows:
    """Users of 0 to ``most`` rows, popular tasks and rare ones, features and labels of any size."""
    rng = np.random.default_rng(seed)
    chance = 1 / np.arange(1, tasks + 1)
    parts = []
    for user in range(users):
        size = min(int(rng.integers(0, most + 1)), tasks)
        task = rng.choice(tasks, size, replace=False, p=chance / chance.sum())
        if repeats and size:
            task = np.concatenate([task, rng.choice(task, size // 2)])
        parts.append(np.stack([np.full(len(task), user), task]))
    pairs = np.concatenate(parts, axis=1) if parts else np.zeros((2, 0), int)
    order = np.lexsort((pairs[1], pairs[0]))
    user, task = pairs[:, order]
    start = np.concatenate([[0], np.cumsum(np.bincount(user, minlength=users))])
    vectors = users if per_user else len(user)
    scale = length * rng.lognormal(0.0, 2.0, (vectors, 1))
    return Rows(
        start=start.astype(np.int64),
        task=task.astype(np.int32),
        task_ids=np.arange(tasks),
        user_key=rng.integers(0, 2**63, users).astype(np.uint64),
        label=rng.normal(0.0, 2.0, len(user)),
        features=rng.normal(size=(vectors, d)) * scale,
        feature_row=None if per_user else np.arange(len(user)),
    )


def ready(engine: Engine, rows: Rows, *, whole: bool = True) -> Session:
    """A session with weights and bounded features."""
    session = engine.load(rows)
    sizes = 1.0 + np.arange(rows.tasks)[::-1]
    session.weigh(AdaptiveWeights(0.5).rule(rows.tasks, sizes, 0, lambda: rows.graph()[0]))
    if rows.features is not None:
        session.bound_features(FEATURE_BOUND, whole=whole)
    return session


@dataclass(frozen=True)
class Asked:
    """A query, the bounds of its parts, and whether features are 16-bit whole numbers."""

    query: queries.Query
    bounds: tuple[float, ...]
    symmetric: tuple[bool, ...]
    whole: bool = True

    def grids(self, mu: float = 0.5) -> tuple[float, ...]:
        return tuple(UserBound(bound, "").grid(mu) for bound in self.bounds)


def asked(rows: Rows) -> dict[str, Asked]:
    """Every query there is, with the bound that its documentation states."""
    G, L = FEATURE_BOUND, LABEL_BOUND
    d = 1 if rows.features is None else rows.features.shape[1]
    right = queries.RightHandSides(L, G, "row")
    coef = np.random.default_rng(1).normal(size=(rows.tasks, d))
    found = {
        "users": Asked(queries.Users(), (1.0,), (False,)),
        "means": Asked(queries.Means(0.5, 2.0), (math.sqrt(2),), (False,)),
        "rating moments": Asked(queries.RatingMoments(0.5, 2.0), (2.0,), (False,)),
        "counts, scaled": Asked(queries.Counts(5), (math.sqrt(5) * (1 + 1e-9),), (False,)),
        "counts, sampled": Asked(queries.Counts(5, key=3), (math.sqrt(5),), (False,)),
        "weights": Asked(queries.WeightSums(), (1.0,), (False,)),
        "second moment": Asked(queries.SecondMoment(), (G * G, 1.0), (True, False)),
        "right-hand sides": Asked(right, (G * L,), (False,)),
        "statistics": Asked(queries.Statistics(right), (G * G, G * L), (True, False)),
    }
    sample = queries.Sample(bytes(range(16)), 0.5)
    for name in LOSSES:
        loss = LOSSES[name]()
        for clip in ("user", "row"):
            query = queries.Gradients(coef, loss, GRADIENT_BOUND, L, clip, None)
            found[f"{name} gradients, {clip}"] = Asked(query, (GRADIENT_BOUND,), (False,), False)
    query = queries.Gradients(coef, LOSSES["squared"](), GRADIENT_BOUND, L, "user", sample)
    found["gradients of a sample"] = Asked(query, (GRADIENT_BOUND,), (False,), False)
    if rows.feature_row is None:
        whole = queries.RightHandSides(L, G, "user")
        found["gramian"] = Asked(queries.Gramian(), (G * G,), (True,))
        found["right-hand sides, users scaled"] = Asked(whole, (G * L,), (False,))
        both = queries.Statistics(whole)
        found["statistics, users scaled"] = Asked(both, (G * G, G * L), (True, False))
    items = np.random.default_rng(2).normal(size=(rows.tasks, d))
    gains = queries.FoldInGains(
        items,
        (queries.UserSystems(0.5, 0.0), queries.UserSystems(0.1, 1.0)),
        Centering("user", 0.5, 2.0),
        0.1 * items[:, 0],
        4.0,
    )
    found["fold-in gains"] = Asked(gains, (1.0,), (False,), False)
    if rows.feature_row is None and (len(np.unique(_pairs(rows), axis=0)) == len(rows.task)):
        found["intercepts"] = Asked(queries.Intercepts(L), (L,), (False,))
    return found


def _pairs(rows: Rows) -> Any:
    return np.stack([rows.user, rows.task], axis=1)


def answer(session: Session, one: Asked, mu: float = 0.5) -> tuple[Any, ...]:
    """All blocks of all parts, whole numbers."""
    blocks = list(session.sums(one.query, one.grids(mu)))
    assert [first for first, _ in blocks] == list(
        np.cumsum([0] + [len(units[0]) for _, units in blocks[:-1]])
    )
    parts = tuple(
        np.concatenate(part) for part in zip(*(units for _, units in blocks), strict=True)
    )
    assert all(part.dtype == np.int64 for part in parts)
    return parts
