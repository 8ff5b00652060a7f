"""The whole of a recommender's training, with and without a worst-case user.

Every release of a training is compared on two neighboring data sets (see ``harness``), for both solvers,
both kinds of feedback, all allocations, all ways of centering and of choosing the catalog. Then faults
are planted, each of which must be noticed.
"""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import apportion as ap
from apportion.allocation import weights as weights_of_tasks
from apportion.engine.feed import released
from apportion.engine.queries import Counts, Gramian
from apportion.privacy import UserWeights
from apportion.recommend import sweep as sweeps
from apportion.recommend import training as steps
from apportion.recommend.intercepts import learn_intercepts
from apportion.recommend.preparation import Preparation
from apportion.recommend.prepare import prepare
from tests.soundness.harness import VICTIM, Change, astray, check, notices, plant, plant_kernel

ITEMS, RANGE = 15, (1.0, 5.0)

ALLOCATIONS: list[ap.Allocation] = [
    ap.AdaptiveWeights(0.25),
    ap.AdaptiveWeights(1.0, counts=ap.PrivateCounts(cap=4, method="sample", floor=0.0)),
    ap.AdaptiveWeights(0.5, mode="clip", users=40, concentration=0.1),
    ap.UniformWeights(),
    ap.UniformSampling(3),
    ap.TailSampling(3),
]


def population(seed: int = 0) -> tuple[Any, Any, Any]:
    """Forty ordinary users of items 0 to ITEMS - 2: nobody has the last one."""
    rng = np.random.default_rng(seed)
    user, item = np.nonzero(rng.random((40, ITEMS - 1)) < np.linspace(0.8, 0.1, ITEMS - 1))
    return 2 * user, item, rng.integers(1, 6, len(user)).astype(float)


def worst_users() -> dict[str, tuple[Any, Any]]:
    """Items and ratings of users who try to change as much as they can."""
    every = np.arange(ITEMS)
    return {
        "everything at the top": (every, np.full(ITEMS, 5.0)),
        "everything at the bottom": (every, np.full(ITEMS, 1.0)),
        "extremes in turn": (every, np.where(every % 2, 5.0, 1.0)),
        "alone with an item": (np.array([ITEMS - 1]), np.array([5.0])),
        "alone with an item, and another": (np.array([0, ITEMS - 1]), np.array([1.0, 5.0])),
        "each row a hundred times": (np.repeat(every, 100), np.tile([1.0, 5.0], 50 * ITEMS)),
        "alone with the first item": (np.array([-1, 3, 5]), np.array([5.0, 1.0, 5.0])),
        "ordinary": (np.array([1, 4, 6]), np.array([4.0, 2.0, 5.0])),
    }


def neighbors(extra: tuple[Any, Any], **settings: Any) -> tuple[ap.Interactions, ap.Interactions]:
    """The population with one more user, and without it."""
    user, item, rating = population()
    settings = {"items": np.arange(-1, ITEMS), "rating_range": RANGE, **settings}
    order = np.random.default_rng(5).permutation(len(user) + len(extra[0]))
    with_user = ap.Interactions(
        np.concatenate([user, np.full(len(extra[0]), VICTIM)])[order],
        np.concatenate([item, extra[0]])[order],
        np.concatenate([rating, extra[1]])[order],
        **settings,
    )
    return with_user, ap.Interactions(user, item, rating, **settings)


SHARED = {"solver__matrices": "shared"}
PER_ITEM = {"solver__matrices": "per-item"}
DESCENT = {"solver": ap.GradientDescent(steps=3)}


def training(**settings: Any) -> Any:
    """Trains with these settings; those of a group are named ``group__name``."""

    def fit(data: ap.Interactions) -> ap.MatrixFactorization:
        small = {"factors": 3, "sweeps": 2, "epsilon": 2.0, "bounds__feature": 0.3}
        model = ap.MatrixFactorization(noise_seed=1)
        return model.set_params(**{**small, **settings}).fit(data)

    return fit


def ratios(changes: list[Change]) -> dict[str, float]:
    return {change.name: change.ratio for change in changes}


@pytest.mark.parametrize("extra", worst_users().values(), ids=worst_users().keys())
@pytest.mark.parametrize("solver", [SHARED, PER_ITEM, DESCENT], ids=str)
@pytest.mark.parametrize("feedback", ["explicit", "implicit"])
def test_adding_a_worst_case_user(
    extra: tuple[Any, Any], solver: dict[str, Any], feedback: str
) -> None:
    with_user, without = neighbors(extra)
    fit = training(**solver, feedback=feedback)
    check(fit, with_user, without)
    check(fit, without, with_user)


@pytest.mark.parametrize("allocation", ALLOCATIONS, ids=repr)
@pytest.mark.parametrize("name", ["everything at the top", "alone with an item, and another"])
@pytest.mark.parametrize("feedback", ["explicit", "implicit"])
@pytest.mark.parametrize("matrices", ["shared", "per-item"])
def test_every_allocation(
    allocation: ap.Allocation, name: str, feedback: str, matrices: str
) -> None:
    fit = training(allocation=allocation, feedback=feedback, solver__matrices=matrices)
    check(fit, *neighbors(worst_users()[name]))


@pytest.mark.parametrize("extra", worst_users().values(), ids=worst_users().keys())
@pytest.mark.parametrize("center", ["user", "global", "none"])
def test_every_way_of_centering(extra: tuple[Any, Any], center: str) -> None:
    check(training(offsets__center=center), *neighbors(extra))


@pytest.mark.parametrize("extra", worst_users().values(), ids=worst_users().keys())
@pytest.mark.parametrize("normalize", [True, False])
def test_stretched_and_clipped_vectors(extra: tuple[Any, Any], normalize: bool) -> None:
    for solver in (SHARED, PER_ITEM):
        check(training(bounds__normalize=normalize, **solver), *neighbors(extra))


@pytest.mark.parametrize("extra", worst_users().values(), ids=worst_users().keys())
@pytest.mark.parametrize("cap", [2, 50])
@pytest.mark.parametrize("items", [None, "public"])
@pytest.mark.parametrize("solver", [SHARED, PER_ITEM], ids=str)
def test_a_private_catalog(
    extra: tuple[Any, Any], cap: int, items: str | None, solver: dict[str, Any]
) -> None:
    # The items come from the data here: in one of the two data sets the last one does not exist.
    catalog = ap.PrivateCatalog(share=0.5, cap=cap)
    fit = training(catalog=catalog, epsilon=50.0, feedback="implicit", **solver)
    with_user, without = neighbors(extra, items=items)
    check(fit, with_user, without)
    check(fit, without, with_user)


def test_splitting_keeps_neighbors_neighbors() -> None:
    # Also where the items come from the data, and a leaving user takes the first of them along.
    catalog = ap.PrivateCatalog(share=0.5, cap=50)
    fit = training(catalog=catalog, epsilon=50.0, feedback="implicit")
    with_user, without = neighbors(worst_users()["alone with the first item"], items=None)
    for seed in range(3):
        check(fit, with_user.split((0.7, 0.3), seed)[0], without.split((0.7, 0.3), seed)[0])


@pytest.mark.parametrize("size", [1e38, 1e-38])
@pytest.mark.parametrize("solver", [SHARED, DESCENT], ids=str)
def test_ratings_without_a_range(size: float, solver: dict[str, Any]) -> None:
    # Nothing is known about the ratings but the bound they are clipped to; no number may stop it.
    extra = (np.arange(ITEMS), size * np.where(np.arange(ITEMS) % 2, 3.0, -3.0))
    with_user, without = neighbors(extra, rating_range=None)
    check(training(bounds__label=1.0, regularization=0.0, **solver), with_user, without)


@pytest.mark.parametrize("engine", ["cpu", "reference"])
def test_a_vector_beyond_numbers(monkeypatch: pytest.MonkeyPatch, engine: str) -> None:
    def fault(honest: Any) -> Any:
        def overflowing(self: Any, *systems: Any, bound: float | None, stretch: bool) -> Any:
            vectors = np.nan * honest(self, *systems, bound=None, stretch=False)
            return vectors if bound is None else self.short_rows(vectors, bound)

        return overflowing

    plant_kernel(monkeypatch, "solve_users", fault)
    model = training(engine=engine)(neighbors(worst_users()["ordinary"])[0])
    assert np.isfinite(model.items).all()


@pytest.mark.parametrize("extra", worst_users().values(), ids=worst_users().keys())
def test_the_most_frequent_items(extra: tuple[Any, Any]) -> None:
    check(training(catalog=ap.MostFrequent(0.4)), *neighbors(extra))


def test_the_bounds_are_reached() -> None:
    # A sensitivity far above what a user can do would waste accuracy.
    weak: dict[str, Any] = {"regularization": 1e-3, **PER_ITEM}
    for settings in (weak, {**weak, "feedback": "implicit", "bounds__normalize": False}):
        extra = worst_users()["extremes in turn"]
        found = ratios(check(training(**settings), *neighbors(extra)))
        assert found["weights"] > 0.99999
        assert found["sweep 2.A"] > 0.999
    assert found["sweep 2 gramian"] > 0.999
    assert found["sweep 2.b"] > 0.999
    shared = ratios(check(training(**SHARED, feedback="implicit"), *neighbors(extra)))
    assert min(shared["users"], shared["sweep 1"], shared["sweep 2 gramian"]) > 0.999
    top = neighbors(worst_users()["everything at the top"])
    alone = ratios(check(training(offsets__center="global"), *top))
    assert alone["mean"] > 0.99999


class TestPlantedFaults:
    """Each of these must be noticed."""

    @staticmethod
    def caught(name: str, **settings: Any) -> bool:
        return notices(training(**settings), *neighbors(worst_users()[name]))

    @staticmethod
    def led_astray(where: Any, name: str, wrong: Any, **settings: Any) -> bool:
        fit = astray(training(**settings), where, name, lambda data: wrong)
        return notices(fit, *neighbors(worst_users()["ordinary"]))

    def test_nothing_planted(self) -> None:
        assert not self.caught("extremes in turn")
        assert not self.caught("extremes in turn", feedback="implicit", **DESCENT)

    @pytest.mark.parametrize("matrices", ["shared", "per-item"])
    def test_user_vectors_not_bounded(self, monkeypatch: pytest.MonkeyPatch, matrices: str) -> None:
        def fault(honest: Any) -> Any:
            def twice(self: Any, *given: Any, **more: Any) -> None:
                honest(self, *given, **more)
                self._unit *= 2

            return twice

        plant(monkeypatch, "solve_users", fault)
        # Compiled kernels refuse what is far beyond the bound.
        weak = {"regularization": 1e-3, "solver__matrices": matrices, "engine": "reference"}
        assert self.caught("extremes in turn", **weak)
        assert self.caught("extremes in turn", **weak, feedback="implicit")

    def test_exact_number_of_users(self) -> None:
        def exact(run: Any, plan: Any) -> Any:
            found = prepare(run, plan)
            return replace(found, users=float(run.data.users))

        assert self.led_astray(steps, "prepare", exact, **SHARED)

    def test_ratings_not_clipped(self, monkeypatch: pytest.MonkeyPatch) -> None:
        plant(monkeypatch, "_bounded_labels", lambda honest: lambda self, _: (self._labels, None))
        weak = {"regularization": 1e-3, "bounds__label": 0.5}
        assert self.caught("extremes in turn", **weak, solver__clip="row")

    def test_exact_counts_in_the_regularizer(self) -> None:
        def leaking(run: Any, plan: Any, preparation: Any, sizes: Any) -> Any:
            [(_, (users,))] = run.session.exact_sums(Counts(1))
            return learn_intercepts(
                run, plan, preparation, replace(sizes, counts=users[:, 0] + 1.0)
            )

        assert self.led_astray(steps, "learn_intercepts", leaking)

    def test_gramian_not_released(self) -> None:
        def leaking(session: Any, query: Any, release: Any) -> Any:
            values = released(session, query, release)
            if isinstance(query, Gramian):
                [(_, units)] = session.sums(query, release.grids)
                return (units[0] * release.grids[0],)
            return values

        assert self.led_astray(sweeps, "released", leaking, feedback="implicit")

    def test_weights_of_a_user_above_its_budget(self) -> None:
        def unchecked(user: Any, task: Any, raw: Any) -> UserWeights:
            weights = UserWeights(user, task, np.zeros(len(raw)))
            object.__setattr__(weights, "values", np.ones(len(raw)))
            return weights

        fit = astray(training(), weights_of_tasks, "normalized", lambda data: unchecked)
        with pytest.raises((AssertionError, ap.ReleaseError)):
            check(fit, *neighbors(worst_users()["everything at the top"]))

    def test_first_items_from_the_data(self) -> None:
        first = sweeps.first_items

        def fault(data: ap.Interactions) -> Any:
            return lambda *given: first(*given) / math.sqrt(data.users)

        fit = astray(training(), sweeps, "first_items", fault)
        assert notices(fit, *neighbors(worst_users()["ordinary"]))

    def test_catalog_of_the_data(self) -> None:
        # Without a public list, and none chosen privately, the items that exist give a user away.
        with pytest.raises(ap.DataError, match="must be public"):
            training()(neighbors(worst_users()["ordinary"], items=None)[0])

    def test_too_many_items_counted_for_the_catalog(self, monkeypatch: pytest.MonkeyPatch) -> None:
        plant(
            monkeypatch, "candidates", lambda honest: lambda self, _, key: honest(self, 10**6, key)
        )
        catalog = ap.PrivateCatalog(share=0.5, cap=2)
        fit = training(catalog=catalog, epsilon=50.0, feedback="implicit")
        extra = worst_users()["everything at the top"]
        assert notices(fit, *neighbors(extra, items=None))


@pytest.mark.parametrize("name", ["everything at the top", "extremes in turn", "ordinary"])
@pytest.mark.parametrize(
    "settings",
    [
        {"factors": "auto", "sweeps": "auto"},
        {"feedback": "implicit"},
        {"offsets": ap.Offsets(center="global")},
        {"catalog": ap.MostFrequent(0.5)},
    ],
    ids=str,
)
def test_a_training_that_resumes_a_preparation(name: str, settings: dict[str, Any]) -> None:
    def fit(data: ap.Interactions) -> Any:
        model = ap.MatrixFactorization(
            **{"factors": 3, "sweeps": 2, "epsilon": 2.0, "noise_seed": 5, **settings}
        )
        kept = Preparation.from_json(model.prepare(data).to_json())
        return model.fit(data, preparation=kept)

    extra = worst_users()[name]
    check(fit, *neighbors(extra))
    check(fit, *reversed(neighbors(extra)))
