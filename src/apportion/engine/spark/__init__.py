"""Sums over users whose rows lie in the partitions of a Spark cluster."""

from apportion.engine.spark.engine import SparkEngine

__all__ = ["SparkEngine"]
