"""How far noise moves models that are fitted by descent, from what the steps released.

A step is theta <- p (theta + v) with v <- m v - r (gradient + noise). r and p (what keeps the model in its
ball) are known, and so is the noise. A deviation e from where the model would be without noise goes on as

    v <- m v - r (H e + noise),    e <- p (e + v),

H being the curvature of the task's objective. It is taken to be s_i C + ridge_i I. s_i is about the sum of
weights of the task's users, up to a factor. C is common to all tasks: the slope of the released gradients
over the released models, by least squares over all tasks and steps, each task less its means. In the
directions of C's eigenvectors the covariance of (e, v, the mean of the last e) follows step by step.

Post-processing: everything here is released or public.
"""

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

# So many numbers are kept of the steps at most: beyond it no errors are computed.
MOST = 20_000_000

# In about so many other tasks a user is.
_OTHERS = 4.0


def masses(sizes: Array, weights: Array) -> Array:
    """About the sum of the users' weights of each task, up to one factor, [tasks].

    A user's weights are those of its tasks [tasks], scaled to its whole budget: who is in a task of a large
    weight spends most of it there, however large it is.
    """
    other = float(np.sum(sizes * weights**2)) / max(float(np.sum(sizes)), 1e-300)
    return np.asarray(sizes * weights / np.sqrt(weights**2 + _OTHERS * other))


class DescentErrors:
    """Told every step; then the standard errors that noise makes.

    Args:
        mass: about the sum of weights of each task's users, up to one factor, [tasks].
        ridge: the penalty of each task, [tasks].
        noise: the standard deviation of the noise on a coordinate of a gradient.
        slope: what a slope of gradients is usually like, for one unit of mass. With few steps and tasks
            slopes are shrunk as if it were their standard deviation.
        kept: how many of the last steps the models are the mean of.
        momentum: m.
    """

    def __init__(
        self, mass: Array, ridge: Array, noise: float, slope: float, kept: int, momentum: float
    ) -> None:
        self._mass, self._ridge, self._noise = mass / max(float(mass.max()), 1e-300), ridge, noise
        self._slope = slope * float(mass.max())
        self._kept, self._momentum = kept, momentum
        self._steps: list[tuple[Array, Array]] = []
        self._sums: list[Array] = []

    def __call__(self, coef: Array, gradient: Array, rates: Array, shrink: Array) -> None:
        """One step: from these models [tasks, d], by this noisy gradient without the penalty, [tasks, d].

        ``rates`` and ``shrink`` are r and p of each task, [tasks, 1].
        """
        with np.errstate(all="ignore"):  # what is beyond all numbers is seen in ``errors``
            weighed = self._mass[:, None] * coef
            found = [coef, gradient, weighed.T @ weighed, gradient.T @ weighed]
            kept = self._sums or [np.zeros_like(each) for each in found]
            self._sums = [a + b for a, b in zip(kept, found, strict=True)]
        tasks = len(coef)
        self._steps.append(
            (np.broadcast_to(rates, (tasks, 1))[:, 0], np.broadcast_to(shrink, (tasks, 1))[:, 0])
        )

    def errors(self, view: Array) -> Array:
        """Standard errors of view theta_i, [tasks, outputs]; view is [outputs, d]."""
        with np.errstate(all="ignore"):
            curvature = self._curvature()
            if not np.isfinite(curvature).all():
                return np.full((len(self._mass), len(view)), np.inf)
            values, basis = np.linalg.eigh(curvature)
            along = self._mass[:, None] * np.maximum(values, 0.0) + self._ridge[:, None]
            return np.asarray(np.sqrt(self._variance(along) @ ((view @ basis) ** 2).T))

    def _curvature(self) -> Array:
        """C, symmetric, [d, d]."""
        steps, (coefs, gradients, squares, products) = len(self._steps), self._sums
        weighed = self._mass[:, None] * coefs
        squares = squares - weighed.T @ weighed / steps
        products = products - gradients.T @ weighed / steps
        usual = (self._noise / max(self._slope, 1e-300)) ** 2
        found = np.linalg.solve(squares + usual * np.eye(len(squares)), products.T)
        return np.asarray((found + found.T) / 2)

    def _variance(self, along: Array) -> Array:
        """Of the mean s of the last models, given curvatures along the eigenvectors, [tasks, d]."""
        first, m = len(self._steps) - self._kept, self._momentum
        # Variances and covariances of e, v and s.
        ee, ev, vv, se, sv, ss = (np.zeros_like(along) for _ in range(6))
        for step, (rates, shrink) in enumerate(self._steps):
            r, p = rates[:, None], shrink[:, None]
            slope = r * along
            # v <- m v - r (H e + noise)
            vv = m * m * vv - 2 * m * slope * ev + slope * slope * ee + (r * self._noise) ** 2
            ev = m * ev - slope * ee
            sv = m * sv - slope * se
            # e <- p (e + v)
            se = p * (se + sv)
            ee, ev = p * p * (ee + 2 * ev + vv), p * (ev + vv)
            if step >= first:  # s <- s + e / kept
                share = 1 / self._kept
                ss = ss + 2 * share * se + share * share * ee
                se, sv = se + share * ee, sv + share * ev
        return np.maximum(ss, 0.0)
