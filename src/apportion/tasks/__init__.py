"""Many models, one per task."""

from apportion.tasks.ridge import MultiTaskRidge

__all__ = ["MultiTaskRidge"]
