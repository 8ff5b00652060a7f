"""How long a sweep takes, beside the same of a library without privacy, in the same process."""

import math
import platform
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any, Literal

import numpy as np
from threadpoolctl import threadpool_limits

from apportion.data import Interactions, simulate_interactions
from apportion.data.simulate import SHAPES
from apportion.errors import ParameterError
from apportion.recommend import MatrixFactorization, SufficientStatistics
from apportion.threads import thread_count

OURS: dict[str, Literal["per-item", "shared"]] = {"per_item": "per-item", "shared": "shared"}
PEERS = {"exact": False, "cg": True}


@dataclass(frozen=True)
class Machine:
    """What the machine can do, measured in the same run."""

    processor: str
    threads: int
    sgemm_gflops: float
    copy_gb_per_second: float


@dataclass(frozen=True)
class Speed:
    """The least seconds per sweep (users and items once) that were seen, of ours and of the peer.

    Attributes
        like, factors, users, items, rows: what was trained on.
        seconds: by name: ``per_item`` and ``shared`` are ours, ``exact`` and ``cg`` the peer's.
        ratios: ours over the peer's, ``per_item_vs_exact`` and so on.
        sgemm_share: of the machine's sgemm, by name: arithmetic of ours at that speed would take this
            portion of the time.
        bandwidth_share: of the machine's copies of memory, likewise. What is read again and again comes
            out of caches: this is how much there is to move, not how much memory sees of it.
        machine: see there.
    """

    like: str
    factors: int
    users: int
    items: int
    rows: int
    seconds: dict[str, float]
    ratios: dict[str, float]
    sgemm_share: dict[str, float]
    bandwidth_share: dict[str, float]
    machine: Machine

    def to_dict(self) -> dict[str, Any]:
        """Plain values."""
        return asdict(self)


def run(
    like: str = "ml-20m",
    factors: int = 64,
    against: str | None = "implicit",
    rounds: int = 3,
    on_step: Callable[[str], object] | None = None,
) -> Speed:
    """Time sweeps on simulated events of a data set's shape, ours and the peer's in turn.

    ``on_step`` is told what comes next. All use the same number of threads, those of ``apportion.threads``.
    """
    if like not in SHAPES:
        raise ParameterError(f"like must be one of {', '.join(SHAPES)}, got {like!r}")
    say = on_step or _quiet
    say("simulating")
    data = simulate_interactions(**SHAPES[like])
    data = Interactions(data.user_of_row, data.by_user.other, items=data.items)  # events alone
    jobs: dict[str, Callable[[], list[float]]] = {
        name: partial(_ours, data, factors, matrices) for name, matrices in OURS.items()
    }
    if against is not None:
        jobs |= _peer_jobs(against, data, factors)
    say("compiling")
    small = data.take(np.arange(len(data.by_user.other)) < 5000)
    for matrices in OURS.values():
        _ours(small, factors, matrices)
    seconds = dict.fromkeys(jobs, math.inf)
    for turn in range(rounds):
        for name, job in jobs.items():
            say(f"round {turn + 1} of {rounds}: {name}")
            seconds[name] = min(seconds[name], *job())
    say("machine")
    machine = measure_machine()
    shape = data.users, data.items, len(data.by_user.other)
    return Speed(
        like,
        factors,
        *shape,
        seconds=seconds,
        ratios={
            f"{ours}_vs_{peer}": seconds[ours] / seconds[peer]
            for ours in OURS
            for peer in PEERS
            if peer in seconds
        },
        sgemm_share={
            name: arithmetic(*shape[1:], factors, name) / 1e9 / seconds[name] / machine.sgemm_gflops
            for name in OURS
        },
        bandwidth_share={
            name: traffic(*shape, factors, name) / 1e9 / seconds[name] / machine.copy_gb_per_second
            for name in OURS
        },
        machine=machine,
    )


# Of conjugate gradients, for a user, in data of these shapes.
_STEPS = 7


def arithmetic(items: int, rows: int, factors: int, name: str) -> float:
    """Operations of a sweep: users by conjugate gradients, matrices of items and their reduction, b."""
    d = float(factors)
    operations = rows * d * (4 * _STEPS + 4) + 2 * rows * d
    if name == "per_item":
        operations += rows * d * (d + 1) + items * d**3 * 4 / 3
    return operations


def traffic(users: int, items: int, rows: int, factors: int, name: str) -> float:
    """Bytes that a sweep reads and writes: rows that are gathered, users' vectors, sums of items."""
    d = float(factors)
    user_step = rows * (4 * d + 4 + 8) + users * 8 * d  # float32; item, label
    item_step = rows * (2 * d + 4) + users * (8 + 2) * d  # 16 bits; user; bounding
    sums = d * (d + 1) / 2 + d if name == "per_item" else d
    return user_step + item_step + items * sums * 8 * 4  # sum, noise, noisy sum, solution of it


def measure_machine(size: int = 2048, megabytes: int = 256) -> Machine:
    """Single-precision products of matrices and copies of memory on all threads, best of some."""
    one = np.full((size, size), 0.5, dtype=np.float32)
    other, out = one.copy(), np.empty_like(one)
    source = np.ones(megabytes * 2**17)
    target = np.zeros_like(source)
    products = _best(lambda: np.dot(one, other, out=out))
    copies = _best(lambda: np.copyto(target, source))
    return Machine(
        platform.processor() or platform.machine(),
        thread_count(),
        2 * size**3 / products / 1e9,
        2 * source.nbytes / copies / 1e9,
    )


def _best(job: Callable[[], object], repeat: int = 5) -> float:
    times = []
    for _ in range(repeat):
        start = time.perf_counter()
        job()
        times.append(time.perf_counter() - start)
    return min(times)


def _ours(data: Interactions, factors: int, matrices: Literal["per-item", "shared"]) -> list[float]:
    """Seconds of the sweeps after the first, which finds cold memory."""
    stamps: list[float] = []
    solver = SufficientStatistics(matrices)
    MatrixFactorization(factors, 3, "implicit", epsilon=1.0, solver=solver, noise_seed=0).fit(
        data, on_sweep=lambda *_: stamps.append(time.perf_counter())
    )
    return np.diff(stamps).tolist()


def _peer_jobs(
    against: str, data: Interactions, factors: int
) -> dict[str, Callable[[], list[float]]]:
    if against != "implicit":
        raise ParameterError(f"the peer must be implicit, got {against!r}")
    try:
        from implicit.cpu.als import AlternatingLeastSquares
    except ImportError:
        raise ParameterError("this needs the library implicit; run: pip install implicit") from None
    import scipy.sparse as sp

    rows = data.by_user
    events = sp.csr_matrix(
        (np.ones(len(rows.other), np.float32), rows.other, rows.start),
        shape=(data.users, data.items),
    )

    def sweeps(use_cg: bool) -> list[float]:
        # BLAS with one thread, as its documentation asks.
        with threadpool_limits(1, "blas"):
            times: list[float] = []
            peer = AlternatingLeastSquares(
                factors,
                regularization=1.0,
                alpha=1.0,
                iterations=3,
                use_cg=use_cg,
                num_threads=thread_count(),
                random_state=0,
            )
            peer.fit(
                events,
                show_progress=False,
                callback=lambda _, seconds, *__: times.append(seconds),
            )
        return times[1:]

    return {name: partial(sweeps, use_cg) for name, use_cg in PEERS.items()}


def _quiet(what: str) -> None:
    del what
