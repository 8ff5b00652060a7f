"""Ids are kept apart: what would merge two users is refused."""

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import apportion as ap
from apportion.data.ids import id_keys, match_ids, number_ids, read_ids


@pytest.mark.parametrize(
    ("values", "distinct"),
    [
        ([3, 1, 3], 2),
        ([2**63 + 1, 2**63 + 2], 2),
        (["a", "a\0", "b"], 3),
        ([b"a", b"b"], 2),
        ([np.int64(5), np.int64(6)], 2),
        (np.array([1.0, 2.0, 1.0]), 2),
        (np.array([2**64 - 1, 1], dtype=np.uint64), 2),
        (np.array(["x", "y"]), 2),
        (pd.Series(["x", "y", "x"]), 2),
        (pd.Series([1, 2, 1]), 2),
        (["\ud800", "\ud801"], 2),
        (pl.Series(["a", "a\0", "b"]), 3),
        (np.array([-100, 100, 45, -100], dtype=np.int8), 3),
    ],
)
def test_accepted(values: Any, distinct: int) -> None:
    ids, codes = number_ids(read_ids("user", values))
    assert len(ids) == distinct == len(set(id_keys(ids).tolist()))
    assert [ids[code] for code in codes] == list(values)


@pytest.mark.parametrize(
    "values",
    [
        [1, "1"],
        [2**63 + 1, -1],
        [10**30],
        np.array([1e20, 2e20]),
        ["a", float("nan")],
        ["a", None],
        [True, False],
        np.array([True, False]),
        [1.5],
        np.array([np.nan]),
        [object()],
        pd.Series(["x", None]),
        "abc",
        {1, 2},
        5,
    ],
)
def test_refused(values: Any) -> None:
    with pytest.raises(ap.DataError, match="user"):
        number_ids(read_ids("user", values))


@given(st.lists(st.text(), min_size=1, max_size=20))
def test_any_strings(values: list[str]) -> None:
    ids, codes = number_ids(read_ids("user", values))
    assert [ids[code] for code in codes] == values
    assert len(ids) == len(set(values))


def test_keys_depend_on_the_id_alone() -> None:
    first = dict(zip(["a", "b", "c"], id_keys(np.array(["a", "b", "c"], object)), strict=True))
    second = dict(zip(["c", "x"], id_keys(np.array(["c", "x"], object)), strict=True))
    assert first["c"] == second["c"]
    np.testing.assert_array_equal(
        id_keys(np.array([7, -1])), id_keys(np.array(["7", "-1"], object))
    )


def test_distinct_ids_do_not_tell_the_order_of_the_rows() -> None:
    rows = ["pear", "apple", "pear", "fig"]
    distinct, codes = number_ids(read_ids("item", rows))
    assert distinct.tolist() == ["apple", "fig", "pear"]
    assert [distinct[code] for code in codes] == rows


def test_matching_ids() -> None:
    catalogue = read_ids("item", ["b", "a"])
    assert match_ids(read_ids("item", ["a", "x", "b"]), catalogue).tolist() == [1, -1, 0]
    assert match_ids(np.zeros(0, dtype=object), catalogue).tolist() == []
