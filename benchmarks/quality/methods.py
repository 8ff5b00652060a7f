"""What is compared: the defaults, and the paper's AdaDPALS and AdaDPSGD (``ap.presets``)."""

import math
from collections.abc import Callable
from typing import Any, Literal

import apportion as ap

DELTA = 1e-5
Feedback = Literal["explicit", "implicit"]
Make = Callable[[Feedback, float, int], ap.MatrixFactorization]


def default(feedback: Feedback, epsilon: float, seed: int) -> ap.MatrixFactorization:
    """Nothing but the budget is set."""
    return ap.MatrixFactorization(
        feedback=feedback, epsilon=epsilon, delta=DELTA, seed=seed, noise_seed=seed
    )


def _paper(solver: Literal["ssp", "descent"]) -> Make:
    def make(feedback: Feedback, epsilon: float, seed: int) -> ap.MatrixFactorization:
        settings: dict[str, Any] = {"solver": solver, "seed": seed, "noise_seed": seed}
        # About what the paper takes for ML-10M and ML-20M: more where there is more budget.
        small = epsilon < 3
        settings |= {"factors": 8 if small else 32, "sweeps": 2 if small else 4}
        if feedback == "implicit":
            settings |= {"factors": 64, "regularization": 1.0}
        return ap.presets.algorithm_3(epsilon, DELTA, feedback=feedback, **settings)

    return make


METHODS: dict[str, Make] = {
    "default": default,
    "AdaDPALS": _paper("ssp"),
    "AdaDPSGD": _paper("descent"),
}


def of(epsilon: float) -> dict[str, Make]:
    """Those that are compared at this epsilon."""
    return {"default": default} if math.isinf(epsilon) else METHODS
