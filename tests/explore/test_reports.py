"""Reports as pages: a model's guarantee, a plan, an evaluation, in one look, with nothing from elsewhere."""

import json
import math
import re
from pathlib import Path
from typing import Any

import pytest

import apportion as ap
from apportion.accounts import PrivacyReport
from apportion.accounts.attacker import percent, success_rate
from apportion.accounts.explained import report_sections
from apportion.data import simulate_interactions
from apportion.explore import quality as panels
from apportion.explore.reports import plan_page, report_page
from apportion.pages import as_panels
from apportion.privacy import PrivacyTarget
from apportion.privacy.ledger import Ledger, Record
from apportion.recommend.outlook import outlook
from tests.cli.test_recommend import interactions, run
from tests.explore.models import HOSTILE, film_model
from tests.pages.test_pages import read


def report_of(mu: float, epsilon: float = 60.0, **more: object) -> PrivacyReport:
    ledger = Ledger(PrivacyTarget(epsilon, 1e-5))
    ledger.append(Record("counts", "users per item", (9,), 1.0, "one each", 1 / mu))
    return PrivacyReport(ledger, **more)


@pytest.mark.parametrize(
    "model",
    [
        ap.MatrixFactorization(epsilon=math.inf),
        ap.MatrixFactorization(4, 2, "implicit", epsilon=math.inf),
        ap.MultiTaskDescent(epsilon=2.0, steps=ap.Steps(10, sampling_rate=0.5)),
        ap.MultiTaskDescent(epsilon=math.inf, steps=5),
    ],
)
def test_a_plan_without_noise_and_one_whose_noise_follows_from_sampling(model: Any) -> None:
    plan = model.plan() if isinstance(model, ap.MatrixFactorization) else model.plan(features=3)
    text = read(plan_page(plan)).text
    assert ("NOT PRIVATE" in text) == math.isinf(model.epsilon)
    assert ("as sampling asks" in text) == math.isfinite(model.epsilon)


@pytest.mark.parametrize("mu", [0.01, 0.2681, 1.0, 5.0])
def test_the_promise_is_what_the_best_attacker_can_do(mu: float) -> None:
    report = report_of(mu)
    text = read(report_page(report, "films")).text
    assert f"be right in at most {percent(success_rate(mu))} of cases" in text
    assert "Guessing is right in 50 %." in text
    assert report.verdict in text
    for epsilon, right in ((1, "55.3 %"), (3, "64.0 %"), (10, "84.1 %")):
        assert f"{epsilon}{right}" in text
    # A point on the curve is where it belongs.
    [place] = re.findall(
        r'<circle cx="([\d.]+)" cy="([\d.]+)" r="6"', as_panels(report_sections(report))
    )[:1]
    high = 300 - 18 - 46
    expected = 18 + high * (1 - (success_rate(mu) - 0.5) / 0.5)
    assert float(place[1]) == pytest.approx(expected, abs=0.06)


def test_what_is_not_private_says_so_and_has_no_curve() -> None:
    report = report_of(0.5, secret_noise=False)
    text = read(report_page(report, "films")).text
    assert "protects nobody" in text
    assert "NOT PRIVATE" in text
    assert "What an attacker can tell" not in text


def test_prices_add_up() -> None:
    model = ap.MatrixFactorization(epsilon=3, factors=4, sweeps=2)
    model.fit(simulate_interactions(users=400, items=20, rows=4000))
    panel = as_panels(report_sections(model.privacy))
    ledger = panel[panel.index("What was released") :]
    shares = [float(text) for text in re.findall(r": ([\d.]+) %</title></rect>", ledger)]
    assert len(shares) == len(list(model.privacy.ledger))
    assert sum(shares) == pytest.approx(100, abs=1)


def test_whatever_a_report_says_stays_text() -> None:
    report = report_of(0.5, public_inputs={HOSTILE[0]: HOSTILE[1]}, warnings=(HOSTILE[2],))
    found = read(report_page(report, HOSTILE[3]))
    assert "script" not in found.tags
    assert "img" not in found.tags
    assert HOSTILE[1] in found.text


def test_a_report_of_the_command_line(tmp_path: Path) -> None:
    film_model().save(tmp_path / "films")
    page = tmp_path / "privacy.html"
    output = run("report", tmp_path / "films", "--html", page)
    assert "wrote" in output
    assert "Privacy report: films" in page.read_text()
    run("report", tmp_path / "films", "--html", page, "--verify", code=2)


def test_a_plan_as_a_page(tmp_path: Path) -> None:
    page = tmp_path / "plan.html"
    rated = ["--rating-range", 1, 5, "--epsilon", 2]
    run("plan", *rated, "--html", page)
    text = read(page.read_text()).text
    assert "Plan for epsilon = 2 at delta = 1e-05" in text
    assert "training" in text
    sizes = ["--users", 600, "--items", 40, "--rows", 9000]
    values = json.loads(run("plan", *rated, *sizes, "--html", page, "--json"))
    text = read(page.read_text()).text
    assert f"epsilon = 2: {values['forecasts'][0]['error']:.3f}" in text
    assert "knowing nothing" in text


def test_an_evaluation_as_a_page(tmp_path: Path) -> None:
    frame = interactions()
    frame[:8000].write_csv(tmp_path / "train.csv")
    frame[8000:].write_csv(tmp_path / "test.csv")
    data = ap.Interactions.from_path(
        tmp_path / "train.csv", rating="rating", rating_range=(1, 5), items="public"
    )
    ap.MatrixFactorization(epsilon=20, factors=4, sweeps=2).fit(data).save(tmp_path / "model")
    page = tmp_path / "evaluation.html"
    arguments = [tmp_path / "model", tmp_path / "train.csv", "--test", tmp_path / "test.csv"]
    values = json.loads(run("evaluate", *arguments, "--html", page, "--json"))
    text = read(page.read_text()).text
    assert f"{values['rmse']:.4f}" in text
    assert values["verdict"] in text
    assert "does not cover these figures" in text


# What to expect at other epsilons.


@pytest.mark.parametrize("feedback", ["explicit", "implicit"])
def test_an_outlook_gets_better_with_epsilon(feedback: str) -> None:
    rated = feedback == "explicit"
    data = simulate_interactions(
        users=3000, items=60, rows=50_000, rating_range=(1, 5) if rated else None
    )
    model = ap.MatrixFactorization(epsilon=2, feedback=feedback, noise_seed=0)
    known = model.prepare(data)
    found = outlook(model, known, (0.5, 8.0))
    assert found.epsilons == (0.5, 2.0, 8.0)
    errors = [one.error for one in found.forecasts]
    assert found.nothing.error >= errors[0] > errors[1] > errors[2] >= found.everything.error
    # At its own epsilon it is the forecast that fit would follow.
    assert found.forecasts[1] == model.forecasts(known)[0]


def test_a_preparation_gives_the_panel_of_the_explorer(tmp_path: Path) -> None:
    data = simulate_interactions(users=3000, items=60, rows=50_000)
    known = ap.MatrixFactorization(epsilon=2, noise_seed=0).prepare(data)
    file = tmp_path / "first.json"
    file.write_text(known.to_json())
    found = panels.read_quality([file], (1.0, 5.0))
    panel = panels.chosen_panel(found, at=2.0)
    charts = re.findall(r'<div data-epsilon="([\d.]+)"( hidden)?>', panel)
    assert [e for e, hidden in charts if not hidden] == ["2"]
    assert len(charts) == len(found.private) == 9
    read(panel)
    with pytest.raises(ap.DataError, match="explicit"):
        panels.read_quality([file], None)


def test_a_study_gives_the_panel(tmp_path: Path) -> None:
    rows = ["data,protocol,method,epsilon,seed,metric,validation,test,bucket_0,bucket_1"]
    for seed, shift in ((0, 0.0), (1, 0.02)):
        rows += [
            f"ml,rating,A,{epsilon},{seed},RMSE,0,{value + shift},1.1,{value}"
            for epsilon, value in ((1, 1.0), (5, 0.9))
        ]
        rows += [
            f"ml,rating,B,1,{seed},RMSE,0,1.5,1,1",
            f"ml,rating,ALS,inf,{seed},RMSE,0,0.8,0.9,0.7",
        ]
    file = tmp_path / "study.csv"
    file.write_text("\n".join(rows))
    found = panels.read_quality([file], (1.0, 5.0))
    assert list(found.private) == [1.0, 5.0]  # of the best method
    assert found.private[5.0].overall == pytest.approx(0.91)
    assert found.others["ALS, not private"].by_popularity == (0.9, 0.7)
    assert "Measured on ml" in found.source


def test_plans_give_the_panel(tmp_path: Path) -> None:
    paths = []
    for epsilon in (1, 4):
        arguments = ["--rating-range", 1, 5, "--users", 600, "--items", 40, "--rows", 9000]
        paths.append(tmp_path / f"{epsilon}.json")
        paths[-1].write_text(run("plan", *arguments, "--epsilon", epsilon, "--json"))
    found = panels.read_quality(paths, (1.0, 5.0))
    assert list(found.private) == [1.0, 4.0]
    assert found.private[4.0].overall < found.private[1.0].overall


@pytest.mark.parametrize(
    "text", ["{}", "[]", "{", "\x00", '{"sums": 3}', '{"plan": {"epsilon": 1}}']
)
def test_what_is_no_such_file_is_refused(text: str, tmp_path: Path) -> None:
    for name in ("file.json", "file.csv"):
        (tmp_path / name).write_text(text)
        with pytest.raises(ap.DataError):
            panels.read_quality([tmp_path / name], (1.0, 5.0))
    with pytest.raises(ap.DataError, match="cannot be read"):
        panels.read_quality([tmp_path / "none.json"], None)
