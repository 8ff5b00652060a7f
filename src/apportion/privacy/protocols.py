"""Whom the kernel talks to without knowing them: who pays for releases, and who remembers sums."""

from collections.abc import Sequence
from typing import Any, Protocol

from apportion.privacy.ledger import Record


class Payer(Protocol):
    """What one training has set aside of a budget (``accounts.budget.Reservation``)."""

    @property
    def token(self) -> str:
        """The name of this training in the budget."""

    def tie(self, key: str) -> None:
        """Tie the training to a noise key, by its digest; refuse by an error another one than before."""

    def sampled_mu(self, steps: int, sampling_rate: float) -> float:
        """The mu (as if all users took part) that is set aside for a release to sampled users."""

    def commit(self, records: Sequence[Record]) -> None:
        """Pay for a release, durably, before any of its values are returned; or refuse by an error."""

    def settle(self) -> None:
        """The training ends: it can release nothing more, and what it did not use is given back."""


class Witness(Protocol):
    """Who remembers the sums to which noise is added (``accounts.checkpoint.Checkpoint``)."""

    def __call__(self, record: Record, step: int, first_task: int, *sums: Any) -> None:
        """Told before noise is drawn for these sums; refuses by an error what was another sum before."""
