"""What is compared: nothing but the defaults. What is searched for is in ``oracle.py``."""

from typing import Literal

import apportion as ap

DELTA = 1e-5
Feedback = Literal["explicit", "implicit"]


def default(feedback: Feedback, epsilon: float, seed: int) -> ap.MatrixFactorization:
    """Nothing but the budget is set."""
    return ap.MatrixFactorization(
        feedback=feedback, epsilon=epsilon, delta=DELTA, seed=seed, noise_seed=seed
    )
