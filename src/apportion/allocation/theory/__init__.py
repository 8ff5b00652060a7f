"""The paper's theorems as functions, and the weights that they ask for: ``ap.theory``.

Theorems and equations are called by the numbers that the paper's LaTeX source yields;
``docs/explanation/paper.md`` lists them all.
"""

from apportion.accounts.rdp import (
    epsilon_from_rdp,
    rdp_budget,
    rdp_curve,
    sufficient_budget,
)
from apportion.allocation.optimal import solve_task_weights
from apportion.allocation.theory.bounds import (
    adaptive_bound_convex,
    adaptive_bound_ssp,
    adaptive_bound_strongly_convex,
    approximate_bound_ssp,
    descent_bound_convex,
    descent_bound_strongly_convex,
    descent_rates_convex,
    descent_rates_strongly_convex,
    descent_steps_convex,
    descent_steps_strongly_convex,
    improvement_convex,
    improvement_strongly_convex,
    optimal_task_weights,
    ssp_bound,
)
from apportion.allocation.theory.concentration import (
    concentration_bound,
    largest_part,
    largest_spending,
    lemma_holds,
    measured_concentration,
    objective,
)

__all__ = [
    "adaptive_bound_convex",
    "adaptive_bound_ssp",
    "adaptive_bound_strongly_convex",
    "approximate_bound_ssp",
    "concentration_bound",
    "descent_bound_convex",
    "descent_bound_strongly_convex",
    "descent_rates_convex",
    "descent_rates_strongly_convex",
    "descent_steps_convex",
    "descent_steps_strongly_convex",
    "epsilon_from_rdp",
    "improvement_convex",
    "improvement_strongly_convex",
    "largest_part",
    "largest_spending",
    "lemma_holds",
    "measured_concentration",
    "objective",
    "optimal_task_weights",
    "rdp_budget",
    "rdp_curve",
    "solve_task_weights",
    "ssp_bound",
    "sufficient_budget",
]
