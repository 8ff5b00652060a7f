"""What fuzzing has found, each in its smallest form."""

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import apportion as ap
from apportion.checks import number, word
from apportion.cli import data as data_command
from apportion.cli.output import Output
from apportion.data.files import write_frame
from apportion.data.simulate import _user_sizes
from apportion.json_text import parse_json
from apportion.recommend.model import ItemModel
from apportion.recommend.recommender import Recommender
from tests.fuzz.harness import OUTSIDE, USER
from tests.fuzz.test_full_disk import no_file_larger_than


@pytest.mark.parametrize("within", [5, "15", (1,), (5, 1), (1, math.nan), (1, 2, 3)])
def test_a_malformed_rating_range_of_a_simulation(within: Any) -> None:
    with pytest.raises(ap.ParameterError, match="rating_range must"):
        ap.simulate_interactions(users=5, items=5, rows=9, rating_range=within)


def test_a_simulation_in_which_everybody_takes_everything() -> None:
    assert len(ap.simulate_interactions(users=5, items=4, rows=20).by_user.other) == 20
    share = np.array([0.97, 0.01, 0.01, 0.01])
    assert _user_sizes(share, 16, 4).tolist() == [4, 4, 4, 4]


def empty_model() -> Recommender:
    data = ap.simulate_interactions(users=30, items=4, rows=60)
    released = ap.MatrixFactorization(2, 1, epsilon=5.0).fit(data).released
    return Recommender(
        ItemModel(
            np.zeros((0, 2), np.float32),
            np.zeros(0, np.int64),
            None,
            None,
            released.fold_in,
            released.privacy,
        )
    )


def test_a_model_without_items_recommends_nothing() -> None:
    histories = ap.Interactions(["a", "b"], [1, 2], [3.0, 4.0], items="public", rating_range=(1, 5))
    assert len(empty_model().recommend_many(histories, k=3)) == 0


@pytest.mark.parametrize("rating", [OUTSIDE, str(OUTSIDE), math.nan])
def test_a_rating_of_a_history_is_not_told(rating: Any) -> None:
    data = ap.simulate_interactions(users=30, items=4, rows=60)
    model = ap.MatrixFactorization(2, 1, epsilon=5.0).fit(data)
    with pytest.raises(ap.DataError, match="the rating in row 1") as error:
        model.recommend({0: 3.0, 1: rating})
    assert str(OUTSIDE) not in str(error.value)


def test_a_file_without_a_header_is_not_told(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text(f"{USER},1,3\nb,2,4\n")
    with pytest.raises(ap.DataError, match="the first line of a CSV file must name") as error:
        ap.Interactions.from_path(tmp_path / "rows.csv", items="public")
    assert USER not in str(error.value)


@pytest.mark.parametrize("kind", [pa.table, pd.DataFrame])
def test_columns_of_the_same_name(kind: Any) -> None:
    frame = kind({"user": [1], "item": [1]})
    if kind is pa.table:
        frame = pa.Table.from_arrays([*frame.columns, frame["user"]], ["user", "item", "user"])
    else:
        frame = pd.concat([frame, frame[["user"]]], axis=1)
    with pytest.raises(ap.DataError, match="2 columns 'user'"):
        ap.Interactions.from_frame(frame, rating=None, items="public")


def test_ids_of_more_than_64_bits() -> None:
    with pytest.raises(ap.DataError, match="at most 64 bits"):
        ap.Interactions(pl.Series([2**64]), [1], items="public")


def test_numbers_that_no_float_holds() -> None:
    with pytest.raises(ap.DataError, match="rating must hold numbers"):
        ap.Interactions([1], [1], [10**400])
    with pytest.raises(ap.DataError, match="labels must hold numbers"):
        ap.TaskData([1], [1], [[1.0]], [10**400])
    with pytest.raises(ap.DataError, match="features must hold numbers"):
        ap.TaskData([1], [1], [[10**400]], [1.0])
    with pytest.raises(ap.ParameterError, match="a number of too many digits"):
        number("x", 10**5000, at_most=1)


def test_a_private_array_given_as_a_parameter_is_not_told() -> None:
    with pytest.raises(ap.ParameterError, match="got a ndarray"):
        ap.PrivacyTarget(np.array([OUTSIDE]), 1e-5)
    with pytest.raises(ap.ParameterError, match="got a ndarray"):
        word("clip", np.array([1.0, 2.0]), ("user", "row"))


@pytest.mark.parametrize("settings", [{"gram_share": 1e-320}, {"statistics": np.array([1.0, 2.0])}])
def test_settings_of_ridge_regression(settings: dict[str, Any], tmp_path: Path) -> None:
    """Refused before anything is paid for."""
    budget = ap.Budget.create(tmp_path / "budget.db", ap.PrivacyTarget(2.0, 1e-5))
    data = ap.simulate_tasks(users=30, tasks=2, tasks_per_user=1.0)
    with pytest.raises(ap.ParameterError):
        ap.MultiTaskRidge(**settings).fit(data, budget=budget)
    assert budget.history() == []


@pytest.mark.parametrize(
    "settings",
    [
        {"bounds__feature": 1e100, "solver__matrices": "per-item"},
        {"bounds__label": 1e30, "bounds__feature": 1e-60},
        {"bounds__label": 1e100, "solver": "descent"},
        {"regularization": 1e100, "solver": "descent"},
        {"regularization__items": 1e100},
        {"regularization": ap.MostFrequent()},
        {"offsets__intercept_share": 1e-300},
        {"offsets__mean_share": np.array([1.0, 2.0])},
        {"offsets": ap.Bounds()},
        {"shares__weights": 1e-300},
        {"shares": None},
        {"bounds": (0.25, 1.0)},
        {"solver__steps": 3},
        {"solver": ap.GradientDescent},
        {"solver__clip": "x"},
        {"engine": "gpu"},
        {"engine": ap.CpuEngine},
        {"factors": 2**62},
        {"factors": np.array([1, 2])},
        {"catalog": ap.MostFrequent},
    ],
    ids=str,
)
def test_settings_of_a_recommender(settings: dict[str, Any], tmp_path: Path) -> None:
    """Refused before anything is paid for."""
    budget = ap.Budget.create(tmp_path / "budget.db", ap.PrivacyTarget(2.0, 1e-5))
    data = ap.simulate_interactions(users=30, items=4, rows=60)
    model = ap.MatrixFactorization(factors=2, sweeps=1)
    with pytest.raises(ap.ApportionError):
        model.set_params(**settings).fit(data, budget=budget)
    assert budget.history() == []


def test_a_rating_range_too_wide_for_numbers(tmp_path: Path) -> None:
    data = ap.Interactions([1, 2], [0, 1], [0.0, 1.0], items=2, rating_range=(-9e29, 9e29))
    budget = ap.Budget.create(tmp_path / "budget.db", ap.PrivacyTarget(2.0, 1e-5))
    with pytest.raises(ap.DataError, match="rating_range is too wide"):
        ap.MatrixFactorization(2, 1).fit(data, budget=budget)
    assert budget.history() == []


def test_parts_of_an_allocation() -> None:
    with pytest.raises(ap.ParameterError, match="counts must be"):
        ap.TailSampling(2, counts=0.5)
    with pytest.raises(ap.ParameterError, match="counts must be"):
        ap.MostFrequent(0.5, counts=0.5)
    with pytest.raises(ap.ParameterError, match="k must be"):
        ap.UniformSampling(10**400)
    with pytest.raises(ap.ParameterError, match="a public count"):
        ap.PublicCounts([math.inf])


@pytest.mark.parametrize(("epsilon", "mu"), [(1e60, 1e-100), (1e60, 3.0), (1e9, 1.0)])
def test_deltas_too_small_for_numbers(epsilon: float, mu: float) -> None:
    assert ap.delta_from_epsilon(epsilon, mu) == 0.0


@pytest.mark.parametrize(
    "text",
    [
        "NaN",
        "[Infinity]",
        "1e999",
        '{"a": 1, "a": 2}',
        "[" * 10**5,
        "1" * 9000,
        "{",
        b"\xff",
    ],
)
def test_json_that_is_none(text: str) -> None:
    with pytest.raises(ap.DataError, match="JSON"):
        parse_json(text)


def test_a_table_on_a_full_disk_is_an_error_of_the_system(tmp_path: Path) -> None:
    frame = pl.DataFrame({"a": range(5000)})
    with no_file_larger_than(100), pytest.raises(OSError, match="is the disk full"):
        write_frame(frame, tmp_path / "lists.parquet")
    assert list(tmp_path.iterdir()) == []


def test_a_split_is_written_as_a_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "rows.csv").write_text(
        "user,item,rating\n" + "".join(f"{u},1,3\n" for u in range(99))
    )
    write, calls = data_command._write, []

    def full(part: Any, path: Path) -> None:
        calls.append(path)
        if len(calls) == 2:
            raise OSError(28, "No space left on device")
        write(part, path)

    monkeypatch.setattr(data_command, "_write", full)
    with pytest.raises(OSError, match="No space"):
        data_command.split(Output(), tmp_path / "rows.csv", tmp_path / "parts")
    assert list((tmp_path / "parts").iterdir()) == []


@pytest.mark.parametrize("text", ["\x1b[2J", "a\0", "\x9b2J", "\r", "\ud800"])
def test_a_report_that_would_command_a_terminal(text: str) -> None:
    data = ap.simulate_tasks(users=30, tasks=2, tasks_per_user=1.0)
    values = json.loads(ap.MultiTaskRidge().fit(data).privacy.to_json())
    for changed in ({"warnings": [text]}, {"neighboring": text}, {"public_inputs": {text: 1}}):
        with pytest.raises(ap.DataError, match="control characters"):
            ap.PrivacyReport.from_json(json.dumps({**values, **changed}))


def test_a_global_mean_without_a_range_is_not_paid_for(tmp_path: Path) -> None:
    data = ap.Interactions([1, 2], [0, 1], [0.0, 1.0], items=2)
    budget = ap.Budget.create(tmp_path / "budget.db", ap.PrivacyTarget(2.0, 1e-5))
    with pytest.raises(ap.DataError, match="needs ratings in a public rating_range"):
        ap.MatrixFactorization(
            2, 1, offsets=ap.Offsets(center="global"), bounds=ap.Bounds(label=1.0)
        ).fit(data, budget=budget)
    assert budget.history() == []


def test_a_sampling_rate_that_no_accountant_computes_with() -> None:
    data = ap.simulate_tasks(users=30, tasks=2, tasks_per_user=1.0)
    with pytest.raises(ap.ParameterError, match="sampling_rate must be"):
        ap.MultiTaskDescent(delta=1e-100, steps=ap.Steps(5, sampling_rate=1e-320)).fit(data)


def test_a_budget_needs_a_target(tmp_path: Path) -> None:
    with pytest.raises(ap.ParameterError, match="cap must be a PrivacyTarget"):
        ap.Budget.create(tmp_path / "budget.db", 1.0)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("size", [1e-100, 1e100])
def test_bounds_whose_squares_are_hardly_numbers(size: float) -> None:
    user, task = np.repeat(np.arange(60), 3), np.tile(np.arange(3), 60)
    features, label = np.random.default_rng(0).normal(size=(2, 180, 2)) * size
    data = ap.TaskData(user, task, features, label[:, 0], tasks=3)
    models: tuple[Any, ...] = (
        *(ap.MultiTaskRidge(statistics=kind) for kind in ("shrunk", "per-task", "shared")),
        ap.MultiTaskDescent(steps=2, gradient_bound=size),
    )
    for model in models:
        model.set_params(feature_bound=size, label_bound=size, noise_seed=0)
        native, plain = (
            model.set_params(engine=one).fit(data).coef_ for one in ("auto", "reference")
        )
        assert np.isfinite(native).all()
        np.testing.assert_allclose(native, plain, rtol=1e-6)
