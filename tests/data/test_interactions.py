"""Interactions: what comes in, how it is grouped and split, what is refused and by which words."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import apportion as ap
from apportion.data import simulate_interactions
from apportion.data.interactions import Interactions
from apportion.data.orientation import Orientation

COLUMNS: dict[str, list[Any]] = {
    "user": ["ann", "bob", "ann", "cem"],
    "item": [10, 30, 20, 10],
    "rating": [5.0, 1.0, 3.5, 2.0],
}
CATALOG = [10, 20, 30, 40]


def made(**changes: Any) -> Interactions:
    return Interactions(**{**COLUMNS, "items": CATALOG, **changes})


def random_data(users: int = 200, items: int = 30, rows: int = 3000, seed: int = 0) -> Interactions:
    rng = np.random.default_rng(seed)
    columns = rng.integers(users, size=rows), rng.integers(items, size=rows), rng.random(rows)
    return Interactions(*columns, items=items)


def dense(side: Orientation, width: int) -> NDArray[np.float64]:
    """The orientation as a table, NaN where there is nothing, [groups, width]."""
    table = np.full((len(side.start) - 1, width), np.nan)
    row = np.repeat(np.arange(len(table)), np.diff(side.start))
    table[row, side.other] = 1.0 if side.rating is None else side.rating
    return table


def pairs(data: Interactions) -> set[tuple[Any, Any]]:
    user = data.user_ids[data.user_of_row].tolist()
    return set(zip(user, data.item_ids[data.by_user.other].tolist(), strict=True))


def same(left: Interactions, right: Interactions) -> bool:
    return pairs(left) == pairs(right) and np.array_equal(
        np.asarray(left.by_user.rating), np.asarray(right.by_user.rating)
    )


# Grouping


def test_users_and_items_are_numbered() -> None:
    data = made()
    assert (data.users, data.items, data.explicit) == (3, 4, True)
    assert data.user_ids.tolist() == ["ann", "bob", "cem"]
    np.testing.assert_array_equal(data.item_ids, CATALOG)
    np.testing.assert_array_equal(data.user_of_row, [0, 0, 1, 2])
    np.testing.assert_array_equal(data.by_user.start, [0, 2, 3, 4])
    np.testing.assert_array_equal(data.by_user.other, [0, 1, 2, 0])
    np.testing.assert_array_equal(data.by_user.rating, [5.0, 3.5, 1.0, 2.0])
    np.testing.assert_array_equal(data.by_item.start, [0, 2, 3, 4, 4])
    np.testing.assert_array_equal(data.by_item.other, [0, 2, 0, 1])
    np.testing.assert_array_equal(data.by_item.rating, [5.0, 2.0, 3.5, 1.0])


def test_no_rows() -> None:
    data = Interactions([], [], [], items=3)
    assert (data.users, data.items) == (0, 3)
    np.testing.assert_array_equal(data.by_item.start, [0, 0, 0, 0])
    assert all(part.users == 0 for part in data.split())


ROWS = st.lists(
    st.tuples(st.integers(-3, 3), st.integers(0, 4), st.integers(1, 5)), min_size=1, max_size=40
)


@settings(deadline=None)
@given(ROWS, st.booleans())
def test_both_orientations_agree_with_a_dense_table(
    rows: list[tuple[int, int, int]], explicit: bool
) -> None:
    user, item, rating = (list(column) for column in zip(*rows, strict=True))
    data = Interactions(user, item, rating if explicit else None, items=5)
    names = sorted(set(user))
    expected = np.full((len(names), 5), np.nan)
    for u, i, _ in rows:
        here = [r for a, b, r in rows if (a, b) == (u, i)]
        expected[names.index(u), i] = np.float32(np.mean(here)) if explicit else 1.0
    assert data.user_ids.tolist() == names
    np.testing.assert_array_equal(dense(data.by_user, 5), expected)
    np.testing.assert_array_equal(dense(data.by_item, len(names)), expected.T)
    for side in (data.by_user, data.by_item):
        for start, end in zip(side.start[:-1], side.start[1:], strict=True):
            assert (np.diff(side.other[start:end]) > 0).all()  # sorted, each once


@pytest.mark.parametrize("ids", ["dense", "sparse", "strings"])
@pytest.mark.parametrize("explicit", [True, False])
def test_files_read_to_the_bits_of_a_plain_reference(
    tmp_path: Path, ids: str, explicit: bool
) -> None:
    rng = np.random.default_rng(3)
    user, item = rng.integers(900, size=200_000), rng.integers(400, size=200_000)
    if ids == "sparse":
        user = user * 10**15 - 7
    rating = rng.random(len(user)).astype(np.float32)
    frame = pl.DataFrame({"user": user, "item": item, "rating": rating})
    if ids == "strings":
        frame = frame.with_columns(pl.col("user", "item").cast(pl.String))
    frame.write_parquet(tmp_path / "rows.parquet", row_group_size=30_000)
    column = "rating" if explicit else None
    data = Interactions.from_path(tmp_path / "rows.parquet", rating=column, items="public")

    users, user_code = np.unique(frame["user"].to_list(), return_inverse=True)
    items, item_code = np.unique(frame["item"].to_list(), return_inverse=True)
    order = np.lexsort((item_code, user_code))
    pair = user_code[order] * len(items) + item_code[order]
    distinct, first, count = np.unique(pair, return_index=True, return_counts=True)
    mean = np.add.reduceat(rating[order].astype(np.float64), first) / count
    assert len(first) < len(user)
    assert data.user_ids.tolist() == users.tolist()
    assert data.item_ids.tolist() == items.tolist()
    turned = np.lexsort((distinct // len(items), distinct % len(items)))
    for side, group, other, rows in (
        (data.by_user, distinct // len(items), distinct % len(items), slice(None)),
        (data.by_item, distinct % len(items), distinct // len(items), turned),
    ):
        np.testing.assert_array_equal(
            side.start, np.searchsorted(group[rows], np.arange(len(side.start)))
        )
        np.testing.assert_array_equal(side.other, other[rows])
        assert side.other.dtype == np.int32
        if explicit:
            np.testing.assert_array_equal(side.rating, mean.astype(np.float32)[rows])
        else:
            assert side.rating is None


def test_equal_items_of_two_users_are_not_merged() -> None:
    data = Interactions([0, 1, 2, 4], [1, 1, 1, 1], [1.0, 2.0, 3.0, 4.0], items=3)
    np.testing.assert_array_equal(data.by_user.start, [0, 1, 2, 3, 4])
    np.testing.assert_array_equal(data.by_user.rating, [1.0, 2.0, 3.0, 4.0])


@pytest.mark.parametrize("rated", [False, True])
@pytest.mark.parametrize("repeats", [False, True])
def test_the_order_of_rows_does_not_matter(rated: bool, repeats: bool) -> None:
    rng = np.random.default_rng(5)
    cell = np.sort(rng.choice(30 * 20, 200, replace=repeats))
    user, item = cell // 20, cell % 20
    rating = (cell % 7 + 1).astype(np.float32)  # the same wherever a pair is the same

    def read(order: Any) -> list[Any]:
        own = user[order], item[order].astype(np.int32), rating[order] if rated else None
        data = Interactions(*own, items=20)
        sides = [vars(side).values() for side in (data.by_user, data.by_item)]
        columns = [column for side in sides for column in side]
        for mine in own[1:]:  # what becomes of the caller's arrays does not matter
            if mine is not None:
                mine[:] = 0
        return columns

    expected = read(np.arange(200))  # sorted by user and item: nothing is to be done
    by_user = np.argsort(user + rng.random(200), kind="stable")
    for order in (by_user, np.argsort(item, kind="stable"), rng.permutation(200)):
        for column, other in zip(read(order), expected, strict=True):
            np.testing.assert_array_equal(column, other)
            assert getattr(column, "dtype", None) == getattr(other, "dtype", None)


def test_repeated_ratings_are_averaged() -> None:
    data = made(user=["ann"] * 4, item=[10, 20, 10, 10])
    np.testing.assert_array_equal(data.by_user.other, [0, 1])
    np.testing.assert_allclose(data.by_user.rating, [10.5 / 3, 1.0])


def test_repeated_events_count_once() -> None:
    data = made(user=["ann"] * 4, item=[10, 20, 10, 10], rating=None)
    assert not data.explicit
    np.testing.assert_array_equal(data.by_user.other, [0, 1])
    np.testing.assert_array_equal(data.by_user.start, [0, 2])


def test_the_graph_has_each_pair_once() -> None:
    graph = made().graph
    np.testing.assert_array_equal(graph.user_sizes(), [2, 1, 1])
    np.testing.assert_array_equal(graph.task_sizes(), [2, 1, 1, 0])


# The catalog and the range of ratings


def test_the_catalog_may_be_given_counted_declared_or_unknown() -> None:
    given_ = made()
    assert (given_.items, given_.catalog_is_public, given_.catalog_from_data) == (
        4, True, False,
    )  # fmt: skip
    counted = made(item=[0, 2, 1, 0], items=5)
    assert (counted.items, counted.catalog_is_public, counted.catalog_from_data) == (
        5, True, False,
    )  # fmt: skip
    declared = made(items="public")
    assert declared.item_ids.tolist() == [10, 20, 30]
    assert (declared.catalog_is_public, declared.catalog_from_data) == (True, True)
    unknown = made(items=None)
    assert (unknown.items, unknown.catalog_is_public) == (3, False)


def test_items_may_be_strings_in_the_order_of_the_catalog() -> None:
    data = made(item=["x", "z", "y", "x"], items=["z", "x", "unused", "y"])
    assert data.item_ids.tolist() == ["z", "x", "unused", "y"]
    np.testing.assert_array_equal(data.by_user.other, [1, 3, 0, 1])


def test_ratings_outside_the_range_are_refused_or_clipped() -> None:
    with pytest.raises(ap.DataError, match=r'rating: row 0 is outside 1 to 4; outside="clip"'):
        made(rating_range=(1, 4))
    clipped = made(rating_range=(2, 4), outside="clip")
    np.testing.assert_array_equal(clipped.by_user.rating, [4.0, 3.5, 2.0, 2.0])
    assert clipped.rating_range == (2.0, 4.0)


def test_the_ends_of_the_range_are_inside() -> None:
    made(rating=[0.1, 0.7, 0.3, 0.1], rating_range=(0.1, 0.7))  # neither is exact in 32 bits


# Frames, files and matrices


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame, pa.table])
@pytest.mark.parametrize("ids", ["strings", "numbers"])
def test_frames(make: Any, ids: str) -> None:
    user = COLUMNS["user"] if ids == "strings" else [7, 2**60, 7, -1]
    frame = make({"who": user, "what": COLUMNS["item"], "stars": COLUMNS["rating"]})
    names = {"user": "who", "item": "what", "items": CATALOG}
    assert same(Interactions.from_frame(frame, rating="stars", **names), made(user=user))
    assert same(Interactions.from_frame(frame, rating=None, **names), made(user=user, rating=None))


@pytest.mark.parametrize("ending", [".csv", ".parquet", ".pq", ".txt"])
def test_files(tmp_path: Path, ending: str) -> None:
    path, frame = tmp_path / f"rows{ending}", pl.DataFrame(COLUMNS)
    (frame.write_parquet if ending in (".parquet", ".pq") else frame.write_csv)(path)
    assert same(Interactions.from_path(path, items=CATALOG), made())
    assert same(Interactions.from_path(str(path), rating=None, items="public"), made(rating=None))


def test_a_folder_of_parquet_files(tmp_path: Path) -> None:
    frame = pl.DataFrame(COLUMNS)
    frame[:1].write_parquet(tmp_path / "a.parquet")
    frame[1:].write_parquet(tmp_path / "b.parquet")
    assert same(Interactions.from_path(tmp_path, items=CATALOG), made())


def test_ids_in_csv_files_are_not_merged(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("user,item,rating\n7,1,1\n007,1,2\n+7,1,3\n")
    data = Interactions.from_path(path, items=[1])
    assert data.user_ids.tolist() == ["+7", "007", "7"]
    assert data.item_ids.tolist() == [1]


def test_the_kind_of_a_csv_column_is_decided_by_all_of_its_rows(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("user,item,rating\n" + "1,1,4\n" * 2000 + "x,1, 3.5\n")
    data = Interactions.from_path(path, items="public")
    assert data.user_ids.tolist() == ["1", "x"]
    np.testing.assert_array_equal(data.by_user.rating, [4.0, 3.5])


@pytest.mark.parametrize("make", [sp.csr_matrix, sp.csc_array, sp.coo_matrix])
def test_sparse_matrices(make: Any) -> None:
    table = np.array([[5, 0, 1], [0, 0, 0], [0, 2, 0]])
    events = Interactions.from_sparse(make(table))
    assert (events.users, events.items, events.explicit) == (2, 3, False)
    assert pairs(events) == {(0, 0), (0, 2), (2, 1)}
    ratings = Interactions.from_sparse(make(table), feedback="explicit", rating_range=(1, 5))
    np.testing.assert_array_equal(ratings.by_user.rating, [5, 1, 2])
    assert not Interactions.from_sparse(make(table), public_items=False).catalog_is_public


def test_stored_zeros_are_ratings_but_not_events() -> None:
    matrix = sp.coo_matrix(([0.0, 2.0], ([0, 0], [0, 1])), shape=(1, 2))
    assert pairs(Interactions.from_sparse(matrix)) == {(0, 1)}
    ratings = Interactions.from_sparse(matrix, feedback="explicit")
    np.testing.assert_array_equal(ratings.by_user.rating, [0.0, 2.0])


# Parts


def test_take_keeps_users_items_and_order() -> None:
    data = random_data()
    mask = np.asarray(data.by_user.rating) > 0.5
    part = data.take(mask)
    assert (part.users, part.items) == (data.users, data.items)
    whole = dense(data.by_user, data.items)
    np.testing.assert_array_equal(
        dense(part.by_user, part.items), np.where(whole > 0.5, whole, np.nan)
    )
    np.testing.assert_array_equal(
        dense(part.by_item, part.users), dense(part.by_user, part.items).T
    )
    # Row numbers in any order, even repeated, mean the same rows.
    shuffled = np.random.default_rng(0).permutation(np.flatnonzero(mask))
    again = data.take(np.concatenate([shuffled, shuffled[:5]]))
    np.testing.assert_array_equal(again.by_user.start, part.by_user.start)
    np.testing.assert_array_equal(again.by_user.other, part.by_user.other)


def test_parts_do_not_share_what_was_computed_for_the_whole() -> None:
    data = random_data()
    assert data.by_item.start[-1] == len(data.user_of_row)
    part = data.take(np.arange(10))
    assert part.by_item.start[-1] == len(part.user_of_row) == 10


def test_positives() -> None:
    events = made(rating_range=(1, 5)).positives(3.5)
    assert pairs(events) == {("ann", 10), ("ann", 20)}
    assert (events.explicit, events.users) == (False, 3)
    assert repr(events) == "Interactions(items=4, implicit)"
    with pytest.raises(ap.DataError, match="no ratings"):
        events.positives(3)
    with pytest.raises(ap.ParameterError, match="at_least"):
        made().positives("high")


def test_split_shares_and_repeats() -> None:
    data = random_data(users=500, items=60, rows=20_000)
    rows = len(data.by_user.other)
    parts = data.split((0.7, 0.2, 0.1), seed=5)
    sizes = [len(part.by_user.other) for part in parts]
    assert sum(sizes) == rows
    # Four standard deviations of a binomial share.
    np.testing.assert_allclose(np.array(sizes) / rows, [0.7, 0.2, 0.1], atol=4 * 0.5 / rows**0.5)
    assert set.union(*(pairs(part) for part in parts)) == pairs(data)
    assert all(map(same, parts, data.split((0.7, 0.2, 0.1), seed=5)))
    assert pairs(parts[0]) != pairs(data.split((0.7, 0.2, 0.1), seed=6)[0])


def test_a_user_who_leaves_changes_no_one_elses_part() -> None:
    data = random_data()
    gone = data.user_ids[3]
    stays = data.user_of_row != 3
    smaller = Interactions(
        data.user_ids[data.user_of_row[stays]], data.by_user.other[stays], items=data.items
    )
    for part, other in zip(data.split(), smaller.split(), strict=True):
        assert {pair for pair in pairs(part) if pair[0] != gone} == pairs(other)


def test_held_out_users() -> None:
    data = random_data(users=300, rows=4000)
    training, held = data.hold_out_users(50, history=0.75, at_least=8, seed=1)
    assert len(held.users) == len(set(held.users.tolist())) == 50
    history, labels = (np.diff(part.by_user.start) for part in (held.history, held.labels))
    assert (np.flatnonzero(history) == held.users).all()
    sizes = (history + labels)[held.users]
    assert sizes.min() >= 8
    np.testing.assert_array_equal(history[held.users], np.round(0.75 * sizes))
    assert not pairs(held.history) & pairs(held.labels)
    assert not np.diff(training.by_user.start)[held.users].any()
    rest = pairs(training) | pairs(held.history) | pairs(held.labels)
    assert rest == pairs(data)
    again = data.hold_out_users(50, history=0.75, at_least=8, seed=1)[1]
    np.testing.assert_array_equal(again.users, held.users)
    other = data.hold_out_users(50, history=0.75, at_least=8, seed=2)[1]
    assert not np.array_equal(other.users, held.users)


def test_a_held_out_users_history_is_its_own_affair() -> None:
    data = random_data(users=100, rows=1500)
    everyone = data.hold_out_users(data.users)[1].history
    stays = data.user_of_row != 0
    smaller = Interactions(
        data.user_ids[data.user_of_row[stays]], data.by_user.other[stays], items=data.items
    )
    others = smaller.hold_out_users(smaller.users)[1].history
    assert {pair for pair in pairs(everyone) if pair[0] != data.user_ids[0]} == pairs(others)


@pytest.mark.parametrize("size", [1, 2, 3])
def test_small_held_out_users_have_a_history_and_a_label_where_they_can(size: int) -> None:
    data = Interactions([0] * size, range(size), items=3)
    held = data.hold_out_users(1, history=0.9)[1]
    assert len(held.history.by_user.other) == max(1, size - 1)
    assert len(held.labels.by_user.other) == (size > 1)


def test_seeds_may_be_large() -> None:
    data = random_data()
    assert pairs(data.split(seed=2**64 + 1)[0]) == pairs(data.split(seed=1)[0])


# Refusals


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"rating": [1.0, np.nan, 2.0, 3.0]}, "rating: row 1 is missing or not finite"),
        ({"rating": [1.0, 2.0, None, 3.0]}, "rating: row 2 is missing or not finite"),
        ({"rating": np.array([1.0, 1e300, 1.0, 1.0])}, "rating: row 1 is missing or not finite"),
        ({"rating": [1.0, -np.inf, 2.0, 3.0]}, "rating: row 1 is missing or not finite"),
        ({"rating": [1.0, np.inf, 2.0, 3.0]}, "rating: row 1 is missing or not finite"),
        ({"rating": [2, 2, 0, 2], "rating_range": (1, 4)}, "rating: row 2 is outside 1 to 4"),
        ({"rating": [2, 5, 2, 2], "rating_range": (1, 4)}, "rating: row 1 is outside 1 to 4"),
        ({"rating": ["good", "bad", "good", "bad"]}, "rating must hold numbers only"),
        ({"rating": pl.Series([1, 2, 3, 4], dtype=pl.Int128)}, "rating must hold numbers only"),
        ({"rating": [1.0, 2.0]}, "rating must have one number for each of 4 rows"),
        ({"rating": [[1.0]] * 4}, "rating must have one number for each of 4 rows"),
        ({"user": ["ann"]}, "user has 1 rows and item has 4"),
        ({"user": ["ann", None, "bob", "cem"]}, "user: row 1 is missing"),
        ({"user": "anna"}, "user must be a list or an array"),
        ({"item": [10, 20, 99, 10]}, "item: row 2 is not in the catalog"),
        ({"item": [0, 1, 4, 2], "items": 4}, "item: row 2 is not between 0 and 3"),
        ({"item": [0, 1, -1, 2], "items": 4}, "item: row 2 is not between 0 and 3"),
        ({"item": ["a", "b", "c", "d"]}, "both hold strings or both hold whole numbers"),
        ({"item": np.array([1.0, np.nan, 1.0, 1.0])}, "item: row 1 is missing"),
        ({"items": {10, 20, 30}}, "items must be a list or an array"),
    ],
)
def test_refused_data(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ap.DataError, match=message):
        made(**changes)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"rating_range": (5, 1)}, "rating_range must go up"),
        ({"rating_range": (1, 1)}, "rating_range must go up"),
        ({"rating_range": 5}, "rating_range must be two numbers"),
        ({"rating_range": (1, 2, 3)}, "rating_range must be two numbers"),
        ({"rating_range": (1, np.nan)}, "rating_range must be two numbers"),
        ({"outside": "drop"}, 'outside must be "error" or "clip"'),
        ({"items": "all"}, "items must be a number, a list of ids"),
        ({"items": 0}, "items must be a whole number"),
        ({"items": True}, "items must be a whole number"),
        ({"items": [10, 20, 30, 10]}, "the same item twice"),
    ],
)
def test_refused_parameters(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ap.ParameterError, match=message):
        made(**changes)


@pytest.mark.parametrize("frame", [COLUMNS, [1, 2], np.ones((3, 3)), None])
def test_what_is_not_a_table_is_refused(frame: Any) -> None:
    with pytest.raises(ap.DataError, match="from_frame takes a pandas, polars or pyarrow table"):
        Interactions.from_frame(frame)


@pytest.mark.parametrize("column", ["user", "item", "rating"])
@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame, pa.table])
def test_frames_with_a_column_missing_or_with_a_gap(make: Any, column: str) -> None:
    with pytest.raises(ap.DataError, match="has no column 'nope'"):
        Interactions.from_frame(make(COLUMNS), **{column: "nope"})
    gap = {**COLUMNS, column: [*COLUMNS[column][:3], None]}
    with pytest.raises(ap.DataError, match=f"{column}: row 3 is missing"):
        Interactions.from_frame(make(gap), items=CATALOG)


def test_refused_matrices() -> None:
    with pytest.raises(ap.DataError, match=r"takes a scipy\.sparse matrix"):
        Interactions.from_sparse(np.ones((2, 2)))
    with pytest.raises(ap.ParameterError, match="feedback must be"):
        Interactions.from_sparse(sp.eye(2), feedback="both")
    with pytest.raises(ap.DataError, match="rating: row 0"):
        Interactions.from_sparse(sp.coo_matrix([[np.nan, 1.0]]), feedback="explicit")


def test_refused_files(tmp_path: Path) -> None:
    with pytest.raises(ap.DataError, match="there is no file or folder"):
        Interactions.from_path(tmp_path / "none.csv")
    with pytest.raises(ap.DataError, match="cannot be read"):
        Interactions.from_path(tmp_path)
    path = tmp_path / "rows.csv"
    path.write_text("who,item,rating\n1,2,3\n")
    with pytest.raises(ap.DataError, match="no column 'user': the first line of a CSV file"):
        Interactions.from_path(path)
    path.write_text("user,item,rating\n1,2,3\n1,3,secret\n")
    with pytest.raises(ap.DataError, match="rating: row 1 is not a number") as caught:
        Interactions.from_path(path)
    assert "secret" not in str(caught.value)
    path.write_text("user,item,rating\n1,2,3\n1,3\n")
    with pytest.raises(ap.DataError, match="rating: row 1 is missing"):
        Interactions.from_path(path)
    path.write_text("user,item,rating\n1,2,3\n1,3,3,4\n")
    with pytest.raises(ap.DataError, match="cannot be read"):
        Interactions.from_path(path)
    path.write_bytes(b"")
    with pytest.raises(ap.DataError, match="is empty"):
        Interactions.from_path(path)


@pytest.mark.parametrize("keep", [0, 3, 0.5, 0.99])
def test_damaged_parquet(tmp_path: Path, keep: float) -> None:
    path = tmp_path / "rows.parquet"
    pl.DataFrame(COLUMNS).write_parquet(path)
    content = path.read_bytes()
    path.write_bytes(content[: keep if isinstance(keep, int) else int(keep * len(content))])
    with pytest.raises(ap.DataError, match=r"rows.parquet cannot be read"):
        Interactions.from_path(path)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda d: d.split((0.5, 0.4)), "must sum to 1"),
        (lambda d: d.split((1.5, -0.5)), "a share"),
        (lambda d: d.split(seed=-1), "seed"),
        (lambda d: d.hold_out_users(0), "users must be"),
        (lambda d: d.hold_out_users(1, history=1.0), "history must be"),
        (lambda d: d.hold_out_users(1, at_least=0), "at_least must be"),
        (lambda d: d.hold_out_users(1, seed=0.5), "seed must be"),
    ],
)
def test_refused_splits(call: Any, message: str) -> None:
    with pytest.raises(ap.ParameterError, match=message):
        call(made())


def test_more_held_out_users_than_there_are() -> None:
    with pytest.raises(ap.DataError, match="fewer than 2 users have at least 2"):
        made().hold_out_users(2, at_least=2)


def test_errors_do_not_show_private_values() -> None:
    for changes in ({"item": ["secret"] * 4, "items": ["x"]}, {"user": ["secret", 1, 2, 3]}):
        with pytest.raises(ap.DataError) as caught:
            made(**changes)
        assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({}, "Interactions(items=4, explicit)"),
        ({"rating_range": (0.5, 5)}, "Interactions(items=4, explicit, ratings from 0.5 to 5)"),
        ({"rating": None}, "Interactions(items=4, implicit)"),
        ({"items": None}, "Interactions(explicit)"),
    ],
)
def test_the_text_shows_public_facts_only(changes: dict[str, Any], text: str) -> None:
    assert repr(made(**changes)) == text


def test_splitting_users() -> None:
    data = simulate_interactions(users=300, items=20, rows=3000)
    parts = data.split_users((0.6, 0.4), seed=3)
    owners = [set(part.user_of_row.tolist()) for part in parts]
    assert owners[0] | owners[1] == set(range(300))
    assert not owners[0] & owners[1]
    assert 90 < len(owners[1]) < 150
    # A user's side does not depend on who else is there.
    some = data.take(data.user_of_row % 2 == 0).split_users((0.6, 0.4), seed=3)
    assert set(some[1].user_of_row.tolist()) == {user for user in owners[1] if user % 2 == 0}
    with pytest.raises(ap.ParameterError, match="sum to 1"):
        data.split_users((0.6, 0.6))


def test_a_catalog_that_changes_later_does_not_change_the_data() -> None:
    catalog = np.array([5, 6, 7])
    data = Interactions([1, 2], [5, 6], items=catalog)
    catalog[0] = 99
    assert data.item_ids.tolist() == [5, 6, 7]


@pytest.mark.parametrize("rated", [True, False])
@pytest.mark.parametrize("by", [["item"], ["item", "user"], ["user"], ["user", "item"], ["rating"]])
def test_whatever_rows_are_sorted_by(by: list[str], rated: bool) -> None:
    rng = np.random.default_rng(4)
    pairs = rng.permutation(12 * 9)[:60]  # none twice
    rating = rng.random(60).astype(np.float32)
    frame = pl.DataFrame({"user": pairs // 9, "item": pairs % 9, "rating": rating})
    data = Interactions.from_frame(
        frame.sort(by, maintain_order=True), items=9, rating="rating" if rated else None
    )
    for side, keys in ((data.by_user, ["user", "item"]), (data.by_item, ["item", "user"])):
        expected = frame.sort(keys)
        np.testing.assert_array_equal(side.other, expected[keys[1]])
        if rated:
            np.testing.assert_array_equal(side.rating, expected["rating"])


def test_a_rating_range_makes_the_entries_of_a_matrix_ratings() -> None:
    matrix = sp.coo_matrix([[5.0, 0.0], [1.0, 3.0]])
    data = Interactions.from_sparse(matrix, rating_range=(1, 5))
    assert data.explicit
    assert data.rating_range == (1.0, 5.0)
    assert not Interactions.from_sparse(matrix).explicit
    with pytest.raises(ap.ParameterError, match="events have no rating_range"):
        Interactions.from_sparse(matrix, feedback="implicit", rating_range=(1, 5))


@pytest.mark.parametrize("shares", [0.8, 1, "80:20", None])
@pytest.mark.parametrize("by", ["split", "split_users"])
def test_shares_are_several(by: str, shares: Any) -> None:
    data = Interactions([1, 2], [1, 2], items=3)
    with pytest.raises(ap.ParameterError, match=r"one number for each part, such as \(0.8, 0.2\)"):
        getattr(data, by)(shares)


def test_what_to_do_without_ratings_is_said(tmp_path: Path) -> None:
    frame = pl.DataFrame({"user": [1], "item": [2]})
    with pytest.raises(ap.DataError, match="for events without ratings give rating=None"):
        Interactions.from_frame(frame)
    frame.write_csv(tmp_path / "events.csv")
    with pytest.raises(ap.DataError, match="for events without ratings give rating=None"):
        Interactions.from_path(tmp_path / "events.csv")
