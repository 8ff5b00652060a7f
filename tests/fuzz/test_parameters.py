"""Parameters: whatever they are, an error of ours before anything is released, or a finite model."""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import apportion as ap
from tests.fuzz.harness import Fuzz, examples
from tests.fuzz.values import absurd

EXTREME: tuple[Any, ...] = (1e-100, 1e-60, 1e-9, 1e-3, 0.5, 1.0, 3.0, 1e9, 1e60, 1e100)
# Values that a parameter may well have, besides absurd ones.
numbers = st.sampled_from(EXTREME) | absurd

ESTIMATORS: dict[type[Any], dict[str, Any]] = {
    ap.MultiTaskRidge: {
        "epsilon": numbers,
        "delta": numbers,
        "feature_bound": numbers,
        "label_bound": numbers,
        "regularization": numbers,
        "noise_ridge": numbers,
        "gram_share": numbers,
        "statistics": st.sampled_from(("shrunk", "per-task", "shared")),
        "noise_seed": absurd,
        "allocation": st.sampled_from((ap.UniformWeights(), ap.UniformSampling(1), None, "x")),
    },
    ap.MultiTaskDescent: {
        "epsilon": numbers,
        "delta": numbers,
        "feature_bound": numbers,
        "gradient_bound": numbers,
        "steps": absurd,
        "loss": st.sampled_from(("logistic", "squared", "x")),
        "steps__learning_rate": numbers,
        "noise_seed": absurd,
        "allocation": st.sampled_from((ap.UniformWeights(), None)),
        "steps__sampling_rate": absurd,
        "radius": numbers,
    },
    ap.MatrixFactorization: {
        "epsilon": numbers,
        "delta": numbers,
        "bounds": absurd,
        "bounds__feature": numbers,
        "bounds__label": numbers,
        "bounds__normalize": st.sampled_from((True, False, None)) | absurd,
        "regularization": numbers,
        "regularization__items": numbers,
        "regularization__users": numbers,
        "regularization__exponent": numbers,
        "regularization__unobserved_weight": numbers,
        "offsets": absurd,
        "offsets__center": st.sampled_from(("user", "global", "none")) | absurd,
        "offsets__mean_share": numbers,
        "offsets__intercept_share": numbers,
        "shares": absurd,
        "shares__gramian": numbers,
        "shares__weights": numbers,
        "shares__users": numbers,
        "factors": absurd,
        "sweeps": absurd,
        "seed": absurd,
        "noise_seed": absurd,
        "engine": st.sampled_from(("auto", "cpu", "reference")) | absurd,
        "feedback": st.sampled_from(("explicit", "implicit", "x")),
        "solver": st.sampled_from(("ssp", "descent")) | absurd,
        "solver__matrices": st.sampled_from(("shared", "per-item")) | absurd,
        "solver__clip": st.sampled_from(("user", "row")) | absurd,
        "solver__gram_share": numbers,
        "solver__noise_ridge": numbers,
        "solver__steps": absurd,
        "solver__gradient_bound": numbers,
        "solver__learning_rate": numbers,
        "catalog": st.sampled_from(("public", "private", "x", None)),
        "allocation": st.sampled_from(
            (ap.UniformWeights(), ap.UniformSampling(2), ap.TailSampling(2), "x")
        ),
    },
}
# Whether these are possible is a matter of memory and time alone.
SMALL = {"factors": 8, "sweeps": 3, "steps": 5, "solver__steps": 5}


@pytest.fixture(scope="module")
def tasks() -> ap.TaskData:
    return ap.simulate_tasks(users=40, tasks=3, tasks_per_user=2.0, dimension=2)


@pytest.fixture(scope="module")
def interactions() -> ap.Interactions:
    return ap.simulate_interactions(users=40, items=6, rows=120)


def reasonable(settings: dict[str, Any]) -> dict[str, Any]:
    """Without sizes that are valid and take for ever."""
    return {
        name: SMALL[name]
        if name in SMALL and isinstance(value, int) and not isinstance(value, bool) and value > 8
        else value
        for name, value in settings.items()
    }


def train(fuzz: Fuzz, kind: type[Any], settings: dict[str, Any], data: Any) -> None:
    settings = reasonable(settings)
    base = {"factors": 2, "sweeps": 1} if kind is ap.MatrixFactorization else {}
    if kind is ap.MultiTaskDescent:
        base = {"steps": 2}
    model = kind(**base)
    if any(
        name.startswith(("solver__steps", "solver__grad", "solver__learn")) for name in settings
    ):
        model.set_params(solver=ap.GradientDescent(steps=2))
    found = fuzz.case(lambda: model.set_params(**settings).fit(data))
    if isinstance(found, ap.ApportionError):
        return
    learned = model.items if kind is ap.MatrixFactorization else model.coef_
    assert np.isfinite(learned).all()
    if model.privacy.private:
        assert model.privacy.epsilon <= settings.get("epsilon", 1.0) * (1 + 1e-9)


def few(kind: type[Any]) -> st.SearchStrategy[dict[str, Any]]:
    """Some of the parameters of an estimator."""
    known = ESTIMATORS[kind]
    return st.lists(st.sampled_from(sorted(known)), unique=True, max_size=4).flatmap(
        lambda chosen: st.fixed_dictionaries({name: known[name] for name in chosen})
    )


@given(settings=few(ap.MultiTaskRidge))
@examples(80)
def test_ridge(fuzz: Fuzz, settings: dict[str, Any], tasks: ap.TaskData) -> None:
    train(fuzz, ap.MultiTaskRidge, settings, tasks)


@given(settings=few(ap.MultiTaskDescent))
@examples(60)
def test_descent(fuzz: Fuzz, settings: dict[str, Any], tasks: ap.TaskData) -> None:
    train(fuzz, ap.MultiTaskDescent, settings, tasks)


@given(settings=few(ap.MatrixFactorization))
@examples(120)
def test_factorization(fuzz: Fuzz, settings: dict[str, Any], interactions: ap.Interactions) -> None:
    train(fuzz, ap.MatrixFactorization, settings, interactions)


@given(epsilon=numbers, delta=numbers, mu=numbers)
@examples(150)
def test_conversions(fuzz: Fuzz, epsilon: Any, delta: Any, mu: Any) -> None:
    fuzz.case(lambda: ap.PrivacyTarget(epsilon, delta))
    for call in (
        lambda: ap.mu_from_epsilon(epsilon, delta),
        lambda: ap.epsilon_from_mu(mu, delta),
        lambda: ap.delta_from_epsilon(epsilon, mu),
    ):
        found = fuzz.case(call)
        assert isinstance(found, ap.ApportionError) or found >= 0
    cost = fuzz.case(lambda: ap.mu_from_epsilon(epsilon, delta))
    if not isinstance(cost, ap.ApportionError) and 0 < cost < math.inf:
        assert ap.epsilon_from_mu(cost, delta) <= epsilon * (1 + 1e-9)


@given(
    values=st.fixed_dictionaries(
        {},
        optional={
            "users": absurd | st.integers(1, 9),
            "items": absurd | st.integers(1, 9),
            "rows": absurd | st.integers(9, 30),
            "rank": absurd,
            "rating_range": absurd,
            "popular_tenth": absurd,
            "active_tenth": absurd,
            "seed": absurd,
        },
    )
)
@examples(120)
def test_simulated_interactions(fuzz: Fuzz, values: dict[str, Any]) -> None:
    small = {"users": 5, "items": 9, "rows": 20, "rank": 2}
    fuzz.case(lambda: ap.simulate_interactions(**{**small, **values}))


@given(
    values=st.fixed_dictionaries(
        {},
        optional=dict.fromkeys(
            ("users", "tasks", "dimension", "tasks_per_user", "skew", "label_noise", "seed"), absurd
        ),
    )
)
@examples(80)
def test_simulated_tasks(fuzz: Fuzz, values: dict[str, Any]) -> None:
    small = {"users": 5, "tasks": 3, "dimension": 2, "tasks_per_user": 1.0}
    fuzz.case(lambda: ap.simulate_tasks(**{**small, **values}))


PARTS = (
    ap.AdaptiveWeights,
    ap.UniformWeights,
    ap.UniformSampling,
    ap.TailSampling,
    ap.OptimalWeights,
    ap.PrivateCounts,
    ap.PublicCounts,
    ap.PrivateCatalog,
    ap.MostFrequent,
)


@given(kind=st.sampled_from(PARTS), first=absurd, second=absurd)
@examples(200)
def test_allocations_and_catalogs(
    fuzz: Fuzz, kind: Any, first: Any, second: Any, interactions: ap.Interactions
) -> None:
    made = [
        fuzz.case(lambda: kind(*given), also=(TypeError,)) for given in ((first,), (first, second))
    ]
    for part in made:
        if isinstance(part, ap.Allocation):
            settings: dict[str, Any] = {"allocation": part}
        elif isinstance(part, (ap.PrivateCatalog, ap.MostFrequent)):
            settings = {"catalog": part}
        else:
            continue
        train(fuzz, ap.MatrixFactorization, settings, interactions)
