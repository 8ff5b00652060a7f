"""How good a recommender is, overall and by popularity. One file a metric.

Items fall into buckets of equally many by their training counts: bucket 0 is the tail. A bucket in
which nothing can be measured is NaN.
"""

from apportion.recommend.metrics.overlap import neighbor_overlap
from apportion.recommend.metrics.ranking import RankingMetrics, ranking_metrics
from apportion.recommend.metrics.ratings import RatingMetrics, rating_metrics

__all__ = [
    "RankingMetrics",
    "RatingMetrics",
    "neighbor_overlap",
    "ranking_metrics",
    "rating_metrics",
]
