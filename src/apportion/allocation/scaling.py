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

    def scaled(unit: Any, norm: Any, largest: Any, own: Any) -> Any:
        scale = np.divide(1.0, norm, out=np.zeros_like(norm), where=largest > 0)
        return unit * scale[own] * (1 - MARGIN)

    return UserWeights(user, task, _weigh_users(user, task, raw, scaled))


def clipped(user: Integers, task: Integers, raw: Floats) -> UserWeights:
    """Scale down the raw weights of those users whose sum of squares is above one."""
    limit = 1 - MARGIN

    def scaled(unit: Any, norm: Any, largest: Any, own: Any) -> Any:
        most = np.divide(limit, norm, where=norm > 0, out=norm * 0)
        return unit * np.where(norm * largest > limit, most, largest)[own]

    return UserWeights(user, task, _weigh_users(user, task, raw, scaled))


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
        norm = np.sqrt(np.bincount(own, weights=unit * unit))
        weights[pairs] = scaled(unit, norm, largest, own)
    return weights
