"""Users who are scaled down as a whole: the items' intercepts, and right-hand sides with ``clip="user"``.

Nobody passes the recorded sensitivity, whatever its ratings are; who tries to, reaches it. Settings chosen
by a forecast are a function of released values. Faults are planted, each of which must be noticed.
"""

from typing import Any
from unittest import mock

import numpy as np
import pytest

import apportion as ap
from apportion.engine import queries, session
from apportion.engine.feed import released
from apportion.privacy import NoiseSource, bounds
from apportion.privacy.bounds import ROUNDING
from apportion.recommend import choose, intercepts, popularity, run
from apportion.recommend.capacity import Capacity
from apportion.recommend.intercepts import estimate
from apportion.recommend.planner import forecasts
from apportion.recommend.popularity import one_factor as plain_factor
from tests.soundness.harness import (
    Change,
    Tape,
    astray,
    check,
    notices,
    plant,
    plant_kernel,
    recording,
)
from tests.soundness.test_recommender import (
    DESCENT,
    ITEMS,
    PER_ITEM,
    SHARED,
    neighbors,
    ratios,
    training,
    worst_users,
)

EVERY = np.arange(ITEMS)
EXTREMES = worst_users()["extremes in turn"]
# Vectors of users are long then, and reach their bound.
INTERCEPTS: dict[str, Any] = {"offsets__intercept_share": 0.3}
WEAK: dict[str, Any] = {"regularization": 1e-3}


def unbounded_users() -> dict[str, tuple[Any, Any]]:
    """Users whose ratings no range limits."""
    alternating = np.where(EVERY % 2, 1.0, -1.0)
    return {
        "one rating at the extreme": (EVERY, np.where(EVERY == ITEMS - 1, 3e38, 0.0)),
        "one rating, of an item of its own": (EVERY[-1:], np.array([3e38])),
        "all at the extremes in turn": (EVERY, 3e38 * alternating),
        "huge and tiny ones": (EVERY, 10.0 ** (38 * alternating)),
        "tiny ones": (EVERY, 1e-38 * alternating),
        "zeros": (EVERY, np.zeros(ITEMS)),
    }


@pytest.mark.parametrize("extra", worst_users().values(), ids=worst_users().keys())
@pytest.mark.parametrize(
    "settings",
    [
        {"solver__clip": "user", **INTERCEPTS},
        {"solver__clip": "row", **INTERCEPTS},
        {"solver__clip": "user", "offsets__intercept_share": 0.0},
        {"solver__clip": "row", "offsets__intercept_share": 0.0},
        {"solver__clip": "user", **PER_ITEM, **INTERCEPTS},
        {"solver__clip": "row", **PER_ITEM, **INTERCEPTS},
        {**DESCENT, **INTERCEPTS},
        {"offsets__center": "global", **INTERCEPTS},
        {"offsets__center": "none", **INTERCEPTS},
        {
            "solver__clip": "row",
            "offsets__center": "none",
            "bounds__normalize": True,
            **INTERCEPTS,
        },
        {"feedback": "implicit"},
    ],
    ids=repr,
)
def test_adding_a_worst_case_user(extra: tuple[Any, Any], settings: dict[str, Any]) -> None:
    with_user, without = neighbors(extra)
    found = ratios(check(training(**settings), with_user, without))
    assert ("intercepts" in found) == (settings.get("offsets__intercept_share", 0.0) > 0)
    check(training(**settings, **WEAK), without, with_user)


@pytest.mark.parametrize("extra", worst_users().values(), ids=worst_users().keys())
@pytest.mark.parametrize("items", [None, "public"])
def test_intercepts_of_a_private_catalog(extra: tuple[Any, Any], items: str | None) -> None:
    # Users' means are those of all their ratings, also of items that are not in the catalog.
    catalog = ap.PrivateCatalog(share=0.5, cap=50)
    with_user, without = neighbors(extra, items=items)
    fit = training(catalog=catalog, epsilon=50.0, **INTERCEPTS)
    assert 0 < len(fit(with_user).item_ids) < with_user.items
    check(fit, with_user, without)
    check(fit, without, with_user)


@pytest.mark.parametrize("feedback", ["explicit", "implicit"])
@pytest.mark.parametrize("name", ["extremes in turn", "alone with an item", "ordinary"])
def test_chosen_settings(feedback: str, name: str) -> None:
    fit = training(factors="auto", sweeps="auto", feedback=feedback)
    with_user, without = neighbors(worst_users()[name])
    model = fit(with_user)
    # The harness compares these between the neighbors.
    assert len(model.forecasts_) > 1 or feedback == "implicit"
    assert model.forecasts_[0].choice.factors == model.items.shape[1]
    check(fit, with_user, without)
    check(fit, without, with_user)


@pytest.mark.parametrize("extra", worst_users().values(), ids=worst_users().keys())
def test_popularity_alone(extra: tuple[Any, Any]) -> None:
    fit = training(factors="auto", sweeps="auto", feedback="implicit")
    with_user, without = neighbors(extra)
    assert fit(with_user).released.tastes == "popularity alone"
    assert "popularity" in ratios(check(fit, with_user, without))
    check(fit, without, with_user)


@pytest.mark.parametrize("name", unbounded_users())
@pytest.mark.parametrize("clip", ["user", "row"])
@pytest.mark.parametrize("label_bound", [1.0, 1e-60, 1e29])
def test_ratings_without_a_range(name: str, clip: str, label_bound: float) -> None:
    # Also where a rating less an intercept is more than 32 bits hold, and both bounds are tiny.
    with_user, without = neighbors(unbounded_users()[name], rating_range=None)
    fit = training(
        bounds=ap.Bounds(feature=min(0.3, label_bound), label=label_bound),
        solver__clip=clip,
        **INTERCEPTS,
        **WEAK,
    )
    changes = check(fit, with_user, without)
    assert all(np.isfinite(change.change) for change in changes)


def sized(monkeypatch: pytest.MonkeyPatch, size: float) -> None:
    """Multiply all labels."""
    plant(monkeypatch, "_centered", lambda honest: lambda self: size * honest(self))


@pytest.mark.parametrize("size", [0.0, 1e-200, 1e-160, 1e-100, 1e150, 1e200])
@pytest.mark.parametrize("label_bound", [1e-60, 1.0])
def test_labels_of_any_size(
    monkeypatch: pytest.MonkeyPatch, size: float, label_bound: float
) -> None:
    # Squares may be too large or too small to be written. Whoever is beyond all numbers gives nothing.
    sized(monkeypatch, size)
    fit = training(bounds__label=label_bound, **INTERCEPTS, **WEAK)
    found = ratios(check(fit, *neighbors(EXTREMES)))
    if 1e10 * label_bound < size < 1e153:
        assert found["intercepts"] > 0.999


@pytest.mark.parametrize("engine", ["cpu", "reference"])
def test_vectors_of_zeros_and_labels_beyond_numbers(
    monkeypatch: pytest.MonkeyPatch, engine: str
) -> None:
    # None times infinity is undefined, but such a user's part is zero.
    sized(monkeypatch, 1e200)
    plant_kernel(
        monkeypatch,
        "solve_users",
        lambda honest: lambda *systems, **given: 0 * honest(*systems, **given),
    )
    found = ratios(check(training(engine=engine), *neighbors(EXTREMES)))
    assert found["sweep 1"] == 0


def test_a_user_with_thousands_of_items() -> None:
    many = np.arange(3000)
    extra = (many, np.where(many % 2, 5.0, 1.0))
    fit = training(sweeps=1, bounds__normalize=True, **INTERCEPTS)
    found = ratios(check(fit, *neighbors(extra, items=len(many))))
    assert min(found["intercepts"], found["sweep 1"]) > 0.999


class TestTheBoundsAreReached:
    """A sensitivity far above what a user can do would waste accuracy."""

    @staticmethod
    def reached(extra: tuple[Any, Any], data: Any = None, **settings: Any) -> float:
        given = {**INTERCEPTS, "bounds__normalize": True, **settings}
        found = ratios(check(training(**given), *neighbors(extra, **(data or {}))))
        names = {"intercepts", "sweep 1", "sweep 2", "sweep 1.b", "sweep 2.b"}
        return min(ratio for name, ratio in found.items() if name in names)

    @pytest.mark.parametrize("solver", [SHARED, PER_ITEM], ids=str)
    @pytest.mark.parametrize("center", ["user", "global", "none"])
    def test_by_all_ratings_at_the_extremes(self, solver: dict[str, Any], center: str) -> None:
        settings = {**solver, "offsets__center": center, "bounds__label": 1.0}
        assert self.reached(EXTREMES, **settings) > 0.999

    def test_by_vectors_that_are_not_stretched(self) -> None:
        assert self.reached(EXTREMES, bounds__normalize=False, **WEAK) > 0.999

    @pytest.mark.parametrize("center", ["global", "none"])
    def test_by_one_rating_at_the_extreme(self, center: str) -> None:
        one = (EVERY[-1:], np.array([5.0]))
        settings = {"offsets__center": center, "bounds__label": 0.5}
        assert self.reached(one, **settings) > 0.999

    def test_by_two_ratings_at_the_extremes(self) -> None:
        assert self.reached((EVERY[-2:], np.array([1.0, 5.0]))) > 0.999

    @pytest.mark.parametrize(
        "name", ["one rating at the extreme", "all at the extremes in turn", "huge and tiny ones"]
    )
    def test_by_huge_ratings(self, name: str) -> None:
        extra = unbounded_users()[name]
        assert self.reached(extra, {"rating_range": None}, bounds__label=1.0) > 0.999

    def test_the_recorded_sensitivities(self) -> None:
        fit = training(bounds__feature=0.2, bounds__label=0.5, **INTERCEPTS)
        model = fit(neighbors(EXTREMES)[1])
        sensitivity = {record.name: record.sensitivity for record in model.privacy.ledger}
        assert sensitivity["intercepts"] == 0.5 * (1 + ROUNDING)
        assert sensitivity["sweep 1"] == sensitivity["sweep 2"] == pytest.approx(0.1, rel=1e-5)

    def test_whoever_is_within_the_bound_is_not_scaled(self) -> None:
        # So the bound on the whole is no bound on a rating: this one is twice as far off.
        extra = (EVERY, np.where(EVERY == 7, 5.0, 3.0))
        changes = check(training(allocation=ap.UniformWeights(), **INTERCEPTS), *neighbors(extra))
        [change] = [change for change in changes if change.name == "intercepts"]
        mean = 3 + 2 / ITEMS  # drawn towards that of all, which is about the same
        norm = np.sqrt(((5 - mean) ** 2 + (ITEMS - 1) * (3 - mean) ** 2) / ITEMS)
        assert change.change == pytest.approx(norm, rel=1e-2)


def scaled_by(monkeypatch: pytest.MonkeyPatch, method: str, rule: Any) -> None:
    """Scale users by another rule where this method of a session does it."""

    def fault(honest: Any) -> Any:
        def scaled(*given: Any) -> Any:
            with monkeypatch.context() as patch:
                patch.setattr(session, "scale_down", rule)
                return honest(*given)

        return scaled

    plant(monkeypatch, method, fault)


class TestPlantedFaults:
    """Each of these must be noticed."""

    @staticmethod
    def caught(extra: tuple[Any, Any] = EXTREMES, **settings: Any) -> bool:
        given = {**INTERCEPTS, "bounds__normalize": True, **settings}
        return notices(training(**given), *neighbors(extra))

    def test_nothing_planted(self) -> None:
        assert not self.caught()
        assert not self.caught(worst_users()["ordinary"], factors="auto", sweeps="auto")

    @pytest.mark.parametrize("where", ["_bounded_labels", "_scaled_labels"])
    @pytest.mark.parametrize("solver", [SHARED, PER_ITEM], ids=str)
    def test_nobody_is_scaled_down(
        self, monkeypatch: pytest.MonkeyPatch, where: str, solver: dict[str, Any]
    ) -> None:
        scaled_by(monkeypatch, where, lambda norms, bound: np.ones(len(norms)))
        assert self.caught(**solver)

    @pytest.mark.parametrize("where", ["_bounded_labels", "_scaled_labels"])
    def test_everybody_is_scaled_by_everybody_s_norm(
        self, monkeypatch: pytest.MonkeyPatch, where: str
    ) -> None:
        def together(norms: Any, bound: float) -> Any:
            return np.full(len(norms), min(1.0, bound / np.linalg.norm(norms)))

        scaled_by(monkeypatch, where, together)
        assert self.caught()

    @pytest.mark.parametrize("where", ["_bounded_labels", "_scaled_labels"])
    def test_factors_of_other_users(self, monkeypatch: pytest.MonkeyPatch, where: str) -> None:
        def rolled(norms: Any, bound: float) -> Any:
            return np.roll(bounds.scale_down(norms, bound), 1)

        scaled_by(monkeypatch, where, rolled)
        assert self.caught()

    def test_norms_without_their_weights(self, monkeypatch: pytest.MonkeyPatch) -> None:
        # The root mean square is the norm where all weights are equal. Here they are not, and the only
        # label that is not zero has the largest (if there is little noise).
        def root_mean_square(self: Any) -> Any:
            user, users = self._chosen.user, self._chosen.users
            squares = np.bincount(user, weights=self._labels**2, minlength=users)
            return np.sqrt(squares / np.maximum(np.bincount(user, minlength=users), 1))

        extra = (EVERY, np.where(EVERY == ITEMS - 1, 5.0, 0.0))
        fit = training(
            offsets=ap.Offsets(center="none"),
            bounds=ap.Bounds(feature=0.3, label=1.0, normalize=True),
            allocation=ap.AdaptiveWeights(1.0),
            epsilon=50.0,
        )
        pair = neighbors(extra, rating_range=(0.0, 5.0))
        assert not notices(fit, *pair)
        plant(monkeypatch, "_label_norms", lambda honest: root_mean_square)
        assert notices(fit, *pair)

    def test_norms_of_labels_alone_waste_the_bound(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def unweighted(self: Any) -> Any:
            chosen = self._chosen
            return np.sqrt(np.bincount(chosen.user, self._labels**2, minlength=chosen.users))

        plant(monkeypatch, "_label_norms", lambda honest: unweighted)
        assert TestTheBoundsAreReached.reached(EXTREMES) < 0.9

    def test_exact_intercepts(self) -> None:
        def exact(session: Any, query: Any, release: Any) -> Any:
            values = released(session, query, release)
            if isinstance(query, queries.Intercepts):
                [(_, (units,))] = session.sums(query, release.grids)
                return (units * release.grids[0],)
            return values

        assert self.led_astray(run, "released", lambda data: exact, **INTERCEPTS)

    @staticmethod
    def led_astray(where: Any, name: str, fault: Any, **settings: Any) -> bool:
        fit = astray(training(**settings), where, name, fault)
        return notices(fit, *neighbors(worst_users()["ordinary"]))

    def test_intercepts_of_exact_counts(self) -> None:
        def fault(data: ap.Interactions) -> Any:
            def leaking(sums: Any, noise: float, scale: Any, counts: Any, scatter: float) -> Any:
                return estimate(sums, noise, scale, data.graph.task_sizes() + 1.0, scatter)

            return leaking

        assert self.led_astray(intercepts, "estimate", fault, bounds__normalize=True, **INTERCEPTS)

    def test_means_of_other_users(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def rolled(honest: Any) -> Any:
            def centered(self: Any) -> Any:
                own = self._chosen.label - honest(self)
                first = self._chosen.start[:-1][np.diff(self._chosen.start) > 0]
                other = np.repeat(np.roll(own[first], 1), np.diff([*first, len(own)]))
                return self._chosen.label.astype(float) - other

            return centered

        plant(monkeypatch, "_centered", rolled)
        assert self.caught(worst_users()["ordinary"])

    def test_a_forecast_from_exact_counts(self) -> None:
        def fault(data: ap.Interactions) -> Any:
            def leaking(counts: Any, *rest: Any, **averages: Any) -> Any:
                return forecasts(data.graph.task_sizes() + 0 * counts + 1.0, *rest, **averages)

            return leaking

        assert self.led_astray(choose, "forecasts", fault, factors="auto", sweeps="auto")

    def test_a_capacity_from_exact_counts(self) -> None:
        honest = Capacity.of

        def fault(data: ap.Interactions) -> Any:
            return lambda sums, *rest: honest(data.graph.task_sizes() + 0 * sums, *rest)

        assert self.led_astray(Capacity, "of", fault, factors="auto", feedback="implicit")

    @pytest.mark.parametrize(
        ("name", "fault"),
        [
            (
                "one_factor",
                lambda data: lambda counts: plain_factor(counts + data.graph.task_sizes()),
            ),
            (
                "queries",  # whole counts, not sums of weights
                lambda data: mock.Mock(WeightSums=lambda: queries.Counts(10**6)),
            ),
        ],
    )
    def test_popularity_from_exact_sums(self, name: str, fault: Any) -> None:
        alone = {"factors": "auto", "sweeps": "auto", "feedback": "implicit"}
        assert self.led_astray(popularity, name, fault, **alone)

    def test_shown_forecasts_from_exact_counts(self) -> None:
        # What is chosen may be the same; what is shown of the choice is not.
        def leaking(data: ap.Interactions) -> Any:
            model = training(factors="auto", sweeps=1)(data)
            model.forecasts_[-1] = model.forecasts_[-1].__class__(
                model.forecasts_[-1].choice, float(data.users), ()
            )
            return model

        assert notices(leaking, *neighbors(worst_users()["ordinary"]))


def repeated_noise() -> bool:
    """Whether some variates of one training are equal, up to the grid.

    Of about 200 independent ones, three pairs are as close as this with probability below 1e-8.
    """
    tape = Tape()
    with recording(tape):
        model = training(noise_seed=None, **INTERCEPTS)(neighbors(EXTREMES)[0])
    drawn = [
        np.ravel(tape.released[record.name][0, 0] - tape.raw[record.name][0, 0])
        / record.noise_scale
        for record in model.privacy.ledger
        if not record.name.endswith("gramian")
    ]
    assert {"intercepts", "sweep 2"} < {record.name for record in model.privacy.ledger}
    gaps = np.diff(np.sort(np.abs(np.concatenate(drawn))))
    return bool(np.count_nonzero(gaps < 1e-7) >= 3)


def test_the_noise_of_intercepts_is_not_used_again() -> None:
    assert not repeated_noise()


@pytest.mark.parametrize("other", ["weights", "sweep 1"])
def test_noise_used_again_is_caught(monkeypatch: pytest.MonkeyPatch, other: str) -> None:
    source = NoiseSource._source

    def faulty(self: NoiseSource, purpose: bytes, stream: str, step: int, tile: int) -> Any:
        stream = "intercepts" if stream == other else stream
        return source(self, purpose, stream, step, tile)

    monkeypatch.setattr(NoiseSource, "_source", faulty)
    assert repeated_noise()


def test_nothing_of_a_change_is_lost() -> None:
    # What the other tests rest on: a training moves all of its releases where one user comes.
    changes: list[Change] = check(training(**INTERCEPTS), *neighbors(EXTREMES))
    assert [change.name for change in changes if change.change == 0] == []
