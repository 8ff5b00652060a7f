"""What keeps count beyond one training: the budget, the checkpoint and the privacy report."""

from apportion.accounts.budget import Budget
from apportion.accounts.report import PrivacyReport

__all__ = ["Budget", "PrivacyReport"]
