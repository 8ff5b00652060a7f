"""A training on a cluster, as a process that can be killed; run by ``cluster.py``.

Arguments: the master, a folder, a name, "seeded" (the noise of a seed) or a folder for a checkpoint, and the
number of shards.
"""

import sys
from pathlib import Path

import numpy as np

import apportion as ap
from apportion.accounts.ledgers import ledger_to_json

SWEEPS = 4


def data() -> ap.Interactions:
    """What is learned from, in this machine's memory."""
    return ap.simulate_interactions(users=900, items=150, rows=20_000, seed=4)


def model(**settings: object) -> ap.MatrixFactorization:
    """What is trained: a matrix for every item, so that sums are many."""
    given = {"solver": ap.SufficientStatistics(matrices="per-item"), "epsilon": 8.0, **settings}
    return ap.MatrixFactorization(12, SWEEPS, **given)


def main(master: str, folder: str, name: str, how: str, shards: str) -> None:
    """Train, say after each sweep how many are done, and write the items and the ledger."""
    from tests.engine.spark.running import make_session

    session = make_session(
        Path(folder) / name,
        master,
        spark_executor_memory="512m",
        spark_executor_cores="1",
        spark_speculation="true",
        spark_speculation_interval="100ms",
        spark_speculation_multiplier="1.1",
        spark_speculation_quantile="0.1",
        spark_task_maxFailures="100",
    )
    store = f"{folder}/rows-{shards}"
    if not Path(store).exists():
        frame = session.createDataFrame(data().to_frame().to_arrow())
        ap.Interactions.from_spark(
            frame, items=150, rating_range=(1, 5), store=store, shards=int(shards)
        )
    rows = ap.Interactions.from_store(session, store)
    seeded = how == "seeded"
    trained = model(engine=ap.SparkEngine(session), noise_seed=1 if seeded else None).fit(
        rows,
        on_sweep=lambda done, total: print(f"sweep {done} of {total}", flush=True),
        checkpoint=None if seeded else how,
    )
    np.save(f"{folder}/{name}.npy", trained.items)
    Path(folder, f"{name}.json").write_text(ledger_to_json(trained.privacy.ledger))
    session.stop()


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[3]))
    main(*sys.argv[1:])
