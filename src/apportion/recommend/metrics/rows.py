"""What a metric of ratings is: a number for every error, and what is made of their mean."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


@dataclass(frozen=True)
class RowMetric:
    """A metric of errors of ratings.

    Attributes
        of_row: the part of every row, given the errors [rows].
        of_mean: the metric, given means of these parts.
    """

    of_row: Callable[[Array], Any]
    of_mean: Callable[[Array], Any]
