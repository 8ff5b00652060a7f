"""Row 8: repeating rows does not buy influence."""

from typing import Any

import pytest

import apportion as ap
from tests.soundness.harness import caught, compare, neighbors, plant, ridge, worst_users

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
    def fault(honest: Any) -> Any:
        def counted(self: Any, rule: Any) -> None:
            honest(self, rule)
            _, pair_of_row = self._chosen.graph()
            if pair_of_row is not None:
                self._row_weight = self._weights.values[pair_of_row]

        return counted

    plant(monkeypatch, "weigh", fault)
    assert caught(ridge(ap.AdaptiveWeights()), REPEATED)
