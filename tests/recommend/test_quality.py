"""Quality first: the least epsilon whose forecast reaches an error."""

import json
import math

import pytest

import apportion as ap
from apportion.errors import ParameterError
from apportion.metrics import RankingMetrics, RatingMetrics
from tests.cli.test_recommend import run

RATINGS = ap.simulate_interactions(users=2000, items=100, rows=60_000)
EVENTS = ap.simulate_interactions(users=2000, items=100, rows=60_000, rating_range=None)
SIZES = ("--users", 2000, "--items", 100, "--rows", 60_000)


@pytest.mark.parametrize("feedback", ["explicit", "implicit"])
def test_a_little_less_is_expected_not_to_reach_it(feedback: str) -> None:
    data = RATINGS if feedback == "explicit" else EVENTS
    model = ap.MatrixFactorization(epsilon=3.0, feedback=feedback)
    preparation = model.prepare(data)
    here = model.forecasts(preparation)[0].error
    epsilon, found = model.least_epsilon(preparation, here)
    assert epsilon == pytest.approx(3.0, rel=0.02)  # that of the forecast is found again
    assert found.error <= here
    better, best = model.least_epsilon(preparation, 0.993 * here)
    assert better > epsilon
    assert best.error <= 0.993 * here
    worse, _ = model.least_epsilon(preparation, 0.999 * (here + 0.005))
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
        (("--implicit", *SIZES, "--target-rmse", 0.9), "give --target-recall or --target-lost"),
        (("--implicit", *SIZES, "--target-recall", 0.3), "needs --recall-range"),
        (("--implicit", *SIZES, "--recall-range", 0.1, 0.3), "goes with --target-recall"),
        (
            ("--implicit", *SIZES, "--target-recall", 0.3, "--target-lost", 0.3),
            "does not go with --target-lost",
        ),
        (("--implicit", *SIZES, "--target-lost", 1.5), "must be above 0 and below 1"),
        (("--implicit", *SIZES, "--target-lost", 0.3, "--epsilon", 1), "is what is looked for"),
    ):
        said = run("plan", *words, code=2)
        assert message in " ".join(said.replace("│", " ").split())
    assert "the least epsilon" in run("plan", "--implicit", *SIZES, "--target-lost", 0.85)


LONG = ("--users", 4000, "--items", 2000, "--rows", 150_000)
RECALL = ("--implicit", *LONG, "--recall-range", 0.2, 0.4)


def test_a_recall_is_a_share_of_what_can_be_gained() -> None:
    found = [
        json.loads(run("plan", *RECALL, "--target-recall", recall, "--json"))
        for recall in (0.24, 0.28)
    ]
    assert [each["recall"] for each in found] == pytest.approx([0.24, 0.28], abs=2e-3)
    assert found[0]["least_epsilon"] < found[1]["least_epsilon"]


def test_a_recall_that_needs_nothing_or_is_out_of_reach() -> None:
    for wanted, message in (
        (0.15, "what is popular has a recall of 0.2 already"),
        (0.45, "a model without privacy has a recall of 0.4"),
        (
            0.399,
            r"no epsilon up to 65.3 is expected to reach this: the recall to expect there is 0",
        ),
    ):
        with pytest.raises(ParameterError, match=message):
            run("plan", *RECALL, "--target-recall", wanted)
    with pytest.raises(ParameterError, match="must find more"):
        run("plan", "--implicit", "--target-recall", 0.3, "--recall-range", 0.4, 0.2)


@pytest.mark.slow
def test_training_at_the_answer_reaches_the_recall() -> None:
    shape = {"users": 4000, "items": 2000, "rows": 150_000, "rating_range": None}

    def recall(epsilon: float) -> tuple[float, float]:
        """Of a model, and of what is popular: by users who were not simulated for the answer."""
        train, held = ap.simulate_interactions(**shape, seed=1).hold_out_users(400)
        model = ap.MatrixFactorization(feedback="implicit", epsilon=epsilon).fit(train)
        counts = train.graph.task_sizes()
        found = ap.evaluate(model, held.history, held.labels, counts=counts)
        [popular] = found.baselines.values()
        assert isinstance(found.metrics, RankingMetrics)
        assert isinstance(popular, RankingMetrics)
        return found.metrics.recall, popular.recall

    best, popular = recall(math.inf)
    wanted = popular + 0.45 * (best - popular)
    between = ("--recall-range", round(popular, 4), round(best, 4))
    said = run("plan", "--implicit", *LONG, "--target-recall", wanted, *between, "--json")
    epsilon = json.loads(said)["least_epsilon"]
    assert recall(epsilon)[0] > wanted - 0.1 * (best - popular)
    assert recall(epsilon / 8)[0] < wanted


@pytest.mark.slow
def test_training_at_the_answer_reaches_the_error() -> None:
    shape = {"users": 20_000, "items": 500, "rows": 800_000}
    train, test = ap.simulate_interactions(**shape, seed=1).split((0.9, 0.1))

    def error(epsilon: float) -> float:
        model = ap.MatrixFactorization(epsilon=epsilon).fit(train)
        found = ap.evaluate(model, train, test).metrics
        assert isinstance(found, RatingMetrics)
        return found.rmse

    sizes = ("--users", 20_000, "--items", 500, "--rows", 800_000)
    said = run("plan", "--rating-range", 1, 5, *sizes, "--target-rmse", 0.9, "--json")
    epsilon = json.loads(said)["least_epsilon"]
    assert abs(error(epsilon) - 0.9) < 0.1
    assert error(epsilon) < error(epsilon / 8)
