"""The paper's three algorithms as it writes them, wherever that is sound: ``ap.presets``.

Every setting is fixed here, so that none moves with our defaults. What differs from the paper's text is what
its privacy proofs leave out, changed as little as possible (``docs/explanation/paper.md`` has the list):

- lambda I is not a part of the sums that are released, but added afterwards, times released sums of weights.
- A user's gradients are clipped before they are weighted and summed, not the sum.
- Counts, means and everything else that is used come from releases that epsilon pays for.
- Noise follows from epsilon and delta exactly (mu-GDP), not by way of Renyi divergences.
"""

from typing import Literal

from apportion.allocation import AdaptiveWeights, Allocation, PrivateCounts
from apportion.allocation.counts import Counts
from apportion.recommend.factorization import MatrixFactorization
from apportion.recommend.groups import (
    Bounds,
    GradientDescent,
    Offsets,
    Regularization,
    Shares,
    SufficientStatistics,
)
from apportion.tasks import Loss, MultiTaskDescent, MultiTaskRidge, Steps

# A sample of each user's rows is counted: section D.1 has 12 to 20 % of the budget for it, the authors' code
# 100 rows.
COUNTS = PrivateCounts(share=0.12, cap=100, method="sample", floor=0.0, over_estimate=False)


def weights(exponent: float, users: int | None = None, counts: Counts = COUNTS) -> AdaptiveWeights:
    """Equations 11 and 12 for a public number of users; without one, scaled user by user (section C)."""
    mode: Literal["normalize", "clip"] = "normalize" if users is None else "clip"
    return AdaptiveWeights(exponent, mode, counts, users, concentration=None)


def algorithm_1(
    epsilon: float = 1.0,
    delta: float = 1e-5,
    *,
    exponent: float = 0.5,
    users: int | None = None,
    feature_bound: float = 1.0,
    solution_bound: float = 1.0,
    regularization: float = 0.0,
    counts: Counts = COUNTS,
    noise_seed: int | None = None,
) -> MultiTaskRidge:
    """Algorithm 1, task-weighted sufficient statistics, without anything against the noise of A.

    A_i and b_i get half of the budget each, A_i is projected on the positive semi-definite matrices, and
    theta_i is its pseudo-inverse times b_i.

    Args:
        epsilon, delta: the privacy budget.
        exponent: mu; 1/2 is the paper's choice for this algorithm.
        users: n, a public figure, for the weights of equations 11 and 12; by default weights are scaled
            user by user, as in the paper's own experiment (section C).
        feature_bound, solution_bound: Gamma_x and Gamma_*; labels are clipped to their product.
        regularization: lambda of equation 4.
        counts: where task sizes come from.
        noise_seed: fixes the noise; the model is then NOT PRIVATE.

    >>> algorithm_1(exponent=0.25).statistics
    'per-task'
    """
    return MultiTaskRidge(
        epsilon,
        delta,
        feature_bound=feature_bound,
        label_bound=feature_bound * solution_bound,
        feature_ranges=None,
        intercept=False,
        regularization=regularization,
        regularization_per="user",
        statistics="per-task",
        noise_ridge=0.0,
        gram_share=0.5,
        allocation=weights(exponent, users, counts),
        noise_seed=noise_seed,
    )


def algorithm_2(
    epsilon: float = 1.0,
    delta: float = 1e-5,
    *,
    users: int,
    loss: str | Loss = "squared",
    exponent: float | None = None,
    regularization: float = 0.0,
    gradient_bound: float = 1.0,
    diameter: float = 2.0,
    feature_bound: float = 1.0,
    label_bound: float = 1.0,
    counts: Counts = COUNTS,
    noise_seed: int | None = None,
) -> MultiTaskDescent:
    """Algorithm 2, task-weighted noisy gradient descent, with the steps of Theorem 3.12.

    Without strong convexity part (a): projected steps of size eta / sqrt(t). With it part (b): every user
    brings lambda / 2 |theta|^2, and steps are 1 / (omega_i n_i lambda t), as in the proof (the theorem prints
    omega_i^2). T is the theorem's, and the last iterate is returned. It may be very many steps: a warning
    says how many before the first.

    Args:
        epsilon, delta: the privacy budget.
        users: n, a public figure.
        loss: of Assumption 3.9.
        exponent: mu; by default 1/4, or 1/2 with strong convexity.
        regularization: lambda.
        gradient_bound: Gamma; each row's gradient is clipped to it.
        diameter: |C|, of the ball that models stay in.
        feature_bound, label_bound: public bounds of the data.
        counts: where task sizes come from.
        noise_seed: fixes the noise; the model is then NOT PRIVATE.

    >>> algorithm_2(users=1000, regularization=0.1).allocation.exponent
    0.5
    """
    if exponent is None:
        exponent = 0.5 if regularization else 0.25
    return MultiTaskDescent(
        epsilon,
        delta,
        loss=loss,
        feature_bound=feature_bound,
        label_bound=label_bound,
        feature_ranges=None,
        intercept=False,
        gradient_bound=gradient_bound,
        regularization=regularization,
        regularization_per="user",
        radius=diameter / 2,
        steps=Steps(
            "theory",
            schedule="theory",
            learning_rate=None,
            momentum=0.0,
            average=0.0,
            clip="row",
            sampling_rate=1.0,
            users=users,
        ),
        allocation=weights(exponent, users, counts),
        noise_seed=noise_seed,
    )


def algorithm_3(
    epsilon: float = 1.0,
    delta: float = 1e-5,
    *,
    feedback: Literal["explicit", "implicit"] = "explicit",
    solver: Literal["ssp", "descent"] = "ssp",
    factors: int = 32,
    sweeps: int = 3,
    allocation: Allocation | None = None,
    regularization: float = 0.05,
    unobserved_weight: float = 0.2,
    feature_bound: float = 0.5,
    label_bound: float | None = None,
    seed: int = 0,
    noise_seed: int | None = None,
) -> MatrixFactorization:
    """Algorithm 3, alternating minimization: AdaDPALS, DPALS, AdaDPSGD and DPSGD of Table 2.

    A matrix for every item, half of a sweep's budget each for A and b, no ridge for the noise, users' vectors
    and ratings clipped, one released mean, no intercepts.

    Args:
        epsilon, delta: the privacy budget.
        feedback: ratings (ML-10M) or events (ML-20M, MSD).
        solver: of line 5, Algorithm 1 or Algorithm 2.
        factors, sweeps: d and T.
        allocation: by default adaptive weights of exponent 1/4; ``ap.UniformSampling(k)`` and
            ``ap.TailSampling(k)`` are the paper's baselines.
        regularization: lambda, of every row's user and item.
        unobserved_weight: for events, of pairs without one; the authors' code has it, the paper does not.
        feature_bound: Gamma_x, of users' vectors.
        label_bound: of centered ratings, half of the rating range by default.
        seed: for the first item factors.
        noise_seed: fixes the noise; the model is then NOT PRIVATE.

    >>> model = algorithm_3(allocation=weights(1 / 3))
    >>> model.solver.matrices, model.offsets.intercept_share
    ('per-item', 0.0)
    """
    explicit = feedback == "explicit"
    return MatrixFactorization(
        factors,
        sweeps,
        feedback,
        epsilon=epsilon,
        delta=delta,
        allocation=weights(0.25) if allocation is None else allocation,
        solver=(
            SufficientStatistics("per-item", "row", gram_share=0.5, noise_ridge=0.0)
            if solver == "ssp"
            else GradientDescent(steps=5, gradient_bound=None, learning_rate=0.25)
        ),
        catalog="public",
        regularization=Regularization(
            items=regularization,
            users=regularization,
            exponent=1.0,
            unobserved_weight=0.0 if explicit else unobserved_weight,
            validation_share=0.03,  # not spent: the users' penalty is given
        ),
        bounds=Bounds(feature=feature_bound, label=label_bound, normalize=False),
        offsets=Offsets(center="global", mean_share=0.02, intercept_share=0.0),
        shares=Shares(gramian=0.05, weights=0.02, users=0.005),
        engine="auto",
        seed=seed,
        noise_seed=noise_seed,
    )
