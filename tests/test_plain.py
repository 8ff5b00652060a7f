"""Settings as plain values and back; known kinds only."""

import json
import math
from typing import Any

import numpy as np
import pytest

import apportion as ap
from apportion.errors import DataError
from apportion.plain import from_plain, to_plain

KINDS = (ap.AdaptiveWeights, ap.PrivateCounts, ap.PublicCounts, ap.TailSampling, ap.Bounds)
SETTINGS = [
    ap.AdaptiveWeights(0.3),
    ap.TailSampling(7, ap.PrivateCounts(share=0.2, method="sample")),
    ap.AdaptiveWeights(counts=ap.PublicCounts((1.0, 2.5, 3.0))),
    ap.Bounds(feature=0.5, normalize=True),
]


@pytest.mark.parametrize("settings", SETTINGS, ids=lambda each: type(each).__name__)
def test_settings_come_back_through_a_file(settings: Any) -> None:
    text = json.dumps(to_plain(settings), allow_nan=False)
    assert from_plain(json.loads(text), KINDS) == settings


@pytest.mark.parametrize(
    ("value", "plain"),
    [
        (math.inf, "inf"),
        (np.float64(0.5), 0.5),
        (np.int32(3), 3),
        ((1, (2.0, None), "user"), [1, [2.0, None], "user"]),
        (True, True),
    ],
)
def test_plain_values(value: Any, plain: Any) -> None:
    assert to_plain(value) == plain
    assert type(to_plain(value)) is type(plain)
    assert from_plain(plain, ()) == value


@pytest.mark.parametrize(
    "plain",
    [
        {"kind": "Path", "path": "x"},  # not of these kinds
        {"kind": "AdaptiveWeights"},
        {"k": 3},
        {"kind": ["TailSampling"], "k": 3},
        {"kind": "PublicCounts", "values": [1.0], "more": 1},
        {"kind": "PublicCounts", "values": ["many"]},
        {"kind": "PrivateCounts", "share": 2.0, "cap": 1, "method": "scale", "floor": 1.0,
         "over_estimate": False},
        {"kind": "x" * 1000},
    ],
    ids=range(8),
)  # fmt: skip
def test_whatever_else_it_is_is_refused(plain: Any) -> None:
    with pytest.raises((DataError, ap.ParameterError)) as refused:
        from_plain(plain, KINDS)
    assert len(str(refused.value)) < 300


def test_what_is_nested_too_deeply_is_refused() -> None:
    deep: Any = []
    for _ in range(100_000):
        deep = [deep]
    with pytest.raises(DataError, match="cannot be read"):
        from_plain(deep, KINDS)


def test_a_kind_is_never_called_with_what_it_does_not_have() -> None:
    """Only the kinds that are asked for, with exactly their own fields."""
    plain = to_plain(ap.TailSampling(3))
    with pytest.raises(DataError, match="no kind of setting"):
        from_plain(plain, (ap.AdaptiveWeights,))
    del plain["k"]
    with pytest.raises(DataError, match="other fields"):
        from_plain(plain, KINDS)
