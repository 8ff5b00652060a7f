"""The privacy report, as text, rich and JSON."""

import io
import json
import math
from collections.abc import Callable
from pathlib import Path

import pytest
from rich.console import Console

import apportion as ap
from apportion.accounts import PrivacyReport
from apportion.accounts.attacker import success_rate, success_rate_from_epsilon
from apportion.accounts.report import NOT_COUNTED
from apportion.privacy import Ledger, PrivacyTarget, Record, mu_from_epsilon


def report(epsilon: float = 1.0, noise: float = 5.0, secret: bool = True) -> PrivacyReport:
    ledger = Ledger(PrivacyTarget(epsilon, 1e-5))
    ledger.append(Record("counts", "users per task", (7, 1), 1.0, "one task per user", noise))
    return PrivacyReport(ledger, secret, {"catalog": "7 tasks"}, ("mind the gap",))


def rendered(value: PrivacyReport) -> str:
    console = Console(width=120, record=True, file=io.StringIO())
    console.print(value)
    return console.export_text()


@pytest.mark.parametrize("show", [str, rendered])
def test_people_see_everything_that_matters(show: Callable[[PrivacyReport], str]) -> None:
    text = show(report())
    for piece in (
        f"epsilon = {report().epsilon:.4g} at delta = 1e-05",
        "one user, with all of its rows",
        "add or remove one user",
        "counts",
        "users per task",
        "7 x 1",
        "catalog",
        "7 tasks",
        "mind the gap",
    ):
        assert piece in text


@pytest.mark.parametrize("show", [str, rendered])
@pytest.mark.parametrize("bad", [report(math.inf), report(secret=False)])
def test_not_private_is_in_capitals_and_no_epsilon_is_claimed(
    show: Callable[[PrivacyReport], str], bad: PrivacyReport
) -> None:
    assert "NOT PRIVATE" in show(bad)
    assert "epsilon =" not in show(bad)
    assert bad.epsilon == bad.mu == math.inf
    assert not bad.private


@pytest.mark.parametrize("original", [report(), report(math.inf), report(secret=False)])
def test_json_round_trip(original: PrivacyReport) -> None:
    again = PrivacyReport.from_json(original.to_json())
    assert str(again) == str(original)
    assert again.to_json() == original.to_json()


def test_a_forged_epsilon_is_not_believed() -> None:
    values = json.loads(report().to_json())
    values["epsilon"] = 0.001
    assert PrivacyReport.from_json(json.dumps(values)).epsilon == report().epsilon


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"format": 99}', "null"])
def test_damaged_json(text: str) -> None:
    with pytest.raises(ap.DataError):
        PrivacyReport.from_json(text)


def test_renyi_stands_beside_the_exact_accounting() -> None:
    data = ap.simulate_tasks(users=200, tasks=5, tasks_per_user=2)
    report = ap.MultiTaskRidge(epsilon=1.0).fit(data).privacy
    assert report.beta == pytest.approx(report.mu**2 / 2)
    converted = ap.theory.epsilon_from_rdp(report.beta, report.delta)
    [line] = report.renyi
    assert line.startswith(f"(alpha, alpha * {report.beta:.4g})-RDP")
    assert f"epsilon = {converted:.4g}" in line
    assert line in str(report)
    exact = ap.MultiTaskRidge(epsilon=math.inf).fit(data).privacy
    sampled = ap.MultiTaskDescent(steps=ap.Steps(3, sampling_rate=0.5)).fit(data).privacy
    for other in (exact, sampled):
        assert other.beta == math.inf
        assert other.renyi == ()


def test_a_training_that_no_budget_counts_says_so(tmp_path: Path) -> None:
    data = ap.simulate_tasks(users=200, tasks=5, tasks_per_user=2)
    alone = ap.MultiTaskRidge(epsilon=1.0).fit(data).privacy
    assert NOT_COUNTED in alone.cautions
    assert NOT_COUNTED in str(alone)
    budget = ap.Budget.create(tmp_path / "budget.db", ap.PrivacyTarget(2.0, 1e-5))
    counted = ap.MultiTaskRidge(epsilon=1.0).fit(data, budget=budget).privacy
    for one in (counted, PrivacyReport.from_json(counted.to_json())):
        assert one.budget
        assert NOT_COUNTED not in str(one)


def test_a_large_epsilon_says_what_an_attacker_can_do() -> None:
    assert report(10.0, 0.6).epsilon < 10
    assert not any("attacker" in each or "right in" in each for each in report(10.0, 0.6).cautions)
    large = report(20.0, 1 / mu_from_epsilon(15.0, 1e-5))
    assert large.attack == pytest.approx(success_rate(large.mu))
    [line] = [each for each in large.cautions if "epsilon is large" in each]
    assert f"{100 * large.attack:.4g} %" in line
    assert line in str(large)
    assert line.split(",")[0] in rendered(large)


def test_the_attacker_of_sampled_steps_follows_from_epsilon() -> None:
    data = ap.simulate_tasks(users=200, tasks=5, tasks_per_user=2)
    steps = ap.Steps(5, sampling_rate=0.1)
    sampled = ap.MultiTaskDescent(epsilon=2.0, steps=steps).fit(data).privacy
    assert sampled.attack == success_rate_from_epsilon(sampled.epsilon, sampled.delta)
    assert sampled.attack < 0.89


def test_without_privacy_the_attacker_always_wins_and_nothing_is_advised() -> None:
    assert report(math.inf).attack == 1.0
    assert report(math.inf).cautions == report(secret=False).cautions == ()
