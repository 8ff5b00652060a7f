"""No user's part passes its bound, in exact arithmetic, whatever the user's rows are."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from apportion.data.rows import Rows
from apportion.privacy.bounds import ROUNDING
from tests.engine.contract.cases import ENGINES, Asked, answer, asked, make_rows, ready


def worst_users(d: int, tasks: int = 60) -> dict[str, Rows]:
    """One user each, who tries to be noticed."""
    every = np.arange(tasks)
    one = make_rows(1, tasks, d, 0)
    at_bound = np.ones((1, d))
    axis = np.zeros((1, d))
    axis[0, -1] = 1e6
    rounded_up = np.full((1, d), 0.5 / np.sqrt(d) + 1e-12)

    def user(task: np.ndarray, label: object, features: np.ndarray) -> Rows:
        labels = np.broadcast_to(np.asarray(label, dtype=float), task.shape).copy()
        start = np.array([0, len(task)])
        return replace(
            one, start=start, task=task.astype(np.int32), label=labels, features=features
        )

    alternating = np.where(every % 2, 1e300, -1e300)
    many = np.repeat(every, 7)
    return {
        "far beyond every bound": user(every, 1e300, 1e8 * at_bound),
        "signs in turn": user(every, alternating, 1e8 * at_bound),
        "along one axis": user(every, 1e9, axis),
        "rounded up everywhere": user(every, 1.3, rounded_up),
        "alone with one task": user(every[-1:], 1e9, axis),
        "every row seven times": user(many, 1e9, 1e8 * at_bound),
        "all in the rarest tasks": user(every[-9:], -1e9, axis),
        "denormal numbers": user(every, 1e-310, 1e-160 * at_bound),
        "a random one": replace(make_rows(1, tasks, d, 50, seed=8), user_key=one.user_key),
    }


def check(one: Asked, parts: tuple, mu: float) -> None:
    for units, bound, symmetric, grid in zip(
        parts, one.bounds, one.symmetric, one.grids(mu), strict=True
    ):
        assert np.abs(units).max(initial=0) < 2**27  # so that squares of a row fit into 64 bits
        weight = np.ones(units.shape[1], dtype=np.int64)
        if symmetric:  # the Frobenius norm
            d = round((np.sqrt(8 * units.shape[1] + 1) - 1) / 2)
            weight += np.not_equal(*np.triu_indices(d))
        square = sum(int(value) for value in (weight * units * units).ravel())
        limit = Fraction(bound) * (1 + Fraction(ROUNDING)) / Fraction(grid)
        assert square <= limit * limit


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("d", [1, 3, 16, 48])
def test_the_norm_of_a_part(engine: str, d: int) -> None:
    for name, rows in worst_users(d).items():
        repeated = len(set(rows.task.tolist())) < len(rows.task)
        for asked_for, one in asked(rows).items():
            if repeated and "users scaled" in asked_for:
                continue  # users with one row per item
            for mu in (1e-8, 0.5, 20.0):
                parts = answer(ready(ENGINES[engine](), rows, whole=one.whole), one, mu)
                try:
                    check(one, parts, mu)
                except AssertionError:
                    raise AssertionError(f"{asked_for}: {name}, d = {d}, mu = {mu}") from None


def test_the_check_notices_a_part_that_is_too_large() -> None:
    rows = worst_users(3)["along one axis"]
    one = asked(rows)["right-hand sides"]
    parts = answer(ready(ENGINES["reference"](), rows), one)
    with pytest.raises(AssertionError):
        check(replace(one, bounds=(one.bounds[0] / 2,)), tuple(2 * part for part in parts), 0.5)
