"""Spark Connect, which has frames alone: the same bytes."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import apportion as ap
from apportion.data.spark.sessions import Traveling
from apportion.errors import ParameterError
from tests.engine.spark.remote import SETTINGS, data, split
from tests.engine.spark.running import ROOT


def test_a_model_has_the_bytes_of_one_machine(tmp_path: Path) -> None:
    if "APPORTION_NEEDS_ENGINES" not in os.environ:  # as in .ci/run, where nothing is left out
        pytest.importorskip("grpc", reason="pip install 'apportion[spark-connect]'")
    words = [sys.executable, "-W", "ignore", str(Path(__file__).with_name("remote.py")), tmp_path]
    told = subprocess.run(words, capture_output=True, text=True, cwd=ROOT, check=False)
    assert told.returncode == 0, told.stderr[-3000:]
    here = ap.MatrixFactorization(**SETTINGS).fit(data())
    assert np.load(tmp_path / "items.npy").tobytes() == here.items.tobytes()
    rmse, rows = np.load(tmp_path / "found.npy")
    metrics = ap.evaluate(here, *split()).metrics
    assert isinstance(metrics, ap.metrics.RatingMetrics)
    assert rmse == pytest.approx(metrics.rmse)
    assert rows == len(here.recommend_many(data(), k=3))


class Session:
    """Of Spark Connect, as is known by where its class is from; an old one."""

    __module__ = "pyspark.sql.connect.session"
    read = None

    def newSession(self) -> None:  # noqa: N802
        raise NotImplementedError


def test_old_sessions_are_refused() -> None:
    with pytest.raises(ParameterError, match=r"PySpark 4\.3"):
        ap.SparkEngine(Session())


def test_values_that_are_too_large_to_travel_are_refused() -> None:
    items = np.zeros((1000, 64))
    np.testing.assert_array_equal(Traveling(Session(), items).value, items)
    with pytest.raises(
        ParameterError, match=r"more of items than Spark Connect takes at once \(64 MiB\)"
    ):
        Traveling(Session(), np.zeros((200_000, 64)))
