"""Recommenders whose items may be published, trained under user-level differential privacy."""

from apportion.recommend import presets
from apportion.recommend.catalog import MostFrequent, PrivateCatalog
from apportion.recommend.evaluation import Evaluation
from apportion.recommend.factorization import MatrixFactorization
from apportion.recommend.fold_in import FoldIn
from apportion.recommend.groups import (
    Bounds,
    GradientDescent,
    Offsets,
    Regularization,
    Shares,
    SufficientStatistics,
)
from apportion.recommend.judging import evaluate
from apportion.recommend.loading import load
from apportion.recommend.model import ItemModel
from apportion.recommend.recommender import Recommender

__all__ = [
    "Bounds",
    "Evaluation",
    "FoldIn",
    "GradientDescent",
    "ItemModel",
    "MatrixFactorization",
    "MostFrequent",
    "Offsets",
    "PrivateCatalog",
    "Recommender",
    "Regularization",
    "Shares",
    "SufficientStatistics",
    "evaluate",
    "load",
    "presets",
]
