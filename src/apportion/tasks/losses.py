"""Losses of a linear model, as functions of the margin z = theta . x and the label y.

The gradient in theta is derivative(z, y) x, so its norm is |derivative| |x|: clipping a gradient is
scaling one number. A penalty lambda/2 |theta|^2 makes any of them lambda-strongly convex.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from apportion.checks import number, word
from apportion.errors import ParameterError
from apportion.tasks.predictions import Prediction, Predicts

Array = NDArray[np.float64]
Scalar = Callable[[float, float], float]


@dataclass(frozen=True)
class Loss:
    """A convex loss of the margin.

    Args:
        name: for reports.
        value, derivative: two functions of the margin and the label, in plain Python on floats
            (``math`` is allowed). With numba they are compiled; without it, training is slow.
        lipschitz: the largest |derivative| for labels in [-1, 1]; infinite if there is none.
        smoothness: the largest second derivative; infinite if there is none.
        kernel: the name and the parameter by which compiled kernels know a built-in loss.
        predicts: what a margin says of a label: ``"margin"``, itself; ``"sign"``, the label 1 or -1;
            ``"rate"``, its mean exp(z), z being at most ``ceiling``.
        ceiling: the largest margin of a rate.

    >>> import apportion as ap
    >>> pseudo_huber = Loss(
    ...     "pseudo-Huber",
    ...     value=lambda z, y: math.sqrt(1 + (z - y) ** 2) - 1,
    ...     derivative=lambda z, y: (z - y) / math.sqrt(1 + (z - y) ** 2),
    ...     lipschitz=1.0,
    ...     smoothness=1.0,
    ... )
    >>> data = ap.simulate_tasks(users=500, tasks=5, tasks_per_user=2)
    >>> ap.MultiTaskDescent(epsilon=2.0, loss=pseudo_huber).fit(data).coef_.shape
    (5, 5)
    """

    name: str
    value: Scalar
    derivative: Scalar
    lipschitz: float = math.inf
    smoothness: float = math.inf
    kernel: tuple[str, float] | None = field(default=None, repr=False)
    predicts: Predicts = "margin"
    ceiling: float = math.inf

    def __post_init__(self) -> None:
        word("predicts", self.predicts, ("margin", "sign", "rate"))
        number("lipschitz", self.lipschitz, above=0)
        number("smoothness", self.smoothness, above=0)

    @cached_property
    def address(self) -> int:
        """Of the derivative as machine code, if numba is installed (the extra ``losses``); else 0."""
        try:
            from numba import cfunc, types
            from numba.core.errors import NumbaError
        except ImportError:
            return 0
        signature = types.float64(types.float64, types.float64)
        try:
            # NumPy's division: by zero it gives infinity, which is left out, instead of a message.
            compiled = cfunc(signature, error_model="numpy")(self.derivative)
        except NumbaError as error:
            reason = str(error).splitlines()[0]
            raise ParameterError(
                f"the derivative of the loss {self.name!r} cannot be compiled ({reason}); "
                "use plain arithmetic and math functions on two floats"
            ) from error
        vars(self)["_compiled"] = compiled  # which must live as long as its address
        return int(compiled.address)

    def slopes(self, margin: Array, label: Array) -> Array:
        """The derivative, row by row, [rows]; NaN where it is undefined.

        A function of one row's margin and label: rows of different users cannot meet in it.
        """
        return np.array(
            [self.slope(z, y) for z, y in zip(margin.tolist(), label.tolist(), strict=True)]
        )

    def slope(self, margin: float, label: float) -> float:
        """The derivative of one row; NaN where it is undefined."""
        try:
            return float(self.derivative(margin, label))
        except (ArithmeticError, ValueError):
            return math.nan

    @cached_property
    def prediction(self) -> Prediction:
        """What a margin says of a label."""
        return Prediction(self.name, self.predicts, self.ceiling)

    def predict(self, margin: Array) -> Array:
        """What these margins predict, [rows]."""
        return self.prediction.labels(margin)

    def score(self, margin: Array, label: Array) -> float:
        """How well margins fit labels, [rows] each: 1 is best; see ``Prediction.score``."""
        return self.prediction.score(margin, label)

    def __repr__(self) -> str:
        return f"Loss({self.name!r})"


def squared() -> Loss:
    """(z - y)^2 / 2."""
    return Loss(
        "squared",
        lambda z, y: 0.5 * (z - y) ** 2,
        lambda z, y: z - y,
        smoothness=1.0,
        kernel=("squared", 0.0),
    )


def logistic() -> Loss:
    """log(1 + exp(-y z)), labels -1 and 1."""

    def value(z: float, y: float) -> float:
        return max(-y * z, 0.0) + math.log1p(math.exp(-abs(y * z)))

    def derivative(z: float, y: float) -> float:
        return -y / (1.0 + math.exp(min(y * z, 700.0)))

    return Loss(
        "logistic",
        value,
        derivative,
        lipschitz=1.0,
        smoothness=0.25,
        kernel=("logistic", 0.0),
        predicts="sign",
    )


def hinge(width: float = 0.5) -> Loss:
    """max(0, 1 - y z), its corner rounded over ``width``; labels -1 and 1."""
    width = number("width", width, above=0, at_most=1e6)

    def value(z: float, y: float) -> float:
        gap = 1.0 - y * z
        if gap <= 0.0:
            return 0.0
        return gap * gap / (2.0 * width) if gap < width else gap - width / 2.0

    def derivative(z: float, y: float) -> float:
        return -y * min(max((1.0 - y * z) / width, 0.0), 1.0)

    return Loss(
        f"hinge, rounded over {width:g}",
        value,
        derivative,
        1.0,
        1.0 / width,
        ("hinge", width),
        predicts="sign",
    )


def huber(threshold: float = 1.0) -> Loss:
    """Squared for |z - y| below the threshold, linear above."""
    threshold = number("threshold", threshold, above=0, at_most=1e6)

    def value(z: float, y: float) -> float:
        gap = abs(z - y)
        return gap * gap / 2.0 if gap < threshold else threshold * (gap - threshold / 2.0)

    def derivative(z: float, y: float) -> float:
        return min(max(z - y, -threshold), threshold)

    return Loss(
        f"Huber, threshold {threshold:g}", value, derivative, threshold, 1.0, ("huber", threshold)
    )


def absolute() -> Loss:
    """|z - y|."""

    def derivative(z: float, y: float) -> float:
        return 1.0 if z > y else (-1.0 if z < y else 0.0)

    return Loss(
        "absolute", lambda z, y: abs(z - y), derivative, lipschitz=1.0, kernel=("absolute", 0.0)
    )


def poisson(ceiling: float = 3.0) -> Loss:
    """exp(z) - y z for counts y of rate exp(z), continued linearly above z = ``ceiling``."""
    ceiling = number("ceiling", ceiling, at_least=-50, at_most=50)
    top = math.exp(ceiling)

    def value(z: float, y: float) -> float:
        rate = math.exp(z) if z < ceiling else top * (1.0 + z - ceiling)
        return rate - y * z

    def derivative(z: float, y: float) -> float:
        return math.exp(min(z, ceiling)) - y

    return Loss(
        f"Poisson, rate up to {top:.4g}",
        value,
        derivative,
        top + 1.0,
        top,
        ("poisson", ceiling),
        predicts="rate",
        ceiling=ceiling,
    )


LOSSES: dict[str, Callable[[], Loss]] = {
    "squared": squared,
    "logistic": logistic,
    "hinge": hinge,
    "huber": huber,
    "absolute": absolute,
    "poisson": poisson,
}


def find_loss(loss: str | Loss) -> Loss:
    """A loss by its name, or the loss itself."""
    if isinstance(loss, Loss):
        return loss
    if not isinstance(loss, str) or loss not in LOSSES:
        raise ParameterError(f"loss must be a Loss or one of {', '.join(LOSSES)}, got {loss!r}")
    return LOSSES[loss]()
