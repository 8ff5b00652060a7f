"""Where the sums over users are computed. Raw sums go from here into a release and nowhere else."""

from apportion.engine.base import Engine, TaskRows, UserRows
from apportion.engine.cpu import CpuEngine

__all__ = ["CpuEngine", "Engine", "TaskRows", "UserRows"]
