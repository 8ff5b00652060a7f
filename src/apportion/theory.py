"""The paper's theorems as functions, and the weights that they ask for."""

from apportion.allocation.theory import *  # noqa: F403
from apportion.allocation.theory import __all__ as __all__
