"""Data in: who takes part in what, with which features and labels; checked once, here."""

from apportion.data.folds import UserKFold
from apportion.data.graph import Graph
from apportion.data.interactions import Interactions
from apportion.data.simulate import SHAPES, simulate_interactions, simulate_tasks
from apportion.data.splits import HeldOut
from apportion.data.tasks import TaskData

__all__ = [
    "SHAPES",
    "Graph",
    "HeldOut",
    "Interactions",
    "TaskData",
    "UserKFold",
    "simulate_interactions",
    "simulate_tasks",
]
