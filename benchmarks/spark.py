"""Sweeps on Spark: against one machine and against Spark MLlib's ALS, in the same session, on the same rows.

python -m benchmarks.spark [millions of rows] [--local] [--peers]

Events of ml-20m's shape grown to the size, simulated in Spark. Prints seconds a sweep (the least of all but
the first), the bytes that a sweep broadcasts and brings back, counted and by formula, and the most memory of
all processes. ``--local`` trains on one machine, too, in turns with Spark; ``--peers`` also with MLlib.
"""

import argparse
import json
import os
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np

import apportion as ap
from apportion.data.spark.frames import write_table
from apportion.data.spark.simulate import simulate_in_spark

FACTORS, SWEEPS, ROUNDS = 64, 6, 2


def start(folder: Path) -> Any:
    """A session of two threads on loopback that keeps its events."""
    from pyspark.sql import SparkSession

    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    os.environ["PYSPARK_PYTHON"] = sys.executable
    (folder / "events").mkdir()
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.memory": "3g",
        "spark.local.dir": str(folder / "local"),
        "spark.eventLog.enabled": "true",
        "spark.eventLog.compress": "false",
        "spark.eventLog.dir": (folder / "events").as_uri(),
        "spark.driver.extraJavaOptions": f"-Dderby.system.home={folder}",
    }
    builder = SparkSession.builder.master("local[2]").appName("apportion benchmark")
    for name, value in settings.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session


def sweep(data: ap.Interactions, factors: int, engine: Any = "auto") -> float:
    """Seconds of a private sweep: the least, since other programs can only add to it."""
    stamps: list[float] = []
    model = ap.MatrixFactorization(
        factors, SWEEPS, "implicit", epsilon=1.0, noise_seed=0, engine=engine
    )
    model.fit(data, on_sweep=lambda *_: stamps.append(time.perf_counter()))
    return float(np.diff(stamps).min())


def mllib(frame: Any, factors: int, *, implicit: bool) -> float:
    """Seconds of one of MLlib's iterations: those of three less those of one, halved."""
    from pyspark.ml.recommendation import ALS
    from pyspark.sql import functions

    rated = frame.withColumn("rating", functions.lit(1.0)) if implicit else frame
    rated = rated.persist()
    rated.count()
    taken = []
    for iterations in (1, 3):
        began = time.perf_counter()
        ALS(
            rank=factors, maxIter=iterations, implicitPrefs=implicit, userCol="user", itemCol="item",
            ratingCol="rating",
        ).fit(rated)  # fmt: skip
        taken.append(time.perf_counter() - began)
    rated.unpersist()
    return (taken[1] - taken[0]) / 2


def moved(folder: Path) -> tuple[int, int]:
    """Bytes written to shuffles, and bytes of results brought to the driver, of all tasks so far."""
    shuffled = results = 0
    for path in (folder / "events").rglob("*"):
        if path.is_dir():
            continue
        for line in path.read_text(errors="replace").splitlines():
            if '"SparkListenerTaskEnd"' in line:
                told = json.loads(line).get("Task Metrics", {})
                shuffled += told.get("Shuffle Write Metrics", {}).get("Shuffle Bytes Written", 0)
                results += told.get("Result Size", 0)
    return shuffled, results


def _size(folder: Path) -> int:
    """Bytes of all files in a folder."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


class Memory(threading.Thread):
    """The most memory that this process and those it has started took together, in bytes.

    Attributes
        most: the sum.
        largest: of which the parts of the driver, of Java and of the Python workers, at that time.
    """

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.most, self.largest = 0, dict[str, int]()
        self._over = threading.Event()

    def run(self) -> None:
        while not self._over.wait(0.5):
            now = self._now()
            if sum(now.values()) > self.most:
                self.most, self.largest = sum(now.values()), now

    def stop(self) -> None:
        self._over.set()

    @staticmethod
    def _now() -> dict[str, int]:
        parents, sizes, names = {}, {}, {}
        for one in Path("/proc").iterdir():
            if not one.name.isdigit():
                continue
            try:
                before, _, after = (one / "stat").read_text().rpartition(")")
                rollup = (one / "smaps_rollup").read_text()
            except OSError:
                continue
            number = int(one.name)
            parents[number] = int(after.split()[1])
            pss = next(line for line in rollup.splitlines() if line.startswith("Pss:"))
            sizes[number] = int(pss.split()[1]) * 1024
            names[number] = "Java" if "java" in before else "workers"
        family = {os.getpid()}
        for _ in range(8):
            family |= {pid for pid, parent in parents.items() if parent in family}
        found = {"driver": sizes.pop(os.getpid(), 0), "Java": 0, "workers": 0}
        for pid, size in sizes.items():
            if pid in family:
                found[names[pid]] += size
        return found


def main(
    millions: float, folder: Path, *, local: bool, peers: bool, factors: int = FACTORS
) -> None:
    """Everything that is printed."""
    rows = int(millions * 1e6)
    users, items = max(10, rows // 73), max(20, min(rows // 500, 100_000))
    memory = Memory()
    memory.start()
    session = start(folder)
    began = time.perf_counter()
    frame = simulate_in_spark(
        session, users=users, items=items, rows=rows, rating_range=(1.0, 5.0), popular_tenth=0.86
    )
    write_table(frame, str(folder / "rows"))
    print(f"{rows:,} rows, {users:,} users, {items:,} items, {factors} factors", flush=True)
    print(f"simulated in {time.perf_counter() - began:.1f} s", flush=True)
    began = time.perf_counter()
    data = ap.Interactions.from_spark(
        str(folder / "rows"), rating=None, items=items, store=str(folder / "store")
    )
    shards = data.rows().shards  # type: ignore[attr-defined]
    print(f"stored as {shards} shards in {time.perf_counter() - began:.1f} s", flush=True)
    before = moved(folder)
    ours = sweep(data, factors, ap.SparkEngine(session))
    after = moved(folder)
    shuffled, results = ((b - a) / SWEEPS for a, b in zip(before, after, strict=True))
    stored = _size(folder / "store")
    kept = sum(_size(place) for place in (folder / "local").glob("blockmgr-*/apportion"))
    print(
        f"{stored / rows:.1f} bytes a row in the store, {kept / rows:.1f} kept by the executors",
        flush=True,
    )
    size = items * factors / 1e6
    print(
        f"bytes of a sweep: {shuffled / 1e6:.1f} MB shuffled, {results / 1e6:.1f} MB to the driver "
        f"(with a part of what is released before the sweeps); by formula {shards} shards of 4 bytes x "
        f"items x factors = {4 * size:.1f} MB, and 12 bytes x items x factors broadcast = "
        f"{12 * size:.1f} MB",
        flush=True,
    )
    if peers or local:
        here = ap.Interactions.from_path(folder / "rows", rating=None, items=items)
        alone = sweep(here, factors)
        for _ in range(ROUNDS - 1):
            ours = min(ours, sweep(data, factors, ap.SparkEngine(session)))
            alone = min(alone, sweep(here, factors))
        print(f"one machine: {alone:.2f} s a sweep; Spark takes {ours / alone:.2f} x that")
        del here
    print(f"Spark: {ours:.2f} s a sweep", flush=True)
    if peers:
        table = session.read.parquet(str(folder / "rows"))
        for name, implicit in (("implicit", True), ("explicit", False)):
            theirs = mllib(table, factors, implicit=implicit)
            print(
                f"MLlib, {name}: {theirs:.2f} s an iteration, {theirs / ours:.1f} x ours",
                flush=True,
            )
    memory.stop()
    parts = ", ".join(f"{name} {size / 1e9:.1f}" for name, size in memory.largest.items())
    print(f"most memory of all processes together: {memory.most / 1e9:.1f} GB ({parts})")
    session.stop()


if __name__ == "__main__":
    words = argparse.ArgumentParser()
    words.add_argument("millions", type=float, nargs="?", default=3.8)
    words.add_argument("--local", action="store_true")
    words.add_argument("--peers", action="store_true")
    given = words.parse_args()
    with tempfile.TemporaryDirectory() as place:
        main(given.millions, Path(place), local=given.local, peers=given.peers)
