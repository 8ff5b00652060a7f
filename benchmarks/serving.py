"""Recommending for one history, again and again, from one model: milliseconds of a call.

    python -m benchmarks.serving

Beside each figure: how many times as long it takes where nothing is kept between calls, which is how it was
done at first: ids are indexed and items are laid out anew for every call. Both in the same run, in turns.
"""

import time
from dataclasses import replace

import numpy as np

import apportion as ap
from apportion.recommend.model import ItemModel
from apportion.recommend.recommender import Recommender

# Items, and whether their ids are strings.
SIZES = ((10_000, False), (160_000, True))
FACTORS, HISTORY = 32, 20


def main() -> None:
    data = ap.simulate_interactions(users=500, items=40, rows=8000)
    for feedback in ("explicit", "implicit"):
        small = ap.MatrixFactorization(4, 1, feedback, epsilon=5.0).fit(data)
        for items, text in SIZES:
            released = enlarged(small.released, items, text)
            ids = released.item_ids[:: items // HISTORY].tolist()
            history = {id_: 1.0 + place % 5 for place, id_ in enumerate(ids)}
            given = history if feedback == "explicit" else list(history)
            ours, before = fastest(released, given)
            names = "strings" if text else "numbers"
            print(
                f"{items} items, ids as {names}, {feedback}: {1e3 * ours:.2f} ms a call, "
                f"{before / ours:.0f} times as long with nothing kept"
            )


def fastest(released: ItemModel, given: object) -> tuple[float, float]:
    """Seconds of one call, of a model that has served before and of one that has not, in turns."""
    kept, ours, before = Recommender(released), [], []
    kept.recommend(given)
    for _ in range(10):
        start = time.perf_counter()
        Recommender(released).recommend(given)
        before.append(time.perf_counter() - start)
        for _ in range(50):
            start = time.perf_counter()
            kept.recommend(given)
            ours.append(time.perf_counter() - start)
    return min(ours), min(before)


def enlarged(released: ItemModel, items: int, text: bool) -> ItemModel:
    """A model of so many items."""
    rng = np.random.default_rng(0)
    ids = np.arange(items)
    return replace(
        released,
        items=(rng.normal(size=(items, FACTORS)) / 6).astype(np.float32),
        item_ids=np.array([f"item-{place}" for place in ids], dtype=object) if text else ids,
        counts=np.arange(1.0, items + 1.0, dtype=np.float64),
        intercepts=None
        if released.intercepts is None
        else (rng.normal(size=items) / 5).astype(np.float32),
        titles=None,
    )


if __name__ == "__main__":
    main()
