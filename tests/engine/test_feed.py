"""From a session into a release: blocks of any size, with threads where they are of use, every task once."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from apportion.engine import feed, queries
from apportion.engine.base import Block, Session
from apportion.privacy import Curator, NoiseSource, OpenRelease, Part, PrivacyTarget, UserBound
from apportion.privacy.noise import TILE

BOUND = UserBound(1.0, "given")


class Blocks(Session):
    """Sums that are given, in blocks of so many tasks; says what the release runs meanwhile."""

    def __init__(self, sizes: list[int], tasks: int, release: OpenRelease | None = None) -> None:
        self.tasks, self.sizes, self.release = tasks, sizes, release
        self.runs: list[Any] = []
        self.asked: list[Any] = []

    def sums(self, query: Any, grids: tuple[float, ...]) -> Iterator[Block]:
        self.asked.append((query, grids))
        first = 0
        for size in self.sizes:
            self.runs.append(self.release.run if self.release is not None else None)
            task = np.arange(first, first + size)
            yield first, (task[:, None] * 1000, np.stack([task, -task], axis=1) * 1000)
            first += size

    def exact_sums(self, query: Any) -> Iterator[Block]:
        for first, parts in self.sums(query, ()):
            yield first, tuple(part.astype(np.float64) for part in parts)

    def _unused(self, *_: Any) -> Any:
        raise NotImplementedError

    candidates: Any = _unused
    choose: Any = _unused
    weigh: Any = _unused
    center: Any = _unused
    bound_features: Any = _unused
    solve_users: Any = _unused


def release(tasks: int) -> OpenRelease:
    desk = Curator(PrivacyTarget(1.0, 1e-5), NoiseSource.from_seed(0))
    return desk.open("both", [Part("A", "", BOUND), Part("b", "", BOUND, width=2)], tasks, 0.2)


@pytest.mark.parametrize("sizes", [[10], [4, 6], [1, 2, 7], [0, 10, 0]])
def test_blocks_of_any_size_give_what_one_gives(sizes: list[int]) -> None:
    opened, query = release(10), queries.Gramian()
    session = Blocks(sizes, 10)
    found = feed.released(session, query, opened)
    assert session.asked == [(query, opened.grids)]
    plain = release(10).feed(0, *next(Blocks([10], 10).sums(query, ()))[1])
    assert len(found) == 2
    for one, other in zip(found, plain, strict=True):
        np.testing.assert_array_equal(one, other)
    assert opened.complete


def test_the_places_of_blocks_are_told() -> None:
    found = list(feed.released_blocks(Blocks([4, 6], 10), queries.Gramian(), release(10)))
    assert [place for place, _ in found] == [slice(0, 4), slice(4, 10)]
    assert [[part.shape for part in parts] for _, parts in found] == [
        [(4, 1), (4, 2)],
        [(6, 1), (6, 2)],
    ]


@pytest.mark.parametrize("sizes", [[10], [4, 6]])
def test_without_privacy_nothing_is_added(sizes: list[int]) -> None:
    A, b = feed.exact(Blocks(sizes, 10), queries.Gramian())
    np.testing.assert_array_equal(A[:, 0], 1000.0 * np.arange(10))
    np.testing.assert_array_equal(b, np.outer(1000.0 * np.arange(10), [1, -1]))


def test_blocks_of_other_parts_are_an_error() -> None:
    class Fewer(Blocks):
        def exact_sums(self, query: Any) -> Iterator[Block]:
            for first, parts in super().exact_sums(query):
                yield first, parts[: 2 if first else 1]

    with pytest.raises(ValueError, match="longer"):
        feed.exact(Fewer([4, 6], 10), queries.Gramian())


def test_tasks_without_a_sum_are_an_error() -> None:
    with pytest.raises(AssertionError):
        feed.released(Blocks([4, 5], 10), queries.Gramian(), release(10))


@pytest.mark.parametrize(("tasks", "threads"), [(1, False), (TILE, False), (TILE + 1, True)])
def test_more_than_a_tile_of_noise_is_drawn_in_threads(tasks: int, threads: bool) -> None:
    opened = release(tasks)
    session = Blocks([tasks], tasks, opened)
    feed.released(session, queries.Gramian(), opened)
    assert [run is not map for run in session.runs] == [threads]
    assert opened.run is map  # threads have ended


def test_threads_end_when_sums_fail() -> None:
    class Broken(Blocks):
        def sums(self, query: Any, grids: tuple[float, ...]) -> Iterator[Block]:
            yield from super().sums(query, grids)
            raise ZeroDivisionError

    opened = release(2 * TILE)
    with pytest.raises(ZeroDivisionError):
        feed.released(Broken([TILE], 2 * TILE, opened), queries.Gramian(), opened)
    assert opened.run is map
