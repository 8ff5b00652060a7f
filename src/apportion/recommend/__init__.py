"""Recommenders whose items may be published, trained under user-level differential privacy."""

from apportion.recommend.catalogue import MostFrequent, PrivateCatalogue
from apportion.recommend.factorization import MatrixFactorization
from apportion.recommend.files import load
from apportion.recommend.recommender import ItemModel, Recommender, UserStep

__all__ = [
    "ItemModel",
    "MatrixFactorization",
    "MostFrequent",
    "PrivateCatalogue",
    "Recommender",
    "UserStep",
    "load",
]
