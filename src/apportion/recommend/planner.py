"""What error to expect of a training, in closed form, and the settings with the least."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import product
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from apportion.data.buckets import task_buckets
from apportion.recommend.settings import Choice

Array = NDArray[np.float64]
Feedback = Literal["explicit", "implicit"]

BUCKETS = 5
# What is tried where nothing else is asked for.
FACTORS = (8, 16, 32, 48, 64)
SWEEPS = (2, 3, 4, 5, 6)
INTERCEPT_SHARES = (0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8)


@dataclass(frozen=True)
class Tastes:
    """What is assumed of people, whoever they are: these numbers are public and the same for everybody.

    Variances are in units of the squared label bound. ``intercept`` is that of the items' intercepts,
    ``factors`` that of all factors together, of which factor k has a part p_k proportional to
    k^-``decay``; ``rest`` is what nobody can predict. Users' vectors have a variance proportional to
    p_k^``along`` along it, and it stands out ``strength`` times as much as its variance says.
    ``start`` * ``pace``^sweeps is the part of the factors that so many sweeps from a random start have
    not found yet.

    Both sets of numbers were fitted to what trainings on MovieLens-1M reached on validation data, epsilon
    from 1 to 40, 8 to 64 factors, 1 to 8 sweeps. They only choose settings: a training on other
    data is as private with them as with any others.
    """

    intercept: float
    factors: float
    decay: float
    rest: float
    along: float
    strength: float
    start: float
    pace: float


RATINGS = Tastes(
    intercept=0.15,
    factors=0.25,
    decay=1.07,
    rest=0.62,
    along=0.5,
    strength=1.0,
    start=1.8,
    pace=0.36,
)
EVENTS = Tastes(
    intercept=0.0,
    factors=1.0,
    decay=1.15,
    rest=0.0,
    along=0.27,
    strength=16.0,
    start=0.54,
    pace=0.48,
)
# So many items, evenly by rank, stand for all.
_ITEMS = 1000


@dataclass(frozen=True)
class Forecast:
    """The error to expect with some settings.

    Attributes
        choice: the settings.
        error: over all rows: for ratings the RMSE in units of the label bound; for events the share of what
            could be learned that is lost, from 0 to 1.
        by_bucket: the same by popularity, tail first.
    """

    choice: Choice
    error: float
    by_bucket: tuple[float, ...]

    def __repr__(self) -> str:
        return f"Forecast({self._settings}: error {self.error:.4g})"

    def _repr_html_(self) -> str:
        from apportion.pages import Series, bar_chart, card, paragraph

        names = ["tail", *range(2, len(self.by_bucket)), "head"]
        chart = bar_chart("expected error by popularity", names, [Series("error", self.by_bucket)])
        note = (
            "to expect before training: of ratings the RMSE in units of the label bound, of events the share "
            "of what could be learned that is lost; below by popularity of items, each fifth"
        )
        said = f"expected error {self.error:.4g} with {self._settings}"
        return card("Forecast", paragraph(note, "dim"), chart, verdict=said)

    @property
    def _settings(self) -> str:
        if self.choice.sweeps == 0:
            return "popularity alone"
        share = self.choice.intercept_share
        intercepts = f", {share:.0%} for intercepts" if share > 0 else ""
        return f"{self.choice.factors} factors, {self.choice.sweeps} sweeps{intercepts}"


def forecast(
    choice: Choice, feedback: Feedback, counts: Array, scale: Array, mu: float, gramian_share: float
) -> Forecast:
    """The error to expect, from released values alone.

    Args:
        choice: the settings.
        feedback: ratings or events.
        counts, scale: of every item, about how many users it has and their typical weight, [items].
        mu: what intercepts and sweeps may cost together.
        gramian_share: of a sweep's budget, for the second moment.

    An item has a mass s = scale * counts. Something of variance V, seen s times with noise of variance N,
    is known up to V N / (N + s^2 V). For the intercept N is the noise of its release and the scatter
    scale * s of labels; for factor k the users' variance c_k along it is a further factor of s^2, and the
    noise of all sweeps is averaged. Larger models know more tastes, but the norm of a user's
    vector is shared by them.
    """
    tastes = RATINGS if feedback == "explicit" else EVENTS
    if len(counts) > _ITEMS:
        order = np.argsort(counts, kind="stable")
        some = order[((np.arange(_ITEMS) + 0.5) * len(counts) / _ITEMS).astype(int)]
        counts, scale = counts[some], scale[some]
    mass = scale * counts
    share = choice.intercept_share
    error = np.full(len(counts), tastes.rest)
    if share > 0:
        noise = 1 / (mu * mu * share) + scale * mass
        error += _unknown(tastes.intercept, mass**2, noise)
    else:
        error += tastes.intercept
    part = np.arange(1.0, 257.0) ** -tastes.decay
    part *= tastes.factors / part.sum()
    error += part[choice.factors :].sum()
    part = part[: choice.factors]
    along = part**tastes.along / np.sum(part**tastes.along)
    # The later sweeps build on the earlier ones: their noise is averaged, half as well as it might be.
    budget = mu * mu * (1 - share) * (1 - gramian_share) / choice.sweeps * (choice.sweeps + 1) / 2
    noise = 1 / budget + np.outer(scale * mass, along)
    left = _unknown(part, tastes.strength * np.outer(mass**2, along), noise)
    found = 1 - tastes.start * tastes.pace**choice.sweeps
    error += (part - found * (part - left)).sum(axis=1)
    buckets = task_buckets(counts, BUCKETS)
    of_bucket = [_mean(error, counts, buckets == bucket) for bucket in range(BUCKETS)]
    overall = _mean(error, counts, np.ones(len(counts), dtype=bool))
    if feedback == "explicit":
        return Forecast(choice, math.sqrt(overall), tuple(math.sqrt(e) for e in of_bucket))
    return Forecast(choice, overall, tuple(of_bucket))


def forecasts(
    feedback: Feedback,
    counts: Array,
    scale: Array,
    mu: float,
    gramian_share: float,
    factors: Iterable[int] = FACTORS,
    sweeps: Iterable[int] = SWEEPS,
    intercept_shares: Iterable[float] = INTERCEPT_SHARES,
) -> list[Forecast]:
    """Forecasts for all combinations, the best first."""
    found = [
        forecast(Choice(*settings), feedback, counts, scale, mu, gramian_share)
        for settings in product(factors, sweeps, intercept_shares)
    ]
    return sorted(found, key=lambda one: one.error)


def _unknown(variance: Array | float, power: Array, noise: Array) -> Array:
    return np.asarray(variance * noise / (noise + power * variance))


def _mean(error: Array, counts: Array, chosen: NDArray[np.bool_]) -> float:
    weight = counts * chosen
    return float(np.sum(error * weight) / max(float(weight.sum()), 1e-300))
