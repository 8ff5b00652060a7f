"""One second moment for all tasks: nearly the whole budget is left for the right-hand sides."""

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def positive_part(matrix: Array, least: float = 0.0) -> Array:
    """The nearest matrix to a symmetric one that has no eigenvalue below ``least``, [d, d]."""
    values, basis = np.linalg.eigh(matrix)
    return np.asarray((basis * np.maximum(values, least)) @ basis.T)


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
    rounding = len(values) * np.finfo(np.float64).eps * values.max(initial=0.0)
    values[values <= rounding] = 0.0
    # Directions of one eigenvalue have no basis of their own: they are judged together.
    group = np.cumsum(np.diff(values, prepend=values[:1]) > rounding)

    def sums(weight: Array, one: Array, other: Array) -> Array:
        """Of the products of three arrays by column, without another array as large."""
        found = np.einsum("ij,ij,ij->j", weight, one, other)
        return np.asarray(np.bincount(group, found)[group])

    unit = noise if noise > 0 else 1.0  # in units of the noise no bound is too large to be squared
    rotated = (b / unit) @ basis
    a = np.outer(mass, values / unit)
    a += (ridge / unit)[:, None]
    variance = np.full((1, 1), 1.0 if noise > 0 else 0.0)  # of all alike, unless there is a spread
    if spread is not None:
        variance = variance + np.outer(spread / unit, values / unit)
    # What is noisier says less about rho and tau; relative to the noisiest, so that zero is no trouble.
    weight = np.ones((1, 1)) if (variance == 0).any() else variance.max() / variance
    center = np.zeros_like(b)
    if guess is not None:
        center = guess @ basis
        predicted = a * center
        scale, agreement = (sums(weight, predicted, other) for other in (predicted, rotated))
        rho = np.divide(agreement, scale, out=np.zeros_like(scale), where=scale > 0)
        rho = np.clip(rho, 0.0, 1.0)
        center *= rho
        predicted *= rho
        rotated -= predicted
    total = sums(weight, rotated, rotated)
    # Never quite zero: a thousandth of what is there is kept as signal.
    expected = sums(weight, np.broadcast_to(variance, a.shape), np.ones((1, 1)))
    signal = np.maximum(total - expected, 1e-3 * total)
    power = sums(weight, a, a)
    del weight  # which may be as large as all the others
    with np.errstate(over="ignore", invalid="ignore"):
        ratio = np.divide(power, signal, out=np.full_like(signal, np.inf), where=signal > 0)
        divisor = np.square(a)
        divisor += variance * ratio
        filtered = np.divide(a, divisor, out=a, where=divisor > 0)
        filtered[~(divisor > 0)] = 0.0
    filtered *= rotated
    filtered += center
    del divisor, rotated, center
    return np.asarray(filtered @ basis.T)


def posterior_root(
    b: Array, noise: float, mass: Array, second_moment: Array, ridge: Array
) -> Array:
    """R_i with R_i R_i' the covariance of theta_i given b_i, as ``shrink`` takes it, [tasks, d, d].

    In the basis of C's eigenvectors coordinates are independent, with a variance of
    tau_k^2 / (1 + a^2 tau_k^2 / noise^2), a = mass_i c_k + ridge_i.
    """
    values, basis = np.linalg.eigh(second_moment)
    a = (np.outer(mass, np.maximum(values, 0.0)) + ridge[:, None]) / noise
    squares = np.sum((b @ basis / noise) ** 2, axis=0)
    signal = np.maximum(squares - len(b), 1e-3 * squares)
    power = np.sum(a**2, axis=0)
    tau = np.divide(signal, power, out=np.zeros_like(signal), where=power > 0)
    return np.asarray(basis * np.sqrt(tau / (1 + a**2 * tau))[:, None, :])
