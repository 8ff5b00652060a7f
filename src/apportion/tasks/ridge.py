"""Ridge regression per task from noisy sufficient statistics (Algorithm 1)."""

import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import replace
from typing import Any, Literal

import numpy as np
from numba import get_num_threads
from numpy.typing import NDArray

from apportion.allocation import AdaptiveWeights, Allocation
from apportion.data import TaskData
from apportion.engine import CpuEngine, Engine, TaskRows
from apportion.engine.solves import solve_filtered, solve_positive
from apportion.engine.threads import one_thread_each
from apportion.privacy import (
    Curator,
    Part,
    UserWeights,
    clip_values,
    pack,
    packed_width,
    short_rows,
)
from apportion.privacy.bounds import check_bound
from apportion.privacy.checks import LEAST_SHARE, number, word
from apportion.privacy.noise import TILE
from apportion.privacy.release import OpenRelease
from apportion.tasks.base import MultiTaskLinear
from apportion.tasks.penalty import Penalty
from apportion.tasks.shared import (
    moment_bound,
    open_moments,
    release_second_moment,
    release_weight_sums,
    solve_moments,
)
from apportion.tasks.shrunk import Released, Shrinkage

Array = NDArray[np.float64]

# Statistics are summed, released and solved this many bytes at a time, so that memory stays small with any
# number of tasks: by all threads together, or by each for itself.
_BLOCK_BYTES = 64 * 2**20
_OWN_BYTES = 16 * 2**20
# What the second moment and the sums of weights each cost, of the budget that is left for training.
_SHARED_SHARE = 0.05
# The part of ``gram_share`` that a pilot spends on A, to learn how much of the rest A is worth.
_PILOT = 1 / 8


class MultiTaskRidge(MultiTaskLinear):
    """Ridge regression for many tasks at once, under user-level differential privacy.

    For every task i, A_i = sum_j w_ij x x' and b_i = sum_j w_ij y x are released with noise, and the
    model is solved from them; ``statistics`` says how. With ``epsilon=math.inf`` there is no noise, no
    clipping, every weight is one, and theta_i is the exact ridge solution. There is no intercept: add a
    constant feature if you need one.

    - ``"shrunk"``: a task's A_i is released with noise, but so are the users' mean x x', C, and the sums
      of the tasks' weights, s_i, which cost little: A_i is shrunk towards s_i C, and theta_i towards what
      all tasks have in common, as far as the noise demands (see ``Shrinkage``). Whether more of the budget
      is worth spending on A is decided by a pilot, which is not lost: it is averaged with the rest.
      Never far from the better of the other two. Released matrices of all tasks are held in memory.
    - ``"per-task"``: the paper's. The noise of A_i is symmetric with spectral radius about
      r = noise * sqrt(2 d), so directions in which A_i is smaller than r are unreliable; the solution

          theta_i = argmin |(A_i+ + alpha I) theta - b_i|^2 + (noise_ridge * r)^2 |theta|^2,

      A_i+ being A_i's projection on the positive semi-definite matrices, suppresses them and leaves the
      others alone. Good where data is plentiful and the differences between tasks matter.
    - ``"shared"``: A_i is taken to be s_i C. b gets 90 % of the budget, and is shrunk by what is known of
      its noise. Good where noise is large and features are alike in all tasks.

    Args:
        epsilon: the privacy budget; ``math.inf`` for no privacy.
        delta: the probability that the guarantee may fail; at most one over the number of users.
        feature_bound: public; longer feature vectors are scaled down to this norm.
        label_bound: public; labels are clipped to [-label_bound, label_bound]. Both bounds decide the
            noise: too large adds noise, too small distorts. Take them from what the data means.
        alpha: ridge penalty, added to every A_i after the release. A user's weights are at most one,
            so alpha counts users of full weight; without privacy it is scikit-learn's ``alpha``.
        statistics: ``"shrunk"``, ``"per-task"`` or ``"shared"``, see above.
        noise_ridge: for ``"per-task"``, strength of the suppression of noisy directions, in units of r.
        gram_share: the portion of the training budget (of mu^2) spent on A, b gets the rest; with
            ``"shrunk"`` the most that A may get. Plays no part in ``"shared"``.
        allocation: how users split their budget among tasks.
        noise_seed: fixes the noise, for tests and studies; the model is then NOT PRIVATE.

    Attributes:
        coef_: the released models, [tasks, d].

    >>> import apportion as ap
    >>> data = ap.simulate_tasks(users=2000, tasks=20, tasks_per_user=5)
    >>> model = ap.MultiTaskRidge(epsilon=2.0, delta=1e-5).fit(data)
    >>> model.coef_.shape
    (20, 5)
    >>> round(model.privacy.epsilon, 6)
    2.0
    >>> model.predict(task=[3], features=[[0.1, 0.0, 0.2, 0.0, 0.5]]).shape
    (1,)
    """

    def __init__(
        self,
        epsilon: float = 1.0,
        delta: float = 1e-5,
        *,
        feature_bound: float = 1.0,
        label_bound: float = 1.0,
        alpha: float = 0.0,
        statistics: Literal["shrunk", "per-task", "shared"] = "shrunk",
        noise_ridge: float = 1.0,
        gram_share: float = 0.4,
        allocation: Allocation = AdaptiveWeights.for_strongly_convex(),  # noqa: B008 (immutable)
        noise_seed: int | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.feature_bound = feature_bound
        self.label_bound = label_bound
        self.alpha = alpha
        self.statistics = statistics
        self.noise_ridge = noise_ridge
        self.gram_share = gram_share
        self.allocation = allocation
        self.noise_seed = noise_seed

    def _train(self, data: TaskData, curator: Curator) -> NDArray[np.float64]:
        weights, _ = self.allocation.allocate(data.graph, curator)
        features: Any = data.features
        labels, unit = data.labels, 1.0
        if weights.bounded:
            features, unit = short_rows(features, self.feature_bound)
            labels = clip_values(labels, self.label_bound)
        pair = data.pair_of_row
        examples = (features, data.feature_row, labels, weights.per_row(pair))
        rows = TaskRows.sort(*examples, weights.user[pair], weights.task[pair], data.tasks)
        rows = replace(rows, unit=unit)
        if not weights.bounded or self.statistics == "per-task":
            return self._solve_each(curator, weights, rows)
        moment, mass, mass_noise = self._release_common(curator, weights, rows, data)
        if self.statistics == "shared":
            return self._solve_shared(curator, weights, rows, moment, mass)
        return self._solve_shrunk(curator, weights, rows, moment, mass, mass_noise)

    def _solve_each(
        self, curator: Curator, weights: UserWeights, rows: TaskRows
    ) -> NDArray[np.float64]:
        release = open_statistics(
            curator,
            "statistics",
            weights,
            rows,
            float(self.feature_bound),
            float(self.label_bound),
            curator.ledger.affordable_mu(),
            float(self.gram_share),
        )
        penalty = Penalty.ridge_only(float(self.alpha), rows.tasks)
        return solve_statistics(rows, release, penalty, float(self.noise_ridge), CpuEngine())

    def _release_common(
        self, curator: Curator, weights: UserWeights, rows: TaskRows, data: TaskData
    ) -> tuple[NDArray[np.float64], NDArray[np.float64], float]:
        """The users' second moment, the sums of the tasks' weights, and the noise of those."""
        part = curator.ledger.affordable_mu() * math.sqrt(_SHARED_SHARE)
        pair = data.pair_of_row
        # Rows of one user in one task share the pair's squared weight, as they share its weight.
        squared = weights.per_row(pair) * weights.values[pair]
        everybody = TaskRows.sort(
            rows.features, data.feature_row, squared, squared, weights.user[pair], 0 * pair, 1
        )
        everybody = replace(everybody, unit=rows.unit)
        G = float(self.feature_bound)
        second_moment = release_second_moment(curator, everybody, G, part, CpuEngine())
        sums = release_weight_sums(weights, rows.tasks, curator, part)
        return second_moment, np.maximum(sums, 1 / part), 1 / part  # at least its noise

    def _solve_shared(
        self,
        curator: Curator,
        weights: UserWeights,
        rows: TaskRows,
        second_moment: NDArray[np.float64],
        mass: NDArray[np.float64],
    ) -> NDArray[np.float64]:
        release = open_moments(
            curator, "moments", weights, rows, float(self.feature_bound), float(self.label_bound),
            curator.ledger.affordable_mu(),
        )  # fmt: skip
        ridge = np.full(rows.tasks, float(self.alpha))
        return solve_moments(rows, release, mass, second_moment, ridge, CpuEngine())

    def _solve_shrunk(
        self,
        curator: Curator,
        weights: UserWeights,
        rows: TaskRows,
        second_moment: NDArray[np.float64],
        mass: NDArray[np.float64],
        mass_noise: float,
    ) -> NDArray[np.float64]:
        """Two releases of A and b, the second split as the first one advises, and one solution.

        Sensitivity: that of ``open_statistics``, each time. What the two cost together is known
        beforehand; only how the second is split between A and b follows from what was released before.
        """
        G, L, most = float(self.feature_bound), float(self.label_bound), float(self.gram_share)
        # In units in which both bounds are one; a penalty beyond this one leaves nothing in any case.
        alpha = min(float(self.alpha) / G**2, 1e100)

        def release(name: str, mu: float, share: float) -> Released:
            opened = open_statistics(curator, name, weights, rows, G, L, mu, share)
            gram = np.empty((rows.tasks, packed_width(rows.dimension)))
            moment = np.empty((rows.tasks, rows.dimension))

            def keep(tasks: slice, A: Array, b: Array) -> None:
                gram[tasks], moment[tasks] = A / G**2, b / (G * L)

            feed_statistics(rows, opened, CpuEngine(), keep)
            of_gram, of_moment = (each.noise_scale / each.sensitivity for each in opened.records)
            return Released(
                gram, moment, mass, second_moment / G**2, of_gram, of_moment, mass_noise
            )

        spent = 1 - most + _PILOT * most
        share = _PILOT * most / spent
        pilot = release("pilot", math.sqrt(spent) * curator.ledger.affordable_mu(), share)
        portion = Shrinkage(pilot, alpha).portion(share, (1 - spent) / spent)
        rest = release("statistics", curator.ledger.affordable_mu(), portion)
        return Shrinkage(pilot.averaged(rest), alpha).coef() * (L / G)

    def _check_parameters(self) -> None:
        check_bound("feature_bound", self.feature_bound)
        check_bound("label_bound", self.label_bound)
        number("gram_share", self.gram_share, at_least=LEAST_SHARE, below=1)
        word("statistics", self.statistics, ("shrunk", "per-task", "shared"))
        for name in ("alpha", "noise_ridge"):
            number(name, getattr(self, name), at_least=0, at_most=1e100)


def open_statistics(
    curator: Curator,
    name: str,
    weights: UserWeights,
    rows: TaskRows,
    feature_bound: float,
    label_bound: float,
    mu: float,
    gram_share: float,
    clip: Literal["row", "user"] = "row",
) -> OpenRelease:
    """Record the joint release of A and b of clipped rows, at a cost of ``mu``.

    Sensitivity: a user's part in A_i is w_ij x x' of Frobenius norm w_ij |x|^2 <= w_ij G^2 (a
    mean of such matrices if the user has several rows), in b_i it is w_ij y x (``moment_bound``) of norm
    <= w_ij L G; squared and summed over tasks with sum_i w_ij^2 <= 1 this gives G^4 and (L G)^2.
    """
    G = check_bound("feature_bound", feature_bound)
    gram = weights.bound(G * G, "|x x'| <= feature_bound^2")
    moment = moment_bound(weights, G, label_bound, clip)
    parts = [
        Part("A", "weighted sums of x x'", gram, width=rows.dimension, symmetric=True),
        Part("b", "weighted sums of y x", moment, width=rows.dimension),
    ]
    return curator.open(name, parts, rows.tasks, mu, (gram_share, 1 - gram_share))


def feed_statistics(
    rows: TaskRows,
    release: OpenRelease,
    engine: Engine,
    use: Callable[[slice, NDArray[np.float64], NDArray[np.float64]], None],
) -> None:
    """Sum and release A (packed) and b, some tasks at a time, and hand them on, from any thread."""
    of_A, of_b = release.grids
    grids = (of_A, of_b) if of_A else None
    rows = engine.prepare(rows)

    def feed(first: int, block: int) -> None:
        stop = min(first + block, rows.tasks)
        A, b = release.feed(first, *engine.statistics(rows, first, stop, grids))
        use(slice(first, stop), A, b)

    block = _tasks_in(_OWN_BYTES, rows.dimension)
    if block >= TILE and _can_be_shared_out(rows, block) and not release.in_one_thread:
        # Each thread sums, draws and solves for itself: nobody waits, and all stays in its cache.
        one_thread_each(lambda first: feed(first, block), range(0, rows.tasks, block))
    else:
        block = _tasks_in(_BLOCK_BYTES, rows.dimension)
        # A tile is drawn by one thread, so a single one needs no others.
        with ThreadPoolExecutor(get_num_threads()) if rows.tasks > TILE else nullcontext() as pool:
            release.run = map if pool is None else pool.map
            try:
                for first in range(0, rows.tasks, block):
                    feed(first, block)
            finally:
                release.run = map
    assert release.complete


def _tasks_in(size: int, dimension: int) -> int:
    """Tasks whose sums, raw and noisy, take so many bytes: whole tiles, if there are any."""
    tasks = max(1, size // (8 * dimension * (dimension + 1)))
    return tasks - tasks % TILE if tasks > TILE else tasks  # a tile's noise is drawn at once


def _can_be_shared_out(rows: TaskRows, block: int) -> bool:
    """Whether so many tasks at a time keep all threads busy to the end."""
    edges = rows.start[np.minimum(np.arange(0, rows.tasks + block, block), rows.tasks)]
    threads = get_num_threads()
    largest = int(np.diff(edges).max(initial=0))
    enough = threads > 1 and 4 * threads <= len(edges) - 1
    return bool(enough and 4 * threads * largest <= int(rows.start[-1]))


def solve_statistics(
    rows: TaskRows, release: OpenRelease, penalty: Penalty, noise_ridge: float, engine: Engine
) -> NDArray[np.float64]:
    """Sum, release and solve block by block; the models of all tasks, [tasks, d]."""
    d = rows.dimension
    noise_radius = release.records[0].noise_scale * math.sqrt(2 * d)
    shared = None if penalty.shared is None else pack(penalty.shared[None])[0]
    coef = np.empty((rows.tasks, d))

    def solve(tasks: slice, A: Array, b: Array) -> None:
        alpha = penalty.ridge[tasks]
        common = () if shared is None else (penalty.scale[tasks], shared)
        if noise_radius == 0 and alpha.min() > 0:
            coef[tasks] = solve_positive(A, b, alpha, *common)
        else:
            coef[tasks] = solve_filtered(A, b, alpha, noise_ridge * noise_radius, *common)

    feed_statistics(rows, release, engine, solve)
    return coef
