"""``apportion plan``, as a user runs it: free, from public facts."""

from pathlib import Path

import pytest

import apportion as ap
from tests.cli.test_commands import apportion
from tests.cli.test_recommend import interactions, run

SIZES = ["--users", 600, "--items", 40, "--rows", 9000]
RATED = ["--rating-range", 1, 5, "--epsilon", 5]


def test_a_plan_alone_shows_what_will_be_released() -> None:
    output = run("plan", *RATED)
    for piece in ("plan for epsilon = 5", "counts", "intercepts and sweeps", "--users"):
        assert piece in output
    assert "RMSE" not in output
    output = run("plan", *RATED, "--factors", 4, "--sweeps", 2, "--intercept-share", 0.25)
    assert "sweep 2 gramian" in output


def test_sizes_give_a_forecast() -> None:
    output = run("plan", *RATED, *SIZES)
    for piece in ("plan for epsilon = 5", "RMSE", "rarest", "cepts"):
        assert piece in output
    assert run("plan", *RATED, *SIZES) == output
    assert run("plan", "--rating-range", 1, 5, "--epsilon", 1, *SIZES) != output


def test_a_plan_for_events() -> None:
    output = run("plan", "--implicit", "--private-items", "--epsilon", 30, *SIZES)
    assert "share of tastes lost" in output
    assert "cepts" not in output


def test_a_plan_for_a_known_data_set() -> None:
    output = run("plan", "--like", "ml-100k", "--top-share", 0.5)
    assert "RMSE" in output
    assert "share of tastes lost" in run(
        "plan", "--like", "ml-20m", "--users", 300, "--items", 50, "--rows", 2000
    )


def test_counts_give_a_forecast(tmp_path: Path) -> None:
    file = tmp_path / "counts.csv"
    file.write_text("count,n\n" + "".join(f"{400 - 9 * i},{200 - i}\n" for i in range(40)))
    output = run("plan", *RATED, "--counts", file, "--users", 600)
    assert "RMSE" in output
    other = run("plan", *RATED, "--counts", file, "--column", "n", "--users", 600)
    assert other != output
    with pytest.raises(ap.DataError, match="more users than"):
        run("plan", *RATED, "--counts", file, "--users", 300)


def test_a_preparation_gives_its_own_forecast_and_costs_no_more(tmp_path: Path) -> None:
    data, budget, first = (tmp_path / name for name in ("ratings.csv", "budget.db", "first.json"))
    interactions().write_csv(data)
    run("budget", "create", budget, "--epsilon", 5, "--delta", 1e-5)
    paid = ["--items", "public", "--budget", budget]
    prepared = run("prepare", data, *RATED, *paid, "--out", first)
    spent = ap.Budget(budget).epsilon
    output = run("plan", *RATED, "--preparation", first)
    table = prepared[prepared.index("forecast") : prepared.index("warning")]
    assert table.strip() in output
    assert ap.Budget(budget).epsilon == spent
    with pytest.raises(ap.ParameterError, match="another epsilon"):
        run("plan", "--rating-range", 1, 5, "--preparation", first)


def test_a_plan_takes_no_data_and_no_budget(tmp_path: Path) -> None:
    (tmp_path / "ratings.csv").write_text("user,item,rating\n1,1,3\n")
    for words in (["ratings.csv"], ["--budget", "budget.db"], ["--out", "plan.json"]):
        result = apportion("plan", *words, "--rating-range", "1", "5", cwd=tmp_path)
        assert result.returncode == 2, words


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("", "smallest and largest possible rating"),
        ("--implicit --users 100", "are needed together"),
        ("--implicit --like ml-1m --counts x.csv", "does not go with --counts"),
        ("--implicit --column x", "goes with --counts only"),
        ("--implicit --counts x.csv", "takes --users"),
        ("--implicit --preparation x --rows 7", "does not go with --preparation"),
        ("--implicit --top-share 0.5 --private-items", "does not go with --private-items"),
    ],
)
def test_what_does_not_go_together(words: str, message: str) -> None:
    assert message in " ".join(run("plan", *words.split(), code=2).replace("\u2502", "").split())
