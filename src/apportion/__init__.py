"""Apportion: user-level differentially private multi-task learning and recommendation.

>>> import apportion as ap
>>> data = ap.simulate_interactions(users=500, items=40, rows=8000)
>>> model = ap.MatrixFactorization(factors=4, epsilon=1.0, delta=1e-5).fit(data)
>>> model.privacy.private
True
>>> items, scores = model.recommend({3: 5.0, 7: 1.0}, k=5)
"""

import logging

from apportion import datasets, metrics, theory
from apportion.accounts import Budget, PrivacyReport
from apportion.allocation import (
    AdaptiveWeights,
    Allocation,
    OptimalWeights,
    PrivateCounts,
    PublicCounts,
    TailSampling,
    UniformSampling,
    UniformWeights,
)
from apportion.data import Interactions, TaskData, UserKFold, simulate_interactions, simulate_tasks
from apportion.engine import CpuEngine, Engine, ReferenceEngine, SparkEngine
from apportion.errors import (
    ApportionError,
    BudgetExceededError,
    BudgetFileError,
    CheckpointError,
    DataError,
    NotFittedError,
    ParameterError,
    ReleaseError,
)
from apportion.privacy import PrivacyTarget, delta_from_epsilon, epsilon_from_mu, mu_from_epsilon
from apportion.recommend import (
    Bounds,
    Evaluation,
    GradientDescent,
    MatrixFactorization,
    MostFrequent,
    Offsets,
    PrivateCatalog,
    Recommender,
    Regularization,
    Shares,
    SufficientStatistics,
    evaluate,
    load,
    presets,
)
from apportion.tasks import Loss, MultiTaskClassifier, MultiTaskDescent, MultiTaskRidge, Steps
from apportion.version import __version__

logging.getLogger(__name__).addHandler(logging.NullHandler())

__all__ = [
    "AdaptiveWeights",
    "Allocation",
    "ApportionError",
    "Bounds",
    "Budget",
    "BudgetExceededError",
    "BudgetFileError",
    "CheckpointError",
    "CpuEngine",
    "DataError",
    "Engine",
    "Evaluation",
    "GradientDescent",
    "Interactions",
    "Loss",
    "MatrixFactorization",
    "MostFrequent",
    "MultiTaskClassifier",
    "MultiTaskDescent",
    "MultiTaskRidge",
    "NotFittedError",
    "Offsets",
    "OptimalWeights",
    "ParameterError",
    "PrivacyReport",
    "PrivacyTarget",
    "PrivateCatalog",
    "PrivateCounts",
    "PublicCounts",
    "Recommender",
    "ReferenceEngine",
    "Regularization",
    "ReleaseError",
    "Shares",
    "SparkEngine",
    "Steps",
    "SufficientStatistics",
    "TailSampling",
    "TaskData",
    "UniformSampling",
    "UniformWeights",
    "UserKFold",
    "__version__",
    "datasets",
    "delta_from_epsilon",
    "epsilon_from_mu",
    "evaluate",
    "load",
    "metrics",
    "mu_from_epsilon",
    "presets",
    "simulate_interactions",
    "simulate_tasks",
    "theory",
]
