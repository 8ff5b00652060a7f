"""Row 9: noise is secret, never repeated, and a fixed seed makes no promise."""

import math
import pickle
from typing import Any
from unittest import mock

import numpy as np
import pytest

import apportion as ap
from apportion.privacy import NoiseSource
from tests.soundness.harness import Array, Tape, recording

DATA = ap.simulate_tasks(users=200, tasks=150, tasks_per_user=10)


def noise(model: ap.MultiTaskRidge) -> dict[str, Array]:
    """The noise that a training really added, in units of its recorded scale, by release."""
    tape = Tape()
    with recording(tape):
        model.fit(DATA)
    drawn = {}
    for record in model.privacy.ledger:
        ((_, released),) = tape.released[record.name].items()
        raw = tape.raw[record.name][0, 0].copy()
        if record.name.endswith((".A", ".matrix")):
            rows, columns = np.triu_indices(DATA.dimension)
            raw[:, rows != columns] /= np.sqrt(2)
        drawn[record.name] = (released - raw) / record.noise_scale
    return drawn


def repeats_noise() -> bool:
    """Whether many variates of two models are equal, up to their sign and the grid.

    Of 12,632 independent ones, about one pair is as close as this, and twenty are with probability 1e-15.
    """
    models = [noise(ap.MultiTaskRidge()) for _ in range(2)]
    everything = np.sort(np.abs(np.concatenate([v.ravel() for m in models for v in m.values()])))
    return bool(np.count_nonzero(np.diff(everything) < 2e-8) >= 20)


def test_no_noise_is_used_twice_within_a_model_or_between_models() -> None:
    assert not repeats_noise()


@pytest.mark.parametrize("fault", ["one key for all", "one stream for all", "one tile for all"])
def test_repeated_noise_is_caught(monkeypatch: pytest.MonkeyPatch, fault: str) -> None:
    source = NoiseSource._source

    def faulty(self: NoiseSource, purpose: bytes, stream: str, step: int, tile: int) -> Any:
        if fault == "one key for all":
            self._key = bytes(32)
        stream = "" if fault == "one stream for all" else stream
        return source(self, purpose, stream, step, 0 if fault == "one tile for all" else tile)

    monkeypatch.setattr(NoiseSource, "_source", faulty)
    assert repeats_noise()


@pytest.mark.parametrize("other", ["statistics.b", "pilot.A", "pilot.b"])
def test_the_noise_of_two_releases_is_uncorrelated(other: str) -> None:
    drawn = noise(ap.MultiTaskRidge(noise_seed=11))
    A, b = drawn["statistics.A"], drawn[other]
    correlation = np.corrcoef(A.T, b.T)[: A.shape[1], A.shape[1] :]
    # At most 225 correlations of 150 pairs each, deviation 0.082.
    assert np.abs(correlation).max() < 5 / np.sqrt(len(A))


def test_a_fixed_seed_is_not_private() -> None:
    report = ap.MultiTaskRidge(noise_seed=3).fit(DATA).privacy
    assert not report.private
    assert report.epsilon == math.inf
    assert "NOT PRIVATE" in str(report)


def test_the_default_is_secret() -> None:
    first, second = (ap.MultiTaskRidge().fit(DATA) for _ in range(2))
    assert first.privacy.private
    assert not np.allclose(first.coef_, second.coef_)


def test_the_key_is_not_kept_with_the_model() -> None:
    model = ap.MultiTaskRidge()
    with mock.patch("secrets.token_bytes", return_value=b"the noise key that nobody sees!!"):
        model.fit(DATA)
    assert model.privacy.private
    assert b"nobody sees" not in pickle.dumps(model)
