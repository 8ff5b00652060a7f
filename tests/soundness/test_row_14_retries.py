"""Row 14: computing a release again, in other blocks, shows the same bytes."""

import numpy as np
import pytest

import apportion as ap
from apportion.privacy import NoiseSource
from apportion.tasks import base
from apportion.tasks import ridge as ridge_module

DATA = ap.simulate_tasks(users=300, tasks=200, tasks_per_user=10)
KEY = bytes(range(32))


def test_a_retry_in_other_blocks_gives_the_same_model(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(base, "NoiseSource", _FixedKey)
    whole = ap.MultiTaskRidge(noise_seed=0).fit(DATA).coef_
    monkeypatch.setattr(ridge_module, "_BLOCK_BYTES", 8 * 5 * 6 * 7)  # seven tasks a block
    np.testing.assert_array_equal(ap.MultiTaskRidge(noise_seed=0).fit(DATA).coef_, whole)


class _FixedKey(NoiseSource):
    @classmethod
    def from_seed(cls, seed: int) -> "_FixedKey":
        del seed
        return cls.from_key(KEY)
