"""Public data sets: reading their original archives, and fetching them."""

from apportion.data.datasets import *  # noqa: F403
from apportion.data.datasets import __all__ as __all__
