"""What is subtracted from a user's ratings before anything is learned from them."""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Integers = NDArray[np.integer[Any]]


@dataclass(frozen=True)
class Centering:
    """A rating's label is the rating less its item's intercept and less its user's center.

    Everything here is public or released already; the user's own mean stays on the user's side.

    Attributes
        by: ``"user"`` takes each user's own mean, of ratings less intercepts; ``"global"`` the same number
            for everybody; ``"none"`` nothing.
        mean: that number; also the center of a user without ratings.
        shrinkage: with ``"user"``, a user's mean is drawn towards ``mean``, as if the user had so many
            ratings more, all equal to ``mean``.
    """

    by: Literal["user", "global", "none"] = "none"
    mean: float = 0.0
    shrinkage: float = 0.0

    def centers(self, start: Integers, rating: NDArray[Any] | None) -> Array:
        """What is subtracted from each user's ratings, which are less their items' intercepts, [users].

        A user's center depends on that user's rows alone, to the bit.
        """
        centers = np.full(len(start) - 1, 0.0 if self.by == "none" else self.mean)
        if rating is not None and self.by == "user":
            count = np.diff(start)
            user = np.repeat(np.arange(len(count)), count)
            # Added up row by row, in the order of the rows.
            sums = np.bincount(user, weights=rating, minlength=len(count))
            some = count > 0
            drawn = sums[some] + self.shrinkage * self.mean
            centers[some] = drawn / (count[some] + self.shrinkage)
        return centers

    def labels(self, start: Integers, rating: NDArray[Any] | None, centers: Array) -> Array:
        """y of every row, [rows]; one for an event."""
        if rating is None:
            return np.ones(int(start[-1]))
        return np.asarray(rating - np.repeat(centers, np.diff(start)), dtype=np.float64)


def rating_moments(
    start: Integers, rating: NDArray[Any] | None, middle: float, half: float
) -> Array:
    """What the users with ratings add to the query ``RatingMoments``, [users, 5]."""
    assert rating is not None, "ratings"
    count = np.diff(start)
    with np.errstate(over="ignore"):
        scaled = np.clip((rating.astype(np.float64) - middle) / half, -1.0, 1.0)
    user = np.repeat(np.arange(len(count)), count)
    # Added up row by row, in the order of the user's rows.
    sums = np.bincount(user, scaled, minlength=len(count))
    squares = np.bincount(user, scaled * scaled, minlength=len(count))
    some = count > 0
    n = count[some].astype(np.float64)
    mean, several = sums[some] / n, (n > 1).astype(np.float64)
    variance = np.maximum(squares[some] - n * mean**2, 0.0) / np.maximum(n - 1, 1.0)
    square = several * (mean**2 - variance / n)
    return np.stack([np.ones_like(n), mean, several, square, several * variance / 2], axis=1)
