"""What a training of many tasks ends with: one array a task, which a checkpoint keeps."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Trained:
    """Models for features as the training saw them, and what is known of their noise.

    Attributes
        coef: [tasks, d'].
        counts: released numbers of users, [tasks], or None.
        noise: the standard deviation of the noise on the mean of label times feature, [tasks], or None.
        errors: standard errors of the coefficients and the intercept for features as they are given,
            [tasks, d + 1], or None.
    """

    coef: Array
    counts: Array | None = None
    noise: Array | None = None
    errors: Array | None = None

    def packed(self) -> Array:
        """All of it as one array; what is not known is not a number."""
        tasks = len(self.coef)
        pieces = [self.coef]
        for values, width in ((self.counts, 1), (self.noise, 1), (self.errors, 0)):
            if values is not None:
                pieces.append(values.reshape(tasks, -1))
            elif width:
                pieces.append(np.full((tasks, width), np.nan))
        return np.hstack(pieces)

    @classmethod
    def unpacked(cls, whole: Array, dimension: int) -> "Trained":
        """The inverse of ``packed``, given d'."""
        coef, counts, noise, errors = np.split(
            whole, [dimension, dimension + 1, dimension + 2], axis=1
        )
        return cls(
            np.ascontiguousarray(coef),
            None if np.isnan(counts).any() else counts[:, 0],
            None if np.isnan(noise).any() else noise[:, 0],
            errors if errors.shape[1] else None,
        )


def standard_errors(view: Array, root: Array) -> Array:
    """Of view theta_i, theta_i having the covariance R_i R_i', [tasks, outputs].

    ``view`` is [outputs, d'], ``root`` the R_i, [tasks, d', any].
    """
    return np.asarray(np.linalg.norm(view @ root, axis=2))
