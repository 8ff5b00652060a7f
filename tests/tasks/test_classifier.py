"""Many-class classification."""

import math
from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

import apportion as ap

RNG = np.random.default_rng(0)
CLASSES = 8
CENTERS = RNG.normal(size=(CLASSES, 4))
CENTERS /= np.linalg.norm(CENTERS, axis=1, keepdims=True)


def rows(users: int, per_user: int = 3, seed: int = 0, skew: float = 1.0) -> ap.TaskData:
    rng = np.random.default_rng(seed)
    share = np.arange(1, CLASSES + 1.0) ** -skew
    kind = rng.choice(CLASSES, users * per_user, p=share / share.sum())
    features = CENTERS[kind] + 0.4 * rng.normal(size=(len(kind), 4))
    return ap.TaskData(np.repeat(np.arange(users), per_user), kind, features, tasks=CLASSES)


TRAIN, TEST = rows(3000), rows(1000, seed=1)


def test_without_privacy_it_is_one_against_rest_logistic_regression() -> None:
    data = rows(600, per_user=1)
    model = ap.MultiTaskClassifier(
        epsilon=math.inf, negatives=None, intercept=False, regularization=1.0
    ).fit(data)
    for task in range(CLASSES):
        reference = LogisticRegression(C=1.0, fit_intercept=False, tol=1e-10, max_iter=1000)
        reference.fit(data.features, np.where(data.task == task, 1, -1))
        np.testing.assert_allclose(model.coef_[task], reference.coef_[0], atol=1e-4)
    np.testing.assert_array_equal(model.intercept_, 0.0)


def test_private_models_classify() -> None:
    majority = np.mean(TEST.task == 0)
    private = ap.MultiTaskClassifier(epsilon=2.0, feature_bound=1.5).fit(TRAIN)
    exact = ap.MultiTaskClassifier(epsilon=math.inf, feature_bound=1.5).fit(TRAIN)
    assert majority + 0.15 < private.score(TEST) <= exact.score(TEST) + 0.03
    assert private.privacy.private
    assert private.privacy.epsilon == pytest.approx(2.0)


def test_probabilities_are_calibrated_whatever_the_number_of_negatives() -> None:
    for negatives in (2, None):
        model = ap.MultiTaskClassifier(epsilon=math.inf, negatives=negatives).fit(
            rows(4000, per_user=1)
        )
        probability = model.predict_proba(TEST.features)
        np.testing.assert_allclose(probability.sum(axis=1), 1.0)
        observed = np.bincount(TEST.task, minlength=CLASSES) / len(TEST.task)
        np.testing.assert_allclose(probability.mean(axis=0), observed, atol=0.04)


def test_a_user_touches_few_classes() -> None:
    model = ap.MultiTaskClassifier(negatives=2)
    examples = model._against_rest(TRAIN, 2)
    assert len(examples.task) == 3 * len(TRAIN.task)
    assert (examples.labels == 1).sum() == len(TRAIN.task)
    own = examples.task[: len(TRAIN.task)]
    others = examples.task[len(TRAIN.task) :].reshape(-1, 2)
    assert (own[:, None] != others).all()
    assert (others[:, 0] != others[:, 1]).all()
    everything = model._against_rest(TRAIN, CLASSES - 1)
    assert len(np.unique(everything.graph.task[everything.graph.user == 0])) == CLASSES


def test_a_user_s_negatives_do_not_depend_on_others() -> None:
    model = ap.MultiTaskClassifier(negatives=2, seed=0)
    kept = TRAIN.user != 7
    fewer = ap.TaskData(TRAIN.user[kept], TRAIN.task[kept], TRAIN.features[kept], tasks=CLASSES)
    whole, less = model._against_rest(TRAIN, 2), model._against_rest(fewer, 2)
    np.testing.assert_array_equal(whole.task[whole.user != 7], less.task)


def test_named_classes() -> None:
    names = np.array(["red", "green", "blue"])
    kind = RNG.integers(0, 3, 900)
    data = ap.TaskData(np.arange(900), names[kind], np.eye(3)[kind], tasks=["blue", "green", "red"])
    model = ap.MultiTaskClassifier(epsilon=5.0).fit(data)
    np.testing.assert_array_equal(model.predict(np.eye(3)), names)


@pytest.mark.parametrize(
    "settings", [{"negatives": 0}, {"feature_bound": 0.0}, {"seed": -1}, {"epsilon": 0.0}]
)
def test_bad_parameters(settings: dict[str, Any]) -> None:
    with pytest.raises(ap.ParameterError):
        ap.MultiTaskClassifier(**settings).fit(TRAIN)


def test_bad_data() -> None:
    with pytest.raises(ap.DataError, match="TaskData"):
        ap.MultiTaskClassifier().fit([1])
    with pytest.raises(ap.DataError, match="two classes"):
        ap.MultiTaskClassifier().fit(ap.TaskData([0], [0], [[1.0]], tasks=1))
    with pytest.raises(ap.DataError, match="list of tasks must be public"):
        ap.MultiTaskClassifier().fit(ap.TaskData([0, 1], [0, 1], [[1.0], [2.0]]))
    with pytest.raises(ap.NotFittedError):
        ap.MultiTaskClassifier().predict([[1.0]])
    with pytest.raises(ap.NotFittedError):
        _ = ap.MultiTaskClassifier().privacy
    with pytest.raises(ap.DataError, match="4 columns"):
        ap.MultiTaskClassifier().fit(TRAIN).predict([[1.0]])


@pytest.mark.parametrize("clip", ["user", "row"])
def test_the_order_of_rows_does_not_matter(clip: Any) -> None:
    """Negatives follow the rows' content: a permuted file gives the same model, to the bit."""
    order = np.random.default_rng(5).permutation(len(TRAIN.task))
    permuted = ap.TaskData(
        TRAIN.user[order], TRAIN.task[order], TRAIN.features[order], tasks=CLASSES
    )
    settings: dict[str, Any] = {"seed": 1, "noise_seed": 2, "steps": ap.Steps(3, clip=clip)}
    models = [ap.MultiTaskClassifier(**settings).fit(data) for data in (TRAIN, permuted)]
    np.testing.assert_array_equal(models[0].coef_, models[1].coef_)
