"""Trainings past every size at which something is done in another way: tiles of noise, blocks, lanes, caps.

Others have from one item to fifty, the victim has all of them. So if anything is decided by the longest, the
mean or the number of histories, the victim decides it.
"""

import logging
import warnings
from typing import Any

import numpy as np
import pytest

import apportion as ap
from apportion.privacy import noise
from tests.soundness.harness import VICTIM, check, notices, plant, plant_kernel, ridge
from tests.soundness.test_recommender import DESCENT, PER_ITEM, SHARED, ratios, training

USERS, ITEMS = 60, 150  # three tiles; the victim is beyond the default cap of counts


def neighbors(items: int = ITEMS) -> tuple[ap.Interactions, ap.Interactions]:
    """Users of very different histories, and one more who has every item."""
    rng = np.random.default_rng(0)
    sizes = np.rint(np.geomspace(1, 50, USERS)).astype(int)
    own = [rng.choice(items - 1, size, replace=False) for size in sizes]
    user, item = np.repeat(2 * np.arange(USERS), sizes), np.concatenate(own)
    rating = rng.integers(1, 6, len(user)).astype(float)
    more = np.full(items, VICTIM), np.arange(items), np.where(np.arange(items) % 2, 5.0, 1.0)
    both = (np.concatenate(each) for each in zip((user, item, rating), more, strict=True))
    public: dict[str, Any] = {"items": items, "rating_range": (1.0, 5.0)}
    return ap.Interactions(*both, **public), ap.Interactions(user, item, rating, **public)


@pytest.mark.parametrize("engine", ["cpu", "reference"])
@pytest.mark.parametrize("feedback", ["explicit", "implicit"])
@pytest.mark.parametrize("solver", [SHARED, PER_ITEM, DESCENT], ids=str)
def test_long_and_short_histories_and_many_factors(
    solver: dict[str, Any], feedback: str, engine: str
) -> None:
    assert noise.TILE < ITEMS
    with_user, without = neighbors()
    fit = training(factors=48, feedback=feedback, engine=engine, **solver)
    check(fit, with_user, without)
    check(fit, without, with_user)


def test_several_blocks_of_items() -> None:
    fit = training(factors=100, sweeps=1, **PER_ITEM)
    found = ratios(check(fit, *neighbors(900)))
    assert found["weights"] > 0.99


def test_several_blocks_of_users() -> None:
    # Norms are taken in blocks of 4,096 rows.
    data = ap.simulate_tasks(users=5000, tasks=70, tasks_per_user=3, dimension=3, seed=0)
    check(ridge(ap.AdaptiveWeights()), data, data.take(data.user != VICTIM))


def by_mean_length(honest: Any) -> Any:
    """Systems are solved less exactly if histories are long on average: one user decides for all."""
    (with_user, without) = (len(each.by_user.other) / users for each, users in _counted())
    limit = (with_user + without) / 2

    def solve(self: Any, start: Any, *rest: Any, **more: Any) -> Any:
        item, label, items, *others = rest
        if start[-1] / (len(start) - 1) > limit:
            items = items.astype(np.float16).astype(np.float64)
        return honest(self, start, item, label, items, *others, **more)

    return solve


def _counted() -> list[tuple[ap.Interactions, int]]:
    with_user, without = neighbors()
    return [(with_user, USERS + 1), (without, USERS)]


class TestPlantedFaults:
    """Each of these must be noticed."""

    @staticmethod
    def caught() -> bool:
        return notices(training(factors=48, sweeps=1, **SHARED), *neighbors())

    def test_nothing_planted(self) -> None:
        assert not self.caught()

    def test_a_method_chosen_by_the_mean_length_of_histories(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        plant_kernel(monkeypatch, "solve_users", by_mean_length)
        assert self.caught()

    def test_a_warning_of_long_histories(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def fault(honest: Any) -> Any:
            def warning(self: Any, *given: Any, **more: Any) -> None:
                if np.diff(self._chosen.start).max() > 50:
                    warnings.warn("someone has more than 50 items", stacklevel=2)
                honest(self, *given, **more)

            return warning

        plant(monkeypatch, "solve_users", fault)
        assert self.caught()

    def test_a_log_of_how_many_users_there_are(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def fault(honest: Any) -> Any:
            def speaking(self: Any, *given: Any) -> Any:
                logging.warning("%d users", self._chosen.users)
                return honest(self, *given)

            return speaking

        plant(monkeypatch, "sums", fault)
        assert self.caught()

    def test_only_the_first_hundred_items_of_a_user_count(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        # Weights are those of a hundred items, and the user has more.
        def fault(honest: Any) -> Any:
            def larger(self: Any, rule: Any) -> None:
                honest(self, rule)
                longest = np.bincount(self._chosen.user)[self._chosen.user]
                self._row_weight = self._row_weight * np.sqrt(np.maximum(longest, 100) / 100)

            return larger

        plant(monkeypatch, "weigh", fault)
        assert self.caught()
