"""Row 10: full batches, or true Poisson samples of whole users, accounted as such."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import dp_accounting
import dp_accounting.rdp
import numpy as np
import pytest
from dp_accounting.pld import PLDAccountant

import apportion as ap
from apportion.accounts.affordable import sampled_mu
from apportion.accounts.ledgers import ledger_from_dict, ledger_to_dict, to_dp_event
from apportion.engine.cpu import NativeKernels
from apportion.engine.kernels import Kernels
from apportion.engine.queries import Gradients, Sample
from apportion.engine.reference import TwinKernels
from apportion.engine.session import LocalSession
from apportion.privacy import (
    Curator,
    Ledger,
    Part,
    PrivacyTarget,
    Record,
    UserBound,
)
from apportion.privacy.ledger import total_epsilon
from apportion.privacy.noise import poisson_sample
from apportion.privacy.sampled import SampledSteps, rounding, sampled_epsilon
from apportion.tasks.losses import squared
from tests.soundness.harness import Tape, plant, recording

DATA = ap.simulate_tasks(users=300, tasks=6, tasks_per_user=3)
SETTINGS: dict[str, Any] = {"epsilon": 1.0, "allocation": ap.UniformWeights()}


def test_the_accounting_is_that_of_poisson_sampling() -> None:
    steps = ap.Steps(10, sampling_rate=0.1)
    report = ap.MultiTaskDescent(steps=steps, **SETTINGS).fit(DATA).privacy
    (record,) = report.ledger
    assert (record.steps, record.sampling_rate) == (10, 0.1)
    ratio = record.noise_scale / record.sensitivity
    step = dp_accounting.PoissonSampledDpEvent(0.1, dp_accounting.GaussianDpEvent(ratio))
    accountant = PLDAccountant().compose(dp_accounting.SelfComposedDpEvent(step, 10))
    exact = accountant.get_epsilon(1e-5)
    assert exact <= report.epsilon <= exact * (1 + 1e-4)
    assert 0.99 < report.epsilon <= 1.0
    assert "0.1 of users" in str(report)


class Watching(ap.ReferenceEngine):
    """Notes of every step users' keys, and who of them has a weight."""

    def __init__(self, kernels: type[Kernels]) -> None:
        self.kernels = kernels
        self.seen: list[tuple[Any, Any]] = []

    def load(self, rows: Any) -> LocalSession:
        session = LocalSession(rows, self.kernels())
        sampled = session._sampled

        def noting(sample: Any) -> Any:
            weights = sampled(sample)
            users = len(rows.user_key)
            self.seen.append((rows.user_key, np.bincount(rows.user, weights, users) > 0))
            return weights

        session._sampled = noting  # type: ignore[method-assign]
        return session


def watched(
    data: ap.TaskData, kernels: type[Kernels] = NativeKernels, steps: ap.Steps | None = None
) -> list[Any]:
    """Users' keys and who was taken, in every step of a training."""
    engine = Watching(kernels)
    steps = steps or ap.Steps(10, sampling_rate=0.3)
    ap.MultiTaskDescent(**SETTINGS, steps=steps, noise_seed=0, engine=engine).fit(data)
    return engine.seen


@pytest.mark.parametrize("kernels", [NativeKernels, TwinKernels])
def test_every_step_samples_whole_users_afresh(kernels: type[Kernels]) -> None:
    masks = np.array([taken for _, taken in watched(DATA, kernels)])
    assert masks.shape == (10, 300)
    # Not a fixed batch size, not the same users: 90 expected, deviation 8.
    sizes = masks.sum(axis=1)
    assert len(set(sizes)) > 1
    assert np.abs(sizes - 90).max() < 5 * 8
    assert len({mask.tobytes() for mask in masks}) == 10


def test_whether_a_user_is_sampled_does_not_depend_on_others() -> None:
    some = DATA.take(DATA.user % 3 > 0)
    for (keys, taken), (fewer, still) in zip(watched(DATA), watched(some), strict=True):
        before = dict(zip(keys.tolist(), taken.tolist(), strict=True))
        after = dict(zip(fewer.tolist(), still.tolist(), strict=True))
        # Users whose rows were taken may be known still, without rows.
        assert len(after) >= 200
        with_rows = set(some.user_key[some.user].tolist())
        assert all(before[key] == value for key, value in after.items() if key in with_rows)


@pytest.mark.parametrize("engine", [ap.CpuEngine(), ap.ReferenceEngine()], ids=repr)
@pytest.mark.parametrize("clip", ["user", "row"])
def test_a_user_outside_the_sample_adds_nothing(engine: ap.Engine, clip: Any) -> None:
    taken = poisson_sample(DATA.user_key, bytes(16), 1 / 3)
    assert 60 < np.count_nonzero(taken) < 140

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
        ap.MultiTaskDescent(steps=ap.Steps(10, sampling_rate=0.1), **SETTINGS).fit(DATA)
    ap.MultiTaskDescent(steps=10, **SETTINGS).fit(DATA)  # full batches need no extra


def test_a_sampled_release_over_the_target_is_refused() -> None:
    ledger = Ledger(PrivacyTarget(1.0, 1e-5))
    mu = sampled_mu(ledger, steps=5, sampling_rate=0.2)
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


ONE_STEP = ap.Steps(1, sampling_rate=0.25)


def sums_over(sample: Any) -> bool:
    """Whether a step's raw sums are those of these users and of nobody else."""
    sampled, alone = Tape(), Tape()
    with recording(sampled):
        ap.MultiTaskDescent(**SETTINGS, steps=ONE_STEP, noise_seed=0).fit(DATA)
    with recording(alone):  # all of these
        ap.MultiTaskDescent(**SETTINGS, steps=1).fit(DATA.take(sample[DATA.user]))
    first, second = (tape.units["gradients"][0, 0] for tape in (sampled, alone))
    return np.array_equal(first, second)


def test_a_step_sums_over_its_sample_and_nobody_else() -> None:
    [(_, sample)] = watched(DATA, steps=ONE_STEP)
    assert sums_over(sample)


def test_a_sample_that_is_drawn_and_not_used_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    [(_, sample)] = watched(DATA, steps=ONE_STEP)
    plant(monkeypatch, "_sampled", lambda honest: lambda self, sample: honest(self, None))
    assert not sums_over(sample)


def test_steps_that_depend_on_private_counts_are_not_sampled() -> None:
    steps = ap.Steps("theory", schedule="theory", users=300, sampling_rate=0.5)
    with pytest.raises(ap.ParameterError, match="needs public counts"):
        ap.MultiTaskDescent(steps=steps).fit(DATA)


def test_parts_on_one_sample_are_not_accounted_as_independent_samples() -> None:
    # q = 0.01, 200 steps: the ledger would say 0.999 where epsilon is 2.008.
    curator = Curator(PrivacyTarget(1.0, 1e-6))
    parts = [Part(name, "sums", UserBound(1.0, "one"), 3) for name in ("A", "b")]
    with pytest.raises(ap.ParameterError, match="sampled users has one part, got 2"):
        curator.open("g", parts, 2, 1.0, steps=200, sampling_rate=0.01)
    assert len(curator.ledger) == 0
    curator.open("g", parts[:1], 2, 1.0, steps=200, sampling_rate=0.01)
    curator.open("all users", parts, 2, 0.1, steps=200)  # without a sample it is one Gaussian


@pytest.mark.parametrize("delta", [1e-14, 1e-10, 1e-8, 1e-6, 1e-4])
@pytest.mark.parametrize(
    ("steps", "noise"), [(10_000, 125.0), (10_000, 1000.0), (1000, 30.0), (10, 2.0), (1, 1.0)]
)
def test_sampling_almost_everybody_costs_what_everybody_costs(
    steps: int, noise: float, delta: float
) -> None:
    # 10,000 steps at 125 and 1e-14 were said to be 6.025, by rounding; the exact value is 6.194.
    exact = ap.epsilon_from_mu(steps**0.5 / noise, delta) / (1 + 1e-11)
    record = Record("g", "sums", (1,), 1.0, "one", noise, steps, 1 - 1e-15)
    sampled = sampled_epsilon(0.0, [SampledSteps(noise, 1 - 1e-15, steps)], delta)
    assert exact <= sampled <= exact * 1.2 + 1e-3
    assert exact <= total_epsilon([record], delta) <= exact * (1 + 1e-9)


@pytest.mark.parametrize("delta", [1e-4, 1e-6])
def test_what_rounding_may_lose_is_little_at_usual_deltas(delta: float) -> None:
    for noise, rate, steps in [(2.0, 0.01, 200), (2.0, 0.01, 1000), (5.0, 0.1, 10)]:
        event = dp_accounting.PoissonSampledDpEvent(rate, dp_accounting.GaussianDpEvent(noise))
        accountant = PLDAccountant().compose(dp_accounting.SelfComposedDpEvent(event, steps))
        found = sampled_epsilon(0.0, [SampledSteps(noise, rate, steps)], delta)
        assert accountant.get_epsilon(delta) <= found <= accountant.get_epsilon(delta) * 1.005


def test_rounding_adds_up_over_steps_and_releases() -> None:
    one = SampledSteps(2.0, 0.1, 100)
    alone = rounding(0.0, [one])
    assert 100 * 2.0**-46 < alone < 1e-8
    assert rounding(1.0, [one]) > alone
    twice = rounding(0.0, [SampledSteps(2.0, 0.1, 200)])
    assert 1.8 * alone < twice < rounding(0.0, [one, one])


@pytest.mark.parametrize("delta", [1e-14, 1e-10])
def test_sampling_is_worth_something_at_tiny_deltas_too(delta: float) -> None:
    found = sampled_epsilon(0.0, [SampledSteps(2.0, 0.01, 200)], delta)
    rdp = dp_accounting.rdp.RdpAccountant()
    event = dp_accounting.PoissonSampledDpEvent(0.01, dp_accounting.GaussianDpEvent(2.0))
    exact_enough = rdp.compose(event, 200).get_epsilon(delta)
    assert 0.5 * exact_enough < found <= 1.05 * exact_enough


def test_unsampled_releases_are_accounted_beside_sampled_ones() -> None:
    # Of 2.08 in all, 0.72 would be left if they were dropped.
    ledger = Ledger(PrivacyTarget(5.0, 1e-6))
    ledger.append(Record("counts", "sums", (1,), 1.0, "one", 2.5))
    alone = ledger.epsilon(1e-6)
    ledger.append(Record("g", "sums", (1,), 1.0, "one", 2.0, 1000, 0.01))
    accountant = PLDAccountant().compose(to_dp_event(ledger))
    exact = accountant.get_epsilon(1e-6)
    assert exact > alone > 1.5
    assert exact * (1 - 1e-6) <= ledger.epsilon(1e-6) <= exact * 1.005


@pytest.mark.parametrize("noise", [0.29, 0.2999])
def test_a_sampled_release_with_less_than_the_least_noise_is_refused(noise: float) -> None:
    # Hardly anybody is ever sampled: delta alone would pay for it.
    ledger = Ledger(PrivacyTarget(5.0, 1e-3))
    record = Record("g", "sums", (1,), 1.0, "one", noise, 2, 1e-5)
    with pytest.raises(ap.BudgetExceededError, match=r"noise is less than 0.3 times"):
        ledger.append(record)
    assert len(ledger) == 0
    ledger.append(Record("g", "sums", (1,), 1.0, "one", 0.3, 2, 1e-5))
    forged = ledger_to_dict(ledger)
    forged["records"][0]["noise_scale"] = noise
    with pytest.raises(ap.BudgetExceededError, match=r"noise is less than 0.3 times"):
        ledger_from_dict(forged)


def test_a_sample_that_is_not_drawn_is_no_sample() -> None:
    part = Part("g", "sums", UserBound(1.0, "one"))
    release = Curator(PrivacyTarget(1.0, 1e-5)).open(
        "g", [part], 2, 0.3, steps=2, sampling_rate=0.5
    )
    for step in range(2):
        if step:
            release.next_step()
        with pytest.raises(ap.ReleaseError, match="draw the sample"):
            release.feed(0, np.zeros((2, 1), np.int64))
        release.sample_key()
        release.feed(0, np.zeros((2, 1), np.int64))


def test_a_step_of_sampled_users_belongs_to_one_thread() -> None:
    # Another thread could go on to the next step between a sample and the sums over it.
    curator = Curator(PrivacyTarget(1.0, 1e-5))
    part = Part("g", "sums", UserBound(1.0, "one"))
    release = curator.open("g", [part], 2, 0.3, steps=2, sampling_rate=0.5)
    for use in (
        release.sample_key,
        lambda: release.feed(0, np.zeros((2, 1), np.int64)),
        release.next_step,
    ):
        with ThreadPoolExecutor(1) as pool, pytest.raises(ap.ReleaseError, match="the thread"):
            pool.submit(use).result()
    release.sample_key()
    release.feed(0, np.zeros((2, 1), np.int64))


def test_sampled_steps_keep_a_least_noise() -> None:
    # Hardly anybody is ever sampled, so that delta alone would pay for no noise at all.
    ledger = Ledger(PrivacyTarget(1.0, 1e-3))
    mu = sampled_mu(ledger, steps=2, sampling_rate=1e-5)
    assert 2**0.5 / mu >= 0.3 * (1 - 1e-9)
