"""Odd values for hypothesis to choose from: ids, numbers, settings and JSON."""

import math
from typing import Any

import numpy as np
from hypothesis import strategies as st

from tests.fuzz.harness import OUTSIDE, RATING, USER

ABSURD: tuple[Any, ...] = (
    math.nan,
    math.inf,
    -math.inf,
    0,
    -0.0,
    -1,
    1e-320,
    1e-100,
    1e100,
    1e308,
    -1e308,
    10**400,
    2**31,
    2**63,
    2**64,
    0.5,
    1,
    2,
    True,
    None,
    "1",
    "",
    b"1",
    [],
    [1, 2],
    {},
    (1.0, 5.0),
    object(),
    1j,
    np.float32(1),
    np.int8(100),
    np.float64("nan"),
    np.array(1.0),
    np.array([1.0, 2.0]),
)
absurd = st.sampled_from(ABSURD)

large = st.sampled_from(
    (2**31 - 1, 2**31, 2**32, 2**53, 2**53 + 1, 2**63 - 1, 2**63, 2**64 - 1, 2**64, -1, -(2**63))
)
texts = st.sampled_from(
    (USER, "", "a", "a\0", "\0", "\ud800", "7", "007", "é", "e\u0301", "x" * 5000, "nan", "None")
)
ids = (
    st.integers(0, 5)
    | large
    | texts
    | texts.map(lambda text: text.encode("utf-8", "surrogatepass"))
    | st.sampled_from((None, math.nan, math.inf, 1.5, 2.0**60, True, (), [], object(), 1j))
)
# Mostly of one kind, so that some columns pass.
columns = (
    st.lists(st.integers(0, 5), max_size=8)
    | st.lists(texts, max_size=8)
    | st.lists(large, max_size=4)
    | st.lists(ids, max_size=6)
)
ratings = st.lists(
    st.sampled_from(
        (1.0, 3.0, RATING, OUTSIDE, 5.0, 5.5, math.nan, math.inf, -math.inf, 1e300, 0.0, -1)
    ),
    max_size=8,
) | st.lists(absurd, max_size=4)

json = st.recursive(
    st.none()
    | st.booleans()
    | st.sampled_from((0, -1, 1, 2**31, 2**63, 2**64, 10**400, 1e308, 0.5, 1e-5))
    | st.sampled_from((math.nan, math.inf, -math.inf, "inf", "nan", "", "\0", "\ud800", "1"))
    | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=8,
)
