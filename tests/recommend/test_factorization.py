"""Training: exact without privacy, sound and on budget with it, and clear about bad input."""

import math
from dataclasses import asdict
from typing import Any
from unittest import mock

import numpy as np
import pytest
from scipy.sparse import csr_matrix

import apportion as ap
from apportion.accounts.ledgers import ledger_to_dict
from apportion.data.centering import Centering
from apportion.engine import find_engine, queries
from apportion.privacy import NoiseSource
from apportion.recommend import MatrixFactorization, offsets, sweep
from tests.reports import undated
from tests.threads import this_many_threads

INF = math.inf
SHARED: dict[str, Any] = {"solver": ap.SufficientStatistics(matrices="shared")}
PER_ITEM: dict[str, Any] = {"solver": ap.SufficientStatistics(matrices="per-item")}
DESCENT: dict[str, Any] = {"solver": ap.GradientDescent(steps=2)}
each_solver = pytest.mark.parametrize(
    "solver", [SHARED, PER_ITEM, DESCENT], ids=["shared", "per-item", "descent"]
)


def intercepts(share: float) -> dict[str, Any]:
    return {"offsets": ap.Offsets(intercept_share=share)}


@pytest.fixture(scope="module")
def ratings() -> ap.Interactions:
    return ap.simulate_interactions(users=400, items=60, rows=8000, rank=4, seed=3)


@pytest.fixture(scope="module")
def events() -> ap.Interactions:
    return ap.simulate_interactions(users=400, items=60, rows=6000, rating_range=None, seed=4)


def rmse(model: ap.Recommender, histories: ap.Interactions, test: ap.Interactions) -> float:
    assert test.by_user.rating is not None
    error = model.predict_many(histories, test) - test.by_user.rating
    return float(np.sqrt(np.mean(error**2)))


def objective(model: MatrixFactorization, data: ap.Interactions, vectors: Any) -> float:
    """Of explicit feedback, written out in full."""
    start, item, rating = data.by_user.start, data.by_user.other, data.by_user.rating
    items = model.items.astype(float)
    step = model.released.fold_in
    total = 0.0
    for user in range(data.users):
        rows = slice(start[user], start[user + 1])
        y = rating[rows].astype(float)
        if model.released.intercepts is not None:
            y = y - model.released.intercepts[item[rows]].astype(float)
        y = y - y.mean()
        total += np.sum((y - items[item[rows]] @ vectors[user]) ** 2)
        total += step.regularization * len(y) ** step.exponent * np.sum(vectors[user] ** 2)
    counts = data.graph.task_sizes()
    return total + np.sum(step.regularization * counts**step.exponent * np.sum(items**2, axis=1))


def by_numpy(
    data: ap.Interactions,
    items: Any,
    sweeps: int,
    bound: float,
    own_means: bool,
    regularization: float,
    user_regularization: float,
    drawn: tuple[float, float] = (0.0, 0.0),
    scatter: float = 1.0,
) -> tuple[Any, Any, Any]:
    """Intercepts, items and predictions of all rows, of explicit feedback with an exponent of 1.

    Users' means are ``drawn`` to a number as if they had so many ratings of it more; labels have a variance
    of ``scatter`` about their items', which differ as items are expected to.
    """
    user, item, rating = data.user_of_row, data.by_user.other, data.by_user.rating
    assert rating is not None
    users, counts = np.bincount(user), np.bincount(item, minlength=data.items).astype(float)

    def means(values: Any) -> Any:
        center, more = drawn
        own = (np.bincount(user, weights=values) + more * center) / (users + more)
        return own[user] if own_means else np.zeros(len(user))

    # Of every item the mean label, shrunk to a line in the log of its count, in units of the bound.
    y = (rating - means(rating)) / bound
    mean = np.bincount(item, weights=y, minlength=data.items) / counts
    seen = counts / scatter
    logs = np.log(counts) - np.average(np.log(counts), weights=counts)
    both, weight = np.stack([np.ones(len(counts)), logs], axis=1), seen / (1 + 0.1 * seen.mean())
    line = both @ np.linalg.solve(both.T * weight @ both + 50 * np.eye(2), both.T * weight @ mean)
    unsure = 2 * len(counts) / seen.sum() ** 2
    variance = max(np.sum(seen * (mean - line) ** 2) - len(counts), 0) / seen.sum()
    variance = (0.01 * variance + 0.1 * unsure) / (0.01 + unsure)
    found = bound * (line + (mean - line) * seen * variance / (seen * variance + 1))
    intercepts = found.astype(np.float32).astype(float)

    offset = rating - intercepts[item]
    mean_of_row = means(offset)
    y, d = offset - mean_of_row, items.shape[1]
    vectors = np.zeros((data.users, d))

    def solve(other: Any, of: Any, to: Any, ridge: float, size: Any) -> Any:
        return np.array(
            [
                np.linalg.solve(
                    other[to[of == one]].T @ other[to[of == one]] + ridge * size[one] * np.eye(d),
                    other[to[of == one]].T @ y[of == one],
                )
                for one in range(len(size))
            ]
        )

    for _ in range(sweeps):
        vectors = solve(items, user, item, user_regularization, users)
        items = solve(vectors, item, user, regularization, counts)
    vectors = solve(items, user, item, user_regularization, users)
    scores = mean_of_row + intercepts[item] + np.sum(vectors[user] * items[item], axis=1)
    return intercepts, items, scores


class TestWithoutPrivacy:
    @pytest.mark.parametrize(("exponent", "regularization"), [(0.0, 2.0), (1.0, 0.1), (0.5, 0.5)])
    @pytest.mark.parametrize("intercept_share", [0.0, 0.2])
    def test_sweeps_never_raise_the_objective(
        self,
        ratings: ap.Interactions,
        exponent: float,
        regularization: float,
        intercept_share: float,
    ) -> None:
        values = []
        for sweeps in (1, 2, 4, 8):
            model = MatrixFactorization(
                4,
                sweeps,
                epsilon=INF,
                regularization=ap.Regularization(regularization, exponent=exponent),
                offsets=ap.Offsets(intercept_share=intercept_share),
            ).fit(ratings)
            values.append(objective(model, ratings, model.fold_in_many(ratings)))
        assert values == sorted(values, reverse=True)
        assert values[-1] < 0.95 * values[0]

    def test_agrees_with_implicit(
        self, events: ap.Interactions, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The same objective from the same start gives the same items, up to a scale.

        With t = 1 / (1 + a), a the unobserved weight: our (1 - x)^2 + a x^2 on an event is
        (1 + a) (x - t)^2 and a constant. For x = t x~ this is t^2 a times implicit's objective with
        confidence (1 + a) / a and regularization lambda (1 + a) / a, in factors sqrt(t) times theirs.
        """
        from implicit.als import AlternatingLeastSquares
        from threadpoolctl import threadpool_limits

        unobserved, regularization, factors, sweeps = 0.2, 3.0, 5, 4
        start = np.random.default_rng(0).normal(size=(events.items, factors)) / 2
        monkeypatch.setattr(sweep, "first_items", lambda *given: start)
        ours = MatrixFactorization(
            factors,
            sweeps,
            "implicit",
            epsilon=INF,
            regularization=ap.Regularization(
                regularization, regularization, unobserved_weight=unobserved
            ),
        ).fit(events)

        shrink = math.sqrt(1 / (1 + unobserved))
        confidence = (1 + unobserved) / unobserved
        rows = (np.full(len(events.by_user.other), confidence), events.by_user.other)
        matrix = csr_matrix((*rows, events.by_user.start), shape=(events.users, events.items))
        with threadpool_limits(1, "blas"):  # as its documentation asks
            theirs = AlternatingLeastSquares(
                factors,
                regularization=regularization * confidence,
                iterations=sweeps,
                use_cg=False,
                num_threads=1,
                dtype=np.float64,
                alpha=1.0,
            )
            theirs.item_factors = start / shrink
            theirs.user_factors = np.zeros((events.users, factors))
            theirs.fit(matrix, show_progress=False)
        np.testing.assert_allclose(ours.items, shrink * theirs.item_factors, rtol=2e-4, atol=1e-5)
        # And so do the predictions for every user.
        scores = ours.fold_in_many(events) @ ours.items.T
        expected = theirs.recalculate_user(np.arange(events.users), matrix) @ theirs.item_factors.T
        np.testing.assert_allclose(scores, shrink**2 * expected, rtol=1e-3, atol=1e-4)

    @pytest.mark.parametrize("feedback", ["explicit", "implicit"])
    def test_descent_approaches_the_exact_solution(
        self, ratings: ap.Interactions, feedback: Any
    ) -> None:
        settings: dict[str, Any] = {"factors": 3, "sweeps": 3, "feedback": feedback}
        settings["regularization"] = 0.3 if feedback == "explicit" else 1.5
        exact = MatrixFactorization(**settings, epsilon=INF).fit(ratings)
        solver = ap.GradientDescent(steps=400)
        steps = MatrixFactorization(**settings, epsilon=INF, solver=solver)
        np.testing.assert_allclose(steps.fit(ratings).items, exact.items, atol=2e-3)

    def test_its_report_says_so(self, ratings: ap.Interactions) -> None:
        model = MatrixFactorization(2, 1, epsilon=INF).fit(ratings)
        assert "NOT PRIVATE" in str(model.privacy)
        assert model.privacy.epsilon == INF
        assert list(model.privacy.ledger) == []

    def test_learns_what_is_there(self, ratings: ap.Interactions) -> None:
        train, test = ratings.split((0.8, 0.2))
        model = MatrixFactorization(4, 8, epsilon=INF).fit(train)
        assert test.by_user.rating is not None
        nothing: dict[str, Any] = {"epsilon": INF, "regularization": 1e9}
        by_item = MatrixFactorization(4, 1, **nothing).fit(train)
        by_user_mean = MatrixFactorization(4, 1, **nothing, **intercepts(0.0)).fit(train)
        assert rmse(model, train, test) < 0.8 * rmse(by_user_mean, train, test)
        assert rmse(by_item, train, test) < 0.98 * rmse(by_user_mean, train, test)

    @pytest.mark.parametrize("engine", ["cpu", "reference"])
    @pytest.mark.parametrize("center", ["user", "none"])
    def test_with_intercepts_it_is_a_few_lines_of_numpy(
        self, ratings: ap.Interactions, center: Any, engine: str
    ) -> None:
        model = MatrixFactorization(
            3,
            2,
            epsilon=INF,
            regularization=ap.Regularization(0.3, 0.2),
            offsets=ap.Offsets(center=center),
            engine=engine,
            seed=5,
        ).fit(ratings)
        bound = 1.0 if center == "user" else 5.0  # the unit of intercepts
        start = np.random.default_rng(5).normal(0.0, 1 / math.sqrt(3), (ratings.items, 3))
        used, scatter = model.released.fold_in, 1.0
        if center == "user":
            within = offsets.compute(
                model._settings(ratings), find_engine(engine).load(ratings.rows())
            )
            assert within.within is not None
            scatter = min(within.within, 1.0)
        found, items, predictions = by_numpy(
            ratings, start, 2, bound, center == "user", regularization=0.3, user_regularization=0.2,
            drawn=(used.mean, used.shrinkage), scatter=scatter,
        )  # fmt: skip
        assert model.released.intercepts is not None
        np.testing.assert_allclose(model.released.intercepts, found, rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(model.items, items, rtol=1e-4, atol=1e-5)
        scores = model.predict_many(ratings, ratings)
        np.testing.assert_allclose(scores, np.clip(predictions, 1, 5), rtol=1e-4)

    @pytest.mark.parametrize("epsilon", [INF, 5.0])
    def test_units_do_not_matter(self, ratings: ap.Interactions, epsilon: float) -> None:
        def scaled(unit: float) -> MatrixFactorization:
            assert ratings.by_user.rating is not None
            data = ap.Interactions(
                ratings.user_ids[ratings.user_of_row],
                ratings.by_user.other,
                unit * ratings.by_user.rating.astype(float),
                items=ratings.items,
                rating_range=(unit, 5 * unit),
            )
            return MatrixFactorization(3, 2, epsilon=epsilon, noise_seed=2).fit(data)

        one = scaled(1.0).released.intercepts
        assert one is not None
        for unit in (1 / 8, 32.0):
            other = scaled(unit).released.intercepts
            assert other is not None
            np.testing.assert_allclose(other, unit * one, rtol=1e-5)


class TestBudget:
    @pytest.mark.parametrize("feedback", ["explicit", "implicit"])
    @each_solver
    @pytest.mark.parametrize("sweeps", [1, 3])
    @pytest.mark.parametrize(
        "allocation",
        [ap.AdaptiveWeights(), ap.UniformWeights(), ap.UniformSampling(10), ap.TailSampling(10)],
        ids=lambda allocation: type(allocation).__name__,
    )
    def test_the_ledger_ends_at_the_target(
        self,
        ratings: ap.Interactions,
        feedback: Any,
        solver: dict[str, Any],
        sweeps: int,
        allocation: ap.Allocation,
    ) -> None:
        model = MatrixFactorization(
            2, sweeps, feedback, **solver, epsilon=1.5, allocation=allocation
        ).fit(ratings)
        assert model.privacy.epsilon <= 1.5
        assert model.privacy.epsilon == pytest.approx(1.5, rel=1e-9)

    @pytest.mark.parametrize("feedback", ["explicit", "implicit"])
    @each_solver
    @pytest.mark.parametrize("center", ["user", "global"])
    @pytest.mark.parametrize(
        "catalog", ["public", "private", ap.MostFrequent(0.5)], ids=["public", "private", "most"]
    )
    @pytest.mark.parametrize("intercept_share", [0.0, 0.3])
    def test_the_plan_is_what_happens(
        self,
        ratings: ap.Interactions,
        feedback: Any,
        solver: dict[str, Any],
        center: Any,
        catalog: Any,
        intercept_share: float,
    ) -> None:
        model = MatrixFactorization(
            2,
            2,
            feedback,
            **solver,
            epsilon=40.0,
            catalog=catalog,
            offsets=ap.Offsets(center=center, intercept_share=intercept_share),
            bounds=ap.Bounds(label=1.5),  # or it would follow from the data's rating_range
        )
        plan = model.plan()
        ledger = list(model.fit(ratings).privacy.ledger)
        planned = [
            record
            for release in plan.releases
            for record in release.records(ratings.items, release.mu(plan.target))
        ]
        assert [record.name for record in ledger] == [record.name for record in planned]
        for record, expected in zip(ledger, planned, strict=True):
            assert record.mu == pytest.approx(expected.mu, rel=1e-9)
            assert record.sensitivity == expected.sensitivity
            assert (record.what, record.because) == (expected.what, expected.because)
        assert sum(release.share for release in plan.releases) == pytest.approx(1.0)
        assert model.privacy.epsilon == pytest.approx(40.0, rel=1e-9)
        for release in plan.releases:
            assert release.name in str(plan)

    def test_no_gramian_without_unobserved_weight(self, events: ap.Interactions) -> None:
        model = MatrixFactorization(
            2, 1, "implicit", regularization=ap.Regularization(unobserved_weight=0.0), **PER_ITEM
        ).fit(events)
        assert [record.name for record in model.privacy.ledger] == [
            "counts", "weights", "sweep 1.A", "sweep 1.b",
        ]  # fmt: skip

    def test_shares_that_leave_nothing(self) -> None:
        counts = ap.PrivateCounts(share=0.99)
        model = MatrixFactorization(allocation=ap.AdaptiveWeights(counts=counts))
        with pytest.raises(ap.ParameterError, match="leave nothing for training"):
            model.plan()

    def test_a_fixed_seed_is_not_private(self, ratings: ap.Interactions) -> None:
        model = MatrixFactorization(2, 1, noise_seed=3).fit(ratings)
        again = MatrixFactorization(2, 1, noise_seed=3).fit(ratings)
        assert model.privacy.epsilon == INF
        np.testing.assert_array_equal(model.items, again.items)

    def test_secret_noise_differs(self, ratings: ap.Interactions) -> None:
        models = [MatrixFactorization(2, 1).fit(ratings) for _ in range(2)]
        assert not np.array_equal(models[0].items, models[1].items)


class TestPrivateQuality:
    """Noise vanishes as epsilon grows; error rates: the margins are many times the spread over seeds."""

    @pytest.mark.parametrize("solver", [SHARED, PER_ITEM], ids=["shared", "per-item"])
    def test_more_budget_is_better(self, ratings: ap.Interactions, solver: dict[str, Any]) -> None:
        train, test = ratings.split((0.8, 0.2))

        def error(epsilon: float) -> float:
            models = (
                MatrixFactorization(3, 2, epsilon=epsilon, noise_seed=seed, **solver)
                for seed in range(4)
            )
            return float(np.mean([rmse(model.fit(train), train, test) for model in models]))

        assert error(1.0) > error(5.0) + 0.01 > error(60.0) + 0.02

    @pytest.mark.parametrize(
        "solver",
        [SHARED, PER_ITEM, {"solver": "descent"}],
        ids=["shared", "per-item", "descent"],
    )
    def test_beats_what_knows_no_taste(
        self, ratings: ap.Interactions, solver: dict[str, Any]
    ) -> None:
        train, test = ratings.split((0.8, 0.2))
        model = MatrixFactorization(3, 3, epsilon=60.0, noise_seed=0, **solver).fit(train)
        alone = MatrixFactorization(3, 1, epsilon=INF, regularization=1e9).fit(train)
        assert rmse(model, train, test) < 0.98 * rmse(alone, train, test)

    def test_the_penalty_is_on_the_scale_of_the_weights(
        self, ratings: ap.Interactions, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        # No noise and bounds that clip nothing: weights change who counts how much, not the
        # strength of the regularizer, so the model stays close to the one without privacy.
        def silence(self: Any, stream: str, step: int, first: int, tasks: int, scales: Any) -> Any:
            return [(0, np.zeros((tasks, len(scales.order)), dtype=np.int64))]

        monkeypatch.setattr(NoiseSource, "discrete_gaussian", silence)
        solver = ap.SufficientStatistics(matrices="per-item", clip="row", noise_ridge=0.0)
        settings: dict[str, Any] = {"factors": 2, "sweeps": 1, "solver": solver, **intercepts(0.0)}
        settings["regularization"] = 0.05
        private = MatrixFactorization(
            **settings,
            epsilon=60.0,
            bounds=ap.Bounds(feature=3.0, label=3.0),
            noise_seed=0,
            allocation=ap.UniformWeights(),
        )
        exact = MatrixFactorization(**settings, epsilon=INF)
        start = np.random.default_rng(1).normal(size=(ratings.items, 2))
        with mock.patch.object(sweep, "first_items", return_value=start):
            private.fit(ratings)
            exact.fit(ratings)
        size = np.linalg.norm(private.items) / np.linalg.norm(exact.items)
        assert 0.85 < size < 1.1

    def test_intercepts_and_users_scaled_as_a_whole_are_better(
        self, ratings: ap.Interactions
    ) -> None:
        train, test = ratings.split((0.8, 0.2))

        def error(**settings: Any) -> float:
            models = (
                MatrixFactorization(8, 2, epsilon=8.0, noise_seed=seed, **settings)
                for seed in range(3)
            )
            return float(np.mean([rmse(model.fit(train), train, test) for model in models]))

        default = error()
        row = ap.SufficientStatistics(clip="row")
        assert default < 0.97 * error(**intercepts(0.0), solver=row)
        assert default < 0.98 * error(**intercepts(0.0))


class TestIntercepts:
    def test_they_are_released_with_the_model(self, ratings: ap.Interactions) -> None:
        model = MatrixFactorization(2, 1, epsilon=60.0, **intercepts(0.5)).fit(ratings)
        found = model.released.intercepts
        assert found is not None
        assert found.dtype == np.float32
        exact = MatrixFactorization(2, 1, epsilon=INF).fit(ratings).released.intercepts
        assert np.corrcoef(found, exact)[0, 1] > 0.9
        assert np.abs(found).max() <= 2  # times the bound on labels, which is 1 here

    def test_their_share_is_of_what_the_sweeps_leave(self) -> None:
        shares = {
            release.name: release.share
            for release in MatrixFactorization(2, 2, **intercepts(0.3)).plan().releases
        }
        sweeps = sum(share for name, share in shares.items() if name.startswith("sweep"))
        assert shares["intercepts"] == pytest.approx(0.3 * (shares["intercepts"] + sweeps))

    def test_a_bound_that_might_make_them_infinite_is_refused(self) -> None:
        # What 32 bits cannot hold would make labels infinite, and who rated an item would show.
        user, item = np.divmod(np.arange(60), 6)
        rating = np.where((user + item) % 2, 3e38, -3e38)
        data = ap.Interactions(user, item, rating, items=7)
        model = MatrixFactorization(2, 1, **intercepts(0.5), noise_seed=0)
        with pytest.raises(ap.ParameterError, match=r"bounds\.label must be a number"):
            model.set_params(bounds__label=1e45).fit(data)

    def test_none_where_none_are_asked_for(
        self, ratings: ap.Interactions, events: ap.Interactions
    ) -> None:
        models = [
            MatrixFactorization(2, 1, **intercepts(0.0)).fit(ratings),
            MatrixFactorization(2, 1, "implicit", **intercepts(0.5)).fit(events),
            MatrixFactorization(2, 1, "implicit").fit(ratings),
        ]
        for model in models:
            assert model.released.intercepts is None
            assert "intercepts" not in [record.name for record in model.privacy.ledger]

    @pytest.mark.parametrize("engine", [ap.CpuEngine(), ap.ReferenceEngine()], ids=repr)
    @pytest.mark.parametrize("catalog", ["all", "some"])
    def test_labels(self, catalog: str, engine: ap.Engine) -> None:
        # Means are those of all ratings, less the intercepts of items in the catalog.
        data = ap.Interactions(
            [1, 1, 1, 2, 3, 3], [0, 1, 2, 1, 0, 2], [5, 3, 1, 4, 2, 3], items=3, rating_range=(1, 5)
        )
        session = engine.load(data.rows())
        known = np.array([0.5, -1.0, 0.25])
        if catalog == "some":
            session.choose(np.array([0, 2]))
            known = known[[0, 2]]

        def labels() -> Any:
            """Their sums by item."""
            [(_, (sums,))] = session.exact_sums(queries.Intercepts(1.0))
            return sums[:, 0]

        session.center(Centering("user", 3.0), known)
        if catalog == "all":
            means = [(4.5 + 4 + 0.75) / 3, 5.0, (1.5 + 2.75) / 2]
            expected = [4.5 - means[0] + 1.5 - means[2], 4 - means[0] + 5 - means[1]]
        else:
            means = [(4.5 + 3 + 0.75) / 3, 4.0, (1.5 + 2.75) / 2]
            expected = [4.5 - means[0] + 1.5 - means[2]]
        np.testing.assert_allclose(labels(), [*expected, 0.75 - means[0] + 2.75 - means[2]])
        session.center(Centering("user", 3.0))
        plain = [5 - 3 + 2 - 2.5, 3 - 3 + 4 - 4, 1 - 3 + 3 - 2.5]
        np.testing.assert_allclose(labels(), plain if catalog == "all" else [plain[0], plain[2]])

    @pytest.mark.parametrize("catalog", ["public", ap.MostFrequent(0.5)], ids=["all", "most"])
    def test_a_user_s_mean_is_the_same_in_training_and_after(
        self, ratings: ap.Interactions, catalog: Any
    ) -> None:
        seen: list[Any] = []
        centers = Centering.centers

        def spying(self: Centering, *given: Any) -> Any:
            seen.append(centers(self, *given))
            return seen[-1]

        with mock.patch.object(Centering, "centers", spying):
            penalty = ap.Regularization(users=0.05)  # of halves of their ratings nobody asks then
            model = MatrixFactorization(
                2, 1, epsilon=5.0, catalog=catalog, regularization=penalty
            ).fit(ratings)
            trained = len(seen)
            model.fold_in_many(ratings)
        assert len(seen) == trained + 1
        np.testing.assert_allclose(seen[-1], seen[trained - 1], rtol=1e-12, atol=1e-12)


class TestWhatIsChosen:
    def test_settings_are_reported_as_they_were_used(self, ratings: ap.Interactions) -> None:
        model = MatrixFactorization(epsilon=3.0).fit(ratings)
        inputs, choice = model.privacy.public_inputs, model.forecasts_[0].choice
        # They followed from released values: nobody had to know them before.
        chosen = {
            name: value for name, value in asdict(choice).items() if not name.endswith("weight")
        }
        chosen["serving_regularization"] = model.released.fold_in.regularization
        assert model.privacy.chosen == chosen
        assert choice.factors == model.items.shape[1]
        assert not set(inputs) & {"factors", "sweeps", "intercept_share"}
        shown = str(model.privacy).partition("chosen from released values")
        assert f"factors: {choice.factors}" in shown[2]
        assert "factors:" not in shown[0]
        assert ap.PrivacyReport.from_json(model.privacy.to_json()).chosen == chosen
        assert inputs["solver"]["clip"] == "user"
        assert model.get_params()["factors"] == "auto"

    def test_what_is_given_is_kept(self, ratings: ap.Interactions) -> None:
        model = MatrixFactorization(5, epsilon=3.0, **intercepts(0.37)).fit(ratings)
        assert {forecast.choice.factors for forecast in model.forecasts_} == {5}
        assert {forecast.choice.intercept_share for forecast in model.forecasts_} == {0.37}
        assert len({forecast.choice.sweeps for forecast in model.forecasts_}) > 1
        errors = [forecast.error for forecast in model.forecasts_]
        assert errors == sorted(errors)
        assert (model.privacy.public_inputs["factors"], set(model.privacy.chosen)) == (
            5,
            {"sweeps", "serving_regularization"},
        )

    def test_events_have_no_intercepts(self, ratings: ap.Interactions) -> None:
        model = MatrixFactorization(feedback="implicit", epsilon=3.0)
        assert "intercept" not in str(model.plan())
        assert "intercepts and sweeps" in str(MatrixFactorization().plan())
        report = model.fit(ratings).privacy
        assert "intercept" not in str(report)
        assert set(report.chosen) == {"factors", "sweeps", "unobserved_weight", "serving_weight"}

    @pytest.mark.parametrize("feedback", ["explicit", "implicit"])
    def test_the_ledger_ends_at_the_target(self, ratings: ap.Interactions, feedback: Any) -> None:
        model = MatrixFactorization(feedback=feedback, epsilon=1.5)
        plan = model.plan()
        assert sum(release.share for release in plan.releases) + plan.rest == pytest.approx(1.0)
        assert plan.training_mu == pytest.approx(plan.target.mu * math.sqrt(plan.rest))
        assert "training" in str(plan)
        report = model.fit(ratings).privacy
        ledger = list(report.ledger)
        assert model.privacy.epsilon == pytest.approx(1.5, rel=1e-9)
        assert model.privacy.epsilon <= 1.5
        # All but the training cost what was planned; the training has the rest.
        first = [each for each in plan.releases if each.name != "fold-in gains"]
        assert [record.name for record in ledger[: len(first)]] == [each.name for each in first]
        validated = "fold-in gains" in plan and report.chosen["sweeps"] > 0
        assert validated is (ledger[-1].name == "fold-in gains")
        for record, release in zip(ledger, first, strict=False):
            assert record.mu == pytest.approx(release.mu(plan.target), rel=1e-9)

    def test_without_privacy_nothing_needs_a_forecast(self, ratings: ap.Interactions) -> None:
        model = MatrixFactorization(sweeps=1, epsilon=INF).fit(ratings)
        assert not hasattr(model, "forecasts_")


class TestReproducible:
    @pytest.mark.parametrize("feedback", ["explicit", "implicit"])
    def test_the_order_of_rows_does_not_matter(
        self, ratings: ap.Interactions, feedback: Any
    ) -> None:
        assert ratings.by_user.rating is not None
        columns = (
            ratings.user_ids[ratings.user_of_row], ratings.by_user.other, ratings.by_user.rating
        )  # fmt: skip
        order = np.random.default_rng(0).permutation(len(columns[0]))
        models = [
            MatrixFactorization(3, 2, feedback, epsilon=5.0, noise_seed=4).fit(
                ap.Interactions(
                    *(column[rows] for column in columns), items=60, rating_range=(1, 5)
                )
            )
            for rows in (np.arange(len(order)), order)
        ]
        np.testing.assert_array_equal(models[0].items, models[1].items)
        if feedback == "explicit":
            np.testing.assert_array_equal(
                models[0].released.intercepts, models[1].released.intercepts
            )

    def test_the_number_of_threads_does_not_matter(self, ratings: ap.Interactions) -> None:
        models = []
        for threads in (1, 3):
            with this_many_threads(threads):
                models.append(MatrixFactorization(3, 2, epsilon=5.0, noise_seed=4).fit(ratings))
        np.testing.assert_array_equal(models[0].items, models[1].items)
        np.testing.assert_array_equal(models[0].released.intercepts, models[1].released.intercepts)


class TestCentering:
    def test_the_global_mean_is_about_right(self, ratings: ap.Interactions) -> None:
        model = MatrixFactorization(2, 1, epsilon=60.0, offsets=ap.Offsets(center="global")).fit(
            ratings
        )
        assert ratings.by_user.rating is not None
        sums = np.add.reduceat(ratings.by_user.rating.astype(float), ratings.by_user.start[:-1])
        expected = np.mean(sums / np.diff(ratings.by_user.start))
        assert model.released.fold_in.mean == pytest.approx(expected, abs=0.05)

    def test_it_needs_a_range(self) -> None:
        data = ap.Interactions([1, 2], [0, 1], [3.0, 4.0], items=2)
        with pytest.raises(ap.DataError, match="public range"):
            MatrixFactorization(1, 1).fit(data)
        with pytest.raises(ap.DataError, match="rating_range"):
            MatrixFactorization(
                1, 1, bounds=ap.Bounds(label=2.0), offsets=ap.Offsets(center="global")
            ).fit(data)

    def test_own_mean_needs_none(self) -> None:
        data = ap.Interactions([1, 2], [0, 1], [3.0, 4.0], items=2)
        assert MatrixFactorization(1, 1, bounds=ap.Bounds(label=2.0)).fit(data).items.shape == (
            2,
            1,
        )


class TestBadInput:
    def test_no_ratings(self, events: ap.Interactions) -> None:
        with pytest.raises(ap.DataError, match='feedback="implicit"'):
            MatrixFactorization().fit(events)

    def test_not_interactions(self) -> None:
        with pytest.raises(ap.DataError, match="Interactions"):
            MatrixFactorization().fit([1, 2, 3])

    def test_no_public_catalog(self) -> None:
        data = ap.Interactions([1, 2], ["a", "b"], [3.0, 4.0], rating_range=(1, 5))
        with pytest.raises(ap.DataError, match='catalog="private"'):
            MatrixFactorization().fit(data)
        assert MatrixFactorization(1, 1, epsilon=INF).fit(data).items.shape == (2, 1)

    @pytest.mark.parametrize(
        ("name", "value"),
        [
            ("factors", 0),
            ("factors", 2.5),
            ("sweeps", 0),
            ("feedback", "both"),
            ("epsilon", 0.0),
            ("epsilon", -1.0),
            ("epsilon", math.nan),
            ("delta", 0.0),
            ("delta", 1.0),
            ("allocation", "adaptive"),
            ("allocation", ap.OptimalWeights()),
            ("solver", "sgd"),
            ("factors", "Auto"),
            ("factors", True),
            ("sweeps", "all"),
            ("sweeps", None),
            ("catalog", "secret"),
            ("regularization", "strong"),
            ("bounds", 0.25),
            ("offsets", None),
            ("shares", 0.1),
            ("engine", "gpu"),
            ("seed", -1),
        ],
    )
    def test_parameters(self, ratings: ap.Interactions, name: str, value: object) -> None:
        model = MatrixFactorization(**{name: value})
        with pytest.raises(ap.ParameterError, match=name):
            model.fit(ratings)
        if name != "engine":  # plans need none
            with pytest.raises(ap.ParameterError, match=name):
                model.plan()

    @pytest.mark.parametrize(
        ("kind", "group", "name", "value"),
        [
            (ap.SufficientStatistics, "solver", "matrices", "none"),
            (ap.SufficientStatistics, "solver", "matrices", "both"),
            (ap.SufficientStatistics, "solver", "clip", "users"),
            (ap.SufficientStatistics, "solver", "clip", None),
            (ap.SufficientStatistics, "solver", "gram_share", 1.0),
            (ap.SufficientStatistics, "solver", "noise_ridge", -1.0),
            (ap.GradientDescent, "solver", "steps", 0),
            (ap.GradientDescent, "solver", "gradient_bound", 0.0),
            (ap.GradientDescent, "solver", "learning_rate", 0.0),
            (ap.Offsets, "offsets", "intercept_share", -0.1),
            (ap.Offsets, "offsets", "intercept_share", 1.0),
            (ap.Offsets, "offsets", "intercept_share", math.nan),
            (ap.Offsets, "offsets", "intercept_share", "none"),
            (ap.Offsets, "offsets", "intercept_share", None),
            (ap.Offsets, "offsets", "center", "item"),
            (ap.Offsets, "offsets", "mean_share", 0.0),
            (ap.Bounds, "bounds", "normalize", "yes"),
            (ap.Bounds, "bounds", "feature", 0.0),
            (ap.Bounds, "bounds", "label", math.inf),
            (ap.Regularization, "regularization", "items", -1.0),
            (ap.Regularization, "regularization", "exponent", 3.0),
            (ap.Regularization, "regularization", "users", math.nan),
            (ap.Regularization, "regularization", "unobserved_weight", -0.1),
            (ap.Shares, "shares", "gramian", 0.0),
            (ap.Shares, "shares", "weights", 1.5),
            (ap.Shares, "shares", "users", 1.0),
        ],
    )
    def test_groups(self, kind: type, group: str, name: str, value: object) -> None:
        # Refused when the group is made, however it is made.
        with pytest.raises(ap.ParameterError, match=name):
            kind(**{name: value})
        model = MatrixFactorization(**{group: kind()})
        with pytest.raises(ap.ParameterError, match=name):
            model.set_params(**{f"{group}__{name}": value})
        assert getattr(model, group) == kind()

    def test_parameters_that_no_group_has(self) -> None:
        model = MatrixFactorization()
        with pytest.raises(
            ap.ParameterError, match=r"solver has no parameter 'steps'; it has matr"
        ):
            model.set_params(solver__steps=3)
        with pytest.raises(ap.ParameterError, match="no parameter 'clip'"):
            model.set_params(clip="row")
        with pytest.raises(ap.ParameterError, match="catalog has no parameter"):
            model.set_params(catalog__share=0.1)

    def test_a_failed_fit_leaves_the_old_model(self, ratings: ap.Interactions) -> None:
        model = MatrixFactorization(2, 1).fit(ratings)
        before = model.items.copy()
        with pytest.raises(ap.ParameterError):
            model.set_params(epsilon=-1.0).fit(ratings)
        np.testing.assert_array_equal(model.items, before)

    def test_before_fit(self) -> None:
        with pytest.raises(ap.NotFittedError):
            MatrixFactorization().recommend([1, 2])

    def test_one_user_one_item(self) -> None:
        data = ap.Interactions([7], [0], [3.0], items=1, rating_range=(1, 5))
        for solver in (SHARED, PER_ITEM, DESCENT):
            for feedback in ("explicit", "implicit"):
                for engine in ("cpu", "reference"):
                    model = MatrixFactorization(2, 2, feedback, **solver, engine=engine).fit(data)
                    assert np.isfinite(model.items).all()

    def test_no_rows_at_all(self) -> None:
        data = ap.Interactions([], [], [], items=4, rating_range=(1, 5))
        for solver in (SHARED, PER_ITEM, DESCENT):
            for feedback in ("explicit", "implicit"):
                for engine in ("cpu", "reference"):
                    model = MatrixFactorization(2, 2, feedback, **solver, engine=engine).fit(data)
                    assert np.isfinite(model.items).all()


def test_progress_is_told(ratings: ap.Interactions) -> None:
    told: list[tuple[int, int]] = []
    MatrixFactorization(2, 3).fit(ratings, on_sweep=lambda done, total: told.append((done, total)))
    assert told == [(1, 3), (2, 3), (3, 3)]


def test_parameters_as_in_scikit_learn() -> None:
    from sklearn.base import clone

    model = MatrixFactorization(7, epsilon=2.0, allocation=ap.TailSampling(5))
    model.set_params(
        bounds__feature=0.5, solver__clip="row", regularization__unobserved_weight=0.2,
        offsets__center="global", shares__users=0.01, allocation__k=6,
    )  # fmt: skip
    assert clone(model).get_params() == model.get_params()
    deep = model.get_params()
    assert deep["bounds__feature"] == model.bounds.feature == 0.5
    assert deep["solver__clip"] == "row"
    assert deep["solver__matrices"] == "shared"
    assert deep["regularization__unobserved_weight"] == 0.2
    assert deep["allocation__k"] == 6
    assert model.solver == ap.SufficientStatistics(clip="row")
    assert model.offsets == ap.Offsets(center="global")
    flat = model.get_params(deep=False)
    assert not [name for name in flat if "__" in name]
    assert len(flat) <= 16


def test_names_stand_for_groups(ratings: ap.Interactions) -> None:
    short = MatrixFactorization(2, 1, regularization=0.1, solver="descent", noise_seed=1)
    long = MatrixFactorization(
        2, 1, regularization=ap.Regularization(items=0.1), solver=ap.GradientDescent(), noise_seed=1
    )
    models = [model.fit(ratings) for model in (short, long)]
    np.testing.assert_array_equal(models[0].items, models[1].items)
    assert undated(models[0].privacy) == undated(models[1].privacy)


def test_ratings_are_ignored_for_implicit_feedback(ratings: ap.Interactions) -> None:
    plain = ap.Interactions(
        ratings.user_ids[ratings.user_of_row], ratings.by_user.other, items=ratings.items
    )
    models = [
        MatrixFactorization(2, 1, "implicit", noise_seed=1).fit(data) for data in (ratings, plain)
    ]
    np.testing.assert_array_equal(models[0].items, models[1].items)


@pytest.mark.parametrize("epsilon", [INF, 5.0])
def test_ratings_are_ignored_without_privacy_and_in_plans_too(
    ratings: ap.Interactions, epsilon: float
) -> None:
    plain = ap.Interactions(
        ratings.user_ids[ratings.user_of_row], ratings.by_user.other, items=ratings.items
    )
    model = MatrixFactorization(2, 2, "implicit", epsilon=epsilon, noise_seed=1)
    np.testing.assert_array_equal(
        model.fit(ratings).items.copy(), model.fit(plain).items, strict=True
    )
    if epsilon < INF:
        prepared = [model.prepare(data).sums for data in (ratings, plain)]
        np.testing.assert_array_equal(*prepared)


@pytest.mark.parametrize("feedback", ["explicit", "implicit"])
@each_solver
def test_engines_differ_in_the_last_bits_at_most(
    ratings: ap.Interactions, feedback: Any, solver: dict[str, Any]
) -> None:
    models = [
        MatrixFactorization(3, 2, feedback, **solver, epsilon=5.0, noise_seed=4, engine=engine).fit(
            ratings
        )
        for engine in ("cpu", "reference", ap.ReferenceEngine())
    ]
    np.testing.assert_array_equal(models[1].items, models[2].items)
    size = np.abs(models[0].items).max()
    np.testing.assert_allclose(models[0].items, models[1].items, atol=2e-3 * size)
    reports = [model.privacy for model in models]
    assert ledger_to_dict(reports[0].ledger) == ledger_to_dict(reports[1].ledger)
