"""Many models, one per task."""

from apportion.tasks.classifier import MultiTaskClassifier
from apportion.tasks.descent import MultiTaskDescent
from apportion.tasks.losses import Loss
from apportion.tasks.ridge import MultiTaskRidge
from apportion.tasks.schedules import Steps

__all__ = ["Loss", "MultiTaskClassifier", "MultiTaskDescent", "MultiTaskRidge", "Steps"]
