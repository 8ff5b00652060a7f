"""What notebooks show: short, escaped, and of data only what is public."""

import math
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import apportion as ap
from apportion.explore import evaluation_page, plan_page, report_page
from tests.pages.test_pages import HOSTILE, read

USERS, ROWS = 321, 4567
RATINGS = ap.simulate_interactions(users=USERS, items=30, rows=ROWS)
TASKS = ap.simulate_tasks(users=USERS, tasks=5, tasks_per_user=2)


@pytest.fixture(scope="module")
def model() -> ap.MatrixFactorization:
    return ap.MatrixFactorization(4, 2, epsilon=2.0).fit(RATINGS)


@pytest.fixture
def budget(tmp_path: Path) -> ap.Budget:
    cap = ap.PrivacyTarget(4.0, 1e-5)
    path = ap.Budget.create(tmp_path / "<b>budget.db", cap).path
    return ap.Budget(path, label=HOSTILE)


def things(model: ap.MatrixFactorization, budget: ap.Budget) -> Iterator[Any]:
    open_settings = ap.MatrixFactorization(epsilon=2.0)
    prepared = open_settings.prepare(RATINGS)
    yield from (model, model.privacy, model.plan(), RATINGS, TASKS, budget, open_settings)
    yield from open_settings.forecasts(prepared)[:1]
    yield ap.MultiTaskRidge().fit(TASKS)
    yield ap.MultiTaskClassifier(seed=1).fit(TASKS)
    yield ap.Recommender(model.released)
    allocation = ap.AdaptiveWeights(0.3, counts=ap.PublicCounts(np.arange(5) + 1.0))
    yield ap.MultiTaskDescent(steps=ap.Steps(10), allocation=allocation)


def test_everything_is_shown_in_html_and_fits_on_two_lines(
    model: ap.MatrixFactorization, budget: ap.Budget
) -> None:
    for thing in things(model, budget):
        text = repr(thing)
        assert "\n" not in text
        assert len(text) <= 160
        assert type(thing).__name__ in text
        shown = read(thing._repr_html_())
        assert "script" not in shown.tags
        assert shown.text


def test_models_show_their_guarantee_and_what_they_may_be_used_for(
    model: ap.MatrixFactorization,
) -> None:
    for one in (model, ap.MultiTaskRidge(epsilon=2.0).fit(TASKS)):
        html = one._repr_html_()
        text = read(html).text
        assert "epsilon = 2 at delta = 1e-05" in text
        assert "may be published under this guarantee" in text
        # Few users: noise may leave nothing but averages, of which the report warns.
        tone = "ap-warn" if one.privacy.warnings else "ap-good"
        assert tone in html.split("</style>")[1]
    exact = ap.MatrixFactorization(4, 2, epsilon=math.inf).fit(RATINGS)._repr_html_()
    assert "NOT PRIVATE" in read(exact).text
    assert "not to be published" in read(exact).text


def test_cards_have_the_pieces_of_the_pages(model: ap.MatrixFactorization) -> None:
    """What a page shows in panels, a card shows behind clicks: the same charts, tables and sentences."""
    found = ap.evaluate(model, *RATINGS.split((0.8, 0.2)))
    pages: list[tuple[Any, str]] = [
        (model, report_page(model.privacy, "films")),
        (model.privacy, report_page(model.privacy, "films")),
        (model.plan(), plan_page(model.plan())),
        (found, evaluation_page(found, "films")),
    ]
    for thing, page in pages:
        charts = re.findall(r"<svg.*?</svg>", page, re.DOTALL)
        sections = re.findall(r"<section.*?<h2>(.*?)</h2>(.*?)</section>", page, re.DOTALL)
        assert charts
        shown = thing._repr_html_()
        for title, body in sections:
            assert f"<summary>{title}</summary>{body}</details>" in shown, title
        # What is said first is not behind a click.
        verdict = thing.verdict if hasattr(thing, "verdict") else "epsilon = 2"
        assert verdict in re.sub(r"<details>.*?</details>", "", shown, flags=re.DOTALL)


def test_settings_that_were_chosen_are_shown() -> None:
    chosen = ap.MatrixFactorization(epsilon=2.0).fit(RATINGS)
    text = read(chosen._repr_html_()).text
    assert "Chosen from released values" in text
    assert "intercept_share" in text


def test_data_shows_public_facts_only() -> None:
    private = ap.Interactions(["ann", "bob"], ["x", "y"], [1.0, 2.0], rating_range=(1, 5))
    assert "not public" in read(private._repr_html_()).text
    found = ap.Interactions(["ann", "bob"], ["x", "y"], items="public")
    assert "2, found in the data and declared public" in read(found._repr_html_()).text
    text = read(RATINGS._repr_html_()).text
    assert "30, public" in text
    assert str(USERS) not in text
    assert str(len(RATINGS.by_user.other)) not in text
    # Adding people changes nothing.
    more = ap.simulate_tasks(users=2 * USERS, tasks=5, tasks_per_user=2)
    assert more._repr_html_() == TASKS._repr_html_()


def test_nothing_hostile_becomes_markup(model: ap.MatrixFactorization, budget: ap.Budget) -> None:
    report = model.privacy
    hostile = replace(
        report, public_inputs={HOSTILE: HOSTILE}, warnings=(HOSTILE,), chosen={HOSTILE: HOSTILE}
    )
    released = replace(model.released, privacy=hostile)
    ap.MultiTaskRidge().fit(TASKS, budget=budget)
    for thing in (hostile, ap.Recommender(released), budget):
        shown = read(thing._repr_html_())
        assert not {"script", "b"} & set(shown.tags)
        assert "<script>alert(1)</script>" in shown.text
        assert "\x1b" not in shown.text
        assert "\u202e" not in shown.text


def test_budgets_show_what_is_left_and_errors(budget: ap.Budget) -> None:
    ap.MultiTaskRidge(epsilon=1.0).fit(TASKS, budget=budget)
    text = read(budget._repr_html_()).text
    assert "epsilon = 1 of 4 is counted" in text
    assert f"up to {budget.left:.4g}" in text
    budget.path.write_bytes(b"not a budget")
    assert "is not a budget" in read(budget._repr_html_()).text
    assert "cap of epsilon=4" in repr(budget)


def test_untrained_models_show_what_is_not_as_by_default() -> None:
    model = ap.MultiTaskDescent(loss="logistic")
    assert repr(model) == "MultiTaskDescent(epsilon=1.0, delta=1e-05, loss='logistic')"
    text = read(model._repr_html_()).text
    assert "not trained yet" in text
    assert "logistic" in text


def test_settings_are_written_as_people_do() -> None:
    model = ap.MatrixFactorization(epsilon=2.0).fit(RATINGS)
    text = read(model._repr_html_()).text
    assert "gramian 0.05, weights 0.02, users 0.005" in text
    assert "{" not in text.split("Taken as public")[1]
