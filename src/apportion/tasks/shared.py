"""One second moment for all tasks: nearly the whole budget is left for the right-hand sides."""

import math
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from apportion.engine import Engine, TaskRows
from apportion.privacy import Curator, OpenRelease, Part, UserBound, UserWeights, unpack
from apportion.privacy.bounds import check_bound, truncate

Array = NDArray[np.float64]


def release_second_moment(
    curator: Curator, rows: TaskRows, feature_bound: float, mu: float, engine: Engine
) -> Array:
    """The mean of users' x x', released at a cost of ``mu``, positive definite if there is noise, [d, d].

    Eigenvalues below the spectral radius of the noise, noise * sqrt(2 d), are raised to it: a direction of
    which nothing is known must not be divided by next to nothing.

    All rows are in one task, and their weights are squares: user j gives sum_i w_ij^2 x x' (a mean, if
    it has several rows in a task) to one matrix, and sum_i w_ij^2 to one number.

    Sensitivity: |sum_i w_ij^2 x x'|_F <= G^2 sum_i w_ij^2 <= G^2; the number is at most 1.
    """
    G, d = check_bound("feature_bound", feature_bound), rows.dimension
    budget = "a user's squared weights sum to <= 1"
    matrix = UserBound(G * G, f"|x x'| <= feature_bound^2; {budget}")
    parts = [
        Part("matrix", "sum of x x', by squared weights", matrix, width=d, symmetric=True),
        Part("mass", "sum of squared weights", UserBound(1.0, budget)),
    ]
    release = curator.open("second moment", parts, 1, mu, (0.8, 0.2))
    of_matrix, of_mass = release.grids
    total, _ = engine.statistics(rows, 0, 1, (of_matrix, 1.0))
    squares: Array = np.bincount(rows.user, weights=rows.weight).astype(np.float64)
    noisy, mass = release.feed(0, total, np.array([[truncate(squares, of_mass).sum()]]))
    radius = release.records[0].noise_scale * math.sqrt(2 * d)
    return positive_part(unpack(noisy, d)[0], radius) / max(float(mass[0, 0]), 1.0)


def release_weight_sums(weights: UserWeights, tasks: int, curator: Curator, mu: float) -> Array:
    """The sum of the users' weights of every task, at a cost of ``mu``, [tasks].

    Sensitivity: sum_i w_ij^2 <= 1.
    """
    bound = weights.bound(1.0, "each pair adds its weight")
    values = truncate(weights.values, bound.grid(mu))
    sums = np.bincount(weights.task, weights=values, minlength=tasks).astype(np.float64)
    return curator.counts("weights", sums, bound, mu, "sums of weights")


def positive_part(matrix: Array, least: float = 0.0) -> Array:
    """The nearest matrix to a symmetric one that has no eigenvalue below ``least``, [d, d]."""
    values, basis = np.linalg.eigh(matrix)
    return np.asarray((basis * np.maximum(values, least)) @ basis.T)


def open_moments(
    curator: Curator,
    name: str,
    weights: UserWeights,
    rows: TaskRows,
    feature_bound: float,
    label_bound: float,
    mu: float,
    clip: Literal["row", "user"] = "row",
) -> OpenRelease:
    """Record the release of b alone, b_i = sum_j w_ij y x of bounded rows, at a cost of ``mu``."""
    moment = moment_bound(weights, feature_bound, label_bound, clip)
    part = Part("b", "weighted sums of y x", moment, width=rows.dimension)
    return curator.open(name, [part], rows.tasks, mu)


def moment_bound(
    weights: UserWeights, feature_bound: float, label_bound: float, clip: Literal["row", "user"]
) -> UserBound:
    """The bound on a user's part in b, L G.

    Where rows are clipped, |w_ij y x| <= w_ij L G and sum_i w_ij^2 <= 1; where users are, the caller
    has scaled the whole part, of all tasks, down to a norm of L G.
    """
    G, L = check_bound("feature_bound", feature_bound), check_bound("label_bound", label_bound)
    if clip == "user" and weights.bounded:
        return UserBound(G * L, "a user's part is scaled down to label_bound * feature_bound")
    return weights.bound(G * L, "|y x| <= label_bound * feature_bound")


def solve_moments(
    rows: TaskRows,
    release: OpenRelease,
    mass: Array,
    second_moment: Array,
    ridge: Array,
    engine: Engine,
    guess: Array | None = None,
    spread: Array | None = None,
) -> Array:
    """Sum and release b, and solve with A_i = mass_i * second_moment; the models, [tasks, d].

    Everything but b is released or public already: ``mass`` [tasks], about the sum of the weights of
    each task, ``second_moment`` [d, d], positive semi-definite, ``ridge`` [tasks], ``guess`` [tasks, d],
    models from an earlier release, if there are any, and ``spread`` [tasks], see ``shrink``.
    """
    (b,) = release.feed(0, engine.moments(rows, release.grids[0]))
    noise = release.records[0].noise_scale
    return shrink(b, noise, mass, second_moment, ridge, guess, spread)


def shrink(
    b: Array,
    noise: float,
    mass: Array,
    second_moment: Array,
    ridge: Array,
    guess: Array | None = None,
    spread: Array | None = None,
) -> Array:
    """The most likely models given b_i = (mass_i C + ridge_i I) theta_i + noise, [tasks, d].

    In the basis of C's eigenvectors every coordinate k stands by itself: b = a theta + noise with
    a = mass_i c_k + ridge_i. Over tasks theta_k is taken to be normal around zero, and its variance
    tau_k^2 follows from what the squares of b exceed those of the noise (empirical Bayes):

        theta = a b / (a^2 + noise^2 / tau_k^2),    tau_k^2 = sum (b^2 - noise^2) / sum a^2.

    A coordinate in which nothing can be told from noise is suppressed, in all tasks; the others are
    hardly touched where a task is large, and shrunk where it is small. Nothing needs to be tuned.

    With a ``guess``, theta_k is taken to be normal around rho_k times it instead, rho_k (between 0 and 1)
    being the regression of b on a times the guess: so the noise of one release is averaged with
    that of those before.

    ``spread`` [tasks] is for the other noise: b_i is a sum over some users and not over all. Coordinate
    k of task i then has a variance of noise^2 + spread_i c_k, and what is noisier counts less.
    """
    values, basis = np.linalg.eigh(second_moment)
    # What rounding makes of an eigenvalue of zero is no direction to divide by.
    values[values <= len(values) * np.finfo(np.float64).eps * values.max(initial=0.0)] = 0.0
    unit = noise if noise > 0 else 1.0  # in units of the noise no bound is too large to be squared
    rotated = (b / unit) @ basis
    a = np.outer(mass, values / unit)
    a += (ridge / unit)[:, None]
    variance = np.full((1, 1), 1.0 if noise > 0 else 0.0)  # of all alike, unless there is a spread
    if spread is not None:
        variance = variance + np.outer(spread / unit, values / unit)
    # What is noisier says less about rho and tau; relative to the noisiest, so that zero is no trouble.
    weight = np.ones((1, 1)) if (variance == 0).any() else variance.max() / variance
    centre = np.zeros_like(b)
    if guess is not None:
        centre = guess @ basis
        predicted = a * centre
        scale, agreement = (_sums(weight, predicted, other) for other in (predicted, rotated))
        rho = np.divide(agreement, scale, out=np.zeros_like(scale), where=scale > 0)
        rho = np.clip(rho, 0.0, 1.0)
        centre *= rho
        predicted *= rho
        rotated -= predicted
    total = _sums(weight, rotated, rotated)
    # Never quite zero: a thousandth of what is there is kept as signal.
    expected = np.einsum("ij,ij->j", weight, np.broadcast_to(variance, a.shape))
    signal = np.maximum(total - expected, 1e-3 * total)
    power = _sums(weight, a, a)
    del weight  # which may be as large as all the others
    with np.errstate(over="ignore", invalid="ignore"):
        ratio = np.divide(power, signal, out=np.full_like(signal, np.inf), where=signal > 0)
        divisor = np.square(a)
        divisor += variance * ratio
        filtered = np.divide(a, divisor, out=a, where=divisor > 0)
        filtered[~(divisor > 0)] = 0.0
    filtered *= rotated
    filtered += centre
    del divisor, rotated, centre
    return np.asarray(filtered @ basis.T)


def _sums(weight: Array, one: Array, other: Array) -> Array:
    """Of the products of three arrays by column, without another array as large."""
    return np.asarray(np.einsum("ij,ij,ij->j", weight, one, other))
