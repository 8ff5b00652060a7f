"""Parameters by name, also those of groups: what ``clone`` and searches of scikit-learn rely on."""

from typing import Any

import pytest
from sklearn.base import clone
from sklearn.model_selection import ParameterGrid

import apportion as ap

ESTIMATORS = [
    ap.MultiTaskRidge(allocation=ap.TailSampling(5)),
    ap.MultiTaskDescent(),
    ap.MultiTaskClassifier(),
    ap.MatrixFactorization(),
    ap.MatrixFactorization(solver="descent", regularization=0.3, feedback="implicit"),
]


@pytest.mark.parametrize("model", ESTIMATORS, ids=lambda model: type(model).__name__)
def test_groups_are_opened_and_every_parameter_can_be_set_to_itself(model: Any) -> None:
    flat, deep = model.get_params(deep=False), model.get_params()
    assert flat.items() <= deep.items()
    assert "allocation__counts" in deep
    assert not any("__" in name for name in flat)
    assert clone(model).get_params() == deep
    for name, value in deep.items():
        after = clone(model).set_params(**{name: value}).get_params()
        group, _, inside = name.partition("__")
        if inside:  # what was given in short, or by default, is now the group that it stands for
            assert after.pop(group) is not None
        assert {**after, group: deep[group]} == deep, name


@pytest.mark.parametrize("model", ESTIMATORS, ids=lambda model: type(model).__name__)
def test_setting_one_of_a_group_leaves_the_rest_and_other_models_alone(model: Any) -> None:
    before = model.get_params()
    name = "k" if isinstance(before["allocation"], ap.TailSampling) else "exponent"
    changed = clone(model).set_params(**{f"allocation__{name}": 1})
    after = changed.get_params()
    assert after[f"allocation__{name}"] == 1 != before[f"allocation__{name}"]
    differ = {each for each in before if before[each] != after[each]}
    assert differ == {"allocation", f"allocation__{name}"}
    assert model.get_params() == before


@pytest.mark.parametrize(("feedback", "exponent"), [("explicit", 0.25), ("implicit", 0.1)])
def test_an_allocation_by_default_is_the_one_that_is_used(feedback: Any, exponent: float) -> None:
    model = ap.MatrixFactorization(feedback=feedback)
    assert model.get_params(deep=False)["allocation"] is None
    assert model.get_params()["allocation__exponent"] == exponent
    model.set_params(allocation__counts=ap.PublicCounts())
    assert model.allocation == ap.AdaptiveWeights(exponent, counts=ap.PublicCounts())
    model.set_params(allocation__exponent=0.4)
    assert model.allocation == ap.AdaptiveWeights(0.4, counts=ap.PublicCounts())
    assert ap.MatrixFactorization(feedback=feedback).set_params(
        allocation__exponent=0.4
    ).allocation == ap.AdaptiveWeights(0.4)


def test_groups_of_the_recommender() -> None:
    model = ap.MatrixFactorization()
    model.set_params(
        bounds__feature=0.5, solver__gram_share=0.3, regularization__unobserved_weight=0.2,
        offsets__center="global", shares__gramian=0.07,
    )  # fmt: skip
    assert model.bounds == ap.Bounds(feature=0.5)
    assert model.solver == ap.SufficientStatistics(gram_share=0.3)
    assert model.regularization == ap.Regularization(unobserved_weight=0.2)
    assert model.offsets == ap.Offsets(center="global")
    assert model.get_params()["shares__gramian"] == 0.07
    model.set_params(solver="descent")
    assert "solver__gram_share" not in model.get_params()
    assert model.set_params(solver__steps=7).solver == ap.GradientDescent(steps=7)


def test_a_group_and_one_of_its_parameters_at_once_in_any_order() -> None:
    for names in (["allocation", "allocation__k"], ["allocation__k", "allocation"]):
        values: dict[str, Any] = {"allocation": ap.UniformSampling(3), "allocation__k": 8}
        model = ap.MultiTaskRidge().set_params(**{name: values[name] for name in names})
        assert model.allocation == ap.UniformSampling(8)


@pytest.mark.parametrize("names", [("mode", "users"), ("users", "mode")])
def test_two_parameters_of_a_group_that_are_only_allowed_together(names: tuple[str, ...]) -> None:
    values = {"mode": "clip", "users": 100}
    model = ap.MultiTaskRidge().set_params(
        **{f"allocation__{name}": values[name] for name in names}
    )
    params = model.get_params()
    assert (params["allocation__mode"], params["allocation__users"]) == ("clip", 100)


def test_a_grid_of_nested_parameters() -> None:
    data = ap.simulate_tasks(users=100, tasks=4, tasks_per_user=2)
    grid = ParameterGrid({"allocation__exponent": [0.1, 0.5], "epsilon": [1.0, 2.0]})
    for parameters in grid:
        model = clone(ap.MultiTaskRidge()).set_params(**parameters).fit(data)
        assert model.allocation.exponent == parameters["allocation__exponent"]
        assert model.privacy.epsilon <= parameters["epsilon"]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("lambda", "has no parameter 'lambda'; it has"),
        ("other__k", "has no parameter 'other'; it has"),
        ("allocation__k", "allocation has no parameter 'k'; it has exponent"),
        ("epsilon__x", "epsilon has no parameter 'x'"),
    ],
)
def test_names_that_nothing_has(name: str, message: str) -> None:
    for model in (ap.MultiTaskRidge(), ap.MatrixFactorization()):
        with pytest.raises(ap.ParameterError, match=message):
            model.set_params(**{name: 1})


def test_a_wrong_value_is_refused_by_its_group() -> None:
    with pytest.raises(ap.ParameterError, match="exponent"):
        ap.MatrixFactorization().set_params(allocation__exponent=7.0)
    with pytest.raises(ap.ParameterError, match=r"bounds\.feature"):
        ap.MatrixFactorization().set_params(bounds__feature=-1.0)
