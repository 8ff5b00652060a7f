"""What error to expect of a training on ratings, in closed form, and the settings with the least."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import product

import numpy as np
from numpy.typing import NDArray

from apportion.data.buckets import task_buckets
from apportion.recommend.settings import Choice

Array = NDArray[np.float64]

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
    not found yet. All this is so for users with ``rows`` ratings.

    The numbers were fitted to what trainings on MovieLens-1M reached on validation data, epsilon
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
    rows: float


RATINGS = Tastes(
    intercept=0.15,
    factors=0.25,
    decay=1.07,
    rest=0.62,
    along=0.5,
    strength=1.0,
    start=1.8,
    pace=0.36,
    rows=69.0,
)
# Averages of users and items are all that is learned, unless tastes promise to lower the error by so much.
_CLEAR = 0.01
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
            return "averages alone" if self.choice.intercept_share > 0 else "popularity alone"
        share = self.choice.intercept_share
        intercepts = f", {share:.0%} for intercepts" if share > 0 else ""
        return f"{self.choice.factors} factors, {self.choice.sweeps} sweeps{intercepts}"


@dataclass(frozen=True, eq=False)
class Items:
    """Those that a forecast goes by: all of them, or so many that stand for all.

    Attributes
        counts: about how many users each has, [items].
        scale: the typical weight of these, [items].
        bucket: its fifth by popularity, [items].
    """

    counts: Array
    scale: Array
    bucket: NDArray[np.int64]

    @classmethod
    def of(cls, counts: Array, scale: Array) -> "Items":
        """Of all items."""
        if len(counts) > _ITEMS:
            order = np.argsort(counts, kind="stable")
            some = order[((np.arange(_ITEMS) + 0.5) * len(counts) / _ITEMS).astype(int)]
            counts, scale = counts[some], scale[some]
        return cls(counts, scale, task_buckets(counts, BUCKETS))


def forecast(
    choice: Choice,
    items: Items,
    mu: float,
    gramian_share: float,
    rows: float | None = None,
    tastes: Tastes = RATINGS,
) -> Forecast:
    """The error to expect, from released values alone.

    Args:
        choice: the settings.
        items: by their released counts.
        mu: what intercepts and sweeps may cost together.
        gramian_share: of a sweep's budget, for the second moment.
        rows: about how many ratings a user has; by default so many that tastes show.
        tastes: what is assumed of people.

    An item has a mass s = scale * counts. Something of variance V, seen s times with noise of variance N,
    is known up to V N / (N + s^2 V). For the intercept N is the noise of its release and the scatter
    scale * s of labels; for factor k the users' variance c_k along it is a further factor of s^2, and the
    noise of all sweeps is averaged. Larger models know more tastes, but the norm of a user's
    vector is shared by them. A user with n ratings shows n p_k / (n p_k + rest) of its taste for factor k.
    """
    counts, scale = items.counts, items.scale
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
    error += part.sum()
    if choice.sweeps > 0:
        part = part[: choice.factors]
        along = part**tastes.along / np.sum(part**tastes.along)
        # The later sweeps build on the earlier ones: their noise is averaged, half as well as it might be.
        budget = mu * mu * (1 - share) * (1 - gramian_share) / choice.sweeps
        noise = 2 / (budget * (choice.sweeps + 1)) + np.outer(scale * mass, along)
        left = _unknown(part, tastes.strength * np.outer(mass**2, along), noise)
        found = 1 - tastes.start * tastes.pace**choice.sweeps
        error -= found * (part - left) @ _shown(tastes, part, rows)
    of_bucket = [_mean(error, counts, items.bucket == bucket) for bucket in range(BUCKETS)]
    overall = _mean(error, counts, np.ones(len(counts), dtype=bool))
    return Forecast(choice, math.sqrt(overall), tuple(math.sqrt(e) for e in of_bucket))


def forecasts(
    counts: Array,
    scale: Array,
    mu: float,
    gramian_share: float,
    factors: Iterable[int] = FACTORS,
    sweeps: Iterable[int] = SWEEPS,
    intercept_shares: Iterable[float] = INTERCEPT_SHARES,
    users: float | None = None,
    *,
    averages: bool = False,
) -> list[Forecast]:
    """Forecasts for all combinations, the best first; ``users`` is about how many there are, if it is known.

    With ``averages`` that of averages alone, too: first, unless another promises clearly less.
    """
    rows = None if users is None else float(counts.sum()) / users
    items = Items.of(counts, scale)
    found = [
        forecast(Choice(*settings), items, mu, gramian_share, rows)
        for settings in product(factors, sweeps, intercept_shares)
    ]
    found.sort(key=lambda one: one.error)
    if averages:
        alone = forecast(Choice(1, 0, 1.0), items, mu, gramian_share)
        clear = found[0].error <= alone.error * (1 - _CLEAR)
        found.insert(1 if clear else 0, alone)
    return found


def _shown(tastes: Tastes, part: Array, rows: float | None) -> Array:
    """How much of its tastes a user with so many ratings shows, relative to what is assumed, [factors]."""
    if rows is None:
        return np.ones(len(part))
    own, usual = (n * part / (n * part + tastes.rest) for n in (max(rows, 1.0), tastes.rows))
    return np.minimum(own / usual, 1.0)


def _unknown(variance: Array | float, power: Array, noise: Array) -> Array:
    return np.asarray(variance * noise / (noise + power * variance))


def _mean(error: Array, counts: Array, chosen: NDArray[np.bool_]) -> float:
    weight = counts * chosen
    return float(np.sum(error * weight) / max(float(weight.sum()), 1e-300))
