"""Weights of events: what a pair's rows add up to, and what a model learns from it."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import scipy.sparse

import apportion as ap
from tests.cli.test_recommend import run

USER = ["ann", "ann", "ann", "bob", "bob"]
ITEM = ["x", "y", "x", "y", "x"]


def weights(data: ap.Interactions) -> dict[Any, float]:
    frame = data.to_frame()
    pairs = zip(frame["user"], frame["item"], strict=True)
    return dict(zip(pairs, frame["weight"].to_list(), strict=True))


def test_the_rows_of_a_pair_add_up_to_the_bound() -> None:
    found = weights(ap.Interactions(USER, ITEM, items="public", weight=[1, 2, 1.5, 30, 0.25]))
    assert found == {
        ("ann", "x"): 2.5,
        ("ann", "y"): 2.0,
        ("bob", "x"): 0.25,
        ("bob", "y"): 10.0,
    }
    found = weights(
        ap.Interactions(USER, ITEM, items="public", weight=[1, 2, 1.5, 30, 0.25], weight_bound=20)
    )
    assert found["bob", "y"] == 20.0


def test_repeated_rows_may_count() -> None:
    found = weights(ap.Interactions(USER, ITEM, items="public", weight=True))
    assert found == {("ann", "x"): 2, ("ann", "y"): 1, ("bob", "x"): 1, ("bob", "y"): 1}
    assert "weight" not in ap.Interactions(USER, ITEM, items="public").to_frame().columns


def test_the_order_of_rows_does_not_matter() -> None:
    rng = np.random.default_rng(0)
    user, item = rng.integers(0, 20, 600), rng.integers(0, 5, 600)
    weight = rng.lognormal(0, 3, 600)
    data = ap.Interactions(user, item, items=5, weight=weight)
    order = rng.permutation(600)
    other = ap.Interactions(user[order], item[order], items=5, weight=weight[order])
    np.testing.assert_array_equal(data.confidence, other.confidence)


def test_weights_go_along_with_their_rows() -> None:
    rng = np.random.default_rng(0)
    weight = rng.uniform(0.1, 10, 300)
    user, item = np.divmod(rng.permutation(1000)[:300], 20)
    data = ap.Interactions(user, item, items=20, weight=weight)
    whole = weights(data)
    for part in (*data.split((0.5, 0.5)), *data.leave_out(2), data.of_items(np.array([7, 3, 11]))):
        found = weights(part)
        assert found
        assert found == {pair: whole[pair] for pair in found}


def test_the_ways_of_reading(tmp_path: Path) -> None:
    frame = pl.DataFrame({"user": USER, "item": ITEM, "times": [1.0, 2.0, 1.5, 30.0, 0.25]})
    wanted = weights(ap.Interactions(USER, ITEM, items="public", weight=frame["times"]))
    frame.write_csv(tmp_path / "plays.csv")
    frame.write_parquet(tmp_path / "plays.parquet")
    named: dict[str, Any] = {"rating": None, "items": "public", "weight": "times"}
    assert weights(ap.Interactions.from_frame(frame, **named)) == wanted
    assert weights(ap.Interactions.from_frame(frame.to_pandas(), **named)) == wanted
    for name in ("plays.csv", "plays.parquet"):
        assert weights(ap.Interactions.from_path(tmp_path / name, **named)) == wanted
    matrix = scipy.sparse.csr_matrix(([3.0, 0.0, 0.5], ([0, 0, 1], [1, 2, 0])), shape=(2, 3))
    found = weights(ap.Interactions.from_sparse(matrix, weight=True))
    assert found == {(0, 1): 3.0, (1, 0): 0.5}


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ([1, 2, 3, 4], "one number for each of 5 rows"),
        ([1, 2, 0, 4, 5], "row 2 is missing, not finite or not above 0"),
        ([1, 2, math.nan, 4, 5], "row 2"),
        ([1, 2, math.inf, 4, 5], "row 2"),
        (["a"] * 5, "numbers only"),
    ],
)
def test_what_is_no_weight_is_refused(wrong: Any, message: str) -> None:
    with pytest.raises(ap.DataError, match=message):
        ap.Interactions(USER, ITEM, items="public", weight=wrong)


def test_ratings_have_no_weights() -> None:
    with pytest.raises(ap.ParameterError, match="weight is for events"):
        ap.Interactions(USER, ITEM, [1, 2, 3, 4, 5], items="public", weight=True)
    with pytest.raises(ap.ParameterError, match="weight_bound"):
        ap.Interactions(USER, ITEM, items="public", weight=True, weight_bound=0)


def by_taste(weighted: bool) -> ap.Interactions:
    """Users of four tastes: eight of their own items, often, and twenty of anybody's, once."""
    rng = np.random.default_rng(0)
    user, item, weight = [], [], []
    for each in range(3000):
        own = rng.choice(30, 8, replace=False) * 4 + each % 4
        some = rng.choice(120, 20, replace=False)
        user += [each] * 28
        item += [*own, *some]
        weight += [8.0] * 8 + [1.0] * 20
    return ap.Interactions(user, item, items=120, weight=weight if weighted else None)


def share_of_own_taste(model: ap.MatrixFactorization) -> float:
    found = []
    for taste in range(4):
        history = [taste, taste + 4, taste + 8, (taste + 1) % 4]
        found.append(float(np.mean(model.recommend(history, k=10)[0] % 4 == taste)))
    return float(np.mean(found))


@pytest.mark.parametrize("epsilon", [1.0, math.inf])
def test_what_is_done_often_tells_more_about_taste(epsilon: float) -> None:
    found = {}
    for weighted in (False, True):
        model = ap.MatrixFactorization(8, 3, "implicit", epsilon=epsilon, noise_seed=None)
        data = by_taste(weighted)
        several = 1 if epsilon == math.inf else 3
        found[weighted] = np.mean([share_of_own_taste(model.fit(data)) for _ in range(several)])
    assert found[True] > found[False] + 0.02


def test_the_report_says_how_events_count() -> None:
    model = ap.MatrixFactorization(2, 1, "implicit", noise_seed=1)
    data = ap.Interactions(USER, ITEM, items=["x", "y"], weight=True, weight_bound=4)
    assert model.fit(data).privacy.public_inputs["events"] == (
        "given, with weights of at most 4 a pair"
    )


def plays(folder: Path) -> Path:
    data = ap.simulate_interactions(users=200, items=12, rows=1500, rating_range=None).to_frame()
    times = np.random.default_rng(0).integers(1, 30, len(data))
    data.with_columns(pl.Series("times", times)).write_csv(folder / "plays.csv")
    return folder / "plays.csv"


def test_the_command_line(tmp_path: Path) -> None:
    def fit(*words: Any, code: int = 0) -> str:
        out = tmp_path / f"model{len(list(tmp_path.iterdir()))}"
        first = ("fit", plays(tmp_path), "--items", "public", "--out", out)
        said = run(*first, *words, code=code)
        return str(ap.load(out).privacy.public_inputs["events"]) if code == 0 else said

    assert fit("--implicit", "--weight", "times").endswith("at most 10 a pair")
    assert fit("--implicit", "--count-repeats", "--weight-bound", 3).endswith("at most 3 a pair")
    for words, message in (
        (("--rating-range", 1, 5, "--weight", "times"), "is for events"),
        (("--implicit", "--weight-bound", 3), "goes with --weight"),
        (("--implicit", "--weight", "times", "--count-repeats"), "does not go with --weight"),
    ):
        assert message in " ".join(fit(*words, code=2).replace("│", " ").split())
