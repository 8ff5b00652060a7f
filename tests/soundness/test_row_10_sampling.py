"""Row 10: full batches, or true Poisson samples of whole users, accounted as such."""

from typing import Any

import dp_accounting
import numpy as np
import pytest
from dp_accounting.pld import PLDAccountant

import apportion as ap
from apportion.engine import reference
from apportion.engine.queries import Gradients, Sample
from apportion.privacy import Curator, Ledger, Part, PrivacyTarget, Record, UserBound
from apportion.privacy.noise import poisson_sample
from apportion.tasks.losses import squared
from tests.soundness.harness import Tape, plant, recording

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


def watched(monkeypatch: pytest.MonkeyPatch, data: ap.TaskData, **settings: Any) -> list[Any]:
    """Users' keys and who was taken, in every step of a training."""
    seen: list[Any] = []
    sample = poisson_sample

    def noting(user_key: Any, key: bytes, rate: float) -> Any:
        drawn = sample(user_key, key, rate)
        seen.append((user_key, drawn))
        return drawn

    with monkeypatch.context() as patch:
        patch.setattr(reference, "poisson_sample", noting)
        ap.MultiTaskDescent(sampling_rate=0.3, noise_seed=0, **SETTINGS, **settings).fit(data)
    return seen


@pytest.mark.parametrize("engine", ["cpu", "reference"])
def test_every_step_samples_whole_users_afresh(
    monkeypatch: pytest.MonkeyPatch, engine: str
) -> None:
    masks = np.array([taken for _, taken in watched(monkeypatch, DATA, engine=engine)])
    assert masks.shape == (10, 300)
    # Not a fixed batch size, not the same users: 90 expected, deviation 8.
    sizes = masks.sum(axis=1)
    assert len(set(sizes)) > 1
    assert np.abs(sizes - 90).max() < 5 * 8
    assert len({mask.tobytes() for mask in masks}) == 10


def test_whether_a_user_is_sampled_does_not_depend_on_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    some = DATA.take(DATA.user % 3 > 0)
    for (keys, taken), (fewer, still) in zip(
        watched(monkeypatch, DATA), watched(monkeypatch, some), strict=True
    ):
        before = dict(zip(keys.tolist(), taken.tolist(), strict=True))
        after = dict(zip(fewer.tolist(), still.tolist(), strict=True))
        # Users whose rows were taken may be known still, without rows.
        assert len(after) >= 200
        assert all(before[key] == value for key, value in after.items())


@pytest.mark.parametrize("engine", [ap.CpuEngine(), ap.ReferenceEngine()], ids=repr)
@pytest.mark.parametrize("clip", ["user", "row"])
def test_a_user_outside_the_sample_adds_nothing(
    monkeypatch: pytest.MonkeyPatch, engine: ap.Engine, clip: Any
) -> None:
    taken = np.arange(300) % 3 == 0
    monkeypatch.setattr(reference, "poisson_sample", lambda user_key, *_: taken[: len(user_key)])

    def summed(data: ap.TaskData, sample: Any) -> Any:
        session = engine.load(data.rows())
        session.bound_features(1.0, whole=False)
        session.weigh(ap.UniformWeights().rule(6, None, 0, lambda: data.graph))
        coef = np.zeros((6, data.dimension))
        query = Gradients(coef, squared(), 0.1, 1.0, clip, sample)
        [(_, (units,))] = session.sums(query, (2.0**-30,))
        return units

    everybody = summed(DATA, None)
    sampled = summed(DATA, Sample(bytes(16), 1 / 3))
    assert (sampled != everybody).any()
    np.testing.assert_array_equal(sampled, summed(DATA.take(taken[DATA.user]), None))


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
    curator = Curator(PrivacyTarget(1.0, 1e-5))
    part = Part("g", "sums", UserBound(1.0, "one"))
    release = curator.open("g", [part], 2, curator.target.mu, steps=2)
    first = release.feed(0, np.zeros((2, 1), dtype=np.int64))[0]
    with pytest.raises(ap.ReleaseError, match="fed twice"):
        release.feed(0, np.zeros((2, 1), dtype=np.int64))
    release.next_step()
    second = release.feed(0, np.zeros((2, 1), dtype=np.int64))[0]
    assert not np.intersect1d(first, second).size
    with pytest.raises(ap.ReleaseError, match="only 2 steps were recorded"):
        release.next_step()


def sums_over_its_sample(monkeypatch: pytest.MonkeyPatch) -> bool:
    """Whether a step's raw sums are those of the sampled users and of nobody else."""
    sample = np.arange(300) % 4 == 0
    settings = {**SETTINGS, "steps": 1, "noise_seed": 0, "sampling_rate": 0.25}
    sampled, alone = Tape(), Tape()
    monkeypatch.setattr(reference, "poisson_sample", lambda *_: sample)
    with recording(sampled):
        ap.MultiTaskDescent(**settings).fit(DATA)
    monkeypatch.setattr(reference, "poisson_sample", lambda *_: np.ones(300, dtype=bool))
    with recording(alone):
        ap.MultiTaskDescent(**settings).fit(DATA.take(sample[DATA.user]))
    first, second = (tape.units["gradients"][0, 0] for tape in (sampled, alone))
    return np.array_equal(first, second)


def test_a_step_sums_over_its_sample_and_nobody_else(monkeypatch: pytest.MonkeyPatch) -> None:
    assert sums_over_its_sample(monkeypatch)


def test_a_sample_that_is_drawn_and_not_used_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch, "_sampled", lambda honest: lambda self, sample: honest(self, None))
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
