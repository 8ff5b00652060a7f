"""Raw weights brought to every user's budget. ``UserWeights`` checks the result, whatever is done here."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from apportion.checks import float_array, whole_array
from apportion.privacy import UserWeights
from apportion.privacy.bounds import MARGIN, Floats, Integers, blocks_of_users, check_pairs


def normalized(user: Integers, task: Integers, raw: Floats) -> UserWeights:
    """Scale each user's raw weights to its whole budget: sum of squares exactly one."""

    def scaled(unit: Any, norm: Any, _largest: Any, own: Any) -> Any:
        return unit * (1.0 / norm)[own] * (1 - MARGIN)

    return UserWeights(user, task, _weigh_users(user, task, raw, scaled))


def clipped(user: Integers, task: Integers, raw: Floats) -> UserWeights:
    """Scale down the raw weights of those users whose sum of squares is above one."""

    def scaled(unit: Any, norm: Any, largest: Any, own: Any) -> Any:
        return unit * np.minimum((1 - MARGIN) / norm, largest)[own]

    return UserWeights(user, task, _weigh_users(user, task, raw, scaled))


def emphasized(weights: UserWeights, confidence: Floats) -> UserWeights:
    """Weights in proportion to w_ij c_ij, every user's of the same norm as before.

    **Guarantee.** Confidences c_ij [pairs], above 0 and at most 1, decide which of its tasks a user's budget
    goes to, not how much there is of it.

    **Sensitivity.** A user's new weights are w'_ij = |w_j| w_ij c_ij / |(w_ij c_ij)_i|, |w_j| being the norm
    of its old ones: sum over i of w'_ij^2 = |w_j|^2 <= 1 whatever the confidences are. Every bound that
    follows from sum over i of w_ij^2 <= 1 holds as it is. They depend on that user's own rows alone.

    **Assumes public.** Nothing more: the largest weight of a pair (``weight_bound``) only says what c_ij is.

    >>> import numpy as np
    >>> both = normalized(np.array([0, 0]), np.array([0, 1]), np.ones(2))
    >>> emphasized(both, np.array([1.0, 0.75])).values.round(6)
    array([0.8, 0.6])
    """
    user, task = weights.user, weights.task
    confidence = float_array("confidences", confidence)
    norms = weights.part_norms(np.ones(len(user)))
    raised = normalized(user, task, weights.values * confidence)
    return UserWeights(user, task, raised.values * norms[user])


def _weigh_users(
    user: Integers, task: Integers, raw: Floats, scaled: Callable[..., Any]
) -> NDArray[np.float64]:
    """Weights of all pairs, from raw ones over their user's largest, the norm of those, and that largest."""
    user, task = whole_array("user", user), whole_array("task", task)
    raw = float_array("weights", raw)
    check_pairs(user, task, raw)
    weights = np.empty(len(raw))
    for pairs, own in blocks_of_users(user):
        part = raw[pairs]
        largest = np.zeros(int(own[-1]) + 1)
        np.maximum.at(largest, own, part)
        unit = np.divide(part, largest[own], out=np.zeros_like(part), where=part > 0)
        # At least one, the largest's own square, where any is above zero.
        norm = np.sqrt(np.maximum(np.bincount(own, weights=unit * unit), 1.0))
        weights[pairs] = scaled(unit, norm, largest, own)
    return weights
