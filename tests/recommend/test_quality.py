"""Quality first: the least epsilon whose forecast reaches an error."""

import pytest

import apportion as ap
from apportion.errors import ParameterError
from tests.cli.test_recommend import run

RATINGS = ap.simulate_interactions(users=2000, items=100, rows=60_000)
EVENTS = ap.simulate_interactions(users=2000, items=100, rows=60_000, rating_range=None)
SIZES = ("--users", 2000, "--items", 100, "--rows", 60_000)


@pytest.mark.parametrize("feedback", ["explicit", "implicit"])
def test_a_little_less_is_expected_not_to_reach_it(feedback: str) -> None:
    data = RATINGS if feedback == "explicit" else EVENTS
    model = ap.MatrixFactorization(epsilon=1.0, feedback=feedback)
    preparation = model.prepare(data)
    here = model.forecasts(preparation)[0].error
    epsilon, found = model.least_epsilon(preparation, here)
    assert epsilon == pytest.approx(1.0, rel=0.02)  # that of the forecast is found again
    assert found.error <= here
    better, best = model.least_epsilon(preparation, 0.95 * here)
    assert better > epsilon
    assert best.error <= 0.95 * here
    worse, _ = model.least_epsilon(preparation, 0.99 * (here + 0.02))
    assert worse < better


def test_what_no_epsilon_reaches_is_said() -> None:
    model = ap.MatrixFactorization(epsilon=1.0)
    preparation = model.prepare(RATINGS)
    with pytest.raises(ParameterError, match=r"no epsilon up to 65.* is expected to reach this"):
        model.least_epsilon(preparation, 0.01)
    with pytest.raises(ParameterError, match="error must be"):
        model.least_epsilon(preparation, 0.0)
    for ask in (model.forecasts, lambda data: model.least_epsilon(data, 0.5)):
        with pytest.raises(ParameterError, match=r"what prepare.data. has released"):
            ask(RATINGS)
    with pytest.raises(ParameterError, match="made with another epsilon"):
        ap.MatrixFactorization(epsilon=2.0).least_epsilon(preparation, 0.5)


def test_more_users_need_less_epsilon() -> None:
    said = []
    for times in (1, 4):
        sizes = ("--users", 2000 * times, "--items", 100, "--rows", 60_000 * times)
        text = run("plan", "--rating-range", 1, 5, *sizes, "--target-rmse", 0.93)
        said.append(float(text.split("reach 0.93: ")[1].split()[0]))
    assert said[1] < 0.5 * said[0]


def test_the_command_says_what_is_missing() -> None:
    for words, message in (
        (("--rating-range", 1, 5, "--target-rmse", 0.9), "takes public facts"),
        (("--rating-range", 1, 5, *SIZES, "--target-lost", 0.3), "give --target-rmse"),
        (("--implicit", *SIZES, "--target-rmse", 0.9), "give --target-lost"),
        (("--implicit", *SIZES, "--target-lost", 1.5), "must be above 0 and below 1"),
        (("--implicit", *SIZES, "--target-lost", 0.3, "--epsilon", 1), "is what is looked for"),
    ):
        said = run("plan", *words, code=2)
        assert message in " ".join(said.replace("│", " ").split())
    assert "the least epsilon" in run("plan", "--implicit", *SIZES, "--target-lost", 0.85)
