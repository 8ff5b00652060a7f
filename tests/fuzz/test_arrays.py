"""Arrays and frames: whatever they hold, an error of ours or data that is right."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse
from hypothesis import given
from hypothesis import strategies as st

import apportion as ap
from tests.fuzz.harness import OUTSIDE, RATING, USER, Fuzz, examples
from tests.fuzz.values import absurd, columns, ids, ratings


def as_list(values: list[Any]) -> Any:
    return values


def as_objects(values: list[Any]) -> Any:
    array = np.empty(len(values), dtype=object)
    for row, value in enumerate(values):
        array[row] = value
    return array


def as_nullable(values: list[Any]) -> Any:
    """A pandas column of whole numbers with NA, if that is what the values are."""
    try:
        return pd.array(values, dtype="Int64")
    except (TypeError, ValueError, OverflowError, RuntimeWarning):
        return pd.Series(values, dtype=object)


def as_series(values: list[Any]) -> Any:
    try:
        return pl.Series(values)
    except (TypeError, ValueError, OverflowError, pl.exceptions.PolarsError):
        return as_objects(values)


def as_arrow(values: list[Any]) -> Any:
    try:
        return pa.chunked_array([pa.array(values)])
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        return values


def as_categories(values: list[Any]) -> Any:
    try:
        return pd.Series(values, dtype="category")
    except (TypeError, ValueError):
        return values


forms = st.sampled_from((as_list, as_objects, as_nullable, as_series, as_arrow, as_categories))


def check_interactions(
    data: ap.Interactions, user: list[Any], item: list[Any], rated: bool
) -> None:
    """Every distinct (user, item) once, with its mean."""
    pairs = {(str(u), str(i)) for u, i in zip(user, item, strict=True)}
    assert len(data.by_user.other) == len(pairs)
    assert data.by_user.start[0] == 0
    assert data.by_user.start[-1] == len(pairs)
    assert data.users == len({str(u) for u in user})
    if rated:
        assert data.by_user.rating is not None
        assert np.isfinite(data.by_user.rating).all()
    assert USER not in repr(data)


@given(
    user=columns,
    item=columns,
    rating=st.none() | ratings,
    form=forms,
    same=st.booleans(),
    items=st.sampled_from(
        (None, "public", 6, 2**31, 2**62, [0, 1, 2, 3, 4, 5], [0, 0], "x", -1, 0, True, 1.5, {})
    ),
    within=st.sampled_from((None, (1, 5), (5, 1), (1, 1), (1,), "15", 3, (np.nan, 1), (1, 1e300))),
    outside=st.sampled_from(("error", "clip", None)),
)
@examples(400)
def test_interactions(
    fuzz: Fuzz,
    user: list[Any],
    item: list[Any],
    rating: list[Any] | None,
    form: Callable[[Any], Any],
    same: bool,
    items: Any,
    within: Any,
    outside: Any,
) -> None:
    if same:  # lengths that agree, more often than not
        rows = min(len(user), len(item), *([] if rating is None else [len(rating)]))
        user, item = user[:rows], item[:rows]
        rating = None if rating is None else rating[:rows]
    data = fuzz.case(
        lambda: ap.Interactions(
            form(user), form(item), rating, items=items, rating_range=within, outside=outside
        )
    )
    if isinstance(data, ap.Interactions):
        check_interactions(data, user, item, rating is not None)


@given(
    table=st.dictionaries(st.sampled_from(("user", "item", "rating", "u")), columns, max_size=4),
    repeated=st.booleans(),
    kind=st.sampled_from(("pandas", "polars", "arrow", "dict", "lazy", "none")),
)
@examples(150)
def test_frames(fuzz: Fuzz, table: dict[str, list[Any]], repeated: bool, kind: str) -> None:
    rows = min((len(values) for values in table.values()), default=0)
    table = {name: values[:rows] for name, values in table.items()}
    frame: Any = table
    try:
        if kind == "pandas":
            frame = pd.DataFrame(table)
            if repeated:
                frame = pd.concat([frame, frame], axis=1)
        elif kind == "polars":
            frame = pl.DataFrame(table, strict=False)
        elif kind == "lazy":
            frame = pl.LazyFrame(table, strict=False)
        elif kind == "arrow":
            frame = pa.table(table)
            if repeated:
                frame = pa.Table.from_arrays(frame.columns * 2, names=list(table) * 2)
        elif kind == "none":
            frame = None
    except (TypeError, ValueError, OverflowError, pa.ArrowException, pl.exceptions.PolarsError):
        return
    fuzz.case(lambda: ap.Interactions.from_frame(frame, items="public"))
    fuzz.case(lambda: ap.Interactions.from_frame(frame, rating=None, items="public"))
    fuzz.case(
        lambda: ap.TaskData.from_frame(
            frame, user="user", task="item", features=["rating"], label="rating", tasks="public"
        )
    )


def test_a_frame_read_without_its_header_tells_no_row(fuzz: Fuzz) -> None:
    frame = pd.DataFrame({USER: [1], "7": [2], str(RATING): [3]})
    error = fuzz.case(lambda: ap.Interactions.from_frame(frame))
    assert isinstance(error, ap.DataError)
    assert "no column 'user'" in str(error)


@given(
    user=columns,
    task=columns,
    rows=st.integers(0, 6),
    d=st.integers(0, 3),
    value=absurd,
    place=st.integers(0, 20),
    labels=st.none() | ratings,
    per_user=st.booleans(),
    tasks=st.sampled_from((None, "public", 6, 2**31, 2**62, [0, 1, 2, 3, 4, 5], "x", 0)),
    user_ids=st.none() | columns,
)
@examples(300)
def test_task_data(
    fuzz: Fuzz,
    user: list[Any],
    task: list[Any],
    rows: int,
    d: int,
    value: Any,
    place: int,
    labels: Any,
    per_user: bool,
    tasks: Any,
    user_ids: Any,
) -> None:
    features: Any = [[0.5] * d for _ in range(rows)]
    if place < rows * d:
        features[place // d][place % d] = value
    data = fuzz.case(
        lambda: ap.TaskData(
            user[:rows],
            task[:rows],
            features,
            None if labels is None else labels[:rows],
            tasks=tasks,
            per_user=per_user,
            user_ids=user_ids,
        )
    )
    if isinstance(data, ap.TaskData):
        assert np.isfinite(data.features).all()
        assert np.isfinite(data.labels).all()
        assert len(data.user) == len(data.task) == len(data.labels)
        fuzz.case(lambda: data.split(0.5))
        assert USER not in repr(data)


@given(value=absurd, shape=st.sampled_from(((2, 3), (0, 0), (2, 0), (2**31, 2**31), (3, 2**31))))
@examples(40)
def test_sparse(fuzz: Fuzz, value: Any, shape: tuple[int, int]) -> None:
    try:
        matrix: Any = scipy.sparse.coo_matrix(([float(value)], ([0], [0])), shape)
    except (TypeError, ValueError, OverflowError):
        matrix = value
    for feedback in ("implicit", "explicit"):
        fuzz.case(lambda: ap.Interactions.from_sparse(matrix, feedback=feedback))


@pytest.mark.parametrize("size", [2**31, 2**40, 2**62, 10**30])
def test_numbers_of_members_that_no_memory_holds(fuzz: Fuzz, size: int) -> None:
    """An error at once, before anything is allocated."""
    for call in (
        lambda: ap.Interactions([1], [1], items=size),
        lambda: ap.TaskData([1], [1], [[1.0]], tasks=size),
        lambda: ap.simulate_interactions(users=size, items=10, rows=size),
        lambda: ap.simulate_interactions(users=10, items=size, rows=20),
        lambda: ap.simulate_interactions(users=10, items=size, rows=size),
        lambda: ap.simulate_interactions(users=10, items=10, rows=20, rank=size),
        lambda: ap.simulate_tasks(users=size),
        lambda: ap.simulate_tasks(tasks=size),
        lambda: ap.simulate_tasks(dimension=size),
    ):
        assert isinstance(fuzz.case(call), ap.ApportionError)


@pytest.fixture(scope="module")
def model() -> ap.MatrixFactorization:
    data = ap.simulate_interactions(users=60, items=6, rows=240)
    return ap.MatrixFactorization(factors=2, sweeps=1, epsilon=5.0, delta=1e-5).fit(data)


@given(
    history=st.dictionaries(
        ids.filter(lambda value: not isinstance(value, list)),
        absurd | st.sampled_from((RATING, OUTSIDE)),
        max_size=3,
    )
    | st.lists(ids, max_size=3)
    | absurd,
    k=absurd | st.integers(1, 4),
    unknown=st.sampled_from(("error", "ignore", "x")),
)
@examples(200)
def test_histories(
    fuzz: Fuzz, model: ap.MatrixFactorization, history: Any, k: Any, unknown: Any
) -> None:
    found = fuzz.case(lambda: model.recommend(history, k=k, unknown=unknown))
    if not isinstance(found, Exception):
        assert np.isfinite(found[1]).all()
    fuzz.case(lambda: model.predict(history, [0, 1], unknown=unknown))
    fuzz.case(lambda: model.fold_in(history, unknown=unknown))
    fuzz.case(lambda: model.similar_items(history, k=k))
    fuzz.case(lambda: model.recommend_many(history))
