"""Data in: who takes part in what, with which features and labels; checked once, here."""

from apportion.data.graph import Graph
from apportion.data.interactions import HeldOut, Interactions
from apportion.data.simulate import simulate_tasks
from apportion.data.tasks import TaskData

__all__ = ["Graph", "HeldOut", "Interactions", "TaskData", "simulate_tasks"]
