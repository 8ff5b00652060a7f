"""Row 14: computing a release again, in other blocks, shows the same bytes."""

from typing import Any

import numpy as np
import pytest

import apportion as ap
from apportion.engine import Engine, Session, find_engine
from apportion.engine.session import LocalSession
from apportion.privacy import NoiseSource

DATA = ap.simulate_tasks(users=300, tasks=200, tasks_per_user=10)


class SmallBlocks(Engine):
    """The usual engine, with few tasks in a block."""

    def __init__(self, tasks: int) -> None:
        self._bytes = tasks * 8 * DATA.dimension * (DATA.dimension + 1)

    def identity(self) -> dict[str, str]:
        return find_engine("auto").identity()

    def load(self, rows: Any) -> Session:
        session = find_engine("auto").load(rows)
        assert isinstance(session, LocalSession)
        session.block_bytes = self._bytes
        return session


def retry_agrees() -> bool:
    """Whether a second run under the same key, in other blocks, gives the same model."""
    whole = ap.MultiTaskRidge(noise_seed=0).fit(DATA).coef_
    again = ap.MultiTaskRidge(noise_seed=0, engine=SmallBlocks(7)).fit(DATA).coef_
    return np.array_equal(again, whole)


def test_a_retry_in_other_blocks_gives_the_same_model() -> None:
    assert retry_agrees()


def test_noise_that_depends_on_blocks_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = NoiseSource.discrete_gaussian

    def by_block(self: NoiseSource, stream: str, step: int, first: int, *shape: Any) -> Any:
        del first
        return honest(self, stream, step, 0, *shape)

    monkeypatch.setattr(NoiseSource, "discrete_gaussian", by_block)
    assert not retry_agrees()
