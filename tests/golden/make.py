"""Makes the files of tests/golden anew: before a release only, and for a new format in a new folder.

    python -m tests.golden.make tests/golden/first

What was part of a release is never made again: it is what people have.
"""

import hashlib
import json
import shutil
import socket
import sys
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

import apportion as ap
from apportion.accounts.running import lock_path
from apportion.accounts.signatures import name_of
from apportion.recommend.loading import sign

HISTORY = {1: 5.0, 4: 1.5}
EVENTS = ["film 2", "film 3"]
OPEN = "ab" * 16  # a training that has not ended


ROWS = [[0.1, -0.3, 0.2, 0.0, 0.4], [0.0, 0.5, -0.2, 0.3, -0.1]]


def make_tasks(folder: Path) -> None:
    """Folders of models of tasks, and what reading them must give."""
    for name in ("tasks", "classes"):
        shutil.rmtree(folder / name, ignore_errors=True)
    data = ap.simulate_tasks(users=400, tasks=4, tasks_per_user=2)
    ridge = ap.MultiTaskRidge(epsilon=3.0, feature_ranges=[(-1, 1)] * 5, intercept=True).fit(data)
    ridge.save(folder / "tasks")
    kinds = [("a", "b", "c", "d")[task] for task in data.task]
    rows = ap.TaskData(data.user, kinds, data.features[data.feature_row], tasks=list("abcd"))
    classes = ap.MultiTaskClassifier(epsilon=3.0, steps=5).fit(rows)
    classes.save(folder / "classes")
    expected = {
        "tasks": ridge.predict([1, 3], ROWS).tolist(),
        "errors": ridge.table()["standard_error"].to_list(),
        "classes": classes.predict_proba(ROWS).tolist(),
    }
    (folder / "expected-tasks.json").write_text(json.dumps(expected, indent=1) + "\n", "utf-8")


def make(folder: Path) -> None:
    """One file of each kind, and what reading them must give."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("ratings", "events"):
        shutil.rmtree(folder / name, ignore_errors=True)
    (folder / "budget.db").unlink(missing_ok=True)
    rows = ap.simulate_interactions(users=300, items=12, rows=1500)
    budget = ap.Budget.create(folder / "budget.db", ap.PrivacyTarget(epsilon=8.0, delta=1e-5))
    titles = {item: f"film {item}" for item in rows.item_ids.tolist()}
    expected: dict[str, Any] = {}

    labeled = ap.Budget(budget.path, label="golden")
    ratings = ap.MatrixFactorization(factors=2, sweeps=2, epsilon=4.0).fit(rows, budget=labeled)
    ratings.save(folder / "ratings", titles)
    key = Ed25519PrivateKey.generate()  # of this one signature, and forgotten
    sign(folder / "ratings", key)
    expected["key"] = name_of(key.public_key())
    found, scores = ratings.recommend(HISTORY, k=5)
    expected["ratings"] = {"items": found.tolist(), "scores": [float(score) for score in scores]}

    names = [titles[item] for item in rows.to_frame()["item"].to_list()]
    texts = ap.Interactions(rows.to_frame()["user"], names)
    events = ap.MatrixFactorization(
        factors=2, sweeps=2, epsilon=4.0, feedback="implicit", catalog="private"
    ).fit(texts)
    events.save(folder / "events")
    found, scores = events.recommend(EVENTS, k=5)
    expected["events"] = {"items": found.tolist(), "scores": [float(score) for score in scores]}

    prepared = ap.MatrixFactorization(factors=2, sweeps=2, epsilon=4.0).prepare(rows, labeled)
    (folder / "preparation.json").write_text(prepared.to_json(), "utf-8")
    expected["preparation"] = {"users": prepared.users, "sums": prepared.sums.tolist()}

    tasks = ap.simulate_tasks(users=200, tasks=4, tasks_per_user=2)
    report = ap.MultiTaskRidge(epsilon=1.0, delta=1e-5).fit(tasks).privacy
    (folder / "report.json").write_text(report.to_json(), "utf-8")
    expected["report"] = {
        "epsilon": report.epsilon,
        "mu": report.mu,
        "releases": len(report.ledger),
    }

    [training, *_] = budget.history()
    budget.note_saved(training.token, hashlib.sha256(b"").hexdigest(), "ratings")
    budget.set_aside("elsewhere", ap.PrivacyTarget(epsilon=0.5, delta=1e-5))
    running = budget.reserve(
        "MultiTaskRidge", ap.PrivacyTarget(epsilon=0.5, delta=1e-5), token=OPEN
    )
    running.tie("the digest of a key")
    running.leave()
    budget.resume(OPEN).leave()
    lock_path(budget.path, OPEN).unlink()
    expected["budget"] = {
        "epsilon": budget.epsilon,
        "left": budget.left,
        "last_hash": budget.last_hash,
        "trainings": [[one.token, one.what, one.label, one.epsilon] for one in budget.history()],
    }
    (folder / "expected.json").write_text(json.dumps(expected, indent=1) + "\n", "utf-8")


def sums(folder: Path) -> dict[str, str]:
    """SHA-256 of every file below a folder that never changes."""
    files = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    kept = [path for path in files if path.suffix not in (".py", ".pyc", ".md", ".txt")]
    return {
        path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in kept
    }


if __name__ == "__main__":
    socket.gethostname = lambda: "host"  # which a budget names
    make(Path(sys.argv[1]))
    make_tasks(Path(sys.argv[1]))
    lines = [f"{digest}  {name}\n" for name, digest in sums(Path(__file__).parent).items()]
    (Path(__file__).parent / "sha256sums.txt").write_text("".join(lines), "utf-8")
