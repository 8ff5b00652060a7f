"""Renyi differential privacy beside the exact accounting, in the paper's terms. Nothing is accounted by it.

A mu-GDP training is (alpha, alpha beta)-RDP for all alpha > 1 with beta = mu^2 / 2 (Mironov 2017, Proposition
7): beta is the paper's user RDP budget (Remark 3.4), and mu^2 / 2 the largest one that an epsilon allows.
"""

import math

from apportion.checks import number
from apportion.errors import ParameterError
from apportion.privacy.gaussian import check_delta, check_epsilon


def rdp_budget(mu: float) -> float:
    """beta = mu^2 / 2 of a mu-GDP training: it is (alpha, alpha beta)-RDP for all alpha > 1.

    >>> from apportion import mu_from_epsilon
    >>> round(rdp_budget(mu_from_epsilon(1.0, 1e-5)), 4)
    0.0359
    """
    if mu == math.inf:
        return math.inf
    return number("mu", mu, at_least=0, at_most=1e6) ** 2 / 2


def rdp_curve(beta: float, order: float) -> float:
    """rho = alpha beta: the Renyi divergence of an order alpha > 1 that a budget beta allows."""
    return number("order", order, above=1) * number("beta", beta, at_least=0)


def epsilon_from_rdp(beta: float, delta: float) -> float:
    """The epsilon that RDP's conversion gives (Mironov 2017, Proposition 3): an upper bound, not exact.

    The least of alpha beta + log(1 / delta) / (alpha - 1) over alpha, beta + 2 sqrt(beta log(1 / delta)).

    >>> round(epsilon_from_rdp(0.0359, 1e-5), 3)
    1.322
    """
    beta = number("beta", beta, at_least=0)
    return beta + 2 * math.sqrt(beta * math.log(1 / check_delta(delta)))


def sufficient_budget(epsilon: float, delta: float) -> float:
    """The beta below Theorem 3.3, epsilon^2 / (8 log(1 / delta)): enough for epsilon <= log(1 / delta).

    >>> round(sufficient_budget(1.0, 1e-5), 4)
    0.0109
    """
    epsilon, log = check_epsilon(epsilon), math.log(1 / check_delta(delta))
    if epsilon > log:
        raise ParameterError(
            f"the paper's condition is for epsilon <= log(1 / delta) = {log:.4g}, got {epsilon:g}"
        )
    return epsilon**2 / (8 * log)
