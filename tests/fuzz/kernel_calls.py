"""A good call of every compiled function, small enough to be made many thousand times."""

import random
from collections.abc import Callable
from typing import Any

import numpy as np

from apportion.engine.users import turned_items
from apportion.privacy.discrete import Scales, blocks

Arguments = dict[str, Any]
USERS, ITEMS, TASKS, D, WIDTH, THREADS = 6, 5, 4, 5, 16, 2


def _starts(rng: np.random.Generator, groups: int, most: int = 4) -> Any:
    return np.concatenate([[0], np.cumsum(rng.integers(0, most, groups))])


def _solve_users(rng: np.random.Generator) -> Arguments:
    start = _starts(rng, USERS, 30)
    items = rng.normal(size=(ITEMS, D))
    shared = items.T @ items * rng.integers(0, 2)
    turned, eigenvalues, turn = turned_items(items, shared)
    return {
        "start": start,
        "item": rng.integers(0, ITEMS, start[-1]).astype(np.int32),
        "label": rng.normal(size=start[-1]),
        "items": items,
        "ridge": rng.uniform(0, 2, USERS),
        "shared": shared,
        "turned": turned,
        "eigenvalues": eigenvalues,
        "turn": turn,
        "bound": 1.0 if rng.integers(0, 2) else None,
        "stretch": bool(rng.integers(0, 2)),
        "threads": THREADS,
        "exact": bool(rng.integers(0, 2)),
    }


def _short_rows(rng: np.random.Generator) -> Arguments:
    return {
        "rows": rng.normal(size=(USERS, D)),
        "bound": 1.0,
        "stretch": True,
        "threads": THREADS,
    }


def _rows(rng: np.random.Generator, features: Any) -> Arguments:
    start = _starts(rng, TASKS, 50)
    rows = start[-1]
    return {
        "features": features,
        "d": D,
        "user": rng.integers(0, USERS, rows).astype(np.int32),
        "label": rng.normal(size=rows),
        "share": rng.uniform(size=USERS) if rng.integers(0, 2) else None,
        "weight": rng.uniform(size=rows),
        "start": start,
        "threads": THREADS,
    }


def _label_sums(rng: np.random.Generator) -> Arguments:
    features = rng.integers(-9000, 9000, (USERS, WIDTH)).astype(np.int16)
    return {**_rows(rng, features), "unit": 2.0**-15, "grid": 2.0**-20}


def _gram_sums(rng: np.random.Generator) -> Arguments:
    return {**_label_sums(rng), "grid_of_b": 2.0**-20}


def _float_sums(rng: np.random.Generator) -> Arguments:
    call = _rows(rng, rng.normal(size=(USERS, D)))
    del call["d"]
    return call


def _number_sums(rng: np.random.Generator) -> Arguments:
    return {
        "task": rng.integers(0, TASKS, 40).astype(np.int32),
        "value": rng.normal(size=40) if rng.integers(0, 2) else None,
        "tasks": TASKS,
        "grid": 0.25,
        "threads": THREADS,
    }


def _float_gradients(rng: np.random.Generator) -> Arguments:
    start = _starts(rng, TASKS, 20)
    rows = start[-1]
    features = rng.normal(size=(USERS, D))
    loss = ["squared", "logistic", "hinge", "huber", "absolute", "poisson", "given"]
    return {
        "features": features,
        "norms": np.linalg.norm(features, axis=1),
        "feature_row": rng.integers(0, USERS, rows).astype(np.int32),
        "label": rng.normal(size=rows),
        "weight": rng.uniform(size=rows),
        "start": start,
        "coef": rng.normal(size=(TASKS, D)),
        "loss": loss[rng.integers(0, len(loss))],
        "parameter": 0.5,
        "function": 0,  # an address: there is no way to tell a wrong one
        "bound": 1.0,
        "threads": THREADS,
    }


def _row_gradients(rng: np.random.Generator) -> Arguments:
    return {**_float_gradients(rng), "grid": 2.0**-20}


def _user_gradients(rng: np.random.Generator) -> Arguments:
    call = _row_gradients(rng)
    start = call["start"]
    task = [np.sort(rng.integers(0, TASKS, size)) for size in np.diff(start)]
    return {**call, "task": np.concatenate([*task, np.zeros(0)]).astype(np.int32)}


def _derivatives(rng: np.random.Generator) -> Arguments:
    margin, label = rng.normal(size=(2, 9))
    return {"margin": margin, "label": label, "loss": "logistic", "parameter": 1.0}


def _solve_positive(rng: np.random.Generator) -> Arguments:
    systems, entries = 19, D * (D + 1) // 2
    both = bool(rng.integers(0, 2))
    return {
        "packed": rng.normal(size=(systems, entries)),
        "b": rng.normal(size=(systems, D)),
        "alpha": rng.uniform(size=systems),
        "scale": rng.uniform(size=systems) if both else None,
        "shared": rng.normal(size=entries) if both else None,
        "threads": THREADS,
    }


def _solve_filtered(rng: np.random.Generator) -> Arguments:
    more = {"ridge": 1.0, "most": 512.0, "least": 1e-30, "most_sweeps": 40}
    return {**_solve_positive(rng), **more, "single": bool(rng.integers(0, 2))}


def _fill_noise(rng: np.random.Generator) -> Arguments:
    scales, table = Scales.of(np.resize([1.0, 1e6, 2.0**80], D)), blocks()
    return {
        "out": np.zeros(8 * D, np.int64),
        "at": 0,
        "words": rng.integers(0, 2**64, 200, dtype=np.uint64),
        "used": 0,
        "order": scales.order,
        "ends": scales.ends,
        "variance": scales.variance,
        "block": scales.block,
        "shift": scales.shift,
        "low": scales.low,
        "log": table.log,
        "cut": table.cut,
        "other": table.other,
        "doubt": 2.0**-36,
    }


def _starts_of(rng: np.random.Generator) -> Arguments:
    return {
        "key": rng.integers(0, TASKS, 30).astype(np.int32),
        "keys": TASKS,
        "threads": THREADS,
    }


def _group(rng: np.random.Generator) -> Arguments:
    call = _starts_of(rng)
    if rng.integers(0, 2):
        call["other"] = rng.integers(0, 9, 30).astype(np.int32)
    return {"other": None, **call, "value": _values(rng, 30)}


def _values(rng: np.random.Generator, rows: int) -> Any:
    return rng.normal(size=rows).astype(np.float32) if rng.integers(0, 2) else None


def _turn(rng: np.random.Generator) -> Arguments:
    start = _starts(rng, USERS, 12)
    key = rng.integers(0, ITEMS, start[-1]).astype(np.int32)
    value = _values(rng, start[-1])
    return {"start": start, "key": key, "keys": ITEMS, "value": value, "threads": THREADS}


def _group_twice(rng: np.random.Generator) -> Arguments:
    return {
        "first": rng.integers(0, USERS, 30).astype(np.int32),
        "firsts": USERS,
        "second": rng.integers(0, ITEMS, 30).astype(np.int32),
        "seconds": ITEMS,
        "value": rng.normal(size=30).astype(np.float32),
        "threads": THREADS,
    }


def _number_rows(rng: np.random.Generator) -> Arguments:
    return {"start": _starts(rng, USERS), "threads": THREADS}


def _never_falls(rng: np.random.Generator) -> Arguments:
    return {"values": np.sort(rng.integers(0, 99, 30)), "threads": THREADS}


def _rises_in_groups(rng: np.random.Generator) -> Arguments:
    start = _starts(rng, USERS)
    return {"values": np.arange(start[-1], dtype=np.int32), "start": start, "threads": THREADS}


def _number_span(rng: np.random.Generator) -> Arguments:
    pieces = [rng.integers(3, 20, size).astype(np.int32) for size in (7, 0, 12)]
    return {"pieces": pieces, "low": 3, "span": 17, "threads": THREADS}


def _find_hashed(rng: np.random.Generator) -> Arguments:
    distinct = np.unique(rng.integers(0, 2**64, 20, dtype=np.uint64))
    ids = distinct[rng.integers(0, len(distinct), 50)]
    return {"ids": ids, "distinct": distinct, "threads": THREADS}


def _top(rng: np.random.Generator) -> Arguments:
    start = _starts(rng, USERS, 3)
    return {
        "scores": rng.normal(size=(USERS, 150)).astype(np.float32),
        "k": 4,
        "start": start,
        "skip": rng.integers(0, 150, start[-1]),
        "threads": THREADS,
    }


def _turn_items(rng: np.random.Generator) -> Arguments:
    return {"items": rng.normal(size=(40, D)).astype(np.float32), "threads": THREADS}


def _score(rng: np.random.Generator) -> Arguments:
    return {
        "vectors": rng.normal(size=(USERS, D)).astype(np.float32),
        "panels": rng.normal(size=(64, D)).astype(np.float32),
        "columns": 40,
        "threads": THREADS,
    }


def _choose(rng: np.random.Generator) -> Arguments:
    start = _starts(rng, USERS, ITEMS)
    return {
        "start": start,
        "cumulative": np.cumsum(np.full(ITEMS, 1 / ITEMS)),
        "chance": np.full(4096, 0.5, np.float32),
        "user_vectors": rng.normal(size=(USERS, D)).astype(np.float32),
        "item_vectors": rng.normal(size=(ITEMS, D)).astype(np.float32),
        "place": np.zeros(start[-1], np.int32),
        "taste": np.zeros(start[-1], np.float32),
        "seed": 3,
        "threads": THREADS,
    }


CALLS: dict[str, Callable[[np.random.Generator], Arguments]] = {
    "solve_users": _solve_users,
    "short_rows": _short_rows,
    "gram_sums": _gram_sums,
    "label_sums": _label_sums,
    "float_sums": _float_sums,
    "number_sums": _number_sums,
    "row_gradients": _row_gradients,
    "float_gradients": _float_gradients,
    "user_gradients": _user_gradients,
    "derivatives": _derivatives,
    "solve_filtered": _solve_filtered,
    "solve_positive": _solve_positive,
    "fill_noise": _fill_noise,
    "starts": _starts_of,
    "group": _group,
    "turn": _turn,
    "group_twice": _group_twice,
    "number_rows": _number_rows,
    "never_falls": _never_falls,
    "rises_in_groups": _rises_in_groups,
    "number_span": _number_span,
    "find_hashed": _find_hashed,
    "top": _top,
    "turn_items": _turn_items,
    "score": _score,
    "choose": _choose,
}
# Arrays that are written to in place.
WRITTEN = {"fill_noise": {"out"}, "choose": {"place", "taste"}}


def good_call(name: str, source: random.Random) -> Arguments:
    """Arguments by name, other ones each time."""
    return CALLS[name](np.random.default_rng(source.getrandbits(32)))
