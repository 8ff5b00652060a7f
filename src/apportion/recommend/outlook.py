"""What to expect of a training at other epsilons, from what was released once: a forecast for each."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from apportion.recommend.factorization import MatrixFactorization
from apportion.recommend.planner import Forecast
from apportion.recommend.preparation import Preparation
from apportion.recommend.prepare import kind_of

EPSILONS = (0.3, 0.5, 1.0, 2.0, 3.0, 5.0, 10.0, 20.0, 40.0)
# For events the size of a model is known up to here; nearly all can be learned then.
_HARDLY_ANY_NOISE, _HARDLY_ANYTHING = 60.0, 1e-3


@dataclass(frozen=True)
class Outlook:
    """The best forecast at each epsilon, and what to compare them with.

    Attributes
        epsilons: ascending.
        forecasts: the best at each of them.
        nothing: if hardly anything could be learned.
        everything: without privacy; for events at an epsilon of 60.
    """

    epsilons: tuple[float, ...]
    forecasts: tuple[Forecast, ...]
    nothing: Forecast
    everything: Forecast


def outlook(
    model: MatrixFactorization, preparation: Preparation, epsilons: Sequence[float] = EPSILONS
) -> Outlook:
    """Forecasts for a model with its other settings; nothing is spent. Its own epsilon is one of them.

    What was released is taken as it is: with another epsilon its noise would have been another.
    """
    wanted = sorted({*epsilons, *([model.epsilon] if math.isfinite(model.epsilon) else [])})

    def best(epsilon: float) -> Forecast:
        other = type(model)(**{**model.get_params(deep=False), "epsilon": epsilon})
        known = replace(preparation, training=kind_of(other._settings(None)))
        return other.forecasts(known)[0]

    most = math.inf if model.feedback == "explicit" else _HARDLY_ANY_NOISE
    return Outlook(
        tuple(wanted),
        tuple(map(best, wanted)),
        nothing=best(_HARDLY_ANYTHING),
        everything=best(most),
    )
