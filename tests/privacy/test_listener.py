"""Who listens is told released values, in the thread and the block that it listens in."""

import threading
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from apportion.accounts.listening import current_listener, listening, told_listener
from apportion.privacy import (
    Curator,
    NoiseSource,
    Part,
    PrivacyTarget,
    Record,
    UserBound,
)

TARGET = PrivacyTarget(1.0, 1e-2, 5e-3)
PARTS = [
    Part("A", "matrices", UserBound(3.0, "x"), width=2, symmetric=True),
    Part("b", "vectors", UserBound(0.5, "y"), width=2),
]


class Ear:
    """Remembers what it is told; says that every value is nine, if it may."""

    def __init__(self, *, replaces: bool = False) -> None:
        self.replaces = replaces
        self.told: list[Any] = []

    def released(
        self, records: Sequence[Record], parts: Sequence[Any], values: tuple[Any, ...]
    ) -> tuple[Any, ...]:
        self.told.append((tuple(records), tuple(parts), values))
        return tuple(np.full_like(each, 9.0) for each in values) if self.replaces else values

    def selected(self, name: str, ids: Any, counts: Any) -> tuple[Any, Any]:
        self.told.append((name, ids, counts))
        return (ids[:0], counts[:0]) if self.replaces else (ids, counts)


def sums(tasks: int) -> tuple[np.ndarray, np.ndarray]:
    """Large ones: raw values would be noticed."""
    return np.full((tasks, 3), 2**40), np.full((tasks, 2), 2**41)


def desk() -> Curator:
    return Curator(TARGET, NoiseSource.from_seed(3), listener=told_listener())


def test_it_is_told_noisy_values_and_their_records_block_by_block() -> None:
    ear = Ear()
    with listening(ear):
        curator = desk()
    release = curator.open("both", PARTS, 5, 0.1)
    found = [release.feed(3, *sums(2)), release.feed(0, *sums(3))]
    plain = desk().open("both", PARTS, 5, 0.1).feed(0, *sums(5))
    assert len(ear.told) == 2
    for (records, parts, values), given in zip(ear.told, found, strict=True):
        assert records == release.records
        assert [part.name for part in parts] == ["A", "b"]
        assert all(np.array_equal(one, other) for one, other in zip(values, given, strict=True))
    for part in range(2):
        np.testing.assert_array_equal(np.concatenate([found[1][part], found[0][part]]), plain[part])
        raw = sums(5)[part] * release.grids[part]
        assert (plain[part] != raw).mean() > 0.9


def test_it_is_told_selections_as_they_are_released() -> None:
    ear = Ear()
    ids, counts = np.array([5, 3, 8]), np.array([10**6, 2 * 10**6, 0])
    with listening(ear):
        chosen, noisy = desk().select("catalog", ids, counts, 1, 0.2, 5e-3)
    [(name, told_ids, told_counts)] = ear.told
    assert (name, told_ids.tolist()) == ("catalog", [3, 5])
    np.testing.assert_array_equal(told_ids, chosen)
    np.testing.assert_array_equal(told_counts, noisy)
    assert not np.isin(noisy, counts).any()


def test_whoever_replaces_values_is_noticed() -> None:
    with listening(Ear(replaces=True)):
        curator = desk()
        secret = Curator(TARGET, listener=told_listener())
    A, b = curator.open("both", PARTS, 4, 0.1).feed(0, *sums(4))
    assert set(A.ravel()) == set(b.ravel()) == {9.0}
    assert not curator.secret_noise
    assert not secret.secret_noise  # the noise is, but not what the training sees
    ids, counts = curator.select("catalog", np.array([1]), np.array([10**6]), 1, 0.1, 5e-3)
    assert len(ids) == len(counts) == 0
    with listening(Ear()):
        assert Curator(TARGET).secret_noise


def test_it_listens_to_what_is_begun_in_the_block_and_the_thread() -> None:
    outer, inner = Ear(), Ear()
    assert current_listener() is None
    before, elsewhere = desk(), []
    with listening(outer):
        with listening(inner):
            assert current_listener() is inner
            both = desk()
        assert current_listener() is outer
        thread = threading.Thread(target=lambda: elsewhere.append(current_listener()))
        thread.start()
        thread.join()
    assert elsewhere == [None]
    assert current_listener() is None
    for curator in (before, both, desk()):
        curator.open("both", PARTS, 1, 0.1).feed(0, *sums(1))
    assert (len(outer.told), len(inner.told)) == (0, 1)


def test_it_is_gone_after_an_error() -> None:
    with pytest.raises(ZeroDivisionError), listening(Ear()):
        _ = 1 // 0
    assert current_listener() is None


class Meddler(Ear):
    """Says that it replaces nothing, and does."""

    def released(self, records: Any, parts: Any, values: tuple[Any, ...]) -> tuple[Any, ...]:
        for value in values:
            value[:] = 9.0
        return values

    def selected(self, name: str, ids: Any, counts: Any) -> tuple[Any, Any]:
        counts[:] = 9.0
        return ids[:0], counts[:0]


def test_whoever_does_not_say_that_it_replaces_values_cannot() -> None:
    alone = desk()
    with listening(Meddler()):
        curator = desk()
    for found, expected in zip(
        curator.open("both", PARTS, 4, 0.1).feed(0, *sums(4)),
        alone.open("both", PARTS, 4, 0.1).feed(0, *sums(4)),
        strict=True,
    ):
        np.testing.assert_array_equal(found, expected)
    ids, counts = np.arange(3), np.array([10**6, 0, 10**6])
    chosen = [one.select("items", ids, counts, 1, 0.1, 5e-3) for one in (curator, alone)]
    np.testing.assert_array_equal(chosen[0], chosen[1])


def test_whether_values_are_replaced_is_settled_when_a_training_begins() -> None:
    ear = Ear(replaces=True)
    with listening(ear):
        curator = Curator(TARGET, listener=told_listener())
    curator.open("both", PARTS, 4, 0.1).feed(0, *sums(4))
    ear.replaces = False
    assert not curator.secret_noise
