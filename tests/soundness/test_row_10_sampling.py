"""Row 10: full batches, or true Poisson samples of whole users, accounted as such."""

import dp_accounting
import numpy as np
import pytest
from dp_accounting.pld import PLDAccountant

import apportion as ap
from apportion.engine import TaskRows, UserRows
from apportion.engine.base import Examples
from apportion.privacy import Ledger, NoiseSource, PrivacyTarget, Record
from tests.soundness.harness import Tape, recording

DATA = ap.simulate_tasks(users=300, tasks=6, tasks_per_user=3)
SETTINGS = {"epsilon": 1.0, "steps": 10, "allocation": ap.UniformWeights()}


def test_the_accounting_is_that_of_poisson_sampling() -> None:
    report = ap.MultiTaskDescent(sampling_rate=0.1, **SETTINGS).fit(DATA).privacy
    (record,) = report.ledger
    assert (record.steps, record.sampling_rate) == (10, 0.1)
    ratio = record.noise_scale / record.sensitivity
    step = dp_accounting.PoissonSampledDpEvent(0.1, dp_accounting.GaussianDpEvent(ratio))
    accountant = PLDAccountant().compose(dp_accounting.SelfComposedDpEvent(step, 10))
    assert report.epsilon == pytest.approx(accountant.get_epsilon(1e-5))
    assert 0.99 < report.epsilon <= 1.0
    assert "0.1 of users" in str(report)


def test_every_step_samples_whole_users_afresh(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    sample = NoiseSource.poisson_sample

    def watched(self: NoiseSource, stream: str, step: int, users: int, rate: float) -> object:
        drawn = sample(self, stream, step, users, rate)
        seen.append(drawn)
        return drawn

    monkeypatch.setattr(NoiseSource, "poisson_sample", watched)
    ap.MultiTaskDescent(sampling_rate=0.3, noise_seed=0, **SETTINGS).fit(DATA)
    masks = np.array(seen)
    assert masks.shape == (10, 300)
    # Not a fixed batch size, not the same users: 90 expected, deviation 8.
    sizes = masks.sum(axis=1)
    assert len(set(sizes)) > 1
    assert np.abs(sizes - 90).max() < 5 * 8
    assert len({mask.tobytes() for mask in masks}) == 10


@pytest.mark.parametrize("order", [TaskRows, UserRows])
def test_a_user_outside_the_sample_has_no_weight(order: type[TaskRows]) -> None:
    weights = np.ones(len(DATA.labels))
    rows = order.sort(
        DATA.features, DATA.feature_row, DATA.labels, weights, DATA.user, DATA.task, 6
    )
    sample = np.arange(300) % 3 == 0
    sampled = rows.of_users(sample)
    np.testing.assert_array_equal(sampled.weight > 0, sample[sampled.user])


def test_sampling_without_the_accountant_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "dp_accounting", None)
    with pytest.raises(ap.ParameterError, match=r"apportion\[accounting\]"):
        ap.MultiTaskDescent(sampling_rate=0.1, **SETTINGS).fit(DATA)
    ap.MultiTaskDescent(**SETTINGS).fit(DATA)  # full batches need no extra


def test_a_sampled_release_over_the_target_is_refused() -> None:
    ledger = Ledger(PrivacyTarget(1.0, 1e-5))
    mu = ledger.affordable_mu(steps=5, sampling_rate=0.2)
    assert mu > ledger.target.mu
    noise = 5**0.5 / mu
    with pytest.raises(ap.BudgetExceededError):
        ledger.append(Record("more", "sums", (1,), 1.0, "one", 0.99 * noise, 5, 0.2))
    ledger.append(Record("gradients", "sums", (1,), 1.0, "one", noise, 5, 0.2))
    assert 0.99 < ledger.epsilon(1e-5) <= 1.0
    with pytest.raises(ap.BudgetExceededError):
        ledger.append(Record("again", "sums", (1,), 1.0, "one", noise, 5, 0.2))


def test_steps_beyond_the_recorded_ones_are_refused() -> None:
    from apportion.privacy import Curator, Part, UserBound

    curator = Curator(PrivacyTarget(1.0, 1e-5))
    part = Part("g", "sums", UserBound(1.0, "one"))
    release = curator.open("g", [part], 2, curator.target.mu, steps=2)
    first = release.feed(0, np.zeros((2, 1)))[0]
    with pytest.raises(ap.ReleaseError, match="fed twice"):
        release.feed(0, np.zeros((2, 1)))
    release.next_step()
    second = release.feed(0, np.zeros((2, 1)))[0]
    assert not np.intersect1d(first, second).size
    with pytest.raises(ap.ReleaseError, match="only 2 steps were recorded"):
        release.next_step()


def sums_over_its_sample(monkeypatch: pytest.MonkeyPatch) -> bool:
    """Whether a step's raw sums are those of the sampled users and of nobody else."""
    sample = np.arange(300) % 4 == 0
    settings = {**SETTINGS, "steps": 1, "noise_seed": 0, "sampling_rate": 0.25}
    sampled, alone = Tape(), Tape()
    monkeypatch.setattr(NoiseSource, "poisson_sample", lambda *_: sample)
    with recording(sampled):
        ap.MultiTaskDescent(**settings).fit(DATA)
    monkeypatch.setattr(NoiseSource, "poisson_sample", lambda *_: np.ones(300, dtype=bool))
    with recording(alone):
        ap.MultiTaskDescent(**settings).fit(DATA.take(sample[DATA.user]))
    first, second = (tape.raw["gradients"][0, 0] for tape in (sampled, alone))
    return bool(np.allclose(first, second, atol=1e-12))


def test_a_step_sums_over_its_sample_and_nobody_else(monkeypatch: pytest.MonkeyPatch) -> None:
    assert sums_over_its_sample(monkeypatch)


def test_a_sample_that_is_drawn_and_not_used_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Examples, "of_users", lambda self, _: self)
    assert not sums_over_its_sample(monkeypatch)


def test_steps_that_depend_on_private_counts_are_not_sampled() -> None:
    settings = {"steps": "theory", "schedule": "theory", "users": 300, "sampling_rate": 0.5}
    with pytest.raises(ap.ParameterError, match="needs public counts"):
        ap.MultiTaskDescent(**settings).fit(DATA)


def test_sampled_steps_keep_a_least_noise() -> None:
    # Hardly anybody is ever sampled, so that delta alone would pay for no noise at all.
    ledger = Ledger(PrivacyTarget(1.0, 1e-3))
    mu = ledger.affordable_mu(steps=2, sampling_rate=1e-5)
    assert 2**0.5 / mu >= 0.3 * (1 - 1e-9)
