"""Ids are kept apart: what would merge two users is refused."""

import unicodedata
from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import apportion as ap
from apportion.data.ids import (
    column_array,
    id_keys,
    is_text,
    match_ids,
    number_ids,
    plain_ids,
    read_column,
    read_ids,
)
from tests.threads import this_many_threads


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


def plain(text: str) -> str:
    """What counts of a string: polars strips by Unicode's table."""
    return unicodedata.normalize("NFC", pl.Series([text]).str.strip_chars().item())


def test_white_space_is_that_of_unicode() -> None:
    letters = [chr(code) for code in range(0x110000) if not 0xD800 <= code < 0xE000]
    expected = pl.Series(letters).str.strip_chars() == ""
    alone = np.empty(len(letters), dtype=object)
    alone[:] = letters
    assert [text == "" for text in plain_ids(alone)] == expected.to_list()


@given(st.lists(st.text(), min_size=1, max_size=20))
def test_any_strings(values: list[str]) -> None:
    ids, codes = number_ids(read_ids("user", values))
    assert [ids[code] for code in codes] == [plain(value) for value in values]
    assert len(ids) == len(set(map(plain, values)))


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
    catalog = read_ids("item", ["b", "a"])
    assert match_ids(read_ids("item", ["a", "x", "b"]), catalog).tolist() == [1, -1, 0]
    assert match_ids(np.zeros(0, dtype=object), catalog).tolist() == []


# Numbering


def check_numbering(values: Any) -> None:
    """Against the plainest way: sorted distinct ids, and where each row's is among them."""
    rows = values.to_list() if isinstance(values, pl.Series) else list(values)
    rows = [plain(row) if isinstance(row, str) else row for row in rows]
    distinct, codes = number_ids(read_column("user", values))
    expected = sorted(set(rows))
    assert distinct.tolist() == expected
    assert codes.tolist() == [expected.index(row) for row in rows]


@pytest.fixture
def three_blocks() -> Iterator[None]:
    with this_many_threads(3):
        yield


@pytest.mark.parametrize(
    "dtype", [np.int8, np.uint8, np.int32, np.uint32, np.int64, np.uint64, np.dtype(">i8")]
)
@pytest.mark.usefixtures("three_blocks")
def test_numbers_of_any_size_and_range(dtype: Any) -> None:
    info, rng = np.iinfo(dtype), np.random.default_rng(0)
    native = np.dtype(dtype).newbyteorder("=")
    ids = rng.integers(info.min, info.max, size=20, dtype=native)
    ids[:4] = info.min, info.max, info.min + 1, info.max - 1
    values = rng.permutation(np.repeat(ids, 3)).astype(dtype)
    check_numbering(values)
    check_numbering(values[::2])
    assert number_ids(values)[0].dtype.newbyteorder("=") == native


@pytest.mark.parametrize(
    "dtype", [pl.Int8, pl.UInt8, pl.Int16, pl.UInt16, pl.Int32, pl.UInt32, pl.Int64, pl.UInt64]
)
@pytest.mark.usefixtures("three_blocks")
def test_columns_of_numbers_in_pieces(dtype: Any) -> None:
    rng = np.random.default_rng(1)
    far = rng.integers(127, size=50) * (10**15 if dtype in (pl.Int64, pl.UInt64) else 1)
    for values in (rng.integers(9, size=50), far):
        whole = pl.Series("user", values).cast(dtype)
        pieces = pl.concat([whole[:20], whole[20:20], whole[20:21], whole[21:]], rechunk=False)
        assert pieces.n_chunks() > 2
        check_numbering(pieces)
        np.testing.assert_array_equal(column_array(pieces), whole.to_numpy())
        column = read_column("user", pieces)
        assert isinstance(column, pl.Series)
        assert not is_text(column)


@pytest.mark.parametrize("items", ["public", 9, list(range(9))])
def test_pieces_of_a_table_are_read_as_the_whole(items: Any) -> None:
    rng = np.random.default_rng(2)
    table = pl.DataFrame(
        {
            "user": rng.integers(5, size=90),
            "item": np.append(rng.integers(9, size=81), np.arange(9)),
            "rating": rng.random(90).astype(np.float32),
        }
    )
    pieces = pl.concat([table[:40], table[40:41], table[41:]], rechunk=False)
    assert pieces["item"].n_chunks() == 3
    whole, parts = (ap.Interactions.from_frame(each, items=items) for each in (table, pieces))
    for one, other in zip(vars(whole.by_user).values(), vars(parts.by_user).values(), strict=True):
        np.testing.assert_array_equal(one, other)
    out_of_range = pieces.with_columns(pl.col("item") + 1)
    if items != "public":
        with pytest.raises(ap.DataError, match="item: row"):
            ap.Interactions.from_frame(out_of_range, items=items)


def test_gaps_in_columns_of_numbers_are_refused() -> None:
    values = pl.concat([pl.Series([1, 2]), pl.Series([3, None])], rechunk=False)
    with pytest.raises(ap.DataError, match="user: row 3 is missing"):
        read_column("user", values)


@pytest.mark.parametrize("low", [-(2**63), -5, 0, 2**63 - 9, 2**63 - 2, 2**64 - 9])
@pytest.mark.usefixtures("three_blocks")
def test_close_numbers_anywhere(low: int) -> None:
    kind = np.int64 if low + 8 < 2**63 else np.uint64
    check_numbering(np.array([low + step for step in (7, 0, 3, 3, 8, 0)], dtype=kind))


@given(st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=30))
def test_any_numbers(values: list[int]) -> None:
    check_numbering(np.array(values + values[:3], dtype=np.int64))


@given(st.lists(st.text(st.characters(codec="utf-8")), min_size=1, max_size=20), st.data())
def test_any_columns_of_strings(values: list[str], data: st.DataObject) -> None:
    rows = data.draw(st.lists(st.sampled_from(values), min_size=1, max_size=30))
    text = pl.Series(rows, dtype=pl.String)
    check_numbering(text)
    check_numbering(pl.concat([text, text]))  # in two chunks
    check_numbering(text.cast(pl.Binary))
    named = number_ids(read_column("user", text.cast(pl.Categorical)))[0]
    assert named.tolist() == sorted({plain(row) for row in rows})


@pytest.mark.usefixtures("three_blocks")
def test_strings_with_the_same_hash_stay_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    values = pl.Series(["b", "a", "cc", "b", "a", "a"])
    monkeypatch.setattr(pl.Series, "hash", lambda self: self.str.len_bytes().cast(pl.UInt64))
    check_numbering(values)
    check_numbering(values.to_numpy())
    check_numbering(values[::-1])


def test_numbers_that_begin_in_the_same_slot_stay_apart() -> None:
    # Multiples of 2^32 times the multiplier's inverse end in the first slot of every table.
    inverse = pow(0x9E3779B97F4A7C15, -1, 2**64)
    check_numbering(np.array([k * inverse % 2**64 for k in range(50)] * 2, dtype=np.uint64))


@pytest.mark.parametrize("kind", [pl.String, pl.Binary, pl.Categorical])
def test_gaps_in_columns_of_strings_are_refused(kind: Any) -> None:
    values = pl.Series(["a", "b", None, "a"]).cast(kind)
    with pytest.raises(ap.DataError, match="user: row 2 is missing, or not a string"):
        read_column("user", values)
