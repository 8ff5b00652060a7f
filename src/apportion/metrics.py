"""How good a recommender is, overall and by popularity."""

from apportion.recommend.metrics import *  # noqa: F403
from apportion.recommend.metrics import __all__ as __all__
