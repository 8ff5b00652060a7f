"""One training under way: what is asked of it, its rows where sums are computed, and who opens releases."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from apportion.accounts.checkpoint import Checkpoint
from apportion.accounts.plan import Plan
from apportion.data import Interactions
from apportion.data.rows import Rows
from apportion.engine import Engine, Session
from apportion.engine.feed import released
from apportion.engine.queries import Query
from apportion.privacy import Curator
from apportion.recommend.choose import Asked
from apportion.recommend.settings import Settings

Array = NDArray[np.float64]
OnSweep = Callable[[int, int], object]


@dataclass(frozen=True, eq=False)
class Run:
    """What all steps of a training share.

    Attributes
        asked: the parameters that may be left open.
        settings: all others.
        data: the interactions.
        engine: where their rows are loaded.
        curator: opens releases.
        seed: for the first items.
        saved: the checkpoint, if there is one.
        on_sweep: is told how many sweeps are done, and how many there are.
    """

    asked: Asked
    settings: Settings
    data: Interactions
    engine: Engine
    curator: Curator
    seed: int
    saved: Checkpoint | None = None
    on_sweep: OnSweep | None = None

    @cached_property
    def session(self) -> Session:
        """All rows, loaded."""
        return self.load(self.data)

    def load(self, data: Interactions) -> Session:
        """An event's label is one, also if it has a rating."""
        rows = data.rows()
        return self.engine.load(rows if self.settings.explicit else rows.without_labels())

    def released(self, plan: Plan, name: str, query: Query) -> tuple[tuple[Array, ...], float]:
        """The noisy values of every part of a planned release, and the first one's standard deviation."""
        release = plan.open(name, self.curator, self.session.tasks)
        return released(self.session, query, release), release.records[0].noise_scale

    @property
    def in_memory(self) -> bool:
        """Whether rows are in the memory of this machine, where some may be kept out."""
        return isinstance(self.data.rows(), Rows)
