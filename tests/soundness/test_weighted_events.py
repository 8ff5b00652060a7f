"""Events that count by weights: whatever a user's weights are, its part stays bounded."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import apportion as ap
from apportion.allocation.base import Rule
from apportion.data import Graph
from apportion.privacy import UserWeights
from tests.soundness.harness import VICTIM, check, notices
from tests.soundness.test_recommender import (
    ALLOCATIONS,
    DESCENT,
    ITEMS,
    PER_ITEM,
    SHARED,
    population,
    training,
)

EVERY = np.arange(ITEMS)
WORST: dict[str, tuple[Any, Any]] = {
    "everything, as often as can be": (EVERY, np.full(ITEMS, 1e300)),
    "one thing always, the rest never": (EVERY, np.where(EVERY == ITEMS - 1, 1e300, 1e-300)),
    "each row a hundred times": (np.repeat(EVERY, 100), np.tile([1e-3, 1e3], 50 * ITEMS)),
    "alone with an item": (np.array([ITEMS - 1]), np.array([1e-300])),
    "ordinary": (np.array([1, 4, 6]), np.array([1.0, 5.0, 2.0])),
}


def neighbors(extra: tuple[Any, Any]) -> tuple[ap.Interactions, ap.Interactions]:
    """The population, whose weights are from 1 to 5, with one more user and without it."""
    user, item, weight = population()
    order = np.random.default_rng(5).permutation(len(user) + len(extra[0]))
    with_user = ap.Interactions(
        np.append(user, np.full(len(extra[0]), VICTIM))[order],
        np.append(item, extra[0])[order],
        items=ITEMS,
        weight=np.append(weight, extra[1])[order],
    )
    return with_user, ap.Interactions(user, item, items=ITEMS, weight=weight)


@pytest.mark.parametrize("extra", WORST.values(), ids=WORST.keys())
@pytest.mark.parametrize("solver", [SHARED, PER_ITEM, DESCENT], ids=str)
def test_adding_a_worst_case_user(extra: tuple[Any, Any], solver: dict[str, Any]) -> None:
    with_user, without = neighbors(extra)
    fit = training(**solver, feedback="implicit")
    check(fit, with_user, without)
    check(fit, without, with_user)


@pytest.mark.parametrize("allocation", ALLOCATIONS, ids=repr)
def test_every_allocation(allocation: ap.Allocation) -> None:
    fit = training(allocation=allocation, feedback="implicit")
    for extra in WORST.values():
        check(fit, *neighbors(extra))


def test_the_bound_is_reached() -> None:
    changes = check(
        training(**SHARED, feedback="implicit"),
        *neighbors(WORST["one thing always, the rest never"]),
    )
    assert {each.name: each.ratio for each in changes}["weights"] > 0.99999


@dataclass(frozen=True)
class Unbounded(Rule):
    """A fault: weights are multiplied by confidences, and the result is not brought back."""

    def __call__(self, graph: Graph) -> UserWeights:
        assert graph.confidence is not None
        honest = self.allocation.weigh(graph, self.sizes, self.key)
        wrong = UserWeights(honest.user, honest.task, honest.values)
        object.__setattr__(wrong, "values", 10.0 * honest.values * graph.confidence)
        return wrong


@dataclass(frozen=True)
class OfAll(Rule):
    """A fault: confidences are taken relative to the largest of all users."""

    def __call__(self, graph: Graph) -> UserWeights:
        assert graph.confidence is not None
        honest = self.allocation.weigh(graph, self.sizes, self.key)
        share = graph.confidence / graph.confidence.max()
        return UserWeights(honest.user, honest.task, honest.values * share)


@dataclass(frozen=True)
class Faulty(ap.AdaptiveWeights):
    """Weighs with a planted fault."""

    fault: Any = None

    def rule(self, *given: Any) -> Rule:
        honest = super().rule(*given)
        return honest if self.fault is None else self.fault(self, honest.sizes, honest.key)


@pytest.mark.parametrize("fault", [None, Unbounded, OfAll])
def test_planted_faults_are_noticed(fault: Any) -> None:
    fit = training(allocation=Faulty(0.25, fault=fault), feedback="implicit")
    found = [notices(fit, *neighbors(extra)) for extra in WORST.values()]
    assert any(found) == (fault is not None)
