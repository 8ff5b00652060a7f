"""Who pays for releases, and who is told of them, is asked before anything leaves."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import apportion as ap
from apportion.privacy import Curator, NoiseSource, Part, PrivacyTarget, Record, UserBound

TARGET = PrivacyTarget(1.0, 1e-2, 5e-3)
BOUND = UserBound(2.0, "by construction")
ZEROS = np.zeros((3, 1), dtype=np.int64)


class Purse:
    """Pays for so many releases."""

    token = "training"

    def __init__(self, releases: int = 9) -> None:
        self.left = releases
        self.key = ""
        self.paid: list[Record] = []

    def tie(self, key: str) -> None:
        self.key = key

    def sampled_mu(self, steps: int, sampling_rate: float) -> float:
        return 0.0

    def commit(self, records: Sequence[Record]) -> None:
        if not self.left:
            raise ap.BudgetExceededError("empty")
        self.left -= 1
        self.paid += records


def test_every_release_is_paid_for() -> None:
    purse = Purse()
    desk = Curator(TARGET, reservation=purse)
    desk.release("sums", ZEROS, BOUND, 0.05)
    desk.open("both", [Part("A", "", BOUND), Part("b", "", BOUND)], 2, 0.05)
    desk.select("chosen", np.arange(2), np.array([1, 2]), 1, 0.05, 1e-3)
    assert purse.paid == list(desk.ledger)
    assert [record.name for record in purse.paid] == ["sums", "both.A", "both.b", "chosen"]
    assert desk.reservation is purse


def test_what_is_not_paid_for_is_not_released() -> None:
    seen: list[Any] = []
    desk = Curator(TARGET, reservation=Purse(0), witness=lambda *what: seen.append(what))
    with pytest.raises(ap.BudgetExceededError, match="empty"):
        desk.release("sums", ZEROS, BOUND, 0.05)
    assert not seen
    with pytest.raises(ap.BudgetExceededError, match="empty"):
        desk.select("chosen", np.arange(2), np.array([1, 2]), 1, 0.05, 1e-3)
    assert len(desk.ledger) == 0


def test_who_pays_is_tied_to_the_noise() -> None:
    key, purse, other = bytes(range(32)), Purse(), Purse()
    Curator(TARGET, NoiseSource.from_key(key), purse)
    Curator(TARGET, NoiseSource.from_key(key), other)
    assert purse.key == other.key == NoiseSource.from_key(key).digest("training")
    fresh = Purse()
    Curator(TARGET, reservation=fresh)
    assert fresh.key not in ("", purse.key)


def test_nobody_pays_for_noise_that_anybody_can_repeat() -> None:
    purse = Purse()
    with pytest.raises(ap.ParameterError, match="no budget pays"):
        Curator(TARGET, NoiseSource.from_seed(0), purse)
    assert purse.key == ""
    Curator(TARGET, NoiseSource.from_seed(0)).release("sums", ZEROS, BOUND, 0.05)


def test_a_source_of_noise_belongs_to_one_training() -> None:
    noise = NoiseSource()
    Curator(TARGET, noise)
    with pytest.raises(ap.ReleaseError, match="two trainings need two keys"):
        Curator(TARGET, noise)
    used, purse = NoiseSource(), Purse()
    used.claim()
    with pytest.raises(ap.ReleaseError, match="two trainings need two keys"):
        Curator(TARGET, used, purse)
    assert purse.key == ""


def test_selections_are_witnessed_before_they_have_noise() -> None:
    told: list[Any] = []
    desk = Curator(TARGET, NoiseSource(), witness=lambda *what: told.append(what))
    ids, counts = np.array(["b", "a"], dtype=object), np.array([5, 2**30])
    desk.select("chosen", ids, counts, 4, 0.1, 1e-3)
    [(record, step, first, sums, names)] = told
    [written] = desk.ledger
    assert (record.name, record.noise_scale, record.delta) == (
        "chosen", written.noise_scale, 1e-3,
    )  # fmt: skip
    assert record.shape == (0, 1)
    assert (step, first, sums.tolist(), names.tolist()) == (0, 0, [5, 2**30], ["b", "a"])


class Ear:
    """Hears everything; may say other things to the training."""

    def __init__(self, *, replaces: bool) -> None:
        self.replaces = replaces

    def released(self, records: Any, parts: Any, values: Any) -> Any:
        return values

    def selected(self, name: str, ids: Any, counts: Any) -> Any:
        return ids, counts


def test_noise_is_secret_if_nobody_has_its_key_or_replaces_it() -> None:
    for noise, secret in ((NoiseSource, True), (lambda: NoiseSource.from_seed(1), False)):
        assert Curator(TARGET, noise()).secret_noise is secret
        assert Curator(TARGET, noise(), listener=Ear(replaces=False)).secret_noise is secret
        assert not Curator(TARGET, noise(), listener=Ear(replaces=True)).secret_noise
