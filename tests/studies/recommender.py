"""A small archive in the form of ml-1m, and settings that train in no time."""

import math
from pathlib import Path

from apportion.data import Interactions, simulate_interactions
from tests.data.test_datasets import write_zip

SETTINGS = """
[rating]
delta = 1e-5
[rating.ALS]
factors = 3
sweeps = 2
[rating.SGD]
factors = 3
sweeps = 2
solver__steps = 2
[rating."DPALS uniform"]
factors = 3
sweeps = 1
k = 5
[rating."DPALS tail"]
factors = 3
sweeps = 1
k = 5
counts_share = 0.1
counts_cap = 20
[rating.AdaDPALS]
factors = 3
sweeps = 1
weight_exponent = 0.25
counts_share = 0.1
counts_cap = 20
[rating.AdaDPALS.epsilon.5]
factors = 4
[rating.AdaDPALS.epsilon."0.5"]
sweeps = 2
[rating."DPSGD uniform"]
factors = 3
sweeps = 1
solver__steps = 2
k = 5
[rating."DPSGD tail"]
factors = 3
sweeps = 1
solver__steps = 2
k = 5
counts_share = 0.1
counts_cap = 20
[rating.AdaDPSGD]
factors = 3
sweeps = 1
solver__steps = 2
bounds__feature = 0.5
bounds__label = 1.5
gradient_share = 0.25
weight_exponent = 0.25
counts_share = 0.1
counts_cap = 20
"""
TOP_K = """
positive = 3.0
user_events = 4
held_out = 20
"""


def both_protocols() -> str:
    """The settings with the same methods under both protocols."""
    top_k = SETTINGS.replace("[rating", "[top-k").replace("bounds__label = 1.5\n", "")
    return SETTINGS + top_k.replace("delta = 1e-5\n", f"delta = 1e-5{TOP_K}")


def small_data() -> Interactions:
    """120 users, 40 items, 2,500 ratings."""
    return simulate_interactions(users=120, items=40, rows=2_500, seed=3)


def write_archive(path: Path) -> Path:
    """The small data as an archive of ml-1m, with titles."""
    data = small_data()
    rating = data.by_user.rating
    assert rating is not None
    rows = zip(data.user_of_row, data.by_user.other, rating, strict=True)
    ratings = "".join(f"{user}::{item}::{math.floor(value)}::1\n" for user, item, value in rows)
    titles = "".join(f"{item}::Film {item} (1999)::Drama|War\n" for item in range(data.items))
    return write_zip(path, {"ratings.dat": ratings.encode(), "movies.dat": titles.encode()})
