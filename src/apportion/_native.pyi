"""The compiled kernels: functions of arrays. Each has a NumPy twin that defines it."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Shorts = NDArray[np.int16]
Ints = NDArray[np.int32]
Longs = NDArray[np.int64]
Singles = NDArray[np.float32]
Words = NDArray[np.uint64]

digest: str

def isa() -> str: ...
def isas() -> list[str]: ...
def use_isa(name: str) -> None: ...

# Users: twins/users.py

def solve_users(
    start: Longs,
    item: Ints,
    label: Floats,
    items: Floats,
    ridge: Floats,
    shared: Floats,
    turned: Floats,
    eigenvalues: Floats,
    turn: Floats,
    bound: float | None,
    stretch: bool,
    threads: int,
    exact: bool = False,
) -> Any:
    """Users' vectors [users, d]; with a bound, as ``short_rows`` of it; exact ones in float64."""

def short_rows(rows: Floats, bound: float, stretch: bool, threads: int) -> Shorts: ...

# Sums: twins/sums.py

def gram_sums(
    features: Shorts,
    d: int,
    user: Ints,
    label: Floats,
    share: Floats | None,
    weight: Floats,
    start: Longs,
    unit: float,
    grid: float,
    grid_of_b: float,
    threads: int,
) -> tuple[Longs, Longs]: ...
def label_sums(
    features: Shorts,
    d: int,
    user: Ints,
    label: Floats,
    share: Floats | None,
    weight: Floats,
    start: Longs,
    unit: float,
    grid: float,
    threads: int,
) -> Longs: ...
def float_sums(
    features: Floats,
    user: Ints,
    label: Floats,
    share: Floats | None,
    weight: Floats,
    start: Longs,
    threads: int,
) -> tuple[Floats, Floats]: ...
def number_sums(
    task: Ints, value: Floats | None, tasks: int, grid: float, threads: int
) -> Longs: ...

# Gradients: twins/gradients.py. A loss is squared, logistic, hinge, huber, absolute or poisson; "given" takes
# labels for slopes; "function" calls a C function of a margin and a label at this address.

def row_gradients(
    features: Floats,
    norms: Floats,
    feature_row: Ints,
    label: Floats,
    weight: Floats,
    start: Longs,
    coef: Floats,
    loss: str,
    parameter: float,
    function: int,
    bound: float,
    grid: float,
    threads: int,
) -> Longs: ...
def float_gradients(
    features: Floats,
    norms: Floats,
    feature_row: Ints,
    label: Floats,
    weight: Floats,
    start: Longs,
    coef: Floats,
    loss: str,
    parameter: float,
    function: int,
    bound: float,
    threads: int,
) -> Floats: ...
def user_gradients(
    features: Floats,
    norms: Floats,
    feature_row: Ints,
    label: Floats,
    weight: Floats,
    task: Ints,
    start: Longs,
    coef: Floats,
    loss: str,
    parameter: float,
    function: int,
    bound: float,
    grid: float,
    threads: int,
) -> Longs: ...
def derivatives(margin: Floats, label: Floats, loss: str, parameter: float) -> Floats: ...

# Many small systems: twins/solves.py. Also which of them are not solved, [systems].

def solve_filtered(
    packed: Floats,
    b: Floats,
    alpha: Floats,
    ridge: float,
    most: float,
    least: float,
    most_sweeps: int,
    single: bool,
    scale: Floats | None,
    shared: Floats | None,
    threads: int,
) -> tuple[Floats, NDArray[np.bool_]]:
    """In float32 if ``single``; if the norm of A is from ``least`` to ``most`` times the ridge."""

def solve_positive(
    packed: Floats,
    b: Floats,
    alpha: Floats,
    scale: Floats | None,
    shared: Floats | None,
    threads: int,
) -> tuple[Floats, NDArray[np.bool_]]: ...

# Noise: privacy/discrete.py

def fill_noise(
    out: Longs,
    at: int,
    words: Words,
    used: int,
    order: Longs,
    ends: Longs,
    variance: Floats,
    block: Words,
    shift: Words,
    low: Longs,
    log: Floats,
    cut: Words,
    other: NDArray[np.uint16],
    doubt: float,
) -> tuple[int, int, int, int, int, int, int]: ...

# Counting sorts: twins/sorting.py

def starts(key: Ints, keys: int, threads: int) -> Longs: ...
def group(
    key: Ints, keys: int, other: Ints | None, value: Singles | None, threads: int
) -> tuple[Longs, Ints, Singles | None]: ...
def turn(
    start: Longs, key: Ints, keys: int, value: Singles | None, threads: int
) -> tuple[Longs, Ints, Singles | None]: ...
def group_twice(
    first: Ints, firsts: int, second: Ints, seconds: int, value: Singles, threads: int
) -> tuple[Longs, Ints, Singles]: ...
def number_rows(start: Longs, threads: int) -> Ints: ...
def never_falls(values: Ints | Longs, threads: int) -> bool: ...
def rises_in_groups(values: Ints | Longs, start: Longs, threads: int) -> bool: ...

# Ids: twins/ids.py

def number_span(
    pieces: list[Ints] | list[Words], low: int, span: int, threads: int
) -> tuple[Words, Ints]: ...
def find_hashed(ids: Words, distinct: Words, threads: int) -> Ints: ...

# Scores: twins/topk.py

def top(
    scores: Singles, k: int, start: Longs, skip: Longs, threads: int
) -> tuple[Longs, Singles]: ...
def turn_items(items: Singles, threads: int) -> Singles: ...
def score(vectors: Singles, panels: Singles, columns: int, threads: int) -> Singles: ...

# Simulated data: twins/simulate.py

def choose(
    start: Longs,
    cumulative: Floats,
    chance: Singles,
    user_vectors: Singles,
    item_vectors: Singles,
    place: Ints,
    taste: Singles,
    seed: int,
    threads: int,
) -> None: ...
