"""``apportion bench``, as a user runs it."""

import json

import pytest

from apportion.errors import ParameterError
from tests.cli.test_recommend import run


def test_bench_prints_a_table_or_one_json_object() -> None:
    quick = ["--like", "ml-100k", "--factors", 2, "--rounds", 1]
    output = run("bench", *quick)
    for piece in ("943 users x 1,682 items", "a matrix for every item", "of sgemm", "threads"):
        assert piece in output
    found = json.loads(run("bench", *quick, "--against", "implicit", "--json"))
    assert found["factors"] == 2
    assert sorted(found["ratios"]) == [
        "per_item_vs_cg", "per_item_vs_exact", "shared_vs_cg", "shared_vs_exact",
    ]  # fmt: skip
    with pytest.raises(ParameterError, match="like must be"):
        run("bench", "--like", "nothing")
