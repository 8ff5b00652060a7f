"""Sums over users that an engine can be asked for. Inert values: they say what is summed, not how.

A user's part in each depends on that user's rows, on released values and on public settings, on no other
user. ``engine/reference.py`` defines the part and its rounding; the bound on its norm is stated here.
Parts that are released together (``Statistics``) come as several arrays.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from apportion.data.centering import Centering

Array = NDArray[np.float64]
Clip = Literal["user", "row"]


class Query:
    """A sum over users."""


@dataclass(frozen=True)
class Users(Query):
    """Users with at least one row, [1, 1]. A user's part is 1."""


@dataclass(frozen=True)
class Means(Query):
    """Users' mean ratings and users with ratings, [1, 2].

    Means are shifted and scaled, and clipped to [-1, 1]: a user's part has a norm of at most sqrt(2).
    """

    middle: float
    half: float


@dataclass(frozen=True)
class RatingMoments(Query):
    """How ratings differ between users and within them, [1, 5]. A user's part has a norm of at most 2.

    Ratings are shifted and scaled, and clipped to [-1, 1]. A user with n of them, of mean m and sample
    variance s^2, adds 1 and m; and, with two or more, 1, m^2 - s^2 / n and s^2 / 2. (Users whose true
    mean is M have m^2 - s^2 / n equal to M^2 on average.) ``recommend/releases.py`` proves the bound; parts
    are scaled down to it, whatever rounding does.
    """

    middle: float
    half: float


@dataclass(frozen=True)
class Counts(Query):
    """Users per task, [tasks, 1]. A user's part has a norm of at most sqrt(cap).

    Users of more than ``cap`` tasks add min(1, sqrt(cap / tasks)) to each; with a ``key`` they add one to
    each of ``cap`` tasks, drawn from the key, the user's id and the task.
    """

    cap: int
    key: int | None = None


@dataclass(frozen=True)
class WeightSums(Query):
    """Sums of the users' weights, [tasks, 1]. A user's part has a norm of at most 1."""


@dataclass(frozen=True)
class Intercepts(Query):
    """Weighted sums of labels, [tasks, 1]. A user's part is scaled down to a norm of at most ``bound``."""

    bound: float


@dataclass(frozen=True)
class Gramian(Query):
    """The sum of x x' over users, each once, packed, [1, d (d + 1) / 2]. A part's norm: |x|^2."""


@dataclass(frozen=True)
class SecondMoment(Query):
    """The sum of w^2 x x' over rows, packed, [1, d (d + 1) / 2], and of w^2, [1, 1]."""


@dataclass(frozen=True)
class RightHandSides(Query):
    """Weighted sums of y x, [tasks, d]. A user's part has a norm of at most label_bound * feature_bound.

    With ``clip="row"`` labels are clipped one by one; with ``"user"`` the user's part as a whole is scaled
    down.
    """

    label_bound: float
    feature_bound: float
    clip: Clip = "row"


@dataclass(frozen=True)
class Statistics(Query):
    """Weighted sums of x x', packed, [tasks, d (d + 1) / 2], and the right-hand sides, [tasks, d]."""

    right: RightHandSides


@dataclass(frozen=True)
class Sample:
    """Each user takes part with probability ``rate``, decided by a secret key and the user's id."""

    key: bytes
    rate: float


@dataclass(frozen=True, eq=False)
class Gradients(Query):
    """Weighted sums of gradients at ``coef`` [tasks, d], clipped to ``bound``, [tasks, d].

    The gradient of a row is derivative(theta_i . x, y) x. With ``clip="row"`` each row's is clipped before
    it is weighted; with ``"user"`` a user's whole weighted gradient. Labels are clipped first, to
    ``label_bound``.
    """

    coef: Array
    loss: Any
    bound: float
    label_bound: float
    clip: Clip = "user"
    sample: Sample | None = None


@dataclass(frozen=True)
class UserSystems:
    """What a user's vector solves, given item factors u_i and ``shared`` [d, d]:

    min over v of sum (y - u_i . v)^2 + v' shared v + regularization * max(n, 1)^exponent |v|^2, n being the
    user's number of rows.
    """

    regularization: float
    exponent: float

    def ridge(self, rows_of_user: NDArray[Any]) -> Array:
        """The penalty of every user, [users]."""
        return (
            self.regularization * np.maximum(rows_of_user.astype(np.float64), 1.0) ** self.exponent
        )


@dataclass(frozen=True, eq=False)
class FoldInGains(Query):
    """How much users' vectors help to predict ratings that they were not made from, [1, systems].

    A user's rows are taken in two halves, every other one. From either half its center and a vector are
    made, for every system with these items, and the other half is predicted: its squared errors without the
    vector less those with it, added up, in units of ``unit`` times the root of the user's number of rows.
    A user's part is brought to a norm of at most 1. ``intercepts`` [tasks] are subtracted first.
    """

    items: Array
    systems: tuple[UserSystems, ...]
    centering: Centering
    intercepts: Array | None
    unit: float


# Weights of the pairs of a graph; a user's depend on its own pairs, released values and public settings.
WeightRule = Callable[..., Any]
