"""Random users of random data, in exact arithmetic: what they add to every sum is their own, and bounded.

No training: sums are asked of an engine's session as trainings do, of all users, of all but one, and of that
one alone, whole or in shards.
"""

import math
from collections.abc import Iterator
from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

import apportion as ap
from apportion.data import Graph
from apportion.data.centering import Centering
from apportion.data.rows import Rows
from apportion.engine import Engine, find_engine, queries
from apportion.privacy import UserBound
from apportion.privacy.bounds import ROUNDING
from tests.soundness.harness import plant

Asked = list[tuple[queries.Query, tuple[float, ...]]]
Random = np.random.Generator

ENGINES: list[Engine] = [find_engine("auto"), ap.ReferenceEngine()]


class Case:
    """One user among others, and all settings of the sums."""

    def __init__(self, seed: int) -> None:
        r = self.random = np.random.default_rng(seed)
        self.items, users = int(r.integers(1, 30)), int(r.integers(1, 25))
        self.user, self.item = np.nonzero(r.random((users, self.items)) < r.uniform(0.05, 1))
        self.one = int(2 * r.integers(0, users + 1)) - 1  # between the others, whose ids are even
        self.own = self.items_of_one()
        low, high = (1.0, 5.0) if r.random() < 0.5 else (-1e6 * r.random(), 1e6 * r.random() + 1.0)
        self.range = (low, high)
        self.explicit = bool(r.random() < 0.5)
        self.weight_bound = float(10.0 ** r.uniform(-8, 11))
        sizes = (len(self.user), len(self.own))
        self.ratings = [self.some_ratings(size) for size in sizes]
        self.weights = [self.some_weights(size) for size in sizes]
        self.engine = ENGINES[r.integers(0, 2)]
        self.shards = int(r.integers(1, 4))
        self.allocation: ap.Allocation = [
            ap.AdaptiveWeights(float(r.uniform(0, 1))),
            ap.AdaptiveWeights(0.5, mode="clip", users=40, concentration=0.1),
            ap.UniformWeights(),
            ap.UniformSampling(int(r.integers(1, 5))),
            ap.TailSampling(int(r.integers(1, 5))),
        ][r.integers(0, 5)]
        self.sizes = np.maximum(1.0, r.uniform(0, 50, self.items))
        self.vectors = r.normal(size=(self.items, int(r.integers(1, 6)))) * 10.0 ** r.uniform(-3, 3)
        self.feature, self.label = (float(10.0 ** r.uniform(-3, 3)) for _ in range(2))
        self.ridge, self.stretch = float(10.0 ** r.uniform(-6, 3)), bool(r.random() < 0.5)
        by: Any = r.choice(["user", "global", "none"])
        self.centering = Centering(by, (low + high) / 2, float(r.choice([0.0, 1.0, 20.0])))
        self.asked = self.questions()

    def items_of_one(self) -> Any:
        """All, one that nobody may have, some, all many times, or some more than once."""
        r, every = self.random, np.arange(self.items)
        return [
            every,
            every[-1:],
            r.choice(self.items, int(r.integers(1, self.items + 1)), replace=False),
            np.repeat(every, int(r.integers(2, 40))),
            r.choice(self.items, int(r.integers(1, 4 * self.items))),
        ][r.integers(0, 5)]

    def some_ratings(self, size: int) -> Any:
        r, (low, high) = self.random, self.range
        alternating = np.where(np.arange(size) % 2, high, low)
        kinds = [np.full(size, high), alternating, r.choice([low, high], size)]
        return [*kinds, r.uniform(low, high, size)][r.integers(0, 4)]

    def some_weights(self, size: int) -> Any:
        r = self.random
        spread = [10.0 ** r.uniform(-300, 300, size), 10.0 ** r.uniform(-9, 3, size)]
        return [np.full(size, 1e300), *spread, r.integers(1, 6, size).astype(float)][
            r.integers(0, 4)
        ]

    def questions(self) -> Asked:
        """What is summed, with the norm that a user's part may have, as their documentation has it."""
        r, (low, high), G, L = self.random, self.range, self.feature, self.label
        cap, clip = int(r.integers(1, 6)), ("row", "user")[r.integers(0, 2)]
        right = queries.RightHandSides(L, G, clip)
        found: Asked = [
            (queries.Users(), (1.0,)),
            (queries.Counts(cap), (math.sqrt(cap) * (1 + 1e-9),)),
            (queries.Counts(cap, key=7), (math.sqrt(cap),)),
            (queries.WeightSums(), (1.0,)),
            (queries.Intercepts(L), (L,)),
            (queries.Gramian(), (G * G,)),
            (right, (G * L,)),
            (queries.Statistics(right), (G * G, G * L)),
        ]
        if not self.explicit:
            return found
        middle, half = (low + high) / 2, (high - low) / 2
        systems = tuple(queries.UserSystems(float(10.0 ** r.uniform(-9, 6)), 0.0) for _ in range(5))
        unit = float(10.0 ** r.uniform(-6, 2)) * half * half
        gains = queries.FoldInGains(self.vectors, systems, self.centering, None, unit)
        more: Asked = [
            (queries.Means(middle, half), (math.sqrt(2),)),
            (queries.RatingMoments(middle, half), (2.0,)),
            (gains, (1.0,)),
        ]
        return found + more

    def rows(self, *who: int) -> Rows:
        """Of the others (0), of the one (1), or of both."""
        user = [2 * self.user, np.full(len(self.own), self.one)]
        parts = [user, [self.item, self.own], self.ratings, self.weights]
        columns = [np.concatenate([part[each] for each in who]) for part in parts]
        order = np.random.default_rng(5).permutation(len(columns[0]))
        users, items, ratings, weights = (column[order] for column in columns)
        if self.explicit:
            data = ap.Interactions(users, items, ratings, items=self.items, rating_range=self.range)
        else:
            bound = self.weight_bound
            data = ap.Interactions(
                users, items, items=self.items, weight=weights, weight_bound=bound
            )
        return data.rows()

    def sums(self, rows: Rows) -> list[Any]:
        """Of every part of every query, whole numbers."""
        session = self.engine.load(rows)
        session.weigh(self.allocation.rule(self.items, self.sizes, 3, _no_graph))
        session.center(self.centering)
        systems = queries.UserSystems(self.ridge, 0.5)
        shared = 0.1 * self.vectors.T @ self.vectors
        session.solve_users(self.vectors, shared, systems, self.feature, stretch=self.stretch)
        found = []
        for query, bounds in self.asked:
            blocks = [units for _, units in session.sums(query, tuple(map(grid, bounds)))]
            found += [np.concatenate(part) for part in zip(*blocks, strict=True)]
        return found

    def in_shards(self, rows: Rows) -> list[Any]:
        """The same, users divided."""
        edges = np.linspace(0, rows.users, self.shards + 1).astype(int).tolist()
        shards = [self.sums(rows.of_users(first, stop)) for first, stop in pairwise(edges)]
        return [sum(parts) for parts in zip(*shards, strict=True)]

    def check(self) -> None:
        """Exactly: differences of sums are the one's own, of a norm within the recorded sensitivity."""
        both, others = self.in_shards(self.rows(0, 1)), self.sums(self.rows(0))
        alone = self.sums(self.rows(1))
        for (query, bound), *parts in zip(self.bounds(), both, others, alone, strict=True):
            whole, without, part = parts
            np.testing.assert_array_equal(whole - without, part)
            square = sum(int(entry) ** 2 for entry in part.ravel())
            if type(query) in (queries.Gramian, queries.Statistics) and bound == self.feature**2:
                rows, columns = np.triu_indices(self.vectors.shape[1])
                off = part[:, rows != columns]
                square += sum(int(entry) ** 2 for entry in off.ravel())
            limit = Fraction(bound) * (1 + Fraction(ROUNDING)) / Fraction(grid(bound))
            assert Fraction(square) <= limit**2, type(query).__name__

    def bounds(self) -> Iterator[tuple[queries.Query, float]]:
        for query, bounds in self.asked:
            for bound in bounds:
                yield query, bound


def grid(bound: float) -> float:
    return UserBound(bound, "").grid(0.5)


def _no_graph() -> Graph:
    raise AssertionError("a private graph")


def check_all(first: int, stop: int) -> None:
    for seed in range(first, stop):
        Case(seed).check()


@pytest.mark.parametrize("seed", range(40))
def test_a_random_user_adds_its_own_bounded_part(seed: int) -> None:
    Case(seed).check()


@pytest.mark.slow
def test_thousands_of_random_users_do() -> None:
    check_all(1000, 4000)


FAULTS: dict[str, Any] = {
    "parts twice as large": lambda honest: (
        lambda self, task, parts, grid: honest(self, task, 2 * parts, grid)
    ),
    "parts that others change": lambda honest: (
        lambda self, task, parts, grid: honest(self, task, parts / np.sqrt(1 + len(parts)), grid)
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_faults_are_noticed(monkeypatch: pytest.MonkeyPatch, fault: str) -> None:
    plant(monkeypatch, "_added_up", FAULTS[fault])
    with pytest.raises(AssertionError):
        check_all(0, 5)
