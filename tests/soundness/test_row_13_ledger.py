"""Row 13: what is accounted is what was executed."""

import math
from typing import Any

import numpy as np
import pytest
from scipy import stats

import apportion as ap
from apportion.accounts.ledgers import ledger_from_json, ledger_to_json
from apportion.privacy import release
from tests.soundness.harness import Array, Tape, recording

DATA = ap.simulate_tasks(users=300, tasks=400, tasks_per_user=10)
SYMMETRIC = {"pilot.A", "statistics.A", "second moment.matrix"}


def noise_matches_the_ledger() -> bool:
    """Whether the noise that was really added has the recorded size, at an error rate of 1e-6."""
    tape = Tape()
    with recording(tape):
        model = ap.MultiTaskRidge(epsilon=1.0, noise_seed=5).fit(DATA)
    for record in model.privacy.ledger:
        ((_, released),) = tape.released[record.name].items()
        raw: Array = tape.raw[record.name][0, 0]
        shown = released.copy()
        if record.name in SYMMETRIC:
            rows, columns = np.triu_indices(DATA.dimension)
            shown[:, rows != columns] *= np.sqrt(2)
        # Groups of twenty tasks: too little noise on some of them must not hide among the others.
        for group in np.split((shown - raw) / record.noise_scale, max(1, len(raw) // 20)):
            total, count = float(np.sum(group**2)), group.size
            if not stats.chi2.ppf(1e-6, count) < total < stats.chi2.isf(1e-6, count):
                return False
    return True


def test_the_noise_added_is_the_noise_recorded() -> None:
    assert noise_matches_the_ledger()


@pytest.mark.parametrize(
    "affected", [slice(None), slice(0, 40)], ids=["all tasks", "a tenth of them"]
)
def test_too_little_noise_is_caught(monkeypatch: pytest.MonkeyPatch, affected: slice) -> None:
    add = release._add_noise

    def stingy(*arguments: Any) -> Array:
        sums = arguments[-1].copy()  # noise is added in its place
        noisy = add(*arguments)
        noisy[affected] = (noisy + sums)[affected] / 2
        return noisy

    monkeypatch.setattr(release, "_add_noise", stingy)
    assert not noise_matches_the_ledger()


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 7.5])
def test_the_ledger_ends_at_the_target(epsilon: float) -> None:
    for allocation in (ap.UniformWeights(), ap.AdaptiveWeights(), ap.TailSampling(3)):
        report = ap.MultiTaskRidge(epsilon=epsilon, allocation=allocation).fit(DATA).privacy
        assert epsilon * (1 - 1e-9) < report.epsilon <= epsilon


def test_without_noise_no_epsilon_is_printed() -> None:
    report = ap.MultiTaskRidge(epsilon=math.inf).fit(DATA).privacy
    assert report.epsilon == math.inf
    assert "NOT PRIVATE" in str(report)


def test_every_step_of_descent_gets_the_noise_recorded() -> None:
    tape = Tape()
    with recording(tape):
        model = ap.MultiTaskDescent(steps=4, allocation=ap.UniformWeights(), noise_seed=2).fit(DATA)
    (record,) = model.privacy.ledger
    for step in range(4):
        noise = tape.released["gradients"][step, 0] - tape.raw["gradients"][step, 0]
        total = float(np.sum((noise / record.noise_scale) ** 2))
        assert stats.chi2.ppf(1e-6, noise.size) < total < stats.chi2.isf(1e-6, noise.size)


def test_a_ledger_without_its_steps_is_refused() -> None:
    import json

    ledger = ap.MultiTaskDescent(steps=9).fit(DATA).privacy.ledger
    values = json.loads(ledger_to_json(ledger))
    for name in ("steps", "sampling_rate"):
        damaged = json.loads(json.dumps(values))
        del damaged["records"][-1][name]
        with pytest.raises(ap.DataError, match="not a ledger"):
            ledger_from_json(json.dumps(damaged))
