"""From a Parquet file to both orientations, as a ratio to polars' own reading of it, in the same run.

APPORTION_NUM_THREADS=2 POLARS_MAX_THREADS=2 python -m benchmarks.reading [millions of rows]

Simulated ratings of MovieLens-20M's users and items in random order, ids as numbers and as strings of 40
and 18 letters, and with ids as numbers in the order of users, or of users and items. Alternating rounds, the
fastest counts, by the clock and in seconds of the processor. The latter matter less on a busy machine, but
do not show where one core waits for the other. Memory is the most that a process of its own held while
reading, less what it held before and the arrays of both orientations.
"""

import hashlib
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import polars as pl

import apportion as ap

USERS, ITEMS, ROUNDS = 138_493, 26_744, 5


def write(folder: Path, rows: int, people: int, catalog: int) -> dict[str, Path]:
    data = ap.simulate_interactions(users=people, items=catalog, rows=rows)
    order = np.random.default_rng(0).permutation(rows)
    user, item = data.user_of_row[order], data.by_user.other[order].astype(np.int64)
    rating = pl.Series("rating", np.asarray(data.by_user.rating)[order])
    users, items = (
        pl.Series([hashlib.sha1(b"%d" % number).hexdigest()[:length] for number in range(count)])
        for count, length in ((people, 40), (catalog, 18))
    )
    frames = {
        "numbers": pl.DataFrame({"user": user, "item": item, "rating": rating}),
        "strings": pl.DataFrame({"user": users[user], "item": items[item], "rating": rating}),
    }
    frames["numbers, sorted by user"] = frames["numbers"].sort("user", maintain_order=True)
    frames["numbers, sorted by user and item"] = frames["numbers"].sort("user", "item")
    paths = {name: folder / f"{name}.parquet" for name in frames}
    for name, frame in frames.items():
        frame.write_parquet(paths[name])
    return paths


def read(path: Path) -> ap.Interactions:
    data = ap.Interactions.from_path(path, items="public")
    assert data.by_item.start[-1] == data.by_user.start[-1]
    return data


def fastest(*works: Callable[[], object]) -> list[tuple[float, float]]:
    """Seconds by the clock and of the processor, of each, after one round to warm up."""
    best = [(np.inf, np.inf)] * len(works)
    for number in range(ROUNDS + 1):
        for place, work in enumerate(works):
            start, busy = time.perf_counter(), time.process_time()
            work()
            taken = time.perf_counter() - start, time.process_time() - busy
            if number:
                best[place] = min(best[place][0], taken[0]), min(best[place][1], taken[1])
    return best


def most_memory() -> float:
    """The most megabytes that this process has held; unlike ``getrusage``, without its parent's."""
    status = Path("/proc/self/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) / 1024


def peak(path: Path) -> None:
    """Print the megabytes beyond the two orientations, in a process of its own."""
    before = most_memory()
    data = read(path)
    after = most_memory()
    sides = [(side.start, side.other, side.rating) for side in (data.by_user, data.by_item)]
    held = sum(column.nbytes for side in sides for column in side if column is not None) / 2**20
    print(f"{after - before - held:.0f} MB beyond the {held:.0f} MB of the data")


def main(millions: float, people: int = USERS, catalog: int = ITEMS) -> None:
    with tempfile.TemporaryDirectory() as folder:
        files = write(Path(folder), int(millions * 1e6), people, catalog)
        for name, path in files.items():
            peer, ours = fastest(partial(pl.read_parquet, path), partial(read, path))
            for unit, theirs, mine in zip(("s", "CPU s"), peer, ours, strict=True):
                print(
                    f"{millions:g} M rows, ids as {name}: polars {theirs:.2f} {unit}, both "
                    f"orientations {mine:.2f} {unit}, {mine / theirs:.1f} x",
                    flush=True,
                )
            command = [sys.executable, "-m", "benchmarks.reading", "--peak", str(path)]
            subprocess.run(command, check=True)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--peak"]:
        peak(Path(sys.argv[2]))
    else:
        main(float(sys.argv[1]) if len(sys.argv) > 1 else 20.0)
