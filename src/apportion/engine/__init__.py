"""Where users' rows live, and where sums over users are computed."""

from apportion.engine.base import Engine, Session
from apportion.engine.choice import find_engine
from apportion.engine.cpu import CpuEngine
from apportion.engine.reference import ReferenceEngine
from apportion.engine.spark import SparkEngine

__all__ = ["CpuEngine", "Engine", "ReferenceEngine", "Session", "SparkEngine", "find_engine"]
