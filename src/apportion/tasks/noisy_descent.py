"""The steps of noisy gradient descent (Algorithm 2), for models of tasks and for items alike."""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from apportion.accounts.declared import Declared
from apportion.engine import Session, queries
from apportion.engine.feed import released
from apportion.privacy import OpenRelease, Part, UserBound
from apportion.progress import Step
from apportion.tasks.descent_errors import DescentErrors
from apportion.tasks.penalty import Penalty
from apportion.tasks.schedules import Schedule

Array = NDArray[np.float64]


def declare_gradients(
    clip: str, bound: float, dimension: int, steps: int, sampling_rate: float = 1.0
) -> Declared:
    """All steps of gradients, [tasks, d] each.

    Sensitivity of a step: with clip="row" a user's part in task i is w_ij times a (mean of) vectors
    of norm <= bound, and sum_i w_ij^2 <= 1; with clip="user" its whole part is scaled to norm <= bound.
    Clipping comes before summing: clipping a sum would let one user move it by twice the bound in
    every task.
    """
    if clip == "row":
        because = "|gradient of a row| <= gradient_bound; a user's squared weights sum to <= 1"
    else:
        because = "a user's gradient over all tasks is scaled to gradient_bound"
    what = "weighted sums of clipped gradients"
    part = Part("gradients", what, UserBound(bound, because), dimension)
    return Declared("gradients", (part,), 1.0, steps=steps, sampling_rate=sampling_rate)


def descend(
    session: Session,
    query: queries.Gradients,
    release: OpenRelease,
    schedule: Schedule,
    penalty: Penalty,
    *,
    radius: float,
    momentum: float = 0.0,
    average: float = 0.5,
    told: Step | None = None,
    watch: DescentErrors | None = None,
) -> Array:
    """Take all steps that were recorded, from ``query.coef`` on; the models of all tasks, [tasks, d]."""
    steps, rate = release.records[0].steps, release.records[0].sampling_rate
    coef = query.coef
    velocity, mean = np.zeros_like(coef), np.zeros_like(coef)
    kept = last_steps(average, steps)
    for step in range(steps):
        if step:
            release.next_step()
        sample = queries.Sample(release.sample_key(), rate) if rate < 1 else None
        [noisy] = released(session, replace(query, coef=coef, sample=sample), release)
        with np.errstate(all="ignore"):  # settings may lead beyond all numbers; then begin anew
            gradient = noisy / rate + penalty.gradient(coef)
            rates = schedule.rates(step + 1, gradient)
            velocity = momentum * velocity - rates * gradient
            shrink = _within(coef + velocity, radius)
            if watch is not None:
                watch(coef, noisy / rate, rates, shrink)
            coef = shrink * (coef + velocity)
        coef[~np.isfinite(coef).all(axis=1)] = 0.0
        if step >= steps - kept:
            mean += coef / kept
        if told is not None:
            told(step + 1, steps)
    return mean


def last_steps(average: float, steps: int) -> int:
    """How many of the last steps the models are the mean of."""
    return max(1, round(float(average) * steps))


def _within(coef: Array, radius: float) -> Array:
    """What brings models into the ball, at most 1, [tasks, 1]."""
    norm = np.linalg.norm(coef, axis=1, keepdims=True)
    return np.asarray(np.minimum(1.0, radius / np.maximum(norm, 1e-200)))
