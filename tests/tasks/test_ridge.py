"""Multi-task ridge regression: exact without privacy, sensible with it, scikit-learn's manners."""

import copy
import math
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.linear_model import Ridge

import apportion as ap
from apportion.accounts.declared import Declared
from apportion.allocation.scaling import normalized
from apportion.engine import find_engine, queries
from apportion.engine.solves import solve_filtered, solve_positive
from apportion.packing import pack, unpack
from apportion.privacy import Curator, NoiseSource, Part, PrivacyTarget, UserBound
from apportion.studies.metrics import rmse, rmse_by_size
from apportion.tasks.penalty import Penalty
from apportion.tasks.statistics import solve_exact, solve_released
from tests.threads import this_many_threads

STATISTICS: list[Any] = ["per-task", "shared", "shrunk"]
DATA = ap.simulate_tasks(users=3000, tasks=30, tasks_per_user=6, label_noise=0.1)
TRAIN, TEST = DATA.split()


@pytest.mark.parametrize("regularization", [1e-8, 3.0])
def test_without_privacy_it_is_the_exact_ridge_solution(regularization: float) -> None:
    model = ap.MultiTaskRidge(
        epsilon=math.inf, regularization=regularization, label_bound=10.0
    ).fit(DATA)
    for task in range(DATA.tasks):
        mine = DATA.task == task
        reference = Ridge(alpha=regularization, fit_intercept=False)
        reference.fit(DATA.features[DATA.feature_row[mine]], DATA.labels[mine])
        np.testing.assert_allclose(model.coef_[task], reference.coef_, rtol=1e-8, atol=1e-10)


def test_repeated_rows_are_averaged() -> None:
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(40, 2)) / 4, rng.normal(size=40) / 4
    user = np.arange(40) // 2
    model = ap.MultiTaskRidge(
        epsilon=math.inf, feature_bound=9, label_bound=9, regularization=0.1
    ).fit(ap.TaskData(user, np.zeros(40, int), X, y))
    reference = Ridge(alpha=0.1, fit_intercept=False).fit(X, y, sample_weight=np.full(40, 0.5))
    np.testing.assert_allclose(model.coef_[0], reference.coef_, rtol=1e-8)


def test_per_user_and_per_row_features_give_the_same_model() -> None:
    per_row = ap.TaskData(
        TRAIN.user, TRAIN.task, TRAIN.features[TRAIN.user], TRAIN.labels, tasks=TRAIN.tasks
    )
    models = [ap.MultiTaskRidge(noise_seed=1).fit(data) for data in (TRAIN, per_row)]
    np.testing.assert_array_equal(models[0].coef_, models[1].coef_)


def test_more_budget_less_error_and_better_than_nothing() -> None:
    errors = [
        np.mean(
            [rmse(ap.MultiTaskRidge(epsilon=e, noise_seed=s).fit(TRAIN), TEST) for s in range(5)]
        )
        for e in (0.5, 2.0, 8.0, math.inf)
    ]
    assert errors == sorted(errors, reverse=True)
    assert errors[0] < TEST.labels.std()


def test_adaptive_weights_help_the_tail() -> None:
    train, test = ap.simulate_tasks(skew=1.0).split()
    sizes = train.graph.task_sizes()

    def tail(allocation: ap.Allocation) -> float:
        models = [
            ap.MultiTaskRidge(epsilon=1.0, allocation=allocation, noise_seed=seed).fit(train)
            for seed in range(3)
        ]
        return float(np.mean([rmse_by_size(model, test, sizes)[0] for model in models]))

    # Measured: 0.33 against 0.21.
    assert tail(ap.AdaptiveWeights()) < 0.8 * tail(ap.UniformWeights())


def test_predict_and_score() -> None:
    model = ap.MultiTaskRidge(epsilon=math.inf).fit(TRAIN)
    x = np.array([[0.1, 0.2, 0.3, 0.4, 0.5], [0.0, 0.0, 0.0, 0.0, 1.0]])
    np.testing.assert_allclose(model.predict([3, 7], x), [x[0] @ model.coef_[3], model.coef_[7, 4]])
    np.testing.assert_allclose(model.predict(3, x[0]), [x[0] @ model.coef_[3]])
    residual = TEST.labels - model.predict(TEST)
    assert model.score(TEST) == pytest.approx(1 - residual.var() / TEST.labels.var(), rel=1e-3)


def test_predict_by_task_name() -> None:
    data = ap.TaskData(["u"], ["b"], [[1.0]], [0.5], tasks=["a", "b"])
    model = ap.MultiTaskRidge(epsilon=math.inf).fit(data)
    np.testing.assert_allclose(model.predict(["b", "a"], [[1.0], [1.0]]), [0.5, 0.0])


@pytest.mark.parametrize(
    ("task", "features", "message"),
    [
        ([99], [[0.0] * 5], "task: row 0"),
        ([1], [[0.0] * 4], "5 columns"),
        ([1], [[np.nan] * 5], "features: row 0"),
        ([1, 2], [[0.0] * 5], "task has 2 rows and features has 1"),
    ],
)
def test_bad_predictions(task: Any, features: Any, message: str) -> None:
    model = ap.MultiTaskRidge(epsilon=math.inf).fit(TRAIN)
    with pytest.raises(ap.DataError, match=message):
        model.predict(task, features)


def test_other_catalogs_are_refused() -> None:
    model = ap.MultiTaskRidge(epsilon=math.inf).fit(TRAIN)
    with pytest.raises(ap.DataError, match="another catalog"):
        model.score(ap.simulate_tasks(users=50, tasks=7, tasks_per_user=2))


def test_not_fitted() -> None:
    for use in (lambda m: m.privacy, lambda m: m.predict([0], [[1.0]]), lambda m: m.score(TEST)):
        with pytest.raises(ap.NotFittedError, match="call fit first"):
            use(ap.MultiTaskRidge())


@pytest.mark.parametrize("name", ["feature_bound", "label_bound"])
@pytest.mark.parametrize("value", [0.0, -1.0, math.nan, math.inf, None])
def test_bad_bounds(name: str, value: Any) -> None:
    with pytest.raises(ap.ParameterError, match=name):
        ap.MultiTaskRidge(**{name: value}).fit(TRAIN)


@pytest.mark.parametrize(
    "settings",
    [
        {"epsilon": 0},
        {"epsilon": -1},
        {"epsilon": math.nan},
        {"delta": 0},
        {"delta": 1},
        {"regularization": -1.0},
        {"regularization": math.inf},
        {"noise_ridge": -0.1},
        {"gram_share": 0.0},
        {"gram_share": 1.0},
        {"allocation": "best"},
        {"noise_seed": 1.5},
    ],
)
def test_bad_parameters_train_nothing(settings: dict[str, Any]) -> None:
    model = ap.MultiTaskRidge(**settings)
    with pytest.raises(ap.ParameterError):
        model.fit(TRAIN)
    assert not hasattr(model, "coef_")


def test_bad_data_type() -> None:
    with pytest.raises(ap.DataError, match="fit takes a TaskData"):
        ap.MultiTaskRidge().fit([1, 2, 3])


def test_a_failed_refit_keeps_the_old_model() -> None:
    model = ap.MultiTaskRidge(noise_seed=0).fit(TRAIN)
    before = copy.deepcopy((model.coef_, model.privacy.to_json()))
    with pytest.raises(ap.DataError):
        model.fit(ap.TaskData([0], [0], [[1.0]], [1.0]))
    np.testing.assert_array_equal(model.coef_, before[0])
    assert model.privacy.to_json() == before[1]


def test_data_without_rows_still_trains() -> None:
    # One user's departure must not turn a model into an error.
    model = ap.MultiTaskRidge().fit(ap.TaskData([], [], np.zeros((0, 2)), [], tasks=3))
    assert model.coef_.shape == (3, 2)
    assert np.isfinite(model.coef_).all()


def test_scikit_learn_manners() -> None:
    model = ap.MultiTaskRidge(epsilon=2.0, allocation=ap.TailSampling(7))
    twin = clone(model)
    assert twin is not model
    assert repr(twin) == repr(model)
    assert model.set_params(epsilon=3.0).get_params()["epsilon"] == 3.0
    with pytest.raises(ap.ParameterError, match="no parameter 'lambda'"):
        model.set_params(**{"lambda": 1})


class TestSolve:
    """The solution from noisy statistics."""

    def test_exact_when_nothing_is_noisy(self) -> None:
        A = np.array([[[2.0, 0.5], [0.5, 1.0]]])
        b = np.array([[1.0, -1.0]])
        np.testing.assert_allclose(
            solve_filtered(pack(A), b, np.array([0.3]), 0.0)[0],
            np.linalg.solve(A[0] + 0.3 * np.eye(2), b[0]),
        )

    def test_negative_directions_are_left_out(self) -> None:
        A = np.array([np.diag([4.0, -3.0])])
        np.testing.assert_allclose(
            solve_filtered(pack(A), np.array([[8.0, 5.0]]), np.zeros(1), 0.0), [[2.0, 0.0]]
        )

    def test_is_the_stated_minimizer(self) -> None:
        rng = np.random.default_rng(0)
        A = rng.normal(size=(1, 3, 3))
        A = A @ A.transpose(0, 2, 1)
        b = rng.normal(size=(1, 3))
        shifted = A[0] + 0.2 * np.eye(3)
        expected = np.linalg.solve(shifted.T @ shifted + 0.7**2 * np.eye(3), shifted.T @ b[0])
        mine = solve_filtered(pack(A), b, np.array([0.2]), 0.7)[0]
        np.testing.assert_allclose(mine, expected, rtol=1e-5)  # float32 beside a ridge

    def test_without_noise_both_ways_agree(self) -> None:
        rng = np.random.default_rng(1)
        A, b = rng.normal(size=(5, 4, 4)), rng.normal(size=(5, 4))
        packed, alpha = pack(A @ A.transpose(0, 2, 1)), rng.uniform(1, 2, 5)
        exact = solve_positive(packed, b, alpha)
        np.testing.assert_allclose(exact, solve_filtered(packed, b, alpha, 0.0))

    def test_no_data_no_coefficient(self) -> None:
        np.testing.assert_array_equal(
            solve_filtered(np.zeros((1, 3)), np.zeros((1, 2)), np.zeros(1), 0.0), [[0.0, 0.0]]
        )


class TestBlocks:
    """Summed, released and solved block by block."""

    def loaded(self, epsilon: float, tasks: int = 300) -> tuple[Any, Any, Penalty]:
        """A session, a query and a penalty."""
        rng = np.random.default_rng(0)
        user, task = np.unique(
            np.stack([np.repeat(np.arange(400), 3), rng.integers(0, tasks, 1200)]), axis=1
        )
        data = ap.TaskData(
            user, task, rng.normal(size=(400, 6)) / 3, rng.normal(size=len(user)), tasks=tasks,
            per_user=True,
        )  # fmt: skip
        session = find_engine("auto").load(data.rows())
        session.weigh(lambda graph: normalized(graph.user, graph.task, np.ones(len(graph.user))))
        session.bound_features(1.0, whole=epsilon < math.inf)
        query = queries.Statistics(queries.RightHandSides(1.0, 1.0, "row"))
        penalty = Penalty(np.full(tasks, 0.5), np.linspace(0, 1, tasks), np.eye(6) + 0.3)
        return session, query, penalty

    def parts(self, epsilon: float, tasks: int = 300) -> tuple[Any, Any, Any, Penalty]:
        """The same, and the release of the query."""
        session, query, penalty = self.loaded(epsilon, tasks)
        parts = (
            Part("A", "x x'", UserBound(1.0, "|x| <= 1"), 6, symmetric=True),
            Part("b", "y x", UserBound(1.0, "|y x| <= 1"), 6),
        )
        desk = Curator(PrivacyTarget(epsilon, 1e-5), NoiseSource.from_seed(3))
        release = Declared("statistics", parts, 1.0, (0.5, 0.5)).open(desk, tasks)
        return session, query, release, penalty

    def expected(self, A: Any, b: Any, penalty: Penalty, radius: float) -> Any:
        """By eigenvectors."""
        assert penalty.shared is not None
        matrices = unpack(A, 6) + penalty.scale[:, None, None] * penalty.shared
        values, vectors = np.linalg.eigh(matrices)
        v = np.maximum(values, 0) + penalty.ridge[:, None]
        rotated = np.einsum("tij,ti->tj", vectors, b)
        return np.einsum("tij,tj->ti", vectors, v / (v**2 + radius**2) * rotated)

    @pytest.mark.parametrize("epsilon", [1.0, 20.0])
    def test_is_the_solution_from_what_was_released(self, epsilon: float) -> None:
        session, query, release, penalty = self.parts(epsilon)
        coef = solve_released(session, query, release, penalty, 0.7)
        session, query, again, penalty = self.parts(epsilon)
        [(_, sums)] = session.sums(query, again.grids)
        A, b = again.feed(0, *sums)
        radius = 0.7 * release.records[0].noise_scale * math.sqrt(12)
        expected = self.expected(A, b, penalty, radius)
        # Beside the ridge that noise asks for, rounding to float32 is small.
        np.testing.assert_allclose(coef, expected, rtol=1e-9, atol=1e-5 * np.abs(expected).max())

    def test_without_privacy_is_the_exact_solution(self) -> None:
        session, query, penalty = self.loaded(math.inf)
        [(_, (A, b))] = session.exact_sums(query)
        expected = self.expected(A, b, penalty, 0.0)
        np.testing.assert_allclose(solve_exact(session, penalty), expected, rtol=1e-9, atol=1e-11)

    @pytest.mark.parametrize("epsilon", [1.0, math.inf])
    def test_blocks_and_threads_change_nothing(self, epsilon: float) -> None:
        def solve(tasks: int = 10_000) -> Any:
            if epsilon == math.inf:
                session, _, penalty = self.loaded(epsilon)
                session.block_bytes = 16 * 21 * tasks
                return solve_exact(session, penalty)
            session, query, release, penalty = self.parts(epsilon)
            session.block_bytes = 16 * 21 * tasks
            return solve_released(session, query, release, penalty, 0.7)

        whole = solve()
        for tasks in (1, 7, 64, 100, 200):
            np.testing.assert_array_equal(solve(tasks), whole)
        for threads in (1, 2, 5):
            with this_many_threads(threads):
                np.testing.assert_array_equal(solve(), whole)

    def test_noise_is_drawn_in_several_threads_and_errors_come_through(self) -> None:
        session, query, release, penalty = self.parts(1.0, tasks=64 * 16)
        with this_many_threads(1):
            alone = solve_released(session, query, release, penalty, 0.7)
        session, query, release, penalty = self.parts(1.0, tasks=64 * 16)
        with this_many_threads(2):
            np.testing.assert_array_equal(
                solve_released(session, query, release, penalty, 0.7), alone
            )
            session, query, release, penalty = self.parts(1.0, tasks=64 * 16)
            release.feed(700, np.zeros((1, 21), np.int64), np.zeros((1, 6), np.int64))
            with pytest.raises(ap.ReleaseError, match="fed twice"):
                solve_released(session, query, release, penalty, 0.7)


class TestStatistics:
    """One matrix per task, one for all, or something between."""

    def errors(self, epsilon: float, train: ap.TaskData, test: ap.TaskData) -> dict[str, float]:
        return {
            statistics: rmse(
                ap.MultiTaskRidge(epsilon, statistics=statistics, noise_seed=0).fit(train), test
            )
            for statistics in STATISTICS
        }

    def test_shared_is_better_where_noise_is_large(self) -> None:
        # Measured over 10 runs: 0.098 to 0.106 against 0.128 to 0.141; shrunk 0.100 to 0.110.
        errors = self.errors(0.5, *ap.simulate_tasks(seed=1).split(0.2))
        assert errors["shared"] < 0.9 * errors["per-task"]
        assert errors["shrunk"] < 0.9 * errors["per-task"]
        assert errors["shrunk"] < 1.2 * errors["shared"]

    def test_per_task_is_better_where_noise_is_small(self) -> None:
        # Measured over 10 runs: 0.011 to 0.014 against 0.021 to 0.024; shrunk 0.011 to 0.014.
        errors = self.errors(10.0, *ap.simulate_tasks(seed=1).split(0.2))
        assert errors["per-task"] < 0.7 * errors["shared"]
        assert errors["shrunk"] < 0.7 * errors["shared"]
        assert errors["shrunk"] < 1.25 * errors["per-task"]

    def test_tasks_whose_features_differ(self) -> None:
        # Every task sees features on scales of its own, so that no second moment serves them all.
        # Measured over 10 runs: shared 1.6 to 2.2 times the error, shrunk 0.96 to 1.04 times.
        rng = np.random.default_rng(2)
        data = ap.simulate_tasks(seed=2)
        X = data.features[data.feature_row] * rng.uniform(0.2, 1.0, size=(100, 5))[data.task]
        y = np.einsum("ij,ij->i", X, rng.normal(size=(100, 5))[data.task]) / 3
        errors = self.errors(1.0, *ap.TaskData(data.user, data.task, X, y, tasks=100).split(0.2))
        assert errors["per-task"] < 0.7 * errors["shared"]
        assert errors["shrunk"] < 1.2 * errors["per-task"]

    @pytest.mark.parametrize("statistics", STATISTICS)
    def test_directions_without_data_stay_harmless(self, statistics: Any) -> None:
        # Of fifteen features all but five are next to nothing, below the noise of the second moment.
        rng = np.random.default_rng(0)
        data = ap.simulate_tasks(users=3000, tasks=30, tasks_per_user=6)
        X = np.hstack([data.features, 1e-6 * rng.normal(size=(len(data.features), 10))])
        wide = ap.TaskData(data.user, data.task, X, data.labels, tasks=30, per_user=True)
        for seed in range(5):
            model = ap.MultiTaskRidge(5.0, statistics=statistics, noise_seed=seed).fit(wide)
            # Solutions lie in the unit ball; where nothing is known they should be no larger than noise.
            assert np.abs(model.coef_).max() < 10

    @pytest.mark.parametrize("statistics", STATISTICS)
    def test_the_ledger_ends_at_the_target(self, statistics: Any) -> None:
        data = ap.simulate_tasks(users=200, tasks=8, tasks_per_user=3)
        for allocation in (ap.AdaptiveWeights(), ap.UniformSampling(2)):
            model = ap.MultiTaskRidge(0.7, statistics=statistics, allocation=allocation).fit(data)
            assert 0.7 - 1e-9 < model.privacy.epsilon <= 0.7

    @pytest.mark.parametrize("share", [0.4, 0.7])
    def test_no_more_than_its_share_goes_to_the_matrices(self, share: float) -> None:
        # Of what A and b cost: at least what the pilot takes, at most the share.
        spent = []
        for epsilon in (0.5, 50.0):
            model = ap.MultiTaskRidge(epsilon, gram_share=share, noise_seed=0).fit(TRAIN)
            cost = {"A": 0.0, "b": 0.0}
            for record in model.privacy.ledger:
                if record.name.startswith(("pilot", "statistics")):
                    cost[record.name[-1]] += (record.sensitivity / record.noise_scale) ** 2
            spent.append(cost["A"] / (cost["A"] + cost["b"]))
        assert share / 8 < spent[0] < 0.5 * share
        assert 0.5 * share < spent[1] <= share

    @pytest.mark.parametrize("statistics", STATISTICS)
    def test_without_privacy_it_is_exact(self, statistics: Any) -> None:
        data = ap.simulate_tasks(users=200, tasks=8, tasks_per_user=3)
        model = ap.MultiTaskRidge(epsilon=np.inf, regularization=0.1, statistics=statistics).fit(
            data
        )
        for task in range(8):
            X, y = data.features[data.user[data.task == task]], data.labels[data.task == task]
            exact = np.linalg.solve(X.T @ X + 0.1 * np.eye(5), X.T @ y)
            np.testing.assert_allclose(model.coef_[task], exact)

    @pytest.mark.parametrize("statistics", ["per-task", "shrunk"])
    def test_without_noise_it_is_nearly_exact(
        self, statistics: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def silence(self: Any, stream: str, step: int, first: int, tasks: int, scales: Any) -> Any:
            return [(0, np.zeros((tasks, len(scales.order)), dtype=np.int64))]

        monkeypatch.setattr(NoiseSource, "discrete_gaussian", silence)
        data = ap.simulate_tasks(users=50_000, tasks=8, tasks_per_user=3, label_noise=0.0)
        models = [
            ap.MultiTaskRidge(epsilon, statistics=statistics, label_bound=3.0, noise_seed=0).fit(
                data
            )
            for epsilon in (65.0, math.inf)
        ]
        np.testing.assert_allclose(models[0].coef_, models[1].coef_, atol=1e-3)

    @pytest.mark.parametrize("statistics", STATISTICS)
    @pytest.mark.parametrize("bounds", [(2.0**-20, 2.0**20), (2.0**20, 2.0**-20)])
    def test_units_do_not_matter(self, statistics: Any, bounds: tuple[float, float]) -> None:
        G, L = bounds
        scaled = ap.TaskData(
            TRAIN.user, TRAIN.task, G * TRAIN.features, L * TRAIN.labels, tasks=30, per_user=True
        )
        settings: dict[str, Any] = {"statistics": statistics, "noise_seed": 0}
        plain = ap.MultiTaskRidge(regularization=2.0, **settings).fit(TRAIN)
        other = ap.MultiTaskRidge(
            regularization=2.0 * G**2, feature_bound=G, label_bound=L, **settings
        ).fit(scaled)
        np.testing.assert_allclose(other.coef_ * (G / L), plain.coef_, rtol=1e-6, atol=1e-9)

    @pytest.mark.parametrize("statistics", STATISTICS)
    @pytest.mark.parametrize(
        "data",
        [
            ap.TaskData([], [], np.zeros((0, 2)), [], tasks=3),
            ap.TaskData(np.arange(50), np.zeros(50, int), np.zeros((50, 3)), np.ones(50), tasks=2),
            ap.TaskData(np.arange(50), np.zeros(50, int), np.ones((50, 1)), np.ones(50), tasks=1),
            ap.TaskData(np.arange(50), np.arange(50) % 3, np.ones((50, 4)), np.zeros(50), tasks=5),
        ],
        ids=["no rows", "zero features", "one task, one feature", "equal features, labels zero"],
    )
    def test_odd_data_gives_finite_models(self, data: ap.TaskData, statistics: Any) -> None:
        for epsilon in (1e-3, 1.0, 10.0, 65.0):
            model = ap.MultiTaskRidge(epsilon, statistics=statistics, noise_seed=0).fit(data)
            assert np.isfinite(model.coef_).all()

    def test_wrong_name(self) -> None:
        with pytest.raises(ap.ParameterError, match="statistics must be"):
            ap.MultiTaskRidge(statistics="none").fit(
                ap.simulate_tasks(users=20, tasks=3, tasks_per_user=1)
            )
