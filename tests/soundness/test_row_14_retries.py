"""Row 14: computing a release again, in other blocks, shows the same bytes."""

from typing import Any

import numpy as np
import pytest

import apportion as ap
from apportion.engine import held
from apportion.privacy import NoiseSource
from apportion.tasks import private_fit

DATA = ap.simulate_tasks(users=300, tasks=200, tasks_per_user=10)
KEY = bytes(range(32))


def retry_agrees(monkeypatch: pytest.MonkeyPatch) -> bool:
    """Whether a second run under the same key, in other blocks, gives the same model."""
    monkeypatch.setattr(private_fit, "NoiseSource", _FixedKey)
    whole = ap.MultiTaskRidge(noise_seed=0).fit(DATA).coef_
    seven = 7 * 8 * DATA.dimension * (DATA.dimension + 1)  # tasks a block
    monkeypatch.setattr(held, "_BLOCK_BYTES", seven)
    return np.array_equal(ap.MultiTaskRidge(noise_seed=0).fit(DATA).coef_, whole)


def test_a_retry_in_other_blocks_gives_the_same_model(monkeypatch: pytest.MonkeyPatch) -> None:
    assert retry_agrees(monkeypatch)


def test_noise_that_depends_on_blocks_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = NoiseSource.discrete_gaussian

    def by_block(self: NoiseSource, stream: str, step: int, first: int, *shape: Any) -> Any:
        del first
        return honest(self, stream, step, 0, *shape)

    monkeypatch.setattr(NoiseSource, "discrete_gaussian", by_block)
    assert not retry_agrees(monkeypatch)


class _FixedKey(NoiseSource):
    @classmethod
    def from_seed(cls, seed: int) -> "_FixedKey":
        del seed
        return cls.from_key(KEY)
