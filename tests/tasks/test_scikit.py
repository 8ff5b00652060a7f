"""What scikit-learn does with estimators: tags, fitted or not, cross-validation by user, searches."""

import math
import pickle
import warnings
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_score, cross_validate
from sklearn.utils import get_tags
from sklearn.utils.validation import check_is_fitted

import apportion as ap

DATA = ap.simulate_tasks(users=400, tasks=5, tasks_per_user=3)
SIGNS = DATA.remade(np.arange(len(DATA)), DATA.task, np.where(DATA.labels > 0, 1.0, -1.0))


@pytest.mark.parametrize(
    ("model", "kind"),
    [
        (ap.MultiTaskRidge(), "regressor"),
        (ap.MultiTaskDescent(), "regressor"),
        (ap.MultiTaskDescent(loss="logistic"), "classifier"),
        (ap.MultiTaskClassifier(), "classifier"),
        (ap.MatrixFactorization(), None),
    ],
    ids=str,
)
def test_tags_say_what_an_estimator_is(model: Any, kind: str | None) -> None:
    tags = get_tags(model)
    assert tags.estimator_type == kind
    assert not tags.target_tags.required
    assert tags.non_deterministic
    assert is_classifier(model) == (kind == "classifier")
    assert is_regressor(model) == (kind == "regressor")


def test_fitted_or_not() -> None:
    interactions = ap.simulate_interactions(users=100, items=10, rows=900)
    for model, data in (
        (ap.MultiTaskRidge(), DATA),
        (ap.MultiTaskClassifier(seed=0), DATA),
        (ap.MatrixFactorization(2, 1), interactions),
    ):
        with pytest.raises(NotFittedError):
            check_is_fitted(model)
        check_is_fitted(model.fit(data))
        with pytest.raises(NotFittedError):
            check_is_fitted(clone(model))


def test_cross_validation_by_user_is_a_loop_over_folds() -> None:
    folds = ap.UserKFold(3, seed=4)
    model = ap.MultiTaskRidge(epsilon=math.inf, regularization=0.1)
    found = cross_val_score(model, DATA, cv=folds)
    assert found.tolist() == [
        model.fit(DATA.take(train)).score(DATA.take(test)) for train, test in folds.split(DATA)
    ]
    many = cross_validate(model, DATA, cv=folds, return_estimator=True, return_train_score=True)
    assert many["test_score"].tolist() == found.tolist()
    assert all(each.coef_.shape == (5, 5) for each in many["estimator"])


@pytest.mark.parametrize(
    "model", [ap.MultiTaskDescent(math.inf, loss="logistic", regularization=1.0)]
)
def test_losses_of_signs_are_cross_validated_by_the_share_that_is_right(model: Any) -> None:
    found = cross_val_score(model, SIGNS, cv=ap.UserKFold(2))
    assert ((found > 0.6) & (found <= 1)).all()


def test_searches_set_nested_parameters_and_train_the_best() -> None:
    search = GridSearchCV(
        ap.MultiTaskRidge(epsilon=math.inf),
        {"regularization": [0.1, 1e6], "allocation__exponent": [0.0, 0.5]},
        cv=ap.UserKFold(2),
        error_score="raise",
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)  # there is no privacy that a search could spend
        search.fit(DATA)
    assert search.best_params_["regularization"] == 0.1
    assert search.best_estimator_.predict(DATA).shape == DATA.labels.shape
    assert len(search.cv_results_["params"]) == 4


def test_a_search_over_private_fits_says_what_it_costs() -> None:
    search = GridSearchCV(
        ap.MultiTaskRidge(epsilon=1.0), {"regularization": [0.1, 1.0]}, cv=ap.UserKFold(2)
    )
    with pytest.warns(UserWarning, match="every copy spends its epsilon") as found:
        search.fit(DATA)
    ours = [each for each in found if "copy" in str(each.message)]
    assert len(ours) == 1  # of five trainings


def test_copies_in_other_processes_know_that_they_are_copies() -> None:
    model = ap.MatrixFactorization(2, 1)
    first, second = (pickle.loads(pickle.dumps(clone(model))) for _ in range(2))
    data = ap.simulate_interactions(users=100, items=10, rows=900)
    first.fit(data)
    with pytest.warns(UserWarning, match="second copy of one private estimator"):
        second.fit(data)
    clone(model).set_params(epsilon=math.inf).fit(data)
    clone(model).set_params(noise_seed=1).fit(data)
    original = ap.MultiTaskClassifier(steps=2)
    classifier = [clone(original), clone(original)][1]
    with pytest.warns(UserWarning, match="second copy"):
        classifier.fit(DATA)


def test_copies_share_engines_and_nothing_else() -> None:
    engine = ap.ReferenceEngine()
    model = ap.MultiTaskDescent(engine=engine, allocation=ap.AdaptiveWeights(0.3))
    copy = clone(model)
    assert copy.engine is engine
    assert copy.allocation is not model.allocation
    assert copy.allocation == model.allocation


def test_folds_keep_users_together_and_do_not_depend_on_others() -> None:
    folds = ap.UserKFold(4)
    tests = [test for _, test in folds.split(DATA)]
    assert sorted(np.concatenate(tests).tolist()) == list(range(len(DATA)))
    users = [set(DATA.user[test].tolist()) for test in tests]
    assert sum(map(len, users)) == len(set(DATA.user.tolist()))
    assert all(len(some) > 60 for some in users)  # of 400; four standard deviations below the mean
    for train, test in folds.split(DATA):
        assert not set(DATA.user[train].tolist()) & set(DATA.user[test].tolist())
    ids = np.array(["ann", "bob", "eve"] * 5 + [f"user {n}" for n in range(40)])
    fold_of = {
        name: number for number, (_, test) in enumerate(folds.split(None, groups=ids))
        for name in ids[test]
    }  # fmt: skip
    fewer = ids[5:]
    for number, (_, test) in enumerate(folds.split(None, groups=fewer)):
        assert all(fold_of[name] == number for name in fewer[test])
    assert folds.get_n_splits() == 4


def test_folds_that_cannot_be_made() -> None:
    with pytest.raises(ap.ParameterError, match="n_splits"):
        ap.UserKFold(1)
    with pytest.raises(ap.ParameterError, match="groups"):
        list(ap.UserKFold(2).split(np.zeros((4, 2))))
    with pytest.raises(ap.DataError, match="too few users"):
        list(ap.UserKFold(2).split(None, groups=[1, 1, 1]))


def test_examples_are_chosen_as_arrays_are() -> None:
    assert DATA.shape == (len(DATA.labels), 5)
    some = DATA[np.array([3, 1])]
    assert some.labels.tolist() == DATA.labels[[3, 1]].tolist()
    assert some.task_ids is DATA.task_ids
    assert DATA[:7].labels.tolist() == DATA[[0, 1, 2, 3, 4, 5, 6], ...].labels.tolist()
    assert len(DATA[DATA.labels > 0]) == (DATA.labels > 0).sum()
    with pytest.raises(ap.DataError, match="list of row numbers"):
        DATA[3]
