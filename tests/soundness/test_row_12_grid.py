"""Row 12: noise is discrete, on a grid, and so is everything that it is added to; sums are exact.

That a user's departure changes raw sums by just its own part, to the last bit, is asked of every training
that ``harness.compare`` sees; here it is asked of every estimator, and faults of rounding are planted.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import apportion as ap
from apportion.allocation import counts
from apportion.engine import CpuEngine
from apportion.privacy import Curator, UserBound, truncate
from apportion.recommend import intercepts, preparation
from apportion.tasks import shared
from tests.soundness import test_recommender as recommender
from tests.soundness.harness import (
    TASKS,
    Array,
    Data,
    Fit,
    Tape,
    classifier,
    compare,
    descent,
    neighbours,
    notices,
    population,
    recording,
    ridge,
    worst_users,
)
from tests.threads import this_many_threads

UNIFORM = ap.UniformWeights()
ADAPTIVE = ap.AdaptiveWeights(0.5, counts=ap.PrivateCounts(cap=2))
TASKS_FITS: dict[str, Fit] = {
    "ridge, per task": ridge(UNIFORM, statistics="per-task"),
    "ridge, shared": ridge(ADAPTIVE, statistics="shared"),
    "ridge, shrunk": ridge(ADAPTIVE, statistics="shrunk"),
    "descent, rows": descent(ADAPTIVE, clip="row"),
    "descent, users": descent(UNIFORM, clip="user"),
    "classifier": classifier(),
}
ITEM_FITS: dict[str, Fit] = {
    "ratings, shared": recommender.training(centring="global"),
    "ratings, per task": recommender.training(statistics="per-task", clip="row"),
    "ratings, descent": recommender.training(solver="descent"),
    "events, shared": recommender.training(feedback="implicit", allocation=ap.TailSampling(3)),
    "events, per task": recommender.training(feedback="implicit", statistics="per-task"),
}
FITS = {**TASKS_FITS, **ITEM_FITS}
SAMPLED = descent(UNIFORM, sampling_rate=0.5)


def both(name: str, extra: str = "each row a hundred times") -> tuple[Data, Data]:
    """Neighbours for a training of this name."""
    if name in ITEM_FITS:
        return recommender.neighbours(recommender.worst_users()[extra])
    return neighbours(uneven(worst_users()[extra]))


def uneven(rows: dict[str, Array]) -> dict[str, Array]:
    """The same rows, of all lengths about the bound, so that there is something to be rounded."""
    length = np.linspace(0.1, 1.3, len(rows["task"])) / np.abs(rows["features"]).max()
    return {**rows, "features": rows["features"] * length[:, None]}


def raw_units(fit: Fit, data: Data) -> dict[str, dict[tuple[int, int], Array]]:
    tape = Tape()
    with recording(tape):
        fit(data)
    return tape.units


@pytest.mark.parametrize("name", [*FITS, "sampled"])
def test_every_raw_sum_is_a_whole_number_of_units(name: str) -> None:
    units = raw_units(FITS.get(name, SAMPLED), both(name)[0])
    assert units
    for blocks in units.values():
        for block in blocks.values():
            np.testing.assert_array_equal(block, np.rint(block))
            assert np.abs(block).max() < 2**53
    # Finer than a thousandth of what is there, or whole numbers would be no wonder.
    assert max(np.abs(block).max() for blocks in units.values() for block in blocks.values()) > 1e5


@pytest.mark.parametrize("name", FITS)
def test_a_user_s_departure_changes_sums_by_its_own_part_to_the_last_bit(name: str) -> None:
    compare(FITS[name], *both(name))
    compare(FITS[name], *reversed(both(name, "ordinary")))


def in_order(name: str, forwards: bool) -> Data:
    """The larger of the neighbours, its rows in one order or the other."""
    step = 1 if forwards else -1
    if name in ITEM_FITS:
        user, item, rating = (values[::step] for values in recommender.population())
        return ap.Interactions(user, item, rating, items=recommender.ITEMS, rating_range=(1, 5))
    rows = population()
    return ap.TaskData(**{key: values[::step] for key, values in rows.items()}, tasks=TASKS)


@pytest.mark.parametrize("name", FITS)
def test_sums_depend_neither_on_threads_nor_on_the_order_of_rows(name: str) -> None:
    expected = raw_units(FITS[name], in_order(name, forwards=True))
    with this_many_threads(3):
        other = raw_units(FITS[name], in_order(name, forwards=False))
    for release, blocks in expected.items():
        for at, block in blocks.items():
            np.testing.assert_array_equal(other[release][at], block)


def unrounded(values: Any, grid: float) -> Any:
    del grid
    return np.asarray(values, dtype=np.float64)


@pytest.mark.parametrize(
    ("module", "name"),
    [
        (counts, "ridge, shrunk"),
        (shared, "ridge, shared"),
        (shared, "ratings, shared"),
        (intercepts, "ratings, per task"),
        (preparation, "ratings, shared"),
    ],
)
def test_a_part_that_is_not_rounded_is_refused(
    monkeypatch: pytest.MonkeyPatch, module: Any, name: str
) -> None:
    monkeypatch.setattr(module, "truncate", unrounded)
    with pytest.raises(ap.ReleaseError, match="not on the grid"):
        FITS[name](both(name)[0])


@pytest.mark.parametrize("name", ["ridge, per task", "ratings, per task"])
def test_sums_that_an_engine_does_not_round_are_refused(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    real = CpuEngine.statistics

    def almost(self: CpuEngine, *given: Any) -> Any:
        return tuple(sums * (1 + 2.0**-45) for sums in real(self, *given))

    monkeypatch.setattr(CpuEngine, "statistics", almost)
    with pytest.raises(ap.ReleaseError, match="not on the grid"):
        FITS[name](both(name)[0])


def test_rounding_the_sum_instead_of_every_part_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    # Then what a user changes depends on the others, by up to one unit in every sum.
    real: Callable[..., Any] = Curator.counts

    def rounded(self: Curator, name: str, sums: Any, bound: UserBound, mu: float, what: str) -> Any:
        return real(self, name, truncate(sums, bound.grid(mu)), bound, mu, what)

    monkeypatch.setattr(counts, "truncate", unrounded)
    monkeypatch.setattr(Curator, "counts", rounded)
    assert notices(ridge(ADAPTIVE), *neighbours(worst_users()["at the bound in all tasks"]))
