"""What the margin of a linear model says of a label, and how well it does."""

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy import special

from apportion.checks import number, word
from apportion.errors import DataError

Array = NDArray[np.float64]
Predicts = Literal["margin", "sign", "rate"]


@dataclass(frozen=True)
class Prediction:
    """How labels follow from margins.

    Attributes
        loss: the name of the loss of the training.
        predicts: ``"margin"``, itself; ``"sign"``, the label 1 or -1; ``"rate"``, its mean exp(z), z being at
            most ``ceiling``.
        ceiling: the largest margin of a rate.
    """

    loss: str
    predicts: Predicts = "margin"
    ceiling: float = math.inf

    def __post_init__(self) -> None:
        word("predicts", self.predicts, ("margin", "sign", "rate"))
        if self.ceiling != math.inf:
            number("ceiling", self.ceiling, at_least=-50, at_most=50)

    def labels(self, margin: Array) -> Array:
        """What these margins predict, [rows]."""
        if self.predicts == "sign":
            return np.where(margin >= 0, 1.0, -1.0)
        if self.predicts == "rate":
            return np.asarray(np.exp(np.minimum(margin, self.ceiling)))
        return margin

    def score(self, margin: Array, label: Array) -> float:
        """How well margins fit labels, [rows] each: 1 is best.

        The share of right labels for ``"sign"``; else the explained share of what a constant leaves: of the
        Poisson deviance for ``"rate"``, of the sum of |y - z| for the absolute loss, of the sum of squares
        (R^2) for others.
        """
        predicted = self.labels(margin)
        if self.predicts == "sign":
            return float(np.mean(predicted == np.where(label > 0, 1.0, -1.0)))
        if self.predicts == "rate":
            lost, most = (_deviance(label, rate) for rate in (predicted, label.mean()))
        elif self.loss == "absolute":
            lost = float(np.abs(label - predicted).sum())
            most = float(np.abs(label - np.median(label)).sum())
        else:
            lost = float(np.sum((label - predicted) ** 2))
            most = float(np.sum((label - label.mean()) ** 2))
        if not most > 0:
            raise DataError("score needs examples with different labels")
        return 1 - lost / most


def _deviance(label: Array, rate: Array | float) -> float:
    """The Poisson deviance of labels, which are counts, from rates."""
    if (label < 0).any():
        raise DataError("labels of a Poisson loss must not be negative")
    return float(2 * np.sum(special.xlogy(label, label / rate) - label + rate))
