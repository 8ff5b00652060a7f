"""Row 12: noise is discrete, on a grid, and so is everything that it is added to; sums are exact.

That a user's departure changes raw sums by just its own part, to the last bit, is asked of every training
that ``harness.compare`` sees; here it is asked of every estimator, and faults of rounding are planted.
"""

from typing import Any

import numpy as np
import pytest

import apportion as ap
from apportion.privacy import rounding
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
    neighbors,
    notices,
    plant,
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
    "ratings, shared": recommender.training(offsets__center="global"),
    "ratings, per item": recommender.training(**recommender.PER_ITEM, solver__clip="row"),
    "ratings, descent": recommender.training(**recommender.DESCENT),
    "events, shared": recommender.training(feedback="implicit", allocation=ap.TailSampling(3)),
    "events, per item": recommender.training(feedback="implicit", **recommender.PER_ITEM),
}
FITS = {**TASKS_FITS, **ITEM_FITS}
SAMPLED = descent(UNIFORM, sampling_rate=0.5)
# The same on the engine that defines all sums.
REFERENCE: dict[str, Fit] = {
    "ridge, shrunk": ridge(ADAPTIVE, statistics="shrunk", engine="reference"),
    "descent, rows": descent(ADAPTIVE, clip="row", engine="reference"),
    "descent, users": descent(UNIFORM, clip="user", engine="reference"),
    "ratings, shared": recommender.training(offsets__center="global", engine="reference"),
    "ratings, per item": recommender.training(
        **recommender.PER_ITEM, solver__clip="row", engine="reference"
    ),
    "ratings, descent": recommender.training(**recommender.DESCENT, engine="reference"),
    "events, per item": recommender.training(
        feedback="implicit", **recommender.PER_ITEM, engine="reference"
    ),
}


def both(name: str, extra: str = "each row a hundred times") -> tuple[Data, Data]:
    """Neighbors for a training of this name."""
    if name in ITEM_FITS:
        return recommender.neighbors(recommender.worst_users()[extra])
    return neighbors(uneven(worst_users()[extra]))


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
            assert block.dtype == np.int64
            assert np.abs(block).max() < 2**53
    # Finer than a thousandth of what is there, or whole numbers would be no wonder.
    assert max(np.abs(block).max() for blocks in units.values() for block in blocks.values()) > 1e5


@pytest.mark.parametrize("name", FITS)
def test_a_user_s_departure_changes_sums_by_its_own_part_to_the_last_bit(name: str) -> None:
    compare(FITS[name], *both(name))
    compare(FITS[name], *reversed(both(name, "ordinary")))


@pytest.mark.parametrize("name", REFERENCE)
def test_and_so_it_is_on_the_reference_engine(name: str) -> None:
    compare(REFERENCE[name], *both(name))
    compare(REFERENCE[name], *reversed(both(name, "ordinary")))


def in_order(name: str, forwards: bool) -> Data:
    """The larger of the neighbors, its rows in one order or the other."""
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


SUMS = {
    "_added_up": ["ridge, shrunk", "ratings, per item"],  # counts, weights, intercepts
    "_means": ["ratings, shared"],
    "_rating_moments": ["ratings, per item"],
    "_fold_in_gains": ["ratings, shared"],
    "_mass": ["ridge, shared"],
    "_gramian": ["ratings, shared", "events, per item"],
    "_second_moment": ["ridge, shared"],
    "_right_hand_sides": ["ridge, shared", "ratings, shared"],
    "_gradients": ["descent, rows", "descent, users", "ratings, descent"],
}


@pytest.mark.parametrize(
    ("method", "name"), [(method, name) for method, names in SUMS.items() for name in names]
)
def test_sums_that_are_no_whole_numbers_are_refused(
    monkeypatch: pytest.MonkeyPatch, method: str, name: str
) -> None:
    def almost(units: Any) -> Any:
        if isinstance(units, tuple):
            return tuple(map(almost, units))
        return units * (1 + 2.0**-45)

    plant(monkeypatch, method, lambda honest: lambda *given: almost(honest(*given)))
    with pytest.raises(ap.ReleaseError, match="whole numbers"):
        FITS[name](both(name)[0])


@pytest.mark.parametrize("name", ["ridge, per task", "ratings, per item"])
def test_statistics_that_are_no_whole_numbers_are_refused(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    def fault(honest: Any) -> Any:
        def almost(*given: Any) -> Any:
            for first, units in honest(*given):
                yield first, tuple(part * (1 + 2.0**-45) for part in units)

        return almost

    plant(monkeypatch, "_statistics", fault)
    with pytest.raises(ap.ReleaseError, match="whole numbers"):
        FITS[name](both(name)[0])


def test_rounding_the_sum_instead_of_every_part_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    # Then what a user changes depends on the others, by up to one unit in every sum.
    def together(self: Any, task: Any, parts: Any, grid: float) -> Any:
        sums = np.bincount(task, parts, minlength=self.tasks)
        return rounding.truncated(sums, grid)[:, None]

    plant(monkeypatch, "_added_up", lambda honest: together)
    assert notices(ridge(ADAPTIVE), *neighbors(worst_users()["at the bound in all tasks"]))


def longer(features: Any, roots: Any) -> Any:
    """As long as the weight says, and then rounded: half a unit in every entry beyond it."""
    factor = (roots + np.sqrt(features.shape[1]) / 2) * (1.001 / rounding.LONGEST)
    return np.rint(factor[:, None] * features.astype(np.float64)).astype(np.int64)


@pytest.mark.parametrize("name", ["ridge, shrunk", "ratings, per item", "events, per item"])
def test_roots_beyond_their_weight_are_caught(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setattr(rounding, "square_roots", longer)
    data = neighbors(worst_users()["at the bound in all tasks"])
    weak = recommender.training(**recommender.PER_ITEM, regularization=1e-3, engine="reference")
    extremes = recommender.neighbors(recommender.worst_users()["extremes in turn"])
    pairs = {
        "ridge, shrunk": (REFERENCE[name], data),
        "ratings, per item": (weak, extremes),
        "events, per item": (REFERENCE[name], extremes),
    }
    assert notices(pairs[name][0], *pairs[name][1])


WHOLE = ("truncated", "right_hand_sides", "gradients")
RULES: dict[str, tuple[str, Any]] = {
    "truncated": ("ratings, shared", lambda v, grid: 1.001 * np.asarray(v) / grid),
    "right_hand_sides": (
        "ratings, shared",
        lambda x, factor: 1.001 * factor[:, None] * x.astype(np.float64),
    ),
    "gradients": ("descent, rows", lambda x, slope, grid: 1.001 * (slope / grid)[:, None] * x),
    "shortened": (
        "descent, users",
        lambda slope, excess: np.where(excess > 1, 1.5 * slope / np.maximum(excess, 1), slope),
    ),
}


@pytest.mark.parametrize("rule", RULES)
def test_a_rule_of_rounding_that_makes_parts_larger_is_caught(
    monkeypatch: pytest.MonkeyPatch, rule: str
) -> None:
    name, wrong = RULES[rule]
    given = (lambda *args: wrong(*args).astype(np.int64)) if rule in WHOLE else wrong
    monkeypatch.setattr(rounding, rule, given)
    pair: tuple[Data, Data] = neighbors(worst_users()["at the bound in all tasks"])
    if name in ITEM_FITS:
        pair = recommender.neighbors(recommender.worst_users()["extremes in turn"])
    assert notices(REFERENCE[name], *pair)


def test_a_unit_more_where_others_are_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    def fault(honest: Any) -> Any:
        def pushed(*given: Any) -> Any:
            for first, units in honest(*given):
                yield first, tuple(part + part.sum() % 7 for part in units)

        return pushed

    plant(monkeypatch, "sums", fault)
    assert notices(FITS["ridge, shared"], *both("ridge, shared"))
