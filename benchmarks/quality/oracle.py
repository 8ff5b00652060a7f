"""The best of many random settings, chosen with validation rows that no privacy budget pays for.

What is searched is written down here: for the default's own method (the oracle), and for the paper's
AdaDPALS and AdaDPSGD (``ap.presets.algorithm_3``). A trial draws each line independently from
``default_rng([seed of the set and epsilon, number of the trial])``, so more trials go on from fewer.
"""

import math
import zlib
from typing import Any, Literal

import numpy as np

import apportion as ap
from benchmarks.quality.methods import DELTA, Feedback

TRIALS, SHORT_TRIALS = 40, 8

Method = Literal["oracle", "AdaDPALS", "AdaDPSGD"]
METHODS: tuple[Method, ...] = ("oracle", "AdaDPALS", "AdaDPSGD")

# (lowest, highest) of a number whose logarithm is uniform, or a list of equally likely values.
Space = dict[str, tuple[float, float] | list[Any]]
COMMON: Space = {
    "factors": [2, 4, 8, 16, 32, 48, 64, 96, 128, 192, 256, 384, 512],
    "sweeps": [1, 2, 3, 4, 5, 6, 8],
    "bounds__feature": (0.05, 1.0),
    "allocation": [0.0, 0.1, 0.2, 0.3, 0.5],
}
EXPLICIT: Space = {
    **COMMON,
    "regularization__items": (1e-3, 3.0),
    "regularization__users": (1e-3, 30.0),
    "regularization__exponent": [0.0, 0.25, 0.5, 0.75, 1.0],
    "offsets__intercept_share": [0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 0.9],
    "bounds__label_share": (0.1, 0.5),
}
IMPLICIT: Space = {
    **COMMON,
    "regularization__items": (0.01, 30.0),
    "regularization__users": (0.01, 30.0),
    "regularization__unobserved_weight": (0.01, 1.0),
}
# Of the paper's methods: a matrix for every item makes many factors slow.
PAPER_EXPLICIT: Space = {
    "factors": [2, 4, 8, 16, 32, 64],
    "sweeps": [1, 2, 3, 4, 6],
    "exponent": [0.0, 0.25, 0.5],
    "regularization": (1e-3, 3.0),
    "feature_bound": (0.05, 1.0),
    "bounds__label_share": (0.1, 0.5),
}
PAPER_IMPLICIT: Space = {
    **{name: PAPER_EXPLICIT[name] for name in ("factors", "sweeps", "exponent", "feature_bound")},
    "regularization": (0.01, 30.0),
    "unobserved_weight": (0.01, 1.0),
}


def methods_at(epsilon: float) -> tuple[Method, ...]:
    """Those that are searched at this epsilon: the paper's are private."""
    return ("oracle",) if math.isinf(epsilon) else METHODS


def trial(
    name: str,
    feedback: Feedback,
    rating_range: tuple[float, float] | None,
    epsilon: float,
    number: int,
    method: Method = "oracle",
) -> dict[str, Any]:
    """The settings of a trial, as plain values."""
    own = method == "oracle"
    what = f"{name} {epsilon}" if own else f"{method} {name} {epsilon}"
    rng = np.random.default_rng([zlib.crc32(what.encode()), number])
    found: dict[str, Any] = {}
    explicit, implicit = (EXPLICIT, IMPLICIT) if own else (PAPER_EXPLICIT, PAPER_IMPLICIT)
    for setting, values in (explicit if feedback == "explicit" else implicit).items():
        if isinstance(values, list):
            found[setting] = values[int(rng.integers(len(values)))]
        else:
            low, high = (math.log(value) for value in values)
            found[setting] = math.exp(rng.uniform(low, high))
    if rating_range is not None and "bounds__label_share" in found:
        share = found.pop("bounds__label_share")
        label = "bounds__label" if own else "label_bound"
        found[label] = share * (rating_range[1] - rating_range[0])
    if math.isinf(epsilon):
        found["sweeps"] = [5, 10, 15][int(rng.integers(3))]
    return found


def model(
    feedback: Feedback,
    epsilon: float,
    seed: int,
    settings: dict[str, Any],
    method: Method = "oracle",
) -> ap.MatrixFactorization:
    """A model of these settings."""
    settings = dict(settings)
    if method != "oracle":
        return ap.presets.algorithm_3(
            epsilon,
            DELTA,
            feedback=feedback,
            solver="ssp" if method == "AdaDPALS" else "descent",
            allocation=ap.presets.weights(settings.pop("exponent")),
            seed=seed,
            noise_seed=seed,
            **settings,
        )
    allocation = ap.AdaptiveWeights(settings.pop("allocation"))
    made = ap.MatrixFactorization(
        feedback=feedback, epsilon=epsilon, delta=DELTA, seed=seed, noise_seed=seed,
        allocation=allocation, regularization=ap.Regularization(),
    )  # fmt: skip
    return made.set_params(**settings)
