"""The release that chooses how strongly users' vectors are penalized: no user moves it by more than one."""

from functools import partial
from typing import Any

import numpy as np
import pytest

from apportion.engine.gains import fold_in_gains
from apportion.engine.queries import FoldInGains
from apportion.privacy import truncated
from tests.soundness.harness import Change, check, notices, plant
from tests.soundness.test_recommender import (
    DESCENT,
    PER_ITEM,
    SHARED,
    neighbors,
    training,
    worst_users,
)

NAME = "fold-in gains"


def change(extra: tuple[Any, Any], **settings: Any) -> Change:
    [found] = [one for one in check(training(**settings), *neighbors(extra)) if one.name == NAME]
    return found


@pytest.mark.parametrize("name", worst_users())
@pytest.mark.parametrize("solver", [SHARED, PER_ITEM, DESCENT], ids=str)
def test_no_user_moves_the_gains_by_more_than_their_sensitivity(
    name: str, solver: dict[str, Any]
) -> None:
    assert change(worst_users()[name], **solver).ratio <= 1


def test_a_user_may_use_most_of_the_bound() -> None:
    # By whoever contradicts itself: a vector made from one half is wrong about the other.
    extra = worst_users()["extremes in turn"]
    assert max(change(extra, epsilon=epsilon).ratio for epsilon in (0.5, 2.0)) > 0.6


def test_with_a_penalty_that_is_given_there_is_no_such_release() -> None:
    model = training(regularization__users=0.5)(neighbors(worst_users()["ordinary"])[0])
    assert NAME not in [record.name for record in model.privacy.ledger]


def solver(session: Any) -> Any:
    """How the session solves users' vectors."""
    return partial(session._kernels.solve_users, bound=None, stretch=False)


def test_gains_that_are_not_scaled_down_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    def fault(honest: Any) -> Any:
        def of_any_size(self: Any, query: FoldInGains, grid: float) -> Any:
            gains = 10 * fold_in_gains(solver(self), self._chosen, query)
            return truncated(gains, grid).sum(axis=0, keepdims=True)

        return of_any_size

    plant(monkeypatch, "_fold_in_gains", fault)
    assert notices(training(), *neighbors(worst_users()["extremes in turn"]))


def test_sums_over_ratings_instead_of_users_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    def fault(honest: Any) -> Any:
        def of_rows(self: Any, query: FoldInGains, grid: float) -> Any:
            rows = np.diff(self._chosen.start)[:, None]
            gains = rows * fold_in_gains(solver(self), self._chosen, query)
            return truncated(gains, grid).sum(axis=0, keepdims=True)

        return of_rows

    plant(monkeypatch, "_fold_in_gains", fault)
    assert notices(training(), *neighbors(worst_users()["extremes in turn"]))
