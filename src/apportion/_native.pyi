"""The compiled kernels: functions of arrays. Each has a NumPy twin that defines it."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Shorts = NDArray[np.int16]
Ints = NDArray[np.int32]
Longs = NDArray[np.int64]

digest: str

def isa() -> str: ...
def isas() -> list[str]: ...
def use_isa(name: str) -> None: ...

# Users: engine/twins/users.py

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
) -> Any:
    """Users' vectors [users, d]; with a bound, as ``short_rows`` of it."""

def short_rows(rows: Floats, bound: float, stretch: bool, threads: int) -> Shorts: ...

# Sums: engine/twins/sums.py

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

# Gradients: engine/twins/gradients.py. A loss is squared, logistic, hinge, huber, absolute or poisson; "given" takes
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
