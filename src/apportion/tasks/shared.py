"""One second moment for all tasks: nearly the whole budget is left for the right-hand sides."""

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
_AT_ONCE = 128  # tasks whose numbers stay in a cache


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
    unit = noise if noise > 0 else 1.0  # in units of the noise no bound is too large to be squared
    values, ridge = values / unit, ridge / unit
    variances = _Variances(noise > 0, None if spread is None else spread / unit, values)
    rotated = (b / unit) @ basis
    center = None if guess is None else guess @ basis
    blocks = [slice(at, at + _AT_ONCE) for at in range(0, len(b), _AT_ONCE)]

    def factors(some: slice) -> Array:
        """The factors a of some tasks."""
        return np.asarray(np.outer(mass[some], values) + ridge[some, None])

    def by_group(found: list[list[Array]]) -> list[Array]:
        """Of what is found in each block by column, the sums by group of columns."""
        zero = np.zeros(len(values))
        return [
            np.bincount(group, sum(each, start=zero))[group] for each in zip(*found, strict=True)
        ]

    if center is not None and blocks:
        found = []
        for some in blocks:
            predicted = factors(some) * center[some]
            weight = variances.weight(some)
            others = (predicted, rotated[some])
            found.append([_sum(weight, predicted, other) for other in others])
        scale, agreement = by_group(found)
        rho = np.divide(agreement, scale, out=np.zeros_like(scale), where=scale > 0)
        center *= np.clip(rho, 0.0, 1.0)
    found = []
    for some in blocks:
        a, weight = factors(some), variances.weight(some)
        if center is not None:
            rotated[some] -= a * center[some]
        noisy = np.broadcast_to(variances.of(some), a.shape)
        found.append(
            [
                _sum(weight, rotated[some], rotated[some]),
                _sum(weight, noisy, np.ones((1, 1))),
                _sum(weight, a, a),
            ]
        )
    if not found:
        return np.zeros_like(b)
    total, expected, power = by_group(found)
    # Never quite zero: a thousandth of what is there is kept as signal.
    signal = np.maximum(total - expected, 1e-3 * total)
    with np.errstate(over="ignore", invalid="ignore"):
        ratio = np.divide(power, signal, out=np.full_like(signal, np.inf), where=signal > 0)
        for some in blocks:
            a = factors(some)
            divisor = np.square(a) + variances.of(some) * ratio
            filtered = np.divide(a, divisor, out=np.zeros_like(a), where=divisor > 0)
            rotated[some] *= filtered
            if center is not None:
                rotated[some] += center[some]
    return np.asarray(rotated @ basis.T)


class _Variances:
    """Of the noise of each task's coordinates, in units of it, or relative to the noisiest."""

    def __init__(self, noisy: bool, spread: Array | None, values: Array) -> None:
        self._base, self._spread, self._values = float(noisy), spread, values
        # Rounding keeps the order: the least and the greatest are those of the products.
        small, large = (
            (0.0, 0.0)
            if spread is None or spread.size == 0
            else (values.min() * spread.min(), values.max() * spread.max())
        )
        self._least, self._most = self._base + small, self._base + large

    def of(self, some: slice) -> Array:
        """Of some tasks, [some, d] or [1, 1] where all are alike."""
        if self._spread is None:
            return np.full((1, 1), self._base)
        return np.asarray(self._base + np.outer(self._spread[some], self._values))

    def weight(self, some: slice) -> Array:
        """What is noisier says less about rho and tau. All ones where one has no noise."""
        return np.ones((1, 1)) if self._least == 0 else np.asarray(self._most / self.of(some))


def _sum(weight: Array, one: Array, other: Array) -> Array:
    """Of the products of three arrays by column."""
    return np.asarray(np.einsum("ij,ij,ij->j", weight, one, other))


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
