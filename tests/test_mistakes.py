"""What newcomers type without reading is understood, or refused with a word on what to type instead."""

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import scipy.sparse
from sklearn.model_selection import cross_val_predict

import apportion as ap

FRAME = ap.simulate_interactions(users=200, items=12, rows=1500).to_frame()
PUBLIC: dict[str, Any] = {"items": 12, "rating_range": (1, 5)}
DATA = ap.Interactions.from_frame(FRAME, **PUBLIC)
EVENTS = DATA.positives(1)
TASKS = ap.simulate_tasks(users=300, tasks=4, dimension=3, tasks_per_user=2)


@pytest.fixture(scope="module")
def model() -> ap.MatrixFactorization:
    return ap.MatrixFactorization(2, 1, epsilon=50.0).fit(DATA)


@pytest.fixture(scope="module")
def tasks() -> ap.MultiTaskRidge:
    return ap.MultiTaskRidge(epsilon=5.0).fit(TASKS)


@pytest.mark.parametrize(
    ("call", "error", "advice"),
    [
        (lambda: ap.MatrixFactorization().fit(None), ap.DataError, "from_frame, from_path"),
        (lambda: ap.MatrixFactorization().prepare(FRAME), ap.DataError, "from_frame, from_path"),
        (lambda: ap.Interactions.from_frame("a.csv"), ap.DataError, "from_path reads files"),
        (
            lambda: ap.Interactions.from_frame(scipy.sparse.eye(3)),
            ap.DataError,
            "from_sparse reads sparse matrices",
        ),
        (lambda: ap.Interactions.from_frame([(1, 2, 3)]), ap.DataError, "polars.DataFrame"),
        (lambda: ap.Interactions.from_sparse(np.eye(3)), ap.DataError, "scipy.sparse.csr_array"),
        (lambda: ap.Interactions.from_path(3), ap.ParameterError, "a list of paths"),
        (
            lambda: ap.TaskData([1], [0], scipy.sparse.eye(1)),
            ap.DataError,
            "toarray",
        ),
        (
            lambda: ap.MatrixFactorization(allocation=0.25).fit(DATA),
            ap.ParameterError,
            "ap.AdaptiveWeights",
        ),
        (
            lambda: ap.MultiTaskRidge(allocation="adaptive").fit(TASKS),
            ap.ParameterError,
            "ap.AdaptiveWeights",
        ),
    ],
)
def test_what_goes_in(
    call: Callable[[], object], error: type[ap.ApportionError], advice: str
) -> None:
    with pytest.raises(error, match=advice):
        call()


def test_lines_of_too_many_columns(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("user,item,rating\n1,2,3,4\n")
    with pytest.raises(ap.DataError, match="as many columns as its first"):
        ap.Interactions.from_path(path)


@pytest.mark.parametrize("as_given", [str, Path])
def test_items_may_be_a_file_of_ids(tmp_path: Path, as_given: Callable[[Path], Any]) -> None:
    rows, items = tmp_path / "rows.csv", tmp_path / "items.txt"
    FRAME.write_csv(rows)
    items.write_text("\n".join(str(each) for each in range(12)))
    data = ap.Interactions.from_path(rows, rating_range=(1, 5), items=as_given(items))
    assert data.to_frame().equals(DATA.to_frame())
    assert data.catalog_is_public
    assert not data.catalog_from_data


def test_a_file_of_items_has_the_type_of_the_rows(tmp_path: Path) -> None:
    (tmp_path / "items.txt").write_text("7\n12\n")
    data = ap.Interactions([1, 2], ["7", "12"], items=tmp_path / "items.txt")
    assert data.item_ids.tolist() == ["7", "12"]


def test_a_file_of_tasks(tmp_path: Path) -> None:
    (tmp_path / "tasks.txt").write_text("9\n8\n")
    data = ap.TaskData([1, 2], [8, 9], [[0.1], [0.2]], tasks=str(tmp_path / "tasks.txt"))
    assert data.task_ids.tolist() == [9, 8]
    assert not data.catalog_from_data


def test_items_that_are_no_file_and_files_without_items(tmp_path: Path) -> None:
    with pytest.raises(ap.ParameterError, match="there is no file 'pubilc'"):
        ap.Interactions.from_frame(FRAME, items="pubilc")
    (tmp_path / "empty.txt").write_text("\n\n")
    with pytest.raises(ap.DataError, match="holds no ids"):
        ap.Interactions.from_frame(FRAME, items=tmp_path / "empty.txt")


def test_saving_to_what_is_no_path(model: ap.MatrixFactorization, tasks: ap.MultiTaskRidge) -> None:
    for each in (model, tasks):
        with pytest.raises(ap.ParameterError, match="save takes the path of a folder"):
            each.save(None)


def test_titles_that_are_no_table(model: ap.MatrixFactorization, tmp_path: Path) -> None:
    with pytest.raises(ap.DataError, match="or a table with columns item and title"):
        model.save(tmp_path / "model", titles=["Alien"])


def test_judging_by_what_the_model_is_told(model: ap.MatrixFactorization) -> None:
    ranker = ap.MatrixFactorization(2, 1, "implicit", epsilon=math.inf).fit(EVENTS)
    for judged, data in ((model, DATA), (ranker, EVENTS)):
        with pytest.raises(ap.DataError, match="keep them apart"):
            ap.evaluate(judged, data, data)
        train, test = data.split((0.8, 0.2))
        assert ap.evaluate(judged, train, test).rows == len(test.by_user.other)
    with pytest.raises(ap.DataError, match=r"evaluate\(model, histories, test\)"):
        ap.evaluate(model, FRAME, FRAME)


def test_events_that_come_again_are_left_out_of_a_judgment() -> None:
    ranker = ap.MatrixFactorization(2, 1, "implicit", epsilon=math.inf).fit(EVENTS)
    known, wanted = EVENTS.split((0.5, 0.5))
    more = np.zeros(len(EVENTS.by_user.other), bool)
    more[::3] = True
    assert ap.evaluate(ranker, known, EVENTS.take(more)).rows == more.sum()
    assert ap.evaluate(ranker, known, wanted).rows == len(wanted.by_user.other)


def test_a_model_of_averages_knows_no_likeness() -> None:
    poor = ap.MatrixFactorization(epsilon=0.01).fit(DATA)
    assert poor.released.tastes == "averages alone"
    with pytest.raises(ap.DataError, match="averages alone"):
        poor.similar_items(3)


def test_predicting_the_rows_of_a_table(tasks: ap.MultiTaskRidge) -> None:
    features = TASKS.features[TASKS.feature_row]
    expected = tasks.predict(TASKS.task_ids[TASKS.task], features)
    np.testing.assert_array_equal(tasks.predict(TASKS), expected)
    with pytest.raises(ap.DataError, match="features come second"):
        tasks.predict(features, TASKS.task)
    with pytest.raises(ap.DataError, match="tasks and features, or a TaskData"):
        tasks.predict(features)
    exact = ap.MultiTaskRidge(epsilon=math.inf)
    assert cross_val_predict(exact, TASKS, cv=ap.UserKFold(3)).shape == (len(TASKS),)


def test_predicting_the_classes_of_rows() -> None:
    classifier = ap.MultiTaskClassifier(epsilon=50.0).fit(TASKS)
    features = TASKS.features[TASKS.feature_row]
    np.testing.assert_array_equal(classifier.predict(TASKS), classifier.predict(features))


def test_tables_of_other_libraries_are_read_alike() -> None:
    for frame in (FRAME.to_pandas(), FRAME.to_arrow(), FRAME.lazy()):
        assert ap.Interactions.from_frame(frame, **PUBLIC).to_frame().equals(DATA.to_frame())
    matrix = scipy.sparse.coo_array(
        (FRAME["rating"].to_numpy(), (FRAME["user"].to_numpy(), FRAME["item"].to_numpy())),
        shape=(200, 12),
    )
    made: list[Any] = [matrix.asformat(kind) for kind in ("csr", "csc", "lil", "dok", "coo")]
    kept = [ap.Interactions.from_sparse(each, rating_range=(1, 5)).to_frame() for each in made]
    assert all(frame.equals(kept[0]) for frame in kept)
    assert kept[0].select(pl.col("rating").sum()).item() == FRAME["rating"].sum()
