"""Through Spark Connect, as a process of its own: what is written and trained goes to a folder.

Run by ``test_remote.py``: a process has sessions of Spark Connect, or others.
"""

import sys
from pathlib import Path
from typing import Any

import numpy as np

import apportion as ap
from apportion.data.spark.frames import write_table

SETTINGS: dict[str, Any] = {"factors": 4, "sweeps": 1, "epsilon": 8.0, "noise_seed": 1}


def data() -> ap.Interactions:
    """What is learned from, in this machine's memory."""
    return ap.simulate_interactions(users=300, items=50, rows=4000, seed=4)


def split() -> Any:
    """What is known of the users, and what is to be predicted."""
    return data().split((0.8, 0.2))


def main(folder: Path) -> None:
    """Store, train, recommend and judge."""
    from pyspark.sql import SparkSession

    from tests.engine.spark.running import set_environment

    set_environment()
    builder: Any = SparkSession.builder
    builder = builder.remote("local[2]").config("spark.local.dir", str(folder / "local"))
    session = builder.getOrCreate()
    write_table(session.createDataFrame(data().to_frame().to_arrow()), f"{folder}/rows")
    rows = ap.Interactions.from_spark(
        f"{folder}/rows", items=50, rating_range=(1, 5), store=f"{folder}/store", shards=2
    )
    model = ap.MatrixFactorization(**SETTINGS, engine=ap.SparkEngine(session)).fit(rows)
    np.save(folder / "items.npy", model.items)
    frame = session.read.parquet(f"{folder}/rows")
    best: Any = model.recommend_many(frame, k=3)
    parts: Any = (session.createDataFrame(each.to_frame().to_arrow()) for each in split())
    found = ap.evaluate(model, *parts)
    assert isinstance(found.metrics, ap.metrics.RatingMetrics)
    np.save(folder / "found.npy", [found.metrics.rmse, best.count()])
    session.stop()


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[3]))
    main(Path(sys.argv[1]))
