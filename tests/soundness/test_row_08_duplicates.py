"""Row 8: repeating rows does not buy influence."""

import numpy as np
import pytest

import apportion as ap
from apportion.privacy import UserWeights
from tests.soundness.harness import Array, caught, compare, neighbors, ridge, worst_users

EXTRA = worst_users()["at the bound in all tasks"]
REPEATED = worst_users()["each row a hundred times"]


def test_a_hundred_copies_count_once() -> None:
    fit = ridge(ap.AdaptiveWeights())
    once = compare(fit, *neighbors(EXTRA))
    often = compare(fit, *neighbors(REPEATED))
    for single, repeated in zip(once, often, strict=True):
        # Copies share a weight; each is rounded, which costs them a little.
        assert repeated.change == pytest.approx(single.change, rel=1e-2)
        assert repeated.change <= single.change * (1 + 1e-9)


def test_copies_that_count_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    def counted(self: UserWeights, pair_of_row: Array) -> Array:
        return np.asarray(self.values[pair_of_row])

    monkeypatch.setattr(UserWeights, "per_row", counted)
    assert caught(ridge(ap.AdaptiveWeights()), REPEATED)
