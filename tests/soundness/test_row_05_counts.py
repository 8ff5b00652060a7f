"""Rows 5 and 6: whatever is chosen from counts is chosen from released ones, each in the ledger."""

import numpy as np
import pytest

import apportion as ap
from apportion.engine import Session
from apportion.engine.queries import Counts
from apportion.privacy import Curator, Ledger, Record, UserBound
from tests.soundness.harness import Array, caught, ridge, worst_users

EXTRA = worst_users()["alone in a task"]
BY_COUNTS = [ap.AdaptiveWeights(1.0), ap.TailSampling(2)]


class ExactCounts(ap.PrivateCounts):
    """A fault: the sizes are exact, whatever the ledger says."""

    def release(self, session: Session, curator: Curator) -> Array:
        [(_, (sizes,))] = session.exact_sums(Counts(1))
        curator.release("counts", sizes.astype(np.int64), UserBound(100.0, "a lot"), 0.01, "show")
        return np.maximum(sizes[:, 0], 1.0)

    def for_weights(self, noisy: Array, noise: float) -> Array:
        return noisy


STATISTICS = ["statistics.A", "statistics.b"]
COMMON = ["second moment.matrix", "second moment.mass", "weights"]
RELEASED = {
    "per-task": STATISTICS,
    "shared": [*COMMON, "moments"],
    "shrunk": [*COMMON, "pilot.A", "pilot.b", *STATISTICS],
}


@pytest.mark.parametrize(
    "allocation",
    [ap.AdaptiveWeights(1.0, counts=ExactCounts()), ap.TailSampling(2, counts=ExactCounts())],
    ids=repr,
)
def test_exact_counts_are_caught(allocation: ap.Allocation) -> None:
    assert caught(ridge(allocation), worst_users()["ordinary"])


def test_a_release_that_is_not_recorded_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    append = Ledger.append

    def forgetful(self: Ledger, *records: Record) -> None:
        append(self, *(record for record in records if record.name != "counts"))

    monkeypatch.setattr(Ledger, "append", forgetful)
    assert caught(ridge(ap.AdaptiveWeights()), EXTRA)


def test_both_counts_and_statistics_are_paid_for() -> None:
    for allocation in BY_COUNTS:
        data = ap.simulate_tasks(users=100, tasks=5, tasks_per_user=2)
        for statistics, released in RELEASED.items():
            model = ap.MultiTaskRidge(1.0, statistics=statistics, allocation=allocation).fit(data)
            ledger = model.privacy.ledger
            assert [record.name for record in ledger] == ["counts", *released]
            assert 1 - 1e-9 < ledger.epsilon(1e-5) <= 1


def test_public_counts_are_declared_in_the_report() -> None:
    data = ap.simulate_tasks(users=100, tasks=5, tasks_per_user=2)
    allocation = ap.AdaptiveWeights(counts=ap.PublicCounts())
    report = ap.MultiTaskRidge(epsilon=1.0, allocation=allocation).fit(data).privacy
    assert "declared public" in report.public_inputs["task counts"]
    assert any("not cover" in warning for warning in report.warnings)
