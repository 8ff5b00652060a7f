"""Quality first: the least epsilon for which an error is to be expected."""

import math
from collections.abc import Callable

from apportion.errors import ParameterError
from apportion.privacy import PrivacyTarget, epsilon_from_mu
from apportion.privacy.gaussian import LARGEST_MU
from apportion.recommend.planner import Forecast


class OutOfReachError(ParameterError):
    """No epsilon that is allowed reaches an error; ``best`` is the forecast at the largest, ``epsilon``."""

    def __init__(self, message: str, epsilon: float, best: Forecast) -> None:
        super().__init__(message)
        self.epsilon, self.best = epsilon, best


# Below this next to nothing is learned; and how closely epsilon is found, relative to itself.
_LEAST_MU, _CLOSE = 1e-3, 1e-3


def least_epsilon(
    forecast: Callable[[PrivacyTarget], Forecast], error: float, delta: float
) -> tuple[float, Forecast]:
    """The least epsilon whose best forecast is no worse than this error, and that forecast.

    An ``OutOfReachError`` if no epsilon that is allowed reaches it; it names the best that one may expect.
    """

    def at(mu: float) -> tuple[float, Forecast]:
        epsilon = epsilon_from_mu(mu, delta)
        return epsilon, forecast(PrivacyTarget(epsilon, delta))

    low, high = _LEAST_MU, LARGEST_MU * (1 - 1e-6)
    found = at(high)
    if found[1].error > error:
        raise OutOfReachError(
            f"no epsilon up to {found[0]:.3g} is expected to reach this: the best forecast there is "
            f"{found[1].error / error:.3g} times as large. More users or rows would help",
            *found,
        )
    while high / low > 1 + _CLOSE:
        middle = math.sqrt(low * high)
        tried = at(middle)
        if tried[1].error <= error:
            high, found = middle, tried
        else:
            low = middle
    return found
