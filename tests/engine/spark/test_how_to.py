"""The examples of docs/how-to/spark.md run as they stand, but for where their files lie."""

import re
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import apportion as ap
from apportion.data.spark.simulate import simulate_in_spark

PAGE = Path(__file__).resolve().parents[3] / "docs/how-to/spark.md"


def test_the_examples_train_recommend_and_judge(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # where the model is saved; Spark was started elsewhere
    rows = simulate_in_spark(spark, users=400, items=200, rows=6000, rating_range=None, seed=3)
    rows.write.parquet(str(tmp_path / "events"))
    for name in ("histories", "later"):
        rows.where("user < 20").write.parquet(str(tmp_path / name))
    blocks = re.findall(r"^```py\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    example = "".join(blocks)
    example = example.replace("hdfs:///tmp/apportion/events", f"{tmp_path}/store")
    for name in ("events", "histories", "later", "recommendations"):
        example = example.replace(f'"{name}"', f'"{tmp_path}/{name}"')
    names: dict[str, Any] = {}
    exec(example, names)
    assert names["found"].users == 20
    assert ap.load("model").privacy.epsilon == pytest.approx(1)
    lists = pl.read_parquet(tmp_path / "recommendations" / "*.parquet")
    assert set(lists["user"]) == set(range(20))
